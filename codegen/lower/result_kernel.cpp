#include "codegen/lower/result_kernel.h"

#include <algorithm>

#include "codegen/ops/support.h"

namespace reprise::lower {

using kernel::Builder;
using kernel::Builtin;
using kernel::Ty;
using kernel::Val;

Index operand_index(const graph::Graph& g, const Shape& operand, const Shape& batches,
                    const Index& batch, const Expr& row, const Expr& column) {
  Index index = ops::broadcast_index(g, batch, Shape(operand.begin(), operand.end() - 2), batches);
  index.push_back(row);
  index.push_back(column);
  return index;
}

int count_loads(const graph::Graph& g, const Group& group, graph::ValueId operand, bool along_last,
                const Expr& along, const Expr& other) {
  Builder scratch("count");
  Evaluator ev(g, group, scratch);
  const Val x = scratch.convert(scratch.builtin(Builtin::GlobalId, 0), Ty::I32);
  const Val y = scratch.convert(scratch.builtin(Builtin::GlobalId, 1), Ty::I32);
  Index index(g.value(operand).shape.size(), Expr(0));
  const Expr wide = Expr(4) * ev.symbol(x, Expr::floordiv(along, 4)) + ev.lane();
  const Expr single = ev.symbol(y, other);
  index[index.size() - 1] = along_last ? wide : single;
  index[index.size() - 2] = along_last ? single : wide;
  constexpr int kMany = 1000;
  if (!ev.eval(operand, index, 4).ok()) return kMany;
  auto k = scratch.finish();
  if (!k.ok()) return kMany;
  return static_cast<int>(
      std::count_if(k->insts.begin(), k->insts.end(),
                    [](const kernel::Inst& i) { return i.op == kernel::Op::Load; }));
}

ResultKernel::ResultKernel(const graph::Graph& g, const Group& group, const TargetFacts& target)
    : g_(g), group_(group), target_(target), b_(kernel_name(group)), ev_(g, group, b_) {
  limit_loops(ev_, target);
}

Result<Lowered> ResultKernel::write_units(const shaders::TileShape& tile, std::string schedule,
                                          const Work& work) {
  exact_rows_ = m_.known_divisor(g_.symbols) % tile.rows == 0;
  exact_columns_ = n_.known_divisor(g_.symbols) % tile.columns == 0;

  b_.set_workgroup(tile.workgroup);
  if (tile.subgroup_size != 0) b_.require_subgroup_size(tile.subgroup_size);
  const Expr tiles =
      element_count(batch_) * Expr::ceildiv(n_, tile.columns) * Expr::ceildiv(m_, tile.rows);
  // A workgroup's invocations leave together: shuffles and barriers need each of them.
  const int64_t units = tile.unit == shaders::Unit::Invocation ? tile.workgroup : 1;
  const Expr groups = Expr::ceildiv(tiles, units);
  const Val id =
      units == 1 ? linear_workgroup(b_, groups) : linear_invocation(b_, groups, tile.workgroup);
  const bool exact = tiles.is_const() && tiles.value() % units == 0;
  RP_TRY(guard(ev_, exact ? Val{} : b_.lt(id, ev_.value(tiles)),
               [&] { return write_unit(id, tiles, tile, work); }));
  return finish(ev_, b_, group_, groups, std::move(schedule));
}

Status ResultKernel::write_unit(Val id, const Expr& tiles, const shaders::TileShape& tile,
                                const Work& work) {
  const Expr row_tiles = Expr::ceildiv(m_, tile.rows);
  const Expr column_tiles = Expr::ceildiv(n_, tile.columns);
  const Expr t = ev_.symbol(id, tiles);
  const Val row = b_.mul(ev_.value(ev_.simplify(Expr::mod(t, row_tiles))), b_.i32(tile.rows));
  const Expr rest = Expr::floordiv(t, row_tiles);
  column_tile_ = ev_.value(ev_.simplify(Expr::mod(rest, column_tiles)));
  const Expr batch = ev_.simplify(Expr::floordiv(t, row_tiles * column_tiles));
  batch_at_ = ev_.value(batch);
  begin(batch);
  return work(row, column_tile_);
}

Expr ResultKernel::clamped(Val at, const Expr& end, bool exact) {
  if (!exact) at = b_.min(at, b_.sub(ev_.value(end), b_.i32(1)));
  return ev_.symbol(at, end);
}

Result<ResultKernel::Values> ResultKernel::scalars(Result<Val> v) {
  if (!v.ok()) return v.status();
  const Val x = b_.type(*v).ty == Ty::F32 ? *v : b_.convert(*v, Ty::F32);
  const int lanes = b_.type(x).lanes;
  if (lanes == 1) return Values{x};
  Values out;
  for (int l = 0; l < lanes; ++l) out.push_back(b_.extract(x, l));
  return out;
}

void ResultKernel::loop(Val end, int64_t most, const std::function<void(Val)>& body) {
  ev_.for_loop(b_.i32(0), end, b_.i32(1), most, [&](Val i) {
    ev_.push_scope();
    body(i);
    ev_.pop_scope();
  });
}

Status ResultKernel::guard_row(Val row, const Body& body) {
  return guard(ev_, exact_rows_ ? Val{} : b_.lt(row, ev_.value(m_)), body);
}

Status ResultKernel::guard_columns(Val vec, const Body& body) {
  // Columns that are not vectors are guarded one by one, in store().
  const bool always = exact_columns_ || !wide_n_;
  return guard(ev_, always ? Val{} : b_.lt(vec, ev_.value(Expr::floordiv(n_, 4))), body);
}

Status ResultKernel::store(Val row, Val vec, Val four) {
  const Expr at = ev_.symbol(row, m_);
  if (wide_n_) {
    const Expr first = Expr(4) * ev_.symbol(vec, Expr::floordiv(n_, 4));
    return store_result(ev_, group_, result_index(at, first + ev_.lane()), four, 4);
  }
  for (int l = 0; l < 4; ++l) {
    const Val column = b_.add(b_.mul(vec, b_.i32(4)), b_.i32(l));
    const Val inside = exact_columns_ ? Val{} : b_.lt(column, ev_.value(n_));
    RP_TRY(guard(ev_, inside, [&] {
      return store_result(ev_, group_, result_index(at, ev_.symbol(column, n_)),
                          b_.extract(four, l), 1);
    }));
  }
  return {};
}

Status ResultKernel::loop_over_k(const Expr& positions,
                                 const std::function<Status(int depth)>& step) {
  const Expr quads = Expr::floordiv(positions, 4);
  Status status;
  const auto over = [&](const Expr& from, const Expr& to, int depth) {
    ev_.for_loop(ev_.value(from), ev_.value(to), b_.i32(1), to - from, [&](Val k) {
      ev_.push_scope();
      depth_ = depth;
      at_ = Expr(depth) * ev_.symbol(k, to);
      status = step(depth);
      ev_.pop_scope();
    });
  };
  over(0, quads, 4);
  RP_TRY(status);
  if (positions.known_divisor(g_.symbols) % 4 != 0) over(Expr(4) * quads, positions, 1);
  return status;
}

}  // namespace reprise::lower
