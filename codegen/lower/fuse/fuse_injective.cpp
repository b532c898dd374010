// Injective nodes, which no region took in: each is computed inside the kernels that read it where
// that costs little, or becomes part of a pointwise kernel.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "codegen/lower/fuse/fuse_steps.h"
#include "codegen/lower/group/group_lowering.h"
#include "codegen/lower/group/kernel_limits.h"

namespace reprise::lower {

using graph::kNone;
using graph::Node;
using graph::ValueId;

namespace {

constexpr size_t kMaxSiblings = 64;  // kernels that one kernel tries to merge with
constexpr double kMaxSmall = 64;     // elements of a tensor that costs nothing to read

class InjectiveNodes {
 public:
  InjectiveNodes(Partition& p, bool enabled) : p_(p), g_(p.graph()), enabled_(enabled) {}

  /// Must have been called for the users of n, which decide where n is computed.
  void place(Node* n) {
    const ValueId v = n->outputs[0];
    std::set<int> users = consumers(n);
    bool must_store = g_.is_output(v) || n->outputs.size() > 1;
    bool open = enabled_;
    for (int id : users) {
      must_store |= !has_kernels(p_.group(id));
      open &= !p_.group(id).sealed || reads_through(p_.group(id), *n);
    }
    if (users.empty() && !must_store) return;  // dead
    const bool always = ops::is_reshape(g_, *n) || ops::dequantizes(*n);
    if (!must_store && (open || always)) {
      if (enabled_ && recompute_cost(g_, *n) > 0 && users.size() > 1) users = merge_all(users, v);
      std::string why_not = inlined(n, users);
      if (why_not.empty() && !always)
        why_not = p_.decide(FusionDecision::Kind::Inline, *n, p_.group(*users.begin()));
      if (why_not.empty()) {
        p_.add_node(users, n);
        return;
      }
      for (const Node* u : p_.users(v)) {
        if (p_.explanation(n, u).empty()) p_.explain(n, u, why_not);
      }
    }
    store(n, users);
  }

  /// Pointwise kernels over one domain that read a common value become one launch, or part of the
  /// row kernel over that domain that reads it.
  void merge_siblings() {
    const Readers readers = pointwise_readers();
    for (int i = 0; i < static_cast<int>(p_.groups().size()); ++i) {
      int after = i;
      for (size_t tries = 0; tries < kMaxSiblings; ++tries) {
        if (p_.group(i).outputs.size() >= kMaxOutputs) break;
        after = next_sibling(readers, i, after);
        if (after < 0) break;
        merge(i, after);
      }
    }
  }

 private:
  /// Whether a kernel of its own reads operands through such a view.
  static bool reads_through(const Group& group, const Node& n) {
    return row_of(group.kind).stores_ordered && def_of(n)->lowering == ops::Lowering::View &&
           keeps_heads(n);
  }
  std::set<int> consumers(const Node* n) const {
    std::set<int> out;
    for (ValueId v : n->outputs) {
      if (v == kNone) continue;
      for (const Node* u : p_.users(v)) {
        out.insert(p_.groups_of(u).begin(), p_.groups_of(u).end());
      }
    }
    return out;
  }

  /// Merges the pointwise groups among the users that share v's domain, so that v is computed once.
  std::set<int> merge_all(const std::set<int>& users, ValueId v) {
    const Expr count = element_count(g_.value(v).shape);
    int into = -1;
    std::set<int> left;
    for (int id : users) {
      const Group& gr = p_.group(id);
      const bool same =
          row_of(gr.kind).elementwise && !gr.sealed && element_count(gr.domain) == count;
      if (!same || into < 0 || !merge(into, id)) left.insert(id);
      if (same && into < 0) into = id;
    }
    return left;
  }

  /// Group `from` becomes part of `into`; false if they do not fit.
  bool merge(int into, int from) {
    const Group& a = p_.group(into);
    const Group& b = p_.group(from);
    if (a.sealed || b.sealed || a.outputs.size() + b.outputs.size() > kMaxOutputs) return false;
    Group both = a;
    for (Node* n : b.nodes) p_.insert(both, n);
    if (!too_large(g_, both.kind, both.nodes).empty() || p_.creates_cycle(both.nodes) ||
        !p_.too_many_buffers(both).empty())
      return false;
    if (row_of(both.kind).reduces_rows) {
      both.outputs.insert(both.outputs.end(), b.outputs.begin(), b.outputs.end());
      const bool in_order =
          std::ranges::all_of(b.nodes, [&](const Node* n) { return keeps_order(*n); });
      if (!in_order || !p_.test_indices(both).ok()) return false;
    }
    if (!p_.decide(FusionDecision::Kind::Merge, *b.nodes.back(), a).empty()) return false;
    p_.merge(into, from);
    return true;
  }

  /// Whether n computes each element from elements of its operands at the same position, or from
  /// few ones.
  bool keeps_order(const Node& n) const {
    if (def_of(n)->lowering == ops::Lowering::Scalar || ops::is_reshape(g_, n)) return true;
    return def_of(n)->lowering == ops::Lowering::View &&
           count_hint(g_, g_.value(n.outputs[0]).shape) <= kMaxSmall;
  }

  /// Empty when computing n inside all these kernels is cheap enough; else the reason.
  std::string inlined(Node* n, const std::set<int>& ids) {
    std::vector<const Group*> users;
    users.reserve(ids.size());
    for (int id : ids) users.push_back(&p_.group(id));
    if (std::string why = inline_cost(g_, *n, users); !why.empty()) return why;
    for (const Group* user : users) {
      Group grown = *user;
      p_.insert(grown, n);
      if (std::string why = p_.too_many_buffers(grown); !why.empty()) return why;
    }
    return {};
  }

  /// Whether the kernel runs the loops of n again for other elements than those that it stores.
  bool repeats_loops(const Group& gr, const Node* n) const {
    return def_of(*n)->reads_per_element != nullptr &&
           evaluations(g_, gr, *n) > count_hint(g_, g_.value(n->outputs[0]).shape);
  }

  /// n's value gets memory: in a kernel of its own, or as one more output of a user over the same
  /// domain.
  void store(Node* n, const std::set<int>& users) {
    const Expr count = element_count(g_.value(n->outputs[0]).shape);
    if (enabled_ && n->outputs.size() == 1) {
      for (int id : users) {
        const Group& gr = p_.group(id);
        const GroupLowering& row = row_of(gr.kind);
        const bool fits = (row.elementwise || row.reduces_rows) && !gr.sealed &&
                          element_count(gr.domain) == count && gr.outputs.size() < kMaxOutputs;
        if (!fits) continue;
        Group grown = gr;
        p_.insert(grown, n);
        if (!too_large(g_, grown.kind, grown.nodes).empty() || !p_.too_many_buffers(grown).empty())
          continue;
        grown.outputs.push_back(n->outputs[0]);
        if (p_.creates_cycle(grown.nodes) || repeats_loops(grown, n) ||
            !p_.test_indices(grown).ok() ||
            !p_.decide(FusionDecision::Kind::Output, *n, gr).empty())
          continue;
        p_.add_node({id}, n);
        p_.add_output(id, n->outputs[0]);
        return;
      }
    }
    Group gr = group_of(g_, n);
    gr.outputs = p_.outputs_of(gr);
    p_.add(std::move(gr));
  }

  /// The pointwise groups that read a value, ascending, by their number of elements.
  using Readers = std::map<ValueId, std::unordered_map<Expr, std::vector<int>, Expr::Hash>>;

  Readers pointwise_readers() const {
    Readers readers;
    for (size_t i = 0; i < p_.groups().size(); ++i) {
      const Group& group = p_.groups()[i];
      if (!row_of(group.kind).elementwise) continue;
      const Expr count = element_count(group.domain);
      for (const Node* n : group.nodes) {
        for (const ValueId v : n->inputs) {
          if (v == kNone || g_.value(v).constant) continue;
          std::vector<int>& list = readers[v][count];
          if (list.empty() || list.back() != static_cast<int>(i))
            list.push_back(static_cast<int>(i));
        }
      }
    }
    return readers;
  }

  /// The first group after `after` that may merge with i; -1 if there is none.
  int next_sibling(const Readers& readers, int i, int after) const {
    const Group& a = p_.group(i);
    const bool is_row = row_of(a.kind).reduces_rows;
    if ((!row_of(a.kind).elementwise && !is_row) || a.sealed || a.nodes.empty()) return -1;
    const Expr count = element_count(a.domain);
    int next = -1;
    const auto read_of = [&](ValueId v) {
      if (is_row && (v == kNone || !(element_count(g_.value(v).shape) == count))) return;
      const auto of_value = readers.find(v);
      if (of_value == readers.end()) return;
      const auto of_count = of_value->second.find(count);
      if (of_count == of_value->second.end()) return;
      const std::vector<int>& list = of_count->second;
      auto j = std::upper_bound(list.begin(), list.end(), after);
      while (j != list.end() && p_.group(*j).nodes.empty()) ++j;  // merged before
      if (j != list.end() && (next < 0 || *j < next)) next = *j;
    };
    for (const Node* n : a.nodes) std::for_each(n->inputs.begin(), n->inputs.end(), read_of);
    std::for_each(a.outputs.begin(), a.outputs.end(), read_of);
    return next;
  }

  Partition& p_;
  const graph::Graph& g_;
  bool enabled_;
};

}  // namespace

bool keeps_heads(const Node& n) {
  const auto perm = ops::permutation_of(n);
  return !perm || perm->size() != 4 || perm->back() == 3;
}

void place_injective_nodes(Partition& p, bool enabled) {
  InjectiveNodes nodes(p, enabled);
  for (size_t i = p.order().size(); i-- > 0;) {
    Node* n = p.order()[i];
    if (p.is_free(*n)) nodes.place(n);
  }
  if (enabled) nodes.merge_siblings();
}

}  // namespace reprise::lower
