// Buffers in memory that another VkDevice exported as a file descriptor.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "backends/vulkan/facts.h"
#include "support.h"
#include "tests/support/process.h"

namespace reprise::test {
namespace {

constexpr uint64_t kExternalBytes = 64 << 10;

/// Another program: a device that exports memory which the host sees as well.
class Exporter {
 public:
  explicit Exporter(size_t index) {
    instance_ = *vulkan::Instance::create(false, {});
    physical_ =
        vulkan::PhysicalDevice::query(*instance_, (*instance_->physical_devices())[index], index);
    const float priority = 1;
    VkDeviceQueueCreateInfo queue{};
    queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue.queueFamilyIndex = physical_.queues.compute;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    const char* extension = VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME;
    VkDeviceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    info.enabledExtensionCount = 1;
    info.ppEnabledExtensionNames = &extension;
    EXPECT_EQ(instance_->fn().create_device(physical_.handle, &info, nullptr, &device_),
              VK_SUCCESS);
    instance_->load_device_table(device_, vk_);
    allocate();
    VkMemoryGetFdInfoKHR get{};
    get.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR;
    get.memory = memory_;
    get.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
    EXPECT_EQ(vk_.vkGetMemoryFdKHR(device_, &get, &descriptor_), VK_SUCCESS);
  }
  ~Exporter() {
    close_descriptor();
    vk_.vkFreeMemory(device_, memory_, nullptr);
    vk_.vkDestroyDevice(device_, nullptr);
  }

  ExternalMemory memory() const {
    ExternalMemory m;
    m.handle = static_cast<uint64_t>(descriptor_);
    m.allocation = kExternalBytes;
    m.bytes = kExternalBytes;
    m.memory_type = type_;
    return m;
  }
  float* floats() const { return static_cast<float*>(mapped_); }
  void close_descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

 private:
  void allocate() {
    VkPhysicalDeviceMemoryProperties types{};
    instance_->fn().memory_properties(physical_.handle, &types);
    constexpr VkMemoryPropertyFlags kMapped =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    while (type_ < types.memoryTypeCount &&
           (types.memoryTypes[type_].propertyFlags & kMapped) != kMapped)
      ++type_;
    VkExportMemoryAllocateInfo exported{};
    exported.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO;
    exported.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
    VkMemoryAllocateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    info.pNext = &exported;
    info.allocationSize = kExternalBytes;
    info.memoryTypeIndex = type_;
    EXPECT_EQ(vk_.vkAllocateMemory(device_, &info, nullptr, &memory_), VK_SUCCESS);
    EXPECT_EQ(vk_.vkMapMemory(device_, memory_, 0, VK_WHOLE_SIZE, 0, &mapped_), VK_SUCCESS);
  }

  std::shared_ptr<vulkan::Instance> instance_;
  vulkan::PhysicalDevice physical_;
  VkDevice device_ = VK_NULL_HANDLE;
  VolkDeviceTable vk_{};
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  void* mapped_ = nullptr;
  uint32_t type_ = 0;
  int descriptor_ = -1;
};

class ExternalMemoryOnVulkan : public OnDevice {
 protected:
  static size_t index() { return std::stoul(GetParam().substr(GetParam().find(':') + 1)); }
};

TEST_P(ExternalMemoryOnVulkan, RunsUseItInPlace) {
  auto device = open();
  Exporter other(index());
  ExternalMemory in = other.memory(), out = other.memory();
  in.bytes = out.bytes = 4096;
  out.offset = 32 << 10;
  auto x = device->import(in);
  ASSERT_OK(x.status());
  auto y = device->import(out);
  ASSERT_OK(y.status());
  other.close_descriptor();  // the caller's own
  auto s = session(chain(2, 100, false), device);
  ASSERT_TRUE(s);
  for (const float start : {1.0F, 7.0F}) {
    for (size_t i = 0; i < 100; ++i) other.floats()[i] = start + static_cast<float>(i);
    RunStats stats;
    ASSERT_OK(s->run({{{.name = "x", .device = x->get(), .dims = {100}}}},
                     {{{.name = "y", .device = y->get()}}}, &stats)
                  .status());
    EXPECT_EQ(stats.bytes_copied, 0U);
    for (size_t i = 0; i < 100; ++i)
      ASSERT_EQ(other.floats()[(out.offset / 4) + i], start + static_cast<float>(i) + 2);
  }
  // Transfers reach the same bytes.
  std::vector<float> read(100);
  ASSERT_OK(device->download(**y, 0, std::as_writable_bytes(std::span(read))));
  EXPECT_EQ(read[99], other.floats()[(out.offset / 4) + 99]);
  ASSERT_OK(device->upload(**x, 4, std::as_bytes(std::span(read).first(1))));
  EXPECT_EQ(other.floats()[1], read[0]);
}

TEST_P(ExternalMemoryOnVulkan, AnyFittingTypeIsFoundAndNothingLeaks) {
  auto device = open();
  Exporter other(index());
  ExternalMemory m = other.memory();
  const size_t before = open_files();
  for (const bool search : {false, true, true}) {
    if (search) m.memory_type.reset();
    const auto b = device->import(m);
    ASSERT_OK(b.status());
    other.floats()[7] = 8;
    std::vector<float> read(8);
    ASSERT_OK(device->download(**b, 0, std::as_writable_bytes(std::span(read))));
    EXPECT_EQ(read[7], 8);
    other.floats()[7] = 0;
  }
  EXPECT_EQ(open_files(), before);
}

TEST_P(ExternalMemoryOnVulkan, MistakesAreNamed) {
  auto device = open();
  Exporter other(index());
  const size_t before = open_files();
  const struct {
    const char* message;
    Code code;
    std::function<void(ExternalMemory&)> mistake;
  } cases[] = {
      {"no file descriptor", Code::Usage, [](auto& m) { m.handle = ~uint64_t{0}; }},
      {"handle 9999 is no file descriptor", Code::Usage, [](auto& m) { m.handle = 9999; }},
      {"allocated for one buffer", Code::Usage,
       [](auto& m) {
         m.dedicated = true;
         m.bytes = 64;
       }},
      {"multiple of", Code::Usage,
       [](auto& m) {
         m.offset = 1;
         m.bytes = 64;
       }},
      {"has 16 from the offset on", Code::Usage,
       [](auto& m) {
         m.allocation = 16;
         m.bytes = 4096;
       }},
      {"type 31", Code::Usage, [](auto& m) { m.memory_type = 31; }},
      {"imports no NT handles", Code::Unsupported,
       [](auto& m) { m.kind = ExternalMemory::Kind::OpaqueWin32; }},
  };
  for (const auto& c : cases) {
    ExternalMemory m = other.memory();
    c.mistake(m);
    const Status s = device->import(m).status();
    EXPECT_EQ(s.code(), c.code) << s.message();
    EXPECT_NE(s.message().find(c.message), std::string::npos) << s.message();
    EXPECT_EQ(open_files(), before) << c.message;
  }
  ASSERT_OK(device->import(other.memory()).status());  // the device still works
}

REPRISE_ON_DEVICES(ExternalMemoryOnVulkan);

}  // namespace
}  // namespace reprise::test
