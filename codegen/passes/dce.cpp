#include <algorithm>
#include <unordered_map>
#include <variant>
#include <vector>

#include "codegen/passes/pass.h"

namespace reprise::passes {

namespace {

/// The symbols that live nodes use, and the node that determines each of them.
class LiveSymbols {
 public:
  explicit LiveSymbols(const graph::Graph& g) : g_(g), live_(g.symbols.size(), false) {
    for (const auto& n : g.nodes()) {
      for (graph::ValueId v : n->outputs) {
        if (v == graph::kNone) continue;
        for (const Expr& dim : g.value(v).shape) {
          if (const auto id = dim.as_symbol()) producer_.try_emplace(*id, n.get());
        }
      }
    }
    for (graph::ValueId v : g.outputs) add(g.value(v).shape);
  }

  void add(const graph::Node& n) {
    for (graph::ValueId v : n.outputs) {
      if (v != graph::kNone) add(g_.value(v).shape);
    }
    for (const auto& [name, attr] : n.attrs) {
      if (const auto* list = std::get_if<std::vector<Expr>>(&attr)) add(*list);
    }
  }

  /// Whether the node determines a live symbol. Visit all users of its outputs first.
  bool defines_live_symbol(const graph::Node& n) const {
    for (graph::ValueId v : n.outputs) {
      if (v == graph::kNone) continue;
      for (const Expr& dim : g_.value(v).shape) {
        const auto id = dim.as_symbol();
        if (!id || !live_[static_cast<size_t>(*id)] || producer_.at(*id) != &n) continue;
        if (g_.symbol_sources[static_cast<size_t>(*id)].known_from_call()) return true;
      }
    }
    return false;
  }

 private:
  void add(const std::vector<Expr>& list) {
    std::vector<SymbolId> used;
    for (const Expr& e : list) e.collect_symbols(used);
    for (size_t i = 0; i < used.size(); ++i) {
      const auto s = static_cast<size_t>(used[i]);
      if (live_[s]) continue;
      live_[s] = true;
      if (g_.symbol_sources[s].kind == SymbolSource::Kind::Derived)
        g_.symbol_sources[s].value.collect_symbols(used);
    }
  }

  const graph::Graph& g_;
  std::vector<bool> live_;  // by symbol
  std::unordered_map<SymbolId, const graph::Node*> producer_;
};

}  // namespace

Status dce(graph::Graph& g) {
  LiveSymbols symbols(g);
  auto& nodes = g.nodes();
  for (auto it = nodes.end(); it != nodes.begin();) {
    --it;
    graph::Node* n = it->get();
    // The captures of a node's bodies are among its inputs.
    const bool used = std::ranges::any_of(
        n->outputs, [&](graph::ValueId v) { return v != graph::kNone && g.use_count(v) != 0; });
    if (used || symbols.defines_live_symbol(*n)) {
      symbols.add(*n);
      continue;
    }
    auto next = std::next(it);
    g.erase_node(n);
    it = next;
  }
  return {};
}

}  // namespace reprise::passes
