// Rewrites a kernel for a device without 64-bit integers, half-precision arithmetic or small
// storage types. Internal to the kernel library; see kernel.h: legalize.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "codegen/kernel/expand_math.h"
#include "codegen/kernel/rebuild.h"

namespace reprise::kernel {

inline bool is_wide(Ty t) {
  return t == Ty::I64 || t == Ty::U64;
}

/// Where a value is not what it stands for: a 64-bit integer that does not fit 32 bits, or what was
/// computed from one.
struct Lost {
  Val where;    // Bool of as many lanes; no value: nowhere
  Val unknown;  // in which of these lanes `nearest` is not right
  /// The value with the nearest 32-bit integer in these lanes, which compares as the 64-bit one
  /// does with all other integers. Null where it is not known.
  std::function<Val()> nearest;
};

/// 64-bit integers become 32-bit ones (I64 -> I32, U64 -> U32) whose every operation finds out
/// whether the 64-bit result fits. That is reported where the result is used, not where it is made.
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
  /// What the functions above have lost since the last call, of operands that were right.
  Lost take() { return std::exchange(lost_, {}); }

 private:
  /// An extreme, in kernels that have them, stands for a value that is not known.
  void require_inner(Val v);
  void lost_if(Val condition);  // Bool of as many lanes
  /// Lost towards the side of `negative`, as a Bool.
  void lost_if(Val condition, Val r, Val negative);
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
  Lost lost_;
};

/// Follows what is lost through a kernel that has its 64-bit integers in 32 bits, from where it is
/// lost to where it is used: stored, an index, or a condition.
class LostValues {
 public:
  LostValues(Builder& b, const Kernel& from) : b_(b), from_(from), lost_(from.insts.size()) {}

  /// Locals of 64-bit integers get one beside them that says whether they are lost.
  void add_locals();
  /// Reports operands of an instruction that has an effect, reads memory or branches.
  void report_operands(const Inst& i);
  /// Sets the error where a value is lost.
  void report(const Lost& lost);
  /// Rows that order 64-bit integers, on operands some of which are lost; invalid for other rows
  /// and where nothing is.
  Val ordered(const Inst& i, std::span<const Val> args);
  /// The instruction is written; `own` is what its result lost of operands that were right.
  void made(const Inst& i, std::span<const Val> args, Lost own);
  /// Of a vector, given what its lanes lost.
  Lost of_lanes(std::span<const Lost> parts, std::span<const Val> values);
  /// Says beside a LocalStore whether its value is lost.
  void store_local(const Inst& i, std::span<const Val> args);

 private:
  size_t id_of(const Inst& i) const { return static_cast<size_t>(&i - from_.insts.data()); }
  Lost& of(Val source) { return lost_[static_cast<size_t>(source.id)]; }
  bool any_lost(const Inst& i);
  Val or_false(Val where, int lanes);
  Val either(Val a, Val b);
  Val both(Val a, Val b);
  Val choice(Val condition, Val a, Val b, int lanes);
  Lost of_choice(const Inst& i, std::span<const Val> args);
  Val of_logic(const Inst& i, std::span<const Val> args);
  Lost of_lane(const Inst& i);

  Builder& b_;
  const Kernel& from_;
  std::vector<Lost> lost_;   // by instruction of the original kernel
  std::vector<int> locals_;  // beside each local; -1: none
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
