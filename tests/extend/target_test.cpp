// A variant, added in this one file: devices of other facts, and what the kernels for them may use.
// Rows in codegen/compile/targets.cpp are the same.
#include <gtest/gtest.h>

#include "backends/registry.h"
#include "codegen/compile/compiler.h"
#include "codegen/graph/text/text.h"
#include "runtime/session/session.h"

namespace reprise {
namespace {

// --- The variant ---------------------------------------------------------------------------------

/// Devices with 16 KB of shared memory and workgroups of 64 at most.
lower::Target small_workgroups() {
  lower::Target t;
  t.name = "vulkan-small-workgroups";
  t.predicate.workgroup_invocations = 64;
  t.predicate.shared_bytes = 16384;
  return t;
}

// --- Its test ------------------------------------------------------------------------------------

constexpr const char* kModel =
    "graph g\ninput x: float32[70,300]\ninput w: float32[300,80]\ny = MatMul(x, w) @13\n"
    "z = Softmax<axis=-1>(y) @13\noutput z\n";

TEST(AddedTarget, IsTakenBeforeOthers) {
  auto device = open_device("vulkan:0");
  if (!device.ok()) GTEST_SKIP() << device.status().message();
  auto g = graph::parse(kModel);
  ASSERT_TRUE(g.ok()) << g.status().message();
  CompileOptions options;
  options.added_targets = {small_workgroups()};
  options.targets = {"vulkan", "vulkan-small-workgroups"};
  auto package = compile(std::move(*g), options);
  ASSERT_TRUE(package.ok()) << package.status().message();
  for (const plan::KernelCode& k : package->variants[0].plan.kernels)
    EXPECT_LE(k.workgroup[0] * k.workgroup[1] * k.workgroup[2], 64U) << k.name;
  auto session =
      Session::create(std::make_shared<package::Package>(std::move(*package)), device->device);
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_EQ((*session)->variant(), "vulkan-small-workgroups");
}

TEST(AddedTarget, HasANameOfItsOwn) {
  for (const char* name : {"", "vulkan", "host", "cuda:sm_80", "vulkan-baseline"}) {
    auto g = graph::parse(kModel);
    ASSERT_TRUE(g.ok()) << g.status().message();
    CompileOptions options;
    options.added_targets = {small_workgroups()};
    options.added_targets[0].name = name;
    EXPECT_EQ(compile(std::move(*g), options).status().code(), Code::Usage) << name;
  }
}

TEST(AddedTarget, IsCompiledOnlyWhereItIsNamed) {
  auto g = graph::parse(kModel);
  ASSERT_TRUE(g.ok()) << g.status().message();
  CompileOptions options;
  options.added_targets = {small_workgroups()};
  auto package = compile(std::move(*g), options);
  ASSERT_TRUE(package.ok()) << package.status().message();
  for (const package::Variant& v : package->variants) EXPECT_NE(v.name, "vulkan-small-workgroups");
}

}  // namespace
}  // namespace reprise
