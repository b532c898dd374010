// Typed ids of table entries. Each table has its own type of id, so an id of a value converts
// neither to an id of a buffer nor to an integer.
#pragma once

#include <cassert>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

namespace reprise {

/// `Tag` is a type that identifies the table. It needs no definition.
template <class Tag>
class Id {
 public:
  constexpr Id() = default;  // denotes no entry
  constexpr explicit Id(std::integral auto number) : number_(static_cast<int32_t>(number)) {
    static_assert(!std::same_as<decltype(number), bool>);
    assert(std::in_range<int32_t>(number));
  }

  constexpr bool is_none() const { return number_ < 0; }
  /// Negative if the id denotes no entry.
  constexpr int32_t number() const { return number_; }
  /// Requires an id that denotes an entry.
  constexpr size_t index() const { return static_cast<size_t>(number_); }
  friend constexpr auto operator<=>(Id, Id) = default;  // NOLINT(modernize-use-nullptr)

 private:
  int32_t number_ = -1;
};

/// Iterates over the ids of a table's first `size` entries.
template <class I>
class IdRange {
 public:
  class iterator {
   public:
    using value_type = I;
    using difference_type = std::ptrdiff_t;
    constexpr iterator() = default;
    constexpr explicit iterator(size_t at) : at_(at) {}
    constexpr I operator*() const { return I(at_); }
    constexpr iterator& operator++() { return ++at_, *this; }
    constexpr iterator operator++(int) { return iterator(at_++); }
    friend constexpr bool operator==(iterator, iterator) = default;

   private:
    size_t at_ = 0;
  };

  constexpr explicit IdRange(size_t size) : size_(size) {}
  constexpr iterator begin() const { return iterator(0); }
  constexpr iterator end() const { return iterator(size_); }

 private:
  size_t size_;
};

/// A vector that is indexed by ids.
template <class I, class T>
class IdVector {
 public:
  using value_type = T;
  using reference = typename std::vector<T>::reference;
  using const_reference = typename std::vector<T>::const_reference;

  IdVector() = default;
  explicit IdVector(size_t size, const T& each = T()) : list_(size, each) {}
  IdVector(std::initializer_list<T> list) : list_(list) {}

  size_t size() const { return list_.size(); }
  bool empty() const { return list_.empty(); }
  bool has(I id) const { return !id.is_none() && id.index() < list_.size(); }
  reference operator[](I id) { return list_[id.index()]; }
  const_reference operator[](I id) const { return list_[id.index()]; }
  IdRange<I> ids() const { return IdRange<I>(list_.size()); }

  reference front() { return list_.front(); }
  const_reference front() const { return list_.front(); }
  reference back() { return list_.back(); }
  const_reference back() const { return list_.back(); }
  auto begin() { return list_.begin(); }
  auto begin() const { return list_.begin(); }
  auto end() { return list_.end(); }
  auto end() const { return list_.end(); }

  I push_back(T entry) {
    list_.push_back(std::move(entry));
    return I(list_.size() - 1);
  }
  void reserve(size_t size) { list_.reserve(size); }
  void resize(size_t size) { list_.resize(size); }
  void assign(size_t size, const T& each) { list_.assign(size, each); }
  void clear() { list_.clear(); }

  friend bool operator==(const IdVector&, const IdVector&) = default;

 private:
  std::vector<T> list_;
};

}  // namespace reprise

template <class Tag>
struct std::hash<reprise::Id<Tag>> {
  size_t operator()(reprise::Id<Tag> id) const noexcept {
    return std::hash<int32_t>()(id.number());
  }
};
