// Sessions whose inputs and outputs stay on the device, and how long their runs take.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/compiler.h"
#include "codegen/kernel/kernel.h"
#include "runtime/session.h"

namespace reprise::bench {

using PackagePtr = std::shared_ptr<const package::Package>;

/// A line of the report.
struct Row {
  std::string name;      // what is measured
  std::string baseline;  // against what
  double value = 0, base = 0;
  std::string unit;
  double ratio = 0;   // better than the baseline by this factor
  double wanted = 0;  // what the project asks for
};

/// What a scenario measures with, and where its lines go as soon as they are there.
struct Request {
  std::shared_ptr<Device> device;
  int runs = 30;
  std::string filter = {};  // lines whose name contains it
  std::function<void(const Row&)> line;

  bool wants(const std::string& name) const { return name.find(filter) != std::string::npos; }
  /// A model of the ONNX writer, for the device.
  Result<PackagePtr> compile(const std::string& onnx,
                             const std::vector<std::string>& disabled_passes = {}) const;
};

/// Times of many runs.
struct Timing {
  double median_ms = 0;
  double best_ms = 0;    // for forms that differ by less than what else the machine does
  double device_ms = 0;  // sum of kernel times, from timestamps
  double submit_us = 0;
  int64_t launches = 0;
};

/// What the compiler is told to make the one variant that a device takes. NVRTC is where
/// REPRISE_NVRTC says, as for the programs; kernels for CUDA are kept where theirs are.
CompileOptions options_for(const DeviceInfo& device);
/// Compiles a model of the ONNX writer.
Result<PackagePtr> compile_model(const std::string& onnx, const CompileOptions& options);

/// A package of one plan: `launches` launches of a kernel in a chain x -> t -> ... -> y. The kernel
/// reads its inputs and writes its last buffer; only the first input is replaced along the chain.
struct ChainSpec {
  kernel::Kernel kernel;
  std::vector<std::vector<int64_t>> inputs;  // dims; float32
  std::vector<int64_t> output;
  std::array<int64_t, 3> grid{1, 1, 1};
  size_t launches = 1;
  bool wide = false;  // loads of 16 bytes as 64-bit integers, see emit::SpirvOptions
};
Result<PackagePtr> chain_package(const ChainSpec& spec, const DeviceInfo& device);

/// Runs packages in turn, so that what else the machine does meets them alike, with static float32
/// inputs that are made up, device memory bound in place. The thread sleeps for `pause` before each
/// run, as between an application's frames.
Result<std::vector<Timing>> time_packages(const std::vector<PackagePtr>& packages,
                                          const std::shared_ptr<Device>& device, int runs,
                                          std::chrono::microseconds pause = {});

}  // namespace reprise::bench
