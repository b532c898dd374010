// The problem that shaders/recurrent.h solves: where the operands of a recurrent layer lie, and
// what the functions of its gates are.
#include "shaders/recurrent.h"

#include <algorithm>

#include "codegen/lower/group/cost.h"
#include "codegen/lower/launch/result_kernel.h"
#include "codegen/lower/problems/recurrent.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::ScalarOp;
using shaders::RecurrentState;
using shaders::RecurrentWeights;
using shaders::Sequence;
using shaders::Units;

namespace {

/// The inputs of RecurrentSteps.
enum Input : uint8_t { kX, kR, kBias, kLengths, kH, kC, kPeepholes };

/// Columns of R that packing puts side by side: 8 invocations load 4 each.
constexpr int64_t kPackedColumns = 32;

struct RecurrentProblem {
  explicit RecurrentProblem(const graph::Graph& g, const graph::Node& n);

  ValueId input(size_t i) const { return i < node.inputs.size() ? node.inputs[i] : graph::kNone; }
  int64_t weight_rows() const { return int64_t{size.gates()} * size.hidden; }  // of R

  const graph::Node& node;
  shaders::RecurrentSize size;
  Expr steps, batch;
  int64_t directions = 1;
  bool reverse = false;  // of the only direction
  bool packed = false;   // whether R is a constant
  std::vector<RecurrentActivation> functions;
};

RecurrentProblem::RecurrentProblem(const graph::Graph& g, const graph::Node& n) : node(n) {
  const ops::Attributes given(n);
  const Shape& x = g.value(n.inputs[kX]).shape;
  const Shape& r = g.value(n.inputs[kR]).shape;
  steps = x[0];
  batch = x[1];
  directions = r[0].value();
  reverse = given.get_string("direction") == "reverse";
  size.cell = static_cast<RecurrentCell>(given.get_int("cell"));
  size.linear_before_reset = given.get_int("linear_before_reset") != 0;
  size.input_forget = given.get_int("input_forget") != 0;
  size.hidden = static_cast<int>(r[2].value());
  size.clip = static_cast<double>(given.get_float("clip"));
  size.batch = count_hint(g, {batch});
  size.directions = static_cast<double>(directions);
  size.steps = count_hint(g, {steps});
  packed = g.value(n.inputs[kR]).constant.has_value();
}

/// The steps of one launch, as one of `count` parts of all steps. Launches pass the states on in
/// scratch memory.
struct Part {
  int64_t number = 0, count = 1;

  bool is_first() const { return number == 0; }
  bool is_last() const { return number == count - 1; }
  static Expr begin(const Expr& steps, int64_t number, int64_t count) {
    return Expr::floordiv(steps * Expr(number), count);
  }
};

/// The operands in the kernel of a tile.
class RecurrentOperands final : public shaders::Recurrence {
 public:
  RecurrentOperands(const RecurrentProblem& p, ResultKernel& kernel,
                    const shaders::RecurrentTile& tile, const Part& part, const WorkUnit& unit)
      : p_(p),
        kernel_(kernel),
        g_(kernel.graph()),
        b_(kernel.builder()),
        ev_(kernel.evaluator()),
        tile_(tile),
        part_(part),
        direction_(unit.batch) {
    if (part.count == 1) return;
    const Expr states = p.size.cell == RecurrentCell::Lstm ? 2 : 1;
    const Shape shape{states, Expr(p.directions), p.batch, Expr(p.size.hidden)};
    // Two buffers take turns, so that no launch reads the one that it writes.
    for (int64_t i = 0; i < (part.is_first() ? 1 : 2); ++i) {
      const bool writes = i == part.number % 2;
      (writes ? to_ : from_) =
          ev_.add_scratch({p.node.outputs[0], DType::F32, shape},
                          writes ? kernel::Access::Write : kernel::Access::Read);
    }
  }

  kernel::Builder& builder() override { return b_; }

  Result<Sequence> sequence(Value row) override {
    Sequence s;
    s.row = kernel_.clamped_row(row);
    if (!kernel_.exact_rows()) s.exists = row < ev_.value(p_.batch);
    s.length = steps();
    if (p_.input(kLengths) == graph::kNone) return s;
    RP_ASSIGN(const Val given, ev_.eval(p_.input(kLengths), {s.row}));
    const Value length{b_, b_.convert(given, kernel::Ty::I32)};
    const Val valid = b_.in_range(length, steps() + 1);
    b_.set_error(b_.logical_not(valid), kernel::ErrorCode::IndexOutOfRange);
    s.length = b_.select(valid, length, b_.i32(0));
    return s;
  }

  Units units(Value vec) override {
    const Expr vectors = Expr::floordiv(p_.size.hidden, tile_.width);
    const bool exact = int64_t{tile_.workgroup} * tile_.blocks == vectors.value();
    Units u;
    if (!exact) u.exists = vec < vectors.value();
    u.vec = exact ? vec : min(vec, vectors.value() - 1);
    u.first = Expr(tile_.width) * ev_.symbol(u.vec, vectors);
    if (tile_.width > 1) u.first += ev_.lane();
    return u;
  }

  Status guard(Val exists, const std::function<Status()>& body) override {
    return ev_.guard(exists, body);
  }

  Value first_step() override { return step_at(part_.number); }
  Value end_step() override { return step_at(part_.number + 1); }
  Status over_steps(const std::function<Status(Value)>& body) override {
    const Expr most = Expr::ceildiv(p_.steps, part_.count);
    return ev_.for_loop(first_step(), end_step(), b_.i32(1), most, body);
  }
  Status over_states(int count, const std::function<Status(Value)>& body) override {
    return ev_.for_loop(b_.i32(0), b_.i32(p_.size.hidden), b_.i32(count),
                        Expr(p_.size.hidden / count), body);
  }

  Expr position(Value step, const Sequence& sequence) override {
    Value at = step;
    if (p_.reverse || p_.directions > 1) {
      Val backwards = step < sequence.length;
      if (p_.directions > 1)
        backwards = b_.logical_and(backwards, b_.eq(ev_.value(direction_), b_.i32(1)));
      at = b_.select(backwards, sequence.length - 1 - step, step);
    }
    return ev_.symbol(at, p_.steps);
  }

  Result<Val> projection(const Expr& position, const Sequence& sequence, int gate,
                         const Units& units) override {
    const Expr column = direction_ * Expr(p_.weight_rows()) + weight_row(gate, units);
    return ev_.eval(p_.input(kX), simplified({position, sequence.row, column}), tile_.width);
  }

  Result<Val> bias(int gate, const Units& units) override {
    return parameter(kBias, weight_row(gate, units));
  }
  Result<Val> peephole(int gate, const Units& units) override {
    return parameter(kPeepholes, weight_row(gate, units));
  }

  Result<Val> initial(RecurrentState state, const Sequence& sequence, const Units& units) override {
    if (!part_.is_first()) {
      const Value at = scratch_at(state, sequence, units);
      return b_.load(from_, at, tile_.width, static_cast<uint32_t>(tile_.width));
    }
    const ValueId v = p_.input(state == RecurrentState::H ? kH : kC);
    // A driver must not see that a gate is multiplied by 0 (workarounds::kProductsWithZero).
    if (v == graph::kNone) return b_.splat(b_.convert(ev_.hidden(0), kernel::Ty::F32), tile_.width);
    return ev_.eval(v, simplified({direction_, sequence.row, units.first}), tile_.width);
  }

  /// Packed: [direction][tile of columns][k][column of the tile].
  RecurrentWeights weights_of(int gate, const Units& units) override {
    RecurrentWeights w;
    w.weight_row = weight_row(gate, units);
    if (!p_.packed) return w;
    const Value column = units.vec * tile_.width + int64_t{gate} * p_.size.hidden;
    const Value tile =
        ev_.value(direction_) * ((p_.weight_rows() + kPackedColumns - 1) / kPackedColumns) +
        column / kPackedColumns;
    w.first = tile * (int64_t{p_.size.hidden} * kPackedColumns) + column % kPackedColumns;
    return w;
  }
  Result<Val> weight(const RecurrentWeights& weights, Value k) override {
    if (p_.packed) {
      const Value at = weights.first + k * kPackedColumns;
      const Val stored = b_.load(ev_.buffer(p_.input(kR), true), at, tile_.width,
                                 static_cast<uint32_t>(tile_.width));
      return b_.convert(stored, kernel::Ty::F32);
    }
    const Expr state = ev_.symbol(k, p_.size.hidden);
    return ev_.eval(p_.input(kR), simplified({direction_, weights.weight_row, state}), tile_.width);
  }

  Value activated(int function, Value x) override {
    const auto count = functions_of(p_.size.cell);
    const auto& first = p_.functions[static_cast<size_t>(function)];
    if (p_.directions == 1) return apply(first, x);
    const auto& second = p_.functions[static_cast<size_t>(count + function)];
    if (first == second) return apply(first, x);
    const Val forward = b_.splat(b_.eq(ev_.value(direction_), b_.i32(0)), tile_.width);
    return b_.select(forward, apply(first, x), apply(second, x));
  }

  Status store_step(const Expr& position, const Sequence& sequence, const Units& units,
                    Val h) override {
    return store(0, {position, direction_, sequence.row, units.first}, h);
  }
  Status store_final(RecurrentState state, const Sequence& sequence, const Units& units,
                     Val v) override {
    if (part_.count > 1) {
      const Value at = scratch_at(state, sequence, units);
      b_.store(to_, at, v, static_cast<uint32_t>(tile_.width));
    }
    // All parts but the first are one kernel, so each of them stores; the last one stores last.
    if (part_.is_first() && !part_.is_last()) return {};
    return store(state == RecurrentState::H ? 1 : 2, {direction_, sequence.row, units.first}, v);
  }

 private:
  Value steps() { return ev_.value(p_.steps); }
  Value step_at(int64_t part) { return ev_.value(Part::begin(p_.steps, part, part_.count)); }
  Value scratch_at(RecurrentState state, const Sequence& sequence, const Units& units) {
    const Expr of_state = state == RecurrentState::H ? Expr(0) : Expr(p_.directions) * p_.batch;
    const Expr row = of_state + direction_ * p_.batch + sequence.row;
    return ev_.value(ev_.simplify(row * Expr(p_.size.hidden))) + units.vec * tile_.width;
  }
  Expr weight_row(int gate, const Units& units) const {
    return Expr(int64_t{gate} * p_.size.hidden) + units.first;
  }
  Index simplified(Index index) const {
    for (Expr& e : index) e = ev_.simplify(e);
    return index;
  }
  Result<Val> parameter(Input i, const Expr& at) {
    if (p_.input(i) == graph::kNone) return Val{};
    return ev_.eval(p_.input(i), simplified({direction_, at}), tile_.width);
  }
  Status store(size_t output, const Index& index, Val v) {
    const auto& wanted = kernel_.group().outputs;
    const ValueId id = p_.node.outputs[output];
    if (std::find(wanted.begin(), wanted.end(), id) == wanted.end()) return {};
    return ev_.store(id, simplified(index), v, tile_.width);
  }

  Value apply(const RecurrentActivation& a, Value x) {
    const kernel::Type type = b_.type(x);
    const auto c = [&](float v) { return Value{b_, b_.constant(type, static_cast<double>(v))}; };
    const auto op = [&](ScalarOp o, Val v) { return Value{b_, b_.scalar_op(o, {v})}; };
    const auto if_negative = [&](Val negative) { return b_.select(b_.lt(x, c(0)), negative, x); };
    switch (a.function) {
      case RecurrentFunction::Sigmoid:
        return op(ScalarOp::Sigmoid, x);
      case RecurrentFunction::Tanh:
        return op(ScalarOp::Tanh, x);
      case RecurrentFunction::Relu:
        return op(ScalarOp::Relu, x);
      case RecurrentFunction::Affine:
        return c(a.alpha) * x + c(a.beta);
      case RecurrentFunction::LeakyRelu:
        return if_negative(c(a.alpha) * x);
      case RecurrentFunction::ThresholdedRelu:
        return b_.select(b_.lt(c(a.alpha), x), x, c(0));
      case RecurrentFunction::ScaledTanh:
        return c(a.alpha) * op(ScalarOp::Tanh, c(a.beta) * x);
      case RecurrentFunction::HardSigmoid:
        return {b_, b_.min(b_.max(c(a.alpha) * x + c(a.beta), c(0)), c(1))};
      case RecurrentFunction::Elu:
        return if_negative(c(a.alpha) * op(ScalarOp::Expm1, x));
      case RecurrentFunction::Softsign:
        return op(ScalarOp::Softsign, x);
      case RecurrentFunction::Softplus:
        return op(ScalarOp::Softplus, x);
    }
    return x;
  }

  const RecurrentProblem& p_;
  ResultKernel& kernel_;
  const graph::Graph& g_;
  kernel::Builder& b_;
  Evaluator& ev_;
  const shaders::RecurrentTile& tile_;
  const Part part_;
  const Expr direction_;
  int from_ = -1, to_ = -1;  // scratch memory for the states
};

/// The form in which the launch reads R.
void add_packed(LoweredLaunch& launch, const RecurrentProblem& p) {
  for (size_t i = 0; i < launch.buffers.size(); ++i) {
    if (!launch.buffers[i].packed || launch.buffers[i].value != p.input(kR)) continue;
    const plan::MatrixShape r{p.directions, p.size.hidden, p.weight_rows(), true};
    launch.packed.push_back({plan::in_tiles(r, kPackedColumns), static_cast<int>(i)});
  }
}

/// What the launches of a layer are written from.
struct Layer {
  const graph::Graph& g;
  const Group& group;
  const TargetFacts& target;
  const RecurrentProblem& problem;
  const shaders::RecurrentTile& tile;
};

Result<Lowered> write_part(const Layer& l, const Part& part) {
  const RecurrentProblem& p = l.problem;
  const ResultShape result{p.batch, Expr(p.size.hidden), {Expr(p.directions)}, false};
  const std::string name = kernel_name(l.group) + (part.is_first() ? "" : "_rest");
  ResultKernel kernel(l.g, l.group, l.target, result, name);
  RP_ASSIGN(Lowered out, kernel.write_units(l.tile, l.tile.describe(), [&](const WorkUnit& unit) {
    RecurrentOperands operands(p, kernel, l.tile, part, unit);
    return shaders::write_recurrence({operands, p.size, l.tile, unit.origin});
  }));
  add_packed(out.launches[0], p);
  return out;
}

/// The long form has a launch for each of these parts of the steps, because drivers limit the loops
/// of an invocation, not those of a run.
constexpr int64_t kLongParts = 8;

}  // namespace

std::string recurrent_refusal(const graph::Graph& g, const graph::Node& n) {
  const int64_t units = g.value(n.inputs[kR]).shape[2].value();
  if (units <= shaders::kMaxHiddenUnits) return {};
  return "the layer has " + std::to_string(units) + " hidden units, kernels at most " +
         std::to_string(shaders::kMaxHiddenUnits);
}

Result<Lowered> lower_recurrent(const graph::Graph& g, const Group& group,
                                const TargetFacts& target, size_t choice, LoopForm form) {
  RecurrentProblem p(g, *group.anchor);
  RP_ASSIGN(p.functions, recurrent_activations(group.anchor->attrs, p.size.cell, p.directions));
  const auto tiles = shaders::recurrent_tiles(p.size, target);
  return lower_choice(tiles, choice, [&](const shaders::RecurrentTile& tile) -> Result<Lowered> {
    const Layer layer{g, group, target, p, tile};
    const int64_t parts = form == LoopForm::Long ? kLongParts : 1;
    RP_ASSIGN(Lowered out, write_part(layer, {0, parts}));
    for (int64_t i = 1; i < parts; ++i) {
      RP_ASSIGN(Lowered part, write_part(layer, {i, parts}));
      out.launches.push_back(std::move(part.launches[0]));
      out.scratch = std::move(part.scratch);
    }
    return out;
  });
}

}  // namespace reprise::lower
