// Regions: a contraction, reduction or scan takes in its consumers as long as the values line up.
#include <algorithm>
#include <set>
#include <vector>

#include "codegen/lower/fuse/fuse_steps.h"
#include "codegen/lower/group/group_lowering.h"
#include "codegen/lower/group/kernel_limits.h"

namespace reprise::lower {

using graph::kNone;
using graph::Node;
using graph::ValueId;

namespace {

class RegionGrower {
 public:
  explicit RegionGrower(Partition& p) : p_(p), g_(p.graph()) {}

  void grow(Group& gr) {
    std::set<const Node*> refused;
    for (bool changed = true; changed && gr.nodes.size() < kMaxNodes;) {
      changed = false;
      std::set<std::pair<int, Node*>> candidates;
      for (const Node* n : gr.nodes) {
        for (ValueId v : n->outputs) {
          if (v == kNone) continue;
          for (Node* u : p_.users(v)) {
            if (!contains(gr, u) && refused.count(u) == 0) candidates.insert({p_.pos(u), u});
          }
        }
      }
      for (const auto& [p, n] : candidates) {
        const std::string why_not = admit(gr, n);
        if (why_not.empty()) {
          changed = true;
          break;
        }
        refused.insert(n);
        p_.explain(gr, n, why_not);
      }
    }
  }

  /// Removes views from the end of a region: they cost nothing in its consumers, and the region
  /// then stores the value before them only once.
  void trim_views(Group& gr) {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = gr.nodes.size(); i-- > 0;) {
        Node* n = gr.nodes[i];
        const ops::OpDef* def = def_of(*n);
        if (n == gr.anchor || def->lowering != ops::Lowering::View) continue;
        bool used = g_.is_output(n->outputs[0]);
        for (const Node* u : p_.users(n->outputs[0])) used |= contains(gr, u);
        if (used) continue;
        gr.nodes.erase(gr.nodes.begin() + static_cast<std::ptrdiff_t>(i));
        changed = true;
      }
    }
  }

 private:
  bool matches(const Group& gr, const Node& n) const {
    const ops::OpDef* def = def_of(n);
    const bool elementwise =
        def->lowering == ops::Lowering::View || def->lowering == ops::Lowering::Scalar;
    const Expr full = element_count(gr.domain);
    if (!row_of(gr.kind).reduces_rows) {
      return elementwise && element_count(g_.value(n.outputs[0]).shape) == full;
    }
    if (is_reduction(n)) {
      return kept_and_reduced(g_.value(n.inputs[0]).shape, ops::Attributes(n).get_ints("axes")) ==
             kept_and_reduced(gr.domain, gr.reduced);
    }
    const Expr rows = element_count(row_shape(gr.domain, gr.reduced));
    const Expr count = element_count(g_.value(n.outputs[0]).shape);
    return elementwise && (count == full || count == rows);
  }

  /// Adds n to the region, with the free nodes that must join with it. Returns why not, or nothing.
  std::string admit(Group& gr, Node* n) {
    if (is_contraction(*n)) return "'" + n->name + "' reads each element of its input many times";
    if (is_scan(*n)) return "'" + n->name + "' reads its whole input before it computes";
    if (!p_.groups_of(n).empty()) {
      const Group& owner = p_.group(p_.groups_of(n)[0]);
      if (owner.kind == GroupKind::Memory) return "'" + n->name + "' is memory of a state";
      if (owner.kind == GroupKind::Host)
        return "'" + n->name + (n->subgraphs.empty() ? "' runs on the host" : "' is control flow");
      return "'" + n->name + "' is computed in the kernel of '" + owner.nodes.front()->name + "'";
    }
    if (is_reduction(*n) && !row_of(gr.kind).reduces_rows) {
      return "'" + n->name + "' needs whole rows, which several workgroups compute";
    }
    std::vector<Node*> closure;
    if (std::string r = collect(gr, n, closure); !r.empty()) return r;
    Group grown = gr;
    for (Node* c : closure) p_.insert(grown, c);
    if (std::string r = too_large(g_, grown.kind, grown.nodes); !r.empty()) return r;
    if (std::string r = p_.too_many_buffers(grown); !r.empty()) return r;
    if (p_.creates_cycle(grown.nodes)) {
      return "'" + n->name + "' waits for another kernel that needs this one's result";
    }
    grown.outputs = p_.outputs_of(grown);
    if (grown.outputs.size() > kMaxOutputs) return "the kernel would have too many outputs";
    if (Status s = p_.test_indices(grown); !s.ok()) return s.message();
    if (std::string r = p_.decide(FusionDecision::Kind::Region, *n, gr); !r.empty()) return r;
    gr = std::move(grown);
    return {};
  }

  /// Why `wanted` cannot join the region: n, which it is or needs, has another shape.
  std::string unlike(const Group& gr, const Node& wanted, const Node& n) const {
    const ValueId v = is_reduction(n) ? n.inputs[0] : n.outputs[0];
    const std::string subject =
        "'" + wanted.name + "' " + (&wanted == &n ? "" : "also needs '" + n.name + "', which ");
    if (g_.value(v).shape == gr.domain) return subject + "reduces other axes than the kernel";
    return subject + "works on " + shape_str(g_.value(v).shape, g_.symbols) + ", the kernel on " +
           shape_str(gr.domain, g_.symbols);
  }

  /// Collects n and those of its free ancestors that can only be computed inside: they depend on
  /// the region, or are reductions over the same rows. Returns why that is impossible, or nothing.
  std::string collect(const Group& gr, Node* n, std::vector<Node*>& closure) {
    if (contains(gr, n) || std::find(closure.begin(), closure.end(), n) != closure.end()) return {};
    if (!p_.is_free(*n)) return {};
    if (is_contraction(*n) || (is_reduction(*n) && !row_of(gr.kind).reduces_rows)) return {};
    if (!matches(gr, *n)) return unlike(gr, closure.empty() ? *n : *closure.front(), *n);
    closure.push_back(n);
    for (ValueId v : n->inputs) {
      Node* p = v == kNone ? nullptr : g_.value(v).producer;
      if (p == nullptr || contains(gr, p) || !p_.is_free(*p)) continue;
      if (depends_on_region(gr, p)) {
        if (std::string r = collect(gr, p, closure); !r.empty()) return r;
      } else if (row_of(gr.kind).reduces_rows) {
        collect_reductions(gr, p, closure);
      }
    }
    return {};
  }

  /// Collects a sibling reduction over the same rows, such as E[x^2] beside E[x], and the nodes
  /// between it and p.
  void collect_reductions(const Group& gr, Node* p, std::vector<Node*>& closure) {
    std::vector<Node*> path;
    Node* at = p;
    for (int depth = 0; depth < 8; ++depth) {
      if (!p_.is_free(*at) || is_contraction(*at)) return;
      path.push_back(at);
      if (is_reduction(*at)) {
        if (!matches(gr, *at)) return;
        for (Node* q : path) {
          if (std::find(closure.begin(), closure.end(), q) == closure.end()) closure.push_back(q);
        }
        return;
      }
      Node* next = nullptr;
      for (ValueId v : at->inputs) {
        Node* q = v == kNone ? nullptr : g_.value(v).producer;
        if (q != nullptr &&
            element_count(g_.value(v).shape) == element_count(row_shape(gr.domain, gr.reduced))) {
          next = q;
        }
      }
      if (next == nullptr || !matches(gr, *at)) return;
      at = next;
    }
  }

  bool depends_on_region(const Group& gr, const Node* n) const {
    std::set<const Node*> seen;
    std::vector<const Node*> stack{n};
    const int first = p_.pos(gr.nodes.front());
    while (!stack.empty()) {
      const Node* x = stack.back();
      stack.pop_back();
      if (contains(gr, x)) return true;
      if (p_.pos(x) < first || !seen.insert(x).second) continue;
      for (ValueId v : x->inputs) {
        if (v != kNone && g_.value(v).producer != nullptr) stack.push_back(g_.value(v).producer);
      }
    }
    return false;
  }

  Partition& p_;
  const graph::Graph& g_;
};

}  // namespace

std::vector<Expr> kept_and_reduced(const Shape& shape, const std::vector<int64_t>& axes) {
  std::vector<Expr> out{1};
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].is_const(1)) continue;
    const bool reduced = std::ranges::find(axes, static_cast<int64_t>(i)) != axes.end();
    if (reduced != (out.size() % 2 == 0)) out.emplace_back(1);
    out.back() *= shape[i];
  }
  return out;
}

void add_region(Partition& p, Group seed, bool enabled) {
  RegionGrower region(p);
  if (enabled) region.grow(seed);
  region.trim_views(seed);
  seed.outputs = p.outputs_of(seed);
  p.add(std::move(seed));
}

}  // namespace reprise::lower
