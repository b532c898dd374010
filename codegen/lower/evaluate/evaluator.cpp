#include "codegen/lower/evaluate/evaluator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "codegen/kernel/legal/divisor_check.h"
#include "codegen/lower/evaluate/index_range.h"
#include "codegen/ops/row/support.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Access;
using kernel::Ty;
using kernel::Type;

namespace {

bool uses_lane(const Index& index) {
  return std::any_of(index.begin(), index.end(), [](const Expr& e) { return lower::uses_lane(e); });
}

constexpr int kMaxLanes = 4;

/// A tensor of one element as a constant of the kernel.
Val scalar_constant(kernel::Builder& b, const HostTensor& t) {
  const std::byte* p = t.bytes().data();
  auto read = [&]<typename T>(T) {
    T x;
    std::memcpy(&x, p, sizeof(T));
    return x;
  };
  switch (carrier_of(t.dtype())) {
    case DType::F32:
      return b.f32(read(float{}));
    case DType::BF16:
      return b.f32(bf16_to_float(read(uint16_t{})));
    case DType::F16:
      return b.constant(kernel::kF16, f16_to_float(read(uint16_t{})));
    case DType::F64:
      return b.constant(Type{Ty::F64, 1}, read(double{}));
    case DType::Bool:
      return b.boolean(read(uint8_t{}) != 0);
    case DType::I8:
      return b.i32(read(int8_t{}));
    case DType::I16:
      return b.i32(read(int16_t{}));
    case DType::I32:
      return b.i32(read(int32_t{}));
    case DType::U8:
      return b.u32(read(uint8_t{}));
    case DType::U16:
      return b.u32(read(uint16_t{}));
    case DType::U32:
      return b.u32(read(uint32_t{}));
    case DType::I64:
      return b.i64(read(int64_t{}));
    default:  // no device computes with U64
      return {};
  }
}

std::vector<Expr> counts_of(const graph::Graph& g, const std::vector<ValueId>& values) {
  std::vector<Expr> counts;
  counts.reserve(values.size());
  for (const ValueId v : values) counts.push_back(element_count(g.value(v).shape));
  return counts;
}

int64_t memo_key(ValueId v, int lanes) {
  return int64_t{v.number()} * 8 + lanes;
}

}  // namespace

/// The context of an element() definition: one node and the index that is wanted.
class Evaluator::Context final : public ops::ElementContext {
 public:
  Context(Evaluator& ev, const graph::Node& n, size_t output, const Index& index, int lanes)
      : ev_(ev), n_(n), output_(output), index_(index), lanes_(lanes) {}

  kernel::Builder& builder() override { return ev_.b_; }
  const graph::Graph& graph() const override { return ev_.g_; }
  const graph::Node& node() const override { return n_; }
  size_t output() const override { return output_; }
  const Index& index() const override { return index_; }
  Result<Val> input(size_t i, const Index& index) override {
    if (i >= n_.inputs.size() || n_.inputs[i] == graph::kNone) {
      return internal_error("node '" + n_.name + "': its definition reads a missing input")
          .about(n_.origins);
    }
    Index simple;
    simple.reserve(index.size());
    for (const Expr& e : index) simple.push_back(ev_.simplify(e));
    return ev_.eval(n_.inputs[i], simple, lanes_);
  }
  std::optional<Index> same_position(const Shape& shape) const override {
    return ev_.same_position(index_, output_shape(), shape);
  }
  void set(Val v) override { result_ = v; }
  Expr simplify(const Expr& e) override { return ev_.simplify(e); }
  /// Of the first lane.
  Val value(const Expr& e) override {
    asked_lane_ = asked_lane_ || uses_lane(e);
    return ev_.value(ev_.simplify(with_lane(e, 0)));
  }
  Val number(const Expr& e) override { return ev_.number(e); }
  Expr opaque(Val v, const Expr& bound) override { return ev_.symbol(v, bound); }
  Expr checked_index(Val v, const Expr& dim, bool wrap_negative) override;
  void loop(const Expr& count, const std::function<void(const Expr&)>& body) override {
    // The loop cannot fail: `body` reports its errors itself.
    const Status done = ev_.for_loop(count, [&](Val i) {
      body(ev_.symbol(i, count));
      return Status();
    });
    static_cast<void>(done);
  }
  Result<Val> guarded(Val condition, Val otherwise,
                      const std::function<Result<Val>()>& then) override {
    kernel::Builder& b = ev_.b_;
    if (b.type(otherwise).lanes < lanes_) otherwise = b.splat(otherwise, lanes_);
    const int local = b.local("guarded", b.type(otherwise));
    b.local_store(local, otherwise);
    RP_TRY(ev_.guard(condition, [&]() -> Status {
      RP_ASSIGN(const Val v, then());
      b.local_store(local, v);
      return {};
    }));
    return b.local_load(local);
  }
  Type compute(DType t) const override { return ev_.compute(t); }
  Val result() const { return result_; }
  /// Whether the definition asked for a number that differs between lanes.
  bool asked_lane() const { return asked_lane_; }

 private:
  Evaluator& ev_;
  const graph::Node& n_;
  size_t output_;
  const Index& index_;
  int lanes_;
  bool asked_lane_ = false;
  Val result_;
};

Expr Evaluator::Context::checked_index(Val v, const Expr& dim, bool wrap_negative) {
  kernel::Builder& b = ev_.b_;
  const Val bound = ev_.value(dim);
  Val in_range;
  Val index;
  if (b.type(v).ty == Ty::I64) {
    // Compare before narrowing, so that a large value does not pass as a small one.
    const Val wide_bound = b.convert(bound, Ty::I64);
    if (wrap_negative) v = b.select(b.lt(v, b.i64(0)), b.add(v, wide_bound), v);
    in_range = b.in_range(v, wide_bound);
    index = b.convert(b.select(in_range, v, b.i64(0)), Ty::I32);
  } else {
    if (b.type(v).ty == Ty::U32) {
      in_range = b.lt(v, b.convert(bound, Ty::U32));
      v = b.convert(v, Ty::I32);
    } else {
      if (wrap_negative) v = b.select(b.lt(v, b.i32(0)), b.add(v, bound), v);
      in_range = b.in_range(v, bound);
    }
    index = b.select(in_range, v, b.i32(0));
  }
  b.set_error(b.logical_not(in_range), kernel::ErrorCode::IndexOutOfRange);
  return ev_.symbol(index, dim);
}

Evaluator::Evaluator(const graph::Graph& g, const Group& group, kernel::Builder& b)
    : g_(g),
      group_(group),
      b_(b),
      index_(g, counts_of(g, group.outputs), b),
      memory_(g, group, b, index_) {
  nodes_.assign(group.nodes.begin(), group.nodes.end());
  std::sort(nodes_.begin(), nodes_.end());
  memo_.emplace_back();
}

Evaluator::~Evaluator() = default;

bool Evaluator::in_group(const graph::Node* n) const {
  return n != nullptr && std::binary_search(nodes_.begin(), nodes_.end(), n);
}

Status Evaluator::scope(const Body& body) {
  memo_.emplace_back();
  index_.open_scope();
  Status status = body();
  memo_.pop_back();
  index_.close_scope();
  return status;
}

Status Evaluator::guard(Val condition, const Body& body) {
  if (!condition) return scope(body);
  Status status;
  b_.if_then(condition, [&] { status = scope(body); });
  return status;
}

Status Evaluator::run_roles(std::span<const Body> bodies) {
  Status status;
  std::vector<std::function<void()>> blocks;
  for (const Body& body : bodies) {
    blocks.emplace_back([this, &body, &status] {
      if (status.ok()) status = scope(body);
    });
  }
  b_.run_roles(blocks);
  return status;
}

Status Evaluator::for_loop(const Expr& end, const LoopBody& body) {
  return for_loop(b_.i32(0), value(end), b_.i32(1), end, body);
}

/// Unrolls a loop that would take more than its share of the iterations that the device executes.
Status Evaluator::for_loop(Val start, Val end, Val step, const Expr& iterations,
                           const LoopBody& body) {
  constexpr int64_t kMaxCopies = 64;
  const Expr outer = nesting_;
  const IndexRange r = index_range(iterations, [this](SymbolId id) { return index_.range(id); });
  const Expr count = r.high.value_or(Expr::overflow());
  const Expr all = outer * count;
  int64_t copies = 1;
  if (!all.is_const() && outer.is_const(1)) copies = copies_if_dynamic_;
  if (loop_share_ && all.is_const() && all.value() > *loop_share_)
    copies = std::min(Expr::ceildiv(all, *loop_share_).value(), kMaxCopies);
  nesting_ = outer * Expr::ceildiv(count, copies);
  iterations_ += nesting_ + outer;
  const auto first = b_.as_const(start), last = b_.as_const(end), by = b_.as_const(step);
  const bool whole = first && last && by && (*last - *first) % (*by * copies) == 0;
  Status status;
  b_.for_loop(start, end, b_.mul(step, b_.i32(copies)), [&](Value i) {
    for (int64_t n = 0; n < copies && status.ok(); ++n) {
      const Value at = b_.add(i, b_.mul(step, b_.i32(n)));
      const bool exists = n == 0 || whole;
      status = guard(exists ? Val{} : b_.lt(at, end), [&] { return body(at); });
    }
  });
  nesting_ = outer;
  return status;
}

void Evaluator::bind(ValueId v, Index index, Val value) {
  bound_.insert_or_assign(v, std::make_pair(std::move(index), wrapped(v, value)));
}

std::vector<Index> Evaluator::computed_at(ValueId v) const {
  std::vector<Index> out, lanes_of_vectors;
  for (int lanes = kMaxLanes; lanes >= 1; --lanes) {
    const auto found = memo_.back().find(memo_key(v, lanes));
    if (found == memo_.back().end()) continue;
    for (const Memo& m : found->second) {
      const bool in_vector = std::find(lanes_of_vectors.begin(), lanes_of_vectors.end(), m.index) !=
                             lanes_of_vectors.end();
      if (!in_vector) out.push_back(m.index);
      for (int l = 0; lanes > 1 && l < lanes; ++l) lanes_of_vectors.push_back(lane_of(m.index, l));
    }
  }
  return out;
}

void Evaluator::reload_at(ValueId v, Index index, Expr position) {
  reloads_.insert_or_assign(v, Reload{std::move(index), std::move(position)});
}

Result<Val> Evaluator::eval(ValueId v, const Index& index, int lanes) {
  if (lanes > 1 && !uses_lane(index)) {
    RP_ASSIGN(const Val scalar, eval(v, index, 1));
    return b_.splat(scalar, lanes);
  }
  if (auto it = bound_.find(v); it != bound_.end()) {
    if (it->second.first != index) {
      return internal_error("'" + g_.value(v).name +
                            "' is read at another index than it is computed at");
    }
    return it->second.second;
  }
  const int64_t key = memo_key(v, lanes);
  for (const auto& scope : memo_) {
    auto found = scope.find(key);
    if (found == scope.end()) continue;
    for (const Memo& m : found->second) {
      if (m.index == index) return m.value;
    }
  }
  const graph::Value& value = g_.value(v);
  Result<Val> r = Val{};
  if (value.constant && value.constant->count() == 1) {
    const Val c = scalar_constant(b_, *value.constant);
    r = lanes > 1 ? b_.splat(c, lanes) : c;
  } else if (!in_group(value.producer)) {
    r = load(v, index, lanes);
  } else if (auto at = reloads_.find(v); at != reloads_.end() && at->second.index == index) {
    r = memory_.load_consecutive(v, at->second.position, lanes);
  } else {
    r = produce(v, *value.producer, index, lanes);
    if (r.ok() && may_leave_range(v, *value.producer)) r = wrapped(v, *r);
  }
  if (!r.ok()) return r;
  memo_.back()[key].push_back({v, lanes, index, *r});
  return r;
}

/// Integers of 8 and 16 bits and BF16 are computed in 32 bits. Between operations they get the
/// value that they would have in memory: integers are wrapped, and BF16 is rounded. The kernel
/// library removes what nothing needs.
Val Evaluator::wrapped(ValueId v, Val value) {
  const DType t = g_.value(v).dtype;
  if (t == DType::BF16) return b_.scalar_op(kernel::ScalarOp::RoundBF16, {value});
  return is_int(t) && size_of(t) < 4 ? b_.wrap(value, static_cast<int>(size_of(t)) * 8) : value;
}

bool Evaluator::may_leave_range(ValueId v, const graph::Node& n) const {
  const ops::OpDef* def = def_of(n);
  if (def == nullptr || def->lowering == ops::Lowering::View || def->moves) return false;
  if (!def->row) return true;
  return (kernel::row(*def->row).leaves & kernel::class_of(compute(g_.value(v).dtype).ty)) != 0;
}

Index Evaluator::lane_of(const Index& index, int64_t lane) const {
  Index out;
  out.reserve(index.size());
  for (const Expr& e : index) out.push_back(simplify(with_lane(e, lane)));
  return out;
}

Result<Val> Evaluator::per_lane(int lanes, const Index& index,
                                const std::function<Result<Val>(const Index&)>& f) {
  std::vector<Val> parts;
  for (int l = 0; l < lanes; ++l) {
    RP_ASSIGN(const Val part, f(lane_of(index, l)));
    parts.push_back(part);
  }
  return b_.compose(parts);
}

/// Whether n is a Concat whose lanes at `index` are elements of one operand.
bool Evaluator::reads_one_part(const graph::Node& n, const Index& index, int lanes) const {
  if (!def_of(n)->concatenates) return false;
  const auto axis = static_cast<size_t>(ops::Attributes(n).get_int("axis"));
  if (!uses_lane(index[axis])) return true;
  const auto whole = [&](const Expr& e) { return e.known_divisor(g_.symbols) % lanes == 0; };
  if (uses_lane(index[axis] - lane()) || !whole(with_lane(index[axis], 0))) return false;
  return std::all_of(n.inputs.begin(), n.inputs.end(),
                     [&](ValueId v) { return whole(g_.value(v).shape[axis]); });
}

Result<Val> Evaluator::produce(ValueId v, const graph::Node& n, const Index& index, int lanes) {
  const ops::OpDef* def = def_of(n);
  if (def == nullptr)
    return internal_error("node '" + n.name + "' has no definition").about(n.origins);
  if (def->lowering == ops::Lowering::Scalar) {
    auto operand_index = [&](size_t i) {
      const Shape& shape = g_.value(n.inputs[i]).shape;
      return ops::broadcast_index(g_, index, shape, g_.value(v).shape);
    };
    if (def->row) {
      std::vector<Val> args;
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        RP_ASSIGN(const Val a, eval(n.inputs[i], operand_index(i), lanes));
        args.push_back(a);
      }
      if (args.size() == 2) kernel::check_divisor(b_, *def->row, args[1]);
      return b_.scalar_op(*def->row, args);
    }
    Context ctx(*this, n, 0, index, lanes);
    RP_TRY(def->element(ctx).with_context("node '" + n.name + "'").about(n.origins));
    return ctx.result();
  }
  if (def->element == nullptr) {
    return unsupported("node '" + n.name + "' (" + n.op + ") has no device form").about(n.origins);
  }
  size_t output = 0;
  while (output + 1 < n.outputs.size() && n.outputs[output] != v) ++output;
  const bool view = def->lowering == ops::Lowering::View;
  const bool one_part = lanes > 1 && reads_one_part(n, index, lanes);
  if (view || lanes == 1 || one_part) {
    Context ctx(*this, n, output, index, lanes);
    RP_TRY(def->element(ctx).with_context("node '" + n.name + "'").about(n.origins));
    const Val result = ctx.result();
    if (!ctx.asked_lane() || one_part)
      return b_.type(result).lanes < lanes ? b_.splat(result, lanes) : result;
  }
  return per_lane(lanes, index, [&](const Index& at) -> Result<Val> { return eval(v, at, 1); });
}

Result<Val> Evaluator::load(ValueId v, const Index& index, int lanes) {
  const graph::Value& value = g_.value(v);
  if (compute(value.dtype).ty == Ty::Void) {
    return unsupported("'" + value.name + "' has dtype " + std::string(name_of(value.dtype)) +
                       ", which has no device form");
  }
  const auto packed = group_.packed.find(v);
  const bool is_packed = packed != group_.packed.end();
  if (is_packed && lanes == 1)
    return memory_.load_packed(v, packed->second, flatten(index, value.shape));
  if (is_packed) return per_lane(lanes, index, [&](const Index& at) { return load(v, at, 1); });
  const Expr linear = flatten(index, value.shape);
  if (lanes == 1 || !uses_lane(linear - lane())) return memory_.load_consecutive(v, linear, lanes);
  return per_lane(lanes, index, [&](const Index& at) { return load(v, at, 1); });
}

Status Evaluator::check_order(ValueId v, const Index& index, int lanes) const {
  const graph::Value& value = g_.value(v);
  if (lanes == 1 || !uses_lane(flatten(index, value.shape) - lane())) return {};
  return unsupported("the kernel does not compute '" + value.name +
                     "' in the order of its elements");
}

Status Evaluator::store(ValueId v, const Index& index, Val val, int lanes) {
  return store_at(v, flatten(index, g_.value(v).shape), val, lanes);
}

}  // namespace reprise::lower
