#include <cstring>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/ops/row/op.h"
#include "codegen/passes/pass.h"

namespace reprise::passes {

namespace {

std::string key_of(const graph::Graph& g, const graph::Node& n) {
  std::string key = n.domain + "/" + n.op + "/" + std::to_string(n.opset);
  for (graph::ValueId v : n.inputs) key += "," + std::to_string(v.number());
  key += "|" + std::to_string(n.outputs.size());
  for (const auto& [name, attr] : n.attrs) {
    key += "|" + name + "=" + std::to_string(attr.index()) + ":";
    std::visit(
        [&](const auto& a) {
          using T = std::decay_t<decltype(a)>;
          auto raw = [&](const void* p, size_t bytes) {
            key.append(static_cast<const char*>(p), bytes);
          };
          if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, float>) {
            raw(&a, sizeof(a));
          } else if constexpr (std::is_same_v<T, std::string>) {
            key += a;
          } else if constexpr (std::is_same_v<T, std::vector<int64_t>> ||
                               std::is_same_v<T, std::vector<float>>) {
            raw(a.data(), a.size() * sizeof(a[0]));
          } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
            for (const std::string& s : a) key += std::to_string(s.size()) + ":" + s;
          } else if constexpr (std::is_same_v<T, HostTensor>) {
            key += describe(a.dtype(), a.dims());
            raw(a.bytes().data(), a.bytes().size());
          } else {
            std::vector<int64_t> code;
            for (const Expr& e : a) {
              code.push_back(-1);
              e.encode(code);
            }
            raw(code.data(), code.size() * sizeof(int64_t));
          }
        },
        attr);
  }
  // Attributes do not always determine dtype and sizes: a core Slice has its sizes in its output.
  for (graph::ValueId v : n.outputs) {
    if (v == graph::kNone) {
      key += "-";
      continue;
    }
    const graph::Value& out = g.value(v);
    key += "|" + std::to_string(static_cast<int>(out.dtype)) + shape_str(out.shape, g.symbols);
  }
  return key;
}

/// Smaller constants matter little.
constexpr int64_t kLargeConstant = int64_t{1} << 12;

/// Merges large constants with equal contents, so that a weight which models have twice is one.
void merge_constants(graph::Graph& g) {
  std::map<std::string, std::vector<graph::ValueId>> by_type;
  std::vector<std::pair<graph::ValueId, graph::ValueId>> equal;
  const auto visit = [&](graph::ValueId v) {
    const graph::Value& value = g.value(v);
    if (!value.constant || value.dtype == DType::String || g.is_output(v)) return;
    const HostTensor& t = *value.constant;
    if (t.count() < kLargeConstant) return;
    std::vector<graph::ValueId>& known = by_type[describe(t.dtype(), t.dims())];
    for (const graph::ValueId other : known) {
      if (other == v) return;
      const auto bytes = g.value(other).constant->bytes();
      if (std::memcmp(bytes.data(), t.bytes().data(), bytes.size()) != 0) continue;
      equal.emplace_back(v, other);
      return;
    }
    known.push_back(v);
  };
  for (const auto& n : g.nodes()) {
    for (const graph::ValueId v : n->inputs) {
      if (v != graph::kNone) visit(v);
    }
  }
  for (const auto& [from, to] : equal) g.replace_uses(from, to);
}

}  // namespace

Status cse(graph::Graph& g) {
  merge_constants(g);
  std::unordered_map<std::string, graph::Node*> seen;
  auto& nodes = g.nodes();
  for (auto it = nodes.begin(); it != nodes.end();) {
    graph::Node* n = it->get();
    ++it;
    if (!n->subgraphs.empty() || ops::is_random(*n)) continue;
    auto [slot, inserted] = seen.try_emplace(key_of(g, *n), n);
    if (inserted) continue;
    const graph::Node* same = slot->second;
    bool replaced = true;
    for (size_t i = 0; i < n->outputs.size(); ++i) {
      const graph::ValueId from = n->outputs[i];
      const graph::ValueId to = same->outputs[i];
      if (from == graph::kNone) continue;
      // Two graph outputs must remain two values.
      if (to == graph::kNone || g.is_output(from)) {
        replaced = false;
        continue;
      }
      g.replace_uses(from, to);
    }
    if (replaced) g.erase_node(n);
  }
  return {};
}

}  // namespace reprise::passes
