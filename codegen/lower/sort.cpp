// Top-k by merge sort (shaders/merge_sort.h): a launch that sorts short runs, launches that merge
// them, and one that gathers the results. Two pairs of scratch buffers take turns.
#include <algorithm>
#include <bit>
#include <limits>

#include "codegen/lower/lower.h"
#include "codegen/ops/shape_arith.h"
#include "shaders/merge_sort.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Access;
using kernel::Builder;
using kernel::Ty;
using shaders::kMergedElements;
using shaders::kSortedRun;

namespace {

struct SortProblem {
  SortProblem(const graph::Graph& graph, const Group& gr, const TargetFacts& target);

  /// The number of merging launches, at most.
  size_t merges() const;
  /// 1 if a line has several runs of that length, else 0.
  Expr is_several(const Expr& run) const { return Expr::min(Expr::floordiv(length - 1, run), 1); }
  /// Elements that a run of the given length keeps.
  Expr kept(const Expr& run) const { return Expr::min(run, wanted); }

  const graph::Graph& g;
  const Group& group;
  ValueId x, values, positions;
  size_t axis;
  Shape line_dims;  // of the domain, with size 1 for the axis
  Expr lines, length, wanted;
  bool largest;
  DType key_type;
  uint32_t workgroup;
};

SortProblem::SortProblem(const graph::Graph& graph, const Group& gr, const TargetFacts& target)
    : g(graph),
      group(gr),
      x(gr.anchor->inputs[0]),
      values(gr.anchor->outputs[0]),
      positions(gr.anchor->outputs.size() > 1 ? gr.anchor->outputs[1] : graph::kNone),
      axis(static_cast<size_t>(gr.reduced[0])),
      line_dims(row_shape(g.value(x).shape, gr.reduced)),
      lines(element_count(line_dims)),
      length(g.value(x).shape[axis]),
      wanted(gr.domain[axis]),
      largest(ops::Attributes(*gr.anchor).get_int("largest") != 0),
      key_type(g.value(x).dtype == DType::I64 ? DType::I64 : DType::I32),
      workgroup(target.cpu_type() ? 8 : 64) {}

size_t SortProblem::merges() const {
  // Indices have 32 bits, so no line is longer than that.
  const int64_t longest =
      std::min(ops::bounds(length, g.symbols).hi, int64_t{std::numeric_limits<int32_t>::max()});
  return static_cast<size_t>(
      std::bit_width(static_cast<uint64_t>(std::max<int64_t>(longest - 1, 0)) / kSortedRun));
}

Expr run_length(size_t merges) {
  return Expr(int64_t{kSortedRun} << merges);
}

/// One of the launches.
class SortLaunch {
 public:
  SortLaunch(const SortProblem& p, const char* suffix)
      : p_(p), b_(kernel_name(p.group) + suffix), ev_(p.g, p.group, b_) {}

  Builder& builder() { return b_; }
  Evaluator& evaluator() { return ev_; }

  /// The pair number `pair` of scratch buffers.
  shaders::SortBuffers buffers(size_t pair, Access access) {
    return {add(2 * pair, p_.key_type, access), add(2 * pair + 1, DType::I32, access)};
  }

  shaders::SortLoop loop() {
    return [this](int64_t count, const std::function<Status(Value)>& body) {
      return ev_.for_loop(count, body);
    };
  }

  /// Writes one invocation for each unit and finishes the launch.
  Result<LoweredLaunch> write(const Expr& units, const std::function<Status(Value)>& unit) {
    b_.set_workgroup(p_.workgroup);
    const Expr groups = Expr::ceildiv(units, int64_t{p_.workgroup});
    const Value id = linear_invocation(b_, groups, p_.workgroup);
    RP_TRY(ev_.guard(id < ev_.value(units), [&] { return unit(id); }));
    RP_ASSIGN(Lowered out, finish(ev_, b_, p_.group, groups, {}));
    LoweredLaunch launch = std::move(out.launches[0]);
    for (LoweredBuffer& buffer : launch.buffers)
      if (buffer.scratch) buffer.scratch = scratch_[*buffer.scratch];
    return launch;
  }

 private:
  int add(size_t number, DType type, Access access) {
    scratch_.push_back(number);
    return ev_.add_scratch({p_.values, type, {}}, access);
  }

  const SortProblem& p_;
  Builder b_;
  Evaluator ev_;
  std::vector<size_t> scratch_;  // the group's scratch buffers, in the order of the parameters
};

Result<LoweredLaunch> sort_runs(const SortProblem& p) {
  SortLaunch launch(p, "_runs");
  Builder& b = launch.builder();
  Evaluator& ev = launch.evaluator();
  const Shape units{p.lines, Expr::ceildiv(p.length, kSortedRun)};
  const shaders::SortBuffers to = launch.buffers(0, Access::Write);
  return launch.write(element_count(units), [&](Value id) -> Status {
    const Expr unit = ev.symbol(id, element_count(units));
    const Index at = ev.unflatten(unit, units);
    const Value first = ev.value(at[1]) * kSortedRun;
    shaders::UnsortedRun run;
    run.first = first;
    run.count = min(ev.value(p.length) - first, b.i32(kSortedRun));
    Index index = ev.unflatten(at[0], p.line_dims);
    for (int i = 0; i < kSortedRun; ++i) {
      const Value position = min(first + i, ev.value(p.length) - 1);
      index[p.axis] = ev.symbol(position, p.length);
      RP_ASSIGN(Val x, ev.eval(p.x, index));
      if (b.type(x).ty == Ty::F16) x = b.convert(x, Ty::F32);
      run.keys[static_cast<size_t>(i)] = shaders::sort_key(b, x, p.largest);
    }
    const Value kept = ev.value(p.kept(kSortedRun));
    shaders::sort_run(b, run, to, id * kept, min(run.count, kept));
    return {};
  });
}

/// Merges pairs of the runs that `merges` launches have made. The numbers that differ between the
/// launches are parameters, so that all are one kernel.
Result<LoweredLaunch> merge_runs(const SortProblem& p, size_t merges) {
  SortLaunch launch(p, "_merge");
  Builder& b = launch.builder();
  Evaluator& ev = launch.evaluator();
  shaders::MergePart part;
  part.from = launch.buffers(merges % 2, Access::Read);
  part.to = launch.buffers(1 - merges % 2, Access::Write);
  const Expr run = run_length(merges), next = run_length(merges + 1);
  const Expr several = p.is_several(run);
  const Expr pairs = several * Expr::ceildiv(p.length, next);
  const Expr parts = Expr::ceildiv(p.kept(next), kMergedElements);
  const Value run_of = ev.parameter(run), kept = ev.parameter(p.kept(run));
  const Value kept_next = ev.parameter(p.kept(next)),
              runs = ev.parameter(Expr::ceildiv(p.length, run));
  const Value pairs_of = ev.parameter(pairs), parts_of = ev.parameter(parts);
  return launch.write(p.lines * pairs * parts, [&](Value id) -> Status {
    const Value merged = id / parts_of;  // number of the pair among those of all lines
    const Value line = merged / pairs_of, left = merged % pairs_of * 2;
    const Value rest = ev.value(p.length) - left * run_of;  // elements from the left run on
    const auto count = [&](Value elements) { return min(b.max(elements, b.i32(0)), kept); };
    part.left = {(line * runs + left) * kept, count(min(rest, run_of))};
    part.right.count = count(min(rest - run_of, run_of));
    part.right.begin =
        b.select(b.i32(0) < part.right.count, part.left.begin + kept, part.left.begin);
    part.first = id % parts_of * kMergedElements;
    part.count = min(min(rest, run_of * 2), kept_next);
    part.at = merged * kept_next;
    return shaders::merge_part(b, part, launch.loop());
  });
}

/// Stores the wanted elements from the sorted lines.
Result<LoweredLaunch> gather(const SortProblem& p) {
  SortLaunch launch(p, "_gather");
  Builder& b = launch.builder();
  Evaluator& ev = launch.evaluator();
  Expr merged = 0;  // the launches that merged anything
  for (size_t m = 0; m < p.merges(); ++m) merged += p.is_several(run_length(m));
  const bool known = merged.is_const();
  const size_t pair = known ? static_cast<size_t>(merged.value() % 2) : 0;
  const shaders::SortBuffers from = launch.buffers(pair, Access::Read);
  shaders::SortBuffers other;
  if (!known) other = launch.buffers(1, Access::Read);
  return launch.write(p.lines * p.wanted, [&](Value id) -> Status {
    const int found = b.local("found", kernel::kI32);
    const auto read = [&](const shaders::SortBuffers& buffers) {
      return [&b, &buffers, id, found] { b.local_store(found, b.load(buffers.positions, id)); };
    };
    if (known) {
      read(from)();
    } else {
      b.if_else(b.eq(ev.value(merged) % 2, b.i32(0)), read(from), read(other));
    }
    const Index at = ev.unflatten(ev.symbol(id, p.lines * p.wanted), {p.lines, p.wanted});
    Index index = ev.unflatten(at[0], p.line_dims);
    Index out = index;
    out[p.axis] = at[1];
    for (Expr& e : out) e = ev.simplify(e);
    const Val position = b.local_load(found);
    index[p.axis] = ev.symbol(position, p.length);
    const auto wants = [&](ValueId v) { return std::ranges::count(p.group.outputs, v) != 0; };
    if (wants(p.values)) {
      RP_ASSIGN(const Val x, ev.eval(p.x, index));
      RP_TRY(ev.store(p.values, out, x));
    }
    return wants(p.positions) ? ev.store(p.positions, out, b.convert(position, Ty::I64)) : Status();
  });
}

}  // namespace

Result<Lowered> lower_sort(const graph::Graph& g, const Group& group, const TargetFacts& target) {
  const SortProblem p(g, group, target);
  Lowered out;
  out.schedule = "merge sort";
  // Before each launch, a line has fewer than length / run + 1 runs of min(run, wanted) elements.
  const Shape shape{p.lines, p.length + p.wanted};
  for (size_t pair = 0; pair < (p.merges() > 0 ? 2 : 1); ++pair) {
    out.scratch.push_back({p.values, p.key_type, shape});
    out.scratch.push_back({p.values, DType::I32, shape});
  }
  RP_ASSIGN(LoweredLaunch runs, sort_runs(p));
  out.launches.push_back(std::move(runs));
  for (size_t m = 0; m < p.merges(); ++m) {
    RP_ASSIGN(LoweredLaunch merge, merge_runs(p, m));
    out.launches.push_back(std::move(merge));
  }
  RP_ASSIGN(LoweredLaunch last, gather(p));
  out.launches.push_back(std::move(last));
  return out;
}

}  // namespace reprise::lower
