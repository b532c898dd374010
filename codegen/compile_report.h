// What a compilation tells its caller beside the package.
#pragma once

#include <string>
#include <vector>

#include "codegen/compile_options.h"
#include "runtime/package/package.h"

namespace reprise {

struct PassTime {
  std::string name;
  double ms = 0;
};

/// What was chosen for a group with several candidates.
struct ScheduleChoice {
  ScheduleSite site;
  size_t chosen = 0;             // index of a candidate
  std::vector<size_t> launches;  // of the group, in the variant's plan
};

/// A group of nodes that fusion made one kernel although lowering cannot write it: a fault of the
/// compiler. Its nodes got kernels of their own instead.
struct BrokenGroup {
  std::string variant;
  std::string kernel;
  Status why;  // Code::Internal
};

/// What was compiled to images for CUDA.
struct ImageReport {
  std::string nvrtc;              // its version; empty: nothing was
  size_t images = 0, cached = 0;  // of kernels and architectures; those found in the cache
};

struct CompileReport {
  std::vector<PassTime> passes;                  // in order, import and emission included
  std::vector<package::GroupInfo> groups;        // of the first variant
  std::vector<lower::FusionDecision> decisions;  // of the first variant
  std::vector<ScheduleChoice> schedules;         // of all variants
  std::vector<BrokenGroup> broken;               // empty unless the compiler has a fault
  ImageReport images;
};

}  // namespace reprise
