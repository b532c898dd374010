// Matrices whose elements kernels name: which invocation holds which of them, and the operands of
// the instructions that use them.
#pragma once

#include <cstdint>

namespace reprise::kernel {

/// The elements of a sum that the invocations of a subgroup of 32 hold. Invocation 4 * g + t has,
/// of each 16 rows and 8 columns, in rows g and g + 8, columns 2 * t and 2 * t + 1. The sums of a
/// subgroup have 16 rows; of those of a team, subgroup w has rows 16 * w to 16 * w + 15.
struct HeldPlaces {
  static constexpr uint32_t kSubgroup = 32;
  static constexpr uint32_t kRows = 16, kColumns = 8;  // of which an invocation has kSlots
  static constexpr uint32_t kSlots = 4;
  static constexpr uint32_t kRowsHeld = 2;    // by an invocation
  static constexpr uint32_t kRowSharers = 4;  // neighbours that hold a row together

  static constexpr uint32_t slots(uint32_t columns) { return columns / kColumns * kSlots; }
  /// Which of the rows that an invocation holds a slot is in.
  static constexpr uint32_t which_row(uint32_t slot) { return slot / 2 % kRowsHeld; }
  /// Of an invocation's first row and column.
  static constexpr uint32_t row(uint32_t slot) { return kRows / kRowsHeld * which_row(slot); }
  static constexpr uint32_t column(uint32_t slot) { return kColumns * (slot / kSlots) + slot % 2; }
  static constexpr uint32_t first_row(uint32_t lane) { return lane / kRowSharers; }
  static constexpr uint32_t first_column(uint32_t lane) { return 2 * (lane % kRowSharers); }
};

/// An element of a sum that an invocation holds. Packed into Inst::imm.
struct HeldElement {
  uint16_t matrix = 0, slot = 0;

  uint64_t imm() const { return uint64_t{matrix} | uint64_t{slot} << 16U; }
  static HeldElement of(uint64_t imm) {
    return {static_cast<uint16_t>(imm), static_cast<uint16_t>(imm >> 16U)};
  }
};

/// The matrices of a MatrixConvert: the left one gets the columns of the sum from `column` on.
/// Packed into Inst::imm.
struct MatrixConversion {
  uint16_t left = 0, sum = 0, column = 0;

  uint64_t imm() const { return uint64_t{left} | uint64_t{sum} << 16U | uint64_t{column} << 32U; }
  static MatrixConversion of(uint64_t imm) {
    return {static_cast<uint16_t>(imm), static_cast<uint16_t>(imm >> 16U),
            static_cast<uint16_t>(imm >> 32U)};
  }
};

}  // namespace reprise::kernel
