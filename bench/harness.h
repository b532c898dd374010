// Measures how long runs of sessions take whose inputs and outputs stay on the device.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/compile/compiler.h"
#include "codegen/kernel/ir/kernel.h"
#include "runtime/session/session.h"

namespace reprise::bench {

using PackagePtr = std::shared_ptr<const package::Package>;

/// A line of the report.
struct Row {
  std::string name;      // what is measured
  std::string baseline;  // what it is compared with
  double value = 0, base = 0;
  std::string unit;
  double ratio = 0;   // the factor by which it is better than the baseline
  double wanted = 0;  // the goal of the project for `ratio`
};

/// The device and options of a scenario. It calls `line` for each line as soon as it is measured.
struct Request {
  std::shared_ptr<Device> device;
  int runs = 30;
  std::string filter = {};  // measure only lines whose name contains it
  std::function<void(const Row&)> line;

  bool wants(const std::string& name) const { return name.find(filter) != std::string::npos; }
  /// Compiles the contents of an ONNX file for the device.
  Result<PackagePtr> compile(const std::string& onnx,
                             const std::vector<std::string>& disabled_passes = {}) const;
};

/// Times of many runs.
struct Timing {
  double median_ms = 0;
  double best_ms = 0;    // for forms that differ by less than the noise of the machine
  double device_ms = 0;  // sum of kernel times, from timestamps
  double submit_us = 0;
  int64_t launches = 0;
};

/// The options for compiling the one variant that a device uses. NVRTC (REPRISE_NVRTC) and the
/// cache of CUDA kernels are those of the programs.
CompileOptions options_for(const DeviceInfo& device);
/// Compiles the contents of an ONNX file.
Result<PackagePtr> compile_model(const std::string& onnx, const CompileOptions& options);

/// A package with one plan: `launches` launches of a kernel in a chain x -> t -> ... -> y. The
/// kernel reads its inputs and writes its last buffer. The result of a launch is the first input of
/// the next one; the other inputs are the same for all.
struct ChainSpec {
  kernel::Kernel kernel;
  std::vector<std::vector<int64_t>> inputs;  // dims; float32
  std::vector<int64_t> output;
  std::array<int64_t, 3> grid{1, 1, 1};
  size_t launches = 1;
  bool wide = false;  // load 16 bytes as 64-bit integers; see emit::SpirvOptions
};
Result<PackagePtr> chain_package(const ChainSpec& spec, const DeviceInfo& device);

/// Runs packages in turn, so that other load on the machine affects all of them alike. Their inputs
/// must be static float32 tensors; they have generated values and are bound as device memory. The
/// thread sleeps for `pause` before each run, like an application between frames.
Result<std::vector<Timing>> time_packages(const std::vector<PackagePtr>& packages,
                                          const std::shared_ptr<Device>& device, int runs,
                                          std::chrono::microseconds pause = {});

}  // namespace reprise::bench
