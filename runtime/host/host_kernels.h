// The reference implementation of each operator, on host tensors. It also serves constant folding
// and nodes that no device kernel computes. The kernels are plain loops in the precision that the
// definition of the operator asks for. Sums of floats accumulate in double, so that the reference
// is more accurate than everything that is compared with it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/tensor.h"
#include "runtime/operators/attrs.h"

namespace reprise::host {

/// What a kernel derives from the attributes and the constant inputs of a call. Immutable, because
/// concurrent runs share it.
struct Prepared {
  Prepared() = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  virtual ~Prepared() = default;
};

/// Where the numbers of an operator with random results begin.
struct RandomState {
  uint64_t seed = 0;      // of the session and the run
  uint64_t position = 0;  // of the node, and of the iterations of loops around it
};

/// One call of an operator. `inputs[i]` is null for an omitted optional input.
struct Call {
  std::string_view op;   // name of an ONNX or a core operator (codegen/graph/graph.h)
  int64_t opset = 0;     // version of the default domain that the attributes follow; 0: the newest
  const AttrMap& attrs;  // without vector<Expr>: the caller has evaluated those (eval_attrs.h)
  std::span<const HostTensor* const> inputs;
  size_t output_count = 1;
  /// The dims of output 0 if the caller knows them. Core forms whose size is only in the output's
  /// shape (Slice with `starts` and `steps`, Resize) need them; others ignore them.
  std::optional<std::vector<int64_t>> output_dims = std::nullopt;
  /// The result of prepare() for this operator and these attributes; null: the kernel prepares
  /// itself.
  std::shared_ptr<const Prepared> prepared = nullptr;
  RandomState random = {};
};

/// A host kernel checks shapes, dtypes and indices itself, because its inputs may come from an
/// untrusted file. Its errors name what is wrong, and it never reads or writes out of bounds.
/// Thread-safe.
using Kernel = Result<std::vector<HostTensor>> (*)(const Call&);

/// Null if there is no host kernel of that name. Call::op must be that name. Looks in
/// libreprise_extras last (extra_kernels.h), and opens it where it is not linked.
Kernel find(std::string_view op);
/// An error that says what is missing if find() is null.
Status require(std::string_view op);
/// Whether the kernel of that name has a part that prepare() does.
bool can_prepare(std::string_view op);
/// Does the part of a call that is the same for all its runs. `inputs` has the constant ones, and
/// null for the others. Returns null if there is no such part. Thread-safe.
Result<std::shared_ptr<const Prepared>> prepare(const Call& c);
/// All names, sorted.
std::vector<std::string_view> names();

}  // namespace reprise::host
