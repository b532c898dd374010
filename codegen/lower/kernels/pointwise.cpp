// Pointwise kernels: an invocation computes one or several vectors of neighbouring elements of
// every output. Contractions and reductions that no other schedule takes are computed in the same
// way, by their element() definitions ("direct").
#include <algorithm>
#include <optional>

#include "codegen/lower/group/kernel_limits.h"
#include "codegen/lower/kernels/kernels.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Builder;

namespace {

constexpr uint32_t kWorkgroup = 64;
/// On GPUs, the vectors of an invocation lie a workgroup apart, so that neighbouring invocations
/// access neighbouring vectors, and all are loaded before the first is stored: memory is busy only
/// if many loads are under way. Smaller tensors need their invocations to fill the device.
constexpr uint32_t kStridedWorkgroup = 256;
constexpr int kStridedVectors = 4;
constexpr int64_t kStridedElements = int64_t{1} << 22;
constexpr int kBlock = 4;            // vectors of an invocation in a block along another axis
constexpr int64_t kMany = 1000;      // stands for the loads of a kernel that cannot be written
constexpr uint32_t kLightFlops = 8;  // kernels of at most this many per element are unrolled
/// The most conditions of Concats in the code of an invocation, which computes several elements
/// (docs/tuning.md).
constexpr double kUnrolledConditions = 512, kVectorConditions = 256;
/// From so many conditions on, the most flops of such code. Each lane has a copy of the operands.
constexpr double kManyConditions = 32, kVectorFlops = 512;

struct PointwiseSchedule {
  int lanes = 1;    // consecutive elements computed as one vector
  int vectors = 1;  // vectors per invocation
  int axis = -1;    // axis of the domain along which an invocation's vectors lie; -1: they are
                    // consecutive
  bool unrolled = false;  // vectors are unrolled, not a loop
  bool strided = false;   // vectors lie a workgroup apart
  int joined = 1;         // neighbouring vectors of an invocation, if it is strided
  uint32_t workgroup = kWorkgroup;
  bool needs_words = false;  // outputs are stored in whole 32-bit words
  bool whole_words = false;  // an invocation owns whole 32-bit words of a narrow output; lanes past
                             // the end compute the last element
  bool direct = false;       // the group is not Pointwise, but no other schedule took it
  double cost = 0;

  std::string describe() const {
    if (direct) return "direct";
    std::string name = "pointwise v" + std::to_string(lanes) + " x" + std::to_string(vectors);
    if (axis >= 0) name += " along axis " + std::to_string(axis);
    if (strided) name += " strided";
    if (joined > 1) name += ", " + std::to_string(joined) + " joined";
    if (whole_words) name += " words";
    return name;
  }
};

uint32_t flops(const Group& group) {
  uint32_t sum = 0;
  for (const graph::Node* n : group.nodes) {
    const ops::OpDef* def = def_of(*n);
    if (def != nullptr && def->row) sum += kernel::row(*def->row).cost;
  }
  return sum;
}

/// A pure function of the shapes and the target. Tests read it through Lowered::schedule.
PointwiseSchedule choose(const graph::Graph& g, const Group& group, const TargetFacts& target) {
  PointwiseSchedule s;
  const Expr total = element_count(group.domain);
  const bool divisible = total.known_divisor(g.symbols) % 4 == 0;
  size_t narrowest = 4;
  for (ValueId v : group.outputs)
    narrowest = std::min(narrowest, size_of(graph::storage_of(g.value(v))));
  const bool needs_words =
      (narrowest == 1 && !target.storage8()) || (narrowest == 2 && !target.storage16());
  s.needs_words = needs_words;
  bool loops = group.kind == GroupKind::Contraction || group.kind == GroupKind::Row;
  double reads = 0;  // the most elements that a node reads for one
  for (const graph::Node* n : group.nodes) {
    const ops::OpDef* def = def_of(*n);
    if (def != nullptr && def->reads_per_element != nullptr)
      reads = std::max(reads, def->reads_per_element(g, *n));
  }
  // Neighbouring outputs read the same or neighbouring elements. On a device that gathers per lane,
  // computing them in one invocation saves loads; on others, neighbouring invocations share them.
  loops |= reads > (target.cpu_type() ? ops::kMaxUnrolledReads : 0);
  const double conditions = concat_conditions(g, group.nodes);
  const bool small = conditions < kManyConditions || 4 * flops(group) <= kVectorFlops;
  const bool vectors = !loops && small && 4 * conditions <= kVectorConditions;
  if (divisible && (vectors || needs_words)) {
    s.lanes = 4;
  } else if (needs_words) {
    s.lanes = 4;
    s.whole_words = true;
  }
  // A CPU-type device gathers per lane, so consecutive memory per invocation is what it caches
  // well.
  if (target.cpu_type() && s.lanes == 4 && !loops) {
    const bool large = !total.is_const() || total.value() >= (int64_t{1} << 16);
    const bool heavy = flops(group) > 64 || reads > 1;
    s.vectors = large ? (heavy ? 4 : 8) : 1;
    // Unrolled vectors of an invocation share common subexpressions.
    s.unrolled = flops(group) <= kLightFlops && !s.whole_words &&
                 s.lanes * s.vectors * conditions <= kUnrolledConditions &&
                 total.known_divisor(g.symbols) % (s.lanes * s.vectors) == 0;
  }
  return s;
}

/// Stores those lanes of a vector that exist, in whole 32-bit words.
Status store_words(Evaluator& ev, ValueId v, const Expr& first, const Expr& total,
                   kernel::Val val) {
  kernel::Builder& b = ev.builder();
  const int size = static_cast<int>(size_of(graph::storage_of(ev.graph().value(v))));
  const int chunk = std::max(1, 4 / size);
  for (int at = 0; at < 4; at += chunk) {
    std::vector<kernel::Val> lanes;
    for (int l = at; l < at + chunk; ++l) lanes.push_back(b.extract(val, l));
    const kernel::Val part = chunk > 1 ? b.compose(lanes) : lanes[0];
    const Expr position = first + Expr(at) + (chunk > 1 ? ev.lane() : Expr(0));
    RP_TRY(ev.guard(ev.value(first + Expr(at)) < ev.value(total),
                    [&] { return ev.store_at(v, position, part, chunk); }));
  }
  return {};
}

/// Computes and stores all outputs at vector `i` of `lanes` elements.
Status emit_vector(Evaluator& ev, const Group& group, const PointwiseSchedule& s, const Expr& i,
                   const Expr& total) {
  const Expr first = Expr(s.lanes) * i;
  const Expr linear = s.lanes > 1 ? first + ev.lane() : first;
  const Expr read = s.whole_words ? Expr::min(linear, total - Expr(1)) : linear;
  for (ValueId v : group.outputs) {
    const Shape& shape = ev.graph().value(v).shape;
    RP_ASSIGN(const kernel::Val val, ev.eval(v, ev.unflatten(read, shape), s.lanes));
    RP_TRY(s.whole_words ? store_words(ev, v, first, total, val)
                         : ev.store_at(v, linear, val, s.lanes));
  }
  return {};
}

class PointwiseKernel {
 public:
  PointwiseKernel(const graph::Graph& g, const Group& group, const PointwiseSchedule& s)
      : group_(group), s_(s), b_(kernel_name(group)), ev_(g, group, b_) {
    total_ = element_count(group.domain);
    ev_.assume_not_empty(total_);
    vectors_ = Expr::ceildiv(total_, s.lanes);
    invocations_ = Expr::ceildiv(vectors_, s.vectors);
  }

  Result<Lowered> build(const TargetFacts& target, LoopForm form) {
    limit_loops(ev_, target, form);
    b_.set_workgroup(s_.workgroup);
    const Expr groups = Expr::ceildiv(invocations_, s_.workgroup);
    const Value id = linear_invocation(b_, groups, s_.workgroup);
    RP_TRY(s_.strided ? strided_vectors(id) : invocation(id));
    return finish(ev_, b_, group_, groups, s_.describe());
  }

  /// Number of loads of one invocation; nothing if this schedule cannot write the kernel.
  std::optional<int64_t> count_loads() {
    if (!emit(b_.convert(b_.builtin(kernel::Builtin::GlobalId), kernel::Ty::I32)).ok()) return {};
    auto k = b_.finish();
    if (!k.ok() || !kernel::coalesce_loads(*k).ok()) return {};
    return std::count_if(k->insts.begin(), k->insts.end(),
                         [](const kernel::Inst& i) { return i.op == kernel::Op::Load; });
  }

 private:
  Status invocation(Value id) {
    if (s_.unrolled || s_.vectors == 1)
      return ev_.guard(id < ev_.value(invocations_), [&] { return emit(id); });
    const Value first = id * s_.vectors;
    return ev_.for_loop(s_.vectors, [&](Value u) {
      const Value i = first + u;
      return ev_.guard(i < ev_.value(vectors_), [&] {
        return emit_vector(ev_, group_, s_, ev_.symbol(i, vectors_), total_);
      });
    });
  }

  /// Workgroups own whole blocks of workgroup * vectors sets of joined vectors, of which none is
  /// left over.
  Status strided_vectors(Value id) {
    const int64_t size = s_.workgroup;
    const int sets = s_.vectors / s_.joined;
    const Value first = id + id / size * (size * (sets - 1));
    struct Result {
      ValueId of;
      Expr at;
      Val value;
    };
    std::vector<Result> results;
    for (int u = 0; u < s_.vectors; ++u) {
      const Expr set =
          ev_.symbol(first + u / s_.joined * size, Expr::floordiv(vectors_, s_.joined));
      const Expr i = Expr(s_.joined) * set + Expr(u % s_.joined);
      const Expr at = Expr(s_.lanes) * i + ev_.lane();
      for (ValueId v : group_.outputs) {
        const Shape& shape = ev_.graph().value(v).shape;
        RP_ASSIGN(const Val value, ev_.eval(v, ev_.unflatten(at, shape), s_.lanes));
        results.push_back({v, at, value});
      }
    }
    for (const Result& r : results) RP_TRY(ev_.store_at(r.of, r.at, r.value, s_.lanes));
    return {};
  }

  /// Unrolls all vectors of an invocation.
  Status emit(Val id) {
    const Expr i = ev_.symbol(id, invocations_);
    if (s_.axis >= 0) return emit_block(i);
    for (int u = 0; u < s_.vectors; ++u)
      RP_TRY(emit_vector(ev_, group_, s_, Expr(s_.vectors) * i + Expr(u), total_));
    return {};
  }

  /// Computes vectors along the last axis, at neighbouring positions along axis s_.axis.
  Status emit_block(const Expr& i) {
    const auto axis = static_cast<size_t>(s_.axis);
    Index at = block_place(i);
    at.back() = Expr(s_.lanes) * at.back() + ev_.lane();
    const Expr first = Expr(s_.vectors) * at[axis];
    for (int u = 0; u < s_.vectors; ++u) {
      at[axis] = first + Expr(u);
      for (ValueId v : group_.outputs) {
        RP_ASSIGN(const Val val, ev_.eval(v, at, s_.lanes));
        RP_TRY(ev_.store(v, at, val, s_.lanes));
      }
    }
    return {};
  }

  /// The coordinates of block number i. A workgroup computes a square of 8 x 8 blocks if the sizes
  /// allow, so that cache lines are fully used while they are cached.
  Index block_place(const Expr& i) {
    constexpr int64_t kSquare = 8;
    const auto axis = static_cast<size_t>(s_.axis);
    Shape blocks = group_.domain;
    blocks.back() = Expr::floordiv(blocks.back(), s_.lanes);
    blocks[axis] = Expr::floordiv(blocks[axis], s_.vectors);
    const auto squares = [&](const Expr& e) {
      return e.known_divisor(ev_.graph().symbols) % kSquare == 0;
    };
    const bool tiled = squares(blocks.back()) && squares(blocks[axis]);
    Shape shape = blocks;
    if (tiled) {
      shape[axis] = Expr::floordiv(shape[axis], kSquare);
      shape.back() = Expr::floordiv(shape.back(), kSquare);
      shape.insert(shape.end(), 2, Expr(kSquare));
    }
    Index at = ev_.unflatten(i, shape);
    if (tiled) {
      at[blocks.size() - 1] = Expr(kSquare) * at[blocks.size() - 1] + at.back();
      at[axis] = Expr(kSquare) * at[axis] + at[blocks.size()];
      at.resize(blocks.size());
    }
    for (size_t d = 0; d < at.size(); ++d) at[d] = ev_.symbol(ev_.value(at[d]), blocks[d]);
    return at;
  }

  const Group& group_;
  const PointwiseSchedule s_;
  Builder b_;
  Evaluator ev_;
  Expr total_, vectors_, invocations_;
};

/// If vectors load their lanes one by one, as in a transpose: the axis along which the loads of
/// neighbouring vectors become consecutive, or -1.
int best_axis(const graph::Graph& g, const Group& group, const PointwiseSchedule& s) {
  const auto fours = [&](const Expr& e) { return e.known_divisor(g.symbols) % kBlock == 0; };
  const size_t rank = group.domain.size();
  const bool same = std::all_of(group.outputs.begin(), group.outputs.end(),
                                [&](ValueId v) { return g.value(v).shape == group.domain; });
  if (s.lanes != 4 || s.whole_words || rank < 2 || !same || !fours(group.domain.back())) return -1;
  if (4 * kBlock * concat_conditions(g, group.nodes) > kUnrolledConditions) return -1;
  PointwiseSchedule four = s;
  four.vectors = kBlock;
  four.unrolled = true;
  const auto loads = [&](int axis) {
    four.axis = axis;
    return PointwiseKernel(g, group, four).count_loads().value_or(kMany);
  };
  int64_t best = loads(-1);
  if (best <= kBlock * static_cast<int64_t>(group.nodes.size() + 1)) return -1;
  int axis = -1;
  for (size_t d = 0; d + 1 < rank; ++d) {
    if (!fours(group.domain[d])) continue;
    const int64_t n = loads(static_cast<int>(d));
    if (n >= best) continue;
    best = n;
    axis = static_cast<int>(d);
  }
  return axis;
}

/// How many neighbouring vectors have 16 bytes of a tensor, so that a GPU accesses them at once: of
/// the widest elements, as the vectors of wider ones would lie further apart.
int neighbours(const graph::Graph& g, const Group& group) {
  size_t widest = 1;
  const auto see = [&](ValueId v) {
    const graph::Value& value = g.value(v);
    if (!value.constant || value.constant->count() > 1)
      widest = std::max(widest, size_of(graph::storage_of(value)));
  };
  for (const ValueId v : group.outputs) see(v);
  for (const graph::Node* n : group.nodes) {
    for (const ValueId v : n->inputs) {
      const graph::Node* from = v == graph::kNone ? nullptr : g.value(v).producer;
      const bool inside = std::ranges::find(group.nodes, from) != group.nodes.end();
      if (v != graph::kNone && !inside) see(v);
    }
  }
  return widest >= 4 ? 1 : 4 / static_cast<int>(widest);
}

/// The same work in strided vectors, if the tensor consists of whole blocks of them.
std::optional<PointwiseSchedule> strided(const graph::Graph& g, const Group& group,
                                         const PointwiseSchedule& chosen,
                                         const TargetFacts& target) {
  if (target.cpu_type() || chosen.lanes != 4 || chosen.vectors != 1 || chosen.needs_words)
    return {};
  PointwiseSchedule s = chosen;
  s.strided = true;
  s.workgroup = std::min(kStridedWorkgroup, target.workgroup_invocations());
  const int64_t elements = element_count(group.domain).known_divisor(g.symbols);
  for (s.joined = neighbours(g, group); s.joined > 0; s.joined /= 2) {
    s.vectors = kStridedVectors * s.joined;
    const int64_t block = int64_t{s.workgroup} * s.vectors * s.lanes;
    if (elements % block == 0) return s;
  }
  return std::nullopt;
}

/// The preferred schedule comes first.
std::vector<PointwiseSchedule> pointwise_schedules(const graph::Graph& g, const Group& group,
                                                   const TargetFacts& target) {
  const PointwiseSchedule chosen = choose(g, group, target);
  std::vector<PointwiseSchedule> out;
  const auto add = [&](PointwiseSchedule s) {
    s.cost = preference_cost(out.size());
    out.push_back(s);
  };
  if (group.kind != GroupKind::Pointwise) {
    add(chosen);
    out.back().direct = true;
    return out;
  }
  if (const int axis = best_axis(g, group, chosen); axis >= 0) {
    PointwiseSchedule block = chosen;
    block.axis = axis;
    block.vectors = kBlock;
    block.unrolled = true;
    add(block);
  }
  const std::optional<PointwiseSchedule> apart = strided(g, group, chosen, target);
  const Expr total = element_count(group.domain);
  const bool large = total.is_const() && total.value() >= kStridedElements;
  const bool first = apart && large && out.empty() && flops(group) <= kLightFlops;
  if (first) add(*apart);
  add(chosen);
  if (apart && !first) add(*apart);
  // Other numbers of vectors, as loops. Not on GPUs, where neighbouring invocations should read
  // neighbouring addresses.
  for (const int vectors : {1, 4, 8}) {
    if (!target.cpu_type() || chosen.lanes != 4 || vectors == chosen.vectors) continue;
    PointwiseSchedule other = chosen;
    other.vectors = vectors;
    other.unrolled = false;
    add(other);
  }
  if (!target.cpu_type() && chosen.lanes == 4 && !chosen.needs_words) {
    PointwiseSchedule scalar = chosen;
    scalar.lanes = 1;
    add(scalar);
  }
  return out;
}

}  // namespace

Result<Lowered> lower_pointwise(const graph::Graph& g, const Group& group,
                                const TargetFacts& target, size_t choice, LoopForm form) {
  return lower_choice(
      pointwise_schedules(g, group, target), choice,
      [&](const PointwiseSchedule& s) { return PointwiseKernel(g, group, s).build(target, form); });
}

}  // namespace reprise::lower
