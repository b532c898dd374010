/** @file
 * Versions, statuses and dtypes. Include reprise.h, which states the rules. */
#ifndef REPRISE_TYPES_H_
#define REPRISE_TYPES_H_

/* NOLINTBEGIN(modernize-*): this is C */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup types Types and versions
 * Statuses, errors, dtypes and other types that all functions share.
 * @{ */

/** The version of this interface. It changes only if programs that were compiled for an earlier one
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

/** The most dims that a tensor can have. */
#define REPRISE_MAX_RANK 16

/** What became of a call. The numbers never change; treat one that is not here as an error. */
typedef enum reprise_status {
  REPRISE_OK = 0,            /**< it succeeded */
  REPRISE_USAGE = 1,         /**< the caller asked for something that does not exist */
  REPRISE_INVALID_MODEL = 2, /**< the model is malformed */
  REPRISE_INVALID_INPUT = 3, /**< an input has a wrong name, shape, dtype or value */
  REPRISE_UNSUPPORTED = 4, /**< the request is well-formed, but this build or device cannot do it */
  REPRISE_IO = 5,          /**< a file could not be read or written */
  REPRISE_DEVICE = 6,      /**< a driver call failed, or the device reported an error */
  REPRISE_INTERNAL = 7,    /**< a bug of this library */
  REPRISE_OUT_OF_MEMORY = 8, /**< of the host or of the device */
  REPRISE_TIMEOUT = 9,       /**< a run did not end within its time limit */
  REPRISE_DEVICE_LOST = 10,  /**< nothing works on the device any more; open it again, or another */
  REPRISE_CANCELLED = 11,    /**< the caller asked to stop */
  REPRISE_CORRUPT_PACKAGE = 12, /**< the package is damaged, truncated or not a package */
  REPRISE_INCOMPATIBLE_PACKAGE =
      13,            /**< the package has another format version, or no variant fits */
  REPRISE_BUSY = 14, /**< as many runs are in flight as the session may have; wait for one */
  REPRISE_STATUS_MAX_ENUM = 0x7FFFFFFF /**< no status: gives the type 32 bits in every compiler */
} reprise_status;

/** Why a call failed. The caller owns it and need not initialise it: each call fills it, also one
 * that succeeds, with REPRISE_OK and an empty message. */
typedef struct reprise_error {
  reprise_status status; /**< what the function returned */
  /** Names what is wrong, for people; null-terminated, truncated to fit. What follows in the array
   * is for reprise_error_node. */
  char message[2036];
} reprise_error;

/** Element types. The numbers never change.
 *
 * Each element of fewer than 8 bits has a byte of its own. Bits above the element's repeat an
 * integer's sign or are zero in results; in inputs, operators that compute do not read them, and
 * those that only move elements keep them. */
typedef enum reprise_dtype {
  REPRISE_F32 = 1,         /**< float */
  REPRISE_F16 = 2,         /**< IEEE half precision, in 2 bytes */
  REPRISE_BF16 = 3,        /**< the upper half of a float, in 2 bytes */
  REPRISE_F64 = 4,         /**< double */
  REPRISE_I8 = 5,          /**< int8_t */
  REPRISE_U8 = 6,          /**< uint8_t */
  REPRISE_I16 = 7,         /**< int16_t */
  REPRISE_U16 = 8,         /**< uint16_t */
  REPRISE_I32 = 9,         /**< int32_t */
  REPRISE_U32 = 10,        /**< uint32_t */
  REPRISE_I64 = 11,        /**< int64_t */
  REPRISE_U64 = 12,        /**< uint64_t */
  REPRISE_BOOL = 13,       /**< one byte, 0 or 1 */
  REPRISE_STRING = 14,     /**< a reprise_string; in host memory only */
  REPRISE_I4 = 15,         /**< signed, 4 bits */
  REPRISE_U4 = 16,         /**< unsigned, 4 bits */
  REPRISE_I2 = 17,         /**< signed, 2 bits */
  REPRISE_U2 = 18,         /**< unsigned, 2 bits */
  REPRISE_F8E4M3FN = 19,   /**< 8 bits, 4 of exponent and 3 of mantissa, without infinities */
  REPRISE_F8E4M3FNUZ = 20, /**< likewise, and without a negative zero */
  REPRISE_F8E5M2 = 21,     /**< 8 bits, 5 of exponent and 2 of mantissa */
  REPRISE_F8E5M2FNUZ = 22, /**< likewise, without infinities and a negative zero */
  REPRISE_F4E2M1 = 23,     /**< 4 bits, 2 of exponent and 1 of mantissa */
  REPRISE_F8E8M0 = 24,     /**< 8 bits of exponent: a power of two */
  REPRISE_DTYPE_MAX_ENUM = 0x7FFFFFFF /**< no dtype */
} reprise_dtype;

/** An element of a tensor of strings: `size` bytes, without a terminating zero. */
typedef struct reprise_string {
  const char* data; /**< may be null if `size` is 0 */
  size_t size;      /**< in bytes */
} reprise_string;

/** What a value is. The numbers never change. */
typedef enum reprise_kind {
  REPRISE_KIND_TENSOR = 0,                  /**< a tensor */
  REPRISE_KIND_SEQUENCE = 1,                /**< of tensors */
  REPRISE_KIND_OPTIONAL = 2,                /**< a tensor or nothing */
  REPRISE_KIND_OPTIONAL_SEQUENCE = 3,       /**< a sequence of tensors or nothing */
  REPRISE_KIND_INT64_MAP = 4,               /**< from int64 */
  REPRISE_KIND_STRING_MAP = 5,              /**< from strings */
  REPRISE_KIND_SEQUENCE_OF_INT64_MAPS = 6,  /**< of maps from int64 */
  REPRISE_KIND_SEQUENCE_OF_STRING_MAPS = 7, /**< of maps from strings */
  REPRISE_KIND_MAX_ENUM = 0x7FFFFFFF        /**< no kind */
} reprise_kind;

/** The formats of images, as their pixels lie in memory. An image of a model is a tensor of bytes,
 * or of halves in RGBA16F. Bytes are taken as they are stored: nothing is converted to or from
 * sRGB. */
typedef enum reprise_image_format {
  REPRISE_IMAGE_NONE = 0,    /**< not an image */
  REPRISE_IMAGE_RGBA8 = 1,   /**< [height, width, 4]: red, green, blue, alpha */
  REPRISE_IMAGE_BGRA8 = 2,   /**< [height, width, 4]: blue, green, red, alpha */
  REPRISE_IMAGE_RGBA16F = 3, /**< [height, width, 4]: red, green, blue, alpha as halves */
  REPRISE_IMAGE_R8 = 4,      /**< [height, width, 1]: one byte for each pixel */
  REPRISE_IMAGE_NV12 = 5, /**< [height * 3/2, width]: a plane of brightness, then one of colour in
                           * which each 2 x 2 pixels have a byte U and a byte V */
  REPRISE_IMAGE_FORMAT_MAX_ENUM = 0x7FFFFFFF /**< no format */
} reprise_image_format;

/** How serious a message is. */
typedef enum reprise_severity {
  REPRISE_SEVERITY_ERROR = 1, /**< results may be wrong, such as a message of a validation layer */
  REPRISE_SEVERITY_WARNING = 2,          /**< something is worse than it should be */
  REPRISE_SEVERITY_INFO = 3,             /**< progress */
  REPRISE_SEVERITY_MAX_ENUM = 0x7FFFFFFF /**< no severity */
} reprise_severity;

/** Threads of the application, for work that the library would otherwise do on threads that it
 * makes. The library copies the struct. */
typedef struct reprise_executor {
  size_t struct_size; /**< as its initialiser sets it */
  /** Calls task(context, 0) ... task(context, count - 1), in any order and on any threads, and
   * returns when all of these have returned. The thread that called it does what it leaves out. */
  void (*run)(void* user, void (*task)(void* context, size_t index), void* context, size_t count);
  void* user; /**< is passed to `run` */
} reprise_executor;
/** Initialises a reprise_executor. */
#define REPRISE_EXECUTOR_INIT \
  { sizeof(reprise_executor), NULL, NULL }

/** Returns the bytes of one element, or 0 for strings and for an unknown dtype. */
REPRISE_API size_t reprise_dtype_size(reprise_dtype dtype);
/** Returns the name of a node of the model that an error concerns, or null if it concerns no more
 * than `index` nodes. Several are those that one kernel computes. The name lives as long as the
 * struct, which a function of the library has filled. Programs decide by the status and the nodes;
 * the message is for people. */
REPRISE_API const char* reprise_error_node(const reprise_error* error, size_t index);
/** Returns the version, such as "0.1.0", which lives as long as the process. */
REPRISE_API const char* reprise_version(void);
/** Returns the REPRISE_ABI_VERSION that the library was built with. */
REPRISE_API uint32_t reprise_abi_version(void);

/** @} */

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*) */

#endif
