// Computes elements of a group's values inside a kernel, on demand: from a value and an index back
// to the loads. Views become index arithmetic, shared subexpressions are computed once, consecutive
// lanes become vector loads where the index proves it.
//
// Index expressions use the graph's symbols for dimensions, and symbols from kLoopSymbols on for
// loop variables and other run-time values of this kernel.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "codegen/kernel/builder.h"
#include "codegen/lower/group.h"
#include "codegen/ops/element.h"

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
  /// A run-time I32 value in [0, below).
  Expr symbol(Val v, const Expr& below);
  /// Gives a symbol another value, as in a second loop over the same range. What was computed with
  /// the old value must have been forgotten.
  void set_symbol(const Expr& symbol, Val v);
  /// An expression over model symbols and kernel symbols, as I32. Parts over model symbols only
  /// become scalar parameters that the host computes; divisors that are 0 count as 1.
  Value value(const Expr& e);
  /// A number over model symbols that is data: dividing by 0 is an error of the run.
  Value number(const Expr& e);
  Expr simplify(const Expr& e) const;
  /// The kernel runs only where this product of dimensions is not 0.
  void assume_not_empty(const Expr& count);
  Expr flatten(const Index& index, const Shape& shape) const;
  Index unflatten(const Expr& linear, const Shape& shape);
  /// Tells that `index` is that of an element of `shape`, so that unflatten() undoes flatten()
  /// exactly.
  void add_element(const Index& index, const Shape& shape);
  /// The index in `to` of what is at `index` in `from`, in row-major order, if both are such
  /// elements.
  std::optional<Index> same_position(const Index& index, const Shape& from, const Shape& to) const;
  /// The lane of a vector evaluation in [0, lanes): put it into an index with coefficient 1.
  Expr lane() const { return Expr::symbol(kLoopSymbols); }

  // --- values ---
  /// Element of v at the index; `lanes` > 1 gives a vector over lane() in [0, lanes).
  Result<Val> eval(graph::ValueId v, const Index& index, int lanes = 1);
  /// Stores an output or a scratch value. The index must be where eval computed it.
  Status store(graph::ValueId v, const Index& index, Val value, int lanes = 1);
  /// The same at a row-major position.
  Status store_at(graph::ValueId v, const Expr& linear, Val value, int lanes = 1);
  /// v is available as `value` at exactly this index (an anchor's or reduction's result).
  void bind(graph::ValueId v, Index index, Val value);
  /// Indices at which v was computed in the innermost scope. The lanes of a vector count as one,
  /// even if they were computed one by one.
  std::vector<Index> computed_at(graph::ValueId v) const;
  /// This kernel will load v, which it stores: an output, or scratch memory of its own. Comes
  /// before the first store.
  void allow_reloads(graph::ValueId v, bool scratch);
  /// From now on v at exactly `index` is loaded from where this invocation stored it. At every
  /// other index it is still computed: what another invocation stores has no order.
  void reload_at(graph::ValueId v, Index index, Expr position);

  // --- control flow: values computed in a body are forgotten at its end ---
  using Body = std::function<Status()>;
  using LoopBody = std::function<Status(Value i)>;
  /// The body as it is, in a scope of its own.
  Status scope(const Body& body);
  /// if (condition); a condition without a value always holds.
  Status guard(Val condition, const Body& body);
  /// for (i = start; i < end; i += step), at most `iterations` times: counted, see iterations().
  Status for_loop(Val start, Val end, Val step, const Expr& iterations, const LoopBody& body);
  /// for (i = 0; i < end; ++i), with `end` iterations at most.
  Status for_loop(const Expr& end, const LoopBody& body);
  /// From now on a loop has at most so many iterations, those of the loops around it counted, as
  /// far as its number is constant and its body can be written that often. Where the number is not
  /// constant, the outermost loop writes its body `copies` times.
  void limit_loops(int64_t iterations, int64_t copies) {
    loop_share_ = iterations;
    copies_if_dynamic_ = copies;
  }
  /// Unsupported when an index needs more than 32 bits.
  const Status& status() const { return status_; }
  /// Iterations of all loops of an invocation together, at most. The one that only finds a loop at
  /// its end counts as well: drivers that limit loops count it.
  const Expr& iterations() const { return iterations_; }

  // --- what the kernel came to need, in parameter order ---
  struct BufferUse {
    graph::ValueId value;  // kNone: of add_scratch()
    int param;
    std::optional<size_t> scratch;  // index into scratch()
    bool writes;                    // scratch memory only
    bool packed;
  };
  /// `packed`: a weight in the form of PackedOperand. The same kernel may also read it as it is,
  /// from a buffer of its own.
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
  Result<Val> per_lane(int lanes, const Index& index,
                       const std::function<Result<Val>(const Index&)>& f);
  int vector_step(int buffer, int lanes) const;
  Val load_vector(int buffer, const Expr& first, int lanes);
  Result<Val> load(graph::ValueId v, const Index& index, int lanes);
  Val load_consecutive(graph::ValueId v, const Expr& linear, int lanes);
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
  ValueOf sizes_;                    // over model symbols alone
  std::map<graph::ValueId, std::pair<Index, Val>> bound_;
  struct Reload {
    bool scratch = false;
    Index index;
    std::optional<Expr> position;  // row-major; unset until it is stored
  };
  std::map<graph::ValueId, Reload> reloads_;
  std::vector<BufferUse> buffers_;
  std::vector<ScratchBuffer> scratch_;
  std::vector<kernel::Ty> storage_;  // by buffer parameter
  /// Positions and indices of the same elements: flatten() and unflatten() undo each other exactly
  /// for these, whatever the divisions became.
  struct Unflattened {
    Shape shape;
    Index index;
    Expr linear;
  };
  std::vector<Unflattened> unflattened_;
  std::vector<Expr> stored_counts_;  // elements of the group's buffers: at most 2^31 in a run
  std::set<SymbolId> positive_;      // of the model
  Status status_;
  Expr iterations_ = 0;
  Expr nesting_ = 1;  // iterations of the open loops
  std::optional<int64_t> loop_share_;
  int64_t copies_if_dynamic_ = 1;
  std::vector<Expr> scalars_;
  std::vector<Val> scalar_vals_;
};

}  // namespace reprise::lower
