// What a compilation reports in addition to the package.
#pragma once

#include <string>
#include <vector>

#include "codegen/onnx/refusal.h"
#include "codegen/options/compile_options.h"
#include "runtime/package/package.h"

namespace reprise {

struct PassTime {
  std::string name;
  double ms = 0;
};

/// The schedule that was chosen for a group with several candidates.
struct ScheduleChoice {
  ScheduleSite site;
  size_t chosen = 0;             // index of a candidate
  std::vector<size_t> launches;  // of the group, in the order of RunStats::kernel_us
};

/// A group that fusion made one kernel although lowering cannot write it, which is a fault of the
/// compiler. Its nodes got kernels of their own instead.
struct BrokenGroup {
  std::string variant;
  std::string kernel;
  Status why;  // Code::Internal
};

/// The compilation of CUDA images.
struct ImageReport {
  std::string nvrtc;              // its version; empty if nothing was compiled
  size_t images = 0, cached = 0;  // one for each kernel and architecture; those from the cache
};

struct CompileReport {
  std::vector<PassTime> passes;                  // in order, import and emission included
  std::vector<package::GroupInfo> groups;        // of the first variant
  std::vector<lower::FusionDecision> decisions;  // of the first variant
  std::vector<ScheduleChoice> schedules;         // of all variants
  std::vector<BrokenGroup> broken;               // empty unless the compiler has a fault
  ImageReport images;
  std::vector<onnx::Refusal> refusals;  // of compile_supported()
};

}  // namespace reprise
