// The register-tiled contraction: an invocation accumulates a tile of rows x columns in locals,
// without shared memory, from any sources of A and B. MatMul and convolution are this tile under
// other loops and address functions (codegen/lower/matmul.cpp, conv.cpp). Needs no subgroup size,
// no shared memory and at most 128 invocations: the baseline of every device, and a good form on
// CPU-type devices, where wide loads per invocation and reuse in registers decide the speed.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "codegen/kernel/builder.h"

namespace reprise::shaders {

class RegisterTile {
 public:
  /// `cols` is a multiple of 4: columns are accumulated as vectors of 4. `fma`: explicit fused
  /// multiply-adds (GPUs; CPU-type devices compute them as two operations anyway).
  RegisterTile(kernel::Builder& b, int rows, int cols, bool fma);

  int rows() const { return rows_; }
  int vecs() const { return vecs_; }

  /// acc[row] += a[row] * b for one position k: a[row] scalar F32, b[vec] four columns.
  void multiply(std::span<const kernel::Val> a, std::span<const kernel::Val> b);
  /// The same for 4 positions: a[row] is a vector along k, b[4 * position + vec].
  void multiply4(std::span<const kernel::Val> a, std::span<const kernel::Val> b);
  /// Accumulated columns of a row.
  kernel::Val result(int row, int vec) const;

 private:
  void accumulate(int row, int vec, std::span<const kernel::Val> xs,
                  std::span<const kernel::Val> ys);
  int local(int row, int vec) const { return acc_[static_cast<size_t>(row * vecs_ + vec)]; }

  kernel::Builder& b_;
  int rows_, vecs_;
  bool fma_;
  std::vector<int> acc_;
};

}  // namespace reprise::shaders
