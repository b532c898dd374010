// Row kernels over the same rows and columns become one launch if they read the same values, or
// results of a kernel that reads these values: the gradients of a normalisation's scale and bias,
// and of the bias of the layer before it.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "codegen/lower/fuse/fuse_steps.h"
#include "codegen/lower/group/group_lowering.h"
#include "codegen/lower/group/kernel_limits.h"

namespace reprise::lower {

using graph::kNone;
using graph::Node;
using graph::ValueId;

namespace {

constexpr size_t kMaxTries = 64;    // kernels that one kernel tries to merge with
constexpr size_t kMaxSources = 64;  // values before a kernel that are compared

class RowMerger {
 public:
  explicit RowMerger(Partition& p) : p_(p), g_(p.graph()) {}

  void run() {
    const auto count = static_cast<int>(p_.groups().size());
    std::vector<std::set<Source>> own(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i)
      if (is_open(i)) own[static_cast<size_t>(i)] = sources_of(p_.group(i));
    // A kernel that reads results of another one is related to all that read what that one reads.
    std::vector<std::set<Source>> sources = own;
    std::map<Source, std::vector<int>> readers;  // ascending
    for (int i = 0; i < count; ++i) {
      std::set<Source>& all = sources[static_cast<size_t>(i)];
      for (const Source& s : own[static_cast<size_t>(i)]) {
        if (s.kernel < 0) continue;
        const std::set<Source>& before = own[static_cast<size_t>(s.kernel)];
        all.insert(before.begin(), before.end());
      }
      for (const Source& s : all) readers[s].push_back(i);
    }
    for (int i = 0; i < count; ++i) {
      std::set<int> related;
      for (const Source& s : sources[static_cast<size_t>(i)]) {
        const std::vector<int>& list = readers[s];
        related.insert(std::upper_bound(list.begin(), list.end(), i), list.end());
      }
      size_t tries = 0;
      for (auto j = related.begin(); j != related.end() && tries < kMaxTries; ++j, ++tries)
        merge(i, *j);
    }
  }

 private:
  /// A value that a kernel reads, or the kernel that stores it.
  struct Source {
    ValueId value = kNone;
    int kernel = -1;
    friend auto operator<=>(const Source&,
                            const Source&) = default;  // NOLINT(modernize-use-nullptr)
  };

  bool is_open(int id) const {
    const Group& gr = p_.group(id);
    return row_of(gr.kind).reduces_rows && !gr.sealed && !gr.nodes.empty();
  }

  /// The values with an element for each row and column that the kernel needs, back to those that
  /// other kernels store.
  std::set<Source> sources_of(const Group& gr) const {
    const Expr full = element_count(gr.domain);
    std::set<Source> out;
    std::unordered_set<ValueId> seen;
    std::vector<const Node*> stack(gr.nodes.begin(), gr.nodes.end());
    while (!stack.empty() && seen.size() < kMaxSources) {
      const Node* n = stack.back();
      stack.pop_back();
      for (const ValueId v : n->inputs) {
        if (v == kNone || g_.value(v).constant || !(element_count(g_.value(v).shape) == full))
          continue;
        const Node* producer = g_.value(v).producer;
        if ((producer != nullptr && contains(gr, producer)) || !seen.insert(v).second) continue;
        out.insert({v, -1});
        if (producer == nullptr) continue;
        for (const int id : p_.groups_of(producer)) out.insert({kNone, id});
        if (p_.is_free(*producer)) stack.push_back(producer);
      }
    }
    return out;
  }

  /// Group `from` becomes part of `into` if they fit.
  void merge(int into, int from) {
    if (!is_open(into) || !is_open(from)) return;
    const Group& a = p_.group(into);
    const Group& b = p_.group(from);
    if (a.outputs.size() + b.outputs.size() > kMaxOutputs) return;
    if (kept_and_reduced(a.domain, a.reduced) != kept_and_reduced(b.domain, b.reduced)) return;
    Group both = a;
    for (Node* n : b.nodes) p_.insert(both, n);
    if (!too_large(g_, both.kind, both.nodes).empty() || p_.creates_cycle(both.nodes) ||
        !p_.too_many_buffers(both).empty())
      return;
    both.outputs = p_.outputs_of(both);
    if (!p_.test_indices(both).ok()) return;
    if (p_.decide(FusionDecision::Kind::Merge, *b.nodes.back(), a).empty()) p_.merge(into, from);
  }

  Partition& p_;
  const graph::Graph& g_;
};

}  // namespace

void merge_rows(Partition& p) {
  RowMerger(p).run();
}

}  // namespace reprise::lower
