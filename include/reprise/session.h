/** @file
 * Sessions, values, runs and states. Include reprise.h, which states the rules. */
#ifndef REPRISE_SESSION_H_
#define REPRISE_SESSION_H_

/* NOLINTBEGIN(modernize-*): this is C */

#include "reprise/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup sessions Sessions
 * Packages on devices, and runs that block.
 * @{ */

/** A package on a device. Several threads may run it at the same time. Free it with
 * reprise_session_free. */
typedef struct reprise_session reprise_session;

/** Memory for the intermediate tensors of several sessions on one device, whose runs take turns. It
 * becomes as large as the largest of them needs. It counts in no session's `device_bytes`. */
typedef struct reprise_arena reprise_arena;
/** Makes an arena on a device. It takes no memory before a session needs some. */
REPRISE_API reprise_status reprise_arena_create(reprise_device* device, reprise_arena** out,
                                                reprise_error* error);
/** Gets the bytes that the arena has on the device now. */
REPRISE_API reprise_status reprise_arena_get_bytes(const reprise_arena* arena, uint64_t* bytes,
                                                   reprise_error* error);
/** Frees the arena; sessions that were created with it keep it. */
REPRISE_API void reprise_arena_free(reprise_arena* arena);

/** How a session runs. Zeros are the defaults. */
typedef struct reprise_session_options {
  size_t struct_size; /**< as its initialiser sets it */
  /** How many runs may be in flight at the same time, each with its own memory; 0: 2. Further calls
   * wait and proceed in the order of their arrival. It is 1 if the package has states, whose runs
   * take turns. */
  uint32_t max_in_flight;
  int32_t fullgraph; /**< fail if a node would run on the host */
  /** Time limit of one run, in milliseconds; 0: 60,000, or 600,000 on CPU-type devices. It starts
   * when the device begins the run, that is, when everything that this library submitted to the
   * device before has ended. Neither waiting behind other runs nor waiting because max_in_flight
   * runs are in flight counts. A run that times out is an error but continues: it is in flight
   * until it ends. If host kernels divide the run into several submissions, the limit applies to
   * each of these, and to all host kernels together, whose loops end when it is exceeded. */
  uint64_t timeout_ms;
  /** Some drivers compile a kernel when it is first launched. With warm_up that happens when the
   * session is created instead of in the first run. */
  int32_t warm_up;
  /** Run each kernel alone when the session is created, on inputs for which the package has the
   * results, and compare. If a kernel fails, the session uses the next variant that fits the device
   * and whose kernels pass. If there is none, it uses the host, which takes no buffers of the
   * device. The `log` of the device reports this. The verdict is kept in the `cache_dir` of the
   * device, so the next session on the same device and driver only reads it. Packages that were
   * compiled without probes are used unchecked. */
  int32_t check_kernels;
  /** If not 0, a run on a device is cut in submissions of about this length in microseconds, by
   * measurement. Other users of the device, such as the renderer of the application, have their
   * turn in between, and no watchdog of the system finds the device busy for too long. The next
   * part is submitted when the one before it has ended: by reprise_run_poll, so that a call in each
   * frame of a renderer submits one part in each frame, or by a call that waits for the run. On
   * Vulkan, a launch that takes longer is cut as well, if its grid does not depend on the sizes of
   * inputs; otherwise it is a part of its own. The first runs, and all runs on devices without
   * timestamps, have a part for each launch, and several for one with many workgroups. Such runs
   * cannot have `at_end`; reprise_run_record does not cut. */
  uint64_t slice_us;
  /** The arena of this session; null: memory of its own for each run in flight. With an arena,
   * max_in_flight is 1. A call of reprise_session_run waits for runs of the other sessions; it
   * fails with REPRISE_BUSY if one of these is a run object's, as reprise_run_submit does if any is
   * in flight. A session that is opened again on another device has memory of its own from then on.
   */
  const reprise_arena* arena;
  /** How many plans of the package for some sizes (`plans` of reprise_compile_options), for each
   * run in flight, keep their recordings; 0: 8. Another one replaces that which was used longest
   * ago. With warm_up, all plans are prepared when the session is created, instead of each when a
   * run has its sizes for the first time. The `log` of the device says when a plan is prepared. */
  uint32_t max_recorded;
  uint32_t reserved; /**< zero */
} reprise_session_options;
/** Initialises a reprise_session_options. */
#define REPRISE_SESSION_OPTIONS_INIT \
  { sizeof(reprise_session_options), 0, 0, 0, 0, 0, 0, NULL, 0, 0 }

/** An input, output or state of the model. */
typedef struct reprise_slot {
  size_t struct_size; /**< as its initialiser sets it */
  const char* name;   /**< this and the other strings live as long as the package or session */
  /** The dims with the names of symbols, such as "[batch, 3, 2*length]". Equal names are equal
   * sizes. */
  const char* shape;
  reprise_kind kind;   /**< a tensor, or what it is instead; only tensors have dims */
  reprise_dtype dtype; /**< of the elements; of a sequence or optional, those of its tensors; of a
                        * map, its values */
  uint32_t rank;       /**< the number of dims */
  uint32_t reserved;   /**< zero */
  int64_t dims[REPRISE_MAX_RANK]; /**< -1: depends on the inputs of a run */
  reprise_image_format image;     /**< if it is an image: the format of its pixels */
  uint32_t reserved2;             /**< zero */
  const char* processing;         /**< of the image, for people: "resized bilinearly, mean 0.5" */
  /** 1: the model has a value of its own: of an input, for runs that leave it out; of a state, the
   * first one. */
  int32_t has_value;
  uint32_t reserved3; /**< zero */
} reprise_slot;
/** Initialises a reprise_slot. */
#define REPRISE_SLOT_INIT                                                          \
  {                                                                                \
    sizeof(reprise_slot), NULL, NULL, REPRISE_KIND_TENSOR, REPRISE_F32, 0, 0, {0}, \
        REPRISE_IMAGE_NONE, 0, NULL, 0, 0                                          \
  }

/** Describes an input of a package. The caller sets `struct_size` of `slot`. */
REPRISE_API reprise_status reprise_package_input(const reprise_package* package, size_t index,
                                                 reprise_slot* slot, reprise_error* error);
/** Describes an output of a package, likewise. */
REPRISE_API reprise_status reprise_package_output(const reprise_package* package, size_t index,
                                                  reprise_slot* slot, reprise_error* error);
/** Describes a state of a package, likewise. */
REPRISE_API reprise_status reprise_package_state(const reprise_package* package, size_t index,
                                                 reprise_slot* slot, reprise_error* error);

/** @} */

/** @defgroup values Tensors and values
 * What runs take and return. Sequences, optionals and maps live in host memory.
 * @{ */

/** A sequence, an optional, a map or a tensor in host memory. A value never changes, and its copies
 * of tensors are its own. Free it with reprise_value_free. */
typedef struct reprise_value reprise_value;

/** A row-major tensor of the caller, in host memory or in a device buffer, or an image. Nothing
 * takes ownership of what it points to, which must be valid until the run has ended. */
typedef struct reprise_tensor {
  size_t struct_size; /**< as its initialiser sets it */
  const char* name;   /**< of the input or output */
  /** Must be the dtype of the slot. With `buffer`, REPRISE_F32 means that of the slot, too. */
  reprise_dtype dtype;
  uint32_t rank;                  /**< set by the caller for inputs, by the run for outputs */
  int64_t dims[REPRISE_MAX_RANK]; /**< in elements, the outermost first; set like `rank` */
  void* data;                     /**< host memory; the run does not write to inputs */
  /** The size of `data`. For inputs exactly the product of the dims times the size of the dtype, of
   * strings times sizeof(reprise_string), and with a row pitch (rows - 1) * row_pitch + the bytes
   * of a row. For outputs that or more. */
  size_t bytes;
  reprise_buffer* buffer;     /**< device memory; setting both this and `data` is an error */
  uint64_t offset;            /**< in `buffer`, in bytes; a multiple of 16 */
  const reprise_value* value; /**< for inputs: a value instead of all of the above but the name */
  /** An image instead of all of the above but the name, for a slot that is one. The call copies
   * this struct. An image that is an output must have the size of the output. */
  const reprise_vulkan_image* image;
  /** Bytes from one row, along the first axis, to the next; 0: rows follow each other. Of a device
   * buffer, rows with a pitch are copied on the device, which only Vulkan devices do. At most
   * 2^32. */
  uint64_t row_pitch;
} reprise_tensor;
/** Initialises a reprise_tensor. */
#define REPRISE_TENSOR_INIT \
  { sizeof(reprise_tensor), NULL, REPRISE_F32, 0, {0}, NULL, 0, NULL, 0, NULL, NULL, 0 }

/** What a value is. */
typedef struct reprise_value_info {
  size_t struct_size;  /**< as its initialiser sets it */
  reprise_kind kind;   /**< a tensor, or what it is instead */
  reprise_dtype dtype; /**< of the tensors; of a map, that of its values */
  size_t count;        /**< how many items it has; 0 for a tensor */
} reprise_value_info;
/** Initialises a reprise_value_info. */
#define REPRISE_VALUE_INFO_INIT \
  { sizeof(reprise_value_info), REPRISE_KIND_TENSOR, REPRISE_F32, 0 }

/** Makes a value of a tensor in host memory, which is copied. Its name is not used. */
REPRISE_API reprise_status reprise_value_from_tensor(const reprise_tensor* tensor,
                                                     reprise_value** out, reprise_error* error);
/** Makes a value of its items: the tensors or maps of a sequence, what an optional holds or
 * nothing, or the keys of a map and its values: two tensors of rank 1 and equal length. */
REPRISE_API reprise_status reprise_value_create(reprise_kind kind, reprise_dtype dtype,
                                                const reprise_value* const* items, size_t count,
                                                reprise_value** out, reprise_error* error);
/** Describes a value. The caller sets `struct_size` of `info`. */
REPRISE_API reprise_status reprise_value_get_info(const reprise_value* value,
                                                  reprise_value_info* info, reprise_error* error);
/** Gets an item as a value of its own. */
REPRISE_API reprise_status reprise_value_get_item(const reprise_value* value, size_t index,
                                                  reprise_value** out, reprise_error* error);
/** Gets a value that is a tensor. `data` lives as long as the value; do not write to it. */
REPRISE_API reprise_status reprise_value_get_tensor(const reprise_value* value,
                                                    reprise_tensor* tensor, reprise_error* error);
/** Frees the value. Values that contain it have copies of their own. */
REPRISE_API void reprise_value_free(reprise_value* value);

/** @} */

/** @addtogroup sessions
 * @{ */

/** How long one run took, in microseconds, and what it copied. */
typedef struct reprise_run_stats {
  size_t struct_size;    /**< as its initialiser sets it */
  double host_submit_us; /**< host work until the run is submitted, without copies of tensors */
  double total_us;       /**< the whole run */
  uint64_t bytes_copied; /**< between host and device memory; 0 if all tensors are device buffers */
  double longest_slice_us; /**< device time of the longest submission of a session with slice_us */
  uint32_t plan;     /**< that ran: 0 is the one for all sizes, n is the n-th for some sizes */
  uint32_t reserved; /**< zero */
} reprise_run_stats;
/** Initialises a reprise_run_stats. */
#define REPRISE_RUN_STATS_INIT \
  { sizeof(reprise_run_stats), 0, 0, 0, 0, 0, 0 }

/** Creates a session: uploads the weights, and builds the kernels. `options` may be null. Fails
 * with REPRISE_INCOMPATIBLE_PACKAGE if no variant of the package fits the device. */
REPRISE_API reprise_status reprise_session_create(const reprise_package* package,
                                                  reprise_device* device,
                                                  const reprise_session_options* options,
                                                  reprise_session** out, reprise_error* error);
/** Moves the session to another device, or opens it again on the same one, with the package and the
 * options that it was created with: such as after REPRISE_DEVICE_LOST, when the application has
 * opened a device again. If this fails, the session is as it was. Calls in progress end on the old
 * device. A run object moves when it is bound again, with buffers of the new device. States keep
 * their values, unless the old device is lost or they have no defined value: then they have their
 * initial values, and `log` of the new device says so. Do not run a session with states meanwhile.
 * The totals of reprise_session_info begin again. */
REPRISE_API reprise_status reprise_session_reopen(reprise_session* session, reprise_device* device,
                                                  reprise_error* error);
/** Frees the session. This waits for its runs that timed out. Run objects and results have
 * functions of their own. */
REPRISE_API void reprise_session_free(reprise_session* session);
/** Returns the number of inputs; 0 for a handle that is not valid. */
REPRISE_API size_t reprise_session_input_count(const reprise_session* session);
/** Returns the number of outputs; 0 for a handle that is not valid. */
REPRISE_API size_t reprise_session_output_count(const reprise_session* session);
/** Describes an input, in the model's order. The caller sets `struct_size` of `slot`. */
REPRISE_API reprise_status reprise_session_input(const reprise_session* session, size_t index,
                                                 reprise_slot* slot, reprise_error* error);
/** Describes an output, likewise. */
REPRISE_API reprise_status reprise_session_output(const reprise_session* session, size_t index,
                                                  reprise_slot* slot, reprise_error* error);

/** What a session uses, and totals of its runs. Dispatches, barriers and copies are those that the
 * device executed. */
typedef struct reprise_session_info {
  size_t struct_size;  /**< as its initialiser sets it */
  const char* variant; /**< in use; "host" on the host. The strings live as long as the session. */
  /** Why earlier variants were not used, one line for each; empty if there is none. A line that
   * begins with the name of the variant in use says why it is not the ideal one. */
  const char* notes;
  uint64_t runs;       /**< runs that were submitted */
  uint64_t recordings; /**< how often a run was recorded; later ones replay it */
  uint64_t submits;    /**< submissions to the device */
  uint64_t dispatches; /**< launches of kernels */
  uint64_t barriers;   /**< barriers between launches */
  uint64_t copies;     /**< copies between host and device memory */
  /** Device memory that the session holds now. Sessions on one device have one copy of equal
   * weights, which counts in each of them. */
  uint64_t device_bytes;
  double load_ms;      /**< time that creating the session took */
  uint64_t plan_count; /**< plans of the variant for some sizes, beside the one for all sizes */
} reprise_session_info;
/** Initialises a reprise_session_info. */
#define REPRISE_SESSION_INFO_INIT \
  { sizeof(reprise_session_info), NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/** Describes a session. The caller sets `struct_size` of `info`. */
REPRISE_API reprise_status reprise_session_get_info(const reprise_session* session,
                                                    reprise_session_info* info,
                                                    reprise_error* error);

/** The outputs of a run for which the caller gave no memory. Free it with reprise_results_free. */
typedef struct reprise_results reprise_results;

/** Runs once and waits for the end. `stats` may be null.
 *
 * The caller must give every input for which the model has no value (reprise_slot::has_value), and
 * a tensor of one element is taken for a scalar. Each output that it gives is written to the memory
 * of the caller, which must be large enough, and the run sets its dtype and dims. The other outputs
 * are in `results` if that is not null. Outputs must not share memory with each other. An output in
 * a buffer must not share memory with an input; an output in host memory may be where an input is.
 *
 * A run on a device allocates nothing on the heap if the run before it had the same sizes, the
 * caller gives all outputs in memory without a row pitch, no tensor is an image, no node runs on
 * the host, and slice_us is 0. Where states grow, sizes that follow from their lengths may differ,
 * as long as no tensor outgrows the memory that it has; then it gets a quarter more. */
REPRISE_API reprise_status reprise_session_run(reprise_session* session,
                                               const reprise_tensor* inputs, size_t input_count,
                                               reprise_tensor* outputs, size_t output_count,
                                               reprise_results** results, reprise_run_stats* stats,
                                               reprise_error* error);
/** Gets output `index` of the model as a value of its own, whatever its kind. An output that was
 * written to the memory of the caller has no value: the status is REPRISE_USAGE. */
REPRISE_API reprise_status reprise_results_get_value(const reprise_results* results, size_t index,
                                                     reprise_value** out, reprise_error* error);
/** Gets output `index` of the model, a tensor. `data` lives as long as the results; do not write to
 * it. `name` is null; reprise_session_output names the output. Of an output that was written to the
 * memory of the caller, there are only the dtype and the dims: `data` is null and `bytes` 0. */
REPRISE_API reprise_status reprise_results_get(const reprise_results* results, size_t index,
                                               reprise_tensor* tensor, reprise_error* error);
/** Frees the results, and the memory that reprise_results_get has shown. */
REPRISE_API void reprise_results_free(reprise_results* results);

/** @} */

/** @defgroup runs Runs that do not block
 * A run object holds the bindings of a run, and can be submitted again and again. It has no thread
 * of its own: the device works while the caller does something else, and host kernels run in the
 * calls below. Several run objects of a session may be in flight, up to max_in_flight; upload,
 * compute and download of different ones overlap where the device can. Only one thread at a time
 * may use a run object; a call that comes meanwhile fails with REPRISE_USAGE, except
 * reprise_run_cancel. If run objects in flight are all that max_in_flight allows,
 * reprise_session_run and the functions of states fail with REPRISE_BUSY, because they might wait
 * for the thread that calls them. The memory that is bound, also that of strings and the array of
 * reprise_string, and the array of outputs must stay valid until the run is bound again or freed.
 * Do not read or write memory of a run that is in flight.
 * @{ */

/** A run that is bound once, and then submitted again and again. Free it with reprise_run_free. */
typedef struct reprise_run reprise_run;

/** A value of a timeline semaphore of the application on its own Vulkan device, whose feature
 * timelineSemaphore it has enabled. */
typedef struct reprise_timeline_point {
  uint64_t semaphore;   /**< VkSemaphore */
  uint64_t value;       /**< what it is waited for to reach, or what it is set to */
  uint64_t reserved[2]; /**< zeros */
} reprise_timeline_point;

/** What a run waits for, and whom it tells of its end. The arrays need not outlive the call. */
typedef struct reprise_submit_options {
  size_t struct_size; /**< as its initialiser sets it */
  /** The device begins the run when all of these are reached, of which there are at most 8. The
   * time limit of the run includes waiting. Only Vulkan devices have them, and only a run that
   * begins with a kernel can wait. On CUDA, runs follow the stream that the application lends. */
  const reprise_timeline_point* waits;
  size_t wait_count; /**< how many `waits` has */
  /** The device reaches these when the run has ended, at most 8. Only Vulkan devices have them, and
   * only a run that is one submission, without host kernels, can signal. */
  const reprise_timeline_point* signals;
  size_t signal_count; /**< how many `signals` has */
  /** If not null, called once when reprise_run_poll would no longer set `ended` to 0: in a thread
   * that the device has for these calls, or by reprise_run_submit if nothing was submitted to a
   * device. It may call functions of the library, also to end this run and to submit it again.
   * Calls of one device do not overlap, so it must not block for long. reprise_run_wait and
   * reprise_run_free return after it has returned, unless it calls them itself. If it submits a run
   * of which nothing goes to a device, that run's call is made after this one, or before this one
   * waits for that run. */
  void (*at_end)(void* user);
  void* at_end_user; /**< is passed to `at_end` */
} reprise_submit_options;
/** Initialises a reprise_submit_options. */
#define REPRISE_SUBMIT_OPTIONS_INIT \
  { sizeof(reprise_submit_options), NULL, 0, NULL, 0, NULL, NULL }

/** Where reprise_run_record writes a run. */
typedef struct reprise_record_options {
  size_t struct_size;   /**< as its initialiser sets it */
  void* command_buffer; /**< VkCommandBuffer */
} reprise_record_options;
/** Initialises a reprise_record_options. */
#define REPRISE_RECORD_OPTIONS_INIT \
  { sizeof(reprise_record_options), NULL }

/** Makes a run object, without bindings. It counts for max_in_flight only while it is in flight. */
REPRISE_API reprise_status reprise_run_create(reprise_session* session, reprise_run** out,
                                              reprise_error* error);
/** Binds inputs and outputs as reprise_session_run does, for all submissions until the next call.
 * While the run is in flight, or another thread uses it, the call is refused and changes nothing.
 * Any other call that fails leaves the run without bindings, so that it cannot be submitted until
 * it is bound again. */
REPRISE_API reprise_status reprise_run_bind(reprise_run* run, const reprise_tensor* inputs,
                                            size_t input_count, reprise_tensor* outputs,
                                            size_t output_count, reprise_error* error);
/** Copies inputs from host memory, strings included, submits the run, and returns without waiting
 * for the device. On the host, the run is computed before this returns. `options` may be null. If
 * max_in_flight runs of the session are in flight, the status is REPRISE_BUSY, and the run can be
 * submitted when one of them has ended. Allocates nothing on the heap under the conditions of
 * reprise_session_run.
 *
 * A run may be submitted before earlier ones have ended. Runs on a Vulkan device, of any session,
 * use its memory in the order in which they were submitted: a run may read in a reprise_buffer what
 * an earlier one writes there, and write what an earlier one reads. So do runs in a CUDA stream
 * that the application lends. The order covers what this call submits, which is the whole run
 * unless its plan has host kernels or control flow (reprise_package_variant) or slice_us is set.
 * Wait for the end of such a run before you submit one that needs its results. Runs in streams of
 * the library may overlap: wait for the first, or lend a stream. */
REPRISE_API reprise_status reprise_run_submit(reprise_run* run,
                                              const reprise_submit_options* options,
                                              reprise_error* error);
/** Writes the run to a command buffer of the application instead of submitting it: in the recording
 * state, outside a render pass, of the queue family that the application lent. The run must be one
 * submission, without host kernels, or else the status is REPRISE_UNSUPPORTED. A barrier before it
 * makes all earlier writes of the queue visible to it, and a barrier after it makes its
 * writes visible to all later commands and to the host. It binds a compute pipeline and sets push
 * constants. The command buffer may be executed several times, one after the other, and the
 * contents of bound buffers may change in between; inputs in host memory are copied by this call.
 * If the package has states, execute it once: reprise_run_wait gives the states their next values.
 * Call reprise_run_wait when it has been executed for the last time: that reports the errors of
 * kernels, and ends the run. Only then bind, free or record it again: the library cannot wait for
 * the application's submissions. */
REPRISE_API reprise_status reprise_run_record(reprise_run* run,
                                              const reprise_record_options* options,
                                              reprise_error* error);
/** Sets `ended` to 1 if reprise_run_wait would not wait for what was submitted, and to 0 otherwise.
 * If the run fails, such as with REPRISE_TIMEOUT, the call does, and the run has ended. */
REPRISE_API reprise_status reprise_run_poll(reprise_run* run, int32_t* ended, reprise_error* error);
/** Waits for the run, and delivers its results as reprise_session_run does. `results` and `stats`
 * may be null. Whether it succeeds or fails, the run has ended then, unless the status is
 * REPRISE_USAGE. */
REPRISE_API reprise_status reprise_run_wait(reprise_run* run, reprise_results** results,
                                            reprise_run_stats* stats, reprise_error* error);
/** Asks the run to end early, and returns at once. Any thread may call this, also while another one
 * waits for the run. The run leaves out what it has not begun of its submissions, host kernels and
 * iterations of loops; then reprise_run_wait, or reprise_run_submit on the host, fails with
 * REPRISE_CANCELLED, and the outputs and states that it updates in place have no defined value.
 * What the device has begun is not interrupted: a run that is one submission succeeds. If the run
 * is not in flight, this does nothing. */
REPRISE_API reprise_status reprise_run_cancel(reprise_run* run, reprise_error* error);
/** Frees the run. If it was submitted and is in flight, waits for the device; its outputs, and the
 * states that it updates in place, have no defined value then. */
REPRISE_API void reprise_run_free(reprise_run* run);

/** @} */

/** @defgroup states States
 * A state is a tensor that a session keeps in the memory of its device from run to run, such as a
 * parameter that a package for training updates. Each run reads the states and gives them their
 * next values, so runs of such a session take turns, and these functions wait for runs that came
 * before them. Every session begins with the initial values that the package has.
 *
 * A run that fails because a kernel or a host call finds an error, such as an index that is out of
 * range, leaves all states as they were. If a run ends for another reason while the device updates
 * states in place (REPRISE_TIMEOUT, REPRISE_DEVICE_LOST, REPRISE_CANCELLED), or if an earlier
 * version compiled the package, these have no defined value. Calls that need one fail with
 * REPRISE_USAGE then, until the states are loaded, reset or written.
 * @{ */

/** Returns the number of states; 0 for a handle that is not valid. */
REPRISE_API size_t reprise_session_state_count(const reprise_session* session);
/** Describes a state, in the model's order. The caller sets `struct_size` of `slot`. */
REPRISE_API reprise_status reprise_session_state(const reprise_session* session, size_t index,
                                                 reprise_slot* slot, reprise_error* error);
/** Copies the value of a state to `data`. `bytes` must be the size of the state; another size, or a
 * name that no state has, is a REPRISE_INVALID_INPUT error. */
REPRISE_API reprise_status reprise_session_read_state(reprise_session* session, const char* name,
                                                      void* data, size_t bytes,
                                                      reprise_error* error);
/** Gives a state the value in `data`, which is copied. `bytes` must be the size of the state. One
 * that grows gets as many rows as `bytes` holds of the size that its rows have;
 * reprise_session_write_state_tensor() can give it rows of another size. */
REPRISE_API reprise_status reprise_session_write_state(reprise_session* session, const char* name,
                                                       const void* data, size_t bytes,
                                                       reprise_error* error);
/** Writes the values of all states to a file, as reprise_package_save writes packages. */
REPRISE_API reprise_status reprise_session_save_states(reprise_session* session, const char* path,
                                                       reprise_error* error);
/** Reads all states from such a file, or the initial values from a package with the same states.
 * Fails and changes nothing if the names, dtypes or shapes differ. */
REPRISE_API reprise_status reprise_session_load_states(reprise_session* session, const char* path,
                                                       reprise_error* error);
/** Gives all states their initial values. */
REPRISE_API reprise_status reprise_session_reset_states(reprise_session* session,
                                                        reprise_error* error);

/** The rows of a state that grows, such as a cache of keys: the positions along one of its axes.
 * Each run reads the rows that are valid, and appends some. A session begins with none. */
typedef struct reprise_state_rows {
  size_t struct_size; /**< as its initialiser sets it */
  int64_t axis;       /**< of the dims of the state; -1 if its shape is fixed, which has no rows */
  int64_t length;     /**< how many rows are valid */
  int64_t capacity;   /**< for how many rows there is memory */
  int64_t limit;      /**< the most rows that it may have; INT64_MAX unless it was set */
  uint64_t bytes;     /**< of its value: what reprise_session_read_state takes */
  uint32_t rank;      /**< the number of dims */
  uint32_t reserved;  /**< zero */
  /** Of its value. A size that runs decide is 0 until a run did. */
  int64_t dims[REPRISE_MAX_RANK];
} reprise_state_rows;
/** Initialises a reprise_state_rows. */
#define REPRISE_STATE_ROWS_INIT                         \
  {                                                     \
    sizeof(reprise_state_rows), -1, 0, 0, 0, 0, 0, 0, { \
      0                                                 \
    }                                                   \
  }

/* The memory of a state that grows is enlarged before a run that needs more, by half of what it has
 * and by 256 rows at least. That records nothing and keeps the valid rows. A run that fails, for
 * whatever reason, leaves the length and the valid rows as they were. Of such a state,
 * reprise_session_read_state and reprise_session_write_state take the valid rows in the layout of
 * the model, dense; reprise_session_state gives dims of -1 where sizes vary. Resetting, and loading
 * from a package, leave it without rows. In the functions below, a name that is null means all
 * states that grow. States whose lengths have one name in the model need equal lengths in a run. */

/** Gets the rows of a state. The caller sets `struct_size` of `rows`. */
REPRISE_API reprise_status reprise_session_state_rows(reprise_session* session, const char* name,
                                                      reprise_state_rows* rows,
                                                      reprise_error* error);
/** Drops the rows behind the first `length` ones. More than there are is REPRISE_USAGE. With 0
 * rows, the next run may have another batch. The memory is kept. */
REPRISE_API reprise_status reprise_session_truncate_states(reprise_session* session,
                                                           const char* name, int64_t length,
                                                           reprise_error* error);
/** Makes memory for at least `rows` rows: at once or, if the size of a row depends on inputs, in
 * the next run. Fails with REPRISE_OUT_OF_MEMORY, or REPRISE_USAGE beyond the limit. */
REPRISE_API reprise_status reprise_session_reserve_states(reprise_session* session,
                                                          const char* name, int64_t rows,
                                                          reprise_error* error);
/** Sets the most rows that the states may have. A run that needs more fails with
 * REPRISE_INVALID_INPUT before it begins. Fewer than there are is REPRISE_USAGE. */
REPRISE_API reprise_status reprise_session_limit_states(reprise_session* session, const char* name,
                                                        int64_t rows, reprise_error* error);
/** Gives the state `value->name` the value in host memory, which is copied. It has the dims of the
 * state; of one that grows, any number of rows within the limit. A name that no state has, another
 * dtype or other dims, and memory that is not dense host memory are REPRISE_INVALID_INPUT; more
 * rows than the limit are REPRISE_USAGE, and more than there is memory for REPRISE_OUT_OF_MEMORY.
 * After these errors the state has the value that it had. */
REPRISE_API reprise_status reprise_session_write_state_tensor(reprise_session* session,
                                                              const reprise_tensor* value,
                                                              reprise_error* error);

/** The values of all states of a model, apart from sessions, such as the caches of one
 * conversation. Many of them run through one session, one after another, which records nothing new:
 * their addresses and lengths are parameters. They stay on the device where they were made. Only
 * one thread at a time may use an object, and a run in flight does: other calls fail with
 * REPRISE_BUSY. So do those after a run that has exceeded its time limit, until the device has
 * ended it and its session is called again. Free it with reprise_states_free. */
typedef struct reprise_states reprise_states;

/** What states have. */
typedef struct reprise_states_info {
  size_t struct_size; /**< as its initialiser sets it */
  uint64_t bytes;     /**< of their memory on the device, or on the host if the session is there */
  uint64_t shared_bytes; /**< of these, in memory that forks of them, or they as a fork, use too */
  int64_t length;        /**< rows of the longest state that grows; 0 if none does */
} reprise_states_info;
/** Initialises a reprise_states_info. */
#define REPRISE_STATES_INFO_INIT \
  { sizeof(reprise_states_info), 0, 0, 0 }

/** Makes states with the initial values that the package of the session has. */
REPRISE_API reprise_status reprise_states_create(reprise_session* session, reprise_states** out,
                                                 reprise_error* error);
/** Makes states with the same values; of those that grow, with the first `length` rows, or with all
 * rows if it is -1. No rows are copied: both have the same memory. The first that appends behind
 * the rows of the other goes on there; the other one copies its rows when it appends. Fails with
 * REPRISE_USAGE if there are fewer rows, or if a state of a fixed shape has no value for that
 * length. */
REPRISE_API reprise_status reprise_states_fork(reprise_states* states, int64_t length,
                                               reprise_states** out, reprise_error* error);
/** Describes states. The caller sets `struct_size` of `info`. */
REPRISE_API reprise_status reprise_states_get_info(reprise_states* states,
                                                   reprise_states_info* info, reprise_error* error);
/** Frees the states. Sessions and runs to which they are bound keep them. */
REPRISE_API void reprise_states_free(reprise_states* states);
/** From now on, runs of the session, and its functions of states above, use these: so they are
 * truncated, saved, loaded, read and written. Null: the session's own. Waits for calls of other
 * threads that came before; fails with REPRISE_BUSY while a run object of the session, or any run
 * that uses these states, is in flight. The states may be those of another package if its states
 * have the same names, dtypes and shapes in the same order. After reprise_session_reopen, the
 * session uses its own, which have the values of those that were bound. */
REPRISE_API reprise_status reprise_session_bind_states(reprise_session* session,
                                                       reprise_states* states,
                                                       reprise_error* error);
/** The same for the submissions of one run object, whatever is bound to its session; null: what is
 * bound to the session. Bind again after reprise_session_reopen. */
REPRISE_API reprise_status reprise_run_bind_states(reprise_run* run, reprise_states* states,
                                                   reprise_error* error);

/** @} */

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*) */

#endif
