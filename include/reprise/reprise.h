/* Reprise: runs compiled models (.rpk) on Vulkan and CUDA devices and on the host. C interface.
 *
 * Handles. Handles are opaque. The caller owns them and frees each with its _free function, which
 * also accepts null. A handle is a key, not an address: a call with a handle that was freed or that
 * has another type fails with REPRISE_USAGE, and freeing a handle twice does nothing. A handle may
 * be freed while other threads use it: calls in progress complete normally, and later calls fail
 * with REPRISE_USAGE. A session keeps what it needs of its package and device, so handles may be
 * freed in any order. Buffers must outlive the runs that use them; after a timeout they must
 * outlive the session.
 *
 * Timeouts. Freeing a session waits for its runs that timed out. A run counts as hung if it has not
 * ended when its time limit has passed once more, or 10 seconds if that is longer. From then on:
 *  - the library frees nothing that was made from the device, as the device may still use it;
 *  - memory that the application lent to the device must stay valid as long as the process lives;
 *  - every later call with that device fails with REPRISE_DEVICE, and the message says why.
 *
 * Errors. Every function that can fail returns a status. If `error` is not null, the function fills
 * it with a message that names the node, tensor or file and says what was expected and what was
 * found. The library never throws, prints, aborts or reads the environment.
 *
 * Threads. All functions may be called from any thread. Several threads may run one session at the
 * same time. Two runs must not write to the same buffer at the same time. The library creates
 * threads only to build kernels while it creates a session; they end before that call returns.
 *
 * Structs. A struct begins with its size, which the REPRISE_*_INIT initialisers set, so that later
 * versions can add members at the end. A size that no version had is a REPRISE_USAGE error. So is a
 * larger size if members that this version does not know are not zero. Set `reserved` to zero.
 *
 * Strings are UTF-8.
 *
 * Processes. A child process of fork() cannot use what its parent made: calls with such a handle
 * fail with REPRISE_USAGE, and freeing it does nothing. The child can make objects of its own as
 * far as the drivers allow.
 */
#ifndef REPRISE_REPRISE_H_
#define REPRISE_REPRISE_H_

/* NOLINTBEGIN(modernize-*): this is C */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. It changes only if programs that were compiled for an earlier one
 * no longer work; docs/abi.md says what may change within a version. */
#define REPRISE_ABI_VERSION 1

/* Functions that the library exports. On Windows, define REPRISE_STATIC if it is linked statically.
 */
#ifndef REPRISE_API
#if defined(_WIN32) && defined(REPRISE_BUILDING)
#define REPRISE_API __declspec(dllexport)
#elif defined(_WIN32) && !defined(REPRISE_STATIC)
#define REPRISE_API __declspec(dllimport)
#elif defined(__GNUC__)
#define REPRISE_API __attribute__((visibility("default")))
#else
#define REPRISE_API
#endif
#endif

#define REPRISE_MAX_RANK 16

typedef enum reprise_status {
  REPRISE_OK = 0,
  REPRISE_USAGE = 1,         /* the caller asked for something that does not exist */
  REPRISE_INVALID_MODEL = 2, /* the model is malformed */
  REPRISE_INVALID_INPUT = 3, /* an input has a wrong name, shape, dtype or value */
  REPRISE_UNSUPPORTED = 4,   /* the request is well-formed, but this build or device cannot do it */
  REPRISE_IO = 5,            /* a file could not be read or written */
  REPRISE_DEVICE = 6,        /* a driver call failed, or the device reported an error */
  REPRISE_INTERNAL = 7,      /* a bug of this library */
  REPRISE_OUT_OF_MEMORY = 8, /* of the host or of the device */
  REPRISE_TIMEOUT = 9,       /* a run did not end within its time limit */
  REPRISE_DEVICE_LOST = 10,  /* nothing works on the device any more; open it again, or another */
  REPRISE_CANCELLED = 11,    /* the caller asked to stop */
  REPRISE_CORRUPT_PACKAGE = 12, /* the package is damaged, truncated or not a package */
  REPRISE_INCOMPATIBLE_PACKAGE =
      13, /* the package has another format version, or no variant fits */
  REPRISE_STATUS_MAX_ENUM = 0x7FFFFFFF /* the type has 32 bits in every compiler */
} reprise_status;

typedef struct reprise_error {
  reprise_status status;
  char message[2036]; /* null-terminated; truncated if it is longer */
} reprise_error;

/* Element types. The numbers never change. */
typedef enum reprise_dtype {
  REPRISE_F32 = 1,
  REPRISE_F16 = 2,
  REPRISE_BF16 = 3,
  REPRISE_F64 = 4,
  REPRISE_I8 = 5,
  REPRISE_U8 = 6,
  REPRISE_I16 = 7,
  REPRISE_U16 = 8,
  REPRISE_I32 = 9,
  REPRISE_U32 = 10,
  REPRISE_I64 = 11,
  REPRISE_U64 = 12,
  REPRISE_BOOL = 13,   /* one byte, 0 or 1 */
  REPRISE_STRING = 14, /* a reprise_string; in host memory only */
  /* Types of fewer bits. Each element has a byte of its own, of whose bits those above the
   * element's are not read; in results they repeat an integer's sign or are zero. */
  REPRISE_I4 = 15,
  REPRISE_U4 = 16,
  REPRISE_I2 = 17,
  REPRISE_U2 = 18,
  REPRISE_F8E4M3FN = 19,
  REPRISE_F8E4M3FNUZ = 20,
  REPRISE_F8E5M2 = 21,
  REPRISE_F8E5M2FNUZ = 22,
  REPRISE_F4E2M1 = 23,
  REPRISE_F8E8M0 = 24,
  REPRISE_DTYPE_MAX_ENUM = 0x7FFFFFFF
} reprise_dtype;

/* An element of a tensor of strings: `size` bytes, without a terminating zero. */
typedef struct reprise_string {
  const char* data; /* may be null if `size` is 0 */
  size_t size;
} reprise_string;

/* What a value is. The numbers never change. */
typedef enum reprise_kind {
  REPRISE_KIND_TENSOR = 0,
  REPRISE_KIND_SEQUENCE = 1,          /* of tensors */
  REPRISE_KIND_OPTIONAL = 2,          /* a tensor or nothing */
  REPRISE_KIND_OPTIONAL_SEQUENCE = 3, /* a sequence of tensors or nothing */
  REPRISE_KIND_INT64_MAP = 4,         /* from int64 */
  REPRISE_KIND_STRING_MAP = 5,        /* from strings */
  REPRISE_KIND_SEQUENCE_OF_INT64_MAPS = 6,
  REPRISE_KIND_SEQUENCE_OF_STRING_MAPS = 7,
  REPRISE_KIND_MAX_ENUM = 0x7FFFFFFF
} reprise_kind;

/* How serious a message is. */
typedef enum reprise_severity {
  REPRISE_SEVERITY_ERROR = 1,   /* results may be wrong, such as a message of a validation layer */
  REPRISE_SEVERITY_WARNING = 2, /* something is worse than it should be */
  REPRISE_SEVERITY_INFO = 3,    /* progress */
  REPRISE_SEVERITY_MAX_ENUM = 0x7FFFFFFF
} reprise_severity;

/* Returns the bytes of one element, or 0 for strings and for an unknown dtype. */
REPRISE_API size_t reprise_dtype_size(reprise_dtype dtype);
/* Returns the version, such as "0.1.0". */
REPRISE_API const char* reprise_version(void);
/* Returns the REPRISE_ABI_VERSION that the library was built with. */
REPRISE_API uint32_t reprise_abi_version(void);

/* --- packages: compiled models ---
 * A package holds code for devices. Opening a package checks everything that the library itself
 * relies on, and checksums detect damage. Nevertheless, malicious kernels can crash a driver or the
 * process: open packages only from sources from which you would run a program. Do not truncate the
 * file of a package while the package is open. */
typedef struct reprise_package reprise_package;

REPRISE_API reprise_status reprise_package_open(const char* path, reprise_package** out,
                                                reprise_error* error);
/* Uses `bytes` in place: they must stay valid until the package and its sessions are freed. */
REPRISE_API reprise_status reprise_package_open_memory(const void* bytes, size_t size,
                                                       reprise_package** out, reprise_error* error);
/* Writes the file completely or not at all. A file that replaces another keeps its mode. Symbolic
 * links are followed. A path that is not a regular file, such as a pipe or a device, is written to
 * directly. */
REPRISE_API reprise_status reprise_package_save(const reprise_package* package, const char* path,
                                                reprise_error* error);
REPRISE_API void reprise_package_free(reprise_package* package);

typedef struct reprise_package_info {
  size_t struct_size;
  const char* model;    /* these strings live as long as the package */
  const char* producer; /* "reprise 0.1.0" */
  uint64_t weight_bytes;
  uint32_t input_count;
  uint32_t output_count;
  uint32_t state_count;
  uint32_t variant_count;
} reprise_package_info;
#define REPRISE_PACKAGE_INFO_INIT \
  { sizeof(reprise_package_info), NULL, NULL, 0, 0, 0, 0, 0 }

/* A plan with kernels for devices that have certain features. A session uses the first variant that
 * its device satisfies. */
typedef struct reprise_variant {
  size_t struct_size;
  const char* name; /* "vulkan-baseline"; lives as long as the package */
  uint32_t kernel_count;
  uint32_t launch_count; /* without those of control flow */
  uint32_t host_call_count;
  uint32_t has_probes; /* 1: sessions can check the kernels */
} reprise_variant;
#define REPRISE_VARIANT_INIT \
  { sizeof(reprise_variant), NULL, 0, 0, 0, 0 }

/* Describe a package; no device is needed. */
REPRISE_API reprise_status reprise_package_get_info(const reprise_package* package,
                                                    reprise_package_info* info,
                                                    reprise_error* error);
REPRISE_API reprise_status reprise_package_variant(const reprise_package* package, size_t index,
                                                   reprise_variant* variant, reprise_error* error);

/* --- devices --- */
typedef struct reprise_device reprise_device;

typedef struct reprise_device_info {
  size_t struct_size;
  char id[32];   /* "vulkan:0", "cuda:0", "host" */
  char kind[32]; /* "discrete-gpu", "cpu", "host", ... */
  char name[256];
  char driver[256];
  char api[64];
  char reason[512]; /* if not usable: why, and what to do about it */
  uint8_t uuid[16]; /* as Vulkan and CUDA report it; zeros: unknown */
  int32_t usable;
  uint32_t reserved;
} reprise_device_info;
#define REPRISE_DEVICE_INFO_INIT \
  { sizeof(reprise_device_info), "", "", "", "", "", "", {0}, 0, 0 }

/* A Vulkan device of the application, which the library borrows and never frees. The application
 * must have enabled bufferDeviceAddress. The library uses only those other features that are set
 * here. */
typedef struct reprise_vulkan_device {
  size_t struct_size;
  void* get_instance_proc_addr; /* PFN_vkGetInstanceProcAddr; null: the system's loader */
  void* instance;               /* VkInstance */
  void* physical_device;        /* VkPhysicalDevice */
  void* device;                 /* VkDevice */
  void* queue;                  /* VkQueue */
  uint32_t queue_family;
  int32_t shader_int64, shader_float16;
  int32_t storage8;  /* storageBuffer8BitAccess and shaderInt8 */
  int32_t storage16; /* storageBuffer16BitAccess and shaderInt16 */
  int32_t shader_float64;
  /* Called around each submission, so that the application can use the queue as well. May be null.
   */
  void (*lock_queue)(void* user);
  void (*unlock_queue)(void* user);
  void* user;
} reprise_vulkan_device;
#define REPRISE_VULKAN_DEVICE_INIT                                                             \
  {                                                                                            \
    sizeof(reprise_vulkan_device), NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, \
        NULL                                                                                   \
  }

/* A CUDA context of the application, which the library borrows and never frees. Runs and transfers
 * go into `stream`, so they follow what the application put there before, and they end before their
 * calls return. After an error that poisons the context, every call fails and reports it. */
typedef struct reprise_cuda_device {
  size_t struct_size;
  void* context; /* CUcontext */
  /* A CUstream of that context that is not being captured. Null: the library makes streams of its
   * own. For the default stream, which CUDA's functions call null, pass CU_STREAM_LEGACY or
   * CU_STREAM_PER_THREAD. */
  void* stream;
} reprise_cuda_device;
#define REPRISE_CUDA_DEVICE_INIT \
  { sizeof(reprise_cuda_device), NULL, NULL }

typedef struct reprise_device_options {
  size_t struct_size;
  /* Folder that keeps the driver's compiled kernels; null: they are not kept. Files in it that
   * belong to a user other than this one or root, or that everyone may write to, are not used, and
   * `log` reports them. */
  const char* cache_dir;
  int32_t validation; /* use Vulkan validation layers; they write to `log` */
  uint32_t threads;   /* for building kernels; 0: one per processor */
  /* Called from any thread; may be null. */
  void (*log)(void* user, reprise_severity severity, const char* message);
  void* log_user;
  const reprise_vulkan_device* vulkan; /* if not null: borrow it; its `device` must be set */
  const reprise_cuda_device* cuda;     /* if not null: borrow it; its `context` must be set */
  const reprise_package* package;      /* if not null: "auto" skips devices that no variant fits */
} reprise_device_options;
#define REPRISE_DEVICE_OPTIONS_INIT \
  { sizeof(reprise_device_options), NULL, 0, 0, NULL, NULL, NULL, NULL, NULL }

/* Writes up to `capacity` infos, whose struct_size the caller has set, and sets `count` to the
 * number of all devices. */
REPRISE_API reprise_status reprise_list_devices(reprise_device_info* infos, size_t capacity,
                                                size_t* count, reprise_error* error);
/* `id` is "auto" (the best usable device, or else the host), "host", "vulkan", "vulkan:1", "cuda"
 * or "cuda:0". "vulkan" or "cuda" opens the device or context that `options` lend. `options` may be
 * null. */
REPRISE_API reprise_status reprise_device_open(const char* id,
                                               const reprise_device_options* options,
                                               reprise_device** out, reprise_error* error);
REPRISE_API void reprise_device_get_info(const reprise_device* device, reprise_device_info* info);
/* Frees memory that no run uses at the moment: that of idle sessions on this device, which they
 * allocate again when they run. */
REPRISE_API reprise_status reprise_device_trim(reprise_device* device, reprise_error* error);
REPRISE_API void reprise_device_free(reprise_device* device);

/* --- device memory, used in place by runs --- */
typedef struct reprise_buffer reprise_buffer;

/* Allocates `bytes` bytes of device memory. The host device has none: its runs use the memory of
 * the caller. */
REPRISE_API reprise_status reprise_buffer_create(reprise_device* device, uint64_t bytes,
                                                 reprise_buffer** out, reprise_error* error);
/* Borrows memory of the application on its own device. On Vulkan, `handle` is a VkBuffer with
 * storage, transfer and device-address usage. On CUDA, it is a CUdeviceptr, cast to a pointer: a
 * multiple of 16, in memory of that device and context or in managed memory, with at least `bytes`
 * bytes of its allocation from there on. */
REPRISE_API reprise_status reprise_buffer_borrow(reprise_device* device, void* handle,
                                                 uint64_t bytes, reprise_buffer** out,
                                                 reprise_error* error);
/* Copies `bytes` bytes between the host and the buffer; `offset` is in bytes. If the host cannot
 * map the memory, the transfer waits for all runs that were submitted to the device before it,
 * including those of other sessions. */
REPRISE_API reprise_status reprise_buffer_write(reprise_buffer* buffer, uint64_t offset,
                                                const void* data, uint64_t bytes,
                                                reprise_error* error);
REPRISE_API reprise_status reprise_buffer_read(const reprise_buffer* buffer, uint64_t offset,
                                               void* data, uint64_t bytes, reprise_error* error);
REPRISE_API void reprise_buffer_free(reprise_buffer* buffer);

/* --- sessions: a package on a device --- */
typedef struct reprise_session reprise_session;

typedef struct reprise_session_options {
  size_t struct_size;
  /* How many runs may be in flight at the same time, each with its own memory; 0: 2. Further calls
   * wait and proceed in the order of their arrival. */
  uint32_t max_in_flight;
  int32_t fullgraph; /* fail if a node would run on the host */
  /* Time limit of one run; 0: 60,000, or 600,000 on CPU-type devices. It starts when the device
   * begins the run, that is, when everything that this library submitted to the device before has
   * ended. Neither waiting behind other runs nor waiting because max_in_flight runs are in flight
   * counts. A run that times out is an error but continues: it is in flight until it ends. If host
   * kernels divide the run into several submissions, the limit applies to each of these, and to all
   * host kernels together, whose loops end when it is exceeded. */
  uint64_t timeout_ms;
  /* Some drivers compile a kernel when it is first launched. With warm_up that happens when the
   * session is created instead of in the first run. */
  int32_t warm_up;
  /* Run each kernel alone when the session is created, on inputs for which the package has the
   * results, and compare. If a kernel fails, the session uses the next variant that fits the device
   * and whose kernels pass. If there is none, it uses the host, which takes no buffers of the
   * device. The `log` of the device reports this. The verdict is kept in the `cache_dir` of the
   * device, so the next session on the same device and driver only reads it. Packages that were
   * compiled without probes are used unchecked. */
  int32_t check_kernels;
} reprise_session_options;
#define REPRISE_SESSION_OPTIONS_INIT \
  { sizeof(reprise_session_options), 0, 0, 0, 0, 0 }

/* An input or output of the model. */
typedef struct reprise_slot {
  size_t struct_size;
  const char* name; /* this and `shape` live as long as the package or session */
  /* The dims with the names of symbols, such as "[batch, 3, 2*length]". Equal names are equal
   * sizes. */
  const char* shape;
  reprise_kind kind; /* of anything but a tensor, `dtype` is that of its tensors, of a map that of
                      * its values, and there are no dims */
  reprise_dtype dtype;
  uint32_t rank;
  uint32_t reserved;
  int64_t dims[REPRISE_MAX_RANK]; /* -1: depends on the inputs of a run */
} reprise_slot;
#define REPRISE_SLOT_INIT                                                       \
  {                                                                             \
    sizeof(reprise_slot), NULL, NULL, REPRISE_KIND_TENSOR, REPRISE_F32, 0, 0, { \
      0                                                                         \
    }                                                                           \
  }

/* The inputs, outputs and states of a package, as reprise_session_input describes them. */
REPRISE_API reprise_status reprise_package_input(const reprise_package* package, size_t index,
                                                 reprise_slot* slot, reprise_error* error);
REPRISE_API reprise_status reprise_package_output(const reprise_package* package, size_t index,
                                                  reprise_slot* slot, reprise_error* error);
REPRISE_API reprise_status reprise_package_state(const reprise_package* package, size_t index,
                                                 reprise_slot* slot, reprise_error* error);

/* --- values that are no tensors ---
 * Sequences, optionals and maps live in host memory. A value never changes, and its copies of
 * tensors are its own. */
typedef struct reprise_value reprise_value;

/* A dense, row-major tensor of the caller, in host memory or in a device buffer. */
typedef struct reprise_tensor {
  size_t struct_size;
  const char* name;
  reprise_dtype dtype;            /* of `data`: must be the dtype of the slot */
  uint32_t rank;                  /* set by the caller for inputs, by the run for outputs */
  int64_t dims[REPRISE_MAX_RANK]; /* likewise */
  void* data;                     /* host memory; the run does not write to inputs */
  size_t bytes;                   /* size of `data` */
  reprise_buffer* buffer;         /* device memory; setting both this and `data` is an error */
  uint64_t offset;                /* in `buffer`, in bytes; a multiple of 16 */
  const reprise_value* value;     /* for inputs: a value instead of all of the above but the name */
} reprise_tensor;
#define REPRISE_TENSOR_INIT \
  { sizeof(reprise_tensor), NULL, REPRISE_F32, 0, {0}, NULL, 0, NULL, 0, NULL }

typedef struct reprise_value_info {
  size_t struct_size;
  reprise_kind kind;
  reprise_dtype dtype; /* of the tensors; of a map, that of its values */
  size_t count;        /* how many items it has; 0 for a tensor */
} reprise_value_info;
#define REPRISE_VALUE_INFO_INIT \
  { sizeof(reprise_value_info), REPRISE_KIND_TENSOR, REPRISE_F32, 0 }

/* Makes a value of a tensor in host memory, which is copied. Its name is not used. */
REPRISE_API reprise_status reprise_value_from_tensor(const reprise_tensor* tensor,
                                                     reprise_value** out, reprise_error* error);
/* Makes a value of its items: the tensors or maps of a sequence, what an optional holds or nothing,
 * or the keys of a map and its values, which are two tensors of rank 1 and equal length. */
REPRISE_API reprise_status reprise_value_create(reprise_kind kind, reprise_dtype dtype,
                                                const reprise_value* const* items, size_t count,
                                                reprise_value** out, reprise_error* error);
REPRISE_API reprise_status reprise_value_get_info(const reprise_value* value,
                                                  reprise_value_info* info, reprise_error* error);
/* Gets an item as a value of its own. */
REPRISE_API reprise_status reprise_value_get_item(const reprise_value* value, size_t index,
                                                  reprise_value** out, reprise_error* error);
/* Gets a value that is a tensor. `data` lives as long as the value; do not write to it. */
REPRISE_API reprise_status reprise_value_get_tensor(const reprise_value* value,
                                                    reprise_tensor* tensor, reprise_error* error);
REPRISE_API void reprise_value_free(reprise_value* value);

typedef struct reprise_run_stats {
  size_t struct_size;
  double host_submit_us; /* host work until the run is submitted, without copies of tensors */
  double total_us;
  uint64_t bytes_copied; /* between host and device memory; 0 if all tensors are device buffers */
} reprise_run_stats;
#define REPRISE_RUN_STATS_INIT \
  { sizeof(reprise_run_stats), 0, 0, 0 }

/* `options` may be null. */
REPRISE_API reprise_status reprise_session_create(const reprise_package* package,
                                                  reprise_device* device,
                                                  const reprise_session_options* options,
                                                  reprise_session** out, reprise_error* error);
REPRISE_API void reprise_session_free(reprise_session* session);
REPRISE_API size_t reprise_session_input_count(const reprise_session* session);
REPRISE_API size_t reprise_session_output_count(const reprise_session* session);
REPRISE_API reprise_status reprise_session_input(const reprise_session* session, size_t index,
                                                 reprise_slot* slot, reprise_error* error);
REPRISE_API reprise_status reprise_session_output(const reprise_session* session, size_t index,
                                                  reprise_slot* slot, reprise_error* error);

/* What a session uses, and totals of its runs. Dispatches, barriers and copies are those that the
 * device executed. */
typedef struct reprise_session_info {
  size_t struct_size;
  const char* variant; /* in use; "host" on the host. The strings live as long as the session. */
  /* Why earlier variants were not used, one line for each; empty if there is none. A line that
   * begins with the name of the variant in use says why it is not the ideal one. */
  const char* notes;
  uint64_t runs, recordings, submits, dispatches, barriers, copies;
  uint64_t device_bytes; /* device memory that the session holds now */
  double load_ms;        /* time that creating the session took */
} reprise_session_info;
#define REPRISE_SESSION_INFO_INIT \
  { sizeof(reprise_session_info), NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0 }
REPRISE_API reprise_status reprise_session_get_info(const reprise_session* session,
                                                    reprise_session_info* info,
                                                    reprise_error* error);

/* The outputs of a run for which the caller gave no memory. */
typedef struct reprise_results reprise_results;

/* Runs once and waits for the end. `stats` may be null.
 *
 * The caller must give every input. Each output that it gives is written to the memory of the
 * caller, which must be large enough, and the run sets its dtype and dims. The other outputs are in
 * `results` if that is not null. Outputs must not share memory with each other. An output in a
 * buffer must not share memory with an input; an output in host memory may be where an input is.
 *
 * A run on a device allocates nothing on the heap if an earlier run had the same sizes, the caller
 * gives all outputs, and no node runs on the host. */
REPRISE_API reprise_status reprise_session_run(reprise_session* session,
                                               const reprise_tensor* inputs, size_t input_count,
                                               reprise_tensor* outputs, size_t output_count,
                                               reprise_results** results, reprise_run_stats* stats,
                                               reprise_error* error);
/* Gets output `index` of the model as a value of its own, whatever its kind. */
REPRISE_API reprise_status reprise_results_get_value(const reprise_results* results, size_t index,
                                                     reprise_value** out, reprise_error* error);
/* Gets output `index` of the model, a tensor. `data` lives as long as the results; do not write to
 * it. */
REPRISE_API reprise_status reprise_results_get(const reprise_results* results, size_t index,
                                               reprise_tensor* tensor, reprise_error* error);
REPRISE_API void reprise_results_free(reprise_results* results);

/* --- states ---
 * A state is a tensor that a session keeps in the memory of its device from run to run, such as a
 * parameter that a package for training updates. Each run reads the states and gives them their
 * next values, so runs of such a session take turns, and these functions wait for runs that came
 * before them. Every session begins with the initial values that the package has.
 *
 * If a run fails after the device began it, the states that it updates in place have no defined
 * value. Calls that need one fail with REPRISE_USAGE then, until the states are loaded, reset or
 * written. */
REPRISE_API size_t reprise_session_state_count(const reprise_session* session);
REPRISE_API reprise_status reprise_session_state(const reprise_session* session, size_t index,
                                                 reprise_slot* slot, reprise_error* error);
/* Copy the value of a state between the session and host memory. `bytes` must be the size of the
 * state; another size, or a name that no state has, is a REPRISE_INVALID_INPUT error. */
REPRISE_API reprise_status reprise_session_read_state(reprise_session* session, const char* name,
                                                      void* data, size_t bytes,
                                                      reprise_error* error);
REPRISE_API reprise_status reprise_session_write_state(reprise_session* session, const char* name,
                                                       const void* data, size_t bytes,
                                                       reprise_error* error);
/* Writes the values of all states to a file, as reprise_package_save writes packages. */
REPRISE_API reprise_status reprise_session_save_states(reprise_session* session, const char* path,
                                                       reprise_error* error);
/* Reads all states from such a file, or the initial values from a package with the same states.
 * Fails and changes nothing if the names, dtypes or shapes differ. */
REPRISE_API reprise_status reprise_session_load_states(reprise_session* session, const char* path,
                                                       reprise_error* error);
/* Gives all states their initial values. */
REPRISE_API reprise_status reprise_session_reset_states(reprise_session* session,
                                                        reprise_error* error);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*) */

#endif
