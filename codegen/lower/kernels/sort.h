// The launches that sort lines (sort.cpp), for top-k and for the selection of boxes (boxes.cpp),
// and those that select the elements that are worth sorting (radix_select.cpp).
#pragma once

#include <array>

#include "codegen/lower/kernels/kernels.h"
#include "shaders/merge_sort.h"

namespace reprise::lower {

/// What is sorted.
struct SortedLines {
  graph::ValueId x;
  size_t axis;
  Expr wanted;  // elements of a line
  bool largest;
};

/// One sort of the lines of a tensor.
struct SortProblem {
  SortProblem(const graph::Graph& graph, const Group& gr, const SortedLines& of,
              const TargetFacts& target);

  /// The number of merging launches, at most.
  size_t merges() const;
  /// 1 if a line has several runs of that length, else 0.
  Expr is_several(const Expr& run) const { return Expr::min(Expr::floordiv(sorted - 1, run), 1); }
  /// Elements that a run of the given length keeps.
  Expr kept(const Expr& run) const { return Expr::min(run, wanted); }

  /// The type of keys in scratch memory.
  DType key_type() const {
    const DType t = g.value(x).dtype;
    return t == DType::I64 || t == DType::F64 ? DType::I64 : DType::I32;
  }

  const graph::Graph& g;
  const Group& group;
  graph::ValueId result;  // output 0 of the group's node, which names scratch memory
  graph::ValueId x;
  size_t axis;
  Shape line_dims;  // of x, with size 1 for the axis
  Expr lines, length, wanted;
  Expr sorted;  // elements of a line that are sorted: all, or the wanted ones, which come first
  bool largest, cpu;
  bool selects = false;  // whether other launches select the wanted elements before they are sorted
};

/// Scratch buffers by number: two pairs of keys and positions, then those of the selection, or of
/// other launches from kCounters on.
enum SortScratch : size_t {
  kKeys,
  kPositions,
  kCounters = 4,
  kThresholds,
  kMoreThresholds,
  kCounts,
  kOffsets
};

/// One of the launches.
class SortLaunch {
 public:
  SortLaunch(const SortProblem& p, const char* suffix)
      : p_(p), b_(kernel_name(p.group) + suffix), ev_(p.g, p.group, b_) {}

  kernel::Builder& builder() { return b_; }
  Evaluator& evaluator() { return ev_; }

  /// The pair number `pair` of scratch buffers.
  shaders::SortBuffers buffers(size_t pair, kernel::Access access) {
    return {scratch(2 * pair + kKeys, p_.key_type(), access),
            scratch(2 * pair + kPositions, DType::I32, access)};
  }
  /// Scratch buffer number `number`.
  int scratch(size_t number, DType type, kernel::Access access) {
    scratch_.push_back(number);
    return ev_.add_scratch({p_.result, type, {}}, access);
  }

  shaders::SortLoop loop() {
    return [this](Value count, int64_t most, const std::function<Status(Value)>& body) {
      return ev_.for_loop(b_.i32(0), count, b_.i32(1), most, body);
    };
  }

  /// The element at a position of a line whose other indices are in `line`, as a key. `position`
  /// may have lanes.
  Result<Val> element(const Index& line, const Expr& position, int lanes);

  /// Writes one invocation for each unit and finishes the launch.
  Result<LoweredLaunch> write(const Expr& units, const std::function<Status(Value)>& unit);
  /// Writes one workgroup for each line and finishes the launch. `local`: number of an invocation.
  using LineBody = std::function<Status(Value line, Value local)>;
  Result<LoweredLaunch> write_lines(const LineBody& body) { return write_lines(workgroup(), body); }
  Result<LoweredLaunch> write_lines(uint32_t workgroup, const LineBody& body);
  /// The same for `groups` workgroups.
  Result<LoweredLaunch> write_groups(const Expr& groups, uint32_t workgroup, const LineBody& body);
  /// Invocations of a workgroup.
  uint32_t workgroup() const { return p_.cpu ? 8 : 64; }

 private:
  Result<LoweredLaunch> finished(const Expr& groups);

  const SortProblem& p_;
  kernel::Builder b_;
  Evaluator ev_;
  std::vector<size_t> scratch_;  // the group's scratch buffers, in the order of the parameters
};

/// Reads the positions of the sorted elements from where the last launch that merged left them.
class SortedPositions {
 public:
  SortedPositions(const SortProblem& p, SortLaunch& launch);
  /// `place`: of all sorted elements, line by line.
  Value at(Value place);

 private:
  SortLaunch& launch_;
  Expr merged_ = 0;  // the launches that merged anything
  std::array<shaders::SortBuffers, 2> from_;
  int found_ = -1;  // a local, if it depends on sizes which buffer has the positions
};

/// Adds the launches that sort, and their scratch buffers.
Status sort_lines(const SortProblem& p, Lowered& out);

/// SelectBoxes, the other operator that sorts.
Result<Lowered> lower_boxes(const graph::Graph& g, const Group& group, const TargetFacts& target);

/// Whether radix_select() can select the wanted elements, and whether that pays.
bool can_select(const SortProblem& p);
/// Launches that store the keys and positions of the wanted elements of each line, by ascending
/// position, in pair 1 of the scratch buffers, and the further scratch buffers that they need.
Status radix_select(const SortProblem& p, Lowered& out);

}  // namespace reprise::lower
