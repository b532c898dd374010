// Rewrites a kernel for a device without 64-bit integers, half-precision arithmetic or small
// storage types. Internal to the kernel library; see kernel.h: legalize.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "codegen/kernel/build/rebuild.h"
#include "codegen/kernel/legal/expand_math.h"

namespace reprise::kernel {

inline bool is_int64(Ty t) {
  return t == Ty::I64 || t == Ty::U64;
}

/// The lanes in which a 32-bit value is lost: the 64-bit integer does not fit, or was computed from
/// one that does not.
struct LostLanes {
  Val where;    // a Bool of as many lanes; null: no lane is lost
  Val unknown;  // the lost lanes in which `nearest` is not right
  /// The value with the nearest 32-bit integer in the lost lanes. It compares with all other
  /// integers as the 64-bit one does. Null if unknown.
  std::function<Val()> nearest;
};

/// Computes 64-bit integers as 32-bit ones (I64 -> I32, U64 -> U32). Every operation determines
/// whether its 64-bit result fits. A result that does not is reported when it is used, not when it
/// is computed.
///
/// Constants beyond 32 bits (the identities of ReduceMax and ReduceMin) are saturated. In a kernel
/// with such constants ("extremes"), the two extreme values mean "beyond the range", and no other
/// value may equal them.
class CheckedIntegers {
 public:
  CheckedIntegers(Builder& b, bool extremes) : b_(b), extremes_(extremes) {}

  /// A row over 64-bit operands; null if the row has no 32-bit form.
  Val scalar(ScalarOp op, bool is_signed, std::span<const Val> args);
  /// Op::Convert to or from a 64-bit integer; types are the original ones.
  Val convert(Val v, Ty from, Ty to, bool in_range);
  /// Converts two 32-bit words to a value and back.
  Val from_words(Val words, bool is_signed);
  Val to_words(Val v, bool is_signed);
  /// The lanes that the functions above have lost since the last call, given operands that were not
  /// lost.
  LostLanes take() { return std::exchange(lost_, {}); }

 private:
  /// In kernels with extremes, marks lanes that equal one as lost, as their value is unknown.
  void require_inner(Val v);
  void lost_if(Val condition);  // a Bool of as many lanes
  /// The same, where `negative` (a Bool) says on which side of the range the result lies.
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
  LostLanes lost_;
};

/// Tracks lost lanes through a kernel, from where they are lost to where they are used: in a store,
/// an index or a condition.
class LostValues {
 public:
  LostValues(Builder& b, const Kernel& from) : b_(b), from_(from), lost_(from.insts.size()) {}

  /// Adds a local to each local of 64-bit integers that records whether it is lost.
  void add_locals();
  /// Reports operands of an instruction that has an effect, reads memory or branches.
  void report_operands(const Inst& i);
  /// Sets the error if a lane is lost.
  void report(const LostLanes& lost);
  /// Writes a row that orders 64-bit integers and has operands that may be lost. Null for other
  /// rows, and if no operand may be lost.
  Val ordered(const Inst& i, std::span<const Val> args);
  /// Notes that the instruction was written; `own` are lanes lost although no operand was.
  void made(const Inst& i, std::span<const Val> args, LostLanes own);
  /// The lost lanes of a vector composed of these parts.
  LostLanes of_lanes(std::span<const LostLanes> parts, std::span<const Val> values);
  /// Records with a LocalStore whether its value is lost.
  void store_local(const Inst& i, std::span<const Val> args);

 private:
  size_t id_of(const Inst& i) const { return static_cast<size_t>(&i - from_.insts.data()); }
  LostLanes& of(Val source) { return lost_[static_cast<size_t>(source.id)]; }
  bool any_lost(const Inst& i);
  Val or_false(Val where, int lanes);
  Val either(Val a, Val b);
  Val both(Val a, Val b);
  Val choice(Val condition, Val a, Val b, int lanes);
  LostLanes of_choice(const Inst& i, std::span<const Val> args);
  Val of_logic(const Inst& i, std::span<const Val> args);
  LostLanes of_lane(const Inst& i);

  Builder& b_;
  const Kernel& from_;
  std::vector<LostLanes> lost_;  // by instruction of the original kernel
  std::vector<int> locals_;      // the local that add_locals() added for each local; -1: none
};

/// Elements of 8 or 16 bits inside 32-bit words.
class PackedElements {
 public:
  PackedElements(Builder& b, Ty storage) : b_(b), storage_(storage) {}

  /// Elements of the original storage type from a buffer of U32 words. F16 comes as F32.
  Val load(int buffer, Val index, int lanes, uint32_t align);
  /// Elements that do not cover whole words are stored by masks, which takes two atomic operations.
  void store(int buffer, Val index, Val value, uint32_t align);

  /// Halves in whole words as F16, of which only the bits move.
  Val load_halves(int buffer, Val index, int lanes, uint32_t align);
  void store_halves(int buffer, Val index, Val value, uint32_t align);

  /// Converts one element from its bits (a U32 whose upper bits are arbitrary) to its compute type,
  /// and back.
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
