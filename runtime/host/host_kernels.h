// What each operator means, on host tensors: the reference, constant folding and the fallback.
// Plain loops in the precision that the operator's definition asks for; sums of floats accumulate
// in double so that the reference is better than anything compared with it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/attrs.h"
#include "runtime/base/status.h"
#include "runtime/base/tensor.h"

namespace reprise::host {

/// One call of an operator. `inputs[i]` is null for an omitted optional input.
struct Call {
  std::string_view op;   // ONNX operator name, or a core operator's (codegen/graph/graph.h)
  int64_t opset = 0;     // version of the default domain the attributes follow; 0: the newest
  const AttrMap& attrs;  // no vector<Expr> attributes: the caller evaluated them to vector<int64_t>
  std::span<const HostTensor* const> inputs;
  size_t output_count = 1;
  /// Dims of output 0 when the caller knows them. Core forms whose size is only in the output's
  /// shape (Slice with `starts` and `steps`, Resize) need them; others check nothing against them.
  std::optional<std::vector<int64_t>> output_dims = std::nullopt;
};

/// Checks shapes, dtypes and indices itself (its inputs may come from a hostile file) and names
/// what is wrong; never reads or writes out of bounds. Thread-safe.
using Kernel = Result<std::vector<HostTensor>> (*)(const Call&);

/// Null if there is no host kernel of that name. Call::op must be the same name.
Kernel find(std::string_view op);
/// All names, sorted.
std::vector<std::string_view> names();

}  // namespace reprise::host
