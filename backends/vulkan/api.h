// Vulkan through volk, with volk's symbols renamed (see backends/CMakeLists.txt). Include this
// header instead of vulkan.h or volk.h.
#pragma once

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan.h>

#include "reprise_volk_names.h"
// Must follow Vulkan's header, which defines what this takes back.
#include "reprise_volk_groups.h"
// Must follow the names, which rename its declarations, and the groups, which it lacks then.
#include <volk.h>
