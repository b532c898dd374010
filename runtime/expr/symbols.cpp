#include "runtime/expr/symbols.h"

#include <algorithm>

namespace reprise {

std::vector<bool> known_from_inputs(std::span<const SymbolSource> sources) {
  std::vector<bool> known(sources.size(), false);
  for (size_t s = 0; s < sources.size(); ++s) {
    known[s] = sources[s].kind == SymbolSource::Kind::InputDim ||
               sources[s].kind == SymbolSource::Kind::Caller ||
               sources[s].kind == SymbolSource::Kind::StateLength;
    if (sources[s].kind != SymbolSource::Kind::Derived) continue;
    const std::vector<SymbolId> from = sources[s].value.symbols();
    known[s] = std::all_of(from.begin(), from.end(), [&](SymbolId id) {
      return static_cast<size_t>(id) < s && known[static_cast<size_t>(id)];
    });
  }
  return known;
}

}  // namespace reprise
