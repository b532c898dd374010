#include "codegen/lower/problems/contraction.h"

#include <algorithm>

#include "codegen/lower/group/cost.h"
#include "codegen/ops/math/quantize.h"
#include "shaders/block_operands.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Builder;
using kernel::ScalarOp;
using kernel::Ty;

namespace {

/// The type of the values of v, an operand of the group's contraction: what it or a value that it
/// is a view of is in memory.
DType values_of(const graph::Graph& g, const Group& group, ValueId v) {
  while (true) {
    const graph::Value& value = g.value(v);
    const graph::Node* n = value.producer;
    if (n == nullptr || std::find(group.nodes.begin(), group.nodes.end(), n) == group.nodes.end())
      return graph::storage_of(value);
    const ops::OpDef* def = def_of(*n);
    if (value.dtype != DType::F32 || def == nullptr || def->lowering != ops::Lowering::View)
      return value.dtype;
    v = n->inputs[0];
  }
}

std::optional<MmaTypes> mma_of(DType type) {
  if (type == DType::F16) return kHalfMma;
  if (type == DType::BF16) return kBfloatMma;
  return {};
}

/// What matrix units multiply if B is a weight of integers. These are exact in the type of A, also
/// less their zero points. With their scale they are rounded to it, which is what the node means if
/// that is the type of its result.
std::optional<MmaTypes> mma_of_integers(const graph::Graph& g, const Group& group) {
  const ValueId b = group.anchor->inputs[1], transposed = transposed_matrix(g, b);
  const auto weight = constant_operand(g, group, transposed == graph::kNone ? b : transposed);
  if (!weight || weight->dequantize == nullptr) return {};
  const bool is_matmul = def_of(*group.anchor)->lowering == ops::Lowering::MatMul;
  if (is_matmul && g.value(weight->value).shape.size() != 2) return {};
  const DType type = values_of(g, group, group.anchor->inputs[0]);
  const int64_t column_axis = is_matmul && transposed == graph::kNone ? 1 : 0;
  const bool exact = scales_result(g, *weight, column_axis) ||
                     g.value(weight->dequantize->outputs[0]).dtype == type;
  return exact ? mma_of(type) : std::nullopt;
}

/// The same of floats: weights of integers make other products of fp32 inexact.
std::optional<MmaTypes> mma_of_floats(const graph::Graph& g, const Group& group) {
  const std::vector<ValueId>& in = group.anchor->inputs;
  const DType a = values_of(g, group, in[0]), b = values_of(g, group, in[1]);
  if (!is_gemm_float(a) || !is_gemm_float(b)) return {};
  return a == b && a != DType::F32 ? mma_of(a) : kSplitMma;
}

}  // namespace

std::optional<MmaTypes> mma_types(const graph::Graph& g, const Group& group) {
  if (group.kind != GroupKind::Contraction) return {};
  const bool integers = std::any_of(group.nodes.begin(), group.nodes.end(),
                                    [](const graph::Node* n) { return ops::dequantizes(*n); });
  return integers ? mma_of_integers(g, group) : mma_of_floats(g, group);
}

bool scales_result(const graph::Graph& g, const ConstantOperand& constant, int64_t column_axis) {
  if (constant.dequantize == nullptr) return false;
  const auto axis = ops::scaled_axis(g, *constant.dequantize);
  return axis && (*axis < 0 || *axis == column_axis);
}

std::optional<ConstantOperand> constant_operand(const graph::Graph& g, const Group& group,
                                                ValueId v) {
  ConstantOperand out{v, nullptr};
  const graph::Node* p = g.value(v).producer;
  if (p != nullptr && ops::dequantizes(*p)) {
    if (std::find(group.nodes.begin(), group.nodes.end(), p) == group.nodes.end())
      return std::nullopt;
    out = {p->inputs[0], p};
  }
  const auto& constant = g.value(out.value).constant;
  if (!constant || constant->count() == 0 || !is_gemm_float(g.value(v).dtype)) return std::nullopt;
  return out;
}

void add_packed(LoweredLaunch& out, const ContractionProblem& problem, const shaders::Tile& tile) {
  const auto at = std::find_if(out.buffers.begin(), out.buffers.end(), [&](const LoweredBuffer& b) {
    return b.value == problem.constant && b.packed;
  });
  // There is no constant, or K is 0 and the kernel reads no operands.
  if (at == out.buffers.end()) return;
  out.packed.push_back({tile.schedule->packing(problem.weight, problem.weight_bits, tile),
                        static_cast<int>(at - out.buffers.begin())});
}

std::unique_ptr<TileOperands> operands_of(const ContractionProblem& problem, ResultKernel& kernel,
                                          const shaders::Tile& tile, const WorkUnit& unit) {
  std::unique_ptr<TileOperands> out = problem.operands(kernel, tile, unit);
  if (problem.constant == graph::kNone) return out;
  plan::Packing packing = tile.schedule->packing(problem.weight, problem.weight_bits, tile);
  const bool is_own =
      packing != shaders::columns_in_tiles(problem.weight, problem.weight_bits, tile);
  out->use_packing(std::move(packing), problem.weight.transposed, is_own);
  return out;
}

/// Finds which operands asynchronous copies can bring to shared memory. Asks the operands of a
/// kernel that is not used.
void find_copies(const graph::Graph& g, const Group& group, const TargetFacts& target,
                 ContractionProblem& problem) {
  if (!problem.size.mma || !target.async_copies()) return;
  const shaders::Tile tile;
  ResultKernel kernel(g, group, target, problem.result);
  WorkUnit unit;
  // Not a constant, of which every stride of the batch would be a divisor.
  kernel::Builder& b = kernel.builder();
  const kernel::Val any = b.convert(b.builtin(kernel::Builtin::WorkgroupId), kernel::Ty::I32);
  unit.batch = kernel.evaluator().symbol(any, element_count(problem.result.batch));
  const std::unique_ptr<TileOperands> operands = problem.operands(kernel, tile, unit);
  const Ty type = shaders::operand_type(*problem.size.mma);
  const int bytes = kernel::byte_size(type);
  using Copies = shaders::GemmSize::Copies;
  const auto copies = [&](const shaders::Operand& o) -> std::optional<Copies> {
    const int elements = shaders::elements_of_copy(o, type);
    if (elements == 0) return {};
    return Copies{o.plain && o.plain->contiguous_along, elements, bytes};
  };
  problem.size.a_copies = copies(operands->a());
  if (problem.constant != graph::kNone)
    operands->use_packing(shaders::columns_in_tiles(problem.weight, problem.weight_bits, tile),
                          problem.weight.transposed, false);
  problem.size.b_copies = copies(operands->b());
}

/// Finds which operands have views. Asks the operands of a kernel that is not used.
void find_views(const graph::Graph& g, const Group& group, const TargetFacts& target,
                ContractionProblem& problem) {
  const auto is_narrow = [&](ValueId v) {
    const DType dtype = graph::storage_of(g.value(v));
    return dtype == DType::F16 || dtype == DType::BF16;
  };
  const std::vector<ValueId>& in = group.anchor->inputs;
  const bool narrow = is_narrow(in[0]) && is_narrow(in[1]);
  const bool converts = problem.converts && problem.size.mma && *problem.size.mma != kSplitMma;
  // Asked last, so that the kernels of other operands serve devices with and without matrix units.
  if (problem.weight.batch != 1 || (!narrow && !converts) || !target.has_teams()) return;
  ResultKernel kernel(g, group, target, problem.result);
  const shaders::Tile tile;
  WorkUnit unit;
  unit.batch_at = shaders::local_index(kernel.builder());  // any number
  unit.batch = kernel.evaluator().symbol(unit.batch_at, element_count(problem.result.batch));
  const std::unique_ptr<TileOperands> operands = problem.operands(kernel, tile, unit);
  const bool tiled = problem.weight_bits == 0;
  if (problem.constant != graph::kNone)
    operands->use_packing(shaders::columns_in_tiles(problem.weight, problem.weight_bits, tile),
                          problem.weight.transposed, tiled);
  const auto a = operands->viewed_a(), c = operands->viewed_b();
  if (a && c && a->type == c->type) {
    problem.size.viewed = a->type;
  } else if (converts) {
    problem.size.converted =
        shaders::GemmSize::Converted{!a, !c, shaders::matrix_b_along_k(*operands)};
  }
}

Result<Lowered> lower_contraction(const graph::Graph& g, const Group& group,
                                  const TargetFacts& target, ContractionProblem problem,
                                  size_t choice) {
  problem.size.m = count_hint(g, {problem.result.m});
  problem.size.n = count_hint(g, {problem.result.n});
  problem.size.batch = count_hint(g, problem.result.batch);
  // Prices of integers on CPU-type devices were measured without matrix units.
  if (!problem.integers || !target.cpu_type()) problem.size.mma = mma_types(g, group);
  if (problem.size.mma == kSplitMma && problem.size.k < shaders::kLeastSplitDepth)
    problem.size.mma.reset();
  problem.size.constant_result = problem.result.m.is_const() && problem.result.n.is_const() &&
                                 element_count(problem.result.batch).is_const();
  find_copies(g, group, target, problem);
  find_views(g, group, target, problem);
  std::vector<shaders::Tile> tiles = shaders::candidates(problem.size, target);
  if (problem.one_row) std::erase_if(tiles, [](const shaders::Tile& t) { return t.rows != 1; });
  return lower_choice(tiles, choice, [&](const shaders::Tile& tile) -> Result<Lowered> {
    if (tile.splits > 1) return lower_split_k(g, group, target, problem, tile);
    ResultKernel kernel(g, group, target, problem.result);
    const auto write_tile = [&](const WorkUnit& unit) {
      const std::unique_ptr<TileOperands> operands = operands_of(problem, kernel, tile, unit);
      StoredTile result = operands->stored_tile();
      return tile.schedule->write({*operands, result, tile, unit.origin});
    };
    RP_ASSIGN(Lowered out, kernel.write_units(tile, tile.describe() + problem.note, write_tile));
    add_packed(out.launches[0], problem, tile);
    return out;
  });
}

TileOperands::TileOperands(ResultKernel& kernel, const shaders::Tile& tile, const WorkUnit& unit,
                           Expr k)
    : kernel_(kernel),
      g_(kernel.graph()),
      b_(kernel.builder()),
      ev_(kernel.evaluator()),
      tile_(tile),
      unit_(unit),
      k_(std::move(k)),
      whole_blocks_(k_.known_divisor(g_.symbols) % tile.step == 0) {}

Value TileOperands::first_k_block() {
  if (tile_.cluster_parts != 1)
    return b_.convert(b_.builtin(kernel::Builtin::ClusterRank), Ty::I32) *
           ev_.value(blocks_of_split());
  return tile_.splits == 1 ? b_.i32(0) : unit_.split * ev_.value(blocks_of_split());
}

Value TileOperands::k_block_count() {
  const Value most = ev_.value(blocks_of_split());
  if (tile_.splits * tile_.cluster_parts == 1) return most;
  return min(most, ev_.value(Expr::ceildiv(k_, tile_.step)) - first_k_block());
}

Status TileOperands::k_blocks(const std::function<Status()>& first,
                              const std::function<Status(Value)>& body) {
  const Value count = k_block_count();
  return ev_.guard(b_.i32(0) < count, [&] {
    RP_TRY(first());
    return ev_.for_loop(b_.i32(0), count, b_.i32(1), blocks_of_split(), body);
  });
}

Status TileOperands::branch(Val condition, const std::function<Status()>& then,
                            const std::function<Status()>& otherwise) {
  Status first, second;
  b_.if_else(
      condition, [&] { first = ev_.scope(then); }, [&] { second = ev_.scope(otherwise); });
  RP_TRY(std::move(first));
  return second;
}

Result<Values> TileOperands::load_one(Value k, bool whole, const LoadAt& load) {
  if (whole) return kernel_.scalars(load(ev_.symbol(k, k_), 1));
  const Val inside = k < ev_.value(k_);
  RP_ASSIGN(Values x, kernel_.scalars(load(kernel_.clamped(k, k_, false), 1)));
  for (Val& v : x) v = b_.select(inside, v, b_.f32(0));
  return x;
}

Result<Values> TileOperands::load_quad(Value quad, bool vector, bool whole, const LoadAt& load) {
  if (vector && k_.known_divisor(g_.symbols) % 4 == 0) {
    const Expr quads = Expr::floordiv(k_, 4);
    const Expr first = Expr(4) * kernel_.clamped(quad, quads, whole);
    RP_ASSIGN(Values x, kernel_.scalars(load(first + ev_.lane(), 4)));
    if (whole) return x;
    const Val inside = quad < ev_.value(quads);
    for (Val& v : x) v = b_.select(inside, v, b_.f32(0));
    return x;
  }
  Values four;
  for (int i = 0; i < 4; ++i) {
    RP_ASSIGN(const Values x, load_one(quad * 4 + i, whole, load));
    four.push_back(x[0]);
  }
  return four;
}

StoredTile TileOperands::stored_tile() {
  return StoredTile(
      kernel_, [this](const Expr& row, const Expr& column) { return result_index(row, column); },
      [this](Value vec, Value four) { return finish(vec, four); });
}

Result<Value> TileOperands::finish(Value vec, Value four) {
  if (scaled_by_ == nullptr) return four;
  RP_ASSIGN(const Val scale, parameters(*scaled_by_, 1, vec, scale_at_));
  return b_.mul(four, scale);
}

void TileOperands::scale_result(const graph::Node* dequantize, WeightIndex index) {
  scaled_by_ = dequantize;
  scale_at_ = std::move(index);
}

Value nibbles_of(Builder& b, Value word, Value odd, bool is_signed) {
  const Value four{b, b.splat(b.bitcast(word, kernel::kI32), 4)};
  const Value from{b, b.splat(odd * 16, 4)};
  const Value first{b, b.compose({b.i32(0), b.i32(4), b.i32(8), b.i32(12)})};
  if (!is_signed) {
    const Value shifted = b.scalar_op(ScalarOp::ShiftRight, {four, from + first});
    return b.scalar_op(ScalarOp::BitAnd, {shifted, b.splat(b.i32(15), 4)});
  }
  const Value top{b, b.splat(b.i32(28), 4)};
  const Value left = b.scalar_op(ScalarOp::ShiftLeft, {four, top - from - first});
  return b.scalar_op(ScalarOp::ShiftRight, {left, top});
}

Value TileOperands::packed_tile(const Value& rows) {
  // `vec` counts vectors over all tiles of a row, so the address is
  // ((batch * tiles + tile) * rows + row) * columns + 4 * vec - tile * columns.
  const Value column_tile = unit_.origin.column_tile;
  Value tile = column_tile;
  if (!kernel_.shape().batch.empty())
    tile =
        unit_.batch_at * ev_.value(Expr::ceildiv(kernel_.shape().n, tile_.columns)) + column_tile;
  return tile * rows * tile_.columns - column_tile * tile_.columns;
}

Value TileOperands::load_octet(const ConstantOperand& constant, Value vec, Value octet) {
  const Value at = packed_tile(ev_.value(Expr::ceildiv(k_, 8))) + octet * tile_.columns + vec * 4;
  return b_.load(ev_.buffer(constant.value, true), at, 4, 4);
}

Value TileOperands::load_columns(const ConstantOperand& constant, Value vec, Value k, int count) {
  const Value at = packed_tile(ev_.value(k_)) + k * tile_.columns + vec * 4;
  return b_.load(ev_.buffer(constant.value, true), at, count, static_cast<uint32_t>(count));
}

Value TileOperands::load_nibbles(const ConstantOperand& constant, Value vec, Value k) {
  const auto bits = [&](Value v, int64_t mask) {
    return Value{b_, b_.scalar_op(ScalarOp::BitAnd, {v, b_.i32(mask)})};
  };
  const auto half = [&](Value v, int64_t shift) {
    return Value{b_, b_.scalar_op(ScalarOp::ShiftRight, {v, b_.i32(shift)})};
  };
  const Value at = packed_tile(ev_.value(Expr::ceildiv(k_, 8))) + half(k, 3) * tile_.columns +
                   vec * 4 + half(bits(k, 7), 1);
  const Value word = b_.load(ev_.buffer(constant.value, true), at);
  return nibbles_of(b_, word, bits(k, 1), g_.value(constant.value).dtype == DType::I4);
}

std::optional<shaders::ViewedOperand> TileOperands::viewed(
    ValueId v, const Expr& count, const std::function<Index(const Expr&, const Expr&)>& at) {
  const auto found = layout_of(kernel_, v, {count, k_, at});
  if (!found) return std::nullopt;
  const DType dtype = graph::storage_of(g_.value(found->value));
  const bool along_k = found->along.is_const(1);
  if ((dtype != DType::F16 && dtype != DType::BF16) || (!along_k && !found->across.is_const(1)))
    return std::nullopt;
  const MatrixLines lines = along_k ? MatrixLines{found->first, found->across, k_, count}
                                    : MatrixLines{found->first, found->along, count, k_};
  const auto tensor = kernel_.view_of(lines, unit_.batch, 2);
  if (!tensor) return std::nullopt;
  shaders::ViewedOperand out;
  out.tensor = *tensor;
  out.tensor.buffer = static_cast<uint32_t>(ev_.buffer(found->value));
  out.type = kernel::storage_type(dtype);
  out.along_k = along_k;
  out.batched = tensor->dims.size() == 3;
  return out;
}

std::optional<shaders::ViewedOperand> TileOperands::viewed(const ConstantOperand& constant,
                                                           const Expr& n) {
  const DType dtype = g_.value(constant.value).dtype;
  const bool plain =
      constant.dequantize == nullptr && packing_ && packing_->bits == 0 && packing_->dims[0] == 1;
  if (!plain || (dtype != DType::F16 && dtype != DType::BF16)) return std::nullopt;
  const int64_t columns = packing_->parts.back().size;
  shaders::ViewedOperand out;
  out.type = kernel::storage_type(dtype);
  out.columns = static_cast<int>(columns);
  const auto scalar = [&](const Expr& e) { return static_cast<uint32_t>(ev_.scalar(e)); };
  out.tensor.buffer = static_cast<uint32_t>(ev_.buffer(constant.value, true));
  out.tensor.element_bytes = 2;
  out.tensor.first = scalar(0);
  out.tensor.dims = {scalar(columns), scalar(k_), scalar(Expr::ceildiv(n, columns))};
  out.tensor.strides = {scalar(columns), scalar(k_ * Expr(columns))};
  return out;
}

shaders::Operand TileOperands::packed_operand(const ConstantOperand& constant) {
  shaders::Operand out{g_.value(constant.value).dtype};
  const kernel::Ty type = packing_->bits != 0
                              ? Ty::U32
                              : kernel::storage_type(graph::storage_of(g_.value(constant.value)));
  out.packed = shaders::PackedOperand{ev_.buffer(constant.value, true), type, *packing_};
  return out;
}

Val TileOperands::load_own(const ConstantOperand& constant, Value vec, Value k) {
  std::vector<Val> four;
  for (int i = 0; i < 4; ++i) {
    const Expr column = kernel_.clamped_column(vec * 4 + i), row = ev_.symbol(k, k_);
    const Expr batch = packing_->dims[0] == 1 ? Expr(0) : unit_.batch;
    const Index at = transposed_ ? Index{batch, column, row} : Index{batch, row, column};
    four.push_back(ev_.packed_element(constant.value, *packing_, at));
  }
  return b_.compose(four);
}

Result<Val> TileOperands::load_packed(const ConstantOperand& constant, Value vec, Value k,
                                      const WeightIndex& index) {
  Value raw;
  if (own_packing_) {
    raw = {b_, load_own(constant, vec, k)};
  } else if (is_packed_in_nibbles(g_, constant.value)) {
    raw = load_nibbles(constant, vec, k);
  } else {
    raw = load_columns(constant, vec, k, 4);
  }
  if (constant.dequantize == nullptr) return raw;
  const graph::Node& n = *constant.dequantize;
  Value x = b_.convert(raw, Ty::I32);
  if (ops::has_input(n, ops::kZeroPoint)) {
    RP_ASSIGN(const Val zero, parameters(n, ops::kZeroPoint, vec, index));
    x = b_.sub(x, zero);
  }
  x = b_.convert(x, Ty::F32);
  if (scaled_by_ != nullptr) return x;
  RP_ASSIGN(const Val scale, parameters(n, 1, vec, index));
  x = b_.mul(x, scale);
  if (!ops::has_input(n, ops::kMinimum)) return x;
  RP_ASSIGN(const Val minimum, parameters(n, ops::kMinimum, vec, index));
  return b_.add(x, minimum);
}

Result<Val> TileOperands::parameters(const graph::Node& n, size_t input, Value vec,
                                     const WeightIndex& index) {
  const auto at = [&](const Expr& column, int lanes) -> Result<Val> {
    Index where = ops::scale_index(g_, n, index(column));
    for (Expr& e : where) e = ev_.simplify(e);
    RP_ASSIGN(const Val v, ev_.eval(n.inputs[input], where, lanes));
    return b_.convert(v, input == ops::kZeroPoint ? Ty::I32 : Ty::F32);
  };
  if (kernel_.shape().n.known_divisor(g_.symbols) % 4 == 0)
    return at(kernel_.clamped_vec(vec) + ev_.lane(), 4);
  std::vector<Val> parts;
  for (int l = 0; l < 4; ++l) {
    RP_ASSIGN(const Val part, at(kernel_.clamped_column(vec * 4 + l), 1));
    parts.push_back(part);
  }
  return b_.compose(parts);
}

}  // namespace reprise::lower
