/* A driver of the right version that lacks nearly everything. */
int cuDriverGetVersion(int* version) {
  *version = 12000;
  return 0;
}
