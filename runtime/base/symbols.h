// Where the symbols in shapes get their values, and what a model requires of its dimensions.
// Graphs, plans and packages share these.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/expr.h"

namespace reprise {

/// How a symbol gets its value.
struct SymbolSource {
  enum class Kind : uint8_t {
    InputDim,    // dim `axis` of input `index`
    HostOutput,  // dim `axis` of a host call's output buffer `index` (data-dependent)
    Derived,     // `value`, an expression over symbols before this one
  } kind = Kind::InputDim;
  int32_t index = 0;
  int32_t axis = 0;
  Expr value = {};

  /// Known once a host call has run, not before.
  bool told_by_call() const { return kind == Kind::HostOutput; }
};

/// Parallel to the sources: whether the dims of the inputs tell the symbol, without any host call.
std::vector<bool> told_by_inputs(std::span<const SymbolSource> sources);

/// What a node needs of two dims, where the compiler could neither prove nor refute it: a run in
/// which it does not hold is refused as InvalidInput.
struct DimGuard {
  enum class Kind : uint8_t {
    Equal,
    Broadcast,    // equal, or either is 1
    BroadcastTo,  // equal, or `a` is 1
    AtLeast,      // `a` is not smaller than `b`
  } kind = Kind::Equal;
  Expr a, b;
  std::string node;        // the model's node that needs it
  std::string a_is, b_is;  // "dimension 0 of 'x'"; empty where the dim is of no tensor
};

}  // namespace reprise
