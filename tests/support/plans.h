// Hand-made plans for tests of backends and of sessions on them: the same model for the host, for
// Vulkan and for CUDA.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "codegen/kernel/build/builder.h"
#include "runtime/package/package.h"
#include "runtime/plan/bind.h"

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

/// A kernel, and what it means to the host.
struct TestKernel : plan::KernelCode {
  enum class Meaning : uint8_t { None, Affine, Gather } meaning = Meaning::None;
  float factor = 1, addend = 0;
};

/// Whether Vulkan's kernels take descriptors: at first if the layer of tests/probes hides buffer
/// addresses.
bool& descriptor_kernels();
/// KernelCode of a kernel for every backend: what the compiler's plan builder does, but that the
/// CUDA image is an empty PTX, whose text is behind it.
plan::KernelCode code_of(const kernel::Kernel& kernel);
/// y[i] = x[i] * factor + addend for i < n; buffers x, y; scalar n.
TestKernel affine_kernel(const std::string& name, float factor, float addend);
/// y[i] = data[index[i]] for i < n; buffers data, index, y; scalars n, size. Sets IndexOutOfRange.
TestKernel gather_kernel();
/// z[i] = x[i] + y[i] for i < n; buffers x, y, z; scalar n. Unknown to the host.
plan::KernelCode sum_kernel();

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
  uint32_t kernel(TestKernel kernel);
  /// The last buffer is written; n is the first scalar, and there are ceil(n / 64) workgroups.
  void launch(uint32_t kernel, std::vector<plan::BufferId> buffers, std::vector<Expr> scalars,
              const std::string& node = "node");
  void host(const std::string& op, std::vector<plan::BufferId> inputs,
            std::vector<plan::BufferId> outputs, AttrMap attrs = {});
  /// With a variant for each backend, and a host plan where the host knows every kernel.
  std::shared_ptr<const package::Package> package();

 private:
  bool host_plan(package::Package& package) const;
  std::vector<TestKernel> meanings_;  // per kernel
};

/// y = affine applied `launches` times to x [n]; static n unless `dynamic`.
std::shared_ptr<const package::Package> chain(size_t launches, int64_t n, bool dynamic,
                                              const std::string& y = "y");

/// "vulkan_0" of vulkan:0.
std::string id_as_name(const testing::TestParamInfo<std::string>& info);

}  // namespace reprise::test

#define ASSERT_OK(expr)                                   \
  do {                                                    \
    const ::reprise::Status ok_status_ = (expr);          \
    ASSERT_TRUE(ok_status_.ok()) << ok_status_.message(); \
  } while (0)
