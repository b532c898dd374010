// Where the symbols in shapes get their values, and the relations between dimensions that a model
// requires. Graphs, plans and packages share these.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/expr/expr.h"

namespace reprise {

/// How a symbol gets its value.
struct SymbolSource {
  enum class Kind : uint8_t {
    InputDim,     // dim `axis` of input `index`
    HostOutput,   // dim `axis` of output buffer `index` of a host call (data-dependent)
    Derived,      // `value`, an expression over earlier symbols
    Caller,       // of a body that runs on a device: has its value when the body starts
    StateLength,  // the rows that state `index`, which grows, has before the run
  } kind = Kind::InputDim;
  int32_t index = 0;
  int32_t axis = 0;
  Expr value = {};

  /// The value is known only after a host call has run.
  bool known_from_call() const { return kind == Kind::HostOutput; }
};

/// For each symbol: whether its value is known when the plan starts, without any host call.
std::vector<bool> known_from_inputs(std::span<const SymbolSource> sources);

/// A relation between two dims that a node requires and that the compiler could neither prove nor
/// refute. A run in which it does not hold is refused as InvalidInput.
struct DimGuard {
  enum class Kind : uint8_t {
    Equal,
    Broadcast,    // equal, or either is 1
    BroadcastTo,  // equal, or `a` is 1
    AtLeast,      // `a` is not smaller than `b`
  } kind = Kind::Equal;
  Expr a, b;
  std::string node;        // the model's node that requires it
  std::string a_is, b_is;  // "dimension 0 of 'x'"; empty if the dim is not that of a tensor
};

}  // namespace reprise
