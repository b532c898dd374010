// The operators that run bodies, by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace reprise::host {

enum class ControlFlow : uint8_t { None, If, Loop, Scan };

constexpr ControlFlow control_flow_of(std::string_view op) {
  if (op == "If") return ControlFlow::If;
  if (op == "Loop") return ControlFlow::Loop;
  return op == "Scan" ? ControlFlow::Scan : ControlFlow::None;
}

/// How many bodies a node has: If has two branches.
constexpr size_t body_count(ControlFlow kind) {
  return kind == ControlFlow::None ? 0 : kind == ControlFlow::If ? 2 : 1;
}

}  // namespace reprise::host
