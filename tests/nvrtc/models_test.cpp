// The CUDA text of every acceptance model, compiled for every generation of devices.
#include <algorithm>

#include "tests/nvrtc/support.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kArchs{"cuda:sm_80", "cuda:sm_89", "cuda:sm_90", "cuda:sm_120"};

/// Kernels that a product, a convolution or attention anchors.
bool is_anchored(const std::string& kernel) {
  return kernel.find("matmul") != std::string::npos || kernel.find("conv") != std::string::npos ||
         kernel.find("attention") != std::string::npos;
}

void expect_no_spills(const package::Package& p, const std::string& model) {
  for (const package::Variant& v : p.variants) {
    for (const plan::KernelCode& k : v.plan.kernels) {
      if (!is_anchored(k.name)) continue;
      EXPECT_EQ(k.usage.spill_bytes, 0u) << model << ": " << v.name << " " << k.name << " has "
                                         << k.usage.registers << " registers";
    }
  }
}

std::vector<std::string> kernel_names(const plan::Plan& p) {
  std::vector<std::string> out;
  for (const plan::KernelCode& k : p.kernels) out.push_back(k.name);
  std::sort(out.begin(), out.end());
  return out;
}

/// No warning (each is an error), no spills in products, and the kernels of Vulkan's GPU variants.
TEST(ModelsFull, CompileForEveryArchitecture) {
  REPRISE_NEEDS_NVRTC();
  if (!knows(120)) GTEST_SKIP() << "NVRTC is older than 12.8: tools/nvrtc brings a newer one";
  if (!has_models()) GTEST_SKIP() << "the acceptance models are not at " << models_dir();
  size_t compiled = 0;
  for (const auto& entry : fs::directory_iterator(models_dir())) {
    const std::string file = entry.path() / "model.onnx";
    if (!fs::exists(file)) continue;
    CompileOptions vulkan;
    vulkan.targets = {"vulkan-int64", "vulkan-matrix"};
    const auto portable = compile_file(file, vulkan);
    if (!portable.ok()) continue;  // the importer's tests know which, and why
    const auto p = compile_file(file, cuda_options(kArchs));
    ASSERT_TRUE(p.ok()) << p.status().message();
    ASSERT_EQ(p->variants.size(), kArchs.size() + 1);
    expect_no_spills(*p, entry.path().filename());
    EXPECT_EQ(kernel_names(p->variants[0].plan), kernel_names(portable->variants[0].plan));
    ++compiled;
  }
  EXPECT_GE(compiled, 18u);
}

/// Low precision has other kernels: vectors of fp16 and bf16, matrix units.
TEST(ModelsFull, CompileInLowPrecision) {
  REPRISE_NEEDS_NVRTC();
  if (!knows(120)) GTEST_SKIP() << "NVRTC is older than 12.8: tools/nvrtc brings a newer one";
  if (!has_models()) GTEST_SKIP() << "the acceptance models are not at " << models_dir();
  for (const char* model : {"resnet18", "vit", "bert", "llama_step"}) {
    for (const DType precision : {DType::F16, DType::BF16}) {
      CompileOptions options = cuda_options({"cuda:sm_80", "cuda:sm_120"});
      options.precision = precision;
      const auto p = compile_file(models_dir() / model / "model.onnx", options);
      ASSERT_TRUE(p.ok()) << p.status().message();
      expect_no_spills(*p, std::string(model) + " " + precision_name(precision));
    }
  }
}

/// Drivers of CUDA 12 read what NVRTC 12 writes.
TEST(ModelsFull, CompileWithNvrtc12) {
  const char* named = std::getenv("REPRISE_NVRTC_12");
  const std::string path = named ? named : "libnvrtc.so.12";
  const auto library = nvrtc::Library::open(path);
  if (!library.ok()) GTEST_SKIP() << "NVRTC 12 is missing: tools/nvrtc 12 brings it";
  ASSERT_EQ((*library)->version().substr(0, 3), "12.");
  if (!has_models()) GTEST_SKIP() << "the acceptance models are not at " << models_dir();
  for (const char* model : {"bert", "espcn", "llama_step", "magika", "mobilenet_v3_small", "vit"}) {
    for (const DType precision : {DType::F32, DType::F16, DType::BF16}) {
      CompileOptions options = cuda_options({"cuda:sm_75", "cuda:sm_80", "cuda:sm_90"});
      options.nvrtc = path;
      options.precision = precision;
      CompileReport report;
      const auto p = compile_file(models_dir() / model / "model.onnx", options, &report);
      ASSERT_TRUE(p.ok()) << p.status().message();
      EXPECT_EQ(report.images.nvrtc, (*library)->version());
      expect_no_spills(*p, std::string(model) + " " + precision_name(precision));
    }
  }
}

}  // namespace
}  // namespace reprise::test
