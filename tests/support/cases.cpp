#include "tests/support/cases.h"

#include <gtest/gtest.h>

#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace reprise::test {

std::vector<std::string> case_devices() {
  std::vector<std::string> out{"host"};
  const ProcessResult r = run_process({program("reprise"), "devices", "--json", "-"});
  for (const Json& d : Json::parse(r.out, nullptr, false)) {
    const std::string id = d["id"];
    if (d["usable"] == true && id != "host" && !id.starts_with("cuda")) out.push_back(id);
  }
  return out;
}

std::vector<std::string> descriptor_devices() {
  std::vector<std::string> out;
  for (const std::string& id : case_devices()) {
    if (!id.starts_with("vulkan")) continue;
    out.push_back(id + "/buffer-addresses");
    out.push_back(id + "/buffer-addresses,update-after-bind,vulkan-1.2");
  }
  return out;
}

Json run_cases(const std::string& dir, const std::string& device, const std::string& filter,
               const std::string& precision) {
  const size_t slash = device.find('/');
  std::vector<std::string> command{program("reprise"),
                                   "conformance",
                                   dir,
                                   "--device",
                                   device.substr(0, slash),
                                   "--filter",
                                   filter,
                                   "--precision",
                                   precision,
                                   "--jobs",
                                   "2",
                                   "--validation",
                                   "--json",
                                   "-"};
  if (slash != std::string::npos) {
    command.insert(command.end(), {"--without", device.substr(slash + 1)});
    // A binding covers the whole memory, so that launches without a barrier between them seem to
    // use the same bytes of an arena.
    command.insert(command.begin(), {"/usr/bin/env", "-u", "VK_LAYER_ENABLES"});
  }
  const ProcessResult r = run_process(command);
  Json json = Json::parse(r.out, nullptr, false);
  EXPECT_TRUE(json.is_object()) << r.err;
  EXPECT_EQ(r.err.find("the compiler has a fault"), std::string::npos) << r.err;
  return json;
}

void expect_clean(const Json& json, int64_t least) {
  if (!json.is_object()) return;
  for (const Json& c : json["cases"]) {
    if (c["status"] == "fail" || c["status"] == "error") {
      ADD_FAILURE() << c["name"] << " " << c["status"] << ": " << c["reason"];
    }
  }
  EXPECT_GE(json["totals"]["pass"].get<int64_t>(), least) << json["totals"];
}

}  // namespace reprise::test
