#include "codegen/graph/size_hint.h"

#include <algorithm>

namespace reprise::graph {

namespace {

constexpr int64_t kSymbolHint = 64, kImageHint = 256;

/// The first of several dims of an input is usually a batch of one, and the last dims of an image
/// are larger than others.
int64_t symbol_hint(const Graph& g, size_t symbol, const std::vector<int64_t>& earlier) {
  if (symbol < g.inherited_symbols) return kSymbolHint;  // the inputs are those of another graph
  const SymbolSource& source = g.symbol_sources[symbol];
  if (source.kind == SymbolSource::Kind::Derived) {
    const auto v = source.value.eval(earlier);
    return v.ok() ? *v : kSymbolHint;
  }
  if (source.kind != SymbolSource::Kind::InputDim) return kSymbolHint;
  const size_t rank = g.value(g.inputs[static_cast<size_t>(source.index)]).shape.size();
  if (source.axis == 0 && rank > 1) return 1;
  return rank >= 4 && source.axis >= 2 ? kImageHint : kSymbolHint;
}

}  // namespace

double count_hint(const Graph& g, const Shape& shape) {
  std::vector<int64_t> sizes;
  if (!is_static(shape)) {
    sizes.resize(g.symbols.size());
    for (size_t i = 0; i < sizes.size(); ++i) {
      int64_t hint = symbol_hint(g, i, sizes);
      if (i < g.likely_sizes.size())
        hint = std::clamp(hint, g.likely_sizes[i].min, g.likely_sizes[i].max);
      sizes[i] = std::clamp(hint, g.symbols[i].min, g.symbols[i].max);
    }
  }
  double count = 1;
  for (const Expr& e : shape) {
    const auto v = e.eval(sizes);
    count *= std::max(1.0, static_cast<double>(v.ok() ? *v : kSymbolHint));
  }
  return count;
}

}  // namespace reprise::graph
