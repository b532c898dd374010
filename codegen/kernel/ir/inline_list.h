// A list of at most N elements without allocation, for the operands of instructions.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>

namespace reprise::kernel {

/// Trivially copyable if T is. The caller must not add more than N elements; excess ones are
/// dropped.
template <typename T, size_t N>
class InlineList {
 public:
  InlineList() = default;
  InlineList(std::initializer_list<T> list) : InlineList(list.begin(), list.end()) {}
  InlineList(std::span<const T> list)  // NOLINT(google-explicit-constructor): it is a list
      : InlineList(list.begin(), list.end()) {}
  template <std::input_iterator It>
  InlineList(It first, It last) {
    for (; first != last; ++first) push_back(*first);
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return items_.data(); }
  const T* data() const { return items_.data(); }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t i) { return items_[i]; }
  const T& operator[](size_t i) const { return items_[i]; }
  const T& front() const { return items_[0]; }
  const T& back() const { return items_[size_ - 1U]; }

  void push_back(const T& v) {
    if (size_ < N) items_[size_++] = v;
  }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }

  friend bool operator==(const InlineList& a, const InlineList& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<T, N> items_{};
  uint8_t size_ = 0;
};

}  // namespace reprise::kernel
