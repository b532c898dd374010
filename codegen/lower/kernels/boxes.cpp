// SelectBoxes: selects boxes of a class by descending score, without those that overlap a selected
// one. A line is the boxes of one class of one batch. The launches
//
// - sort the scores of each line (sort.h);
// - store the boxes in this order ("candidates"), by their corners;
// - choose among the candidates of a line, in one workgroup (below);
// - store the rows of the result, line by line, and how many there are.
//
// The workgroup that chooses takes kChunk candidates at a time. The boxes that it has chosen so far
// lie in shared memory, and each invocation compares some of them with all candidates of the chunk.
// Which candidates of the chunk overlap each other is found in the same way, as bits of a word, so
// that all invocations can then walk through the chunk and come to the same choice.
#include "codegen/ops/index/boxes.h"

#include <algorithm>
#include <array>

#include "codegen/lower/kernels/sort.h"
#include "codegen/ops/row/shape_arith.h"

namespace reprise::lower {

using graph::kNone;
using graph::ValueId;
using kernel::Access;
using kernel::Builder;
using kernel::ScalarOp;
using kernel::Ty;

namespace {

constexpr int64_t kChunk = 16;       // candidates that are compared together; at most 31
constexpr int64_t kNoMore = -1;      // instead of a candidate: neither it nor any later one counts
constexpr int64_t kNotANumber = -2;  // instead of a candidate: its score cannot be compared
constexpr uint32_t kLargeWorkgroup = 128;

enum BoxScratch : size_t { kBoxes = kCounters, kCandidates, kChosen, kChosenCounts };

struct Box {
  Value x0, y0, x1, y1;
};

Value less_of(Builder& b, Value x, Value y) {
  return b.select(y < x, y, x);
}
Value greater_of(Builder& b, Value x, Value y) {
  return b.select(x < y, y, x);
}
Value area(const Box& box) {
  return (box.x1 - box.x0) * (box.y1 - box.y0);
}

Box box_of(Builder& b, Val vector) {
  return {b.extract(vector, 0), b.extract(vector, 1), b.extract(vector, 2), b.extract(vector, 3)};
}

/// The corners of a box, of which those without an area overlap nothing.
Val corners(Builder& b, Val given, bool center) {
  const Box v = box_of(b, given);
  Box box;
  if (center) {
    const Value half_w = v.x1 * b.f32(0.5F), half_h = v.y1 * b.f32(0.5F);
    box = {v.x0 - half_w, v.y0 - half_h, v.x0 + half_w, v.y0 + half_h};
  } else {
    box = {less_of(b, v.y0, v.y1), less_of(b, v.x0, v.x1), greater_of(b, v.y0, v.y1),
           greater_of(b, v.x0, v.x1)};
  }
  const Value none = b.constant(kernel::kF32, -std::numeric_limits<double>::infinity());
  box.x1 = b.select(b.f32(0) < area(box), box.x1, none);
  return b.compose({box.x0, box.y0, box.x1, box.y1});
}

/// Whether the intersection over the union is above the threshold. runtime/host/nn/boxes.cpp
/// computes the same numbers.
Val overlap(Builder& b, const Box& chosen, const Box& other, Value threshold) {
  const Value w = less_of(b, chosen.x1, other.x1) - greater_of(b, chosen.x0, other.x0);
  const Value h = less_of(b, chosen.y1, other.y1) - greater_of(b, chosen.y0, other.y0);
  const Value common = w * h;
  const Value share{b, b.div(common, area(chosen) + area(other) - common)};
  return b.logical_and(b.logical_and(b.f32(0) < w, b.f32(0) < h), threshold < share);
}

class BoxSelection {
 public:
  BoxSelection(const graph::Graph& g, const Group& group, const TargetFacts& target)
      : node_(*group.anchor),
        p_(g, group, {node_.inputs[1], 2, g.value(node_.inputs[1]).shape[2], true}, target),
        most_(ops::Attributes(node_).get_exprs("most")[0]),
        chunks_(Expr::ceildiv(p_.length, kChunk)),
        padded_(chunks_ * Expr(kChunk)),
        center_(ops::Attributes(node_).get_int("center_point_box") != 0),
        workgroup_(choose_workgroup()) {}

  Result<Lowered> lower() {
    Lowered out;
    out.schedule = "merge sort, " + std::to_string(workgroup_) + " invocations per class";
    RP_TRY(sort_lines(p_, out));
    out.scratch.resize(kBoxes, out.scratch[kPositions]);
    out.scratch.push_back({p_.result, DType::F32, {p_.lines, padded_, 4}});
    out.scratch.push_back({p_.result, DType::I32, {p_.lines, padded_}});
    out.scratch.push_back({p_.result, DType::I32, {p_.lines, most_}});
    out.scratch.push_back({p_.result, DType::I32, {p_.lines}});
    const auto add = [&](Result<LoweredLaunch> launch) -> Status {
      if (!launch.ok()) return launch.status();
      out.launches.push_back(std::move(*launch));
      return {};
    };
    RP_TRY(add(store_candidates()));
    RP_TRY(add(choose()));
    RP_TRY(add(store_rows()));
    return out;
  }

 private:
  ValueId input(size_t i) const { return i < node_.inputs.size() ? node_.inputs[i] : kNone; }
  uint32_t choose_workgroup() const;
  static Result<Val> scalar(Evaluator& ev, ValueId v) {
    return ev.eval(v, Index(ev.graph().value(v).shape.size(), Expr(0)));
  }

  Result<LoweredLaunch> store_candidates();
  Result<LoweredLaunch> choose();
  Result<LoweredLaunch> store_rows();

  const graph::Node& node_;
  const SortProblem p_;
  const Expr most_;    // boxes that a line may select
  const Expr chunks_;  // of a line's candidates
  const Expr padded_;  // candidates of a line, with some that do not exist
  const bool center_;
  const uint32_t workgroup_;  // invocations that choose in a line
};

/// A CPU-type device runs a workgroup on one core, so more invocations only shorten the loops,
/// which its drivers limit.
uint32_t BoxSelection::choose_workgroup() const {
  if (!p_.cpu) return kLargeWorkgroup;
  for (const uint32_t workgroup : {8U, 32U}) {
    const Expr loops = chunks_ * (Expr::ceildiv(most_, int64_t{workgroup}) + 5);
    if (loops.is_const() && loops.value() <= int64_t{kLeastLoopLimit}) return workgroup;
  }
  return kLargeWorkgroup;
}

Result<LoweredLaunch> BoxSelection::store_candidates() {
  SortLaunch launch(p_, "_candidates");
  Builder& b = launch.builder();
  Evaluator& ev = launch.evaluator();
  SortedPositions positions(p_, launch);
  const int boxes = launch.scratch(kBoxes, DType::F32, Access::Write);
  const int candidates = launch.scratch(kCandidates, DType::I32, Access::Write);
  const Shape units{p_.lines, padded_};
  return launch.write(element_count(units), [&](Value id) -> Status {
    const Index at = ev.unflatten(ev.symbol(id, element_count(units)), units);
    const Value place = ev.value(at[1]), boxes_of = ev.value(p_.length);
    const Value position = positions.at(ev.value(at[0]) * boxes_of + min(place, boxes_of - 1));
    Index score = ev.unflatten(at[0], p_.line_dims);
    score[p_.axis] = ev.symbol(position, p_.length);
    RP_ASSIGN(const Val box, ev.eval(node_.inputs[0], {score[0], score[p_.axis], ev.lane()}, 4));
    b.store(boxes, id * 4, corners(b, box, center_), 4);
    Value candidate = position;
    if (input(4) != kNone) {
      RP_ASSIGN(const Val s, ev.eval(p_.x, score));
      RP_ASSIGN(const Val least, scalar(ev, input(4)));
      const Val other = b.select(b.le(s, least), b.i32(kNoMore), b.i32(kNotANumber));
      candidate = b.select(b.lt(least, s), position, other);
    }
    b.store(candidates, id, b.select(place < boxes_of, candidate, b.i32(kNoMore)));
    return {};
  });
}

/// The launch that chooses.
class Chooser {
 public:
  struct Problem {
    const SortProblem& sort;
    const Expr &most, &chunks;
    uint32_t workgroup;
    ValueId limit, threshold;  // kNone: no limit below `most`; 0
  };

  explicit Chooser(const Problem& p)
      : p_(p),
        launch_(p_.sort, "_choose"),
        b_(launch_.builder()),
        ev_(launch_.evaluator()),
        boxes_(launch_.scratch(kBoxes, DType::F32, Access::Read)),
        candidates_(launch_.scratch(kCandidates, DType::I32, Access::Read)),
        chosen_(launch_.scratch(kChosen, DType::I32, Access::Write)),
        counts_(launch_.scratch(kChosenCounts, DType::I32, Access::Write)),
        kept_(b_.shared("kept", Ty::F32, ops::kMaxSelectedBoxes * 4)),
        hidden_(b_.shared("hidden", Ty::I32, p.workgroup)),
        some_hidden_(b_.shared("some_hidden", Ty::I32, kChunk)),
        earlier_(b_.shared("earlier", Ty::I32, kChunk)),
        count_(b_.local("count", kernel::kI32)),
        mask_(b_.local("mask", kernel::kI32)) {}

  Result<LoweredLaunch> write() {
    return launch_.write_lines(p_.workgroup, [this](Value line, Value local) -> Status {
      line_ = line;
      local_ = local;
      RP_TRY(read_scalars());
      b_.local_store(count_, b_.i32(0));
      const Value padded = ev_.value(p_.chunks) * kChunk;
      RP_TRY(ev_.for_loop(p_.chunks, [&](Value chunk) {
        first_ = line * padded + chunk * kChunk;
        const Value goes_on = b_.logical_and(
            count() < most_, b_.logical_not(b_.eq(b_.load(candidates_, first_), b_.i32(kNoMore))));
        // A loop, because drivers of CPU-type devices execute both branches of a condition.
        return ev_.for_loop(b_.i32(0), b_.select(goes_on, b_.i32(1), b_.i32(0)), b_.i32(1), 1,
                            [&](Value) { return choose_in_chunk(); });
      }));
      return ev_.guard(b_.eq(local, b_.i32(0)), [&]() -> Status {
        b_.store(counts_, line, count());
        return {};
      });
    });
  }

 private:
  Value count() { return {b_, b_.local_load(count_)}; }
  Value bit(int64_t c) { return b_.i32(int64_t{1} << c); }
  Value shifted(Value bits, Value by) { return b_.scalar_op(ScalarOp::ShiftLeft, {bits, by}); }
  Value both(Value x, Value y) { return b_.scalar_op(ScalarOp::BitAnd, {x, y}); }
  Value either(Value x, Value y) { return b_.scalar_op(ScalarOp::BitOr, {x, y}); }
  /// The bits below bit number c.
  Value below(Value c) { return shifted(b_.i32(1), c) - 1; }
  void hide(Val condition, Value bits) {
    const Value mask{b_, b_.local_load(mask_)};
    b_.local_store(mask_, either(mask, b_.select(condition, bits, b_.i32(0))));
  }
  Box candidate_box(Value c) { return box_of(b_, b_.load(boxes_, (first_ + c) * 4, 4, 4)); }

  Status read_scalars();
  Status choose_in_chunk();
  Status each_own(const std::function<Status(Value c)>& body);
  Status hide_behind_chosen();
  Status compare_chunk();
  Value all_hidden();
  Value walk(Value hidden);
  Value number_of_bits(Value bits);

  const Problem p_;
  SortLaunch launch_;
  Builder& b_;
  Evaluator& ev_;
  int boxes_, candidates_, chosen_, counts_;  // scratch memory
  // Shared memory: the chosen boxes; by invocation, and by a part of them, the candidates of the
  // chunk that are no candidates or overlap a chosen box; by candidate, the earlier ones of the
  // chunk that overlap it.
  int kept_, hidden_, some_hidden_, earlier_;
  int count_;  // a local, with the same value in all invocations: how many boxes are chosen
  int mask_;   // a local: this invocation's bits of hidden_
  Value line_, local_, most_, threshold_, first_;
  std::array<Box, kChunk> chunk_;
};

Status Chooser::read_scalars() {
  most_ = ev_.value(p_.most);
  const auto scalar = [&](ValueId v) {
    return ev_.eval(v, Index(ev_.graph().value(v).shape.size(), Expr(0)));
  };
  if (p_.limit != kNone) {
    RP_ASSIGN(const Val given, scalar(p_.limit));
    const Val limit = b_.max(b_.min(given, b_.convert(most_, Ty::I64)), b_.i64(0));
    most_ = {b_, b_.convert(limit, Ty::I32)};
  }
  threshold_ = b_.f32(0);
  if (p_.threshold != kNone) {
    RP_ASSIGN(const Val given, scalar(p_.threshold));
    threshold_ = {b_, given};
  }
  return {};
}

/// Calls the body for the candidates of the chunk that this invocation handles.
Status Chooser::each_own(const std::function<Status(Value c)>& body) {
  for (int64_t c = 0; c < kChunk; c += p_.workgroup) {
    const Value own = local_ + c;
    const bool all = p_.workgroup <= kChunk;
    RP_TRY(ev_.guard(all ? Val{} : Val(own < kChunk), [&] { return body(own); }));
  }
  return {};
}

Status Chooser::hide_behind_chosen() {
  const Expr most = Expr::ceildiv(p_.most, int64_t{p_.workgroup});
  return ev_.for_loop(local_, count(), b_.i32(p_.workgroup), most, [&](Value i) -> Status {
    const Box box = box_of(b_, b_.shared_load(kept_, i * 4, 4));
    for (int64_t c = 0; c < kChunk; ++c)
      hide(overlap(b_, box, chunk_[static_cast<size_t>(c)], threshold_), bit(c));
    return {};
  });
}

Status Chooser::compare_chunk() {
  return each_own([&](Value c) -> Status {
    const Box own = candidate_box(c);
    Value earlier = b_.i32(0);
    for (int64_t i = 0; i + 1 < kChunk; ++i) {
      const Val hides = overlap(b_, chunk_[static_cast<size_t>(i)], own, threshold_);
      earlier = either(earlier, b_.select(hides, bit(i), b_.i32(0)));
    }
    b_.shared_store(earlier_, c, both(earlier, below(c)));
    const Value candidate{b_, b_.load(candidates_, first_ + c)};
    hide(candidate < 0, shifted(b_.i32(1), c));
    return {};
  });
}

/// The bits of all invocations.
Value Chooser::all_hidden() {
  const auto combined = [&](int array, int64_t count, Value from, int64_t stride) {
    Value all = b_.i32(0);
    for (int64_t i = 0; i < count; ++i)
      all = either(all, {b_, b_.shared_load(array, from + i * stride)});
    return all;
  };
  if (p_.workgroup <= kChunk) return combined(hidden_, p_.workgroup, b_.i32(0), 1);
  b_.if_then(local_ < kChunk, [&] {
    b_.shared_store(some_hidden_, local_, combined(hidden_, p_.workgroup / kChunk, local_, kChunk));
  });
  b_.barrier();
  return combined(some_hidden_, kChunk, b_.i32(0), 1);
}

/// The bits of the candidates that are chosen.
Value Chooser::walk(Value hidden) {
  Value chosen = b_.i32(0), left = most_ - count();
  for (int64_t c = 0; c < kChunk; ++c) {
    const Value earlier{b_, b_.shared_load(earlier_, b_.i32(c))};
    const Value against = either(both(hidden, bit(c)), both(earlier, chosen));
    const Val chooses = b_.logical_and(b_.eq(against, b_.i32(0)), b_.i32(0) < left);
    chosen = either(chosen, b_.select(chooses, bit(c), b_.i32(0)));
    left = left - Value{b_, b_.select(chooses, b_.i32(1), b_.i32(0))};
  }
  return chosen;
}

Value Chooser::number_of_bits(Value bits) {
  Value sum = b_.i32(0);
  for (int64_t c = 0; c < kChunk; ++c)
    sum = sum + both(b_.scalar_op(ScalarOp::ShiftRight, {bits, b_.i32(c)}), b_.i32(1));
  return sum;
}

Status Chooser::choose_in_chunk() {
  for (int64_t c = 0; c < kChunk; ++c) chunk_[static_cast<size_t>(c)] = candidate_box(b_.i32(c));
  b_.local_store(mask_, b_.i32(0));
  RP_TRY(hide_behind_chosen());
  RP_TRY(compare_chunk());
  b_.shared_store(hidden_, local_, b_.local_load(mask_));
  b_.barrier();
  const Value chosen = walk(all_hidden()), before = count();
  RP_TRY(each_own([&](Value c) -> Status {
    const Val is_chosen = b_.logical_not(b_.eq(both(chosen, shifted(b_.i32(1), c)), b_.i32(0)));
    const Value number = before + number_of_bits(both(chosen, below(c)));
    return ev_.guard(is_chosen, [&]() -> Status {
      b_.shared_store(kept_, number * 4, b_.load(boxes_, (first_ + c) * 4, 4, 4));
      b_.store(chosen_, line_ * ev_.value(p_.most) + number, b_.load(candidates_, first_ + c));
      return {};
    });
  }));
  b_.local_store(count_, before + number_of_bits(chosen));
  b_.barrier();
  return {};
}

Result<LoweredLaunch> BoxSelection::choose() {
  return Chooser({p_, most_, chunks_, workgroup_, input(2), input(3)}).write();
}

/// Stores the rows of each line behind those of the lines before it, and zeros in the rows that are
/// left.
Result<LoweredLaunch> BoxSelection::store_rows() {
  SortLaunch launch(p_, "_rows");
  Builder& b = launch.builder();
  Evaluator& ev = launch.evaluator();
  const int chosen = launch.scratch(kChosen, DType::I32, Access::Read);
  const int counts = launch.scratch(kChosenCounts, DType::I32, Access::Read);
  const uint32_t workgroup = launch.workgroup();
  const std::array<int, 2> sums{b.local("all", kernel::kI32), b.local("before", kernel::kI32)};
  const std::array<int, 2> shared{b.shared("all_of", Ty::I32, workgroup),
                                  b.shared("before_of", Ty::I32, workgroup)};
  const auto wants = [&](size_t output) {
    return output < node_.outputs.size() &&
           std::ranges::count(p_.group.outputs, node_.outputs[output]) != 0;
  };
  const auto row = [&](Value number, const std::array<Val, 3>& values) -> Status {
    const Expr r = ev.symbol(number, p_.lines * most_);
    for (int64_t i = 0; i < 3; ++i)
      RP_TRY(ev.store(node_.outputs[0], {r, Expr(i)},
                      b.convert(values[static_cast<size_t>(i)], Ty::I64)));
    return {};
  };
  const Value lines = ev.value(p_.lines), most = ev.value(most_);
  // There is a number of rows even if there are no lines.
  return launch.write_groups(Expr::max(p_.lines, 1), workgroup, [&](Value line, Value local) {
    for (const int sum : sums) b.local_store(sum, b.i32(0));
    const Expr share = Expr::ceildiv(p_.lines, int64_t{workgroup});
    const auto add = [&](int sum, Val more) { b.local_store(sum, b.add(b.local_load(sum), more)); };
    RP_TRY(ev.for_loop(local, lines, b.i32(workgroup), share, [&](Value i) -> Status {
      const Value count{b, b.load(counts, i)};
      add(sums[0], count);
      add(sums[1], b.select(i < line, count, b.i32(0)));
      return {};
    }));
    for (size_t i = 0; i < 2; ++i) b.shared_store(shared[i], local, b.local_load(sums[i]));
    b.barrier();
    std::array<Value, 2> total{b.i32(0), b.i32(0)};
    for (size_t i = 0; i < 2; ++i)
      for (int64_t n = 0; n < int64_t{workgroup}; ++n)
        total[i] = total[i] + Value{b, b.shared_load(shared[i], b.i32(n))};
    if (wants(1)) {
      const Value first = line * int64_t{workgroup} + local;
      RP_TRY(ev.guard(b.eq(first, b.i32(0)),
                      [&] { return ev.store(node_.outputs[1], {Expr(0)}, total[0]); }));
    }
    if (!wants(0)) return Status();
    return ev.guard(line < lines, [&]() -> Status {
      const Value own{b, b.load(counts, line)};
      const Index at = ev.unflatten(ev.symbol(line, p_.lines), p_.line_dims);
      const Value batch = ev.value(at[0]), of_class = ev.value(at[1]);
      const Expr part = Expr::ceildiv(most_, int64_t{workgroup});
      RP_TRY(ev.for_loop(local, own, b.i32(workgroup), part, [&](Value i) {
        return row(total[1] + i, {batch, of_class, b.load(chosen, line * most + i)});
      }));
      const Value rest = total[0] + line * most - total[1] - own;
      return ev.for_loop(own + local, most, b.i32(workgroup), part, [&](Value i) {
        return row(rest + i, {b.i32(0), b.i32(0), b.i32(0)});
      });
    });
  });
}

}  // namespace

Result<Lowered> lower_boxes(const graph::Graph& g, const Group& group, const TargetFacts& target) {
  return BoxSelection(g, group, target).lower();
}

}  // namespace reprise::lower
