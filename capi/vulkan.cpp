// The C interface over physical devices of Vulkan.
#include "capi/api.h"

#if REPRISE_WITH_VULKAN
#include "backends/vulkan/vulkan.h"
#endif

using namespace reprise;
using namespace reprise::capi;

reprise_status reprise_vulkan_wanted_features(reprise_vulkan_device* device, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!device) return missing("device");
    RP_ASSIGN(auto given, read_struct(device, reprise_vulkan_device REPRISE_VULKAN_DEVICE_INIT,
                                      "reprise_vulkan_device"));
#if REPRISE_WITH_VULKAN
    BorrowedVulkan wanted;
    wanted.get_instance_proc_addr = given.get_instance_proc_addr;
    wanted.instance = given.instance;
    wanted.physical_device = given.physical_device;
    RP_TRY(vulkan::set_wanted_features(wanted));
    given.no_buffer_addresses = wanted.no_buffer_address ? 1 : 0;
    given.update_after_bind = wanted.update_after_bind ? 1 : 0;
    given.shader_int64 = wanted.int64 ? 1 : 0;
    given.shader_float16 = wanted.float16 ? 1 : 0;
    given.shader_float64 = wanted.float64 ? 1 : 0;
    given.storage8 = wanted.storage8 ? 1 : 0;
    given.storage16 = wanted.storage16 ? 1 : 0;
    write_struct(given, device);
    return {};
#else
    return unsupported("this build has no backend for Vulkan");
#endif
  });
}
