// Packs weights: executes plan::Packing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/packing.h"

namespace reprise {

/// Packs a weight from pieces of its raw bytes. Bytes of the packed weight are written once and
/// never read, because they may be memory of a device.
class WeightPacker {
 public:
  /// The packing must be sound (Packing::check()) and outlive this. `element` is the size of a raw
  /// element in bytes: 1, 2, 4 or 8.
  WeightPacker(const plan::Packing& packing, uint64_t element);

  /// Pieces must begin at multiples of so many bytes.
  uint64_t unit() const;
  /// Writes what follows from the piece at byte `offset` to `out`, the whole packed weight. The
  /// piece at 0 must be among them; it also writes what no raw element follows from.
  void add(uint64_t offset, std::span<const std::byte> piece, std::span<std::byte> out) const;

 private:
  /// A part of an axis: its packed stride counts elements or, if elements share words, words.
  struct Digit {
    int64_t size, step, stride;
  };
  /// A raw axis. If elements share words, its digits do not include the elements of a word.
  struct Axis {
    int64_t dim = 1;
    int64_t in_word = 1;             // elements along the axis that share a word
    std::vector<Digit> digits = {};  // the smallest step first

    int64_t padded() const;  // the size with its padding, a multiple of in_word
    int64_t offset(int64_t index) const;
  };
  /// An element of a word: where it lies in it, from the word's first line and element.
  struct InWord {
    int64_t line, place;
  };
  /// Neighbouring lines along the last axis but one, and the packed offset of the first.
  struct Lines {
    int64_t count = 0, offset = 0;
  };
  const Axis& line_axis() const { return axes_[axes_.size() - 2]; }
  const Axis& last_axis() const { return axes_.back(); }
  /// How many lines are packed together: those that lie side by side, or share words.
  int64_t lines_together() const;
  /// The packed offset of a line, but for what its index along the last axis but one adds.
  int64_t offset_of_outer(int64_t outer) const;
  /// Calls `use(lines, i)` for the lines of [first, first + count) in groups. Group after group
  /// begins at the i-th of these lines.
  template <typename Use>
  void for_lines(int64_t first, int64_t count, const Use& use) const;
  template <typename T>
  void add_elements(uint64_t offset, std::span<const std::byte> piece, std::byte* out) const;
  template <typename T>
  void add_columns(const Lines& lines, const T* from, T* out) const;
  template <typename T>
  void add_rows(const Lines& lines, const T* from, T* out) const;
  void add_words(uint64_t offset, std::span<const std::byte> piece, std::byte* out) const;
  /// Writes zeros to what belongs to no raw line.
  template <typename T>
  void clear_lines(std::byte* out) const;

  const plan::Packing& packing_;
  uint64_t element_;
  std::vector<Axis> axes_;
  std::vector<InWord> word_;  // the elements of a word, from the lowest bits on
};

}  // namespace reprise
