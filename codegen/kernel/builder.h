// Writes kernels. Every kernel of every backend is made through this class: the compiler's fused
// loops and the hand-shaped families in shaders/ alike. Type errors are programming errors: they
// are collected and finish() returns the first as Code::Internal.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/kernel/kernel.h"

namespace reprise::kernel {

class Builder {
 public:
  explicit Builder(std::string name);

  // Interface.
  void set_workgroup(uint32_t x, uint32_t y = 1, uint32_t z = 1);
  int buffer(std::string name, Ty storage, Access access, uint32_t align = 16);
  int scalar(std::string name, Ty type = Ty::I32);
  int local(std::string name, Type type, uint32_t count = 1);
  int shared(std::string name, Ty type, uint32_t count);
  void set_contraction(Contraction c);
  void require_subgroup_size(uint32_t lanes);

  // Values. Constants of equal type and bits are shared.
  Val i32(int64_t v);
  Val u32(uint64_t v);
  Val i64(int64_t v);
  Val f32(float v);
  Val boolean(bool v);
  /// A number in any compute type (rounded to it), splat over lanes.
  Val constant(Type t, double v);
  Val param(int scalar);
  Val builtin(Builtin b, int component = 0);

  // Operations. `scalar_op` infers the result type from the row; operands must have equal types
  // (Select: condition first, lanes equal).
  Val scalar_op(ScalarOp op, std::initializer_list<Val> args);
  Val scalar_op(ScalarOp op, std::span<const Val> args);
  Val convert(Val v, Ty to);
  Val bitcast(Val v, Type to);
  Val compose(std::span<const Val> lanes);
  Val splat(Val v, int lanes);
  Val extract(Val v, int lane);
  Val add(Val a, Val b) { return scalar_op(ScalarOp::Add, {a, b}); }
  Val sub(Val a, Val b) { return scalar_op(ScalarOp::Sub, {a, b}); }
  Val mul(Val a, Val b) { return scalar_op(ScalarOp::Mul, {a, b}); }
  Val div(Val a, Val b) { return scalar_op(ScalarOp::Div, {a, b}); }  // ints: truncating, b != 0
  Val rem(Val a, Val b) { return scalar_op(ScalarOp::Rem, {a, b}); }  // ints: sign of the dividend
  Val min(Val a, Val b) { return scalar_op(ScalarOp::Min, {a, b}); }
  Val max(Val a, Val b) { return scalar_op(ScalarOp::Max, {a, b}); }
  Val lt(Val a, Val b) { return scalar_op(ScalarOp::Less, {a, b}); }
  Val le(Val a, Val b) { return scalar_op(ScalarOp::LessOrEqual, {a, b}); }
  Val ge(Val a, Val b) { return scalar_op(ScalarOp::GreaterOrEqual, {a, b}); }
  Val eq(Val a, Val b) { return scalar_op(ScalarOp::Equal, {a, b}); }
  Val logical_and(Val a, Val b) { return scalar_op(ScalarOp::And, {a, b}); }
  Val logical_or(Val a, Val b) { return scalar_op(ScalarOp::Or, {a, b}); }
  Val logical_not(Val a) { return scalar_op(ScalarOp::Not, {a}); }
  Val select(Val cond, Val a, Val b) { return scalar_op(ScalarOp::Where, {cond, a, b}); }
  Val fma(Val a, Val b, Val c) { return scalar_op(ScalarOp::Fma, {a, b, c}); }

  // Memory. Index in elements; vectors need an index that is a multiple of `align` (>= lanes).
  Val load(int buffer, Val index, int lanes = 1, uint32_t align = 1);
  void store(int buffer, Val index, Val value, uint32_t align = 1);
  Val local_load(int local, Val index = {});
  void local_store(int local, Val value, Val index = {});
  Val shared_load(int shared, Val index, int lanes = 1);
  void shared_store(int shared, Val index, Val value);
  void barrier();
  Val subgroup(SubgroupOp op, Val v, Val lane = {});
  void set_error(Val condition, ErrorCode code);

  // Control flow.
  void if_then(Val cond, const std::function<void()>& then);
  void if_else(Val cond, const std::function<void()>& then, const std::function<void()>& otherwise);
  /// for (i = start; i < end; i += step), I32.
  void for_loop(Val start, Val end, Val step, const std::function<void(Val i)>& body);

  Type type(Val v) const;
  /// The constant's integer value, when v is an integer constant.
  std::optional<int64_t> as_const(Val v) const;
  /// Verified kernel. The builder is spent.
  Result<Kernel> finish();

 private:
  Val emit(Inst inst);
  Kernel k_;
  std::vector<int32_t> open_;  // stack of open blocks
  std::string error_;
};

}  // namespace reprise::kernel
