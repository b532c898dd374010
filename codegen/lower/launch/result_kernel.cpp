#include "codegen/lower/launch/result_kernel.h"

#include <algorithm>

#include "codegen/ops/row/support.h"

namespace reprise::lower {

using kernel::Builder;
using kernel::Builtin;
using kernel::Ty;

Index operand_index(const graph::Graph& g, const Shape& operand, const Shape& batches,
                    const Index& batch, const Expr& row, const Expr& column) {
  Index index = ops::broadcast_index(g, batch, Shape(operand.begin(), operand.end() - 2), batches);
  index.push_back(row);
  index.push_back(column);
  return index;
}

OperandCost operand_cost(const graph::Graph& g, const Group& group, graph::ValueId operand,
                         bool along_last, const Expr& along, const Expr& other) {
  // The costs of tiles were measured with operands that are views of tensors in memory. Their index
  // arithmetic takes up to this many instructions.
  constexpr int kViews = 64;
  constexpr OperandCost kMany{1000, 1000};
  Builder scratch("count");
  Evaluator ev(g, group, scratch);
  const auto global_id = [&](int axis) {
    return scratch.convert(scratch.builtin(Builtin::GlobalId, axis), Ty::I32);
  };
  Index index(g.value(operand).shape.size() - 2, Expr(0));
  const Expr lanes = Expr(4) * ev.symbol(global_id(0), Expr::floordiv(along, 4)) + ev.lane();
  const Expr single = ev.symbol(global_id(1), other);
  index.push_back(along_last ? single : lanes);
  index.push_back(along_last ? lanes : single);
  // Reductions of a row are computed before the loop over its columns.
  Index of_row = index;
  of_row.back() = 0;
  for (const graph::Node* n : group.nodes) {
    if (!is_reduction(*n) || !along_last) continue;
    const graph::ValueId v = n->outputs[0];
    ev.bind(v, of_row, scratch.constant(ev.compute(g.value(v).dtype), 0));
  }
  if (!ev.eval(operand, index, 4).ok()) return kMany;
  const auto k = scratch.finish();
  if (!k.ok()) return kMany;
  OperandCost cost;
  for (const kernel::Inst& i : k->insts)
    ++(i.op == kernel::Op::Load ? cost.loads : cost.instructions);
  cost.instructions = std::max(cost.instructions - kViews, 0);
  return cost;
}

ResultKernel::ResultKernel(const graph::Graph& g, const Group& group, const TargetFacts& target,
                           ResultShape shape, const std::string& name)
    : g_(g),
      group_(group),
      shape_(std::move(shape)),
      b_(name.empty() ? kernel_name(group) : name),
      ev_(g, group, b_) {
  limit_loops(ev_, target);
}

Result<Lowered> ResultKernel::write_units(const shaders::TileShape& tile, std::string schedule,
                                          const Work& work) {
  exact_rows_ = shape_.m.known_divisor(g_.symbols) % tile.rows == 0;
  exact_columns_ = shape_.n.known_divisor(g_.symbols) % tile.columns == 0;

  b_.set_workgroup(tile.workgroup);
  if (tile.subgroup_size != 0) b_.require_subgroup_size(tile.subgroup_size);
  const Expr tiles = Expr(tile.splits) * element_count(shape_.batch) *
                     Expr::ceildiv(shape_.n, tile.columns) * Expr::ceildiv(shape_.m, tile.rows);
  // If the unit is a subgroup or workgroup, all of its invocations run or none does: shuffles and
  // barriers need every one of them.
  const int64_t units = tile.unit == shaders::Unit::Invocation ? tile.workgroup : 1;
  if (tile.groups != 0) {
    const Expr groups = Expr::min(tiles, tile.groups);
    const int64_t cluster = tile.cluster();
    b_.set_cluster(static_cast<uint32_t>(cluster));
    const Value workgroup = linear_workgroup(b_, Expr(tile.groups * cluster));
    RP_TRY(write_persistent(workgroup / cluster, tiles, groups, tile, work));
    return finish(ev_, b_, group_, groups * Expr(cluster), std::move(schedule));
  }
  const Expr groups = Expr::ceildiv(tiles, units);
  const Value id =
      units == 1 ? linear_workgroup(b_, groups) : linear_invocation(b_, groups, tile.workgroup);
  RP_TRY(guard_units(ev_, id, tiles, units, [&] { return write_unit(id, tiles, tile, work); }));
  return finish(ev_, b_, group_, groups, std::move(schedule));
}

Status ResultKernel::write_unit(Value id, const Expr& tiles, const shaders::TileShape& tile,
                                const Work& work) {
  const Expr row_tiles = Expr::ceildiv(shape_.m, tile.rows);
  const Expr column_tiles = Expr::ceildiv(shape_.n, tile.columns);
  const Expr t = ev_.symbol(id, tiles);
  WorkUnit& unit = unit_;
  unit.origin.row = ev_.value(ev_.simplify(Expr::mod(t, row_tiles))) * tile.rows;
  const Expr rest = Expr::floordiv(t, row_tiles);
  unit.origin.column_tile = ev_.value(ev_.simplify(Expr::mod(rest, column_tiles)));
  const Expr outer = Expr::floordiv(t, row_tiles * column_tiles);
  const Expr batches = element_count(shape_.batch);
  unit.batch = ev_.simplify(tile.splits == 1 ? outer : Expr::mod(outer, batches));
  unit.batch_at = ev_.value(unit.batch);
  if (tile.batch_is_symbol && !batches.is_const(1)) unit.batch = ev_.symbol(unit.batch_at, batches);
  unit.split =
      tile.splits == 1 ? b_.i32(0) : ev_.value(ev_.simplify(Expr::floordiv(outer, batches)));
  unit.origin.batch = unit.batch_at;
  return work(unit);
}

/// Workgroup (or cluster) `id` of `groups` computes the units id, id + groups, ... below `tiles`.
/// These two are parameters, so that a probe can execute fewer of them.
Status ResultKernel::write_persistent(Value id, const Expr& tiles, const Expr& groups,
                                      const shaders::TileShape& tile, const Work& work) {
  const Expr batches = element_count(shape_.batch);
  loop_ = Loop{tile, id, ev_.parameter(tiles), ev_.parameter(groups),
               Expr::ceildiv(tiles, tile.groups)};
  b_.set_units(loop_->end, loop_->step);
  unit_.batch = batches.is_const(1) ? Expr(0) : ev_.symbol(id, batches);  // locate() has its value
  unit_.split = unit_.batch_at = b_.i32(0);
  return work(unit_);
}

Status ResultKernel::each_unit(const std::function<Status()>& body) {
  if (!loop_) return body();
  return ev_.for_loop(loop_->first, loop_->end, loop_->step, loop_->iterations, [&](Value unit) {
    locate(unit);
    return body();
  });
}

/// Finds the place of a unit of a persistent kernel: column after column of a band of rows, band
/// after band, batch after batch, and then the next part of K.
void ResultKernel::locate(Value unit) {
  const shaders::TileShape& tile = loop_->tile;
  const Expr rows = Expr::ceildiv(shape_.m, tile.rows),
             columns = Expr::ceildiv(shape_.n, tile.columns);
  const Expr batches = element_count(shape_.batch);
  const Value in_batch = unit % ev_.value(rows * columns);
  const Value outer = unit / ev_.value(rows * columns);
  const Value of_band = ev_.value(columns * Expr(tile.band));
  const Value first = in_batch / of_band * tile.band, at = in_batch % of_band;
  // The last band may have fewer rows.
  const bool whole = rows.known_divisor(g_.symbols) % tile.band == 0;
  const Value height = whole ? b_.i32(tile.band) : min(ev_.value(rows) - first, tile.band);
  unit_.origin.row = (first + at % height) * tile.rows;
  unit_.origin.column_tile = at / height;
  unit_.batch_at = tile.splits == 1 ? outer : outer % ev_.value(batches);
  unit_.origin.batch = unit_.batch_at;
  if (tile.splits != 1) unit_.split = outer / ev_.value(batches);
  ev_.set_symbol(unit_.batch, unit_.batch_at);
}

std::optional<TensorView> ResultKernel::view_of(const MatrixLines& m, const Expr& batch,
                                                uint32_t bytes) {
  const auto symbol = batch.as_symbol();
  const auto with_batch = [&](const Expr& e, const Expr& value) {
    return ev_.simplify(e.substitute(
        [&](SymbolId id) { return symbol == id ? std::optional<Expr>(value) : std::nullopt; }));
  };
  const Expr first = with_batch(m.first, 0);
  const Expr of_batch = ev_.simplify(with_batch(m.first, batch + 1) - m.first);
  const bool batches = symbol && !of_batch.is_const(0);
  for (const Expr& e : {first, m.stride, batches ? of_batch : Expr(0)}) {
    const bool of_launch = e.largest_symbol() < kLoopSymbols;
    if (!of_launch || e.known_divisor(g_.symbols) % (TensorView::kAlignment / bytes) != 0)
      return std::nullopt;
  }
  // Drivers may demand that the matrices of a batch follow one another.
  if (batches && !ev_.simplify(of_batch - m.stride * m.lines).is_const(0)) return std::nullopt;
  const auto scalar = [&](const Expr& e) { return static_cast<uint32_t>(ev_.scalar(e)); };
  TensorView out;
  out.element_bytes = bytes;
  out.first = scalar(first);
  out.dims = {scalar(m.elements), scalar(m.lines)};
  out.strides = {scalar(m.stride)};
  if (batches) {
    out.dims.push_back(scalar(element_count(shape_.batch)));
    out.strides.push_back(scalar(of_batch));
  }
  return out;
}

Expr ResultKernel::clamped(Value at, const Expr& end, bool exact) {
  return ev_.symbol(exact ? at : min(at, ev_.value(end) - 1), end);
}

Expr ResultKernel::clamped_vec(Value vec) {
  return Expr(4) * clamped(vec, Expr::floordiv(shape_.n, 4), exact_columns_);
}

Index ResultKernel::clamped_columns(Value vec) {
  if (shape_.vector_n) return {clamped_vec(vec)};
  Index four;
  for (int l = 0; l < 4; ++l) four.push_back(clamped_column(vec * 4 + l));
  return four;
}

Result<Values> ResultKernel::scalars(Result<Val> v) {
  if (!v.ok()) return v.status();
  const Val x = b_.convert(*v, Ty::F32);
  const int lanes = b_.type(x).lanes;
  Values out;
  for (int l = 0; l < lanes; ++l) out.push_back(b_.extract(x, l));
  return out;
}

Status ResultKernel::loop_over_k(const Expr& length, const shaders::KStepBody& body) {
  const Expr quads = Expr::floordiv(length, 4);
  const auto over = [&](const Expr& from, const Expr& to, int count) {
    return ev_.for_loop(ev_.value(from), ev_.value(to), b_.i32(1), to - from, [&](Value k) {
      return body({Expr(count) * ev_.symbol(k, to), count});
    });
  };
  RP_TRY(over(0, quads, 4));
  if (length.known_divisor(g_.symbols) % 4 == 0) return {};
  return over(Expr(4) * quads, length, 1);
}

Status StoredTile::guard_row(Value row, const Body& body) {
  return ev_.guard(k_.exact_rows() ? Val{} : row < row_count(), body);
}

Status StoredTile::guard_columns(Value vec, const Body& body) {
  // If columns are not stored as vectors, store() guards them one by one.
  const bool always = k_.exact_columns() || !k_.shape().vector_n;
  return ev_.guard(always ? Val{} : vec < ev_.value(Expr::floordiv(k_.shape().n, 4)), body);
}

std::optional<shaders::ViewedResult> StoredTile::viewed() {
  const Group& group = k_.group();
  const ResultShape& shape = k_.shape();
  if (!shape.vector_n || group.outputs.size() != 1) return std::nullopt;
  const DType dtype = graph::storage_of(k_.graph().value(group.outputs[0]));
  if (dtype != DType::F16 && dtype != DType::BF16 && dtype != DType::F32) return std::nullopt;
  // Symbols that stand for any row and column; no instruction uses their values.
  const Value some = shaders::local_index(b_);
  const Expr row = ev_.symbol(some, shape.m), column = ev_.symbol(some, shape.n);
  const Expr here = ev_.simplify(ev_.flatten(index_(row, column), group.domain));
  const auto at = [&](const Expr& r, const Expr& c) {
    return ev_.simplify(here.substitute([&](SymbolId id) -> std::optional<Expr> {
      if (row.as_symbol() == id) return r;
      if (column.as_symbol() == id) return c;
      return std::nullopt;
    }));
  };
  const Expr along = ev_.simplify(at(row, column + 1) - here);
  const Expr across = ev_.simplify(at(row + 1, column) - here);
  if (!along.is_const(1)) return std::nullopt;
  shaders::ViewedResult out;
  out.type = kernel::storage_type(dtype);
  const auto tensor = k_.view_of({at(0, 0), across, shape.n, shape.m}, k_.unit().batch,
                                 static_cast<uint32_t>(kernel::byte_size(out.type)));
  if (!tensor) return std::nullopt;
  out.tensor = *tensor;
  out.tensor.buffer = static_cast<uint32_t>(ev_.buffer(group.outputs[0]));
  out.batched = tensor->dims.size() == 3;
  return out;
}

Result<Value> StoredTile::stored_form(Value row, Value vec, Value four) {
  if (finish_) {
    RP_ASSIGN(four, finish_(vec, four));
  }
  const Expr column = Expr(4) * ev_.symbol(vec, Expr::floordiv(k_.shape().n, 4)) + ev_.lane();
  const Index index = index_(ev_.symbol(row, k_.shape().m), column);
  bind_result(ev_, k_.group(), index, four);
  const graph::ValueId v = k_.group().outputs[0];
  RP_ASSIGN(const Val result, ev_.eval(v, output_index(ev_, k_.group(), v, index), 4));
  const Value stored{b_, ev_.stored_form(v, result)};
  const bool brain = graph::storage_of(k_.graph().value(v)) == DType::BF16;
  return brain ? Value{b_, b_.scalar_op(kernel::ScalarOp::RoundBF16, {stored})} : stored;
}

Status StoredTile::store(Value row, Value vec, Value four) {
  if (finish_) {
    RP_ASSIGN(four, finish_(vec, four));
  }
  const Expr& n = k_.shape().n;
  const Expr at = ev_.symbol(row, k_.shape().m);
  if (k_.shape().vector_n) {
    const Expr first = Expr(4) * ev_.symbol(vec, Expr::floordiv(n, 4));
    return put(index_(at, first + ev_.lane()), four, 4);
  }
  for (int l = 0; l < 4; ++l) {
    const Value column = vec * 4 + l;
    const Val inside = k_.exact_columns() ? Val{} : column < ev_.value(n);
    RP_TRY(ev_.guard(
        inside, [&] { return put(index_(at, ev_.symbol(column, n)), b_.extract(four, l), 1); }));
  }
  return {};
}

}  // namespace reprise::lower
