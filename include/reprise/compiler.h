/* Reprise's compiler: an ONNX model in, a package out. C interface; see reprise.h for the rules.
 * A library of its own (reprise::compiler): applications that ship packages do not link it. */
#ifndef REPRISE_COMPILER_H_
#define REPRISE_COMPILER_H_

/* NOLINTBEGIN(modernize-*): this is C */

#include "reprise/reprise.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct reprise_compile_options {
  size_t struct_size;
  int32_t fullgraph; /* an error if a node would run on the host */
  /* The package also says what each kernel must give, for sessions with check_kernels. Compiling
   * takes up to several times as long. */
  int32_t probes;
  /* Names of passes to leave out. */
  const char* const* disabled_passes;
  size_t disabled_pass_count;
  /* Of tensors and weights in memory: "fp32" (as does null), "fp16" or "bf16". */
  const char* precision;
  /* "vulkan" (as does a null pointer), one of its variants, "cuda:sm_90" and so on. CUDA is
   * compiled by NVRTC, which is opened at run time, on as many threads as there are cores. */
  const char* const* targets;
  size_t target_count;
  const char* nvrtc;          /* its path; null: wherever it is found */
  const char* cuda_cache_dir; /* where compiled kernels are kept; null: nowhere */
} reprise_compile_options;
#define REPRISE_COMPILE_OPTIONS_INIT \
  { sizeof(reprise_compile_options), 0, 0, NULL, 0, NULL, NULL, 0, NULL, NULL }

/* Compiles for all targets; no device is needed. `options` may be null. */
reprise_status reprise_compile_file(const char* onnx_path, const reprise_compile_options* options,
                                    reprise_package** out, reprise_error* error);

/* How reprise_tune_file measures. */
typedef struct reprise_tune_options {
  size_t struct_size;
  reprise_device* device; /* not the host; no one else may use it meanwhile */
  /* Each input of the model, in host memory: its sizes are those that the choice is for. */
  const reprise_tensor* inputs;
  size_t input_count;
  double seconds;        /* after so long no further candidate is begun; 0: 30 */
  const char* cache_dir; /* where choices are kept for the next time; null: nowhere */
  void (*log)(void* user, const char* message); /* progress and warnings; may be null */
  void* log_user;
} reprise_tune_options;
#define REPRISE_TUNE_OPTIONS_INIT \
  { sizeof(reprise_tune_options), NULL, NULL, 0, 0, NULL, NULL, NULL }

/* Like reprise_compile_file, with the kernel schedules that are fastest on the device. Each
 * candidate's results are compared with the host's before its time counts. A candidate can take the
 * device down, which is an error here: what tunes on drivers that it does not trust does so in a
 * process of its own, and saves the package. `options` may be null. */
reprise_status reprise_tune_file(const char* onnx_path, const reprise_compile_options* options,
                                 const reprise_tune_options* tuning, reprise_package** out,
                                 reprise_error* error);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*) */

#endif
