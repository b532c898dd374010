// The ranges of a graph's symbols, as expressions ask for them.
#pragma once

#include "codegen/graph/graph.h"

namespace reprise::graph {

/// Valid while `g` is.
inline SymbolRanges symbol_ranges(const Graph& g) {
  return [&g](SymbolId id) {
    const Symbol& s = g.symbols[static_cast<size_t>(id)];
    return SymbolRange{s.min, s.max, std::nullopt};
  };
}

}  // namespace reprise::graph
