// An operand of a kernel template as its problem knows it. A schedule that moves bytes asks for the
// plain form; elements of any operand come from the problem's loads.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen/kernel/build/builder.h"
#include "runtime/base/dtype.h"
#include "runtime/base/tensor_view.h"
#include "runtime/plan/packing.h"

namespace reprise::shaders {

/// A matrix that is in memory as it is: element (i, k) of the unit's batch is at first + i * across
/// + k * along, in elements. i counts rows of A, or columns of B.
struct PlainOperand {
  int buffer = -1;  // a parameter of the kernel
  kernel::Ty type = kernel::Ty::F32;
  kernel::Value first, across, along;
  bool contiguous_across = false, contiguous_along = false;  // the distance is 1
  /// Proven to divide `first` and each distance that is not 1, in elements.
  int64_t divisor = 1;
};

/// A weight in the form that the schedule chose (Schedule::packing()).
struct PackedOperand {
  int buffer = -1;
  kernel::Ty type = kernel::Ty::F32;  // U32 if elements share words
  plan::Packing packing;
};

/// A matrix of which copies bring boxes to shared memory (kernel::View): the innermost dimension of
/// its view counts the values of k or, if not `along_k`, the rows of A or columns of B.
struct ViewedOperand {
  TensorView tensor;  // without a box and a swizzle
  kernel::Ty type = kernel::Ty::F16;
  bool along_k = false;
  /// The columns of a tile of a packed weight, [N / columns][K][columns]; the outermost dimension
  /// counts the tiles. 0: it is in memory as it is, and has two dimensions, or a third that counts
  /// batches.
  int columns = 0;
  bool batched = false;  // the third coordinate is the batch
};

/// Has a plain or a packed form, or neither: it is computed from something, such as the prologue of
/// a GEMM or an image of a convolution.
struct Operand {
  DType dtype = DType::F32;  // in memory; of one that is computed, as which it is computed
  std::optional<PlainOperand> plain = std::nullopt;
  std::optional<PackedOperand> packed = std::nullopt;
};

/// How many elements of such a type one asynchronous copy of 16, 8 or 4 bytes brings to shared
/// memory, side by side; 0 if the operand cannot be copied.
inline int elements_of_copy(const Operand& operand, kernel::Ty type) {
  const int bytes = kernel::byte_size(type);
  if (operand.packed) {
    const bool is_one = operand.packed->packing.bits == 0 && operand.packed->packing.dims[0] == 1;
    return is_one && operand.packed->type == type ? 16 / bytes : 0;
  }
  if (!operand.plain || operand.plain->type != type) return 0;
  if (!operand.plain->contiguous_along && !operand.plain->contiguous_across) return 0;
  for (const int n : {16 / bytes, 8 / bytes, 4 / bytes})
    if (operand.plain->divisor % n == 0) return n;
  return 0;
}

}  // namespace reprise::shaders
