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

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*) */

#endif
