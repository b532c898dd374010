/** @file
 * Reprise's compiler: compiles an ONNX model to a package. C interface; the rules of reprise.h on
 * handles, errors, threads and structs apply. The compiler is a library of its own
 * (reprise::compiler), so applications that ship packages need not link it. */
#ifndef REPRISE_COMPILER_H_
#define REPRISE_COMPILER_H_

/* NOLINTBEGIN(modernize-*): this is C */

/* IWYU pragma: begin_exports */
#include "reprise/graph.h"
/* IWYU pragma: end_exports */
#include "reprise/reprise.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup compiler Compiler
 * Compiles ONNX models to packages.
 * @{ */

/** Something in a model that is not supported. Strings live as long as the call that gets it. */
typedef struct reprise_refusal {
  size_t struct_size; /**< as its initialiser sets it */
  const char* node;   /**< a node, an input or an initialiser; empty: the model as a whole */
  const char* op;     /**< empty if it is not a node */
  const char* domain; /**< "ai.onnx" for the default domain */
  int64_t version;    /**< of the domain; 0: the model imports none */
  const char* reason; /**< what is not supported, and what helps */
} reprise_refusal;

/** How a model is compiled. Zeros and nulls are the defaults. What it points to need not outlive
 * the call. */
typedef struct reprise_compile_options {
  size_t struct_size; /**< as its initialiser sets it */
  int32_t fullgraph;  /**< fail if a node would run on the host */
  /** Store probes in the package: inputs and expected outputs of each kernel, for sessions with
   * check_kernels. Compiling can take several times as long. */
  int32_t probes;
  /** Names of passes to leave out. */
  const char* const* disabled_passes;
  size_t disabled_pass_count; /**< how many `disabled_passes` has */
  /** Precision of tensors and weights in memory: "fp32", "fp16" or "bf16". Null: "fp32". */
  const char* precision;
  /** "vulkan", one of its variants, "cuda:sm_90" and so on. Null: "vulkan". CUDA needs NVRTC, which
   * is opened at run time and compiles on as many threads as there are cores. */
  const char* const* targets;
  size_t target_count;        /**< how many `targets` has */
  const char* nvrtc;          /**< path of the NVRTC library; null: search for it */
  const char* cuda_cache_dir; /**< folder that keeps compiled CUDA kernels; null: none are kept */
  /** If set, a model that is not supported is examined to its end: called for everything in it that
   * is refused, before the call fails. Tuning does not call it. */
  void (*refused)(void* user, const reprise_refusal* refusal);
  void* refused_user; /**< is passed to `refused` */
  /** If set, called after each part of the work: a compiler pass, whose name is `what`, a group of
   * nodes that was lowered ("lowering"), a kernel whose probe was made ("probes", which each
   * variant counts anew), the plan of a variant ("variants"), and a kernel that NVRTC has compiled
   * ("kernels"). While schedules are chosen, a candidate ("candidates") and a round of measuring
   * ("measuring") are parts, too. `total` is 0 if the number of parts is unknown. Calls never
   * overlap, but threads of the compiler may make them. Returns 0 to go on; any other value ends
   * the call with REPRISE_CANCELLED. */
  int32_t (*progress)(void* user, const char* what, uint64_t done, uint64_t total);
  void* progress_user;              /**< is passed to `progress` */
  const reprise_executor* executor; /**< if not null: compiles on these threads, not on new ones */
  /** Inputs and outputs that are images: "NAME=FORMAT,KEY=VALUE,...", as `reprise compile --image`
   * takes it and `reprise compile --help` describes it, such as
   * "x=rgba8,resize=bilinear,mean=0.485:0.456:0.406,std=0.229:0.224:0.225". Kernels of the model
   * convert the pixels. */
  const char* const* images;
  size_t image_count; /**< how many `images` has */
  /** Limits of sizes that inputs decide: "NAME=MIN..MAX", such as "batch=1..64". A run with another
   * size is refused. */
  const char* const* ranges;
  size_t range_count; /**< how many `ranges` has */
  /** Dims of dynamic inputs that are fixed: "NAME=1x3x224x224". */
  const char* const* shapes;
  size_t shape_count; /**< how many `shapes` has */
  /** Inputs that sessions keep from run to run, with the outputs that are their next values:
   * "INPUT=OUTPUT". An initialiser of that name is the first value, by default zeros. */
  const char* const* states;
  size_t state_count; /**< how many `states` has */
  /** Numbers for options of passes: "PASS.OPTION=NUMBER", such as "fusion.limit=10". */
  const char* const* pass_options;
  size_t pass_option_count; /**< how many `pass_options` has */
  /** Store the CUDA text of kernels in the package, for debuggers and profilers. */
  int32_t keep_source;
  uint32_t reserved; /**< zero */
  /** Names of inputs to which the model gives values and that runs may give or leave out. Other
   * inputs with values are constants. */
  const char* const* optional_inputs;
  size_t optional_input_count; /**< how many `optional_inputs` has */
  /** Elements of small inputs of integers that every run has: "NAME=2,-1,3". They may decide the
   * ranks of results. A run with others is refused. */
  const char* const* values;
  size_t value_count; /**< how many `values` has */
  /** Plans for some sizes that inputs decide: "NAME=SIZE" or "NAME=MIN..MAX", and several of these
   * with commas between them. Each has kernels for its sizes; a run uses the first that serves its
   * sizes, or else the plan for all sizes, which is made for those of the last plan without an
   * upper end. "auto", the default, lets the compiler decide, and "none" makes one plan. */
  const char* const* plans;
  size_t plan_count; /**< how many `plans` has */
  /** Which inputs are caches that become states that grow (reprise_session_state_rows): "none",
   * "auto" for all that are recognised, or a pattern of names with * and ?, such as "past_*", for
   * those of which each must be. An input is recognised if it has one dynamic length and an output
   * is the input followed by new rows along it. The input and the output leave the interface. Null:
   * "none". */
  const char* grow_states;
  /** Outputs of which only the last position along an axis is wanted: "OUTPUT" or "OUTPUT=AXIS", a
   * number or the name of a size; by default the axis before the last. Its size becomes 1, and what
   * only other positions need is not computed. */
  const char* const* last;
  size_t last_count; /**< how many `last` has */
  /** Samples a token for each row from an output of logits: "OUTPUT,KEY,...", as `reprise compile
   * --sample` takes it and docs/sampling.md describes it. Null: does not. */
  const char* sample;
} reprise_compile_options;
/** Initialises a reprise_compile_options. */
#define REPRISE_COMPILE_OPTIONS_INIT                                                              \
  {                                                                                               \
    sizeof(reprise_compile_options), 0, 0, NULL, 0, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL,  \
        NULL, NULL, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 0, 0, NULL, 0, NULL, 0, NULL, 0, \
        NULL, NULL, 0, NULL                                                                       \
  }

/** Compiles the model in the file `onnx_path` for all targets; no device is needed. `options` may
 * be null. Fails with REPRISE_INVALID_MODEL, REPRISE_UNSUPPORTED or REPRISE_IO; the message names
 * the node.
 *
 * If the model has weights of 64 MB or more, the package leaves those that it does not change in
 * the model's files, which it keeps open, and sessions read them there. These files may be replaced
 * or removed, but not changed in place: sessions fail with REPRISE_CORRUPT_PACKAGE then. A package
 * that was saved and opened does not need them. */
REPRISE_API reprise_status reprise_compile_file(const char* onnx_path,
                                                const reprise_compile_options* options,
                                                reprise_package** out, reprise_error* error);

/** Does the same with a model in memory, in which external data is an error. */
REPRISE_API reprise_status reprise_compile_memory(const void* onnx, size_t bytes,
                                                  const reprise_compile_options* options,
                                                  reprise_package** out, reprise_error* error);

/** Does the same with a graph that was built. The first call ends the graph, which takes no more
 * calls that add to it then, but can be compiled again. Options that concern a model file,
 * `shapes`, `values` and `optional_inputs`, are REPRISE_USAGE; `refused` is not called. */
REPRISE_API reprise_status reprise_compile_graph(reprise_graph* graph,
                                                 const reprise_compile_options* options,
                                                 reprise_package** out, reprise_error* error);

/** How reprise_tune_file and reprise_tune_memory measure. */
typedef struct reprise_tune_options {
  size_t struct_size;     /**< as its initialiser sets it */
  reprise_device* device; /**< not the host; nothing else may use it meanwhile */
  /** Every input of the model, in host memory. Schedules are chosen for the sizes of these. */
  const reprise_tensor* inputs;
  size_t input_count;    /**< how many `inputs` has */
  double seconds;        /**< no candidate starts after this time; 0: 30 */
  const char* cache_dir; /**< folder that keeps the choices; null: they are not kept */
  /** Progress and warnings; may be null. */
  void (*log)(void* user, reprise_severity severity, const char* message);
  void* log_user; /**< is passed to `log` */
} reprise_tune_options;
/** Initialises a reprise_tune_options. */
#define REPRISE_TUNE_OPTIONS_INIT \
  { sizeof(reprise_tune_options), NULL, NULL, 0, 0, NULL, NULL, NULL }

/** Like reprise_compile_file, but chooses the kernel schedules that are fastest on the device. The
 * results of each candidate are compared with those of the host before its time counts. If even the
 * default schedules differ from the host, although each kernel by itself is right, the model
 * amplifies rounding: it gets the default schedules, and `log` reports that. A candidate
 * can take the device down, which is an error here. An application that does not trust the driver
 * should therefore tune in a separate process and save the package. `options` may be null. */
REPRISE_API reprise_status reprise_tune_file(const char* onnx_path,
                                             const reprise_compile_options* options,
                                             const reprise_tune_options* tuning,
                                             reprise_package** out, reprise_error* error);

/** Does the same with a model in memory, in which external data is an error. */
REPRISE_API reprise_status reprise_tune_memory(const void* onnx, size_t bytes,
                                               const reprise_compile_options* options,
                                               const reprise_tune_options* tuning,
                                               reprise_package** out, reprise_error* error);

/** The functions of compiler.h as a table, for applications that open the library at run time.
 * Members are added at the end only. */
typedef struct reprise_compiler_functions {
  size_t struct_size; /**< the library's, which may be smaller or larger than the caller's */
  uint32_t abi;       /**< the version that was asked for */
  uint32_t reserved;  /**< zero */
  /** The function of compiler.h or graph.h with "reprise_" before this name. */
  /** @{ */
  reprise_status (*compile_file)(const char* onnx_path, const reprise_compile_options* options,
                                 reprise_package** out, reprise_error* error);
  reprise_status (*compile_memory)(const void* onnx, size_t bytes,
                                   const reprise_compile_options* options, reprise_package** out,
                                   reprise_error* error);
  reprise_status (*tune_file)(const char* onnx_path, const reprise_compile_options* options,
                              const reprise_tune_options* tuning, reprise_package** out,
                              reprise_error* error);
  reprise_status (*tune_memory)(const void* onnx, size_t bytes,
                                const reprise_compile_options* options,
                                const reprise_tune_options* tuning, reprise_package** out,
                                reprise_error* error);
  reprise_status (*graph_create)(const reprise_graph_options* options, reprise_graph** out,
                                 reprise_error* error);
  void (*graph_free)(reprise_graph* graph);
  reprise_status (*graph_symbol)(reprise_graph* graph, const char* name, int64_t min, int64_t max,
                                 int64_t divisor, reprise_error* error);
  reprise_status (*graph_guard)(reprise_graph* graph, const char* left, const char* relation,
                                const char* right, const char* what, reprise_error* error);
  reprise_status (*graph_input)(reprise_graph* graph, const char* name, reprise_dtype dtype,
                                const char* const* dims, size_t rank, int32_t* value,
                                reprise_error* error);
  reprise_status (*graph_constant)(reprise_graph* graph, const reprise_tensor* tensor,
                                   int32_t borrow, int32_t* value, reprise_error* error);
  reprise_status (*graph_state)(reprise_graph* graph, const reprise_tensor* initial, int32_t* value,
                                reprise_error* error);
  reprise_status (*graph_next_state)(reprise_graph* graph, int32_t state, int32_t next,
                                     const char* name, reprise_error* error);
  reprise_status (*graph_output)(reprise_graph* graph, const char* name, int32_t value,
                                 reprise_error* error);
  reprise_status (*graph_add_node)(reprise_graph* graph, const reprise_graph_node* node,
                                   int32_t* outputs, reprise_error* error);
  reprise_status (*graph_sizes)(reprise_graph* graph, const char* const* sizes, size_t count,
                                int32_t scalar, int32_t* value, reprise_error* error);
  reprise_status (*graph_begin_body)(reprise_graph* graph, const char* name, reprise_error* error);
  reprise_status (*graph_body_input)(reprise_graph* graph, const char* name, int32_t* value,
                                     reprise_error* error);
  reprise_status (*graph_end_body)(reprise_graph* graph, const int32_t* outputs,
                                   size_t output_count, int32_t* body, reprise_error* error);
  reprise_status (*graph_type)(const reprise_graph* graph, int32_t value, char* text,
                               size_t capacity, reprise_error* error);
  reprise_status (*graph_verify)(const reprise_graph* graph, reprise_error* error);
  reprise_status (*compile_graph)(reprise_graph* graph, const reprise_compile_options* options,
                                  reprise_package** out, reprise_error* error);
  /** @} */
} reprise_compiler_functions;

/** Returns the table for a REPRISE_ABI_VERSION, or null if the library does not have that version.
 * The table lives as long as the process. Look this function up in libreprise_compiler, after
 * libreprise was opened, whose handles it uses. */
REPRISE_API const reprise_compiler_functions* reprise_get_compiler_functions(uint32_t abi_version);
/** The type of reprise_get_compiler_functions, for the address that was looked up. */
typedef const reprise_compiler_functions* (*reprise_get_compiler_functions_function)(
    uint32_t abi_version);

/** @} */

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*) */

#endif
