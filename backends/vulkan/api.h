// Vulkan through volk, with volk's symbols renamed (see backends/CMakeLists.txt). Include this
// header instead of vulkan.h or volk.h.
#pragma once

#include "reprise_volk_names.h"
// Must follow the names, which rename its declarations.
#include <volk.h>
