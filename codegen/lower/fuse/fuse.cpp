// Fusion decides which nodes become one kernel. Regions grow from contractions and reductions
// through their consumers. The remaining nodes are computed inside their consumers where that is
// cheap, or become pointwise groups. Every decision asks three questions: do the values line up
// (test_indices), does it create a cycle between kernels, and how many flops are repeated.
#include "codegen/lower/fuse/fuse.h"

#include <algorithm>

#include "codegen/lower/fuse/fuse_steps.h"
#include "codegen/lower/group/group_lowering.h"
#include "codegen/ops/row/weight_parts.h"

namespace reprise::lower {

namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::ValueId;

class Fuser {
 public:
  Fuser(const Graph& g, const FusionOptions& options)
      : g_(g),
        o_(options),
        device_(options.device),
        p_(g, options.tests != nullptr ? *options.tests : own_tests_, options.limit, &device_) {}

  Result<Fusion> run() {
    add_host_nodes();
    for (Node* n : p_.order()) {
      if (p_.is_free(*n) && (o_.separate.count(n) != 0 || is_kernel_of_its_own(*n))) seal(n);
    }
    for (const GroupKind kind : kinds_by_preference()) {
      const GroupLowering& row = row_of(kind);
      for (Node* n : p_.order()) {
        if (!p_.is_free(*n)) continue;
        if (row.match != nullptr) match(kind, n);
        if (row.begins != nullptr && row.begins(*n)) add_region(p_, group_of(g_, n), o_.enabled);
      }
    }
    if (o_.enabled) merge_rows(p_);
    place_injective_nodes(p_, o_.enabled);
    if (o_.enabled) inline_rows(p_, device_);
    return finish();
  }

 private:
  void add_host_nodes() {
    for (Node* n : p_.order()) {
      std::string reason = host_reason(g_, *n, device_);
      if (reason.empty()) reason = too_large_weight(*n);
      if (const auto at = o_.on_host.find(n); at != o_.on_host.end()) reason = at->second;
      if (ops::is_memory(*n)) reason.clear();
      if (reason.empty() && !ops::is_memory(*n)) continue;
      Group gr;
      gr.kind = reason.empty() ? GroupKind::Memory : GroupKind::Host;
      gr.host_reason = std::move(reason);
      gr.nodes = {n};
      std::ranges::copy_if(n->outputs, std::back_inserter(gr.outputs),
                           [](ValueId v) { return v != kNone; });
      p_.add(std::move(gr));
    }
  }

  std::string too_large_weight(const Node& n) const {
    for (const ValueId v : n.inputs) {
      const ValueId weight = v == kNone ? kNone : ops::weight_of(g_, v);
      if (weight == kNone) continue;
      const auto bytes = static_cast<uint64_t>(ops::weight_bytes(g_, weight));
      if (bytes > o_.largest_weight)
        return "its weight '" + g_.value(weight).name + "' has " + std::to_string(bytes) +
               " bytes, and buffers of the device at most " + std::to_string(o_.largest_weight);
    }
    return {};
  }

  /// Makes n a group that no other node joins.
  void seal(Node* n) {
    Group gr = group_of(g_, n);
    gr.sealed = true;
    if (row_of(gr.kind).stores_ordered && o_.enabled && o_.separate.count(n) == 0) {
      for (const ValueId v : n->outputs) add_order(gr, v);
    }
    gr.outputs = p_.outputs_of(gr);
    p_.add(std::move(gr));
  }

  /// Adds the nodes that only order the dims of v, and then those that only rename or reshape it.
  /// The kernel stores v in that form.
  void add_order(Group& gr, ValueId v) {
    bool ordered = false;
    while (v != kNone && !g_.is_output(v) && g_.users(v).size() == 1) {
      Node* n = g_.users(v)[0];
      const bool turns = !ordered && ops::permutation_of(*n) && keeps_heads(*n);
      ordered |= !turns;
      const bool renames = ops::is_core(*n) && ops::is_identity(*n) &&
                           g_.value(n->outputs[0]).dtype == g_.value(v).dtype &&
                           g_.value(n->outputs[0]).shape == g_.value(v).shape;
      if (!p_.is_free(*n) || o_.separate.count(n) != 0 ||
          !(renames || turns || ops::is_reshape(g_, *n)) ||
          !p_.decide(FusionDecision::Kind::Region, *n, gr).empty())
        return;
      p_.insert(gr, n);
      v = n->outputs[0];
    }
  }

  /// Makes a region of the group that ends with n, if there is one and fusing it is cheaper.
  void match(GroupKind kind, Node* n) {
    const GroupLowering& row = row_of(kind);
    const bool has_price = row.preferred_apart != nullptr;
    if (!o_.enabled || (has_price && o_.attention == FuseAttention::Never)) return;
    std::optional<Group> found = row.match(g_, n);
    if (!found) return;
    found->kind = kind;
    std::vector<Node*> nodes;
    std::swap(nodes, found->nodes);
    for (Node* x : nodes) {
      if (!p_.is_free(*x)) return;
      p_.insert(*found, x);
    }
    found->outputs = p_.outputs_of(*found);
    if (p_.creates_cycle(found->nodes) || !p_.test_indices(*found).ok()) return;
    if (has_price && o_.attention == FuseAttention::Priced) {
      const std::string why_not = row.preferred_apart(g_, *found, device_);
      if (!why_not.empty()) {
        kept_apart_.emplace_back(std::move(*found), why_not);
        return;
      }
    }
    if (p_.decide(FusionDecision::Kind::Attention, *n, *found).empty())
      add_region(p_, std::move(*found), true);
  }

  Result<Fusion> finish() {
    Fusion out;
    out.decisions = p_.take_decisions();
    for (const auto& [gr, reason] : kept_apart_) {
      for (const Node* n : gr.nodes) p_.explain(gr, n, reason);
    }
    std::vector<Group> groups = p_.take_groups();
    IdVector<ValueId, int> owner(g_.values().size(), -1);
    for (size_t i = 0; i < groups.size(); ++i) {
      for (ValueId v : groups[i].outputs) owner[v] = static_cast<int>(i);
    }
    std::vector<std::set<int>> before(groups.size());
    for (size_t i = 0; i < groups.size(); ++i) {
      for (const Node* n : groups[i].nodes) {
        for (ValueId v : n->inputs) {
          const int o = v == kNone ? -1 : owner[v];
          if (o < 0 || o == static_cast<int>(i)) continue;
          before[i].insert(o);
          explain_edge(out, v, n, groups[static_cast<size_t>(o)], groups[i]);
        }
        for (const Node* source : p_.sizes_from(n)) {
          for (const int o : p_.groups_of(source)) {
            if (o != static_cast<int>(i)) before[i].insert(o);
          }
        }
      }
    }
    std::vector<int> last;
    last.reserve(groups.size());
    for (const Group& gr : groups) last.push_back(gr.nodes.empty() ? -1 : p_.pos(gr.nodes.back()));
    RP_ASSIGN(const std::vector<int> sorted, run_order(before, last));
    out.asked = device_;
    out.groups.reserve(sorted.size());
    for (int i : sorted) out.groups.push_back(std::move(groups[static_cast<size_t>(i)]));
    return out;
  }

  std::string why_separate(const Node* from, const Node* to) const {
    for (const Node* n : {from, to})
      if (const auto at = o_.separate.find(n); at != o_.separate.end()) return at->second;
    return {};
  }

  void explain_edge(Fusion& out, ValueId v, const Node* to, const Group& a, const Group& b) const {
    const Node* from = g_.value(v).producer;
    std::string reason = why_separate(from, to);  // their kernel could not be written
    if (reason.empty()) reason = p_.explanation(from, to);
    if (!reason.empty()) {
      // The step that separated them gave the reason.
    } else if (!o_.enabled) {
      reason = "fusion is switched off";
    } else if (a.kind == GroupKind::Memory || b.kind == GroupKind::Memory) {
      reason = "the rows of the state are in its memory";
    } else if (a.kind == GroupKind::Host || b.kind == GroupKind::Host) {
      const Group& host = a.kind == GroupKind::Host ? a : b;
      reason = host.nodes[0]->subgraphs.empty() ? "one side runs on the host: " + host.host_reason
                                                : "control flow ends a recording";
    } else if (is_kernel_of_its_own(*from) || is_kernel_of_its_own(*to)) {
      reason = "'" + (is_kernel_of_its_own(*to) ? to : from)->name +
               "' has kernels of its own, which no other operator joins";
    } else if (is_contraction(*to)) {
      reason = "'" + to->name + "' reads each element of its input many times";
    } else if (row_of(b.kind).unrolls_tiles) {
      reason = "'" + to->name + "' follows '" + b.anchor->name +
               "' in its kernel, which needs other inputs first";
    } else if (row_of(a.kind).reduces_rows) {
      reason = "'" + to->name + "' reads values that other rows of the kernel compute";
    } else {
      reason = "'" + g_.value(v).name + "' is needed by several kernels";
    }
    out.unfused.push_back({from->name, to->name, reason});
  }

  const Graph& g_;
  const FusionOptions& o_;
  const shaders::TargetFacts device_;
  IndexTests own_tests_;
  Partition p_;
  std::vector<std::pair<Group, std::string>> kept_apart_;  // matched groups, and why not
};

}  // namespace

Result<Fusion> fuse(const Graph& g, const FusionOptions& options) {
  return Fuser(g, options).run();
}

}  // namespace reprise::lower
