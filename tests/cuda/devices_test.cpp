// Why CUDA is absent, and what its devices are.
#include "backends/cuda/library.h"
#include "backends/registry.h"
#include "on_standin.h"
#include "tests/support/onnx_writer.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace reprise::test {
namespace {

std::string reason_of(const std::vector<DeviceInfo>& devices) {
  EXPECT_EQ(devices.size(), 1U);
  if (devices.empty()) return "";
  EXPECT_FALSE(devices[0].usable);
  EXPECT_EQ(devices[0].facts.api, Api::Cuda);
  return devices[0].reason;
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' in: " << text;
}

TEST(CudaAbsent, NoLibrary) {
  expect_parts(reason_of(cuda::devices("libcuda-not-there.so.1")),
               {"libcuda-not-there.so.1 cannot be loaded", "install NVIDIA's driver"});
  const auto opened = cuda::open(0, {}, "libcuda-not-there.so.1");
  EXPECT_EQ(opened.status().code(), Code::Device);
}

TEST(CudaAbsent, NotADriver) {
  expect_parts(reason_of(cuda::devices("libc.so.6")), {"is not a CUDA driver"});
}

TEST(CudaAbsent, SymbolsAreMissing) {
  const auto driver = binary_dir() / "lib" / "cuda-partial" / "libreprise_partial_driver.so";
  expect_parts(reason_of(cuda::devices(driver.string())),
               {"too old or incomplete", "lacks cu", "update the NVIDIA driver"});
}

class CudaDevices : public OnStandin {};

TEST_F(CudaDevices, TooOld) {
  set("DRIVER", "11080");
  expect_parts(reason_of(cuda::devices()),
               {"too old", "CUDA 11.8", "at least 12.0", "update the NVIDIA driver"});
}

TEST_F(CudaDevices, NoDevice) {
  set("DEVICES", "0");
  expect_parts(reason_of(cuda::devices()), {"nvidia-smi", "CUDA_VISIBLE_DEVICES"});
  EXPECT_EQ(open_device("cuda").status().code(), Code::Device);
}

TEST_F(CudaDevices, EveryFailureOfInitialisationSaysWhatToDo) {
  const struct {
    int error;
    const char* advice;
  } cases[] = {{cuda::CUDA_ERROR_NO_DEVICE, "CUDA_VISIBLE_DEVICES"},
               {cuda::CUDA_ERROR_STUB_LIBRARY, "stubs"},
               {cuda::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "restart the machine"},
               {cuda::CUDA_ERROR_SYSTEM_NOT_READY, "fabric manager"},
               {cuda::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, "compatibility library"},
               {cuda::CUDA_ERROR_UNKNOWN, "nvidia_uvm"}};
  for (const auto& c : cases) {
    fail("cuInit", 1, c.error);
    expect_parts(reason_of(cuda::devices()), {"cuInit", "CUDA_ERROR_", c.advice});
  }
  fail("cuDriverGetVersion", 1, cuda::CUDA_ERROR_STUB_LIBRARY);
  expect_parts(reason_of(cuda::devices()), {"stubs"});
  fail("cuDeviceGetCount", 1, cuda::CUDA_ERROR_UNKNOWN);
  expect_parts(reason_of(cuda::devices()), {"cuDeviceGetCount", "CUDA_ERROR_UNKNOWN"});
  fail("cuDeviceGet", 1, cuda::CUDA_ERROR_DEVICE_UNAVAILABLE);
  expect_parts(reason_of(cuda::devices()), {"cuDeviceGet failed"});
  EXPECT_EQ(calls("cuDeviceGetAttribute"), 0U);  // of what device?
}

TEST_F(CudaDevices, OldGpusAreListedAndRefused) {
  set("ARCH", "61");
  const auto devices = cuda::devices();
  expect_parts(reason_of(devices), {"compute capability 6.1", "7.5"});
  const Status s = cuda::open(0, {}).status();
  EXPECT_EQ(s.code(), Code::Device);
  expect_parts(s.message(), {"cuda:0", "7.5"});
}

cuda::CUresult (*real_attribute)(int*, cuda::CUdevice_attribute, cuda::CUdevice) = nullptr;

TEST_F(CudaDevices, ProhibitedComputeIsSaid) {
  const auto hook = [](cuda::Table& t) {
    real_attribute = t.cuDeviceGetAttribute;
    t.cuDeviceGetAttribute = [](int* value, cuda::CUdevice_attribute a, cuda::CUdevice d) {
      const cuda::CUresult r = real_attribute(value, a, d);
      if (a == cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) *value = cuda::CU_COMPUTEMODE_PROHIBITED;
      return r;
    };
  };
  expect_parts(reason_of(cuda::devices(cuda::kDriverLibrary, hook)),
               {"prohibited", "nvidia-smi --compute-mode=0"});
}

TEST_F(CudaDevices, FactsFollowTheDriver) {
  set("DEVICES", "2");
  set("ARCH", "75");
  set("DRIVER", "12040");
  const auto devices = cuda::devices();
  ASSERT_EQ(devices.size(), 2U);
  const DeviceInfo& d = devices[1];
  EXPECT_TRUE(d.usable) << d.reason;
  EXPECT_EQ(d.id, "cuda:1");
  EXPECT_EQ(d.kind, "discrete-gpu");
  EXPECT_EQ(d.driver, "CUDA driver 12.4");
  EXPECT_EQ(d.api, "CUDA 12.4, sm_75");
  EXPECT_EQ(d.facts.cuda_arch, 75U);
  EXPECT_EQ(d.facts.subgroup_size, 32U);
  EXPECT_EQ(d.facts.max_shared_bytes, 65536U);
  EXPECT_EQ(d.facts.max_grid[0], 0x7fffffffU);
  EXPECT_TRUE(d.facts.int64 && d.facts.float16 && d.facts.subgroup_extended_types);
  EXPECT_TRUE(d.facts.matrices.empty());
  EXPECT_NE(std::vector<uint8_t>(d.uuid, d.uuid + 16), std::vector<uint8_t>(16));
  EXPECT_NE(std::vector<uint8_t>(d.uuid, d.uuid + 16),
            std::vector<uint8_t>(devices[0].uuid, devices[0].uuid + 16));
  set("ARCH", "120");
  EXPECT_EQ(cuda::devices()[0].facts.matrices.size(), 3U);
  EXPECT_EQ(cuda::open(2, {}).status().code(), Code::Usage);
}

TEST_F(CudaDevices, AutoPrefersCuda) {
  const auto opened = open_device("auto");
  ASSERT_OK(opened.status());
  EXPECT_EQ(opened->info.id, "cuda:0");
  EXPECT_EQ(open_device("cuda:x").status().code(), Code::Usage);
}

TEST_F(CudaDevices, AutoPassesOverWhatIsRefused) {
  const auto opened = open_device(
      "auto", {}, [](const DeviceInfo& d) { return d.facts.api == Api::Cuda ? "not today" : ""; });
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_NE(opened->info.facts.api, Api::Cuda);
}

/// The default device beside a CUDA driver, without NVRTC and with packages for Vulkan alone.
TEST_F(CudaDevices, WhatRanOnVulkanRunsBesideADriver) {
  const TempDir dir;
  OnnxWriter w;
  w.input("x", DType::F32, {8}).output("y", DType::F32, {8}).node("Relu", {"x"}, {"y"});
  const std::string model = dir / "m.onnx", package = dir / "m.rpk", json = dir / "m.json";
  write_file(model, w.bytes());
  const std::string reprise = program("reprise");
  ASSERT_EQ(run_process({reprise, "compile", model, "-o", package}).status, 0);
  for (const std::string& file : {model, package}) {
    const ProcessResult run = run_process({reprise, "run", file, "--nvrtc", "/nowhere.so"});
    EXPECT_EQ(run.status, 0) << file << run.err;
    const ProcessResult explained =
        run_process({reprise, "explain", file, "--nvrtc", "/nowhere.so", "--json", json});
    EXPECT_EQ(explained.status, 0) << file << explained.err;
    EXPECT_NE(read_file(json).find("\"launches\": 1"), std::string::npos) << read_file(json);
    const ProcessResult compared =
        run_process({reprise, "compare", file, "--nvrtc", "/nowhere.so"});
    EXPECT_EQ(compared.status, 0) << file << compared.err;
    EXPECT_NE(compared.err.find("cuda:0 is not measured"), std::string::npos) << compared.err;
  }
}

TEST_F(CudaDevices, TheCommandLineListsThemOrTheReason) {
  const std::string program_path = program("reprise");
  const ProcessResult found = run_process({program_path, "devices"});
  EXPECT_EQ(found.status, 0);
  expect_parts(found.out, {"cuda:0", "Reprise stand-in", "sm_90"});
  const ProcessResult none = run_process({program_path, "devices"}, {"REPRISE_STANDIN_DEVICES=0"});
  EXPECT_EQ(none.status, 0);
  expect_parts(none.out, {"no CUDA device", "not usable", "CUDA_VISIBLE_DEVICES"});
}

}  // namespace
}  // namespace reprise::test
