/* Opens the library at run time and runs a package through the table of functions:
 * open_at_run_time LIBRARY PACKAGE. Prints the first element of the first output. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "reprise/functions.h"

/* The host is described without loading the drivers of other devices. */
static int host_loads_drivers(const reprise_functions* f, reprise_error* error) {
  reprise_device* device = NULL;
  reprise_device_info info = REPRISE_DEVICE_INFO_INIT;
  int failed = f->device_open("host", NULL, &device, error) != REPRISE_OK ||
               f->device_get_info(device, &info, error) != REPRISE_OK;
  f->device_free(device);
  if (failed) return 1;
  if (strcmp(info.id, "host") != 0 || !info.usable ||
      dlopen("libvulkan.so.1", RTLD_NOW | RTLD_NOLOAD) ||
      dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) {
    strcpy(error->message, "the host is not usable, or to describe it loaded a driver");
    return 1;
  }
  return 0;
}

static int run(const reprise_functions* f, const char* path, reprise_error* error) {
  static float ones[60];
  reprise_package* package = NULL;
  reprise_device* device = NULL;
  reprise_session* session = NULL;
  reprise_results* results = NULL;
  reprise_slot slot = REPRISE_SLOT_INIT;
  reprise_tensor input = REPRISE_TENSOR_INIT, output = REPRISE_TENSOR_INIT;
  size_t i;
  int failed;
  for (i = 0; i < 60; ++i) ones[i] = 1.0F;
  failed = f->package_open(path, &package, error) != REPRISE_OK ||
           f->package_input(package, 0, &slot, error) != REPRISE_OK ||
           f->device_open("auto", NULL, &device, error) != REPRISE_OK ||
           f->session_create(package, device, NULL, &session, error) != REPRISE_OK;
  if (!failed) {
    input.name = slot.name;
    input.dtype = slot.dtype;
    input.rank = slot.rank;
    memcpy(input.dims, slot.dims, sizeof(input.dims));
    input.data = ones;
    input.bytes = sizeof(ones);
    failed = f->session_run(session, &input, 1, NULL, 0, &results, NULL, error) != REPRISE_OK ||
             f->results_get(results, 0, &output, error) != REPRISE_OK;
  }
  if (!failed) printf("%s %g\n", slot.shape, (double)*(const float*)output.data);
  f->results_free(results);
  f->session_free(session);
  f->device_free(device);
  f->package_free(package);
  return failed;
}

int main(int argc, char** argv) {
  void* library;
  reprise_get_functions_function get = NULL;
  const reprise_functions* f;
  reprise_error error = {REPRISE_OK, ""};
  if (argc != 3) return 2;
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  *(void**)&get = dlsym(library, "reprise_get_functions");
  if (!get || get(REPRISE_ABI_VERSION + 1)) return 1;
  f = get(REPRISE_ABI_VERSION);
  if (!f || f->struct_size < sizeof(*f) || f->abi != REPRISE_ABI_VERSION) return 1;
  if (host_loads_drivers(f, &error) || run(f, argv[2], &error)) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  return dlclose(library);
}
