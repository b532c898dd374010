#include <gtest/gtest.h>

#include "runtime/facts/cuda_arch.h"
#include "runtime/facts/device_facts.h"

namespace reprise {
namespace {

TEST(Predicate, NamesTheFirstMissingFact) {
  DeviceFacts facts;
  facts.api = Api::Vulkan;
  facts.kind = DeviceKind::DiscreteGpu;
  facts.subgroup_size = 32;
  facts.buffer_address = true;
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
  check([](Predicate& p) { p.needs_exact_halves = true; }, "fp16 conversions");
  check([](Predicate& p) { p.needs_float64 = true; }, "fp64");
  check([](Predicate& p) { p.needs_storage8 = true; }, "8-bit storage");
  check([](Predicate& p) { p.needs_storage16 = true; }, "16-bit storage");
  check([](Predicate& p) { p.needs_subgroup_arithmetic = true; }, "arithmetic");
  check([](Predicate& p) { p.needs_subgroup_shuffle = true; }, "shuffles");
  check([](Predicate& p) { p.needs_subgroup_extended_types = true; }, "64-bit integers and fp16");
  check([](Predicate& p) { p.subgroup_size = 8; }, "subgroups of 8, the device has 32");
  check(
      [](Predicate& p) {
        p.matrices = {{16, 16, 16}};
      },
      "cooperative matrices of 16x16x16 in fp16 with fp32 sums");
  check([](Predicate& p) { p.workgroup_invocations = 256; }, "256, the device has 128");
  check([](Predicate& p) { p.shared_bytes = 32768; }, "32768, the device has 16384");
  facts.int64 = facts.float16 = facts.float64 = facts.storage8 = facts.storage16 = true;
  facts.subgroup_arithmetic = facts.subgroup_shuffle = facts.subgroup_extended_types = true;
  facts.kind = DeviceKind::Cpu;
  Predicate all;
  all.needs_int64 = all.needs_float16 = all.needs_float64 = all.needs_storage8 =
      all.needs_storage16 = true;
  all.needs_subgroup_arithmetic = all.needs_subgroup_shuffle = all.cpu_type = true;
  all.needs_subgroup_extended_types = true;
  all.subgroup_size = 32;
  const MmaConfig bytes{16, 16, 32, {MmaType::I8, MmaType::U8, MmaType::I32}};
  facts.matrices = {{16, 8, 16}, {16, 16, 16}, bytes};
  all.matrices = {bytes, {16, 16, 16}};
  EXPECT_EQ(all.mismatch(facts), "");
  all.matrices.push_back({16, 16, 16, {MmaType::BF16, MmaType::BF16, MmaType::F32}});
  EXPECT_EQ(all.mismatch(facts), "needs cooperative matrices of 16x16x16 in bf16 with fp32 sums");
  all.matrices.back() = bytes;
  all.matrices.back().scope = MmaScope::Team;
  EXPECT_EQ(all.mismatch(facts),
            "needs cooperative matrices of 16x16x32 in int8 and uint8 with int32 sums of four "
            "subgroups");
}

TEST(Predicate, TakesMultiplesOfFlexibleMatrices) {
  DeviceFacts facts;
  facts.api = Api::Vulkan;
  facts.buffer_address = true;
  facts.max_workgroup_invocations = 256;
  facts.flexible_matrices = {{16, 8, 16}, {32, 32, 16, {}, MmaScope::Workgroup, 256}};
  const auto mismatch = [&](const MmaConfig& matrix) {
    Predicate p;
    p.matrices = {matrix};
    return p.mismatch(facts);
  };
  EXPECT_EQ(mismatch({16, 8, 16}), "");
  EXPECT_EQ(mismatch({32, 24, 64}), "");
  EXPECT_EQ(mismatch({32, 20, 64}),
            "needs cooperative matrices of 32x20x64 in fp16 with fp32 sums");
  EXPECT_NE(mismatch({16, 16, 16, kBfloatMma}), "");
  EXPECT_EQ(mismatch({32, 128, 16, {}, MmaScope::Workgroup, 256}), "");
  EXPECT_EQ(mismatch({32, 128, 16, {}, MmaScope::Workgroup, 128}),
            "needs cooperative matrices of 32x128x16 in fp16 with fp32 sums of a workgroup of 128");
  facts.reserved_shared_bytes = 1;  // all of the memory that the predicate asks for is there
  EXPECT_EQ(mismatch({16, 8, 16}), "");
  EXPECT_EQ(mismatch({32, 128, 16, {}, MmaScope::Workgroup, 256}),
            "needs shared memory (bytes) of at least 16385, the device has 16384");
}

TEST(Predicate, TakesSubgroupsThatADeviceCanBeAskedFor) {
  DeviceFacts facts;
  facts.api = Api::Vulkan;
  facts.buffer_address = true;
  facts.subgroup_size = 64;
  Predicate p;
  p.subgroup_size = 32;
  EXPECT_EQ(p.mismatch(facts), "needs subgroups of 32, the device has 64");
  facts.least_subgroup_size = 32;
  facts.largest_subgroup_size = 64;
  EXPECT_EQ(p.mismatch(facts), "");
  p.subgroup_size = 16;
  EXPECT_EQ(p.mismatch(facts), "needs subgroups of 16, the device has 64");
}

TEST(Predicate, NamesAllFeaturesThatAreMissing) {
  DeviceFacts facts;
  facts.api = Api::Vulkan;
  facts.buffer_address = true;
  Predicate p;
  p.needs_int64 = p.needs_storage8 = p.needs_storage16 = p.needs_subgroup_shuffle = true;
  EXPECT_EQ(p.mismatch(facts),
            "needs 64-bit integers, 8-bit storage, 16-bit storage, subgroup shuffles");
  facts.storage8 = true;
  EXPECT_EQ(p.mismatch(facts), "needs 64-bit integers, 16-bit storage, subgroup shuffles");
  const std::string lent = p.missing_of_lent(facts);
  EXPECT_NE(lent.find("shader_int64 ("), std::string::npos) << lent;
  EXPECT_NE(lent.find("storage16 ("), std::string::npos) << lent;
  EXPECT_EQ(lent.find("storage8"), std::string::npos) << lent;
}

TEST(Predicate, AddressesAndDescriptorsAreForDifferentDevices) {
  DeviceFacts facts;
  facts.api = Api::Vulkan;
  facts.max_storage_buffers = 35;
  Predicate descriptors;
  descriptors.storage_buffers = 16;
  EXPECT_EQ(descriptors.mismatch(facts), "");
  EXPECT_NE(Predicate{}.mismatch(facts).find("vulkan-descriptors"), std::string::npos);
  facts.max_storage_buffers = 4;
  EXPECT_NE(descriptors.mismatch(facts).find("16 storage buffers in a kernel, the device allows 4"),
            std::string::npos);
  facts.max_storage_buffers = 35;
  facts.buffer_address = true;
  EXPECT_EQ(Predicate{}.mismatch(facts), "");
  EXPECT_NE(descriptors.mismatch(facts).find("without buffer addresses"), std::string::npos);
}

TEST(CudaArch, Texts) {
  EXPECT_EQ(CudaArch::parse("sm_90"), (CudaArch{false, 90}));
  EXPECT_EQ(CudaArch::parse("compute_120"), (CudaArch{true, 120}));
  EXPECT_EQ(CudaArch::parse("compute_120")->str(), "compute_120");
  EXPECT_EQ(CudaArch::parse("sm_90a"), (CudaArch{false, 90, true}));
  EXPECT_EQ(CudaArch::parse("sm_90a")->str(), "sm_90a");
  for (const char* text :
       {"", "sm", "sm_", "sm_9", "sm_090", "sm_90b", "sm_90aa", "sm_a", "sm_-90", "sm_9000",
        "sm 90", "compute_", "compute_x", "compute_90a", "SM_90", "90", "sm_99999999999999"}) {
    EXPECT_FALSE(CudaArch::parse(text)) << text;
  }
}

TEST(CudaArch, WhatRunsWhere) {
  const auto runs = [](const char* arch, uint32_t device) {
    Predicate p;
    p.api = Api::Cuda;
    p.cuda_arch = arch;
    DeviceFacts facts;
    facts.api = Api::Cuda;
    facts.cuda_arch = device;
    facts.max_workgroup_invocations = 1024;
    return p.mismatch(facts);
  };
  const struct {
    const char* arch;
    std::vector<uint32_t> on, not_on;
  } table[] = {
      {"sm_75", {75}, {72, 80}},
      {"sm_80", {80, 86, 89}, {75, 87, 88, 90}},
      {"sm_86", {86, 89}, {80, 87, 88, 90}},
      {"sm_87", {87}, {80, 86, 88, 89, 90}},  // Orin
      {"sm_89", {89}, {80, 86, 87, 90}},
      {"sm_90", {90}, {80, 89, 100, 120}},
      {"sm_90a", {90}, {80, 89, 91, 100, 120}},
      {"sm_100", {100, 103}, {101, 110, 120}},
      {"sm_101", {101}, {100, 103, 110}},  // Thor, as CUDA 12 calls it
      {"sm_110", {110}, {100, 101, 120}},  // and as CUDA 13 does
      {"sm_120", {120, 121}, {100, 110}},
      {"compute_80", {80, 86, 87, 89, 90, 101, 110, 120}, {72, 75}},
      {"compute_87", {87, 88, 89, 90}, {80, 86}},
  };
  for (const auto& row : table) {
    for (const uint32_t device : row.on) EXPECT_EQ(runs(row.arch, device), "") << row.arch;
    for (const uint32_t device : row.not_on)
      EXPECT_NE(runs(row.arch, device), "") << row.arch << " on " << device;
  }
  EXPECT_EQ(runs("sm_90", 80), "is compiled for sm_90, the device is sm_80");
  EXPECT_EQ(runs("compute_80", 75), "is PTX for compute_80 and later, the device is sm_75");
  EXPECT_NE(runs("sm_90a", 91).find("exactly that architecture"), std::string::npos);
  EXPECT_NE(runs("sm_86", 87).find("Tegra"), std::string::npos);
  EXPECT_NE(runs("gfx1100", 90).find("'gfx1100'"), std::string::npos);
}

}  // namespace
}  // namespace reprise
