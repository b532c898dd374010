// Folders of cases in the layout of the ONNX backend suite, on devices, through the command line,
// so that a crash of one case hides no other.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace reprise::test {

using Json = nlohmann::json;

/// All but those of CUDA, which need NVRTC.
std::vector<std::string> case_devices();
/// The Vulkan devices, each as a device without buffer addresses, in two ways: "ID/HIDDEN".
std::vector<std::string> descriptor_devices();

/// What `reprise conformance` reports. `device`: an id, or "ID/HIDDEN" for --without.
Json run_cases(const std::string& dir, const std::string& device, const std::string& filter = "*",
               const std::string& precision = "fp32");
/// No case may fail or err; at least `least` must pass.
void expect_clean(const Json& json, int64_t least);

}  // namespace reprise::test
