// Stands in for NVRTC of one version where a test is about which one is taken, or about failures:
// a text compiles to PTX that names it, unless it says #error or the environment forbids all.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct Program {
  int refused;
  char image[80];
};

static const char kRefused[] = "k.cu(1): error: refused\n";

const char* nvrtcGetErrorString(int error) {
  return error ? "NVRTC_ERROR_COMPILATION" : "NVRTC_SUCCESS";
}

int nvrtcVersion(int* major, int* minor) {
  *major = FAKE_MAJOR;
  *minor = 7;
  return 0;
}

static const int kArchs[] = {75, 80, 90, FAKE_NEWEST};

int nvrtcGetNumSupportedArchs(int* count) {
  *count = sizeof kArchs / sizeof kArchs[0];
  return 0;
}

int nvrtcGetSupportedArchs(int* archs) {
  memcpy(archs, kArchs, sizeof kArchs);
  return 0;
}

int nvrtcCreateProgram(struct Program** program, const char* text, const char* name, int headers,
                       const char* const* header_texts, const char* const* header_names) {
  (void)name, (void)headers, (void)header_texts, (void)header_names;
  *program = malloc(sizeof **program);
  if (*program == NULL) return 1;
  // As much of PTX as the driver of the tests looks at.
  unsigned long hash = 5381;
  for (const char* c = text; *c; ++c) hash = hash * 33 + (unsigned char)*c;
  snprintf((*program)->image, sizeof (*program)->image, ".version 8.0\n.target sm_75\n// %016lx\n",
           hash);
  (*program)->refused = strstr(text, "#error") != NULL || getenv("FAKE_NVRTC_REFUSES") != NULL;
  return 0;
}

int nvrtcDestroyProgram(struct Program** program) {
  free(*program);
  *program = NULL;
  return 0;
}

int nvrtcCompileProgram(struct Program* program, int count, const char* const* options) {
  (void)count, (void)options;
  return program->refused ? 6 : 0;
}

static int copy(char* out, const char* from, size_t bytes) {
  memcpy(out, from, bytes);
  return 0;
}

static int set(size_t* out, size_t bytes) {
  *out = bytes;
  return 0;
}

int nvrtcGetPTXSize(struct Program* p, size_t* bytes) {
  return set(bytes, strlen(p->image) + 1);
}
int nvrtcGetPTX(struct Program* p, char* out) {
  return copy(out, p->image, strlen(p->image) + 1);
}
int nvrtcGetCUBINSize(struct Program* p, size_t* bytes) {
  return set(bytes, strlen(p->image) + 1);
}
int nvrtcGetCUBIN(struct Program* p, char* out) {
  return copy(out, p->image, strlen(p->image) + 1);
}
int nvrtcGetProgramLogSize(struct Program* p, size_t* bytes) {
  return set(bytes, p->refused ? sizeof kRefused : 1);
}
int nvrtcGetProgramLog(struct Program* p, char* out) {
  return p->refused ? copy(out, kRefused, sizeof kRefused) : copy(out, "", 1);
}
