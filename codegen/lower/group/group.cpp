#include "codegen/lower/group/group.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <set>
#include <utility>

#include "codegen/lower/group/group_lowering.h"
#include "runtime/host/host_kernels.h"

namespace reprise::lower {

using graph::Graph;
using graph::Node;
using graph::ValueId;

const ops::OpDef* def_of(const Node& n) {
  return ops::find(n);
}

namespace {
ops::Lowering lowering_of(const Node& n) {
  const ops::OpDef* def = def_of(n);
  if (def == nullptr || !n.subgraphs.empty() || !ops::is_core(n)) return ops::Lowering::None;
  return def->lowering;
}

bool constants_fit_32_bits(const Expr& e) {
  return std::in_range<int32_t>(e.constant()) &&
         std::all_of(e.terms().begin(), e.terms().end(), [](const Term& t) {
           return std::in_range<int32_t>(t.coefficient) &&
                  std::all_of(t.atoms().begin(), t.atoms().end(), [](const Atom& a) {
                    return a.kind() == Atom::Kind::Symbol || a.kind() == Atom::Kind::Overflow ||
                           (constants_fit_32_bits(a.lhs()) && constants_fit_32_bits(a.rhs()));
                  });
         });
}
}  // namespace

ValueId transposed_matrix(const Graph& g, ValueId v) {
  const Node* p = g.value(v).producer;
  const bool transposes = p != nullptr && ops::permutation_of(*p) == std::vector<int64_t>{1, 0};
  return transposes ? p->inputs[0] : graph::kNone;
}

bool is_contraction(const Node& n) {
  const ops::Lowering l = lowering_of(n);
  return l == ops::Lowering::MatMul || l == ops::Lowering::Conv;
}

bool is_reduction(const Node& n) {
  return lowering_of(n) == ops::Lowering::Reduce;
}

bool is_kernel_of_its_own(const Node& n) {
  return lowering_of(n) == ops::Lowering::Kernel;
}

bool is_scan(const Node& n) {
  return lowering_of(n) == ops::Lowering::Scan;
}

Group group_of(const Graph& g, Node* n) {
  Group gr;
  gr.nodes = {n};
  gr.domain = g.value(n->outputs[0]).shape;
  const std::optional<GroupKind> kind = kind_begun_by(*n);
  if (!kind) return gr;
  gr.kind = *kind;
  gr.anchor = n;
  if (const auto shape = row_of(*kind).shape; shape != nullptr) shape(g, gr);
  return gr;
}

Shape row_shape(const Shape& domain, const std::vector<int64_t>& reduced) {
  Shape s = domain;
  for (int64_t a : reduced) s[static_cast<size_t>(a)] = 1;
  return s;
}

// Views, and dimensions read from the parameter block, are only index arithmetic. They give a
// kernel its name only if it has no other nodes.
std::string kernel_name(const Group& g) {
  constexpr size_t kMaxLength = 120;
  std::set<std::string> names;
  size_t operators = 0;
  auto add = [&](const Node& n) {
    std::string name = n.origin_op.empty() ? n.op : n.origin_op;
    std::string id;
    for (char c : name) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
        id += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      }
    }
    names.insert(id);
  };
  for (const Node* n : g.nodes) {
    if (lowering_of(*n) == ops::Lowering::View || def_of(*n)->dims_only) continue;
    ++operators;
    add(*n);
  }
  if (names.empty()) {
    for (const Node* n : g.nodes) add(*n);
  }
  std::string out = operators > 1 || names.size() > 1 ? "fused" : "";
  for (const std::string& n : names) {
    if (out.size() + n.size() > kMaxLength) {
      out += "_and_more";
      break;
    }
    out += (out.empty() ? "" : "_") + n;
  }
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) != 0) out = "k_" + out;
  return out;
}

bool is_packed_in_nibbles(const graph::Graph& g, graph::ValueId v) {
  const DType t = g.value(v).dtype;
  return t == DType::I4 || t == DType::U4;
}

bool is_bound(const Graph& g, ValueId v) {
  if (v == graph::kNone) return false;
  const graph::Value& value = g.value(v);
  return !value.constant || element_count(value.shape) != Expr(1);
}

namespace {

/// The tensors that a kernel of the node alone reads and writes.
size_t bound_tensors(const Graph& g, const Node& n) {
  std::set<ValueId> all;
  for (const ValueId v : n.inputs)
    if (is_bound(g, v)) all.insert(v);
  for (const ValueId v : n.outputs)
    if (v != graph::kNone) all.insert(v);
  return all.size();
}

std::string has_dtype(const graph::Value& v) {
  return "'" + v.name + "' has dtype " + std::string(name_of(v.dtype));
}

/// The operands and results of a node.
std::vector<ValueId> operands(const Node& n) {
  std::vector<ValueId> all = n.inputs.list();
  all.insert(all.end(), n.outputs.begin(), n.outputs.end());
  std::erase(all, graph::kNone);
  return all;
}

/// Empty if all dtypes have a form on devices.
std::string dtype_reason(const Graph& g, const Node& n) {
  for (const ValueId v : operands(n)) {
    const DType t = g.value(v).dtype;
    if (t == DType::U64 || is_host_only(t) || t == DType::Invalid)
      return has_dtype(g.value(v)) + ", which has no device form";
  }
  return {};
}

ValueId float64_of(const Graph& g, const Node& n) {
  for (const ValueId v : operands(n))
    if (g.value(v).dtype == DType::F64) return v;
  return graph::kNone;
}

/// Kernels compute positions along an axis in 32 bits. Views pass a longer one on, and broadcasting
/// and reductions do not need it.
std::string long_axis(const Graph& g, const Node& n, const ops::OpDef& def) {
  using ops::Lowering;
  if (def.lowering == Lowering::Scalar || def.lowering == Lowering::View ||
      def.lowering == Lowering::Reduce)
    return {};
  constexpr int64_t kLongest = std::numeric_limits<int32_t>::max();
  for (const ValueId v : operands(n)) {
    for (const Expr& dim : g.value(v).shape) {
      if (dim.is_const() && dim.value() > kLongest)
        return "'" + g.value(v).name + "' has " + std::to_string(dim.value()) +
               " elements along an axis, and kernels compute positions in 32 bits, at most " +
               std::to_string(kLongest);
    }
  }
  return {};
}

/// Whether the node decides a dim of its results in a run.
bool sizes_depend_on_data(const Graph& g, const Node& n) {
  std::set<SymbolId> given;
  for (const ValueId v : n.inputs) {
    if (v == graph::kNone) continue;
    for (const Expr& dim : g.value(v).shape)
      for (const SymbolId s : dim.symbols()) given.insert(s);
  }
  return std::ranges::any_of(n.outputs.list(), [&](ValueId v) {
    return v != graph::kNone && std::ranges::any_of(g.value(v).shape, [&](const Expr& dim) {
             const auto symbol = dim.as_symbol();
             return symbol && !given.contains(*symbol) &&
                    g.symbol_sources[static_cast<size_t>(*symbol)].known_from_call();
           });
  });
}

/// Why a node is in its ONNX form after decomposition.
std::string reason_of_form(const Graph& g, const Node& n) {
  if (!n.host_reason.empty()) return n.host_reason;
  if (sizes_depend_on_data(g, n)) return "the sizes of " + n.op + " depend on data";
  const ops::OpDef* def = def_of(n);
  const bool never = def == nullptr || (def->lowering == ops::Lowering::None && !def->decompose);
  if (never) return "operator " + n.op + " has no device form";
  const std::string r = dtype_reason(g, n);
  return r.empty() ? "this form of " + n.op + " has no device form" : r;
}

}  // namespace

std::string host_reason(const Graph& g, const Node& n, const shaders::TargetFacts& device) {
  const ops::OpDef* def = def_of(n);
  if (!n.subgraphs.empty()) return "control flow runs on the host";
  if (!ops::is_core(n)) return reason_of_form(g, n);
  const std::optional<GroupKind> kind = kind_begun_by(n);
  if (is_kernel_of_its_own(n) && !kind)
    return "there is no lowering '" + std::string(def->kernel) + "'";
  if (kind && row_of(*kind).refusal != nullptr)
    if (std::string r = row_of(*kind).refusal(g, n); !r.empty()) return r;
  if (std::string r = dtype_reason(g, n); !r.empty()) return r;
  if (std::string r = long_axis(g, n, *def); !r.empty()) return r;
  if (const ValueId wide = float64_of(g, n); wide != graph::kNone && !device.float64())
    return has_dtype(g.value(wide)) + ", which the device does not compute";
  if (const size_t tensors = bound_tensors(g, n); !device.fits_buffers(tensors)) {
    return "it has " + std::to_string(tensors) +
           " tensors, more than devices without buffer addresses can bind to a kernel";
  }
  // Kernels compute the numbers of shapes like indices, in 32 bits.
  if (!def->dims_only) return {};
  for (const Expr& e : ops::Attributes(n).get_exprs("elements")) {
    if (!constants_fit_32_bits(e))
      return "the number " + e.str(g.symbols) + " needs more than 32 bits";
  }
  return {};
}

Result<std::vector<int>> run_order(const std::vector<std::set<int>>& before,
                                   const std::vector<int>& last) {
  std::vector<size_t> waiting(before.size(), 0);
  std::vector<std::vector<int>> after(before.size());
  std::set<std::pair<int, int>> ready;
  size_t live = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    if (last[i] < 0) continue;
    ++live;
    waiting[i] = before[i].size();
    for (int b : before[i]) after[static_cast<size_t>(b)].push_back(static_cast<int>(i));
    if (waiting[i] == 0) ready.insert({last[i], static_cast<int>(i)});
  }
  std::vector<int> sorted;
  while (!ready.empty()) {
    const int i = ready.begin()->second;
    ready.erase(ready.begin());
    sorted.push_back(i);
    for (int a : after[static_cast<size_t>(i)]) {
      const auto at = static_cast<size_t>(a);
      if (--waiting[at] == 0) ready.insert({last[at], a});
    }
  }
  if (sorted.size() != live) return internal_error("fusion made kernels that wait for each other");
  return sorted;
}

}  // namespace reprise::lower
