// Checks whether the process can still open files.
#pragma once

#include "runtime/base/status.h"

namespace reprise {

/// Code::Device if no file descriptor is left. Then a library or device that could not be opened
/// may exist after all. It opens a file itself, so call it only after a failure.
Status check_descriptors();

}  // namespace reprise
