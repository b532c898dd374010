// Attributes of an operator: the types that ONNX stores on a node, and shape expressions.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/expr.h"
#include "runtime/base/tensor.h"

namespace reprise {

using Attr = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                          std::vector<std::string>, HostTensor, std::vector<Expr>>;

/// Attributes by name. They are ordered by name, so that printing is deterministic.
class AttrMap {
 public:
  void set(std::string name, Attr value) { map_[std::move(name)] = std::move(value); }
  void erase(const std::string& name) { map_.erase(name); }
  bool has(std::string_view name) const { return map_.find(name) != map_.end(); }
  /// Null if there is no attribute of that name and type. The other getters return the fallback
  /// then.
  template <typename T>
  const T* get(std::string_view name) const {
    auto it = map_.find(name);
    return it == map_.end() ? nullptr : std::get_if<T>(&it->second);
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
  auto begin() const { return map_.begin(); }
  auto end() const { return map_.end(); }
  size_t size() const { return map_.size(); }

 private:
  std::map<std::string, Attr, std::less<>> map_;
};

}  // namespace reprise
