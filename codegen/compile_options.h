// What a caller asks of a compilation.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/lower/fusion_decision.h"
#include "codegen/lower/lower.h"
#include "codegen/passes/pass.h"
#include "runtime/device_facts.h"

namespace reprise {

/// A launch whose kernel can be written by several schedules.
struct ScheduleSite {
  std::string variant;
  std::string kernel;                                // its name, before it is made unique
  size_t number = 0;                                 // of its group, in the order of fusion
  std::string key;                                   // the same for equal kernels, in any model
  std::vector<lower::ScheduleCandidate> candidates;  // the best estimate first
};

struct CompileOptions {
  /// "vulkan" or variants of it, "cuda:sm_90" and so on (codegen/targets.h); empty or "host":
  /// the host alone.
  std::vector<std::string> targets{"vulkan"};
  /// Variants of the application's own, which `targets` may name; they come before all others.
  std::vector<lower::Target> added_targets;
  /// Set: only the variant that such a device takes. With it "cuda" names its architecture.
  std::optional<DeviceFacts> device;
  std::map<std::string, std::vector<int64_t>> shapes;  // fixes dynamic inputs
  std::vector<std::string> disabled_passes;            // unknown names are Code::Usage
  /// F32, or F16 or BF16: what tensors between kernels and large weights are in memory, where that
  /// is safe (codegen/passes/autocast.h).
  DType precision = DType::F32;
  /// Numbers that passes take, by "pass.option" (codegen/passes/pipeline.cpp); unknown names are
  /// Code::Usage.
  std::map<std::string, int64_t, std::less<>> pass_options;
  std::vector<passes::Pass> added_passes;  // passes of the application's own
  /// Set: fusion makes these joins alone, as CompileReport::decisions lists them.
  std::optional<std::vector<lower::FusionDecision>> fusion_decisions;
  bool fullgraph = false;
  /// Adds to each kernel a probe that says what it must give (codegen/probes.h), for `reprise
  /// check` and for sessions that check their kernels. Worth its time in packages that are kept.
  bool probes = false;
  bool verify_passes = false;  // verify the graph after each pass (Debug: always)
  // CUDA text is compiled by NVRTC (codegen/nvrtc/), ...
  std::string nvrtc;  // the library's path; empty: wherever it is found
  /// DeviceInfo::driver_version of the CUDA device that will load it, which takes nothing newer
  /// than itself; 0: unknown.
  uint32_t cuda_driver = 0;
  bool cuda_ptx = true;  // PTX follows cubins where none is named and no device is
  /// Packages keep the CUDA text of their kernels beside the images. It is also written to the
  /// cache's folder, where debuggers and profilers find it by its image: "HASH.cu", with
  /// package::hash_bytes of the image in hexadecimal digits.
  bool keep_source = false;
  unsigned threads = 0;  // ... on this many threads, the caller's included; 0: one per core
  /// Where compiled kernels are kept, at most so many bytes of them; empty: nothing is kept.
  std::string cuda_cache_dir;
  uint64_t cuda_cache_bytes = uint64_t{512} << 20;
  /// Called one at a time, from any of the threads: with a warning, such as of a damaged cache, ...
  std::function<void(const std::string&)> log;
  /// ... and after each kernel that is compiled for an architecture.
  std::function<void(size_t done, size_t total)> on_image;
  /// Index of the candidate to take; unset: 0.
  std::function<size_t(const ScheduleSite&)> choose_schedule;
  /// Called after each pass with its name and the graph; for --dump.
  std::function<void(const std::string& pass, const graph::Graph& g)> on_pass;
  /// Called with each lowered kernel: variant name, kernel IR text, SPIR-V words (none for CUDA),
  /// CUDA text. Variants that differ in the architecture alone have one call, by the first's name.
  std::function<void(const std::string& variant, const std::string& kernel, const std::string& ir,
                     const std::vector<uint32_t>& spirv, const std::string& cuda)>
      on_kernel;
  /// Called with each kernel as it is emitted; its name is that of the plan's KernelCode.
  std::function<void(const std::string& variant, const kernel::Kernel& kernel)> on_kernel_ir;
  // Where tests plant faults. Called with the graph after each pass, before it is verified, ...
  std::function<void(std::string_view pass, graph::Graph& g)> plant_in_graph;
  /// ... and with each group's kernel after it is lowered.
  std::function<void(const lower::Group& group, lower::Lowered& lowered)> plant_in_kernel;
};

}  // namespace reprise
