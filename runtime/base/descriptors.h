// Whether the process can open files at all.
#pragma once

#include "runtime/base/status.h"

namespace reprise {

/// Code::Device when no file descriptor is left: then whatever is said to be missing may be there.
/// For the ends of failures, as it opens a file.
Status check_descriptors();

}  // namespace reprise
