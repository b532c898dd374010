#include "codegen/device_model/devices.h"

#include <algorithm>
#include <array>
#include <string>

namespace reprise::device_model {

namespace {

// Each number is from the document or the file that `source` names. Multiply-adds of fp16 are those
// with sums of fp32, of dense matrices.
constexpr std::array kDevices = {
    Device{
        .name = "h200",
        .title = "NVIDIA H200",
        .source =
            "multiprocessors, clock: bench/results/nvidia-h200-2026-11-26.json; memory: the same, "
            "as the driver's copy reaches it (4.8 TB/s nominal); L2, matrix units: NVIDIA H100 "
            "architecture white paper; share of warps, bytes of L2 in a clock, latencies: "
            "arXiv 2402.13499 (H800)",
        .target = "cuda:sm_90a",
        .architecture = 90,
        .multiprocessors = 132,
        .clock_ghz = 1.98,
        .products = 2048,
        .warp_share = 0.65,
        .l2_bytes = 4000,
        .l2_megabytes = 50,
        .memory_gb = 4190,
        .latencies = {},
        .launch_us = 2.5,
    },
    Device{
        .name = "a100",
        .title = "NVIDIA A100 (SXM, 40 GB)",
        .source = "NVIDIA A100 architecture white paper; L2, latencies: arXiv 2402.13499 (A100)",
        .target = "cuda:sm_80",
        .architecture = 80,
        .multiprocessors = 108,
        .clock_ghz = 1.41,
        .conversion_lanes = 16,
        .double_lanes = 32,
        .products = 1024,
        .warp_share = 0.95,
        .l2_bytes = 2500,
        .l2_megabytes = 40,
        .memory_gb = 1400,
        .latencies = {.cache = 260, .memory = 570},
        .launch_us = 2.5,
    },
    Device{
        .name = "rtx4090",
        .title = "NVIDIA GeForce RTX 4090",
        .source = "NVIDIA Ada GPU architecture white paper; latencies: arXiv 2402.13499 (RTX 4090)",
        .target = "cuda:sm_89",
        .architecture = 89,
        .multiprocessors = 128,
        .clock_ghz = 2.52,
        .double_lanes = 2,
        .products = 256,
        .warp_share = 0.95,
        .l2_bytes = 2000,
        .l2_megabytes = 72,
        .memory_gb = 910,
        .latencies = {.cache = 270, .memory = 540},
        .launch_us = 2.5,
    },
    Device{
        .name = "rtx5090",
        .title = "NVIDIA GeForce RTX 5090",
        .source = "NVIDIA RTX Blackwell GPU architecture white paper; latencies: as RTX 4090",
        .target = "cuda:sm_120",
        .architecture = 120,
        .multiprocessors = 170,
        .clock_ghz = 2.41,
        .double_lanes = 2,
        .products = 256,
        .warp_share = 0.95,
        .l2_bytes = 2700,
        .l2_megabytes = 96,
        .memory_gb = 1600,
        .latencies = {.cache = 270, .memory = 540},
        .launch_us = 2.5,
    },
};

}  // namespace

std::span<const Device> devices() {
  return kDevices;
}

Result<const Device*> find_device(std::string_view name) {
  const auto* at = std::ranges::find(kDevices, name, &Device::name);
  if (at != kDevices.end()) return at;
  std::string known;
  for (const Device& d : kDevices) {
    known += known.empty() ? "" : ", ";
    known += d.name;
  }
  return Status(Code::Usage, "there is no model of a device '" + std::string(name) +
                                 "'; there are models of " + known);
}

}  // namespace reprise::device_model
