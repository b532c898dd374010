#include <gtest/gtest.h>

#include "runtime/device_facts.h"

namespace reprise {
namespace {

TEST(Predicate, NamesTheFirstMissingFact) {
  DeviceFacts facts;
  facts.api = Api::Vulkan;
  facts.kind = DeviceKind::DiscreteGpu;
  facts.subgroup_size = 32;
  EXPECT_EQ(Predicate{}.mismatch(facts), "");
  const auto check = [&facts](auto&& change, const char* expected) {
    Predicate p;
    change(p);
    EXPECT_NE(p.mismatch(facts).find(expected), std::string::npos) << p.mismatch(facts);
  };
  check([](Predicate& p) { p.api = Api::Cuda; }, "CUDA");
  check([](Predicate& p) { p.cpu_type = true; }, "CPU-type");
  check([](Predicate& p) { p.slow_loads = true; }, "loads are slow");
  check([](Predicate& p) { p.needs_int64 = true; }, "64-bit integers");
  check([](Predicate& p) { p.needs_float16 = true; }, "fp16");
  check([](Predicate& p) { p.needs_storage8 = true; }, "8-bit storage");
  check([](Predicate& p) { p.needs_storage16 = true; }, "16-bit storage");
  check([](Predicate& p) { p.needs_subgroup_arithmetic = true; }, "arithmetic");
  check([](Predicate& p) { p.needs_subgroup_shuffle = true; }, "shuffles");
  check([](Predicate& p) { p.needs_subgroup_extended_types = true; }, "64-bit integers and fp16");
  check([](Predicate& p) { p.subgroup_size = 8; }, "subgroups of 8, the device has 32");
  check([](Predicate& p) { p.matrix = {16, 16, 16}; }, "cooperative matrices of 16x16x16");
  check([](Predicate& p) { p.workgroup_invocations = 256; }, "256, the device has 128");
  check([](Predicate& p) { p.shared_bytes = 32768; }, "32768, the device has 16384");
  facts.int64 = facts.float16 = facts.storage8 = facts.storage16 = true;
  facts.subgroup_arithmetic = facts.subgroup_shuffle = facts.subgroup_extended_types = true;
  facts.kind = DeviceKind::Cpu;
  Predicate all;
  all.needs_int64 = all.needs_float16 = all.needs_storage8 = all.needs_storage16 = true;
  all.needs_subgroup_arithmetic = all.needs_subgroup_shuffle = all.cpu_type = true;
  all.needs_subgroup_extended_types = true;
  all.subgroup_size = 32;
  facts.matrices = {{16, 8, 16}, {16, 16, 16}};
  all.matrix = {16, 16, 16};
  EXPECT_EQ(all.mismatch(facts), "");
}

}  // namespace
}  // namespace reprise
