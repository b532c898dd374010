// Operators that are known and not supported, with what to do instead.
#pragma once

#include <span>
#include <string_view>

namespace reprise::ops {

struct Unsupported {
  std::string_view domain;  // "" is ai.onnx
  std::string_view name;    // empty: every operator of the domain
  std::string_view reason;
  std::string_view advice;
};

std::span<const Unsupported> unsupported_ops();
/// The row of an operator; null if there is none.
const Unsupported* find_unsupported(std::string_view domain, std::string_view name);

}  // namespace reprise::ops
