#include "codegen/lower/contraction.h"

#include "codegen/lower/cost.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Ty;
using kernel::Val;

bool is_half_product(const graph::Graph& g, const Group& group) {
  if (group.kind != GroupKind::Contraction) return false;
  const std::vector<ValueId>& in = group.anchor->inputs;
  return g.value(in[0]).dtype == DType::F16 && g.value(in[1]).dtype == DType::F16;
}

Contraction::Contraction(const graph::Graph& g, const Group& group, const Target& target)
    : g_(g), group_(group), target_(target), b_(kernel_name(group)), ev_(g, group, b_) {}

Expr Contraction::clamped(Val at, const Expr& end, bool exact) {
  if (!exact) at = b_.min(at, b_.sub(ev_.value(end), b_.i32(1)));
  return ev_.symbol(at, end);
}

Result<Contraction::Values> Contraction::scalars(Result<Val> v) {
  if (!v.ok()) return v.status();
  const Val x = b_.type(*v).ty == Ty::F32 ? *v : b_.convert(*v, Ty::F32);
  const int lanes = b_.type(x).lanes;
  if (lanes == 1) return Values{x};
  Values out;
  for (int l = 0; l < lanes; ++l) out.push_back(b_.extract(x, l));
  return out;
}

Result<Lowered> Contraction::write(shaders::ProductSize size, size_t choice) {
  size.rows = count_hint(g_, {m_});
  size.columns = count_hint(g_, {n_});
  size.batch = count_hint(g_, batch_);
  size.half = is_half_product(g_, group_);
  const std::vector<shaders::Tile> tiles_by_cost = shaders::candidates(size, target_.predicate);
  if (choice >= tiles_by_cost.size()) {
    return internal_error("schedule " + std::to_string(choice) + " of " +
                          std::to_string(tiles_by_cost.size()));
  }
  tile_ = tiles_by_cost[choice];
  exact_rows_ = m_.known_divisor(g_.symbols) % tile_.rows == 0;
  exact_columns_ = n_.known_divisor(g_.symbols) % tile_.columns == 0;
  exact_steps_ = k_.known_divisor(g_.symbols) % tile_.step == 0;

  b_.set_workgroup(tile_.workgroup);
  if (tile_.subgroup_size != 0) b_.require_subgroup_size(tile_.subgroup_size);
  const Expr row_tiles = Expr::ceildiv(m_, tile_.rows);
  const Expr column_tiles = Expr::ceildiv(n_, tile_.columns);
  const Expr tiles = element_count(batch_) * column_tiles * row_tiles;
  // A workgroup's invocations leave together: shuffles and barriers need each of them.
  const int64_t units = tile_.unit == shaders::Unit::Invocation ? tile_.workgroup : 1;
  const Expr groups = Expr::ceildiv(tiles, units);
  const Val id =
      units == 1 ? linear_workgroup(b_, groups) : linear_invocation(b_, groups, tile_.workgroup);
  const bool exact = tiles.is_const() && tiles.value() % units == 0;
  RP_TRY(guard(ev_, exact ? Val{} : b_.lt(id, ev_.value(tiles)),
               [&] { return write_unit(id, tiles, row_tiles, column_tiles); }));
  RP_ASSIGN(Lowered out, finish(ev_, b_, group_, groups, target_, tile_.describe()));
  for (const shaders::Tile& t : tiles_by_cost) out.choices.push_back({t.describe(), t.cost});
  return out;
}

Status Contraction::write_unit(Val id, const Expr& tiles, const Expr& row_tiles,
                               const Expr& column_tiles) {
  const Expr t = ev_.symbol(id, tiles);
  const Val row = b_.mul(ev_.value(ev_.simplify(Expr::mod(t, row_tiles))), b_.i32(tile_.rows));
  const Expr rest = Expr::floordiv(t, row_tiles);
  column_tile_ = ev_.value(ev_.simplify(Expr::mod(rest, column_tiles)));
  const Expr batch = ev_.simplify(Expr::floordiv(t, row_tiles * column_tiles));
  batch_at_ = ev_.value(batch);
  begin(batch);
  return tile_.schedule->write(*this, tile_, row, column_tile_);
}

void Contraction::loop(Val end, int64_t most, const std::function<void(Val)>& body) {
  ev_.for_loop(b_.i32(0), end, b_.i32(1), most, [&](Val i) {
    ev_.push_scope();
    body(i);
    ev_.pop_scope();
  });
}

Status Contraction::blocks(const Body& first, const std::function<Status(Val)>& body) {
  const Expr count = Expr::ceildiv(k_, tile_.step);
  return guard(ev_, b_.lt(b_.i32(0), ev_.value(count)), [&] {
    RP_TRY(first());
    Status status;
    ev_.for_loop(b_.i32(0), ev_.value(count), b_.i32(1), count, [&](Val i) {
      ev_.push_scope();
      status = body(i);
      ev_.pop_scope();
    });
    return status;
  });
}

Contraction::Values Contraction::or_zero(Val inside, Values values) {
  for (Val& v : values) v = b_.select(inside, v, b_.f32(0));
  return values;
}

Result<Contraction::Values> Contraction::one_position(Val position, const LoadAt& load) {
  if (exact_steps_) return scalars(load(ev_.symbol(position, k_), 1));
  const Val inside = b_.lt(position, ev_.value(k_));
  RP_ASSIGN(Values x, scalars(load(clamped(position, k_, false), 1)));
  return or_zero(inside, std::move(x));
}

Result<Contraction::Values> Contraction::four_positions(Val quad, bool vector, const LoadAt& load) {
  if (vector && k_.known_divisor(g_.symbols) % 4 == 0) {
    const Expr quads = Expr::floordiv(k_, 4);
    const Expr first = Expr(4) * clamped(quad, quads, exact_steps_);
    RP_ASSIGN(Values x, scalars(load(first + ev_.lane(), 4)));
    return exact_steps_ ? x : or_zero(b_.lt(quad, ev_.value(quads)), std::move(x));
  }
  Values four;
  for (int i = 0; i < 4; ++i) {
    RP_ASSIGN(const Values x, one_position(b_.add(b_.mul(quad, b_.i32(4)), b_.i32(i)), load));
    four.push_back(x[0]);
  }
  return four;
}

Status Contraction::guard_row(Val row, const Body& body) {
  return guard(ev_, exact_rows_ ? Val{} : b_.lt(row, ev_.value(m_)), body);
}

Status Contraction::guard_columns(Val vec, const Body& body) {
  // Columns that are not vectors are guarded one by one, in store().
  const bool always = exact_columns_ || !wide_n_;
  return guard(ev_, always ? Val{} : b_.lt(vec, ev_.value(Expr::floordiv(n_, 4))), body);
}

Status Contraction::store(Val row, Val vec, Val four) {
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

Val Contraction::load_packed(ValueId constant, const Expr& depth, Val vec, Val k) {
  // `vec` counts over all tiles: ((batch * tiles + tile) * depth + k) * columns + 4 * vec - tile *
  // columns.
  const Val columns = b_.i32(tile_.columns);
  Val tile = column_tile_;
  if (!batch_.empty()) {
    const Val tiles = ev_.value(Expr::ceildiv(n_, tile_.columns));
    tile = b_.add(b_.mul(batch_at_, tiles), column_tile_);
  }
  const Val first =
      b_.sub(b_.mul(b_.mul(tile, ev_.value(depth)), columns), b_.mul(column_tile_, columns));
  const Val at = b_.add(b_.add(first, b_.mul(k, columns)), b_.mul(vec, b_.i32(4)));
  return b_.load(ev_.buffer(constant), at, 4, 4);
}

PackedOperand Contraction::packing(const Lowered& out, ValueId constant) const {
  PackedOperand p;
  for (size_t i = 0; i < out.buffers.size(); ++i) {
    if (out.buffers[i].value == constant) p.buffer = static_cast<int>(i);
  }
  p.tile_n = static_cast<uint32_t>(tile_.columns);
  return p;
}

}  // namespace reprise::lower
