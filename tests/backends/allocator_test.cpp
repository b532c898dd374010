// Devices whose memory the application allocates (reprise_allocator).
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "capi/api.h"
#include "contract.h"
#include "lend.h"
#include "reprise/reprise.h"

namespace reprise::test {
namespace {

/// The application's allocator as the C interface takes it.
class Memory {
 public:
  explicit Memory(const Lender& lender) : lender_(lender) {}
  reprise_allocator callbacks() {
    reprise_allocator a = REPRISE_ALLOCATOR_INIT;
    a.allocate = [](void* user, reprise_memory* memory) {
      return static_cast<Memory*>(user)->allocate(*memory) ? 1 : 0;
    };
    a.release = [](void* user, const reprise_memory* memory) {
      static_cast<Memory*>(user)->release(*memory);
    };
    a.user = this;
    return a;
  }
  size_t live() const { return live_.size(); }
  std::set<reprise_memory_use> uses;
  uint64_t allocated = 0;
  int64_t succeed = -1;  // so many allocations; -1: all

 private:
  static LentMemory from_c(const reprise_memory& m) {
    LentMemory out;
    out.bytes = m.bytes;
    out.alignment = m.alignment;
    out.use = m.use == REPRISE_MEMORY_DEVICE   ? MemoryUse::Device
              : m.use == REPRISE_MEMORY_UPLOAD ? MemoryUse::Upload
                                               : MemoryUse::Readback;
    out.type = m.memory_type;
    out.handle = m.handle;
    out.mapped = m.mapped;
    return out;
  }
  bool allocate(reprise_memory& m) {
    EXPECT_EQ(m.struct_size, sizeof(m));
    EXPECT_GT(m.bytes, 0U);
    EXPECT_EQ(m.alignment & (m.alignment - 1), 0U);
    if (succeed == 0) return false;
    if (succeed > 0) --succeed;
    LentMemory got = from_c(m);
    if (!lender_.allocate(got)) return false;
    m.handle = got.handle;
    m.offset = got.offset;
    m.mapped = got.mapped;
    m.data = reinterpret_cast<void*>(++allocated);
    uses.insert(m.use);
    live_[m.data] = m;
    return true;
  }
  void release(const reprise_memory& m) {
    const auto known = live_.find(m.data);
    ASSERT_NE(known, live_.end());
    EXPECT_EQ(known->second.handle, m.handle);
    EXPECT_EQ(known->second.bytes, m.bytes);
    EXPECT_EQ(known->second.mapped, m.mapped);
    live_.erase(known);
    lender_.release(from_c(m));
  }

  const Lender& lender_;
  std::map<void*, reprise_memory> live_;
};

template <typename T>
struct Freer {
  void operator()(T* handle) const { capi::free_handle(handle); }
};
template <typename T>
using Handle = std::unique_ptr<T, Freer<T>>;

class AllocatorContract : public Contract {
 protected:
  void SetUp() override {
    Contract::SetUp();
    if (on_host()) GTEST_SKIP() << "the host allocates nothing of a device";
    vulkan_ = GetParam().starts_with("vulkan");
    const size_t index = std::stoul(GetParam().substr(GetParam().find(':') + 1));
    lender_ = vulkan_ ? lend_vulkan(index) : lend_cuda(index);
    package_.reset(capi::make_handle(std::make_shared<reprise_package>(chain(2, 0, true))));
  }
  /// `allocator` may be null.
  Handle<reprise_device> open_lent(const reprise_allocator* allocator) {
    reprise_device_options options = REPRISE_DEVICE_OPTIONS_INIT;
    reprise_vulkan_device vulkan = REPRISE_VULKAN_DEVICE_INIT;
    reprise_cuda_device cuda = REPRISE_CUDA_DEVICE_INIT;
    options.allocator = allocator;
    const BackendOptions& lent = lender_.options;
    vulkan.instance = lent.vulkan.instance;
    vulkan.physical_device = lent.vulkan.physical_device;
    vulkan.device = lent.vulkan.device;
    vulkan.queue = lent.vulkan.queue;
    vulkan.queue_family = lent.vulkan.queue_family;
    cuda.context = lent.cuda.context;
    cuda.stream = lent.cuda.stream;
    if (vulkan_) options.vulkan = &vulkan;
    if (!vulkan_) options.cuda = &cuda;
    reprise_device* device = nullptr;
    reprise_device_open(vulkan_ ? "vulkan" : "cuda", &options, &device, &error_);
    return Handle<reprise_device>(device);
  }
  /// A session, runs of two sizes that block and one that does not, and a buffer; the first error.
  reprise_status live(reprise_device* device) {
    reprise_session* made = nullptr;
    if (reprise_session_create(package_.get(), device, nullptr, &made, &error_) != REPRISE_OK)
      return error_.status;
    const Handle<reprise_session> session(made);
    for (const int64_t n : {10, 5000}) {
      std::vector<float> x = ramp(static_cast<size_t>(n)), y(x.size(), -1);
      reprise_tensor in = REPRISE_TENSOR_INIT, out = REPRISE_TENSOR_INIT;
      in.name = "x";
      in.rank = 1;
      in.dims[0] = n;
      in.data = x.data();
      out.name = "y";
      out.data = y.data();
      in.bytes = out.bytes = x.size() * sizeof(float);
      if (reprise_session_run(made, &in, 1, &out, 1, nullptr, nullptr, &error_) != REPRISE_OK)
        return error_.status;
      EXPECT_EQ(y.back(), x.back() + 2);
      reprise_run* run_made = nullptr;
      if (reprise_run_create(made, &run_made, &error_) != REPRISE_OK) return error_.status;
      const Handle<reprise_run> run(run_made);
      y.assign(y.size(), -1);
      if (reprise_run_bind(run_made, &in, 1, &out, 1, &error_) != REPRISE_OK ||
          reprise_run_submit(run_made, nullptr, &error_) != REPRISE_OK ||
          reprise_run_wait(run_made, nullptr, nullptr, &error_) != REPRISE_OK)
        return error_.status;
      EXPECT_EQ(y.back(), x.back() + 2);
    }
    reprise_buffer* buffer = nullptr;
    reprise_buffer_create(device, 1 << 16, &buffer, &error_);
    const Handle<reprise_buffer> freed(buffer);
    if (buffer) {
      const std::vector<char> bytes(1 << 16, 7);
      reprise_buffer_write(buffer, 0, bytes.data(), bytes.size(), &error_);
    }
    return error_.status;
  }
  bool vulkan_ = false;
  Lender lender_;
  Handle<reprise_package> package_;
  reprise_error error_{};
};

TEST_P(AllocatorContract, AllMemoryIsTheApplicationsAndIsGivenBack) {
  Memory memory(lender_);
  const reprise_allocator allocator = memory.callbacks();
  {
    const auto device = open_lent(&allocator);
    ASSERT_TRUE(device) << error_.message;
    EXPECT_EQ(live(device.get()), REPRISE_OK) << error_.message;
    const Counters counters = (*capi::find_handle(device.get()))->device->counters();
    EXPECT_EQ(counters.allocations, memory.allocated);
    EXPECT_EQ(reprise_device_trim(device.get(), &error_), REPRISE_OK);
  }
  EXPECT_GT(memory.allocated, 4U);
  EXPECT_EQ(memory.live(), 0U);
  EXPECT_TRUE(memory.uses.contains(REPRISE_MEMORY_DEVICE));
  EXPECT_TRUE(memory.uses.contains(REPRISE_MEMORY_UPLOAD));
  EXPECT_TRUE(memory.uses.contains(REPRISE_MEMORY_READBACK));
}

TEST_P(AllocatorContract, WithoutMemoryCallsFailAndNothingIsLost) {
  reprise_status status = REPRISE_OUT_OF_MEMORY;
  for (int64_t n = 0; status != REPRISE_OK; ++n) {
    SCOPED_TRACE(n);
    Memory memory(lender_);
    const reprise_allocator allocator = memory.callbacks();
    {
      const auto device = open_lent(&allocator);
      ASSERT_TRUE(device) << error_.message;
      memory.succeed = n;
      status = live(device.get());
      if (status != REPRISE_OK) {
        EXPECT_EQ(status, REPRISE_OUT_OF_MEMORY) << error_.message;
        EXPECT_NE(std::string(error_.message).find("reprise_allocator"), std::string::npos)
            << error_.message;
      }
      memory.succeed = -1;
      EXPECT_EQ(live(device.get()), REPRISE_OK) << error_.message;
    }
    EXPECT_EQ(memory.live(), 0U);
    ASSERT_LT(n, 200);
  }
}

TEST_P(AllocatorContract, WrongMemoryAndMissingFunctionsAreRefused) {
  Memory memory(lender_);
  reprise_allocator allocator = memory.callbacks();
  allocator.allocate = [](void*, reprise_memory*) { return 1; };
  allocator.release = [](void*, const reprise_memory*) {};
  {
    const auto device = open_lent(&allocator);
    ASSERT_TRUE(device) << error_.message;
    EXPECT_EQ(live(device.get()), REPRISE_USAGE) << error_.message;
  }
  allocator.release = nullptr;
  EXPECT_FALSE(open_lent(&allocator));
  EXPECT_EQ(error_.status, REPRISE_USAGE);
  // An application that lends no device could not allocate memory of one.
  allocator = memory.callbacks();
  reprise_device_options options = REPRISE_DEVICE_OPTIONS_INIT;
  options.allocator = &allocator;
  reprise_device* own = nullptr;
  if (!vulkan_) return;
  EXPECT_EQ(reprise_device_open(GetParam().c_str(), &options, &own, &error_), REPRISE_USAGE);
}

REPRISE_ON_ALL_DEVICES(AllocatorContract);

}  // namespace
}  // namespace reprise::test
