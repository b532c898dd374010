// Graphs compiled with probes, and their kernels checked on devices.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "apps/reprise/check_graphs.h"
#include "backends/registry.h"
#include "codegen/compile/compiler.h"
#include "runtime/check/check.h"

namespace reprise::test {

/// Every Vulkan device; none is a failure.
inline std::vector<std::shared_ptr<Device>> devices() {
  std::vector<std::shared_ptr<Device>> out;
  for (const DeviceInfo& d : list_devices()) {
    if (!d.usable || d.facts.api != Api::Vulkan) continue;
    auto opened = open_device(d.id);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    if (opened.ok()) out.push_back(opened->device);
  }
  EXPECT_FALSE(out.empty()) << "no Vulkan device";
  return out;
}

/// With every variant, or the one that `device` takes.
inline std::shared_ptr<package::Package> compiled(const char* text,
                                                  const DeviceInfo* device = nullptr) {
  auto graph = graph::parse(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) return nullptr;
  CompileOptions options;
  options.probes = true;
  if (device != nullptr) options.device = device->facts;
  auto package = compile(std::move(*graph), options);
  EXPECT_TRUE(package.ok()) << package.status().message();
  if (!package.ok()) return nullptr;
  return std::make_shared<package::Package>(std::move(*package));
}

inline std::vector<KernelCheck> check(Device& device, const package::Variant& v,
                                      const CheckOptions& options = {}) {
  auto kernels = device.create_kernels(v.plan.kernels);
  EXPECT_TRUE(kernels.ok()) << kernels.status().message();
  if (!kernels.ok()) return {};
  auto checks = check_kernels(device, v, *kernels, options);
  EXPECT_TRUE(checks.ok()) << checks.status().message();
  return checks.ok() ? std::move(*checks) : std::vector<KernelCheck>();
}

inline const char* graph_text(const std::string& name) {
  for (const app::CheckGraph& g : app::check_graphs()) {
    if (g.name == name) return g.text;
  }
  ADD_FAILURE() << "no graph " << name;
  return "";
}

}  // namespace reprise::test
