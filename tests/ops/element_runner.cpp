#include "tests/ops/element_runner.h"

#include <cstring>

#include "codegen/interpreter/interpreter.h"
#include "codegen/ops/row/element.h"
#include "codegen/ops/row/op.h"

namespace reprise::test {

namespace {

using kernel::Val;
using ops::Index;

class Context final : public ops::ElementContext {
 public:
  Context(kernel::Builder& b, const graph::Graph& g, const graph::Node& n, size_t output,
          const std::vector<int64_t>& symbols)
      : b_(b), g_(g), n_(n), output_(output), symbols_(symbols) {}

  kernel::Builder& builder() override { return b_; }
  const graph::Graph& graph() const override { return g_; }
  const graph::Node& node() const override { return n_; }
  size_t output() const override { return output_; }
  const Index& index() const override { return index_; }
  std::optional<Index> same_position(const Shape&) const override { return std::nullopt; }
  void set(Val v) override { result = v; }

  Result<Val> input(size_t i, const Index& index) override {
    const graph::Value& v = g_.value(n_.inputs[i]);
    if (index.size() != v.shape.size()) return internal_error("an index of the wrong rank");
    Expr linear = 0;
    for (size_t d = 0; d < index.size(); ++d) linear = linear * v.shape[d] + index[d];
    const Val raw = b_.load(static_cast<int>(i), value(linear));
    return v.dtype == DType::Bool
               ? b_.scalar_op(kernel::ScalarOp::NotEqual, {raw, b_.constant(b_.type(raw), 0)})
               : raw;
  }

  /// Nothing is known of the symbols.
  Expr simplify(const Expr& e) override { return e; }

  Val number(const Expr& e) override { return value(e); }
  Val value(const Expr& e) override {
    const Expr known = e.substitute([&](SymbolId s) -> std::optional<Expr> {
      const auto i = static_cast<size_t>(s);
      return i < symbols_.size() ? std::optional<Expr>(symbols_[i]) : std::nullopt;
    });
    Val sum = b_.i32(known.constant());
    for (const Term& t : known.terms()) {
      Val product = b_.i32(t.coefficient);
      for (const Atom& a : t.atoms()) product = b_.mul(product, atom(a));
      sum = b_.add(sum, product);
    }
    return sum;
  }

  Expr opaque(Val v, const Expr&) override {
    values_.push_back(v);
    return Expr::symbol(static_cast<SymbolId>(symbols_.size() + values_.size() - 1));
  }

  Expr checked_index(Val v, const Expr& dim, bool wrap) override {
    Val i = b_.type(v) == kernel::kI64 ? v : b_.convert(v, kernel::Ty::I64);
    const Val bound = b_.convert(value(dim), kernel::Ty::I64);
    if (wrap) i = b_.select(b_.lt(i, b_.i64(0)), b_.add(i, bound), i);
    const Val ok = b_.logical_and(b_.ge(i, b_.i64(0)), b_.lt(i, bound));
    b_.set_error(b_.logical_not(ok), kernel::ErrorCode::IndexOutOfRange);
    return opaque(b_.convert(b_.select(ok, i, b_.i64(0)), kernel::Ty::I32), dim);
  }

  void loop(const Expr& count, const std::function<void(const Expr&)>& body) override {
    b_.for_loop(b_.i32(0), value(count), b_.i32(1), [&](Val i) { body(opaque(i, count)); });
  }

  Result<Val> guarded(Val condition, Val otherwise,
                      const std::function<Result<Val>()>& then) override {
    const int local = b_.local("guarded", b_.type(otherwise));
    b_.local_store(local, otherwise);
    Status status;
    b_.if_then(condition, [&] {
      auto v = then();
      if (v.ok()) {
        b_.local_store(local, *v);
      } else {
        status = v.status();
      }
    });
    if (!status.ok()) return status;
    return b_.local_load(local);
  }

  kernel::Type compute(DType t) const override {
    if (t == DType::Bool) return kernel::kBool;
    return {kernel::compute_type(kernel::storage_type(t)), 1};
  }

  Index index_;
  Val result;

 private:
  Val atom(const Atom& a) {
    switch (a.kind()) {
      case Atom::Kind::Symbol:
        return values_[static_cast<size_t>(a.symbol()) - symbols_.size()];
      // As generated code divides: operands must not be negative.
      case Atom::Kind::FloorDiv:
        return b_.div(value(a.lhs()), value(a.rhs()));
      case Atom::Kind::Mod:
        return b_.rem(value(a.lhs()), value(a.rhs()));
      case Atom::Kind::Min:
        return b_.min(value(a.lhs()), value(a.rhs()));
      case Atom::Kind::Max:
        return b_.max(value(a.lhs()), value(a.rhs()));
      case Atom::Kind::Overflow:
        break;
    }
    return b_.i32(0);
  }

  kernel::Builder& b_;
  const graph::Graph& g_;
  const graph::Node& n_;
  size_t output_;
  const std::vector<int64_t>& symbols_;
  std::vector<Val> values_;
};

Result<Val> scalar_row(Context& ctx, kernel::Builder& b, kernel::ScalarOp row) {
  std::vector<Val> args;
  for (size_t i = 0; i < ctx.node().inputs.size(); ++i) {
    const Shape& s = ctx.input_shape(i);
    Index index;
    for (size_t d = 0; d < s.size(); ++d) {
      const Expr& at = ctx.index()[ctx.index().size() - s.size() + d];
      index.push_back(s[d].is_const(1) ? Expr(0) : at);
    }
    RP_ASSIGN(const Val v, ctx.input(i, index));
    args.push_back(v);
  }
  return b.scalar_op(row, args);
}

/// The kernel: invocation i computes element i.
Result<kernel::Kernel> build(const graph::Graph& g, const graph::Node& n, size_t output,
                             const std::vector<int64_t>& dims, const std::vector<int64_t>& symbols,
                             int64_t count) {
  kernel::Builder b("element");
  b.set_workgroup(32);
  for (graph::ValueId v : n.inputs) {
    const DType t = v == graph::kNone ? DType::F32 : g.value(v).dtype;
    b.buffer("in" + std::to_string(v.number()), kernel::storage_type(t), kernel::Access::Read);
  }
  const DType out = g.value(n.outputs[output]).dtype;
  const int target = b.buffer("result", kernel::storage_type(out), kernel::Access::Write);
  const Val id = b.convert(b.builtin(kernel::Builtin::GlobalId), kernel::Ty::I32);
  Context ctx(b, g, n, output, symbols);
  Status status;
  b.if_then(b.lt(id, b.i32(count)), [&] {
    Val rest = id;
    std::vector<Val> position(dims.size());
    for (size_t d = dims.size(); d-- > 0;) {
      position[d] = b.rem(rest, b.i32(dims[d]));
      rest = b.div(rest, b.i32(dims[d]));
    }
    for (size_t d = 0; d < dims.size(); ++d) {
      ctx.index_.push_back(ctx.opaque(position[d], Expr(dims[d])));
    }
    const ops::OpDef* def = ops::find(n);
    if (def->row) {
      auto v = scalar_row(ctx, b, *def->row);
      status = v.status();
      if (v.ok()) ctx.result = *v;
    } else {
      status = def->element(ctx);
    }
    if (!status.ok()) return;
    const Val v = out == DType::Bool ? b.convert(ctx.result, kernel::Ty::U32) : ctx.result;
    b.store(target, id, v);
  });
  RP_TRY(status);
  return b.finish();
}

}  // namespace

Result<HostTensor> run_element(const graph::Graph& g, const graph::Node& n, size_t output,
                               const std::vector<const HostTensor*>& inputs,
                               const std::vector<int64_t>& symbols) {
  const graph::Value& out = g.value(n.outputs[output]);
  std::vector<int64_t> dims;
  for (const Expr& d : out.shape) {
    RP_ASSIGN(const int64_t v, d.eval(symbols));
    dims.push_back(v);
  }
  HostTensor result(out.dtype, dims);
  const int64_t count = result.count();
  if (count == 0) return result;
  RP_ASSIGN(const kernel::Kernel k, build(g, n, output, dims, symbols, count));
  std::vector<std::vector<std::byte>> copies;
  for (const HostTensor* t : inputs) {
    if (t == nullptr) {
      copies.emplace_back(4);
    } else {
      copies.emplace_back(t->bytes().begin(), t->bytes().end());
    }
  }
  kernel::Launch launch;
  launch.grid = {static_cast<uint32_t>((count + 31) / 32), 1, 1};
  for (auto& bytes : copies) launch.buffers.emplace_back(bytes);
  launch.buffers.push_back(result.mutable_bytes());
  RP_ASSIGN(const kernel::Outcome outcome, kernel::interpret(k, launch));
  if (outcome.error != kernel::ErrorCode::None) return invalid_input("index out of range");
  return result;
}

}  // namespace reprise::test
