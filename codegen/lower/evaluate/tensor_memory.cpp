#include "codegen/lower/evaluate/tensor_memory.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

namespace reprise::lower {

using graph::ValueId;
using kernel::Access;
using kernel::ScalarOp;
using kernel::Ty;
using kernel::Type;

Type compute_type(DType t) {
  switch (carrier_of(t)) {
    case DType::Bool:
      return kernel::kBool;
    case DType::F32:
    case DType::BF16:
      return kernel::kF32;
    case DType::F16:
      return kernel::kF16;
    case DType::I8:
    case DType::I16:
    case DType::I32:
      return kernel::kI32;
    case DType::U8:
    case DType::U16:
    case DType::U32:
      return kernel::kU32;
    case DType::I64:
      return kernel::kI64;
    case DType::F64:
      return Type{Ty::F64, 1};
    default:  // U64, String and Invalid
      return Type{Ty::Void, 1};
  }
}

Val TensorMemory::from_storage(DType t, Val raw) {
  const Type type = b_.type(raw);
  if (t == DType::Bool) return b_.scalar_op(ScalarOp::NotEqual, {raw, b_.constant(type, 0)});
  return b_.convert(raw, compute_type(t).ty);
}

/// Elements of a weight that is in memory as a GEMM reads it (plan::Weight::Packing).
Val TensorMemory::load_packed(ValueId v, const plan::Packing& packing, const Expr& position) {
  Expr rest = position;
  int64_t inside = 1;
  for (const int64_t dim : packing.dims) inside *= dim;
  Index at;
  for (size_t axis = 0; axis + 1 < packing.dims.size(); ++axis) {
    inside /= packing.dims[axis];
    const bool single = packing.dims[axis] == 1;
    at.push_back(single ? Expr(0) : index_.simplify(Expr::floordiv(rest, inside)));
    if (!single) rest = index_.simplify(Expr::mod(rest, inside));
  }
  at.push_back(rest);
  return packed_element(v, packing, at);
}

Val TensorMemory::packed_element(ValueId v, const plan::Packing& packing, Index at) {
  std::vector<size_t> order(packing.parts.size());  // the largest steps first
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return packing.parts[i].step; });
  Expr position = 0, place = 0;  // of the element or its word, and of the element in its word
  const int64_t per_word = packing.per_word();
  for (const size_t i : order) {
    const plan::Packing::Part& part = packing.parts[i];
    if (part.size == 1) continue;
    Expr& rest = at[static_cast<size_t>(part.axis)];
    const Expr digit = part.step == 1 ? rest : index_.simplify(Expr::floordiv(rest, part.step));
    if (part.step != 1) rest = index_.simplify(Expr::mod(rest, part.step));
    const int64_t stride = packing.stride(i);
    (stride < per_word ? place : position) +=
        digit * Expr(stride < per_word ? stride : stride / per_word);
  }
  const auto value = [&](const Expr& e) { return index_.value(index_.simplify(e)); };
  const DType dtype = g_.value(v).dtype;
  const Val stored = b_.load(buffer(v, true), value(position));
  if (packing.bits == 0) return from_storage(dtype, stored);
  const auto bits = static_cast<int32_t>(packing.bits);
  const Value raw{b_, b_.bitcast(stored, kernel::kI32)};
  const Expr first = place * Expr(bits);
  if (dtype == DType::U4 || dtype == DType::U2) {
    const Val shifted = b_.scalar_op(ScalarOp::ShiftRight, {raw, value(first)});
    return from_storage(dtype, b_.scalar_op(ScalarOp::BitAnd, {shifted, b_.i32((1 << bits) - 1)}));
  }
  const Val top = b_.scalar_op(ScalarOp::ShiftLeft, {raw, value(Expr(32 - bits) - first)});
  return from_storage(dtype, b_.scalar_op(ScalarOp::ShiftRight, {top, b_.i32(32 - bits)}));
}

/// Scratch values keep the dtype of registers, so that storing them does not round.
DType TensorMemory::memory_type(ValueId v) const {
  const auto reload = reloads_.find(v);
  const bool scratch = reload != reloads_.end() && reload->second;
  return scratch ? g_.value(v).dtype : graph::storage_of(g_.value(v));
}

Val TensorMemory::to_storage(ValueId id, Val v) {
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

int TensorMemory::buffer(ValueId v, bool packed) {
  for (const BufferUse& u : buffers_) {
    if (u.value == v && u.packed == packed) return u.param;
  }
  const bool output =
      std::find(group_.outputs.begin(), group_.outputs.end(), v) != group_.outputs.end();
  const auto reload = reloads_.find(v);
  const bool scratch = reload != reloads_.end() && reload->second;
  const Access access = reload != reloads_.end() ? Access::ReadWrite
                        : output                 ? Access::Write
                                                 : Access::Read;
  if (scratch) {
    const int id = add_scratch({v, memory_type(v), g_.value(v).shape}, access);
    buffers_.back().value = v;
    return id;
  }
  // The packed form of 4-bit integers consists of words.
  const Ty type =
      packed && is_packed_in_nibbles(g_, v) ? Ty::U32 : kernel::storage_type(memory_type(v));
  return add_parameter(output ? "out" : "in", type, access, {v, -1, std::nullopt, false, packed});
}

int TensorMemory::add_scratch(ScratchBuffer scratch, Access access) {
  const Ty type = kernel::storage_type(scratch.dtype);
  scratch_.push_back(std::move(scratch));
  return add_parameter("scratch", type, access,
                       {graph::kNone, -1, scratch_.size() - 1, access != Access::Read, false});
}

int TensorMemory::add_parameter(const std::string& prefix, Ty type, Access access, BufferUse use) {
  use.param = b_.buffer(prefix + std::to_string(buffers_.size()), type, access, 16);
  storage_.push_back(type);
  buffers_.push_back(use);
  return use.param;
}

/// Lanes of one memory access, which is at most 16 bytes: the alignment of buffers.
int TensorMemory::vector_step(int buffer, int lanes) const {
  return std::min(lanes, 16 / kernel::byte_size(storage_[static_cast<size_t>(buffer)]));
}

Val TensorMemory::load_vector(int buffer, const Expr& first, int lanes) {
  const int step = vector_step(buffer, lanes);
  if (step == lanes) {
    return b_.load(buffer, index_.value(first), lanes, static_cast<uint32_t>(lanes));
  }
  std::vector<Val> parts;
  for (int at = 0; at < lanes; at += step) {
    const Val part =
        b_.load(buffer, index_.value(first + Expr(at)), step, static_cast<uint32_t>(step));
    for (int l = 0; l < step; ++l) parts.push_back(b_.extract(part, l));
  }
  return b_.compose(parts);
}

/// Loads lanes that are consecutive in memory.
Val TensorMemory::load_consecutive(ValueId v, const Expr& linear, int lanes) {
  const DType dtype = g_.value(v).dtype;
  const int buf = buffer(v);
  if (lanes == 1) return from_storage(dtype, b_.load(buf, index_.value(linear)));
  const Expr first = with_lane(linear, 0);
  if (first.known_divisor(g_.symbols) % lanes == 0)
    return from_storage(dtype, load_vector(buf, first, lanes));
  std::vector<Val> parts;
  parts.reserve(static_cast<size_t>(lanes));
  const Val base = index_.value(first);
  for (int l = 0; l < lanes; ++l) parts.push_back(b_.load(buf, b_.add(base, b_.i32(l))));
  return from_storage(dtype, b_.compose(parts));
}

Status TensorMemory::store_at(ValueId v, const Expr& linear, Val val, int lanes) {
  const graph::Value& value = g_.value(v);
  const int buf = buffer(v);
  const Val stored = to_storage(v, val);
  if (lanes == 1) {
    b_.store(buf, index_.value(linear), stored);
    return {};
  }
  const Expr first = with_lane(linear, 0);
  if (uses_lane(linear - Expr::symbol(kLoopSymbols)))
    return internal_error("vector store of '" + value.name + "' is not consecutive");
  if (first.known_divisor(g_.symbols) % lanes == 0) {
    const int step = vector_step(buf, lanes);
    for (int at = 0; at < lanes; at += step) {
      std::vector<Val> parts;
      for (int l = at; l < at + step; ++l) parts.push_back(b_.extract(stored, l));
      const Val part = step == lanes ? stored : b_.compose(parts);
      b_.store(buf, index_.value(first + Expr(at)), part, static_cast<uint32_t>(step));
    }
    return {};
  }
  const Val base = index_.value(first);
  for (int l = 0; l < lanes; ++l) b_.store(buf, b_.add(base, b_.i32(l)), b_.extract(stored, l));
  return {};
}

}  // namespace reprise::lower
