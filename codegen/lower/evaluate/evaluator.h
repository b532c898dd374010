// Writes the code that computes an element of a group's value at an index, on demand: from the
// value back through its producers to the loads. Views become index arithmetic, common
// subexpressions are computed once, and consecutive lanes become vector loads where the index
// proves that they are.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/kernel/build/builder.h"
#include "codegen/lower/evaluate/index_code.h"
#include "codegen/lower/evaluate/tensor_memory.h"
#include "codegen/lower/group/group.h"
#include "codegen/ops/row/element.h"

namespace reprise::lower {

class Evaluator {
 public:
  Evaluator(const graph::Graph& g, const Group& group, kernel::Builder& b);
  ~Evaluator();

  // --- index expressions ---
  /// A symbol for v, a run-time I32 value in [0, below).
  Expr symbol(Val v, const Expr& below) { return index_.symbol(v, below); }
  /// Gives a symbol another value, as in a second loop over the same range. The scopes in which the
  /// old value was used must have ended.
  void set_symbol(const Expr& symbol, Val v) { index_.set_symbol(symbol, v); }
  /// An expression over model symbols and kernel symbols, as I32. Parts over model symbols alone
  /// become scalar parameters that the host computes; divisors that are 0 count as 1.
  Value value(const Expr& e) { return index_.value(e); }
  /// A number over model symbols that is data: in a run, dividing by 0 is an error.
  Value number(const Expr& e) { return index_.number(e); }
  /// An integer that is a parameter, so that drivers do not know it.
  Value hidden(int32_t v) { return index_.param(v); }
  /// An expression over model symbols as a parameter that it shares with no other expression, so
  /// that kernels that differ in nothing else are the same kernel.
  Value parameter(const Expr& e) { return index_.parameter(e); }
  /// The number of the scalar parameter of an expression over model symbols, for tables of the
  /// kernel that name parameters.
  int scalar(const Expr& e) { return index_.scalar(e); }
  Expr simplify(const Expr& e) const { return index_.simplify(e); }
  /// Asserts that the kernel runs only if this product of dimensions is not 0.
  void assume_not_empty(const Expr& count) { index_.assume_not_empty(count); }
  Expr flatten(const Index& index, const Shape& shape) const {
    return index_.flatten(index, shape);
  }
  Index unflatten(const Expr& linear, const Shape& shape) {
    return index_.unflatten(linear, shape);
  }
  /// Registers `index` as the index of an element of `shape`, so that unflatten() exactly inverts
  /// flatten() for it. unflatten() registers its results itself.
  void add_element(const Index& index, const Shape& shape) { index_.add_element(index, shape); }
  /// The index in `to` with the same row-major position as `index` in `from`, if both are
  /// registered.
  std::optional<Index> same_position(const Index& index, const Shape& from, const Shape& to) const {
    return index_.same_position(index, from, to);
  }
  /// The lane of a vector evaluation, in [0, lanes). An index uses it with coefficient 1.
  Expr lane() const { return Expr::symbol(kLoopSymbols); }

  // --- values ---
  /// The element of v at the index. If `lanes` > 1, a vector over lane() in [0, lanes).
  Result<Val> eval(graph::ValueId v, const Index& index, int lanes = 1);
  /// Stores an output or a scratch value. `index` must be the index at which eval() computed it.
  Status store(graph::ValueId v, const Index& index, Val value, int lanes = 1);
  /// A value of v as its memory has it, for what stores it in another way.
  Val stored_form(graph::ValueId v, Val value) { return memory_.to_storage(v, value); }
  /// As store(), at a row-major position.
  Status store_at(graph::ValueId v, const Expr& linear, Val value, int lanes = 1) {
    return memory_.store_at(v, linear, value, lanes);
  }
  /// Unsupported unless the lanes of a vector at the index are consecutive in memory, as store()
  /// needs them.
  Status check_order(graph::ValueId v, const Index& index, int lanes) const;
  /// Makes v available as `value` at exactly this index (the result of an anchor or reduction).
  void bind(graph::ValueId v, Index index, Val value);
  /// Indices at which v was computed in the innermost scope. The lanes of a vector count as one
  /// index, even if they were computed one by one.
  std::vector<Index> computed_at(graph::ValueId v) const;
  /// Declares that this kernel loads v after storing it, to an output or to scratch memory. Call
  /// this before the first store of v.
  void allow_reloads(graph::ValueId v, bool scratch) { memory_.allow_reloads(v, scratch); }
  /// From now on, v at exactly `index` is loaded from where this invocation stored it. At every
  /// other index it is still computed, as stores of other invocations are unordered.
  void reload_at(graph::ValueId v, Index index, Expr position);

  // --- control flow; values computed in a body are forgotten when it ends ---
  using Body = std::function<Status()>;
  using LoopBody = std::function<Status(Value i)>;
  /// Runs the body in a scope without control flow.
  Status scope(const Body& body);
  /// if (condition); a null condition always holds.
  Status guard(Val condition, const Body& body);
  /// for (i = start; i < end; i += step), with at most `iterations` iterations; see iterations().
  Status for_loop(Val start, Val end, Val step, const Expr& iterations, const LoopBody& body);
  /// Runs each body as what one of the kernel's roles does.
  Status run_roles(std::span<const Body> bodies);
  /// for (i = 0; i < end; ++i).
  Status for_loop(const Expr& end, const LoopBody& body);
  /// Limits later loops. A loop whose number of iterations, multiplied by those of the loops around
  /// it, is constant and above `iterations` is unrolled until it is not, or as far as possible. If
  /// the number is dynamic, the outermost loop is unrolled `copies` times.
  void limit_loops(int64_t iterations, int64_t copies) {
    loop_share_ = iterations;
    copies_if_dynamic_ = copies;
  }
  /// Unsupported if an index needs more than 32 bits.
  const Status& status() const { return index_.status(); }
  /// An upper bound on the iterations of all loops of an invocation together. The final check that
  /// ends a loop counts as an iteration, as it does for drivers that limit loops.
  const Expr& iterations() const { return iterations_; }

  // --- the kernel's parameters, in order ---
  using BufferUse = TensorMemory::BufferUse;
  /// The buffer of v. `packed`: of a weight in the form of PackedOperand. The same kernel may also
  /// read the unpacked weight from another buffer.
  int buffer(graph::ValueId v, bool packed = false) { return memory_.buffer(v, packed); }
  /// An element of a packed weight, at an index over Packing::dims. It may lie in the padding.
  Val packed_element(graph::ValueId v, const plan::Packing& packing, Index at) {
    return memory_.packed_element(v, packing, std::move(at));
  }
  const std::vector<BufferUse>& buffers() const { return memory_.buffers(); }
  /// A parameter for memory that the group's launches share.
  int add_scratch(ScratchBuffer scratch, kernel::Access access) {
    return memory_.add_scratch(std::move(scratch), access);
  }
  const std::vector<ScratchBuffer>& scratch() const { return memory_.scratch(); }
  const std::vector<Expr>& scalars() const { return index_.scalars(); }

  kernel::Builder& builder() { return b_; }
  const graph::Graph& graph() const { return g_; }
  kernel::Type compute(DType t) const { return compute_type(t); }

 private:
  class Context;
  struct Memo {
    graph::ValueId v;
    int lanes;
    Index index;
    Val value;
  };
  Result<Val> produce(graph::ValueId v, const graph::Node& n, const Index& index, int lanes);
  Val wrapped(graph::ValueId v, Val value);
  bool may_leave_range(graph::ValueId v, const graph::Node& n) const;
  Index lane_of(const Index& index, int64_t lane) const;
  bool reads_one_part(const graph::Node& n, const Index& index, int lanes) const;
  Result<Val> per_lane(int lanes, const Index& index,
                       const std::function<Result<Val>(const Index&)>& f);
  Result<Val> load(graph::ValueId v, const Index& index, int lanes);
  bool in_group(const graph::Node* n) const;

  const graph::Graph& g_;
  const Group& group_;
  kernel::Builder& b_;
  std::vector<const graph::Node*> nodes_;  // sorted, for in_group
  IndexCode index_;
  TensorMemory memory_;
  std::vector<std::unordered_map<int64_t, std::vector<Memo>>> memo_;
  std::map<graph::ValueId, std::pair<Index, Val>> bound_;
  struct Reload {
    Index index;
    Expr position;  // row-major
  };
  std::map<graph::ValueId, Reload> reloads_;
  Expr iterations_ = 0;
  Expr nesting_ = 1;  // iterations of the open loops
  std::optional<int64_t> loop_share_;
  int64_t copies_if_dynamic_ = 1;
};

}  // namespace reprise::lower
