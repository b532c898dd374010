// Rewrites a kernel for a device without 64-bit integers, half-precision arithmetic or small
// storage types. Internal to the kernel library; see kernel.h: legalize.
#pragma once

#include "codegen/kernel/expand_math.h"
#include "codegen/kernel/rebuild.h"

namespace reprise::kernel {

/// 64-bit integers become 32-bit ones (I64 -> I32, U64 -> U32) whose every operation checks that
/// the 64-bit result fits, and sets ErrorCode::IntegerOverflow when it does not.
///
/// A kernel with constants beyond 32 bits (the identities of ReduceMax and ReduceMin) gets them
/// saturated. The two extreme values then stand for "beyond": no other value may equal them.
class CheckedIntegers {
 public:
  CheckedIntegers(Builder& b, bool extremes) : b_(b), extremes_(extremes) {}

  /// Rows over 64-bit operands; invalid when the row has no 32-bit form.
  Val scalar(ScalarOp op, bool is_signed, std::span<const Val> args);
  /// Op::Convert to or from a 64-bit integer; types are the original ones.
  Val convert(Val v, Ty from, Ty to, bool in_range);
  /// Two 32-bit words to a value and back.
  Val from_words(Val words, bool is_signed);
  Val to_words(Val v, bool is_signed);
  /// Reports a value that is an extreme, in kernels that have them.
  void require_inner(Val v);

 private:
  void require(Val fits);  // Bool of any lanes
  void overflow_if(Val condition);
  void check(ScalarOp op, Val a, Val b, Val r);
  void check_unsigned(ScalarOp op, Val a, Val b, Val r);
  Val product_overflows(Val a, Val b, bool is_signed);
  Val shift_overflows(Val a, Val amount, Val r);
  Val convert_float(Val v, Ty to, bool in_range);
  Val c(Val like, int64_t v);
  Val op(ScalarOp o, Val a, Val b) { return b_.scalar_op(o, {a, b}); }
  Val bits(Val v) { return b_.bitcast(v, {Ty::U32, b_.type(v).lanes}); }
  Val negative(Val v) { return b_.lt(b_.bitcast(v, {Ty::I32, b_.type(v).lanes}), zero(v)); }
  Val zero(Val v) { return b_.constant_bits({Ty::I32, b_.type(v).lanes}, 0); }

  Builder& b_;
  bool extremes_;
};

/// Elements of 8 or 16 bits inside 32-bit words.
class PackedElements {
 public:
  PackedElements(Builder& b, Ty storage) : b_(b), storage_(storage) {}

  /// Elements of the original storage type from a buffer of U32 words. F16 comes as F32.
  Val load(int buffer, Val index, int lanes, uint32_t align);
  /// Elements that do not cover whole words are stored as bits, which costs two atomic operations.
  void store(int buffer, Val index, Val value, uint32_t align);

  /// One element between its bits (U32, upper bits arbitrary on load) and its compute type.
  Val decode(Val bits);
  Val encode(Val value);

 private:
  void store_part(int buffer, Val at, Val shift, Val value);
  int bits_per_element() const { return byte_size(storage_) * 8; }
  int per_word() const { return 4 / byte_size(storage_); }

  Builder& b_;
  Ty storage_;
};

}  // namespace reprise::kernel
