// The C interface and its C++ layer on devices and on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "api_support.h"
#include "reprise/reprise.hpp"

namespace reprise::test {
namespace {

class Api : public testing::TestWithParam<std::string> {
 protected:
  float expected(float x) const { return GetParam() == "host" ? 2 * x : x + 2; }
};

TEST_P(Api, RunsWithTheCallersMemory) {
  auto device = Device::open(GetParam());
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_EQ(std::string(device->info().id), GetParam());
  EXPECT_EQ(device->info().usable, 1);
  const Package package(sample_package());
  reprise_session* created = nullptr;
  reprise_error error{};
  ASSERT_EQ(reprise_session_create(package.get(), device->get(), nullptr, &created, &error),
            REPRISE_OK)
      << error.message;
  const Handle<reprise_session, reprise_session_free> session(created);
  ASSERT_EQ(reprise_session_input_count(created), 1U);
  reprise_slot slot = REPRISE_SLOT_INIT;
  ASSERT_EQ(reprise_session_input(created, 0, &slot, &error), REPRISE_OK);
  EXPECT_STREQ(slot.name, "x");
  EXPECT_EQ(slot.rank, 1U);
  EXPECT_EQ(slot.dims[0], -1);
  EXPECT_EQ(reprise_session_output(created, 1, &slot, &error), REPRISE_USAGE);

  const std::vector<float> x{1, 2, 3};
  std::vector<float> y(3);
  const reprise_tensor input = Tensor("x", x.data(), {3}).raw();
  reprise_tensor output = Tensor("y", y.data(), {3}).raw();
  output.rank = 0;
  reprise_run_stats stats = REPRISE_RUN_STATS_INIT;
  ASSERT_EQ(reprise_session_run(created, &input, 1, &output, 1, nullptr, &stats, &error),
            REPRISE_OK)
      << error.message;
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(y[i], expected(x[i]));
  EXPECT_EQ(output.rank, 1U);
  EXPECT_EQ(output.dims[0], 3);
  EXPECT_GT(stats.total_us, 0);
  output.bytes = 8;
  EXPECT_EQ(reprise_session_run(created, &input, 1, &output, 1, nullptr, nullptr, &error),
            REPRISE_INVALID_INPUT);
  EXPECT_EQ(error.status, REPRISE_INVALID_INPUT);
  EXPECT_NE(std::string(error.message).find("output 'y'"), std::string::npos) << error.message;
  reprise_tensor wrong = input;
  wrong.bytes = 11;
  EXPECT_EQ(reprise_session_run(created, &wrong, 1, nullptr, 0, nullptr, nullptr, &error),
            REPRISE_INVALID_INPUT);
  EXPECT_NE(std::string(error.message).find("12 bytes, 11"), std::string::npos) << error.message;
}

TEST_P(Api, DeviceBuffersAreUsedInPlace) {
  auto device = Device::open(GetParam());
  ASSERT_TRUE(device);
  auto in = Buffer::create(*device, 64), out = Buffer::create(*device, 64);
  if (GetParam() == "host") {
    ASSERT_FALSE(in);
    EXPECT_EQ(in.error().status, REPRISE_USAGE);
    return;
  }
  ASSERT_TRUE(in && out);
  const std::vector<float> x{5, 6};
  EXPECT_EQ(in->write(x.data(), 8, 16).status, REPRISE_OK);
  const Package package(sample_package());
  reprise_session* created = nullptr;
  ASSERT_EQ(reprise_session_create(package.get(), device->get(), nullptr, &created, nullptr),
            REPRISE_OK);
  const Handle<reprise_session, reprise_session_free> session(created);
  const reprise_tensor input = Tensor("x", *in, {2}, 16).raw();
  reprise_tensor output = Tensor("y", *out).raw();
  reprise_run_stats stats = REPRISE_RUN_STATS_INIT;
  ASSERT_EQ(reprise_session_run(created, &input, 1, &output, 1, nullptr, &stats, nullptr),
            REPRISE_OK);
  EXPECT_EQ(stats.bytes_copied, 0U);
  std::vector<float> y(2);
  EXPECT_EQ(out->read(y.data(), 8).status, REPRISE_OK);
  EXPECT_EQ(y, (std::vector<float>{7, 8}));
  EXPECT_EQ(out->read(y.data(), 8, 60).status, REPRISE_USAGE);
  reprise_tensor halves = input;
  halves.dtype = REPRISE_F16;
  reprise_error error{};
  EXPECT_EQ(reprise_session_run(created, &halves, 1, &output, 1, nullptr, &stats, &error),
            REPRISE_INVALID_INPUT);
  EXPECT_NE(std::string(error.message).find("input 'x' is float16[2], expected float32"),
            std::string::npos)
      << error.message;
}

TEST_P(Api, PackagesAndSessionsDescribeThemselves) {
  const Package package(sample_package());
  reprise_error error{};
  reprise_package_info info = REPRISE_PACKAGE_INFO_INIT;
  ASSERT_EQ(reprise_package_get_info(package.get(), &info, &error), REPRISE_OK) << error.message;
  EXPECT_STREQ(info.model, "handmade");
  EXPECT_EQ(info.input_count, 1U);
  EXPECT_EQ(info.output_count, 1U);
  EXPECT_EQ(info.state_count, 0U);
  ASSERT_EQ(info.variant_count, 2U);
  reprise_variant variant = REPRISE_VARIANT_INIT;
  ASSERT_EQ(reprise_package_variant(package.get(), 0, &variant, &error), REPRISE_OK);
  EXPECT_EQ(variant.kernel_count, 1U);
  EXPECT_EQ(variant.launch_count, 2U);
  EXPECT_EQ(variant.host_call_count, 0U);
  EXPECT_EQ(reprise_package_variant(package.get(), 2, &variant, &error), REPRISE_USAGE);
  EXPECT_EQ(info.metadata_count, 0U);
  const char *name = nullptr, *value = nullptr;
  EXPECT_EQ(reprise_package_metadata(package.get(), 0, &name, &value, &error), REPRISE_USAGE);
  ASSERT_EQ(info.symbol_count, 1U);
  reprise_symbol symbol = REPRISE_SYMBOL_INIT;
  ASSERT_EQ(reprise_package_symbol(package.get(), 0, &symbol, &error), REPRISE_OK);
  EXPECT_STREQ(symbol.name, "n");
  EXPECT_LT(symbol.min, symbol.max);
  EXPECT_GE(symbol.divisor, 1);
  EXPECT_EQ(reprise_package_symbol(package.get(), 1, &symbol, &error), REPRISE_USAGE);
  reprise_slot slot = REPRISE_SLOT_INIT;
  ASSERT_EQ(reprise_package_input(package.get(), 0, &slot, &error), REPRISE_OK);
  EXPECT_STREQ(slot.name, "x");
  EXPECT_STREQ(slot.shape, "[n]");
  EXPECT_EQ(slot.dims[0], -1);
  ASSERT_EQ(reprise_package_output(package.get(), 0, &slot, &error), REPRISE_OK);
  EXPECT_STREQ(slot.name, "y");
  EXPECT_EQ(reprise_package_state(package.get(), 0, &slot, &error), REPRISE_USAGE);

  const auto device = Device::open(GetParam());
  ASSERT_TRUE(device) << device.error().message;
  auto session = Session::create(package, *device);
  ASSERT_TRUE(session) << session.error().message;
  const std::vector<float> x{1, 2, 3};
  for (int run = 0; run < 2; ++run) {
    ASSERT_TRUE(session->run({{"x", x.data(), {3}}}));
    EXPECT_EQ(reprise_device_trim(device->get(), &error), REPRISE_OK) << error.message;
  }
  reprise_session_info held = REPRISE_SESSION_INFO_INIT;
  ASSERT_EQ(reprise_session_get_info(session->get(), &held, &error), REPRISE_OK);
  EXPECT_EQ(held.runs, 2U);
  if (GetParam() == "host") {
    EXPECT_STREQ(held.variant, "host");
  } else {
    EXPECT_STREQ(held.variant, variant.name);
    EXPECT_EQ(held.dispatches, 4U);
    EXPECT_EQ(held.submits, 2U);
  }
}

TEST_P(Api, TheCppLayerDescribesPackages) {
  const Package package(sample_package());
  EXPECT_EQ(std::string(package.info().model), "handmade");
  ASSERT_EQ(package.inputs().size(), 1U);
  EXPECT_EQ(std::string(package.inputs()[0].name), "x");
  ASSERT_EQ(package.outputs().size(), 1U);
  EXPECT_EQ(std::string(package.outputs()[0].shape), "[n]");
  EXPECT_TRUE(package.states().empty());
  EXPECT_TRUE(package.metadata().empty());
  ASSERT_EQ(package.symbols().size(), 1U);
  EXPECT_EQ(std::string(package.symbols()[0].name), "n");
  ASSERT_EQ(package.variants().size(), 2U);
  EXPECT_EQ(package.variants()[0].launch_count, 2U);
  const auto infos = Device::list();
  ASSERT_TRUE(infos) << infos.error().message;
  EXPECT_TRUE(std::any_of(infos->begin(), infos->end(), [](const reprise_device_info& i) {
    return GetParam() == std::string(i.id) && i.usable == 1;
  }));
  const auto device = Device::open(GetParam());
  ASSERT_TRUE(device) << device.error().message;
  auto session = Session::create(package, *device);
  ASSERT_TRUE(session) << session.error().message;
  const std::vector<float> x{1, 2, 3};
  ASSERT_TRUE(session->run({{"x", x.data(), {3}}}));
  EXPECT_EQ(session->info().runs, 1U);
  EXPECT_FALSE(Package::open_memory(x.data(), sizeof(float) * x.size()));
  auto run = Run::create(*session);
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_NE(run->record(nullptr).status, REPRISE_OK);
  const auto states = States::create(*session);
  ASSERT_TRUE(states) << states.error().message;
  const auto fork = states->fork(0);
  ASSERT_TRUE(fork) << fork.error().message;
  EXPECT_EQ(fork->info()->length, 0);
  EXPECT_EQ(session->bind_states(&*fork).message,
            "the model has no states, so that none can be bound");
  EXPECT_EQ(session->bind_states(nullptr).status, REPRISE_OK);
  EXPECT_EQ(run->bind_states(nullptr).status, REPRISE_OK);
}

INSTANTIATE_TEST_SUITE_P(Devices, Api, testing::ValuesIn(session_devices()),
                         [](const auto& which) { return as_test_name(which.param); });

TEST(ApiRules, NullsAndUnknownNamesAreErrors) {
  reprise_error error{};
  EXPECT_EQ(reprise_package_open(nullptr, nullptr, &error), REPRISE_USAGE);
  reprise_package* p = nullptr;
  EXPECT_EQ(reprise_package_open("/nowhere/model.rpk", &p, &error), REPRISE_IO);
  EXPECT_NE(std::string(error.message).find("/nowhere/model.rpk"), std::string::npos);
  EXPECT_EQ(reprise_package_open_memory("junk", 4, &p, nullptr), REPRISE_CORRUPT_PACKAGE);
  EXPECT_EQ(Device::open("gpu:7").error().status, REPRISE_USAGE);
  EXPECT_EQ(reprise_session_run(nullptr, nullptr, 0, nullptr, 0, nullptr, nullptr, &error),
            REPRISE_USAGE);
  reprise_package_free(nullptr);
  reprise_session_free(nullptr);
  reprise_buffer_free(nullptr);
  reprise_device_free(nullptr);
  reprise_results_free(nullptr);
}

TEST(ApiRules, ALargerStructKeepsItsOwnMembers) {
  // A caller of a later version, whose struct has one more member.
  struct Later {
    reprise_device_info info = REPRISE_DEVICE_INFO_INIT;
    uint64_t more = 7;
  };
  Later later;
  later.info.struct_size = sizeof(Later);
  size_t count = 0;
  ASSERT_EQ(reprise_list_devices(&later.info, 1, &count, nullptr), REPRISE_OK);
  EXPECT_GE(count, 1U);
  EXPECT_NE(later.info.id[0], 0);
  EXPECT_EQ(later.info.struct_size, sizeof(Later));
  EXPECT_EQ(later.more, 7U);
  reprise_device_info none{};
  reprise_error error{};
  EXPECT_EQ(reprise_list_devices(&none, 1, &count, &error), REPRISE_USAGE);
  EXPECT_NE(std::string(error.message).find("struct_size 0"), std::string::npos) << error.message;
}

TEST(CppLayer, DimsAreAnyRange) {
  const std::vector<float> data(60);
  const std::vector<int64_t> vector{3, 4, 5};
  const std::array<int, 3> array{3, 4, 5};
  const size_t plain[] = {3, 4, 5};
  const auto expect = [](const Tensor& t) {
    EXPECT_EQ(t.raw().rank, 3U);
    EXPECT_EQ(std::vector<int64_t>(t.raw().dims, t.raw().dims + 3),
              (std::vector<int64_t>{3, 4, 5}));
    EXPECT_EQ(t.raw().bytes, 60 * sizeof(float));
  };
  expect({"x", data.data(), {3, 4, 5}});
  expect({"x", data.data(), vector});
  expect({"x", data.data(), array});
  expect({"x", data.data(), plain});
  expect({"x", data.data(), std::span(vector)});
  const Tensor scalar("x", data.data(), {});
  EXPECT_EQ(scalar.raw().rank, 0U);
  EXPECT_EQ(scalar.raw().bytes, sizeof(float));
  EXPECT_EQ(Tensor("x", data.data(), std::vector<int64_t>(17, 1)).raw().rank, 17U);
  const auto value = Value::tensor(data.data(), vector);
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_EQ(value->as_tensor()->dims[2], 5);
}

}  // namespace
}  // namespace reprise::test
