// Writes the code that computes an element of a group's value at an index, on demand: from the
// value back through its producers to the loads. Views become index arithmetic, common
// subexpressions are computed once, and consecutive lanes become vector loads where the index
// proves that they are.
//
// Index expressions use the graph's symbols for dimensions. Symbols from kLoopSymbols on ("kernel
// symbols") stand for loop variables and other run-time values of this kernel.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "codegen/kernel/build/builder.h"
#include "codegen/lower/group/group.h"
#include "codegen/ops/row/element.h"

namespace reprise::lower {

using kernel::Val;
using kernel::Value;
using ops::Index;

inline constexpr SymbolId kLoopSymbols = 1 << 24;

class Evaluator {
 public:
  Evaluator(const graph::Graph& g, const Group& group, kernel::Builder& b);
  ~Evaluator();

  // --- index expressions ---
  /// A symbol for v, a run-time I32 value in [0, below).
  Expr symbol(Val v, const Expr& below);
  /// Gives a symbol another value, as in a second loop over the same range. The scopes in which the
  /// old value was used must have ended.
  void set_symbol(const Expr& symbol, Val v);
  /// An expression over model symbols and kernel symbols, as I32. Parts over model symbols alone
  /// become scalar parameters that the host computes; divisors that are 0 count as 1.
  Value value(const Expr& e);
  /// A number over model symbols that is data: in a run, dividing by 0 is an error.
  Value number(const Expr& e);
  /// An integer that is a parameter, so that drivers do not know it.
  Value hidden(int32_t v) { return param(v); }
  /// An expression over model symbols as a parameter that it shares with no other expression, so
  /// that kernels that differ in nothing else are the same kernel.
  Value parameter(const Expr& e);
  Expr simplify(const Expr& e) const;
  /// Asserts that the kernel runs only if this product of dimensions is not 0.
  void assume_not_empty(const Expr& count);
  Expr flatten(const Index& index, const Shape& shape) const;
  Index unflatten(const Expr& linear, const Shape& shape);
  /// Registers `index` as the index of an element of `shape`, so that unflatten() exactly inverts
  /// flatten() for it. unflatten() registers its results itself.
  void add_element(const Index& index, const Shape& shape);
  /// The index in `to` with the same row-major position as `index` in `from`, if both are
  /// registered.
  std::optional<Index> same_position(const Index& index, const Shape& from, const Shape& to) const;
  /// The lane of a vector evaluation, in [0, lanes). An index uses it with coefficient 1.
  Expr lane() const { return Expr::symbol(kLoopSymbols); }

  // --- values ---
  /// The element of v at the index. If `lanes` > 1, a vector over lane() in [0, lanes).
  Result<Val> eval(graph::ValueId v, const Index& index, int lanes = 1);
  /// Stores an output or a scratch value. `index` must be the index at which eval() computed it.
  Status store(graph::ValueId v, const Index& index, Val value, int lanes = 1);
  /// The same at a row-major position.
  Status store_at(graph::ValueId v, const Expr& linear, Val value, int lanes = 1);
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
  void allow_reloads(graph::ValueId v, bool scratch);
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
  const Status& status() const { return status_; }
  /// An upper bound on the iterations of all loops of an invocation together. The final check that
  /// ends a loop counts as an iteration, as it does for drivers that limit loops.
  const Expr& iterations() const { return iterations_; }

  // --- the kernel's parameters, in order ---
  struct BufferUse {
    graph::ValueId value;  // kNone: of add_scratch()
    int param;
    std::optional<size_t> scratch;  // index into scratch()
    bool writes;                    // scratch memory only
    bool packed;
  };
  /// The buffer of v. `packed`: of a weight in the form of PackedOperand. The same kernel may also
  /// read the unpacked weight from another buffer.
  int buffer(graph::ValueId v, bool packed = false);
  const std::vector<BufferUse>& buffers() const { return buffers_; }
  /// A parameter for memory that the group's launches share.
  int add_scratch(ScratchBuffer scratch, kernel::Access access);
  const std::vector<ScratchBuffer>& scratch() const { return scratch_; }
  const std::vector<Expr>& scalars() const { return scalars_; }

  kernel::Builder& builder() { return b_; }
  const graph::Graph& graph() const { return g_; }
  kernel::Type compute(DType t) const;

 private:
  int add_parameter(const std::string& prefix, kernel::Ty type, kernel::Access access,
                    BufferUse use);
  class Context;
  struct LoopSymbol {
    Value value;
    Expr below;
  };
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
  int vector_step(int buffer, int lanes) const;
  Val load_vector(int buffer, const Expr& first, int lanes);
  Result<Val> load(graph::ValueId v, const Index& index, int lanes);
  Val load_consecutive(graph::ValueId v, const Expr& linear, int lanes);
  Result<Val> load_packed(graph::ValueId v, const PackedForm& form, const Index& index, int lanes);
  Val load_nibble(graph::ValueId v, const PackedForm& form, const Expr& tile, const Expr& k,
                  const Expr& column);
  Val from_storage(DType t, Val raw);
  Val to_storage(graph::ValueId id, Val v);
  DType memory_type(graph::ValueId v) const;
  Value param(const Expr& e);
  Value size(const Expr& e);
  Value dividend(const Expr& e);
  std::optional<Expr> divisors_to_add(const Expr& dividend, const Expr& divisor) const;
  Value division(const Atom& a);
  Status beyond_32_bits(const Expr& e) const;
  Value atom_value(const Atom& a);
  Val scalar_constant(const HostTensor& t, int64_t at);
  bool in_group(const graph::Node* n) const;
  SymbolRange range(SymbolId id) const;

  const graph::Graph& g_;
  const Group& group_;
  kernel::Builder& b_;
  std::vector<const graph::Node*> nodes_;  // sorted, for in_group
  std::vector<LoopSymbol> loop_symbols_;
  std::vector<std::unordered_map<int64_t, std::vector<Memo>>> memo_;
  using ValueOf = std::unordered_map<Expr, Value, Expr::Hash>;
  std::vector<ValueOf> index_memo_;  // by scope
  ValueOf sizes_;                    // of expressions over model symbols alone
  std::map<graph::ValueId, std::pair<Index, Val>> bound_;
  struct Reload {
    bool scratch = false;
    Index index;
    std::optional<Expr> position;  // row-major; empty until v is stored
  };
  std::map<graph::ValueId, Reload> reloads_;
  std::vector<BufferUse> buffers_;
  std::vector<ScratchBuffer> scratch_;
  std::vector<kernel::Ty> storage_;  // by buffer parameter
  /// Positions and indices of the same elements. For these, flatten() and unflatten() are exact
  /// inverses, whatever simplification made of the divisions.
  struct Unflattened {
    Shape shape;
    Index index;
    Expr linear;
  };
  std::vector<Unflattened> unflattened_;
  std::vector<Expr> stored_counts_;  // elements of the group's outputs: at most 2^31 in a run
  std::set<SymbolId> positive_;      // model symbols that are not 0 where the kernel runs
  mutable Simplifier simplifier_;    // remembers results
  Status status_;
  Expr iterations_ = 0;
  Expr nesting_ = 1;  // iterations of the open loops
  std::optional<int64_t> loop_share_;
  int64_t copies_if_dynamic_ = 1;
  std::vector<Expr> scalars_;
};

}  // namespace reprise::lower
