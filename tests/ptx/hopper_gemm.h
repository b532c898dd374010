// A GEMM for sm_90a in CUDA text: a warpgroup that loads boxes of a ring, two that multiply, and
// results that leave through shared memory. It is written for the tests of the executor.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/ptx/machine/workgroup.h"

namespace reprise::test {

struct HopperGemm {
  int m = 128, n = 64, k = 64;
  int groups = 2;           // workgroups, which share the tiles
  bool brain = false;       // bf16 instead of f16
  bool transposed = false;  // the right factor's lines are of its columns
  ptx::Options options;
  uint64_t seed = 1;
};

/// The PTX that NVRTC makes of it.
Result<std::string> hopper_gemm_ptx(const HopperGemm& g);
/// Runs it on small integers, whose sums are exact, and compares with a plain product. Says what is
/// wrong, or nothing.
std::string run_hopper_gemm(const HopperGemm& g, const std::string& ptx);

}  // namespace reprise::test
