// Merge sort (shaders/merge_sort.h): a launch that sorts short runs, and launches that merge them.
// For top-k, another one gathers the results. Two pairs of scratch buffers take turns. If few
// elements of a long line are wanted, radix_select.cpp selects them first.
#include <algorithm>
#include <bit>
#include <limits>

#include "codegen/lower/kernels/sort.h"
#include "codegen/ops/row/shape_arith.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Access;
using kernel::Builder;
using kernel::Ty;
using shaders::kMergedElements;
using shaders::kSortedRun;

SortProblem::SortProblem(const graph::Graph& graph, const Group& gr, const SortedLines& of,
                         const TargetFacts& target)
    : g(graph),
      group(gr),
      result(gr.anchor->outputs[0]),
      x(of.x),
      axis(of.axis),
      line_dims(row_shape(g.value(x).shape, {static_cast<int64_t>(axis)})),
      lines(element_count(line_dims)),
      length(g.value(x).shape[axis]),
      wanted(of.wanted),
      sorted(length),
      largest(of.largest),
      cpu(target.cpu_type()) {
  selects = can_select(*this);
  if (selects) sorted = wanted;
}

size_t SortProblem::merges() const {
  // Indices have 32 bits, so no line is longer than that.
  const int64_t longest =
      std::min(ops::bounds(sorted, g.symbols).hi, int64_t{std::numeric_limits<int32_t>::max()});
  return static_cast<size_t>(
      std::bit_width(static_cast<uint64_t>(std::max<int64_t>(longest - 1, 0)) / kSortedRun));
}

Result<Val> SortLaunch::element(const Index& line, const Expr& position, int lanes) {
  Index index = line;
  index[p_.axis] = position;
  RP_ASSIGN(Val x, ev_.eval(p_.x, index, lanes));
  return b_.type(x).ty == Ty::F16 ? Val(b_.convert(x, Ty::F32)) : x;
}

Result<LoweredLaunch> SortLaunch::write(const Expr& units,
                                        const std::function<Status(Value)>& unit) {
  b_.set_workgroup(workgroup());
  const Expr groups = Expr::ceildiv(units, int64_t{workgroup()});
  const Value id = linear_invocation(b_, groups, workgroup());
  RP_TRY(ev_.guard(id < ev_.value(units), [&] { return unit(id); }));
  return finished(groups);
}

Result<LoweredLaunch> SortLaunch::write_lines(uint32_t workgroup, const LineBody& body) {
  return write_groups(p_.lines, workgroup, [&](Value line, Value local) {
    return ev_.guard(line < ev_.value(p_.lines), [&] { return body(line, local); });
  });
}

Result<LoweredLaunch> SortLaunch::write_groups(const Expr& groups, uint32_t workgroup,
                                               const LineBody& body) {
  b_.set_workgroup(workgroup);
  const Value group = linear_workgroup(b_, groups);
  const Value local{b_, b_.convert(b_.builtin(kernel::Builtin::LocalIndex), Ty::I32)};
  RP_TRY(body(group, local));
  return finished(groups);
}

Result<LoweredLaunch> SortLaunch::finished(const Expr& groups) {
  RP_ASSIGN(Lowered out, finish(ev_, b_, p_.group, groups, {}));
  LoweredLaunch launch = std::move(out.launches[0]);
  for (LoweredBuffer& buffer : launch.buffers)
    if (buffer.scratch) buffer.scratch = scratch_[*buffer.scratch];
  return launch;
}

namespace {

Expr run_length(size_t merges) {
  return Expr(int64_t{kSortedRun} << merges);
}

}  // namespace

SortedPositions::SortedPositions(const SortProblem& p, SortLaunch& launch) : launch_(launch) {
  for (size_t m = 0; m < p.merges(); ++m) merged_ += p.is_several(run_length(m));
  const bool known = merged_.is_const();
  const size_t pair = known ? static_cast<size_t>(merged_.value() % 2) : 0;
  from_[0] = launch.buffers(pair, Access::Read);
  if (known) return;
  from_[1] = launch.buffers(1, Access::Read);
  found_ = launch.builder().local("found", kernel::kI32);
}

Value SortedPositions::at(Value place) {
  Builder& b = launch_.builder();
  if (found_ < 0) return b.load(from_[0].positions, place);
  const auto read = [&](size_t pair) {
    return [&b, this, pair, place] { b.local_store(found_, b.load(from_[pair].positions, place)); };
  };
  const Value pair = launch_.evaluator().value(merged_) % 2;
  b.if_else(b.eq(pair, b.i32(0)), read(0), read(1));
  return b.local_load(found_);
}

namespace {

/// The elements of a run, of those in order or of those that were selected.
Result<shaders::UnsortedRun> load_run(SortLaunch& launch, const SortProblem& p, const Index& at) {
  Builder& b = launch.builder();
  Evaluator& ev = launch.evaluator();
  shaders::UnsortedRun run;
  const Value first = ev.value(at[1]) * kSortedRun;
  run.count = min(ev.value(p.sorted) - first, b.i32(kSortedRun));
  shaders::SortBuffers from;
  if (p.selects) from = launch.buffers(1, Access::Read);
  const Index line = ev.unflatten(at[0], p.line_dims);
  for (int i = 0; i < kSortedRun; ++i) {
    const auto n = static_cast<size_t>(i);
    const Value position = min(first + i, ev.value(p.sorted) - 1);
    if (p.selects) {
      const Value place = ev.value(at[0]) * ev.value(p.sorted) + position;
      run.keys[n] = {b, b.load(from.keys, place)};
      run.positions[n] = {b, b.load(from.positions, place)};
    } else {
      RP_ASSIGN(const Val x, launch.element(line, ev.symbol(position, p.length), 1));
      run.keys[n] = shaders::sort_key(b, x, p.largest);
      run.positions[n] = first + i;
    }
  }
  return run;
}

Result<LoweredLaunch> sort_runs(const SortProblem& p) {
  SortLaunch launch(p, "_runs");
  Builder& b = launch.builder();
  Evaluator& ev = launch.evaluator();
  const Shape units{p.lines, Expr::ceildiv(p.sorted, kSortedRun)};
  const shaders::SortBuffers to = launch.buffers(0, Access::Write);
  return launch.write(element_count(units), [&](Value id) -> Status {
    const Index at = ev.unflatten(ev.symbol(id, element_count(units)), units);
    RP_ASSIGN(const shaders::UnsortedRun run, load_run(launch, p, at));
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
  part.steps = ev.parameter(std::bit_width(static_cast<uint64_t>(kSortedRun) << merges));
  const Expr run = run_length(merges), next = run_length(merges + 1);
  const Expr several = p.is_several(run);
  const Expr pairs = several * Expr::ceildiv(p.sorted, next);
  const Expr parts = Expr::ceildiv(p.kept(next), kMergedElements);
  const Value run_of = ev.parameter(run), kept = ev.parameter(p.kept(run));
  const Value kept_next = ev.parameter(p.kept(next)),
              runs = ev.parameter(Expr::ceildiv(p.sorted, run));
  const Value pairs_of = ev.parameter(pairs), parts_of = ev.parameter(parts);
  return launch.write(p.lines * pairs * parts, [&](Value id) -> Status {
    const Value merged = id / parts_of;  // number of the pair among those of all lines
    const Value line = merged / pairs_of, left = merged % pairs_of * 2;
    const Value rest = ev.value(p.sorted) - left * run_of;  // elements from the left run on
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
  SortedPositions positions(p, launch);
  const auto& outputs = p.group.anchor->outputs;
  return launch.write(p.lines * p.wanted, [&](Value id) -> Status {
    const Value position = positions.at(id);
    const Index at = ev.unflatten(ev.symbol(id, p.lines * p.wanted), {p.lines, p.wanted});
    Index index = ev.unflatten(at[0], p.line_dims);
    Index out = index;
    out[p.axis] = at[1];
    for (Expr& e : out) e = ev.simplify(e);
    index[p.axis] = ev.symbol(position, p.length);
    const auto wants = [&](size_t output) {
      return output < outputs.size() && std::ranges::count(p.group.outputs, outputs[output]) != 0;
    };
    if (wants(0)) {
      RP_ASSIGN(const Val x, ev.eval(p.x, index));
      RP_TRY(ev.store(outputs[0], out, x));
    }
    return wants(1) ? ev.store(outputs[1], out, b.convert(position, Ty::I64)) : Status();
  });
}

}  // namespace

Status sort_lines(const SortProblem& p, Lowered& out) {
  // Before each launch, a line has fewer than sorted / run + 1 runs of min(run, wanted) elements.
  const Shape shape{p.lines, p.sorted + p.wanted};
  for (size_t pair = 0; pair < (p.merges() > 0 || p.selects ? 2 : 1); ++pair) {
    out.scratch.push_back({p.result, p.key_type(), shape});
    out.scratch.push_back({p.result, DType::I32, shape});
  }
  if (p.selects) RP_TRY(radix_select(p, out));
  RP_ASSIGN(LoweredLaunch runs, sort_runs(p));
  out.launches.push_back(std::move(runs));
  for (size_t m = 0; m < p.merges(); ++m) {
    RP_ASSIGN(LoweredLaunch merge, merge_runs(p, m));
    out.launches.push_back(std::move(merge));
  }
  return {};
}

Result<Lowered> lower_sort(const graph::Graph& g, const Group& group, const TargetFacts& target) {
  if (ops::Attributes(*group.anchor).declares("most")) return lower_boxes(g, group, target);
  const auto axis = static_cast<size_t>(group.reduced[0]);
  const bool largest = ops::Attributes(*group.anchor).get_int("largest") != 0;
  const SortProblem p(g, group, {group.anchor->inputs[0], axis, group.domain[axis], largest},
                      target);
  Lowered out;
  out.schedule = p.selects ? "radix select, merge sort" : "merge sort";
  RP_TRY(sort_lines(p, out));
  RP_ASSIGN(LoweredLaunch last, gather(p));
  out.launches.push_back(std::move(last));
  return out;
}

}  // namespace reprise::lower
