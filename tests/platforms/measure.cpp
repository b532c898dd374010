// The part of apps/android that is not of Android: reprise_measure PACKAGE.
#include "apps/android/app/src/main/cpp/measure.h"

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::puts(reprise::sample::measure(reprise::Package::open(argv[1]), "").c_str());
  return 0;
}
