// Every scalar row, native or expanded, on every executor, against codegen/kernel/scalar_eval.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/emit/cuda/cuda.h"
#include "tests/emit/agreement.h"
#include "tests/emit/mutate.h"
#include "tests/emit/row_kernels.h"
#include "tests/emit/spirv_tools.h"

namespace reprise::test {
namespace {

bool supported(const VulkanRunner& device, const RowKernel& k) {
  return device.supports(kernel::requirements(k.kernel));
}

TEST(Rows, TableIsCovered) {
  ASSERT_GT(native_row_kernels().size(), 80U);
  for (const auto* kernels :
       {&native_row_kernels(), &expanded_row_kernels(), &exact_row_kernels()}) {
    for (const RowKernel& k : *kernels) {
      EXPECT_FALSE(k.kernel.insts.empty()) << "row " << kernel::row(k.op).name;
      EXPECT_GE(k.count, 64U);
    }
  }
}

void expect_vulkan_agrees(const std::vector<RowKernel>& kernels) {
  const auto devices = vulkan_runners();
  ASSERT_TRUE(devices.ok()) << devices.status().message();
  ASSERT_FALSE(devices->empty()) << "no Vulkan device";
  for (const RowKernel& k : kernels) {
    const auto words = emit_valid(k.kernel);
    ASSERT_TRUE(words.ok()) << words.status().message();
    for (VulkanRunner* device : *devices) {
      if (!supported(*device, k)) continue;
      Launch got = k.launch;
      const Status s = device->run(*words, got);
      ASSERT_TRUE(s.ok()) << k.kernel.name << ": " << s.message();
      EXPECT_EQ(wrong_element(k, got), "") << device->facts().name;
    }
  }
}

void expect_cuda_agrees(const std::vector<RowKernel>& kernels) {
  CudaBatch batch;
  for (const RowKernel& k : kernels) {
    const auto index = batch.add(k.kernel);
    ASSERT_TRUE(index.ok()) << index.status().message();
  }
  const Status built = batch.build();
  ASSERT_TRUE(built.ok()) << built.message();
  for (size_t n = 0; n < kernels.size(); ++n) {
    Launch got = kernels[n].launch;
    const Status s = batch.run(n, got);
    ASSERT_TRUE(s.ok()) << s.message();
    EXPECT_EQ(wrong_element(kernels[n], got), "");
  }
}

TEST(Rows, NativeOnVulkan) {
  expect_vulkan_agrees(native_row_kernels());
}

TEST(Rows, NativeAsCudaText) {
  expect_cuda_agrees(native_row_kernels());
}

TEST(Rows, ExpandedOnVulkan) {
  expect_vulkan_agrees(expanded_row_kernels());
}

TEST(Rows, ExpandedAsCudaText) {
  expect_cuda_agrees(expanded_row_kernels());
}

TEST(Rows, ExactAsCudaText) {
  expect_cuda_agrees(exact_row_kernels());
}

TEST(Rows, MutatedSpirvIsNoticed) {
  const auto devices = vulkan_runners();
  ASSERT_TRUE(devices.ok()) << devices.status().message();
  for (const RowKernel& k : native_row_kernels()) {
    auto words = emit_valid(k.kernel);
    ASSERT_TRUE(words.ok()) << words.status().message();
    ASSERT_TRUE(mutate_spirv(*words)) << "no operator to change in " << k.kernel.name;
    const auto device = std::find_if(devices->begin(), devices->end(),
                                     [&](const VulkanRunner* d) { return supported(*d, k); });
    ASSERT_NE(device, devices->end()) << k.kernel.name;
    Launch got = k.launch;
    const Status s = (*device)->run(*words, got);
    ASSERT_TRUE(s.ok()) << k.kernel.name << ": " << s.message() << disassemble(*words);
    EXPECT_NE(wrong_element(k, got), "") << k.kernel.name << ": " << disassemble(*words);
  }
}

TEST(Rows, MutatedCudaTextIsNoticed) {
  CudaBatch batch;
  for (const RowKernel& k : native_row_kernels()) {
    const auto index = batch.add(k.kernel, [&](std::string& text) {
      EXPECT_TRUE(mutate_cuda(text, k.value)) << "no operator to change in " << text;
    });
    ASSERT_TRUE(index.ok()) << index.status().message();
  }
  const Status built = batch.build();
  ASSERT_TRUE(built.ok()) << built.message();
  for (size_t n = 0; n < native_row_kernels().size(); ++n) {
    const RowKernel& k = native_row_kernels()[n];
    Launch got = k.launch;
    const Status s = batch.run(n, got);
    ASSERT_TRUE(s.ok()) << s.message();
    EXPECT_NE(wrong_element(k, got), "") << k.kernel.name;
  }
}

}  // namespace
}  // namespace reprise::test
