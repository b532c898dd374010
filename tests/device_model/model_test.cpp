// Each term of the model, and the table of devices.
#include <gtest/gtest.h>

#include <set>

#include "codegen/device_model/model.h"

namespace reprise::test {
namespace {

using device_model::Device;
using device_model::KernelFacts;
using device_model::Times;

/// A device whose numbers are round: a clock of 1 GHz, 10 multiprocessors.
Device round_device() {
  Device d;
  d.name = "round";
  d.multiprocessors = 10;
  d.clock_ghz = 1;
  d.products = 1000;
  d.warp_share = 0.5;
  d.l2_bytes = 100;
  d.l2_megabytes = 1;
  d.memory_gb = 1000;
  return d;
}

KernelFacts full_wave() {
  KernelFacts k;
  k.groups = 10;
  return k;
}

Times of(const KernelFacts& k) {
  return device_model::predict(k, round_device());
}

TEST(DeviceModel, EachTermAlone) {
  KernelFacts k = full_wave();
  k.work.instructions = 4e6;  // four schedulers
  EXPECT_DOUBLE_EQ(of(k).issue, 1);
  EXPECT_EQ(of(k).bound, "issue");
  EXPECT_DOUBLE_EQ(of(k).total, 1);
  k.instruction_ratio = 0.5;
  EXPECT_DOUBLE_EQ(of(k).issue, 0.5);
  k = full_wave();
  k.work.integer = 2e6;  // 64 lanes
  EXPECT_DOUBLE_EQ(of(k).issue, 1);
  k = full_wave();
  k.work.products = 5e8;
  EXPECT_DOUBLE_EQ(of(k).matrix, 1);
  EXPECT_EQ(of(k).bound, "matrix");
  k = full_wave();
  k.work.warpgroup_products = 1e9;
  EXPECT_DOUBLE_EQ(of(k).matrix, 1);
  k = full_wave();
  k.work.special = 5e5;  // 16 lanes
  EXPECT_DOUBLE_EQ(of(k).special, 1);
  EXPECT_EQ(of(k).bound, "special");
  k = full_wave();
  k.work.shared_passes = 4e5;
  k.work.global_lines = 6e5;
  EXPECT_DOUBLE_EQ(of(k).shared, 1);
  EXPECT_EQ(of(k).bound, "shared");
}

TEST(DeviceModel, MemoryAndItsCache) {
  KernelFacts k = full_wave();
  k.work.sectors = 1e8 / 32 / 10;
  EXPECT_DOUBLE_EQ(of(k).l2, 1);
  EXPECT_EQ(of(k).bound, "l2");
  k.work.sectors = 0;
  k.work.bulk_bytes = 1e7;
  EXPECT_DOUBLE_EQ(of(k).l2, 1);
  k = full_wave();
  k.bytes = 1e6;  // all of the L2 cache
  EXPECT_DOUBLE_EQ(of(k).dram, 0);
  k.bytes = 1e9 + 1e6;
  EXPECT_DOUBLE_EQ(of(k).dram, 1);
  EXPECT_EQ(of(k).bound, "dram");
}

TEST(DeviceModel, ChainsAreAsLongAsMemoryIsFar) {
  KernelFacts k = full_wave();
  k.work.near_chain = 1e6;
  k.work.far_chain = 3e6;
  EXPECT_DOUBLE_EQ(of(k).chain, 1);
  EXPECT_EQ(of(k).bound, "chain");
  k.work.bulk_bytes = 4e5;
  k.bytes = 1e6 + 2e6;  // half of what comes from L2 was not there
  EXPECT_DOUBLE_EQ(of(k).chain, 2);
}

/// Workgroups of one multiprocessor run side by side as far as they fit.
TEST(DeviceModel, Waves) {
  KernelFacts k;
  k.work.near_chain = 1e6;
  k.work.instructions = 4e6;
  k.groups = 41;  // five on the busiest of ten
  k.resident = 2;
  EXPECT_DOUBLE_EQ(of(k).chain, 3);
  EXPECT_DOUBLE_EQ(of(k).issue, 5);
  EXPECT_NEAR(of(k).waves, 5 - 4.1, 1e-9);
  k.groups = 50;
  EXPECT_NEAR(of(k).waves, 0, 1e-9);
}

TEST(DeviceModel, TermsThatOverlapAddUpToLessThanTheirSum) {
  KernelFacts k = full_wave();
  k.work.instructions = 4e6;
  k.work.special = 5e5;
  EXPECT_GT(of(k).total, 1.0);
  EXPECT_LT(of(k).total, 2.0);
  Device d = round_device();
  d.launch_us = 3;
  EXPECT_NEAR(device_model::predict(k, d).total - of(k).total, 0.003, 1e-12);
}

TEST(DeviceModel, DevicesNameTheirSources) {
  std::set<std::string_view> names;
  for (const Device& d : device_model::devices()) {
    EXPECT_TRUE(names.insert(d.name).second) << d.name;
    EXPECT_FALSE(d.title.empty() || d.source.empty() || d.target.empty()) << d.name;
    EXPECT_GT(d.multiprocessors * d.clock_ghz * d.products * d.warp_share, 0) << d.name;
    EXPECT_GT(d.l2_bytes * d.l2_megabytes * d.memory_gb * d.launch_us, 0) << d.name;
    const auto found = device_model::find_device(d.name);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(*found, &d);
  }
}

TEST(DeviceModel, AnUnknownDeviceIsAnErrorThatListsAll) {
  const auto found = device_model::find_device("h2000");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), Code::Usage);
  for (const Device& d : device_model::devices())
    EXPECT_NE(found.status().message().find(d.name), std::string::npos) << d.name;
}

}  // namespace
}  // namespace reprise::test
