// The files that programs write.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace reprise::app {

/// Writes the file completely or not at all: what was at the path stays if the disk is full or the
/// program is interrupted.
Status write_file(const std::string& path, std::string_view contents);

/// Code::Usage if a package must not be written to `output`: it is the model itself, or another
/// file that is no package.
Status check_package_output(const std::string& model, const std::string& output);

/// Whether both paths lead to one file or folder that exists.
bool is_same_file(const std::string& a, const std::string& b);

}  // namespace reprise::app
