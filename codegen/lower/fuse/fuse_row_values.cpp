// Merges a row kernel, such as a normalisation, into the products that alone read its result. The
// kernel of each product then computes the reductions of the row that it reads.
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

class RowInliner {
 public:
  RowInliner(Partition& p, const shaders::TargetFacts& device)
      : p_(p), g_(p.graph()), device_(device) {}

  void run() {
    const auto count = static_cast<int>(p_.groups().size());
    for (int i = 0; i < count; ++i) {
      const Group& rows = p_.group(i);
      if (!is_simple(rows)) continue;
      const std::set<int> into = products_of(rows.outputs[0]);
      if (into.empty() || !fits(rows, into)) continue;
      std::vector<const Group*> products;
      products.reserve(into.size());
      for (const int id : into) products.push_back(&p_.group(id));
      const bool apart = !row_of(products[0]->kind).rows_apart(g_, products, rows, device_).empty();
      if (!apart && p_.decide(FusionDecision::Kind::Merge, *rows.anchor, *products[0]).empty())
        p_.distribute(i, into);
    }
  }

 private:
  /// Whether the group computes one tensor from reductions along its last axis and from values at
  /// the same place in its rows, or of its rows.
  bool is_simple(const Group& rows) const {
    const Shape& domain = rows.domain;
    if (!row_of(rows.kind).reduces_rows || rows.sealed || rows.outputs.size() != 1 ||
        rows.nodes.empty() || domain.size() < 2)
      return false;
    const auto last = static_cast<int64_t>(domain.size()) - 1;
    const Shape row = row_shape(domain, {last});
    const auto fits = [&](const Node* n) {
      const Shape& shape = g_.value(n->outputs[0]).shape;
      if (is_reduction(*n))
        return shape == row && g_.value(n->inputs[0]).shape == domain &&
               ops::Attributes(*n).get_ints("axes") == std::vector<int64_t>{last};
      return def_of(*n)->lowering == ops::Lowering::Scalar && (shape == domain || shape == row);
    };
    return rows.reduced == std::vector<int64_t>{last} &&
           g_.value(rows.outputs[0]).shape == domain && std::ranges::all_of(rows.nodes, fits);
  }

  /// The products of whose left operand v is all that there is; none if anything else reads it.
  std::set<int> products_of(ValueId v) const {
    std::set<int> out;
    if (g_.is_output(v)) return out;
    for (const Node* u : p_.users(v)) {
      const std::vector<int>& owners = p_.groups_of(u);
      if (owners.size() != 1) return {};
      const Group& user = p_.group(owners[0]);
      const bool left = u == user.anchor && u->inputs[0] == v && u->inputs[1] != v;
      if (!left || user.sealed || row_of(user.kind).rows_apart == nullptr ||
          def_of(*u)->lowering != ops::Lowering::MatMul || g_.value(u->inputs[1]).shape.size() != 2)
        return {};
      out.insert(owners[0]);
    }
    return out;
  }

  bool fits(const Group& rows, const std::set<int>& into) const {
    return std::ranges::all_of(into, [&](int id) {
      Group grown = p_.group(id);
      for (Node* n : rows.nodes) p_.insert(grown, n);
      return too_large(g_, grown.kind, grown.nodes).empty() && p_.too_many_buffers(grown).empty() &&
             p_.test_indices(grown).ok();
    });
  }

  Partition& p_;
  const graph::Graph& g_;
  const shaders::TargetFacts& device_;
};

}  // namespace

void inline_rows(Partition& p, const shaders::TargetFacts& device) {
  RowInliner(p, device).run();
}

}  // namespace reprise::lower
