// A device whose results differ between runs: verify and conformance see it in the bits, bisect in
// the kernel.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>

#include "apps/common/replays.h"
#include "apps/reprise/conformance.h"
#include "backends/vulkan/api.h"
#include "backends/vulkan/vulkan.h"
#include "tests/support/onnx_writer.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

// Numbers that nothing else in memory is.
constexpr float kInput = 21.1375F, kRight = 2 * kInput, kWrong = 2 * kInput + 1;

/// After every second wait, what is right in mapped memory becomes wrong.
struct Fickle {
  std::mutex mutex;
  std::map<VkDeviceMemory, std::span<std::byte>> mapped;
  uint64_t waits = 0;
  bool on = false;
  PFN_vkMapMemory map = nullptr;
  PFN_vkWaitForFences wait = nullptr;
  PFN_vkAllocateMemory allocate = nullptr;
  PFN_vkFreeMemory free = nullptr;
  std::map<VkDeviceMemory, uint64_t> sizes;
};
Fickle& fickle() {
  static Fickle f;
  return f;
}

VKAPI_ATTR VkResult VKAPI_CALL allocate_noting(VkDevice device, const VkMemoryAllocateInfo* info,
                                               const VkAllocationCallbacks* callbacks,
                                               VkDeviceMemory* out) {
  const VkResult r = fickle().allocate(device, info, callbacks, out);
  const std::lock_guard lock(fickle().mutex);
  if (r == VK_SUCCESS) fickle().sizes[*out] = info->allocationSize;
  return r;
}

VKAPI_ATTR VkResult VKAPI_CALL map_noting(VkDevice device, VkDeviceMemory memory,
                                          VkDeviceSize offset, VkDeviceSize size,
                                          VkMemoryMapFlags flags, void** out) {
  const VkResult r = fickle().map(device, memory, offset, size, flags, out);
  const std::lock_guard lock(fickle().mutex);
  const uint64_t bytes = size == VK_WHOLE_SIZE ? fickle().sizes[memory] - offset : size;
  if (r == VK_SUCCESS) fickle().mapped[memory] = {static_cast<std::byte*>(*out), bytes};
  return r;
}

VKAPI_ATTR void VKAPI_CALL free_noting(VkDevice device, VkDeviceMemory memory,
                                       const VkAllocationCallbacks* callbacks) {
  const std::lock_guard lock(fickle().mutex);
  fickle().mapped.erase(memory);
  fickle().free(device, memory, callbacks);
}

VKAPI_ATTR VkResult VKAPI_CALL wait_and_change(VkDevice device, uint32_t n, const VkFence* fences,
                                               VkBool32 all, uint64_t ns) {
  const VkResult r = fickle().wait(device, n, fences, all, ns);
  const std::lock_guard lock(fickle().mutex);
  if (!fickle().on || ++fickle().waits % 2 != 0) return r;
  for (const auto& [memory, bytes] : fickle().mapped) {
    for (size_t at = 0; at + 4 <= bytes.size(); at += 4) {
      if (std::memcmp(&bytes[at], &kRight, 4) == 0) std::memcpy(&bytes[at], &kWrong, 4);
    }
  }
  return r;
}

class FickleDevice : public testing::Test {
 protected:
  void SetUp() override {
    const auto first = open_device("vulkan");
    ASSERT_TRUE(first.ok()) << first.status().message();
    auto device = vulkan::open(std::stoul(first->info.id.substr(7)), {}, [](VolkDeviceTable& t) {
      Fickle& f = fickle();
      f.map = t.vkMapMemory;
      f.wait = t.vkWaitForFences;
      f.allocate = t.vkAllocateMemory;
      f.free = t.vkFreeMemory;
      t.vkFreeMemory = free_noting;
      t.vkMapMemory = map_noting;
      t.vkWaitForFences = wait_and_change;
      t.vkAllocateMemory = allocate_noting;
    });
    ASSERT_TRUE(device.ok()) << device.status().message();
    device_.device = std::move(*device);
    device_.info = device_.device->info();
    OnnxWriter w;
    w.input("x", DType::F32, {4}).output("y", DType::F32, {4}).node("Add", {"x", "x"}, {"y"});
    write_file(dir_ / "model.onnx", w.bytes());
    fs::create_directories(dir_ / "test_data_set_0");
    const HostTensor x = HostTensor::from<float>(DType::F32, {4}, {1, 2, kInput, 4});
    const HostTensor y = HostTensor::from<float>(DType::F32, {4}, {2, 4, kRight, 8});
    write_file(dir_.path() / "test_data_set_0/input_0.pb", onnx_tensor(x, "x"));
    write_file(dir_.path() / "test_data_set_0/output_0.pb", onnx_tensor(y, "y"));
    inputs_ = {{"x"}, {x}, {}};
  }
  void TearDown() override {
    device_.device.reset();
    Fickle& f = fickle();
    f.on = false;
    f.waits = 0;
    f.mapped.clear();
    f.sizes.clear();
  }

  app::CommonOptions common() const {
    app::CommonOptions o;
    o.device = device_.info.id;
    return o;
  }

  TempDir dir_;
  OpenedDevice device_;
  app::InputSet inputs_;
};

TEST_F(FickleDevice, ConformanceFails) {
  EXPECT_EQ(
      app::run_case(dir_.path().parent_path(), dir_.path().filename(), device_, common()).status,
      "pass");
  fickle().on = true;
  const app::CaseResult r =
      app::run_case(dir_.path().parent_path(), dir_.path().filename(), device_, common());
  EXPECT_EQ(r.status, "fail");
  EXPECT_NE(r.reason.find("differs between runs: element 2 is "), std::string::npos) << r.reason;
}

TEST_F(FickleDevice, ReplaysAreCounted) {
  auto model = app::load_for(dir_ / "model.onnx", common(), device_);
  ASSERT_TRUE(model.ok()) << model.status().message();
  auto session = app::make_session(*model, device_, common());
  ASSERT_TRUE(session.ok()) << session.status().message();
  auto first = (*session)->run(inputs_.bindings());
  ASSERT_TRUE(first.ok()) << first.status().message();
  auto steady = app::replay(**session, inputs_, 6, *first);
  ASSERT_TRUE(steady.ok()) << steady.status().message();
  EXPECT_EQ((*steady)[0].differing, 0);
  fickle().on = true;
  auto replays = app::replay(**session, inputs_, 9, *first);
  ASSERT_TRUE(replays.ok()) << replays.status().message();
  EXPECT_EQ((*replays)[0].differing, 4);
  EXPECT_NE((*replays)[0].difference.find("element 2 is 42.2750015 (0x4229199a) and 43.2750015"),
            std::string::npos)
      << (*replays)[0].difference;
  EXPECT_NE((*replays)[0].difference.find(" in runs 1 and 3"), std::string::npos)
      << (*replays)[0].difference;
}

}  // namespace
}  // namespace reprise::test
