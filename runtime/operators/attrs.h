// Attributes of an operator: the types that ONNX stores on a node, and shape expressions.
#pragma once

#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/tensor.h"
#include "runtime/expr/expr.h"

namespace reprise {

using Attr = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                          std::vector<std::string>, HostTensor, std::vector<Expr>>;

/// Attributes by name. They are ordered by name, so that printing is deterministic. Copies share
/// the values, which may be large and do not change.
class AttrMap {
  using Map = std::map<std::string, std::shared_ptr<const Attr>, std::less<>>;

 public:
  void set(std::string name, Attr value) {
    map_.insert_or_assign(std::move(name), std::make_shared<const Attr>(std::move(value)));
  }
  /// Shares a value with another map. It must not be null.
  void share(std::string name, std::shared_ptr<const Attr> value) {
    map_.insert_or_assign(std::move(name), std::move(value));
  }
  void erase(const std::string& name) { map_.erase(name); }
  bool has(std::string_view name) const { return map_.find(name) != map_.end(); }
  /// Null if there is no attribute of that name and type. The other getters return the fallback
  /// then.
  template <typename T>
  const T* get(std::string_view name) const {
    auto it = map_.find(name);
    return it == map_.end() ? nullptr : std::get_if<T>(it->second.get());
  }
  int64_t get_int(std::string_view name, int64_t fallback) const {
    const auto* v = get<int64_t>(name);
    return v ? *v : fallback;
  }
  float get_float(std::string_view name, float fallback) const {
    const auto* v = get<float>(name);
    return v ? *v : fallback;
  }
  std::string get_string(std::string_view name, const std::string& fallback) const {
    const auto* v = get<std::string>(name);
    return v ? *v : fallback;
  }
  std::vector<int64_t> get_ints(std::string_view name,
                                const std::vector<int64_t>& fallback = {}) const {
    const auto* v = get<std::vector<int64_t>>(name);
    return v ? *v : fallback;
  }
  std::vector<Expr> get_exprs(std::string_view name) const {
    const auto* v = get<std::vector<Expr>>(name);
    return v ? *v : std::vector<Expr>{};
  }

  /// Iterates over names and values.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::pair<const std::string&, const Attr&>;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = value_type;
    explicit Iterator(Map::const_iterator at) : at_(at) {}
    value_type operator*() const { return {at_->first, *at_->second}; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    void operator++(int) { ++at_; }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    Map::const_iterator at_;
  };
  Iterator begin() const { return Iterator(map_.begin()); }
  Iterator end() const { return Iterator(map_.end()); }
  size_t size() const { return map_.size(); }

 private:
  Map map_;
};

}  // namespace reprise
