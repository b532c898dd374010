#include "codegen/lower/contraction.h"

#include <algorithm>

#include "codegen/lower/cost.h"
#include "codegen/ops/quantize.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Ty;
using kernel::Val;

namespace {

/// Whether a contraction multiplies what is fp16 in memory: the value, or views of one.
bool is_half(const graph::Graph& g, const Group& group, ValueId v) {
  while (true) {
    const graph::Value& value = g.value(v);
    if (value.dtype == DType::F16) return true;
    const graph::Node* n = value.producer;
    if (n == nullptr || std::find(group.nodes.begin(), group.nodes.end(), n) == group.nodes.end())
      return graph::storage_of(value) == DType::F16;
    const ops::OpDef* def = def_of(*n);
    if (def == nullptr || def->lowering != ops::Lowering::View) return false;
    v = n->inputs[0];
  }
}

}  // namespace

bool is_half_gemm(const graph::Graph& g, const Group& group) {
  if (group.kind != GroupKind::Contraction) return false;
  const std::vector<ValueId>& in = group.anchor->inputs;
  // What a scale makes of bytes is rounded to fp16 nowhere.
  const bool exact = std::none_of(group.nodes.begin(), group.nodes.end(),
                                  [](const graph::Node* n) { return ops::is_core_dequantize(*n); });
  return exact && is_half(g, group, in[0]) && is_half(g, group, in[1]);
}

std::optional<ConstantOperand> constant_operand(const graph::Graph& g, const Group& group,
                                                ValueId v) {
  ConstantOperand out{v, nullptr};
  const graph::Node* p = g.value(v).producer;
  if (p != nullptr && ops::is_core_dequantize(*p)) {
    if (std::find(group.nodes.begin(), group.nodes.end(), p) == group.nodes.end())
      return std::nullopt;
    out = {p->inputs[0], p};
  }
  const auto& constant = g.value(out.value).constant;
  if (!constant || constant->count() == 0 || !is_gemm_float(g.value(v).dtype)) return std::nullopt;
  return out;
}

Result<Lowered> Contraction::write(shaders::GemmSize size, size_t choice) {
  size.m = count_hint(g_, {m_});
  size.n = count_hint(g_, {n_});
  size.batch = count_hint(g_, batch_);
  size.half = is_half_gemm(g_, group_);
  const std::vector<shaders::Tile> tiles_by_cost = shaders::candidates(size, target_);
  if (choice >= tiles_by_cost.size()) {
    return internal_error("schedule " + std::to_string(choice) + " of " +
                          std::to_string(tiles_by_cost.size()));
  }
  tile_ = tiles_by_cost[choice];
  exact_steps_ = k_.known_divisor(g_.symbols) % tile_.step == 0;
  RP_ASSIGN(Lowered out, write_units(tile_, tile_.describe(), [&](Val row, Val column) {
              return tile_.schedule->write(*this, tile_, row, column);
            }));
  for (const shaders::Tile& t : tiles_by_cost) out.choices.push_back({t.describe(), t.cost});
  return out;
}

Status Contraction::k_blocks(const Body& first, const std::function<Status(Val)>& body) {
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

Status Contraction::store(Val row, Val vec, Val four) {
  if (scaled_by_ != nullptr) {
    RP_ASSIGN(const Val scale, parameters(*scaled_by_, 1, vec, scale_at_));
    four = b_.mul(four, scale);
  }
  return ResultKernel::store(row, vec, four);
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
  return b_.load(ev_.buffer(constant, true), at, 4, 4);
}

void Contraction::set_scale(const graph::Node* n, WeightIndex index) {
  scaled_by_ = n;
  scale_at_ = std::move(index);
}

Result<Val> Contraction::parameters(const graph::Node& n, size_t input, Val vec,
                                    const WeightIndex& index) {
  const auto at = [&](const Expr& column, int lanes) -> Result<Val> {
    Index where = ops::scale_index(g_, n, index(column));
    for (Expr& e : where) e = ev_.simplify(e);
    RP_ASSIGN(const Val v, ev_.eval(n.inputs[input], where, lanes));
    const Ty wanted = input == 1 ? Ty::F32 : Ty::I32;
    return b_.type(v).ty == wanted ? v : b_.convert(v, wanted);
  };
  if (n_.known_divisor(g_.symbols) % 4 == 0) return at(Expr(4) * clamped_vec(vec) + ev_.lane(), 4);
  std::vector<Val> parts;
  for (int l = 0; l < 4; ++l) {
    const Val column = b_.add(b_.mul(vec, b_.i32(4)), b_.i32(l));
    RP_ASSIGN(const Val part, at(clamped_column(column), 1));
    parts.push_back(part);
  }
  return b_.compose(parts);
}

Result<Val> Contraction::dequantized(const graph::Node& n, Val raw, Val vec,
                                     const WeightIndex& index) {
  Val x = b_.type(raw).ty == Ty::I32 ? raw : b_.convert(raw, Ty::I32);
  if (n.inputs.size() > 2) {
    RP_ASSIGN(const Val zero, parameters(n, 2, vec, index));
    x = b_.sub(x, zero);
  }
  x = b_.convert(x, Ty::F32);
  if (scaled_by_ != nullptr) return x;
  RP_ASSIGN(const Val scale, parameters(n, 1, vec, index));
  return b_.mul(x, scale);
}

void Contraction::pack(Lowered& out, ValueId constant, PackedOperand form) const {
  const auto at = std::find_if(out.buffers.begin(), out.buffers.end(), [&](const LoweredBuffer& b) {
    return b.value == constant && b.packed;
  });
  if (at == out.buffers.end()) return;  // a sum of no elements reads nothing
  form.buffer = static_cast<int>(at - out.buffers.begin());
  form.tile_n = static_cast<uint32_t>(tile_.columns);
  out.packed.push_back(form);
}

}  // namespace reprise::lower
