// The time of a kernel, as a model: what each unit of a device takes for it, and how that adds up.
#pragma once

#include <string_view>

#include "codegen/device_model/devices.h"

namespace reprise::device_model {

struct KernelFacts {
  Work work;
  double groups = 1;    // workgroups of the launch
  double resident = 1;  // of them on a multiprocessor at a time
  double bytes = 0;     // of the distinct buffers that the launch reads or writes
  /// Instructions of the device for each that the walk counts; 1 without a disassembler.
  double instruction_ratio = 1;
};

/// Milliseconds that a kernel takes if only one thing bounds it.
struct Times {
  double issue = 0;    // schedulers, and lanes of integers and conversions
  double matrix = 0;   // matrix units
  double special = 0;  // exponentials, reciprocals and the like
  double shared = 0;   // shared memory and L1
  double l2 = 0;       // between L2 and multiprocessors
  double dram = 0;
  double chain = 0;  // instructions that wait for each other
  double waves = 0;  // what the busiest multiprocessor has more to do than the average
  double launch = 0;
  double total = 0;
  std::string_view bound;  // the name of the largest term
};

Times predict(const KernelFacts& kernel, const Device& device);

}  // namespace reprise::device_model
