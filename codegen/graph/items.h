// What the compiler knows of the tensors in a sequence, an optional or a map.
#pragma once

#include <cstdint>
#include <utility>

#include "runtime/expr/expr.h"

namespace reprise::graph {

struct Items {
  enum class Kind : uint8_t {
    None,    // there is no tensor
    Ranked,  // all have the rank of `shape`
    Any,     // nothing is known
  };
  /// A dim that is not the same in all tensors.
  static constexpr int64_t kDiffers = -1;

  Kind kind = Kind::Any;
  Shape shape;

  static Items none() { return {Kind::None, {}}; }
  static Items of(Shape shape) { return {Kind::Ranked, std::move(shape)}; }
  bool has_rank() const { return kind == Kind::Ranked; }
  /// What is true of the tensors of both.
  friend Items joined(const Items& a, const Items& b) {
    if (a.kind == Kind::None || b.kind == Kind::None) return a.kind == Kind::None ? b : a;
    const size_t rank = a.shape.size();
    if (!a.has_rank() || !b.has_rank() || b.shape.size() != rank) return {};
    Items out = a;
    for (size_t d = 0; d < rank; ++d)
      if (!(a.shape[d] == b.shape[d])) out.shape[d] = kDiffers;
    return out;
  }
  friend bool operator==(const Items&, const Items&) = default;
};

}  // namespace reprise::graph
