// Hand-made plans for tests of the Vulkan backend and of sessions on it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "backends/registry.h"
#include "backends/vulkan/vulkan.h"
#include "codegen/emit/spirv/spirv.h"
#include "codegen/kernel/builder.h"
#include "runtime/plan/bind.h"
#include "runtime/session.h"

namespace reprise::test {

inline HostTensor floats(std::vector<int64_t> dims, const std::vector<float>& v) {
  return HostTensor::from(DType::F32, std::move(dims), v);
}
inline HostTensor ints(std::vector<int64_t> dims, const std::vector<int32_t>& v) {
  return HostTensor::from(DType::I32, std::move(dims), v);
}
inline std::vector<float> values(const HostTensor& t) {
  return {t.data<float>(), t.data<float>() + t.count()};
}
inline std::vector<float> ramp(size_t n, float scale = 1.0F) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = scale * static_cast<float>(i % 1000);
  return v;
}

/// KernelCode of a kernel: what the compiler's plan builder does.
plan::KernelCode code_of(const kernel::Kernel& kernel);
/// y[i] = x[i] * factor + addend for i < n; buffers x, y; scalar n.
plan::KernelCode affine_kernel(const std::string& name, float factor, float addend);
/// y[i] = data[index[i]] for i < n; buffers data, index, y; scalars n, size. Sets IndexOutOfRange.
plan::KernelCode gather_kernel();

/// Writes plans one buffer and one step at a time.
struct PlanWriter {
  plan::Interface io;
  plan::Plan plan;
  std::vector<HostTensor> weights;

  Expr symbol(const std::string& name, size_t input, int32_t axis, int64_t min = 0,
              int64_t max = (int64_t{1} << 31) - 1);
  plan::BufferId input(const std::string& name, DType dtype, Shape shape);
  plan::BufferId output(const std::string& name, DType dtype, Shape shape);
  plan::BufferId arena(const std::string& name, DType dtype, Shape shape);
  plan::BufferId weight(const std::string& name, HostTensor value);
  uint32_t kernel(plan::KernelCode code);
  /// The last buffer is written; n is the first scalar, and there are ceil(n / 64) workgroups.
  void launch(uint32_t kernel, std::vector<plan::BufferId> buffers, std::vector<Expr> scalars,
              const std::string& node = "node");
  void host(const std::string& op, std::vector<plan::BufferId> inputs,
            std::vector<plan::BufferId> outputs, AttrMap attrs = {});
  std::shared_ptr<const package::Package> package();
};

/// y = affine applied `launches` times to x [n]; static n unless `dynamic`.
std::shared_ptr<const package::Package> chain(size_t launches, int64_t n, bool dynamic);

/// A test that runs once per usable Vulkan device, with validation where the environment variable
/// REPRISE_TEST_VALIDATION asks for it; any message fails it.
class OnDevice : public testing::TestWithParam<std::string> {
 protected:
  std::shared_ptr<Device> open(const vulkan::TableHook& hook = {}, BackendOptions options = {});
  std::unique_ptr<Session> session(std::shared_ptr<const package::Package> package,
                                   std::shared_ptr<Device> device,
                                   const SessionOptions& options = {});
  std::vector<std::string> messages();
  void TearDown() override;
  bool expect_messages_ = false;
  vulkan::DriverHook driver_hook_;

 private:
  std::mutex mutex_;
  std::vector<std::string> messages_;
};

/// Ids of the usable Vulkan devices.
std::vector<std::string> device_ids();
std::string id_as_name(const testing::TestParamInfo<std::string>& info);

#define REPRISE_ON_DEVICES(suite)                                                            \
  INSTANTIATE_TEST_SUITE_P(Devices, suite, testing::ValuesIn(::reprise::test::device_ids()), \
                           ::reprise::test::id_as_name)

}  // namespace reprise::test

#define ASSERT_OK(expr)                                   \
  do {                                                    \
    const ::reprise::Status ok_status_ = (expr);          \
    ASSERT_TRUE(ok_status_.ok()) << ok_status_.message(); \
  } while (0)
