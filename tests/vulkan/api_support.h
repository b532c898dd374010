// What api_test.cpp needs from inside: it sees public headers only, as an application does.
#pragma once

#include <string>
#include <vector>

#include "reprise/reprise.h"

namespace reprise::test {

/// y = x + 2 on a device, y = x + x on the host, x of dynamic length: which one ran is visible.
reprise_package* sample_package();
/// y = x + n with `n` different kernels, x of 3 elements.
reprise_package* package_of_kernels(int n);
/// Ids of the usable Vulkan devices, and "host".
std::vector<std::string> session_devices();
/// The id in a form that test names may have.
std::string as_test_name(std::string id);

}  // namespace reprise::test
