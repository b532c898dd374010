#include "codegen/lower/evaluate/stored_element.h"

#include <algorithm>

namespace reprise::lower {

using graph::ValueId;

namespace {

/// Follows a view to the element that it reads.
class ViewTrace final : public ops::ElementContext {
 public:
  ViewTrace(Evaluator& ev, const graph::Node& n, size_t output, const Index& index)
      : ev_(ev), n_(n), output_(output), index_(index) {}

  kernel::Builder& builder() override { return ev_.builder(); }
  const graph::Graph& graph() const override { return ev_.graph(); }
  const graph::Node& node() const override { return n_; }
  size_t output() const override { return output_; }
  const Index& index() const override { return index_; }
  Result<Val> input(size_t i, const Index& index) override {
    known_ = known_ && !read_ && i < n_.inputs.size();
    if (!known_) return Val{};
    read_ = n_.inputs[i];
    for (const Expr& e : index) at_.push_back(ev_.simplify(e));
    return Val{};
  }
  std::optional<Index> same_position(const Shape& shape) const override {
    return ev_.same_position(index_, output_shape(), shape);
  }
  void set(Val) override {}
  Expr simplify(const Expr& e) override { return ev_.simplify(e); }
  // What follows depends on data, or is more than index arithmetic.
  Val value(const Expr&) override { return unknown(); }
  Val number(const Expr&) override { return unknown(); }
  Expr opaque(Val, const Expr&) override {
    known_ = false;
    return 0;
  }
  Expr checked_index(Val, const Expr&, bool) override {
    known_ = false;
    return 0;
  }
  void loop(const Expr&, const std::function<void(const Expr&)>&) override { known_ = false; }
  Result<Val> guarded(Val, Val, const std::function<Result<Val>()>&) override { return unknown(); }
  kernel::Type compute(DType t) const override { return ev_.compute(t); }

  /// The input that the view reads, if that is known.
  std::optional<ValueId> read() const { return known_ ? read_ : std::nullopt; }
  const Index& at() const { return at_; }

 private:
  Val unknown() {
    known_ = false;
    return {};
  }

  Evaluator& ev_;
  const graph::Node& n_;
  const size_t output_;
  const Index& index_;
  bool known_ = true;
  std::optional<ValueId> read_;
  Index at_;
};

}  // namespace

std::optional<StoredElement> stored_element(Evaluator& ev, const Group& group, ValueId v,
                                            const Index& index) {
  const graph::Graph& g = ev.graph();
  Index at = index;
  while (true) {
    const graph::Value& value = g.value(v);
    const graph::Node* n = value.producer;
    const bool inside = n != nullptr && std::ranges::find(group.nodes, n) != group.nodes.end();
    if (!inside) {
      if (!is_bound(g, v) || group.packed.contains(v)) return std::nullopt;
      return StoredElement{v, ev.simplify(ev.flatten(at, value.shape))};
    }
    const ops::OpDef* def = def_of(*n);
    if (def == nullptr || def->lowering != ops::Lowering::View || def->element == nullptr)
      return std::nullopt;
    const auto output = std::ranges::find(n->outputs, v) - n->outputs.begin();
    ViewTrace trace(ev, *n, static_cast<size_t>(output), at);
    if (!def->element(trace).ok() || !trace.read()) return std::nullopt;
    v = *trace.read();
    at = Index(trace.at());
  }
}

}  // namespace reprise::lower
