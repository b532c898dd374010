/** @file
 * The C interface, without the compiler. It includes types.h, device.h and session.h. */

/** @mainpage Reprise for C and C++
 * Reprise runs compiled models (.rpk) on Vulkan and CUDA devices and on the host. The C interface
 * is reprise.h, with the compiler in compiler.h; the C++ interface is a thin layer over it, in
 * reprise.hpp and compiler.hpp. These rules apply to both.
 *
 * **Handles.** Handles are opaque. The caller owns them and frees each with its _free function,
 * which also accepts null. A handle is a key, not an address: a call with a handle that was freed
 * or that has another type fails with REPRISE_USAGE, and freeing a handle twice does nothing. A
 * handle may be freed while other threads use it: calls in progress complete normally, and later
 * calls fail with REPRISE_USAGE. A session keeps what it needs of its package and device, so
 * handles may be freed in any order. Buffers must outlive the runs that use them; after a timeout
 * they must outlive the session.
 *
 * **Timeouts.** Freeing a session waits for its runs that timed out. A run counts as hung if it has
 * not ended when its time limit has passed once more, or 10 seconds if that is longer. From then
 * on:
 *  - the library frees nothing that was made from the device, as the device may still use it;
 *  - memory that the application lent to the device must stay valid as long as the process lives;
 *  - every later call with that device fails with REPRISE_DEVICE_LOST, and the message says why.
 *
 * **Errors.** Every function that can fail returns a status, and a result only with REPRISE_OK. If
 * `error` is not null, the function fills it with a message that names the node, tensor or file and
 * says what was expected and what was found. The library never throws, prints, aborts or reads the
 * environment.
 *
 * **Threads.** All functions may be called from any thread. Several threads may run one session at
 * the same time. Two runs must not write to the same buffer at the same time. The library creates
 * threads to build kernels while it creates a session, unless the application lends an executor;
 * they end before that call returns. A device has one thread more from the first submission on that
 * asks to be called at its end (`at_end`).
 *
 * **Structs.** A struct begins with its size, which the REPRISE_*_INIT initialisers set, so that
 * later versions can add members at the end. A size that no version had is a REPRISE_USAGE error.
 * So is a larger size if members that this version does not know are not zero, and a `reserved`
 * member of a struct that the library reads that is not zero.
 *
 * **Strings and numbers.** Strings are UTF-8, and null-terminated where no size is given. Sizes are
 * in bytes unless they are dims, which count elements. An `index` counts from 0 in the model's
 * order; one that does not exist is a REPRISE_USAGE error.
 *
 * **Processes.** A child process of fork() cannot use what its parent made: calls with such a
 * handle fail with REPRISE_USAGE, and freeing it does nothing. The child can make objects of its
 * own as far as the drivers allow.
 */
#ifndef REPRISE_REPRISE_H_
#define REPRISE_REPRISE_H_

/* IWYU pragma: begin_exports */
#include "reprise/device.h"
#include "reprise/session.h"
#include "reprise/types.h"
/* IWYU pragma: end_exports */

#endif
