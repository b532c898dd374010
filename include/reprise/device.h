/** @file
 * Packages, devices and their memory. Include reprise.h, which states the rules. */
#ifndef REPRISE_DEVICE_H_
#define REPRISE_DEVICE_H_

/* NOLINTBEGIN(modernize-*): this is C */

#include "reprise/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup packages Packages
 * Compiled models. A package holds code for devices. Opening a package checks everything that the
 * library itself relies on, and checksums detect damage. Nevertheless, malicious kernels can crash
 * a driver or the process: open packages only from sources from which you would run a program.
 *
 * An open package keeps its file open until it and its sessions are freed. Its metadata is copied;
 * weights are read, and their checksums are compared, when a session needs them. A file that is
 * replaced as reprise_package_save does may be replaced at any time. If the contents of the file
 * are changed or truncated, sessions fail with REPRISE_CORRUPT_PACKAGE or REPRISE_IO from then on.
 * @{ */

/** A compiled model, which never changes. Free it with reprise_package_free. */
typedef struct reprise_package reprise_package;

/** Opens the package in the file `path`. Fails with REPRISE_IO, REPRISE_CORRUPT_PACKAGE or
 * REPRISE_INCOMPATIBLE_PACKAGE. No device is needed. */
REPRISE_API reprise_status reprise_package_open(const char* path, reprise_package** out,
                                                reprise_error* error);
/** Opens a package that is a part of another file, such as an asset of an Android application or a
 * section of a program: `length` bytes from `offset` on, or all bytes up to the end if `length` is
 * 0. `file` is a file descriptor, on Windows a HANDLE, that can be read. The library uses one of
 * its own, so the caller may close it afterwards. */
REPRISE_API reprise_status reprise_package_open_part(intptr_t file, uint64_t offset,
                                                     uint64_t length, reprise_package** out,
                                                     reprise_error* error);
/** Opens a package of `size` bytes in memory. Only the metadata is copied by this call. Weights are
 * read when a session needs them: those that are aligned to 64 bytes are used in place, the others
 * are copied then. So `bytes` must stay valid and must not change until the package and its
 * sessions are freed. */
REPRISE_API reprise_status reprise_package_open_memory(const void* bytes, size_t size,
                                                       reprise_package** out, reprise_error* error);
/** Writes the file completely or not at all. A file that replaces another keeps its mode. Symbolic
 * links are followed. A path that is not a regular file, such as a pipe or a device, is written to
 * directly. */
REPRISE_API reprise_status reprise_package_save(const reprise_package* package, const char* path,
                                                reprise_error* error);
/** Frees the package. Sessions that were created with it keep what they need. */
REPRISE_API void reprise_package_free(reprise_package* package);

/** What a package has. The strings live as long as the package. */
typedef struct reprise_package_info {
  size_t struct_size;      /**< as its initialiser sets it */
  const char* model;       /**< the name of the model's graph */
  const char* producer;    /**< what compiled it, such as "reprise 0.1.0" */
  uint64_t weight_bytes;   /**< of all weights together */
  uint32_t input_count;    /**< of reprise_package_input */
  uint32_t output_count;   /**< of reprise_package_output */
  uint32_t state_count;    /**< of reprise_package_state */
  uint32_t variant_count;  /**< of reprise_package_variant */
  uint32_t symbol_count;   /**< of reprise_package_symbol */
  uint32_t metadata_count; /**< of reprise_package_metadata */
} reprise_package_info;
/** Initialises a reprise_package_info. */
#define REPRISE_PACKAGE_INFO_INIT \
  { sizeof(reprise_package_info), NULL, NULL, 0, 0, 0, 0, 0, 0, 0 }

/** A size that the inputs of a run decide, by its name in the shapes of slots. */
typedef struct reprise_symbol {
  size_t struct_size; /**< as its initialiser sets it */
  const char* name;   /**< lives as long as the package */
  int64_t min;        /**< the least size; a run with a smaller one is refused */
  int64_t max;        /**< the greatest size; 2^31 - 1 if the model was compiled without a limit */
  int64_t divisor;    /**< every size is a multiple of it */
} reprise_symbol;
/** Initialises a reprise_symbol. */
#define REPRISE_SYMBOL_INIT \
  { sizeof(reprise_symbol), NULL, 0, 0, 0 }

/** A plan with kernels for devices that have certain features. A session uses the first variant
 * that its device satisfies. */
typedef struct reprise_variant {
  size_t struct_size;       /**< as its initialiser sets it */
  const char* name;         /**< "vulkan-baseline"; lives as long as the package */
  uint32_t kernel_count;    /**< different kernels */
  uint32_t launch_count;    /**< launches of a run, without those of control flow */
  uint32_t host_call_count; /**< host kernels and control flow of a run */
  uint32_t has_probes;      /**< 1: sessions can check the kernels */
} reprise_variant;
/** Initialises a reprise_variant. */
#define REPRISE_VARIANT_INIT \
  { sizeof(reprise_variant), NULL, 0, 0, 0, 0 }

/** Describes a package; no device is needed. The caller sets `struct_size` of `info`. */
REPRISE_API reprise_status reprise_package_get_info(const reprise_package* package,
                                                    reprise_package_info* info,
                                                    reprise_error* error);
/** Describes a variant. The order is that in which sessions try them. */
REPRISE_API reprise_status reprise_package_variant(const reprise_package* package, size_t index,
                                                   reprise_variant* variant, reprise_error* error);
/** Gets one of the properties that the model file had for applications (metadata_props of ONNX),
 * such as the names of classes. Both strings live as long as the package. */
REPRISE_API reprise_status reprise_package_metadata(const reprise_package* package, size_t index,
                                                    const char** name, const char** value,
                                                    reprise_error* error);
/** Describes a size that the inputs of a run decide. */
REPRISE_API reprise_status reprise_package_symbol(const reprise_package* package, size_t index,
                                                  reprise_symbol* symbol, reprise_error* error);

/** @} */

/** @defgroup devices Devices
 * Devices of the machine, those that the application lends, and the host.
 * @{ */

/** An open device, or the host. Free it with reprise_device_free. */
typedef struct reprise_device reprise_device;

/** What is known of a device. Strings are null-terminated, and truncated to fit. */
typedef struct reprise_device_info {
  size_t struct_size; /**< as its initialiser sets it */
  char id[32];        /**< "vulkan:0", "cuda:0", "host" */
  char kind[32];      /**< "discrete-gpu", "cpu", "host", ... */
  char name[256];     /**< as the driver calls it */
  char driver[256];   /**< name and version of the driver */
  char api[64];       /**< such as "Vulkan 1.3.230" */
  char reason[512];   /**< if not usable: why, and what to do about it */
  uint8_t uuid[16];   /**< as Vulkan and CUDA report it; zeros: unknown */
  int32_t usable;     /**< 1: it can be opened; 0: `reason` says why not */
  uint32_t reserved;  /**< zero */
  /** Of Vulkan devices on Windows: the LUID of the adapter, by which DXGI and Direct3D know it. */
  uint8_t luid[8];
  uint32_t luid_node_mask; /**< the node of that adapter that the device is */
  int32_t has_luid;        /**< 1: the two members before this one are known */
} reprise_device_info;
/** Initialises a reprise_device_info. */
#define REPRISE_DEVICE_INFO_INIT \
  { sizeof(reprise_device_info), "", "", "", "", "", "", {0}, 0, 0, {0}, 0, 0 }

/** A Vulkan device of the application, which the library borrows and never frees. The application
 * must have enabled bufferDeviceAddress if the device has it, or say that it has not. The library
 * uses only those other features that are set here. reprise_vulkan_wanted_features sets those that
 * a physical device has; docs/embedding.md shows the code that creates such a device.
 *
 * | member              | features of Vulkan to enable                  | without it             |
 * |---------------------|-----------------------------------------------|------------------------|
 * | no_buffer_addresses | bufferDeviceAddress, if it is 0               | 1: descriptors instead |
 * | shader_int64        | shaderInt64                                   | no faster variants     |
 * | storage8            | storageBuffer8BitAccess, shaderInt8           | no faster variants     |
 * | storage16           | storageBuffer16BitAccess, shaderInt16         | no faster variants     |
 * | shader_float16      | shaderFloat16                                 | arithmetic in fp32     |
 * | shader_float64      | shaderFloat64                                 | doubles on the host    |
 * | update_after_bind   | descriptorBindingStorageBufferUpdateAfterBind | more recordings        |
 * | upload_queue        | timelineSemaphore                             | transfers follow runs  |
 *
 * The faster variants need shader_int64, storage8 and storage16, all three. update_after_bind is
 * for descriptors only: without it, there is a recording for each combination of buffers.
 *
 * Features of the extensions that the device has beside them, such as vulkanMemoryModel, are not
 * used. */
typedef struct reprise_vulkan_device {
  size_t struct_size;           /**< as its initialiser sets it */
  void* get_instance_proc_addr; /**< PFN_vkGetInstanceProcAddr; null: the system's loader */
  void* instance;               /**< VkInstance */
  void* physical_device;        /**< VkPhysicalDevice */
  void* device;                 /**< VkDevice */
  void* queue;                  /**< VkQueue */
  uint32_t queue_family;        /**< the family of `queue`, which computes */
  int32_t shader_int64;         /**< shaderInt64 is enabled */
  int32_t shader_float16;       /**< shaderFloat16 is enabled */
  int32_t storage8;             /**< storageBuffer8BitAccess and shaderInt8 are enabled */
  int32_t storage16;            /**< storageBuffer16BitAccess and shaderInt16 are enabled */
  int32_t shader_float64;       /**< shaderFloat64 is enabled */
  /** Called around each submission, so that the application can use the queue as well. Both may be
   * null. The library may hold locks of its own then: neither function may call the library, and a
   * thread must not call it while it holds this lock, or two threads may wait for each other. */
  void (*lock_queue)(void* user);
  void (*unlock_queue)(void* user); /**< called after each submission, by the same thread */
  void* user;                       /**< is passed to both */
  /** If not 0: bufferDeviceAddress is not enabled, and kernels take descriptors (the target
   * vulkan-descriptors). */
  int32_t no_buffer_addresses;
  int32_t update_after_bind; /**< descriptorBindingStorageBufferUpdateAfterBind is enabled */
  /** A VkQueue other than `queue` to which only the library submits, so that transfers do not wait
   * for runs; null: none. If its family is another than that of `queue`, the copies of runs overlap
   * kernels as well. timelineSemaphore must be enabled. */
  void* upload_queue;
  /** Likewise for results, in the family of `upload_queue`, without which it must be null. Null:
   * results of runs are copied in `queue`. */
  void* download_queue;
  uint32_t transfer_queue_family; /**< the family of these two queues */
  uint32_t reserved;              /**< zero */
} reprise_vulkan_device;
/** Initialises a reprise_vulkan_device. */
#define REPRISE_VULKAN_DEVICE_INIT                                                             \
  {                                                                                            \
    sizeof(reprise_vulkan_device), NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, \
        NULL, 0, 0, NULL, NULL, 0, 0                                                           \
  }

/** Sets the members of `device` that the table above lists, down to update_after_bind, to what the
 * library uses of the features that a physical device has. Of the other members,
 * `get_instance_proc_addr`, `instance` and `physical_device` are read; none is changed. Enable
 * these features when you create the device, and lend it with the same struct. */
REPRISE_API reprise_status reprise_vulkan_wanted_features(reprise_vulkan_device* device,
                                                          reprise_error* error);

/** A CUDA context of the application, which the library borrows and never frees. Runs and transfers
 * go into `stream`, so they follow what the application put there before, and they end before their
 * calls return. After an error that poisons the context, every call fails and reports it. */
typedef struct reprise_cuda_device {
  size_t struct_size; /**< as its initialiser sets it */
  void* context;      /**< CUcontext */
  /** A CUstream of that context that is not being captured. Null: the library makes streams of its
   * own. For the default stream, which CUDA's functions call null, pass CU_STREAM_LEGACY or
   * CU_STREAM_PER_THREAD. */
  void* stream;
} reprise_cuda_device;
/** Initialises a reprise_cuda_device. */
#define REPRISE_CUDA_DEVICE_INIT \
  { sizeof(reprise_cuda_device), NULL, NULL }

/** What memory is for. The numbers never change. */
typedef enum reprise_memory_use {
  REPRISE_MEMORY_DEVICE = 1,   /**< kernels use it: weights, intermediates, inputs and outputs */
  REPRISE_MEMORY_UPLOAD = 2,   /**< the host writes it, and the device reads it */
  REPRISE_MEMORY_READBACK = 3, /**< the device writes it, and the host reads it */
  REPRISE_MEMORY_USE_MAX_ENUM = 0x7FFFFFFF /**< no use */
} reprise_memory_use;

/** Memory of a device that the application allocates. The library sets the members up to
 * `memory_type`, and the application the others. */
typedef struct reprise_memory {
  size_t struct_size;     /**< as its initialiser sets it */
  uint64_t bytes;         /**< how many are needed */
  uint64_t alignment;     /**< of the first byte: a power of two */
  reprise_memory_use use; /**< what the memory is for */
  uint32_t memory_type;   /**< on Vulkan: the index of the memory type */
  /** On Vulkan, a VkDeviceMemory of that type, allocated with VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT
   * if the device has buffer addresses. On CUDA, the CUdeviceptr for REPRISE_MEMORY_DEVICE, and
   * otherwise the address of pinned host memory (cuMemHostAlloc). */
  uint64_t handle;
  uint64_t offset; /**< where the memory begins in the VkDeviceMemory: a multiple of `alignment` */
  /** On Vulkan, where the host sees the memory, which must be coherent: needed for
   * REPRISE_MEMORY_UPLOAD and REPRISE_MEMORY_READBACK. If it is set for REPRISE_MEMORY_DEVICE, the
   * host writes inputs in place. */
  void* mapped;
  void* data; /**< for the application, which gets it back */
} reprise_memory;
/** Initialises a reprise_memory. */
#define REPRISE_MEMORY_INIT \
  { sizeof(reprise_memory), 0, 0, REPRISE_MEMORY_DEVICE, 0, 0, 0, NULL, NULL }

/** Functions of the application that allocate memory. Any thread may call them, also several at the
 * same time, and they must not call functions of this library. The library copies the struct.
 *
 * `allocate` and `release` are for the memory of a device, on Vulkan only of one that the
 * application lends: all of it that is for weights, intermediates, buffers, staging and parameters,
 * and none that the driver allocates itself. `allocate_host` and `release_host` are for tensors on
 * the host. Either both functions of a pair are null or none; the library then allocates itself. */
typedef struct reprise_allocator {
  size_t struct_size; /**< as its initialiser sets it */
  /** Returns 0 if there is no such memory. On Vulkan, the library may ask for other memory types
   * then. Otherwise, it frees the memory that idle sessions keep. If there was any, it asks once
   * more; if not, or if that fails as well, the call fails with REPRISE_OUT_OF_MEMORY. */
  int32_t (*allocate)(void* user, reprise_memory* memory);
  /** Called once for each allocation, with the struct as `allocate` left it, when the device does
   * not use it any more; never for a device with a run that was given up (see reprise.h). */
  void (*release)(void* user, const reprise_memory* memory);
  void* user; /**< is passed to all four functions */
  /** The elements of tensors that sessions of this device, which may be the host, make on the host:
   * outputs for which the caller gives no memory, what host kernels compute, and the states of a
   * session on the host. Strings, what a kernel needs only while it computes, and the weights of
   * packages, which sessions of all devices share, are on the heap. `alignment` is a power of two.
   * Returns null if there is no such memory; the call then fails with REPRISE_OUT_OF_MEMORY. */
  void* (*allocate_host)(void* user, size_t bytes, size_t alignment);
  /** Called once for each allocation, when nothing has the tensor any more. When the sessions of
   * the device, and results and values from them, have been freed, none is left, unless a run was
   * given up (see reprise.h). */
  void (*release_host)(void* user, void* memory, size_t bytes);
} reprise_allocator;
/** Initialises a reprise_allocator. */
#define REPRISE_ALLOCATOR_INIT \
  { sizeof(reprise_allocator), NULL, NULL, NULL, NULL, NULL }

/** Features of Vulkan devices that the library takes to be missing, to see on any device what
 * devices do that lack them: bits of reprise_device_options::hidden_features. */
typedef enum reprise_hidden_features {
  REPRISE_HIDE_BUFFER_ADDRESSES = 1,  /**< kernels take descriptors */
  REPRISE_HIDE_UPDATE_AFTER_BIND = 2, /**< descriptorBindingStorageBufferUpdateAfterBind */
  REPRISE_HIDE_VULKAN_1_2 = 4,        /**< and later versions */
  REPRISE_HIDE_TRANSFER_QUEUES = 8,   /**< queues for transfers */
  REPRISE_HIDE_MAX_ENUM = 0x7FFFFFFF  /**< no feature */
} reprise_hidden_features;

/** How a device is opened. The strings and structs that it points to are copied. */
typedef struct reprise_device_options {
  size_t struct_size; /**< as its initialiser sets it */
  /** Folder that keeps the driver's compiled kernels; null: they are not kept. Files in it that
   * belong to a user other than this one or root, or that others may write to, are not used, and
   * `log` reports them. */
  const char* cache_dir;
  int32_t validation; /**< use Vulkan validation layers; they write to `log` */
  uint32_t threads;   /**< for building kernels; 0: one per processor */
  /** Called from any thread; may be null. */
  void (*log)(void* user, reprise_severity severity, const char* message);
  void* log_user; /**< is passed to `log` */
  /** If not null: borrow it; its `device` must be set. A number in the id is not used then. */
  const reprise_vulkan_device* vulkan;
  const reprise_cuda_device* cuda;    /**< if not null: borrow it; its `context` must be set */
  const reprise_package* package;     /**< if not null: "auto" skips devices that it does not fit */
  const reprise_executor* executor;   /**< if not null: builds kernels, and `threads` is not used */
  uint64_t memory_budget;             /**< see reprise_device_set_memory_budget */
  uint32_t hidden_features;           /**< bits of reprise_hidden_features */
  uint32_t reserved;                  /**< zero */
  const reprise_allocator* allocator; /**< if not null: allocates the memory of the device, and that
                                       * of tensors on the host */
} reprise_device_options;
/** Initialises a reprise_device_options. */
#define REPRISE_DEVICE_OPTIONS_INIT \
  { sizeof(reprise_device_options), NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, NULL }

/** Lists all devices, also those that cannot be opened. Writes up to `capacity` infos, whose
 * struct_size the caller has set, and sets `count` to the number of all devices. */
REPRISE_API reprise_status reprise_list_devices(reprise_device_info* infos, size_t capacity,
                                                size_t* count, reprise_error* error);
/** Opens a device. `id` is "auto" (the best device that can be opened, or else the host), "host",
 * "vulkan", "vulkan:1", "cuda" or "cuda:0". "auto" prefers CUDA to Vulkan, and GPUs to processors,
 * but if sessions with `check_kernels` and the same `cache_dir` have checked devices with their
 * present drivers, those whose kernels were wrong come last, and of one GPU the backend whose
 * kernels were right comes first. "vulkan" or "cuda" opens the device or context that `options`
 * lend. `options` may be null. */
REPRISE_API reprise_status reprise_device_open(const char* id,
                                               const reprise_device_options* options,
                                               reprise_device** out, reprise_error* error);
/** Describes an open device. The caller sets `struct_size` of `info`. */
REPRISE_API reprise_status reprise_device_get_info(const reprise_device* device,
                                                   reprise_device_info* info, reprise_error* error);
/** Frees memory that no run uses at the moment: that of idle sessions on this device, which they
 * allocate again when they run. */
REPRISE_API reprise_status reprise_device_trim(reprise_device* device, reprise_error* error);
/** Sets the most device memory, in bytes, that sessions and reprise_buffer_create may use on this
 * device; 0: no limit. What exceeds it first frees the memory of idle sessions. If that is not
 * enough, a call of reprise_session_run waits, in fair order, for other such calls to end, and
 * everything else fails with REPRISE_OUT_OF_MEMORY. A budget that is smaller than what is in use
 * frees the memory of idle sessions, and nothing else. A run does not wait for the memory of
 * tensors whose sizes its host kernels determine, nor for that of loops. Small buffers that the
 * library needs for transfers do not count. The host has no budget. */
REPRISE_API reprise_status reprise_device_set_memory_budget(reprise_device* device, uint64_t bytes,
                                                            reprise_error* error);
/** Frees the device. Sessions and buffers on it keep what they need of it. */
REPRISE_API void reprise_device_free(reprise_device* device);

/** @} */

/** @defgroup buffers Device memory
 * Memory that runs use in place: allocated, borrowed or imported.
 * @{ */

/** Memory of a device. Free it with reprise_buffer_free. */
typedef struct reprise_buffer reprise_buffer;

/** Allocates `bytes` bytes of device memory. The host device has none: its runs use the memory of
 * the caller. */
REPRISE_API reprise_status reprise_buffer_create(reprise_device* device, uint64_t bytes,
                                                 reprise_buffer** out, reprise_error* error);
/** Borrows memory of the application on its own device. On Vulkan, which must be a device that the
 * application lends, `handle` is a VkBuffer with storage, transfer and device-address usage. On
 * CUDA, it is a CUdeviceptr: a multiple of 16, in memory of that device and context or in managed
 * memory, with at least `bytes` bytes of its allocation from there on. */
REPRISE_API reprise_status reprise_buffer_borrow(reprise_device* device, uint64_t handle,
                                                 uint64_t bytes, reprise_buffer** out,
                                                 reprise_error* error);
/** Handles of memory that another API or process exported. */
typedef enum reprise_external_kind {
  REPRISE_EXTERNAL_OPAQUE_FD = 1,    /**< a file descriptor that Vulkan or CUDA exported */
  REPRISE_EXTERNAL_DMA_BUF = 2,      /**< a file descriptor of a Linux dma-buf */
  REPRISE_EXTERNAL_OPAQUE_WIN32 = 3, /**< an NT handle (HANDLE) that Vulkan or CUDA exported */
  /** AHardwareBuffer*, of the format AHARDWAREBUFFER_FORMAT_BLOB */
  REPRISE_EXTERNAL_ANDROID_HARDWARE_BUFFER = 4,
  REPRISE_EXTERNAL_MAX_ENUM = 0x7FFFFFFF /**< no kind */
} reprise_external_kind;

/** A part of memory that another API or process exported. */
typedef struct reprise_external_memory {
  size_t struct_size; /**< as its initialiser sets it */
  uint64_t handle;    /**< the caller keeps it, and may close it after the import */
  uint64_t size;      /**< of the whole memory that was exported, in bytes */
  /** Where the buffer begins in it, in bytes: a multiple of 16 on CUDA, of what the driver requires
   * of buffers on Vulkan. 0 if `dedicated`, and the buffer is then as large as the exporter's. */
  uint64_t offset;
  uint64_t bytes;             /**< of the buffer */
  reprise_external_kind kind; /**< what `handle` is */
  /** For opaque handles and Vulkan: VkMemoryAllocateInfo::memoryTypeIndex of the exporter; -1: a
   * type that fits, the device's own ones first. */
  int32_t memory_type;
  int32_t dedicated; /**< whether the exporter allocated the memory for one buffer */
  uint32_t reserved; /**< zero */
} reprise_external_memory;
/** Initialises a reprise_external_memory. */
#define REPRISE_EXTERNAL_MEMORY_INIT \
  { sizeof(reprise_external_memory), 0, 0, 0, 0, REPRISE_EXTERNAL_OPAQUE_FD, -1, 0, 0 }

/** Makes a buffer of memory that another API or another process exported, used in place. The
 * importing and the exporting device must be the same physical device (reprise_device_info::uuid),
 * except for dma-bufs. REPRISE_UNSUPPORTED if the device cannot import such memory, REPRISE_USAGE
 * if the driver refuses the handle. A Vulkan device that the application lends imports nothing:
 * import the memory there, and borrow the VkBuffer.
 *
 * The caller orders the accesses of the exporter and those of runs, by waiting on the host for
 * both. The library records no transfers of queue-family ownership from VK_QUEUE_FAMILY_EXTERNAL,
 * because drivers keep the contents of buffers without them. Two imports of the same memory are not
 * known to overlap: a run must not write what another of its tensors has. */
REPRISE_API reprise_status reprise_buffer_import(reprise_device* device,
                                                 const reprise_external_memory* memory,
                                                 reprise_buffer** out, reprise_error* error);
/** Copies `bytes` bytes from `data` to the buffer, and returns when they are there. `offset` is
 * that in the buffer, in bytes. If the host cannot map the memory, and the Vulkan device has no
 * queue that only transfers or is lent, the transfer waits for all runs that were submitted to the
 * device before it, including those of other sessions. */
REPRISE_API reprise_status reprise_buffer_write(reprise_buffer* buffer, uint64_t offset,
                                                const void* data, uint64_t bytes,
                                                reprise_error* error);
/** Copies `bytes` bytes from the buffer to `data`, likewise. */
REPRISE_API reprise_status reprise_buffer_read(const reprise_buffer* buffer, uint64_t offset,
                                               void* data, uint64_t bytes, reprise_error* error);
/** Frees the buffer, and its memory if the library allocated it. No run may use it any more. */
REPRISE_API void reprise_buffer_free(reprise_buffer* buffer);

/** @} */

/** @defgroup images Images of a renderer
 * Images of Vulkan as inputs and outputs of a run.
 * @{ */

/** An image of the application on the Vulkan device that it lends, for an input or output that the
 * package has as an image (reprise_slot::image). Nothing takes ownership of it. The device copies
 * its pixels to or from memory of the run, in the submission of the run and with the barriers that
 * this struct states; kernels do the rest.
 *
 * The image must have one of these formats: for RGBA8, VK_FORMAT_R8G8B8A8_UNORM or _SRGB, or
 * VK_FORMAT_A8B8G8R8_UNORM_PACK32 or _SRGB_PACK32; for BGRA8, VK_FORMAT_B8G8R8A8_UNORM or _SRGB;
 * for RGBA16F, VK_FORMAT_R16G16B16A16_SFLOAT; for R8, VK_FORMAT_R8_UNORM; for NV12,
 * VK_FORMAT_G8_B8R8_2PLANE_420_UNORM, or VK_FORMAT_R8_UNORM with a `second` image in
 * VK_FORMAT_R8G8_UNORM. It is 2D, with one sample and any tiling.
 *
 * Several inputs may be one image if they state its layouts and queue families alike. An output may
 * be the image of an input, in the layout in which the input leaves it or UNDEFINED; only the input
 * can acquire it then, and only the output can release it. */
typedef struct reprise_vulkan_image {
  size_t struct_size; /**< as its initialiser sets it */
  uint64_t image;     /**< VkImage */
  uint64_t second; /**< VkImage with U and V of NV12, or 0. Everything below applies to it, too; it
                    * has half the width and height. */
  uint32_t format; /**< VkFormat of `image` */
  uint32_t usage;  /**< VkImageUsageFlags: TRANSFER_SRC for an input, TRANSFER_DST for an output */
  uint32_t width;  /**< of the mip level */
  uint32_t height; /**< of the mip level */
  uint32_t mip_level;   /**< the mip level that the run reads or writes */
  uint32_t array_layer; /**< the layer that the run reads or writes */
  uint32_t layout;      /**< VkImageLayout in which the run finds the image; UNDEFINED for an output
                         * whose old pixels do not matter */
  uint32_t final_layout; /**< in which it leaves it, not PREINITIALIZED; UNDEFINED: that in which it
                          * finds it */
  /** The queue family that releases the image to the family of the lent queue before the run;
   * VK_QUEUE_FAMILY_IGNORED: it belongs to the family of the lent queue, or is shared. The
   * application records the other half of the transfer, in which the old and the new layout are
   * `layout`. */
  uint32_t acquire_from;
  /** The queue family to which the run releases the image; VK_QUEUE_FAMILY_IGNORED: to none. The
   * application records the other half, in which the old and the new layout are `final_layout`. */
  uint32_t release_to;
} reprise_vulkan_image;
/** Initialises a reprise_vulkan_image. */
#define REPRISE_VULKAN_IMAGE_INIT \
  { sizeof(reprise_vulkan_image), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, UINT32_MAX, UINT32_MAX }

/** @} */

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*) */

#endif
