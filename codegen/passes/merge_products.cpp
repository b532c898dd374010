// Merges products of one operand: x * A, x * B and x * C become x * [A B C], and what read them
// reads slices of the result. Queries, keys and values of attention are the usual case. The same
// operators after all of the products, such as the addition of a bias, are merged, too.
//
// A merged weight consists of the others, which stay apart in memory and in the package. Slices
// start at multiples of kColumns elements, so that kernels load them like tensors of their own.
//
// Whether merging pays depends on the readers: an operator that was computed in the kernel of one
// product cannot follow another one there. So the pass asks fusion for the number of kernels.
// Groups with equal sizes and readers are merged or left alone together. The pass first tries to
// merge all groups, and if that does not save as many kernels as products, each half of them, and
// so on.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/weight_parts.h"
#include "codegen/passes/pass.h"
#include "runtime/package/most_parts.h"

namespace reprise::passes {

namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::ValueId;

constexpr int64_t kColumns = 8;

/// A product and the operators after it that others have, too.
struct Branch {
  std::vector<Node*> nodes;

  Node& product() const { return *nodes.front(); }
  ValueId result() const { return nodes.back()->outputs[0]; }
  ValueId weight() const { return nodes.front()->inputs[1]; }
};

/// Products that become one.
using Site = std::vector<Branch>;

/// What products take together.
struct Size {
  int64_t bytes = 0, columns = 0;  // of the weights, and of the results
};

std::vector<ValueId> weights_of(const Site& site) {
  std::vector<ValueId> out;
  for (const Branch& b : site) out.push_back(b.weight());
  return out;
}

class Merger {
 public:
  Merger(Graph& g, int64_t most_bytes) : g_(g), most_bytes_(most_bytes) {}

  /// The products that can be merged, in the order of the graph.
  std::vector<Site> find() const {
    std::vector<Site> sites;
    std::vector<Size> sizes;
    std::map<ValueId, std::vector<size_t>> by_operand;
    for (const auto& n : g_.nodes()) {
      if (!is_product(*n)) continue;
      std::vector<size_t>& known = by_operand[n->inputs[0]];
      const auto at =
          std::ranges::find_if(known, [&](size_t s) { return fits(sites[s], sizes[s], *n); });
      const size_t site = at == known.end() ? sites.size() : *at;
      if (at == known.end()) {
        known.push_back(site);
        sites.emplace_back();
        sizes.emplace_back();
      }
      sites[site].push_back({{n.get()}});
      sizes[site].bytes += ops::weight_bytes(g_, n->inputs[1]);
      sizes[site].columns += columns(n->outputs[0]);
    }
    remove_shared(sites);
    for (Site& site : sites) {
      while (extend(site)) {
      }
    }
    return sites;
  }

  /// What sites must have in common to be merged or left alone together.
  std::string kind_of(const Site& site) const {
    std::string kind = shape_str(g_.value(site[0].product().inputs[0]).shape, g_.symbols);
    for (const Branch& b : site) {
      kind +=
          "|" + std::to_string(b.nodes.size()) + shape_str(g_.value(b.result()).shape, g_.symbols);
      for (const Node* user : g_.users(b.result())) kind += " " + std::string(user->op);
      if (g_.is_output(b.result())) kind += " output";
    }
    return kind;
  }

  Status merge(const Site& site) {
    const Branch& first = site[0];
    ops::Rewriter rewriter(g_, first.product());
    ops::OpBuilder c(rewriter);
    ValueId y = c.op(first.product().op,
                     {first.product().inputs[0], join(c, weights_of(site), weight_axis(first))},
                     first.product().attrs);
    take_origins(site, 0, y);
    for (size_t i = 1; i < first.nodes.size() && c.ok(); ++i) {
      y = c.op(first.nodes[i]->op, operands(c, site, i, y), first.nodes[i]->attrs);
      take_origins(site, i, y);
    }
    int64_t begin = 0;
    for (const Branch& b : site) {
      const int64_t axis = std::ssize(g_.value(b.result()).shape) - 1, size = columns(b.result());
      const ValueId part = c.slice_axis(y, axis, Expr(begin), Expr(size));
      if (!c.ok()) break;
      g_.value(part).producer->origins = b.nodes.back()->origins;
      RP_TRY(ops::Rewriter(g_, *b.nodes.back()).replace(0, part));
      begin += size;
    }
    RP_TRY(c.finish().status());
    for (const Branch& b : site) {
      for (auto n = b.nodes.rbegin(); n != b.nodes.rend(); ++n) g_.erase_node(*n);
    }
    return {};
  }

 private:
  int64_t columns(ValueId v) const { return g_.value(v).shape.back().value(); }
  size_t weight_axis(const Branch& b) const { return g_.value(b.weight()).shape.size() - 1; }

  bool is_product(const Node& n) const {
    const ops::OpDef* def = ops::core_def(n);
    if (def == nullptr || def->lowering != ops::Lowering::MatMul) return false;
    const graph::Value& result = g_.value(n.outputs[0]);
    return is_float(result.dtype) && ops::weight_of(g_, n.inputs[1]) != kNone &&
           g_.value(n.inputs[1]).shape.size() == 2 && is_static(g_.value(n.inputs[1]).shape) &&
           result.shape.back().is_const() && columns(n.outputs[0]) > 0 &&
           columns(n.outputs[0]) % kColumns == 0;
  }

  /// Whether the product can be merged with those of the site, which have the same left operand.
  /// It is enough that its weight can be joined with the first: all others can be, too.
  bool fits(const Site& site, const Size& size, const Node& n) const {
    if (site.size() >= package::kMostParts) return false;
    const graph::Value& a = g_.value(site[0].result());
    const graph::Value& b = g_.value(n.outputs[0]);
    if (a.dtype != b.dtype ||
        !std::equal(a.shape.begin(), a.shape.end() - 1, b.shape.begin(), b.shape.end() - 1))
      return false;
    const std::array<ValueId, 2> weights{site[0].weight(), n.inputs[1]};
    Shape result = b.shape;
    result.back() = Expr(size.columns + columns(n.outputs[0]));
    const Expr count = element_count(result);
    const bool small =
        !count.is_const() || count.value() * static_cast<int64_t>(size_of(b.dtype)) <= most_bytes_;
    return small && size.bytes + ops::weight_bytes(g_, n.inputs[1]) <= most_bytes_ &&
           ops::can_join(g_, weights, weight_axis(site[0]));
  }

  /// Removes products whose weights other nodes read, so that a device needs no second copy of
  /// them. Sites that have all weights in common share the merged one.
  void remove_shared(std::vector<Site>& sites) const {
    for (bool changed = true; changed;) {
      std::erase_if(sites, [](const Site& s) { return s.size() < 2; });
      std::map<std::vector<ValueId>, size_t> readers;
      for (const Site& site : sites) ++readers[weights_of(site)];
      changed = false;
      for (Site& site : sites) {
        const size_t count = readers.at(weights_of(site));
        const auto is_shared = [&](const Branch& b) {
          return g_.use_count(b.weight()) != count || !is_alone(b.weight());
        };
        changed = std::erase_if(site, is_shared) > 0 || changed;
      }
    }
  }

  /// Whether nothing else reads the values from which a weight is computed.
  bool is_alone(ValueId w) const {
    const ValueId stored = ops::weight_of(g_, w);
    while (w != stored) {
      w = g_.value(w).producer->inputs[0];
      if (g_.use_count(w) != 1) return false;
    }
    return true;
  }

  /// Adds the operators that follow all branches, if they do the same to each column.
  bool extend(Site& site) const {
    std::vector<Node*> next;
    for (const Branch& b : site) {
      if (g_.is_output(b.result()) || g_.users(b.result()).size() != 1) return false;
      next.push_back(g_.users(b.result())[0]);
    }
    const auto op = ops::scalar_op(*next[0]);
    for (size_t i = 0; i < site.size(); ++i) {
      const Node& n = *next[i];
      if (!op || ops::scalar_op(n) != op || n.inputs.size() != next[0]->inputs.size()) return false;
      const graph::Value& out = g_.value(n.outputs[0]);
      if (out.shape != g_.value(site[i].result()).shape ||
          out.dtype != g_.value(next[0]->outputs[0]).dtype)
        return false;
    }
    for (size_t input = 0; input < next[0]->inputs.size(); ++input) {
      std::vector<ValueId> list;
      list.reserve(next.size());
      for (const Node* n : next) list.push_back(n->inputs[input]);
      if (!is_result(site, list) && !is_same_number(list) && !has_columns(site, list)) return false;
    }
    for (size_t i = 0; i < site.size(); ++i) site[i].nodes.push_back(next[i]);
    return true;
  }

  static bool is_result(const Site& site, const std::vector<ValueId>& list) {
    for (size_t i = 0; i < site.size(); ++i)
      if (list[i] != site[i].result()) return false;
    return true;
  }

  bool is_same_number(const std::vector<ValueId>& list) const {
    return std::ranges::all_of(list, [&](ValueId v) {
      const auto& t = g_.value(v).constant;
      return t && t->count() == 1 && g_.value(v).dtype == g_.value(list[0]).dtype &&
             g_.value(v).shape == g_.value(list[0]).shape &&
             std::ranges::equal(t->bytes(), g_.value(list[0]).constant->bytes());
    });
  }

  /// Whether these are constants with a number for each column.
  bool has_columns(const Site& site, const std::vector<ValueId>& list) const {
    for (size_t i = 0; i < site.size(); ++i) {
      const graph::Value& v = g_.value(list[i]);
      if (!v.constant || v.constant->dims().empty() ||
          v.constant->dims().size() > g_.value(site[i].result()).shape.size() ||
          v.constant->count() != columns(site[i].result()) ||
          v.constant->dims().back() != v.constant->count())
        return false;
    }
    return ops::can_join(g_, list, g_.value(list[0]).shape.size() - 1);
  }

  /// The operands of node `i` of the branches, merged. `y`: those of node i - 1.
  std::vector<ValueId> operands(ops::OpBuilder& c, const Site& site, size_t i, ValueId y) {
    std::vector<ValueId> out;
    for (size_t input = 0; input < site[0].nodes[i]->inputs.size(); ++input) {
      std::vector<ValueId> list;
      for (const Branch& b : site) list.push_back(b.nodes[i]->inputs[input]);
      if (list[0] == site[0].nodes[i - 1]->outputs[0]) {
        out.push_back(y);
      } else if (is_same_number(list)) {
        out.push_back(list[0]);
      } else {
        out.push_back(join(c, list, g_.value(list[0]).shape.size() - 1));
      }
    }
    return out;
  }

  ValueId join(ops::OpBuilder& c, const std::vector<ValueId>& list, size_t axis) {
    const auto [at, is_new] = joined_.try_emplace(list);
    if (is_new) at->second = ops::join_weights(c, list, axis);
    return at->second;
  }

  void take_origins(const Site& site, size_t i, ValueId v) {
    if (v == kNone) return;
    Node& n = *g_.value(v).producer;
    n.origins.clear();
    for (const Branch& b : site) {
      for (const std::string& origin : b.nodes[i]->origins) {
        if (std::ranges::find(n.origins, origin) == n.origins.end()) n.origins.push_back(origin);
      }
    }
    const Node& from = *site[0].nodes[i];
    n.origin_op = from.origin_op.empty() ? from.op : from.origin_op;
  }

  Graph& g_;
  int64_t most_bytes_;
  std::map<std::vector<ValueId>, ValueId> joined_;
};

/// Merges the sites of some kinds.
Status merge_kinds(Graph& g, int64_t most_bytes, const std::set<std::string>& kinds) {
  Merger merger(g, most_bytes);
  const std::vector<Site> sites = merger.find();
  std::vector<std::string> kind;  // before anything changes
  kind.reserve(sites.size());
  for (const Site& site : sites) kind.push_back(merger.kind_of(site));
  for (size_t i = 0; i < sites.size(); ++i) {
    if (kinds.contains(kind[i])) RP_TRY(merger.merge(sites[i]));
  }
  return dce(g);
}

struct Kind {
  std::string name;
  int64_t saved = 0;  // products, if its sites are merged
};

/// The kinds of sites in the order of the graph.
std::vector<Kind> kinds_of(Graph& g, int64_t most_bytes) {
  std::vector<Kind> out;
  const Merger merger(g, most_bytes);
  for (const Site& site : merger.find()) {
    std::string name = merger.kind_of(site);
    auto at = std::ranges::find(out, name, &Kind::name);
    if (at == out.end()) at = out.insert(at, {std::move(name), 0});
    at->saved += std::ssize(site) - 1;
  }
  return out;
}

/// Chooses the kinds of sites that save as many kernels as products.
class Choice {
 public:
  Choice(const Graph& g, int64_t most_bytes, const CountKernels& count)
      : g_(g), most_bytes_(most_bytes), count_(count) {}

  Result<std::set<std::string>> of(std::span<const Kind> kinds) {
    RP_ASSIGN(kernels_, count_(g_));
    RP_TRY(choose(kinds, true).status());
    return std::move(chosen_);
  }

 private:
  /// Each trial takes the time of one fusion. Kinds for which none is left stay apart.
  static constexpr int kMostTrials = 16;

  /// Whether all the kinds were chosen; if not, some of them may have been. If `may_pay` is false,
  /// they are known not to pay together.
  Result<bool> choose(std::span<const Kind> kinds, bool may_pay) {
    if (may_pay) {
      RP_ASSIGN(const bool pays, attempt(kinds));
      if (pays) return true;
    }
    if (kinds.size() == 1) return false;
    const size_t half = kinds.size() / 2;
    RP_ASSIGN(const bool first, choose(kinds.first(half), true));
    // All together do not pay, so that after one half that does, the other one does not.
    RP_TRY(choose(kinds.subspan(half), !first).status());
    return false;
  }

  Result<bool> attempt(std::span<const Kind> kinds) {
    if (trials_ == kMostTrials) return false;
    ++trials_;
    std::set<std::string> more = chosen_;
    int64_t saved = 0;
    for (const Kind& kind : kinds) {
      more.insert(kind.name);
      saved += kind.saved;
    }
    const std::unique_ptr<Graph> trial = g_.clone();
    RP_TRY(merge_kinds(*trial, most_bytes_, more));
    RP_ASSIGN(const int64_t kernels, count_(*trial));
    if (kernels_ - kernels < saved) return false;
    kernels_ = kernels;
    chosen_ = std::move(more);
    return true;
  }

  const Graph& g_;
  int64_t most_bytes_;
  const CountKernels& count_;
  int64_t kernels_ = 0;  // with the chosen kinds merged
  std::set<std::string> chosen_;
  int trials_ = 0;
};

}  // namespace

Status merge_products(PassContext& context) {
  Graph& g = context.graph();
  int64_t most_bytes = context.option("bytes");
  if (const int64_t largest = context.option("split-weights", "bytes"); largest > 0)
    most_bytes = std::min(most_bytes, largest);
  const std::vector<Kind> kinds = kinds_of(g, most_bytes);
  if (kinds.empty()) return {};
  std::set<std::string> chosen;
  if (context.count_kernels()) {
    RP_ASSIGN(chosen, Choice(g, most_bytes, context.count_kernels()).of(kinds));
  } else {
    for (const Kind& kind : kinds) chosen.insert(kind.name);
  }
  return chosen.empty() ? Status() : merge_kinds(g, most_bytes, chosen);
}

}  // namespace reprise::passes
