// Libraries of ours that are opened when they are needed.
#pragma once

#include <string>

#include "runtime/platform/library.h"

namespace reprise::host {

/// Looks beside the program, in the folder lib beside its folder, and where the dynamic loader
/// does.
platform::Library open_own_library(const std::string& name);

}  // namespace reprise::host
