/* An application in C that ships packages: replay PACKAGE DEVICE. Runs once on inputs of ones (dynamic
 * dims are 2), once more with the first output in memory of its own, and prints that output. */
#include <stdio.h>
#include <stdlib.h>

#include "reprise/reprise.h"

#define MAX_INPUTS 8

static int fail(const reprise_error* error) {
  fprintf(stderr, "%d: %s\n", (int)error->status, error->message);
  return 1;
}

static int fill_input(reprise_session* session, size_t index, reprise_tensor* tensor,
                      reprise_error* error) {
  reprise_slot slot = REPRISE_SLOT_INIT;
  size_t count = 1, i;
  uint32_t axis;
  if (reprise_session_input(session, index, &slot, error) != REPRISE_OK) return 1;
  tensor->name = slot.name;
  tensor->dtype = slot.dtype;
  tensor->rank = slot.rank;
  for (axis = 0; axis < slot.rank; ++axis) {
    tensor->dims[axis] = slot.dims[axis] < 0 ? 2 : slot.dims[axis];
    count *= (size_t)tensor->dims[axis];
  }
  tensor->bytes = count * reprise_dtype_size(slot.dtype);
  tensor->data = calloc(count + 1, reprise_dtype_size(slot.dtype));
  if (slot.dtype == REPRISE_F32)
    for (i = 0; i < count; ++i) ((float*)tensor->data)[i] = 1.0F;
  return 0;
}

static int run_twice(reprise_session* session, reprise_error* error) {
  const reprise_tensor fresh = REPRISE_TENSOR_INIT;
  reprise_tensor inputs[MAX_INPUTS], result = fresh, own = fresh;
  reprise_slot slot = REPRISE_SLOT_INIT;
  reprise_results* results = NULL;
  const size_t n = reprise_session_input_count(session);
  int failed = 0;
  size_t i;
  if (n > MAX_INPUTS) return 1;
  for (i = 0; i < n; ++i) {
    inputs[i] = fresh;
    failed |= fill_input(session, i, &inputs[i], error);
  }
  failed = failed ||
           reprise_session_run(session, inputs, n, NULL, 0, &results, NULL, error) != REPRISE_OK ||
           reprise_results_get(results, 0, &result, error) != REPRISE_OK ||
           reprise_session_output(session, 0, &slot, error) != REPRISE_OK;
  if (!failed) {
    own.name = slot.name;
    own.bytes = result.bytes;
    own.data = malloc(result.bytes + 1);
    failed = reprise_session_run(session, inputs, n, &own, 1, NULL, NULL, error) != REPRISE_OK;
    for (i = 0; !failed && own.dtype == REPRISE_F32 && i < own.bytes / sizeof(float); ++i) {
      printf("%g ", (double)((float*)own.data)[i]);
      if (((float*)own.data)[i] != ((const float*)result.data)[i]) failed = 1;
    }
    free(own.data);
  }
  reprise_results_free(results);
  for (i = 0; i < n; ++i) free(inputs[i].data);
  return failed;
}

int main(int argc, char** argv) {
  reprise_error error = {REPRISE_OK, ""};
  reprise_package* package = NULL;
  reprise_device* device = NULL;
  reprise_session* session = NULL;
  int failed;
  if (argc != 3) return 2;
  if (reprise_package_open(argv[1], &package, &error) != REPRISE_OK ||
      reprise_device_open(argv[2], NULL, &device, &error) != REPRISE_OK ||
      reprise_session_create(package, device, NULL, &session, &error) != REPRISE_OK) {
    return fail(&error);
  }
  reprise_device_free(device);
  reprise_package_free(package);
  failed = run_twice(session, &error);
  reprise_session_free(session);
  return failed ? fail(&error) : 0;
}
