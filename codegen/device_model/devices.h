// The devices that kernels can be modelled for.
#pragma once

#include <span>
#include <string_view>

#include "codegen/device_model/walk.h"

namespace reprise::device_model {

struct Device {
  std::string_view name, title;
  std::string_view source;
  std::string_view target;    // of the compiler
  uint32_t architecture = 0;  // 10 * major + minor
  double multiprocessors = 0;
  double clock_ghz = 0;
  // Of one multiprocessor in a clock: lanes of units, multiply-adds of fp16 by matrix units, and
  // the share of these that instructions of single warps reach.
  double integer_lanes = 64, conversion_lanes = 64, double_lanes = 64, special_lanes = 16;
  double products = 0, warp_share = 1;
  // Of the device: bytes of L2 in a clock, its size in MB, and memory in GB/s.
  double l2_bytes = 0, l2_megabytes = 0, memory_gb = 0;
  Latencies latencies;
  double launch_us = 0;
};

std::span<const Device> devices();
/// The error of an unknown name lists all.
Result<const Device*> find_device(std::string_view name);

}  // namespace reprise::device_model
