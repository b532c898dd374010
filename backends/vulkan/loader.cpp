// volk's implementation, compiled once.
#define VOLK_IMPLEMENTATION
#include "backends/vulkan/api.h"
