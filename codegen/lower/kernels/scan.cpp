// Scan kernels: cumulative sums and products in time proportional to the number of elements. A line
// is the elements along the axis of the scan. One invocation computes a line, element by element,
// or a workgroup does: each invocation combines a segment of the line, the workgroup scans these
// totals in shared memory, and each invocation then computes its segment from the total before it.
#include <algorithm>
#include <bit>

#include "codegen/lower/group/cost.h"
#include "codegen/lower/kernels/kernels.h"
#include "codegen/lower/launch/compensated.h"
#include "codegen/ops/math/reduce.h"

namespace reprise::lower {

using graph::Node;
using graph::ValueId;
using kernel::Builder;
using kernel::Builtin;
using kernel::ScalarOp;
using kernel::Type;

namespace {

/// A line's elements that take more flops than this to compute are stored for the second pass.
constexpr double kCheapFlops = 4;
/// Sums of up to 2^32 elements times this do not overflow.
constexpr float kScale = 0x1p-32F;

/// The lines of a group's domain.
struct Lines {
  explicit Lines(const Group& group)
      : axis(static_cast<size_t>(group.reduced[0])),
        is_last(axis + 1 == group.domain.size()),
        shape(row_shape(group.domain, group.reduced)),
        count(element_count(shape)),
        length(group.domain[axis]) {}

  size_t axis;
  bool is_last;  // whether the elements of a line are consecutive in memory
  Shape shape;
  Expr count, length;
};

struct ScanSchedule {
  int lanes = 1;           // neighbouring elements that are the lanes of a vector
  bool of_lines = false;   // whether the lanes are lines, else elements of one
  uint32_t per_line = 1;   // invocations that share a line, in the short form
  uint32_t workgroup = 8;  // if per_line is 1
  double cost = 0;

  std::string describe() const {
    std::string name = per_line > 1 ? "line per workgroup of " + std::to_string(per_line)
                                    : std::string("line per invocation");
    name += " v" + std::to_string(lanes);
    return of_lines ? name + " of lines" : name;
  }
};

/// Whether the parts of a line may be combined before the line. A product of floats must not: a
/// part may overflow where the product of the whole is 0.
bool may_split(const graph::Graph& g, const Group& group) {
  const bool product = *def_of(*group.anchor)->combine == ScalarOp::Mul;
  return !(product && is_float(g.value(group.anchor->outputs[0]).dtype));
}

/// The flops per element of the group's nodes before the scan.
double prologue_flops(const graph::Graph& g, const Group& group) {
  std::vector<const Node*> found{group.anchor};
  double sum = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    for (const ValueId v : found[i]->inputs) {
      const Node* p = v == graph::kNone ? nullptr : g.value(v).producer;
      const bool inside = std::find(group.nodes.begin(), group.nodes.end(), p) != group.nodes.end();
      if (!inside || std::find(found.begin(), found.end(), p) != found.end()) continue;
      found.push_back(p);
      sum += recompute_cost(g, *p);
    }
  }
  return sum;
}

/// A line, or a vector of lines, that an invocation computes or shares.
struct Line {
  Index index;  // of its elements, without the axis
  Expr step;    // the symbol of the step in the loop over its elements
  int sum;      // the local that holds the sum so far
  int error;    // the local that holds its rounding errors; -1: none
  int scaled;   // the same for elements times kScale; -1: none
};

class ScanKernel {
 public:
  ScanKernel(const graph::Graph& g, const Group& group, const TargetFacts& target,
             const ScanSchedule& s, LoopForm form)
      : group_(group),
        b_(kernel_name(group)),
        ev_(g, group, b_),
        lines_(group),
        s_(s),
        input_(group.anchor->inputs[0]),
        combine_(*def_of(*group.anchor)->combine) {
    exclusive_ = ops::Attributes(*group.anchor).get_int("exclusive") != 0;
    reverse_ = ops::Attributes(*group.anchor).get_int("reverse") != 0;
    const DType dtype = g.value(group.anchor->outputs[0]).dtype;
    type_ = kernel::vec(ev_.compute(dtype), s.of_lines ? s.lanes : 1);
    // The identity is the first result of an exclusive scan. If the loop is unrolled, a driver must
    // not see that a result is 0 (workarounds::kProductsWithZero).
    const bool sum = combine_ == ScalarOp::Add, product = combine_ == ScalarOp::Mul;
    identity_ = exclusive_ && (sum || product)
                    ? b_.splat(b_.convert(ev_.hidden(product ? 1 : 0), type_.ty), type_.lanes)
                    : ops::reduction_identity(b_, combine_, dtype, type_);
    const bool shared = form == LoopForm::Long && may_split(g, group);
    if (shared) s_.per_line = largest_workgroup(target);
    steps_ = Expr::floordiv(lines_.length, element_lanes());
    segment_ = Expr::ceildiv(steps_, s_.per_line);
    limit_loops(ev_, target, shared ? LoopForm::Short : form);
    stores_input_ = s_.per_line > 1 && prologue_flops(g, group) > kCheapFlops;
    scales_ = s_.per_line > 1 && sum && type_.ty == kernel::Ty::F32;
    const bool is_long = !segment_.is_const() || segment_.value() * element_lanes() > kShortSum;
    compensates_ = is_long && sum && type_.ty == kernel::Ty::F32;
  }

  Result<Lowered> build() {
    const bool shared = s_.per_line > 1;
    b_.set_workgroup(shared ? s_.per_line : s_.workgroup);
    const Expr units = Expr::floordiv(lines_.count, s_.of_lines ? s_.lanes : 1);
    const Expr groups = shared ? units : Expr::ceildiv(units, s_.workgroup);
    const Value group_id = linear_workgroup(b_, groups);
    local_ = b_.convert(b_.builtin(Builtin::LocalIndex), kernel::Ty::I32);
    const Value unit = shared ? group_id : group_id * s_.workgroup + local_;
    RP_TRY(guard_units(ev_, unit, units, shared ? 1 : s_.workgroup,
                       [&] { return scan(ev_.symbol(unit, units)); }));
    return finish(ev_, b_, group_, groups, s_.describe());
  }

 private:
  uint32_t largest_workgroup(const TargetFacts& target) const {
    const uint32_t room =
        target.shared_bytes() / static_cast<uint32_t>(2 * kernel::byte_size(type_.ty));
    return std::bit_floor(std::min(target.workgroup_invocations(), room));
  }

  int element_lanes() const { return s_.of_lines ? 1 : s_.lanes; }

  /// Adds an element to the sum of a line.
  void add(const Line& line, Val element) {
    const Val before = b_.local_load(line.sum);
    const Val sum = combined(before, element);
    b_.local_store(line.sum, sum);
    if (line.error < 0) return;
    const Val rounded = lost({b_, before}, {b_, element}, {b_, sum});
    b_.local_store(line.error, b_.add(b_.local_load(line.error), rounded));
  }
  Val sum_of(const Line& line) {
    const Val sum = b_.local_load(line.sum);
    return line.error < 0 ? sum : compensated(b_, sum, b_.local_load(line.error));
  }

  Val combined(Val before, Val next) { return b_.scalar_op(combine_, {before, next}); }

  /// The index of line number `number`, or of the vector of lines with that number.
  Index index_of_lines(const Expr& number) {
    if (!s_.of_lines) return ev_.unflatten(number, lines_.shape);
    Shape vectors = lines_.shape;
    vectors.back() = Expr::floordiv(vectors.back(), s_.lanes);
    Index index = ev_.unflatten(number, vectors);
    index.back() = Expr(s_.lanes) * index.back() + ev_.lane();
    return index;
  }

  /// Computes line number `number`, or the vector of lines with that number.
  Status scan(const Expr& number) {
    Line line{index_of_lines(number), ev_.symbol(Val{}, steps_), b_.local("sum", type_),
              compensates_ ? b_.local("error", type_) : -1,
              scales_ ? b_.local("scaled", type_) : -1};
    b_.local_store(line.sum, identity_);
    if (compensates_) b_.local_store(line.error, b_.constant(type_, 0));
    if (scales_) b_.local_store(line.scaled, b_.f32(0));
    if (s_.per_line == 1) return store_segment(line, b_.i32(0), ev_.value(steps_));
    const Value from = local_ * ev_.value(segment_);
    const Value to = min(from + ev_.value(segment_), ev_.value(steps_));
    RP_TRY(combine_segment(line, from, to));
    combine_segments(line);
    return store_segment(line, from, to);
  }

  /// The index of the elements at step i of the scan.
  Index index_at(const Line& line, Value i) {
    ev_.set_symbol(line.step, reverse_ ? ev_.value(steps_) - 1 - i : i);
    Index index = line.index;
    const int lanes = element_lanes();
    const Expr first = Expr(lanes) * line.step;
    index[lines_.axis] = ev_.simplify(lanes > 1 ? first + ev_.lane() : first);
    ev_.add_element(index, group_.domain);
    return index;
  }

  /// Calls `body` with each element of x in the order of the scan, and its lane.
  void each_element(Val x, const std::function<void(int lane, Val element)>& body) {
    const int lanes = element_lanes();
    for (int n = 0; n < lanes; ++n) {
      const int lane = reverse_ ? lanes - 1 - n : n;
      body(lane, lanes > 1 ? b_.extract(x, lane) : x);
    }
  }

  /// The first pass: the total of the invocation's segment.
  Status combine_segment(const Line& line, Value from, Value to) {
    // Nothing comes after the last segment. Its total may even overflow where no result does.
    const Value end = stores_input_ ? to : Value(b_.select(to < ev_.value(steps_), to, from));
    return ev_.for_loop(from, end, b_.i32(1), segment_, [&](Value i) -> Status {
      const Index at = index_at(line, i);
      RP_ASSIGN(const Val x, ev_.eval(input_, at, s_.lanes));
      if (stores_input_) {
        ev_.allow_reloads(input_, true);
        RP_TRY(ev_.store(input_, at, x, s_.lanes));
      }
      each_element(x, [&](int, Val element) {
        add(line, element);
        if (!scales_) return;
        const Val scaled = b_.mul(element, b_.f32(kScale));
        b_.local_store(line.scaled, b_.add(b_.local_load(line.scaled), scaled));
      });
      return {};
    });
  }

  /// Scans the totals of the workgroup's segments. Leaves the total before the invocation's own.
  void combine_segments(const Line& line) {
    b_.local_store(line.sum, sum_of(line));
    Val before = total_before("totals", line.sum, identity_);
    if (scales_) {
      // The total of some segments may overflow where no sum from the start of the line does.
      const Val scaled = total_before("scaled_totals", line.scaled, b_.f32(0));
      const Val exponent = b_.i32(0x7f800000);
      const Val bits = b_.bitcast(before, kernel::kI32);
      const Val overflowed = b_.eq(b_.scalar_op(ScalarOp::BitAnd, {bits, exponent}), exponent);
      before = b_.select(overflowed, b_.mul(scaled, b_.f32(1 / kScale)), before);
    }
    b_.local_store(line.sum, before);
    if (compensates_) b_.local_store(line.error, b_.constant(type_, 0));
  }

  /// The combination of the locals `total` of all invocations before this one.
  Val total_before(const char* name, int total, Val identity) {
    const int totals = b_.shared(name, type_.ty, s_.per_line);
    b_.shared_store(totals, local_, b_.local_load(total));
    b_.barrier();
    for (uint32_t distance = 1; distance < s_.per_line; distance *= 2) {
      b_.if_then(b_.ge(local_, b_.i32(distance)), [&] {
        const Val before = b_.shared_load(totals, local_ - distance);
        b_.local_store(total, combined(before, b_.local_load(total)));
      });
      b_.barrier();
      b_.shared_store(totals, local_, b_.local_load(total));
      b_.barrier();
    }
    b_.local_store(total, identity);
    b_.if_then(b_.ge(local_, b_.i32(1)),
               [&] { b_.local_store(total, b_.shared_load(totals, local_ - 1)); });
    return b_.local_load(total);
  }

  /// The second pass: the results of a segment. An exclusive scan adds an element when it reaches
  /// the next, so that it never adds the last.
  Status store_segment(const Line& line, Value from, Value to) {
    int pending = -1;
    if (exclusive_) {
      pending = b_.local("pending", type_);
      b_.local_store(pending, identity_);
    }
    return ev_.for_loop(from, to, b_.i32(1), segment_, [&](Value i) -> Status {
      const Index at = index_at(line, i);
      if (stores_input_) ev_.reload_at(input_, at, ev_.flatten(at, group_.domain));
      RP_ASSIGN(const Val x, ev_.eval(input_, at, s_.lanes));
      std::vector<Val> results(static_cast<size_t>(element_lanes()));
      each_element(x, [&](int lane, Val element) {
        Val next = element;
        if (exclusive_) {
          next = b_.local_load(pending);
          b_.local_store(pending, element);
        }
        add(line, next);
        results[static_cast<size_t>(lane)] = sum_of(line);
      });
      const Val result = element_lanes() > 1 ? Val(b_.compose(results)) : results[0];
      return store_result(ev_, group_, at, result, s_.lanes);
    });
  }

  const Group& group_;
  Builder b_;
  Evaluator ev_;
  const Lines lines_;
  ScanSchedule s_;
  const ValueId input_;
  const ScalarOp combine_;
  bool exclusive_ = false, reverse_ = false;
  bool stores_input_ = false;  // in scratch memory, for the second pass
  bool scales_ = false;        // whether totals of segments may overflow
  bool compensates_ = false;   // whether rounding errors are added up
  Type type_;                  // of a sum
  Val identity_;
  Value local_;           // the number of the invocation in its workgroup
  Expr steps_, segment_;  // loads that cover a line, and an invocation's part of it
};

/// A pure function of the shape and the target.
ScanSchedule choose_scan(const graph::Graph& g, const Group& group, const TargetFacts& target) {
  constexpr uint32_t kCpuSubgroup = 8, kGpuWorkgroup = 64;
  constexpr int64_t kEnoughLines = 64, kEnoughGpuLines = 4096;
  const Lines lines(group);
  const bool cpu = target.cpu_type();
  const bool long_line = !lines.length.is_const() || lines.length.value() > (cpu ? 1024 : 32);
  const bool many =
      lines.count.is_const() && lines.count.value() >= (cpu ? kEnoughLines : kEnoughGpuLines);
  ScanSchedule s;
  s.workgroup = cpu ? kCpuSubgroup : kGpuWorkgroup;
  if (long_line && !many && may_split(g, group)) {
    // A CPU-type device runs a workgroup on one core, so more invocations gain nothing.
    const int64_t length = lines.length.is_const() ? lines.length.value() : 4096;
    const uint32_t gpu = length <= 1024 ? 64 : length <= 16384 ? 256 : 1024;
    s.per_line = cpu ? kCpuSubgroup : std::min(gpu, target.workgroup_invocations());
  }
  const auto fours = [&](const Expr& e) { return e.known_divisor(g.symbols) % 4 == 0; };
  if (lines.is_last) {
    s.lanes = fours(lines.length) ? 4 : 1;
  } else if (cpu && s.per_line == 1 && fours(group.domain.back())) {
    s.lanes = 4;
    s.of_lines = true;
  }
  return s;
}

/// The preferred schedule comes first.
std::vector<ScanSchedule> scan_schedules(const graph::Graph& g, const Group& group,
                                         const TargetFacts& target, LoopForm form) {
  std::vector<ScanSchedule> out;
  const auto add = [&](ScanSchedule s) {
    s.cost = preference_cost(out.size());
    out.push_back(s);
  };
  const ScanSchedule chosen = choose_scan(g, group, target);
  add(chosen);
  const Expr length = Lines(group).length;
  if (form == LoopForm::Long || !length.is_const() || chosen.of_lines) return out;
  for (const uint32_t per_line : {1U, 8U, 64U}) {
    const bool idle = int64_t{per_line} * chosen.lanes > length.value();
    const bool long_loop = length.value() > 32768 * int64_t{per_line};
    const bool split = per_line > 1 && !may_split(g, group);
    if (per_line == chosen.per_line || idle || long_loop || split) continue;
    ScanSchedule other = chosen;
    other.per_line = per_line;
    add(other);
  }
  return out;
}

}  // namespace

Result<Lowered> lower_scan(const graph::Graph& g, const Group& group, const TargetFacts& target,
                           size_t choice, LoopForm form) {
  return lower_choice(scan_schedules(g, group, target, form), choice, [&](const ScanSchedule& s) {
    return ScanKernel(g, group, target, s, form).build();
  });
}

}  // namespace reprise::lower
