// Small files of text.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace reprise::app {

/// The contents of a file of at most 64 MiB.
Result<std::string> read_text_file(const std::string& path);

}  // namespace reprise::app
