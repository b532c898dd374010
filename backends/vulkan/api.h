// Vulkan through volk, with volk's symbols renamed (see backends/CMakeLists.txt). Include this,
// never vulkan.h or volk.h.
#pragma once

#include "reprise_volk_names.h"
// After the names, which rename what it declares.
#include <volk.h>
