// Fusion: which nodes become one kernel. Contractions and reductions grow regions downwards through
// their consumers; what is left is computed inside its consumers where that costs little, or
// becomes pointwise groups. Every decision asks three questions: do the values line up
// (lower::check), would two kernels wait for each other, and how many flops would be executed
// twice.
#include <algorithm>
#include <map>
#include <set>

#include "codegen/lower/attention.h"
#include "codegen/lower/cost.h"
#include "codegen/lower/kernel_limits.h"
#include "codegen/lower/lower.h"
#include "codegen/lower/waiting.h"
#include "codegen/ops/quantize.h"

namespace reprise::lower {

namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::ValueId;

class Fuser {
 public:
  Fuser(const Graph& g, bool enabled, FuseAttention attention, const Predicate& device,
        const std::set<const Node*>& separate)
      : g_(g),
        enabled_(enabled),
        attention_(enabled ? attention : FuseAttention::Never),
        device_(device),
        separate_(separate),
        uses_(g.compute_uses()),
        waiting_(g, uses_),
        order_(waiting_.order()) {}

  Result<Fusion> run() {
    host_groups();
    for (Node* n : order_) {
      if (free(*n) && separate_.count(n) != 0) seal(n);
    }
    for (Node* n : order_) {
      if (attention_ != FuseAttention::Never && free(*n)) attention(n);
    }
    for (Node* n : order_) {
      if (free(*n) && is_contraction(*n)) add_region(group_of(n));
    }
    for (Node* n : order_) {
      if (free(*n) && is_reduction(*n)) add_region(group_of(n));
    }
    for (size_t i = order_.size(); i-- > 0;) {
      if (free(*order_[i])) place(order_[i]);
    }
    if (enabled_) merge_siblings();
    return finish();
  }

 private:
  int pos(const Node* n) const { return waiting_.pos(n); }
  std::vector<int>& groups_of(const Node* n) { return waiting_.groups_of(n); }
  const std::vector<int>& groups_of(const Node* n) const { return waiting_.groups_of(n); }
  bool free(const Node& n) const { return groups_of(&n).empty(); }
  Group& group(int id) { return groups_[static_cast<size_t>(id)]; }

  void host_groups() {
    for (Node* n : order_) {
      std::string reason = host_reason(g_, *n);
      if (reason.empty()) continue;
      Group gr;
      gr.kind = GroupKind::Host;
      gr.host_reason = std::move(reason);
      add_group(std::move(gr), {n});
      for (ValueId v : n->outputs) {
        if (v != kNone) group(static_cast<int>(groups_.size()) - 1).outputs.push_back(v);
      }
    }
  }

  int add_group(Group gr, const std::vector<Node*>& nodes) {
    const int id = static_cast<int>(groups_.size());
    gr.nodes = nodes;
    for (Node* n : nodes) groups_of(n).push_back(id);
    waiting_.widen(gr);
    groups_.push_back(std::move(gr));
    return id;
  }

  void insert_node(Group& gr, Node* n) const {
    auto it = std::lower_bound(gr.nodes.begin(), gr.nodes.end(), n,
                               [&](const Node* a, const Node* b) { return pos(a) < pos(b); });
    if (it == gr.nodes.end() || *it != n) gr.nodes.insert(it, n);
  }

  // ------------------------------------------------------------ regions around anchors

  /// A group of n alone, without its outputs.
  Group group_of(Node* n) const {
    Group gr;
    gr.nodes = {n};
    gr.domain = g_.value(n->outputs[0]).shape;
    if (is_contraction(*n)) {
      gr.kind = GroupKind::Contraction;
      gr.anchor = n;
    } else if (is_reduction(*n)) {
      gr.kind = GroupKind::Row;
      gr.anchor = n;
      gr.domain = g_.value(n->inputs[0]).shape;
      gr.reduced = n->attrs.get_ints("axes");
    }
    return gr;
  }

  /// A group that nothing joins.
  void seal(Node* n) {
    Group gr = group_of(n);
    gr.sealed = true;
    gr.outputs = outputs_of(gr);
    add_group(std::move(gr), {n});
  }

  void add_region(Group gr) {
    if (enabled_) grow(gr);
    trim_views(gr);
    gr.outputs = outputs_of(gr);
    add_group(gr, gr.nodes);
  }

  /// The attention that ends with n, if it does and one kernel is the better choice.
  void attention(Node* n) {
    std::optional<Group> found = match_attention(g_, uses_, n);
    if (!found) return;
    std::vector<Node*> nodes;
    std::swap(nodes, found->nodes);
    for (Node* x : nodes) {
      if (!free(*x)) return;
      insert_node(*found, x);
    }
    found->outputs = outputs_of(*found);
    if (creates_cycle(found->nodes) || !check(g_, *found).ok()) return;
    if (attention_ == FuseAttention::Priced) {
      priced_ = true;
      const std::string why_not = attention_refusal(g_, *found, device_);
      if (!why_not.empty()) {
        apart_.emplace_back(std::move(*found), why_not);
        return;
      }
    }
    add_region(std::move(*found));
  }

  static bool contains(const Group& gr, const Node* n) {
    return std::find(gr.nodes.begin(), gr.nodes.end(), n) != gr.nodes.end();
  }

  /// Values of the region that something outside it needs.
  std::vector<ValueId> outputs_of(const Group& gr) const {
    std::vector<ValueId> out;
    for (const Node* n : gr.nodes) {
      for (ValueId v : n->outputs) {
        if (v == kNone) continue;
        bool outside = g_.is_output(v);
        for (const Node* u : uses_[static_cast<size_t>(v)]) outside |= !contains(gr, u);
        if (outside) out.push_back(v);
      }
    }
    return out;
  }

  void grow(Group& gr) {
    std::set<const Node*> refused;
    for (bool changed = true; changed && gr.nodes.size() < kMaxNodes;) {
      changed = false;
      std::set<std::pair<int, Node*>> candidates;
      for (const Node* n : gr.nodes) {
        for (ValueId v : n->outputs) {
          if (v == kNone) continue;
          for (Node* u : uses_[static_cast<size_t>(v)]) {
            if (!contains(gr, u) && refused.count(u) == 0) candidates.insert({pos(u), u});
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
        refuse(gr, n, why_not);
      }
    }
  }

  void refuse(const Group& gr, const Node* n, const std::string& reason) {
    for (ValueId v : n->inputs) {
      if (v == kNone) continue;
      const Node* p = g_.value(v).producer;
      if (p != nullptr && contains(gr, p)) reasons_[{p, n}] = reason;
    }
  }

  bool matches(const Group& gr, const Node& n) const {
    const ops::OpDef* def = def_of(n);
    const bool elementwise =
        def->lowering == ops::Lowering::View || def->lowering == ops::Lowering::Scalar;
    const Expr full = element_count(gr.domain);
    if (gr.kind != GroupKind::Row) {
      return elementwise && element_count(g_.value(n.outputs[0]).shape) == full;
    }
    const Expr rows = element_count(row_shape(gr.domain, gr.reduced));
    if (is_reduction(n)) {
      return element_count(g_.value(n.inputs[0]).shape) == full &&
             element_count(g_.value(n.outputs[0]).shape) == rows;
    }
    const Expr count = element_count(g_.value(n.outputs[0]).shape);
    return elementwise && (count == full || count == rows);
  }

  /// Adds n, with the free nodes that must come along, to the region; or says why not.
  std::string admit(Group& gr, Node* n) {
    if (is_contraction(*n)) return "'" + n->name + "' reads each element of its input many times";
    if (!groups_of(n).empty()) {
      const Group& owner = group(groups_of(n)[0]);
      if (owner.kind == GroupKind::Host) return "'" + n->name + "' runs on the host";
      return "'" + n->name + "' is computed in the kernel of '" + owner.nodes.front()->name + "'";
    }
    if (is_reduction(*n) && gr.kind != GroupKind::Row) {
      return "'" + n->name + "' needs whole rows, which several workgroups compute";
    }
    std::vector<Node*> closure;
    if (std::string r = collect(gr, n, closure); !r.empty()) return r;
    Group grown = gr;
    for (Node* c : closure) insert_node(grown, c);
    if (std::string r = too_large(g_, grown.kind, grown.nodes); !r.empty()) return r;
    if (creates_cycle(grown.nodes)) {
      return "'" + n->name + "' waits for another kernel that needs this one's result";
    }
    grown.outputs = outputs_of(grown);
    if (grown.outputs.size() > kMaxOutputs) return "the kernel would have too many outputs";
    if (Status s = check(g_, grown); !s.ok()) return s.message();
    gr = std::move(grown);
    return {};
  }

  /// n and its free ancestors that depend on the region or are reductions over the same rows: they
  /// can only be computed inside.
  std::string collect(const Group& gr, Node* n, std::vector<Node*>& closure) {
    if (contains(gr, n) || std::find(closure.begin(), closure.end(), n) != closure.end()) return {};
    if (!free(*n)) return {};
    if (is_contraction(*n) || (is_reduction(*n) && gr.kind != GroupKind::Row)) return {};
    if (!matches(gr, *n)) return "'" + n->name + "' works on another shape";
    closure.push_back(n);
    for (ValueId v : n->inputs) {
      Node* p = v == kNone ? nullptr : g_.value(v).producer;
      if (p == nullptr || contains(gr, p) || !free(*p)) continue;
      if (depends_on_region(gr, p)) {
        if (std::string r = collect(gr, p, closure); !r.empty()) return r;
      } else if (gr.kind == GroupKind::Row) {
        collect_reductions(gr, p, closure);
      }
    }
    return {};
  }

  /// Sibling reductions over the same rows that n needs: E[x^2] beside E[x].
  void collect_reductions(const Group& gr, Node* p, std::vector<Node*>& closure) {
    std::vector<Node*> path;
    Node* at = p;
    for (int depth = 0; depth < 8; ++depth) {
      if (!free(*at) || is_contraction(*at)) return;
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
    const int first = pos(gr.nodes.front());
    while (!stack.empty()) {
      const Node* x = stack.back();
      stack.pop_back();
      if (contains(gr, x)) return true;
      if (pos(x) < first || !seen.insert(x).second) continue;
      for (ValueId v : x->inputs) {
        if (v != kNone && g_.value(v).producer != nullptr) stack.push_back(g_.value(v).producer);
      }
    }
    return false;
  }

  bool creates_cycle(const std::vector<Node*>& nodes) const {
    return waiting_.creates_cycle(nodes, groups_);
  }

  /// A view at the end of a region costs nothing in its consumers, and the value before it is
  /// stored once.
  void trim_views(Group& gr) {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = gr.nodes.size(); i-- > 0;) {
        Node* n = gr.nodes[i];
        const ops::OpDef* def = def_of(*n);
        if (n == gr.anchor || def->lowering != ops::Lowering::View) continue;
        bool used = g_.is_output(n->outputs[0]);
        for (const Node* u : uses_[static_cast<size_t>(n->outputs[0])]) used |= contains(gr, u);
        if (used) continue;
        gr.nodes.erase(gr.nodes.begin() + static_cast<std::ptrdiff_t>(i));
        changed = true;
      }
    }
  }

  // ------------------------------------------------------------ light nodes

  std::set<int> consumers(const Node* n) const {
    std::set<int> out;
    for (ValueId v : n->outputs) {
      if (v == kNone) continue;
      for (const Node* u : uses_[static_cast<size_t>(v)]) {
        out.insert(groups_of(u).begin(), groups_of(u).end());
      }
    }
    return out;
  }

  void place(Node* n) {
    const ValueId v = n->outputs[0];
    std::set<int> users = consumers(n);
    bool must_store = g_.is_output(v) || n->outputs.size() > 1;
    bool open = enabled_;
    for (int id : users) {
      must_store |= group(id).kind == GroupKind::Host;
      open &= !group(id).sealed;
    }
    if (users.empty() && !must_store) return;  // dead
    const ops::OpDef* def = def_of(*n);
    const bool renames = n->op == "Reshape" && def->lowering == ops::Lowering::View;
    if (!must_store && (open || renames || ops::is_core_dequantize(*n))) {
      if (enabled_ && light_cost(g_, *n) > 0 && users.size() > 1) users = merge_all(users, v);
      const std::string why_not = inlined(n, users);
      if (why_not.empty()) {
        for (int id : users) {
          insert_node(group(id), n);
          waiting_.widen(group(id));
          groups_of(n).push_back(id);
        }
        return;
      }
      for (const Node* u : uses_[static_cast<size_t>(v)]) reasons_.try_emplace({n, u}, why_not);
    }
    store(n, users);
  }

  /// Merges the pointwise groups among the users that share v's domain, so that v is computed once.
  std::set<int> merge_all(const std::set<int>& users, ValueId v) {
    const Expr count = element_count(g_.value(v).shape);
    int into = -1;
    std::set<int> left;
    for (int id : users) {
      Group& gr = group(id);
      const bool same =
          gr.kind == GroupKind::Pointwise && !gr.sealed && element_count(gr.domain) == count;
      if (!same || into < 0 || !merge(into, id)) left.insert(id);
      if (same && into < 0) into = id;
    }
    return left;
  }

  /// Group `from` becomes part of `into`; false if they do not fit.
  bool merge(int into, int from) {
    Group& a = group(into);
    Group& b = group(from);
    if (a.sealed || b.sealed || a.outputs.size() + b.outputs.size() > kMaxOutputs) return false;
    std::vector<Node*> all = a.nodes;
    for (Node* n : b.nodes) {
      if (!contains(a, n)) all.push_back(n);
    }
    if (!too_large(g_, a.kind, all).empty() || creates_cycle(all)) return false;
    for (Node* n : b.nodes) {
      auto& owners = groups_of(n);
      std::replace(owners.begin(), owners.end(), from, into);
      std::sort(owners.begin(), owners.end());
      owners.erase(std::unique(owners.begin(), owners.end()), owners.end());
      insert_node(a, n);
    }
    waiting_.widen(a);
    a.outputs.insert(a.outputs.end(), b.outputs.begin(), b.outputs.end());
    b.nodes.clear();
    b.outputs.clear();
    return true;
  }

  /// Empty when computing n inside all these kernels is cheap enough; else the reason.
  std::string inlined(const Node* n, const std::set<int>& ids) {
    std::vector<const Group*> users;
    users.reserve(ids.size());
    for (int id : ids) users.push_back(&group(id));
    return inline_cost(g_, uses_, *n, users);
  }

  /// Whether the kernel runs the loops of n again for other elements than those that it stores.
  bool repeats_loops(const Group& gr, const Node* n) const {
    return def_of(*n)->reads_per_element != nullptr &&
           evaluations(g_, gr, *n, uses_) > count_hint(g_, g_.value(n->outputs[0]).shape);
  }

  /// n's value gets memory: in a kernel of its own, or as one more output of a user over the same
  /// domain.
  void store(Node* n, const std::set<int>& users) {
    const Expr count = element_count(g_.value(n->outputs[0]).shape);
    if (enabled_ && n->outputs.size() == 1) {
      for (int id : users) {
        Group& gr = group(id);
        const bool fits = (gr.kind == GroupKind::Pointwise || gr.kind == GroupKind::Row) &&
                          !gr.sealed && element_count(gr.domain) == count &&
                          gr.outputs.size() < kMaxOutputs;
        if (!fits) continue;
        Group grown = gr;
        insert_node(grown, n);
        if (!too_large(g_, grown.kind, grown.nodes).empty()) continue;
        grown.outputs.push_back(n->outputs[0]);
        if (creates_cycle(grown.nodes) || repeats_loops(grown, n) || !check(g_, grown).ok())
          continue;
        gr = std::move(grown);
        waiting_.widen(gr);
        groups_of(n).push_back(id);
        return;
      }
    }
    Group gr = group_of(n);
    for (ValueId v : n->outputs) {
      if (v != kNone && (g_.is_output(v) || !uses_[static_cast<size_t>(v)].empty())) {
        gr.outputs.push_back(v);
      }
    }
    add_group(std::move(gr), {n});
  }

  /// Pointwise kernels over one domain that read a common value become one launch.
  void merge_siblings() {
    for (int i = 0; i < static_cast<int>(groups_.size()); ++i) {
      for (int j = next_sibling(i, i); j >= 0; j = next_sibling(i, j)) merge(i, j);
    }
  }

  /// The first group after `after` that may merge with i; -1 if there is none.
  int next_sibling(int i, int after) {
    const Group& a = group(i);
    if (a.kind != GroupKind::Pointwise) return -1;
    int next = -1;
    const auto read_of = [&](ValueId v) {
      if (v == kNone || g_.value(v).constant) return;
      for (const Node* u : uses_[static_cast<size_t>(v)]) {
        for (int j : groups_of(u)) {
          const bool sooner = j > after && (next < 0 || j < next);
          if (sooner && group(j).kind == GroupKind::Pointwise &&
              element_count(a.domain) == element_count(group(j).domain))
            next = j;
        }
      }
    };
    for (const Node* n : a.nodes) std::for_each(n->inputs.begin(), n->inputs.end(), read_of);
    std::for_each(a.outputs.begin(), a.outputs.end(), read_of);
    return next;
  }

  // ------------------------------------------------------------ result

  Result<Fusion> finish() {
    Fusion out;
    for (const auto& [gr, reason] : apart_) {
      for (const Node* n : gr.nodes) refuse(gr, n, reason);
    }
    std::vector<int> owner(g_.values().size(), -1);
    for (size_t i = 0; i < groups_.size(); ++i) {
      for (ValueId v : groups_[i].outputs) owner[static_cast<size_t>(v)] = static_cast<int>(i);
    }
    std::vector<std::set<int>> before(groups_.size());
    for (size_t i = 0; i < groups_.size(); ++i) {
      for (const Node* n : groups_[i].nodes) {
        for (ValueId v : n->inputs) {
          const int o = v == kNone ? -1 : owner[static_cast<size_t>(v)];
          if (o < 0 || o == static_cast<int>(i)) continue;
          before[i].insert(o);
          explain_edge(out, v, n, groups_[static_cast<size_t>(o)], groups_[i]);
        }
        for (const Node* teller : waiting_.sizes_from(n)) {
          for (const int o : groups_of(teller)) {
            if (o != static_cast<int>(i)) before[i].insert(o);
          }
        }
      }
    }
    std::vector<int> last;
    for (const Group& gr : groups_) last.push_back(gr.nodes.empty() ? -1 : pos(gr.nodes.back()));
    RP_ASSIGN(const std::vector<int> sorted, run_order(before, last));
    out.priced = priced_;
    for (int i : sorted) out.groups.push_back(std::move(groups_[static_cast<size_t>(i)]));
    return out;
  }

  void explain_edge(Fusion& out, ValueId v, const Node* to, const Group& a, const Group& b) const {
    const Node* from = g_.value(v).producer;
    std::string reason;
    if (separate_.count(from) != 0 || separate_.count(to) != 0) {
      reason =
          "one kernel for both could not be written, which is a fault of the compiler; please "
          "report it";
    } else if (auto it = reasons_.find({from, to}); it != reasons_.end()) {
      reason = it->second;
    } else if (!enabled_) {
      reason = "fusion is switched off";
    } else if (a.kind == GroupKind::Host || b.kind == GroupKind::Host) {
      reason = "one side runs on the host: " + (a.kind == GroupKind::Host ? a : b).host_reason;
    } else if (is_contraction(*to)) {
      reason = "'" + to->name + "' reads each element of its input many times";
    } else if (b.kind == GroupKind::Contraction || b.kind == GroupKind::Attention) {
      reason = "'" + to->name + "' follows '" + b.anchor->name +
               "' in its kernel, which needs other inputs first";
    } else if (a.kind == GroupKind::Row) {
      reason = "'" + to->name + "' reads values that other rows of the kernel compute";
    } else {
      reason = "'" + g_.value(v).name + "' is needed by several kernels";
    }
    out.unfused.push_back({from->name, to->name, reason});
  }

  const Graph& g_;
  bool enabled_;
  FuseAttention attention_;
  Predicate device_;
  const std::set<const Node*>& separate_;
  bool priced_ = false;
  std::vector<std::pair<Group, std::string>> apart_;  // attention as separate kernels, and why
  std::vector<std::vector<Node*>> uses_;
  Waiting waiting_;
  const std::vector<Node*>& order_;
  std::vector<Group> groups_;
  std::map<std::pair<const Node*, const Node*>, std::string> reasons_;
};

}  // namespace

Result<Fusion> fuse(const Graph& g, bool enabled, FuseAttention attention, const Predicate& device,
                    const std::set<const Node*>& separate) {
  return Fuser(g, enabled, attention, device, separate).run();
}

}  // namespace reprise::lower
