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

/// The type of an attribute in a model.
enum class AttrType : uint8_t { Int, Float, String, Ints, Floats, Strings, Tensor, Exprs, Body };

/// The form of an attribute on a node in core form. graph::verify() checks it.
enum class CoreForm : uint8_t {
  AsGiven,      // the same as in the model
  Absent,       // not part of the core form
  Int,          // an int
  Flag,         // 0 or 1
  String,       // a string
  Axis,         // an int in [0, rank of input 0)
  Axes,         // distinct ints in [0, rank of input 0)
  Permutation,  // a permutation of the axes of input 0
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
  /// The value of an attribute that is absent. If there is none, its absence has a meaning.
  Default fallback = {};
  CoreForm core = CoreForm::AsGiven;
  bool required = false;       // refuse a model without it
  bool internal = false;       // refuse a model that has it: only passes set it
  bool core_optional = false;  // nodes in core form may omit it
};

// Declarations for the tables of attributes.
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
/// An attribute without a default. A list that is absent is read as an empty one.
constexpr AttrDecl optional_attr(std::string_view name, AttrType type,
                                 CoreForm core = CoreForm::AsGiven) {
  return {.name = name, .type = type, .core = core};
}
constexpr AttrDecl required_attr(std::string_view name, AttrType type,
                                 CoreForm core = CoreForm::AsGiven) {
  return {.name = name, .type = type, .core = core, .required = true};
}
/// An attribute that only nodes in core form have.
constexpr AttrDecl core_attr(std::string_view name, CoreForm core) {
  return {.name = name, .type = AttrType::Exprs, .core = core, .internal = true};
}
/// The same, with a default of 0.
constexpr AttrDecl core_flag(std::string_view name) {
  return {.name = name,
          .fallback = int64_t{0},
          .core = CoreForm::Flag,
          .internal = true,
          .core_optional = true};
}
/// An attribute that no node has: the operator shares code with others, which read it.
constexpr AttrDecl implied_attr(AttrDecl decl) {
  decl.internal = true;
  return decl;
}

/// The attributes of a node as its operator declares them. An absent attribute has its default. It
/// is a bug of the compiler to read an attribute that is not declared, or an absent number or
/// string without a default. Such reads are reported in `fault`.
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

  /// Null if the attribute is absent.
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
