// Writes kernels. Every kernel of every backend is written through this class: the compiler's fused
// loops and the kernel templates of shaders/. Type errors are programming errors: finish() returns
// the first as Code::Internal, and operations on a failed value do nothing.
//
// While it writes, the builder folds constants and integer identities, reuses equal instructions
// that are visible in open blocks, hoists loop-invariant ones out of loops, and omits the branch of
// an If or For with a known outcome. So redundant index arithmetic costs nothing. Loads from
// Access::Read buffers are reused too, as nothing writes these while the kernel runs.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/kernel/ir/kernel.h"
#include "runtime/expr/expr.h"

namespace reprise::kernel {

class Builder;

/// A Val with the builder that wrote it, so that C++ operators write instructions. An integer
/// operand becomes a constant of the value's type.
///
/// Both operands must belong to the same builder. A Value holds a pointer to its builder, so the
/// builder must not be moved while Values are in use.
struct Value : Val {
  Value() = default;
  Value(Builder& writer, Val v) : Val(v), builder(&writer) {}

  Builder* builder = nullptr;
};

Value operator+(const Value& a, const Value& b);
Value operator-(const Value& a, const Value& b);
Value operator*(const Value& a, const Value& b);
Value operator/(const Value& a, const Value& b);  // as Builder::div()
Value operator%(const Value& a, const Value& b);  // as Builder::rem()
Value operator<(const Value& a, const Value& b);
Value min(const Value& a, const Value& b);
Value operator+(const Value& a, int64_t b);
Value operator-(const Value& a, int64_t b);
Value operator*(const Value& a, int64_t b);
Value operator/(const Value& a, int64_t b);
Value operator%(const Value& a, int64_t b);
Value operator<(const Value& a, int64_t b);
Value min(const Value& a, int64_t b);
Value operator-(int64_t a, const Value& b);

/// The operands of Builder::box_copy(), and without a signal and ranks of box_store(), as the
/// builder numbers them.
inline BoxAccess box_access(int view, int shared, int signal = 0, uint32_t ranks = 0) {
  return {static_cast<uint16_t>(view), static_cast<uint16_t>(shared), static_cast<uint16_t>(signal),
          static_cast<uint16_t>(ranks)};
}

class Builder {
 public:
  explicit Builder(std::string name);
  /// An empty kernel with the interface, locals and shared arrays of another.
  static Builder like(const Kernel& k);

  // Interface.
  void set_workgroup(uint32_t x, uint32_t y = 1, uint32_t z = 1);
  /// So many workgroups reach each other's shared memory (Kernel::cluster).
  void set_cluster(uint32_t workgroups);
  int buffer(std::string name, Ty storage, Access access, uint32_t align = 16);
  int scalar(std::string name, Ty type = Ty::I32);
  int local(std::string name, Type type, uint32_t count = 1);
  int shared(std::string name, Ty type, uint32_t count, Swizzle swizzle = Swizzle::None);
  int matrix(std::string name, MatrixUse use, Ty type, uint32_t rows, uint32_t columns,
             MmaScope scope = MmaScope::Subgroup);
  int view(std::string name, TensorView tensor);
  int signal(std::string name, uint32_t count, uint32_t arrivals);
  void role(Role role);
  /// The kernel is persistent; its bounds are scalar parameters (Kernel::units).
  void set_units(Val end, Val groups);
  void require_subgroup_size(uint32_t lanes);

  // Values. Constants of equal type and bits are shared.
  Value i32(int64_t v);
  Value u32(uint64_t v);
  Value i64(int64_t v);
  Value f32(float v);
  Value boolean(bool v);
  /// A number in any compute type (rounded to it), splat over lanes.
  Value constant(Type t, double v);
  /// A constant from the bits of one lane, splat over lanes.
  Value constant_bits(Type t, uint64_t bits);
  /// `item`: whose parameter, in kernels of several items.
  Value param(int scalar, Val item = {});
  Value builtin(Builtin b, int component = 0);

  // Operations. scalar_op() infers the result type from the row. Operands must have equal types;
  // for Where, the first is a Bool of as many lanes.
  Value scalar_op(ScalarOp op, std::initializer_list<Val> args);
  Value scalar_op(ScalarOp op, std::span<const Val> args);
  /// `in_range`: the value is proven to be representable, so that no saturation is needed.
  Value convert(Val v, Ty to, bool in_range = false);
  /// Whether the highest bit of a 32-bit integer is proven to be 0.
  bool is_below_half(Val v) const;
  Value bitcast(Val v, Type to);
  /// The low `bits` of a 32-bit integer, extended to 32 bits: by sign if signed, else by zeros.
  Value wrap(Val v, int bits);
  /// A vector of these scalars, or the long vector of these parts.
  Value compose(std::span<const Val> lanes);
  Value compose(std::initializer_list<Val> lanes);
  Value splat(Val v, int lanes);
  Value extract(Val v, int lane);
  /// The four lanes from 4 * n of a long vector.
  Value part(Val v, int n);
  Value add(Val a, Val b) { return scalar_op(ScalarOp::Add, {a, b}); }
  Value sub(Val a, Val b) { return scalar_op(ScalarOp::Sub, {a, b}); }
  Value mul(Val a, Val b) { return scalar_op(ScalarOp::Mul, {a, b}); }
  Value div(Val a, Val b) { return scalar_op(ScalarOp::Div, {a, b}); }  // ints: truncating, x/0 = 0
  Value rem(Val a, Val b) {
    return scalar_op(ScalarOp::Rem, {a, b});
  }  // ints: sign of the dividend
  Value min(Val a, Val b) { return scalar_op(ScalarOp::Min, {a, b}); }
  Value max(Val a, Val b) { return scalar_op(ScalarOp::Max, {a, b}); }
  Value lt(Val a, Val b) { return scalar_op(ScalarOp::Less, {a, b}); }
  Value le(Val a, Val b) { return scalar_op(ScalarOp::LessOrEqual, {a, b}); }
  Value ge(Val a, Val b) { return scalar_op(ScalarOp::GreaterOrEqual, {a, b}); }
  Value eq(Val a, Val b) { return scalar_op(ScalarOp::Equal, {a, b}); }
  /// Whether 0 <= v < end, of signed numbers; end >= 0.
  Value in_range(Val v, Val end) { return scalar_op(ScalarOp::InRange, {v, end}); }
  Value logical_and(Val a, Val b) { return scalar_op(ScalarOp::And, {a, b}); }
  Value logical_or(Val a, Val b) { return scalar_op(ScalarOp::Or, {a, b}); }
  Value logical_not(Val a) { return scalar_op(ScalarOp::Not, {a}); }
  Value select(Val cond, Val a, Val b) { return scalar_op(ScalarOp::Where, {cond, a, b}); }
  Value fma(Val a, Val b, Val c) { return scalar_op(ScalarOp::Fma, {a, b, c}); }

  // Memory. An index counts elements. For vectors it must be a multiple of `align`, which is at
  // least the number of lanes.
  Value load(int buffer, Val index, int lanes = 1, uint32_t align = 1);
  void store(int buffer, Val index, Val value, uint32_t align = 1);
  /// Replaces the bits of `mask` in a word of a U32 buffer; other invocations may replace others.
  void store_bits(int buffer, Val index, Val value, Val mask);
  Value local_load(int local, Val index = {});
  void local_store(int local, Val value, Val index = {});
  /// `rank`: of the workgroup of the cluster whose array it is; none: this workgroup.
  Value shared_load(int shared, Val index, int lanes = 1, Val rank = {});
  void shared_store(int shared, Val index, Val value);
  /// Begins to copy `lanes` elements from buffer[from] to shared[to]; both indices are multiples of
  /// `lanes`. Elements from `count` (I32) on become 0 and are not read.
  void async_copy(int buffer, Val from, int shared, Val to, int lanes, Val count);
  /// Closes a group of copies; waits until at most so many groups are unfinished.
  void copy_commit();
  void copy_wait(uint32_t unfinished);
  void barrier(BarrierScope scope = BarrierScope::Workgroup);
  /// Begins to copy the box with these first coordinates (I32 of 1, 2 or 4 lanes) to shared[to], a
  /// multiple of `align`. The copy counts at signal[at].
  void box_copy(BoxAccess names, Val coordinates, Val to, Val at, uint32_t align);
  /// Begins to store shared[from] and what follows, `from` being a multiple of `align`, to the box
  /// with these first coordinates. Nobody may change the elements before a box_drain() that covers
  /// the store.
  void box_store(BoxAccess names, Val coordinates, Val from, uint32_t align);
  /// Waits until all but at most so many of the subgroup's stores of boxes have read shared memory.
  void box_drain(uint32_t unfinished);
  /// `rank`: of the workgroup of the cluster whose signal it is; none: this workgroup.
  void arrive(int signal, Val at, Val rank = {});
  void await(int signal, Val at, Val parity);
  void matrix_zero(int matrix);
  /// These transfer a matrix from or to a shared array. Element (r, c) is at index + r * stride + c
  /// or, if `by_columns`, at index + c * stride + r. The index and the stride are multiples of
  /// `align`.
  void matrix_load(int matrix, int shared, Val index, uint32_t stride, bool by_columns = false,
                   uint32_t align = 1);
  void matrix_store(int matrix, int shared, Val index, uint32_t stride, bool by_columns = false,
                    uint32_t align = 1);
  /// sum += left * right
  void matrix_mul_add(int sum, int left, int right);
  /// The element of a sum that this invocation holds in a slot (HeldPlaces).
  Value matrix_get(int matrix, uint32_t slot);
  void matrix_set(int matrix, uint32_t slot, Val value);
  /// left = the columns of a sum from `column` on, rounded.
  void matrix_convert(int left, int sum, uint32_t column = 0);
  /// The same as matrix_mul_add() of a team, with operands in shared arrays from `left_at` (none if
  /// a matrix holds it) and `right_at` on. It is finished after a matrix_await() that covers its
  /// group, which a matrix_commit() closes.
  void team_mul_add(const TeamOperands& operands, Val left_at, Val right_at);
  void matrix_commit();
  void matrix_await(uint32_t unfinished);
  Value subgroup(SubgroupOp op, Val v, Val lane = {});
  void select_item(Val item);
  /// Until then, launches before this one may still run; nothing accesses a buffer before.
  void await_launches();
  void set_error(Val condition, ErrorCode code);
  Val no_error();

  // Control flow.
  void if_then(Val cond, const std::function<void()>& then);
  void if_else(Val cond, const std::function<void()>& then, const std::function<void()>& otherwise);
  /// Writes what each of the kernel's roles does. Nothing may follow.
  void run_roles(std::span<const std::function<void()>> blocks);
  /// for (i = start; i < end; i += step), I32.
  void for_loop(Val start, Val end, Val step, const std::function<void(Value i)>& body);

  /// The number of instructions so far.
  size_t instruction_count() const { return k_.insts.size(); }
  Type type(Val v) const {
    return v.id >= 0 && static_cast<size_t>(v.id) < k_.insts.size() ? inst(v).type : Type{};
  }
  Ty shared_type(int shared) const { return k_.shared[static_cast<size_t>(shared)].type; }
  const MatrixVar& matrix_var(int matrix) const { return k_.matrices[static_cast<size_t>(matrix)]; }
  /// The value of v if it is an integer constant.
  std::optional<int64_t> as_const(Val v) const;
  /// The value of v if it is a floating-point constant.
  std::optional<double> as_const_float(Val v) const;
  /// Returns the kernel, verified in Debug builds. The builder must not be used afterwards.
  Result<Kernel> finish();

 private:
  struct Scope {  // an open block
    int32_t block = 0;
    bool loop = false;
    std::vector<int32_t> shared;  // instructions that are shared until the block ends
  };

  Value bound(Val v) { return {*this, v}; }
  bool fail(const char* operation, const std::string& problem);
  bool usable(Val v, const char* operation) {
    return (error_.empty() && is_visible(v)) || report_unusable(v, operation);
  }
  bool usable(std::span<const Val> values, const char* operation) {
    for (const Val v : values)
      if (!usable(v, operation)) return false;
    return true;
  }
  /// Whether it is a value that was made in a block that is open.
  bool is_visible(Val v) const {
    return v.id >= 0 && static_cast<size_t>(v.id) < k_.insts.size() &&
           inst(v).type.ty != Ty::Void && depth_of(v) >= 0;
  }
  bool report_unusable(Val v, const char* operation);
  bool integer_index(Val v, const char* operation);
  bool check_access(const BufferParam& b, Val index, int lanes, uint32_t align, const char* op);
  bool check_matrix(int matrix, const char* op);
  bool check_signal(int signal, Val at, const char* op);
  bool check_box(BoxAccess names, Val coordinates, Val index, const char* op);
  /// `lines`: without the matrix and the array.
  void matrix_access(Op op, int matrix, int shared, Val index, MatrixAccess lines, uint32_t align);
  bool check_scalar_op(const ScalarRow& r, std::span<const Val> args);
  Val place(const Inst& inst, size_t scope);
  Val emit(const Inst& inst);       // appends an effect to the innermost block
  Val emit_pure(const Inst& inst);  // folds, reuses and hoists
  Val emit_shared(const Inst& inst, bool hoist);
  /// The index in open_ of the block in which v was made; -1 if that is closed.
  int32_t depth_of(Val v) const {
    return depth_[static_cast<size_t>(block_of_[static_cast<size_t>(v.id)])];
  }
  std::optional<Val> simplify(const Inst& inst);
  std::optional<Val> simplify_scalar(const Inst& inst);
  Val by_sign(Val v, double r);
  Val times_zero(Val v, double zero);
  std::optional<Val> compare_with_least(ScalarOp op, Type t, Val a, Val b);
  std::optional<Val> simplify_int(ScalarOp op, Type t, Val a, Val b);
  std::optional<Val> simplify_logic(ScalarOp op, Val a, Val b);
  std::optional<Val> narrow_comparison(ScalarOp op, Val a, Val b);
  std::optional<Val> simplify_cast(const Inst& inst);
  std::optional<Val> simplify_compose(const Inst& inst);
  std::optional<Val> fold_constants(const Inst& inst);
  Interval range_of(Val v, int steps) const;
  Interval range_of_row(const Inst& inst, int steps) const;
  std::optional<Val> drop_wrap(ScalarOp op, Type t, Val a, Val b) const;
  void write_block(int32_t block, bool loop, const std::function<void()>& write);
  int32_t new_block();
  int32_t& first_shared(const Inst& inst);
  void share(int32_t id, size_t scope);
  void end_sharing(int32_t id);
  void rehash(size_t size);
  const Inst& inst(Val v) const { return k_.insts[static_cast<size_t>(v.id)]; }
  /// The bits of a lane of a constant.
  std::optional<uint64_t> const_bits(Val v) const {
    if (v.id < 0 || inst(v).op != Op::Const) return std::nullopt;
    return inst(v).imm;
  }
  bool is_rounded_bf16(Val v) const {
    return inst(v).op == Op::Scalar && inst(v).imm == static_cast<uint64_t>(ScalarOp::RoundBF16);
  }

  Kernel k_;
  std::vector<Scope> open_;     // innermost last
  std::vector<int32_t> depth_;  // per block: its index in open_; -1: it is closed
  // Instructions that are visible in open blocks, by the hash of what they compute.
  std::vector<int32_t> first_shared_ = std::vector<int32_t>(64, -1);  // by hash: the last one
  std::vector<int32_t> next_shared_;  // by instruction: the next with that hash, or -1
  size_t shared_count_ = 0;
  std::vector<int32_t> block_of_;  // per instruction
  std::vector<int32_t> head_;      // constants, parameters and builtins, which start the body
  std::string error_;
};

}  // namespace reprise::kernel
