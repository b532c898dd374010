/* Reprise: runs compiled models (.rpk) on Vulkan and CUDA devices and on the host. C interface.
 *
 * Handles are opaque and owned by the caller, who frees each with its _free function; null is
 * allowed there. They are keys, not addresses: a call with a handle that was freed, or is of
 * another kind, is a REPRISE_USAGE error, and freeing it again does nothing. Any handle may be
 * freed while other threads call with it: calls that have entered end as if it had not been, later
 * ones are that error. A session keeps what it needs of its package and device, so handles may be
 * freed in any order; buffers must outlive the runs that use them (after a timeout: the session).
 * Freeing a session waits for the runs of it that timed out. One that does not end in as long again
 * as it was given, and at least 10 seconds, hangs, and is given up: nothing that was made from its
 * device is freed any more, which the device may still use, memory that was lent to it must stay as
 * long as the process, and every later call with that device is a REPRISE_DEVICE error that says
 * so. Errors: every function that can fail returns a status and, where `error` is not null, fills
 * it with a message that names the node, tensor or file, what was expected and found. The library
 * never throws, prints, aborts or reads the environment. Threads: all functions may be called from
 * any thread. One session may be run from several threads at once; a buffer must not be written by
 * two runs at once. Threads are created only to build kernels when a session is created, and end
 * before that call returns. Structs begin with their size, set by the REPRISE_*_INIT initialisers,
 * so that later versions can add members at the end; a size that no version had is a REPRISE_USAGE
 * error, and so is a larger one with members set that this version does not know. Strings are
 * UTF-8. Processes: a child of fork() cannot use what its parent made. There every call with such a
 * handle is a REPRISE_USAGE error, and frees do nothing; what it makes itself, it can use as far as
 * the drivers allow.
 */
#ifndef REPRISE_REPRISE_H_
#define REPRISE_REPRISE_H_

/* NOLINTBEGIN(modernize-*): this is C */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REPRISE_MAX_RANK 16

typedef enum reprise_status {
  REPRISE_OK = 0,
  REPRISE_USAGE = 1,         /* something that does not exist was asked for */
  REPRISE_INVALID_MODEL = 2, /* the model or package is malformed */
  REPRISE_INVALID_INPUT = 3, /* an input has a wrong name, shape, dtype or value */
  REPRISE_UNSUPPORTED = 4,   /* well-formed, but this build or device cannot do it */
  REPRISE_IO = 5,            /* a file could not be read or written */
  REPRISE_DEVICE = 6,        /* a driver call failed, or the device reported an error */
  REPRISE_INTERNAL = 7       /* a bug of this library */
} reprise_status;

typedef struct reprise_error {
  reprise_status status;
  char message[2036]; /* ends with a zero byte; cut when longer */
} reprise_error;

/* Element types; numbers never change. */
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
  REPRISE_BOOL = 13 /* one byte, 0 or 1 */
} reprise_dtype;

/* Bytes of one element; 0 for an unknown number. */
size_t reprise_dtype_size(reprise_dtype dtype);
/* "0.1.0" */
const char* reprise_version(void);

/* --- packages: compiled models ---
 * A package holds code for devices. Everything that this library itself relies on is checked when a
 * package is opened, and checksums find damage; but kernels made to harm can crash a driver or the
 * process. Open packages of the sources from which you would run a program, and do not truncate a
 * package's file while it is open. */
typedef struct reprise_package reprise_package;

reprise_status reprise_package_open(const char* path, reprise_package** out, reprise_error* error);
/* `bytes` are used in place: they must stay until the package and its sessions are freed. */
reprise_status reprise_package_open_memory(const void* bytes, size_t size, reprise_package** out,
                                           reprise_error* error);
/* A file appears whole or not at all, with the mode of the one that it replaces. Symbolic links are
 * followed; what is not a regular file, such as a pipe or a device, is written to. */
reprise_status reprise_package_save(const reprise_package* package, const char* path,
                                    reprise_error* error);
void reprise_package_free(reprise_package* package);

/* --- devices --- */
typedef struct reprise_device reprise_device;

typedef struct reprise_device_info {
  size_t struct_size;
  char id[32];   /* "vulkan:0", "cuda:0", "host" */
  char kind[32]; /* "discrete-gpu", "cpu", "host", ... */
  char name[256];
  char driver[256];
  char api[64];
  int32_t usable;
  char reason[512]; /* why it is not usable, and what to do */
} reprise_device_info;
#define REPRISE_DEVICE_INFO_INIT \
  { sizeof(reprise_device_info), "", "", "", "", "", 0, "" }

/* A Vulkan device of the application. Nothing is freed here. bufferDeviceAddress must be enabled;
 * features that are not stated are not used. */
typedef struct reprise_vulkan_device {
  size_t struct_size;
  void* get_instance_proc_addr; /* PFN_vkGetInstanceProcAddr; null: the system's loader */
  void* instance;               /* VkInstance, and so on */
  void* physical_device;
  void* device;
  void* queue;
  uint32_t queue_family;
  int32_t shader_int64, shader_float16;
  int32_t storage8, storage16; /* storageBuffer8BitAccess and shaderInt8; likewise 16 */
  /* Called around each submission, so that the application can share the queue. May be null. */
  void (*lock_queue)(void* user);
  void (*unlock_queue)(void* user);
  void* user;
} reprise_vulkan_device;
#define REPRISE_VULKAN_DEVICE_INIT \
  { sizeof(reprise_vulkan_device), NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, NULL, NULL, NULL }

/* A CUDA context of the application. Nothing is freed here. Runs and transfers go into `stream`, so
 * that they follow what the application put there before, and end before their calls return. After
 * an error that poisons the context every call says so. */
typedef struct reprise_cuda_device {
  size_t struct_size;
  void* context; /* CUcontext */
  /* CUstream of that context, not capturing. CU_STREAM_LEGACY or CU_STREAM_PER_THREAD is the
   * default stream of the application (for which null stands elsewhere); null: streams of our own.
   */
  void* stream;
} reprise_cuda_device;
#define REPRISE_CUDA_DEVICE_INIT \
  { sizeof(reprise_cuda_device), NULL, NULL }

typedef struct reprise_device_options {
  size_t struct_size;
  /* Where the driver's compiled kernels are kept; null: nowhere. Files there that belong to another
   * user than this one or root, or that everyone may write to, are not used, which `log` tells. */
  const char* cache_dir;
  int32_t validation;                           /* Vulkan validation layers, messages to `log` */
  uint32_t threads;                             /* for building kernels; 0: one per processor */
  void (*log)(void* user, const char* message); /* from any thread; may be null */
  void* log_user;
  const reprise_vulkan_device* vulkan; /* null: a device of our own; its `device` must be set */
  const reprise_cuda_device* cuda; /* null: the device's primary context; `context` must be set */
  const reprise_package*
      package; /* "auto" passes over devices that no variant of it fits; or null */
} reprise_device_options;
#define REPRISE_DEVICE_OPTIONS_INIT \
  { sizeof(reprise_device_options), NULL, 0, 0, NULL, NULL, NULL, NULL, NULL }

/* Writes up to `capacity` infos, each with its struct_size set, and the number of devices. */
reprise_status reprise_list_devices(reprise_device_info* infos, size_t capacity, size_t* count,
                                    reprise_error* error);
/* `id`: "auto" (best usable device, else the host), "host", "vulkan", "vulkan:1", "cuda", "cuda:0".
 * What `options` borrow is opened by "vulkan" or "cuda". `options` may be null. */
reprise_status reprise_device_open(const char* id, const reprise_device_options* options,
                                   reprise_device** out, reprise_error* error);
void reprise_device_get_info(const reprise_device* device, reprise_device_info* info);
void reprise_device_free(reprise_device* device);

/* --- device memory, used in place by runs --- */
typedef struct reprise_buffer reprise_buffer;

/* Not for the host device, whose runs use the caller's memory. */
reprise_status reprise_buffer_create(reprise_device* device, uint64_t bytes, reprise_buffer** out,
                                     reprise_error* error);
/* The application's memory on its own device: a VkBuffer with storage, transfer and device-address
 * usage; on CUDA a CUdeviceptr, as a pointer, that is a multiple of 16, of that device's memory in
 * that context or of managed memory, with `bytes` bytes of its allocation behind it. */
reprise_status reprise_buffer_borrow(reprise_device* device, void* handle, uint64_t bytes,
                                     reprise_buffer** out, reprise_error* error);
/* Where the host cannot map the memory, a transfer waits for the runs that the device was given
 * before it, those of other sessions included. */
reprise_status reprise_buffer_write(reprise_buffer* buffer, uint64_t offset, const void* data,
                                    uint64_t bytes, reprise_error* error);
reprise_status reprise_buffer_read(const reprise_buffer* buffer, uint64_t offset, void* data,
                                   uint64_t bytes, reprise_error* error);
void reprise_buffer_free(reprise_buffer* buffer);

/* --- sessions: a package on a device --- */
typedef struct reprise_session reprise_session;

typedef struct reprise_session_options {
  size_t struct_size;
  /* Runs at the same time, each with memory of its own; 0: 2. Further calls wait, and go on in the
   * order in which they came. */
  uint32_t max_in_flight;
  int32_t fullgraph; /* an error if a node would run on the host */
  /* Of one run, from when the device begins it: when all that this library gave to the device
   * before has ended. Waiting behind other runs, and for a run of this session to end because there
   * are max_in_flight, does not count. A run that times out is an error, but goes on: it counts as
   * in flight until it ends. 0: 60,000, on CPU-type devices 600,000. */
  uint64_t timeout_ms;
  int32_t warm_up; /* some drivers compile kernels when they are first launched: do that when
                      the session is created, and not in the first run */
  /* Run each kernel alone when the session is created, on inputs whose results the package has, and
   * compare. If a kernel fails, the session uses the next variant that fits the device and whose
   * kernels pass, and at last the host, which takes no buffers of the device; the device's `log`
   * says so. The outcome is kept in the device's `cache_dir`, so that the next session on the same
   * device and driver only reads it. Packages that were compiled without probes are used
   * unchecked. */
  int32_t check_kernels;
} reprise_session_options;
#define REPRISE_SESSION_OPTIONS_INIT \
  { sizeof(reprise_session_options), 0, 0, 0, 0, 0 }

/* What the model takes or gives. */
typedef struct reprise_slot {
  size_t struct_size;
  const char* name; /* lives as long as the session */
  reprise_dtype dtype;
  uint32_t rank;
  int64_t dims[REPRISE_MAX_RANK]; /* -1: given by the inputs of a run */
} reprise_slot;
#define REPRISE_SLOT_INIT                         \
  {                                               \
    sizeof(reprise_slot), NULL, REPRISE_F32, 0, { \
      0                                           \
    }                                             \
  }

/* A tensor of the caller, dense and row-major: host memory, or a device buffer. */
typedef struct reprise_tensor {
  size_t struct_size;
  const char* name;
  reprise_dtype dtype;            /* of host memory: must be the model's */
  uint32_t rank;                  /* inputs: set by the caller; outputs: by the run */
  int64_t dims[REPRISE_MAX_RANK]; /* likewise */
  void* data;                     /* inputs are not written */
  size_t bytes;                   /* of `data` */
  reprise_buffer* buffer;         /* instead of `data`; both are an error */
  uint64_t offset;                /* in `buffer`; a multiple of 16 */
} reprise_tensor;
#define REPRISE_TENSOR_INIT \
  { sizeof(reprise_tensor), NULL, REPRISE_F32, 0, {0}, NULL, 0, NULL, 0 }

typedef struct reprise_run_stats {
  size_t struct_size;
  double host_submit_us; /* host work until the device has the run, without copies of tensors */
  double total_us;
  uint64_t bytes_copied; /* between host and device memory; 0 when all tensors are device buffers */
} reprise_run_stats;
#define REPRISE_RUN_STATS_INIT \
  { sizeof(reprise_run_stats), 0, 0, 0 }

/* `options` may be null. */
reprise_status reprise_session_create(const reprise_package* package, reprise_device* device,
                                      const reprise_session_options* options, reprise_session** out,
                                      reprise_error* error);
void reprise_session_free(reprise_session* session);
size_t reprise_session_input_count(const reprise_session* session);
size_t reprise_session_output_count(const reprise_session* session);
reprise_status reprise_session_input(const reprise_session* session, size_t index,
                                     reprise_slot* slot, reprise_error* error);
reprise_status reprise_session_output(const reprise_session* session, size_t index,
                                      reprise_slot* slot, reprise_error* error);

/* Outputs of a run that the caller gave no memory for. */
typedef struct reprise_results reprise_results;

/* Runs once and waits. A session of a device takes nothing from the heap for a run of the sizes of
 * an earlier one, if all outputs are given and no node runs on the host. Every input must be given.
 * Outputs that are given are written to the caller's memory, which must be large enough, and get
 * their dtype and dims. The others are in `results` if it is not null. Outputs share no memory with
 * each other, and those in buffers none with inputs; an output in host memory may be where an input
 * is. `stats` may be null. */
reprise_status reprise_session_run(reprise_session* session, const reprise_tensor* inputs,
                                   size_t input_count, reprise_tensor* outputs, size_t output_count,
                                   reprise_results** results, reprise_run_stats* stats,
                                   reprise_error* error);
/* Output `index` of the model; `data` lives as long as the results and is not to be written. */
reprise_status reprise_results_get(const reprise_results* results, size_t index,
                                   reprise_tensor* tensor, reprise_error* error);
void reprise_results_free(reprise_results* results);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*) */

#endif
