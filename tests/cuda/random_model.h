// Models of launches that read, write and overwrite tensors, in branches that join.
#pragma once

#include <memory>
#include <vector>

#include "tests/support/plans.h"

namespace reprise::test {

/// The kernels of all of them, which take time to make.
struct RandomKernels {
  TestKernel plus = affine_kernel("plus", 1.0F, 1.0F);
  plan::KernelCode sum = sum_kernel();
};

class RandomModel {
 public:
  /// Of `least` to `least` + 8 launches and some for the outputs; over vectors of 40 elements, or
  /// of a size that inputs tell.
  RandomModel(uint64_t seed, const RandomKernels& kernels, size_t least = 2, bool dynamic = false);

  const std::shared_ptr<const package::Package>& package() const { return package_; }
  size_t inputs() const { return inputs_.size(); }
  /// What the outputs are for these inputs.
  std::vector<std::vector<float>> expected(const std::vector<std::vector<float>>& x) const;

 private:
  struct Step {
    plan::BufferId a, b, to;  // to = a + b, or a + 1 where they are the same
  };
  std::vector<plan::BufferId> inputs_, outputs_;
  std::vector<Step> steps_;
  std::shared_ptr<const package::Package> package_;
};

}  // namespace reprise::test
