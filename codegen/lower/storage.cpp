// Conversions of the evaluator's values between registers and memory, where they may be narrower.
#include <cmath>
#include <cstring>

#include "codegen/lower/evaluator.h"

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
