// Tensors of sessions on the host in memory of the application (reprise_allocator::allocate_host).
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "capi/api.h"
#include "contract.h"
#include "reprise/reprise.h"

namespace reprise::test {
namespace {

/// The application's memory on the host.
class ImportedMemory {
 public:
  reprise_allocator callbacks() {
    reprise_allocator a = REPRISE_ALLOCATOR_INIT;
    a.allocate_host = [](void* user, size_t bytes, size_t alignment) {
      return static_cast<ImportedMemory*>(user)->allocate(bytes, alignment);
    };
    a.release_host = [](void* user, void* memory, size_t bytes) {
      static_cast<ImportedMemory*>(user)->release(memory, bytes);
    };
    a.user = this;
    return a;
  }
  bool has(const void* memory) const { return live_.contains(const_cast<void*>(memory)); }
  size_t live() const { return live_.size(); }
  size_t allocated = 0;
  int64_t succeed = -1;  // so many allocations; -1: all

 private:
  void* allocate(size_t bytes, size_t alignment) {
    EXPECT_GT(bytes, 0U);
    EXPECT_EQ(alignment & (alignment - 1), 0U);
    const std::lock_guard lock(mutex_);
    if (succeed == 0) return nullptr;
    if (succeed > 0) --succeed;
    void* const memory =
        std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    std::memset(memory, 0xFF, bytes);  // NaN: tensors are zeroed by the library
    live_[memory] = bytes;
    ++allocated;
    return memory;
  }
  void release(void* memory, size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto known = live_.find(memory);
    ASSERT_NE(known, live_.end());
    EXPECT_EQ(known->second, bytes);
    live_.erase(known);
    std::memset(memory, 0xFF, bytes);  // nothing reads it any more
    std::free(memory);
  }

  std::mutex mutex_;
  std::map<void*, size_t> live_;
};

template <typename T>
struct ImportedFreer {
  void operator()(T* handle) const { capi::free_handle(handle); }
};
template <typename T>
using ImportedHandle = std::unique_ptr<T, ImportedFreer<T>>;

constexpr int64_t kRows = 7, kColumns = 10;

/// y = relu(x + 1) + 1, with the relu on the host.
std::shared_ptr<const package::Package> with_host_kernel() {
  PlanWriter w;
  const Shape shape{kRows, kColumns};
  const auto x = w.input("x", DType::F32, shape), a = w.arena("a", DType::F32, shape);
  const auto b = w.arena("b", DType::F32, shape), y = w.output("y", DType::F32, shape);
  const uint32_t add = w.kernel(affine_kernel("add", 1, 1));
  w.launch(add, {x, a}, {kRows * kColumns});
  w.host("Relu", {a}, {b});
  w.launch(add, {b, y}, {kRows * kColumns});
  return w.package();
}

class HostMemoryContract : public Contract {
 protected:
  void SetUp() override {
    Contract::SetUp();
    package_.reset(capi::make_handle(std::make_shared<reprise_package>(with_host_kernel())));
    x_ = ramp(kRows * kColumns);
  }
  ImportedHandle<reprise_device> open_with(const reprise_allocator& allocator) {
    reprise_device_options options = REPRISE_DEVICE_OPTIONS_INIT;
    options.allocator = &allocator;
    reprise_device* device = nullptr;
    reprise_device_open(GetParam().c_str(), &options, &device, &error_);
    return ImportedHandle<reprise_device>(device);
  }
  reprise_tensor input() {
    reprise_tensor in = REPRISE_TENSOR_INIT;
    in.name = "x";
    in.rank = 2;
    in.dims[0] = kRows;
    in.dims[1] = kColumns;
    in.data = x_.data();
    in.bytes = x_.size() * sizeof(float);
    return in;
  }
  /// A run that blocks, into rows of the caller, and one that does not and whose output is in
  /// `results_`; the first error.
  reprise_status live(reprise_device* device) {
    reprise_session* made = nullptr;
    if (reprise_session_create(package_.get(), device, nullptr, &made, &error_) != REPRISE_OK)
      return error_.status;
    const ImportedHandle<reprise_session> session(made);
    const reprise_tensor in = input();
    constexpr size_t kPitch = kColumns + 3;
    std::vector<float> y(kRows * kPitch, -1);
    reprise_tensor out = REPRISE_TENSOR_INIT;
    out.name = "y";
    out.data = y.data();
    out.bytes = y.size() * sizeof(float);
    out.row_pitch = kPitch * sizeof(float);
    if (reprise_session_run(made, &in, 1, &out, 1, nullptr, nullptr, &error_) != REPRISE_OK)
      return error_.status;
    EXPECT_EQ(y[kPitch + 1], x_[kColumns + 1] + 2);
    reprise_run* run_made = nullptr;
    if (reprise_run_create(made, &run_made, &error_) != REPRISE_OK) return error_.status;
    const ImportedHandle<reprise_run> run(run_made);
    reprise_results* results = nullptr;
    if (reprise_run_bind(run_made, &in, 1, nullptr, 0, &error_) == REPRISE_OK &&
        reprise_run_submit(run_made, nullptr, &error_) == REPRISE_OK)
      reprise_run_wait(run_made, &results, nullptr, &error_);
    results_.reset(results);
    return error_.status;
  }
  /// The output that the last run left.
  const float* result() {
    reprise_tensor out = REPRISE_TENSOR_INIT;
    EXPECT_EQ(reprise_results_get(results_.get(), 0, &out, &error_), REPRISE_OK);
    return static_cast<const float*>(out.data);
  }
  ImportedHandle<reprise_package> package_;
  ImportedHandle<reprise_results> results_;
  std::vector<float> x_;
  reprise_error error_{};
};

TEST_P(HostMemoryContract, TensorsAreTheApplicationsAndAreGivenBack) {
  ImportedMemory memory;
  {
    const auto device = open_with(memory.callbacks());
    ASSERT_TRUE(device) << error_.message;
    EXPECT_EQ(live(device.get()), REPRISE_OK) << error_.message;
  }
  // The results outlive the device and the session.
  EXPECT_EQ(memory.live(), 1U);
  EXPECT_GT(memory.allocated, 4U);
  EXPECT_TRUE(memory.has(result()));
  for (size_t i = 0; i < x_.size(); ++i) ASSERT_EQ(result()[i], x_[i] + 2);
  results_.reset();
  EXPECT_EQ(memory.live(), 0U);
}

TEST_P(HostMemoryContract, WithoutMemoryCallsFailAndNothingIsLost) {
  reprise_status status = REPRISE_OUT_OF_MEMORY;
  for (int64_t n = 0; status != REPRISE_OK; ++n) {
    SCOPED_TRACE(n);
    ImportedMemory memory;
    {
      const auto device = open_with(memory.callbacks());
      ASSERT_TRUE(device) << error_.message;
      memory.succeed = n;
      status = live(device.get());
      if (status != REPRISE_OK) {
        EXPECT_EQ(status, REPRISE_OUT_OF_MEMORY) << error_.message;
        EXPECT_FALSE(results_);
      }
      memory.succeed = -1;
      EXPECT_EQ(live(device.get()), REPRISE_OK) << error_.message;
    }
    results_.reset();
    EXPECT_EQ(memory.live(), 0U);
    ASSERT_LT(n, 100);
  }
}

TEST_P(HostMemoryContract, OtherDevicesUseTheHeap) {
  ImportedMemory memory;
  const auto device = open_with(memory.callbacks());
  ASSERT_TRUE(device) << error_.message;
  reprise_device* plain = nullptr;
  ASSERT_EQ(reprise_device_open(GetParam().c_str(), nullptr, &plain, &error_), REPRISE_OK);
  const ImportedHandle<reprise_device> other(plain);
  EXPECT_EQ(live(device.get()), REPRISE_OK) << error_.message;
  const size_t before = memory.allocated;
  EXPECT_EQ(live(plain), REPRISE_OK) << error_.message;
  EXPECT_EQ(memory.allocated, before);
  EXPECT_FALSE(memory.has(result()));
}

TEST_P(HostMemoryContract, HalfAPairOfFunctionsIsRefused) {
  ImportedMemory memory;
  reprise_allocator allocator = memory.callbacks();
  allocator.release_host = nullptr;
  EXPECT_FALSE(open_with(allocator));
  EXPECT_EQ(error_.status, REPRISE_USAGE) << error_.message;
  allocator.allocate_host = nullptr;
  EXPECT_FALSE(open_with(allocator));
  EXPECT_EQ(error_.status, REPRISE_USAGE) << error_.message;
  // A program that was compiled before there was host memory says nothing about it.
  allocator = memory.callbacks();
  allocator.struct_size = offsetof(reprise_allocator, allocate_host);
  EXPECT_FALSE(open_with(allocator));
  EXPECT_EQ(error_.status, REPRISE_USAGE) << error_.message;
}

REPRISE_ON_ALL_DEVICES(HostMemoryContract);

}  // namespace
}  // namespace reprise::test
