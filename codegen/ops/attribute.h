// Attributes of operators. An operator's row declares each of them once: its name, its type, its
// default, and the form that it has on a node in core form.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "codegen/graph/graph.h"

namespace reprise::ops {

/// What a model stores.
enum class AttrType : uint8_t { Int, Float, String, Ints, Floats, Strings, Tensor, Exprs, Body };

/// What a node in core form has instead; graph::verify() checks it.
enum class CoreForm : uint8_t {
  AsGiven,      // what the model has, if anything
  Absent,       // nothing
  Int,          // an int
  Flag,         // 0 or 1
  String,       // a string
  Axis,         // an int in [0, rank of input 0)
  Axes,         // distinct ints in [0, rank of input 0)
  Permutation,  // of the axes of input 0
  Scales,       // floats, one per axis of input 0
  Sizes,        // exprs, one per axis of the output
  PerAxis,      // exprs, one per axis of input 0
  Pads,         // exprs, begins then ends of the axes of input 0
  Exprs,        // exprs
  Spatial,      // ints, one per spatial axis of input 0
  SpatialPads,  // ints or exprs, begins then ends of the spatial axes
  StaticPads,   // ints, begins then ends of the spatial axes
};

struct AttrDecl {
  using Default =
      std::variant<std::monostate, int64_t, float, std::string_view, std::span<const int64_t>>;
  std::string_view name;
  AttrType type = AttrType::Int;
  /// The value of an attribute that is not given. Without one, its absence means something.
  Default fallback = {};
  CoreForm core = CoreForm::AsGiven;
  bool required = false;       // a model without it is refused
  bool internal = false;       // a model that has it is refused: passes decide on it
  bool core_optional = false;  // core nodes may lack it
};

// Declarations, as rows write them.
constexpr AttrDecl int_attr(std::string_view name, int64_t fallback,
                            CoreForm core = CoreForm::AsGiven) {
  return {.name = name, .type = AttrType::Int, .fallback = fallback, .core = core};
}
constexpr AttrDecl float_attr(std::string_view name, float fallback) {
  return {.name = name, .type = AttrType::Float, .fallback = fallback};
}
constexpr AttrDecl string_attr(std::string_view name, std::string_view fallback,
                               CoreForm core = CoreForm::AsGiven) {
  return {.name = name, .type = AttrType::String, .fallback = fallback, .core = core};
}
/// Without a default. A list that is not given is read as an empty one.
constexpr AttrDecl optional_attr(std::string_view name, AttrType type,
                                 CoreForm core = CoreForm::AsGiven) {
  return {.name = name, .type = type, .core = core};
}
constexpr AttrDecl required_attr(std::string_view name, AttrType type,
                                 CoreForm core = CoreForm::AsGiven) {
  return {.name = name, .type = type, .core = core, .required = true};
}
/// Of the core form alone.
constexpr AttrDecl core_attr(std::string_view name, CoreForm core) {
  return {.name = name, .type = AttrType::Exprs, .core = core, .internal = true};
}
/// Of the core form alone: 0 where it is not given.
constexpr AttrDecl core_flag(std::string_view name) {
  return {.name = name,
          .fallback = int64_t{0},
          .core = CoreForm::Flag,
          .internal = true,
          .core_optional = true};
}
/// For operators that share code with others, which have this attribute: no node has it.
constexpr AttrDecl implied_attr(AttrDecl decl) {
  decl.internal = true;
  return decl;
}

/// The attributes of a node, as its operator declares them: those that are not given have their
/// defaults. Reading one that is not declared, or one number or string that is neither given nor
/// has a default, is a fault of the compiler, which `fault` receives.
class Attributes {
 public:
  explicit Attributes(const graph::Node& n, Status* fault = nullptr);

  int64_t get_int(std::string_view name) const;
  float get_float(std::string_view name) const;
  std::string get_string(std::string_view name) const;
  std::vector<int64_t> get_ints(std::string_view name) const;
  std::vector<Expr> get_exprs(std::string_view name) const {
    return get_or<std::vector<Expr>>(name, {});
  }

  /// Null when it is not given.
  template <typename T>
  const T* get(std::string_view name) const {
    return find(name) == nullptr ? nullptr : node_.attrs.get<T>(name);
  }
  /// For an attribute whose default depends on the node.
  template <typename T>
  T get_or(std::string_view name, T fallback) const {
    const T* v = get<T>(name);
    return v == nullptr ? fallback : *v;
  }
  bool has(std::string_view name) const { return find(name) != nullptr && node_.attrs.has(name); }
  bool declares(std::string_view name) const;

 private:
  const AttrDecl* find(std::string_view name) const;
  template <typename T, typename Default>
  T value(std::string_view name) const;
  void report(std::string_view name, const char* what) const;

  const graph::Node& node_;
  std::span<const AttrDecl> declared_;
  Status* fault_;
};

}  // namespace reprise::ops
