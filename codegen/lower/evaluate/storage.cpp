// Conversions of the evaluator's values between registers and memory, where they may be narrower.
#include <cmath>
#include <cstring>

#include "codegen/lower/evaluate/evaluator.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::ScalarOp;
using kernel::Ty;
using kernel::Type;

Val Evaluator::from_storage(DType t, Val raw) {
  const Type type = b_.type(raw);
  if (t == DType::Bool) return b_.scalar_op(ScalarOp::NotEqual, {raw, b_.constant(type, 0)});
  return b_.convert(raw, compute(t).ty);
}

/// Elements of a weight that is in memory as a GEMM reads it (plan::Weight::Packing).
Result<Val> Evaluator::load_packed(ValueId v, const PackedForm& form, const Index& index,
                                   int lanes) {
  if (lanes > 1) {
    return per_lane(lanes, index, [&](const Index& at) { return load_packed(v, form, at, 1); });
  }
  const Expr at = flatten(index, g_.value(v).shape);
  const int64_t matrix = form.k * form.n, row = form.transposed ? form.k : form.n;
  const bool single = form.batch == 1;
  const Expr batch = single ? Expr(0) : simplify(Expr::floordiv(at, matrix));
  const Expr inside = single ? at : simplify(Expr::mod(at, matrix));
  const Expr line = simplify(Expr::floordiv(inside, row));
  const Expr place = simplify(Expr::mod(inside, row));
  const Expr& k = form.transposed ? place : line;
  const Expr& n = form.transposed ? line : place;
  const Expr tiles = Expr::ceildiv(form.n, form.tile_n);
  const Expr tile = batch * tiles + simplify(Expr::floordiv(n, form.tile_n));
  const Expr column = simplify(Expr::mod(n, form.tile_n));
  if (is_packed_in_nibbles(g_, v)) return load_nibble(v, form, tile, k, column);
  const Expr position = (tile * form.k + k) * form.tile_n + column;
  return from_storage(g_.value(v).dtype, b_.load(buffer(v, true), value(simplify(position))));
}

Val Evaluator::load_nibble(ValueId v, const PackedForm& form, const Expr& tile, const Expr& k,
                           const Expr& column) {
  const Expr octet = tile * Expr::ceildiv(form.k, 8) + Expr::floordiv(k, 8);
  const Expr word =
      octet * form.tile_n + Expr::floordiv(column, 4) * 4 + Expr::floordiv(Expr::mod(k, 8), 2);
  const Value raw{b_, b_.bitcast(b_.load(buffer(v, true), value(simplify(word))), kernel::kI32)};
  const Expr place = Expr::mod(k, 2) * 4 + Expr::mod(column, 4);
  const DType dtype = g_.value(v).dtype;
  if (dtype == DType::U4) {
    const Val shifted = b_.scalar_op(ScalarOp::ShiftRight, {raw, value(simplify(place * 4))});
    return from_storage(dtype, b_.scalar_op(ScalarOp::BitAnd, {shifted, b_.i32(15)}));
  }
  const Val left = value(simplify(Expr(28) - place * 4));
  const Val top = b_.scalar_op(ScalarOp::ShiftLeft, {raw, left});
  return from_storage(dtype, b_.scalar_op(ScalarOp::ShiftRight, {top, b_.i32(28)}));
}

/// Scratch values keep the dtype of registers, so that storing them does not round.
DType Evaluator::memory_type(ValueId v) const {
  const auto reload = reloads_.find(v);
  const bool scratch = reload != reloads_.end() && reload->second.scratch;
  return scratch ? g_.value(v).dtype : graph::storage_of(g_.value(v));
}

Val Evaluator::to_storage(ValueId id, Val v) {
  const DType dtype = g_.value(id).dtype, memory = memory_type(id);
  if (dtype == DType::Bool) return b_.convert(v, Ty::U32);
  if (memory == dtype) return v;
  // A number beyond the range of its storage type becomes the largest finite one, not an infinity.
  const double largest = memory == DType::F16 ? 65504.0 : 0x1.FEp127;
  const auto number = [&](double x) { return b_.constant(b_.type(v), x); };
  const Val bounded = b_.scalar_op(
      ScalarOp::MinNum, {b_.scalar_op(ScalarOp::MaxNum, {v, number(-largest)}), number(largest)});
  const Val finite = b_.lt(b_.scalar_op(ScalarOp::Abs, {v}), number(HUGE_VAL));
  const Val kept = b_.select(finite, bounded, v);
  return memory == DType::F16 ? b_.convert(kept, Ty::F16) : kept;
}

Val Evaluator::scalar_constant(const HostTensor& t, int64_t at) {
  const std::byte* p = t.bytes().data() + static_cast<size_t>(at) * size_of(t.dtype());
  auto read = [&]<typename T>(T) {
    T x;
    std::memcpy(&x, p, sizeof(T));
    return x;
  };
  switch (carrier_of(t.dtype())) {
    case DType::F32:
      return b_.f32(read(float{}));
    case DType::BF16:
      return b_.f32(bf16_to_float(read(uint16_t{})));
    case DType::F16:
      return b_.constant(kernel::kF16, f16_to_float(read(uint16_t{})));
    case DType::F64:
      return b_.constant(Type{Ty::F64, 1}, read(double{}));
    case DType::Bool:
      return b_.boolean(read(uint8_t{}) != 0);
    case DType::I8:
      return b_.i32(read(int8_t{}));
    case DType::I16:
      return b_.i32(read(int16_t{}));
    case DType::I32:
      return b_.i32(read(int32_t{}));
    case DType::U8:
      return b_.u32(read(uint8_t{}));
    case DType::U16:
      return b_.u32(read(uint16_t{}));
    case DType::U32:
      return b_.u32(read(uint32_t{}));
    case DType::I64:
      return b_.i64(read(int64_t{}));
    default:  // no device computes with U64
      return {};
  }
}

}  // namespace reprise::lower
