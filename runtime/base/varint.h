// Unsigned integers as bytes: seven bits per byte, the lowest first. All bytes but the last have
// the high bit set, so small numbers are short and each number marks its end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace reprise {

/// Appends to a string or vector of bytes. The writer makes room for many numbers at once, because
/// a check for each byte takes longer than the encoding.
template <typename Bytes>
class VarintWriter {
 public:
  using Byte = typename Bytes::value_type;

  /// `expected_bytes` is a guess.
  explicit VarintWriter(size_t expected_bytes) { bytes_.resize(expected_bytes); }

  void number(uint64_t v) { end_at(put(room(kMaxBytes), v)); }
  void byte(uint8_t v) {
    make_room(1);
    bytes_[size_++] = static_cast<Byte>(v);
  }
  template <typename Range>
  void raw(const Range& range) {
    make_room(range.size());
    std::copy(range.begin(), range.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(size_));
    size_ += range.size();
  }

  // To write many numbers: room for some bytes, in which put() writes each number and returns the
  // place behind it, and the end of what was written there.
  static constexpr size_t kMaxBytes = 10;  // of a number of 64 bits
  Byte* room(size_t bytes) {
    make_room(bytes);
    return bytes_.data() + size_;
  }
  static Byte* put(Byte* at, uint64_t v) {
    for (; v >= 128; v >>= 7) *at++ = static_cast<Byte>(v | 128);
    *at++ = static_cast<Byte>(v);
    return at;
  }
  void end_at(const Byte* end) { size_ = static_cast<size_t>(end - bytes_.data()); }

  /// The bytes; the writer is empty afterwards.
  Bytes take() {
    bytes_.resize(std::exchange(size_, 0));
    return std::move(bytes_);
  }

 private:
  void make_room(size_t bytes) {
    if (bytes_.size() - size_ < bytes) bytes_.resize(std::max(bytes_.size() * 2, size_ + bytes));
  }

  Bytes bytes_;
  size_t size_ = 0;
};

}  // namespace reprise
