// How nodes of each operator are made. Operators without a recipe of their own are made as their
// registry entry suggests: elementwise with broadcasting, or inputs of any kind and attributes by
// their names, as often as it takes for inference to accept the node.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fuzz/lib/generator.h"

namespace reprise::fuzz {

using test::Values;
using V = Maker::V;

/// One attribute.
inline AttrMap attr(const std::string& name, Attr value) {
  AttrMap out;
  out.set(name, std::move(value));
  return out;
}

/// Adds one or several nodes; false when nothing came of it.
using Make = bool (*)(Maker&);

struct Recipe {
  std::string_view op;  // or a pattern's name, in lower case
  Make make;
};

std::span<const Recipe> view_recipes();
std::span<const Recipe> index_recipes();
std::span<const Recipe> product_recipes();
std::span<const Recipe> window_recipes();
std::span<const Recipe> norm_recipes();
std::span<const Recipe> quantize_recipes();
std::span<const Recipe> sequence_recipes();
std::span<const Recipe> signal_recipes();
std::span<const Recipe> pattern_recipes();
std::span<const Recipe> control_recipes();
std::span<const Recipe> long_recipes();
std::span<const Recipe> ml_recipes();
std::span<const Recipe> list_recipes();

/// Something that a graph is made of: an operator of the registry or a pattern.
struct Source {
  std::string name;
  std::function<bool(Maker&)> make;
  double weight = 1;
  bool pattern = false;  // of several nodes
};
/// All of them, in the registry's order.
const std::vector<Source>& sources();
/// Operators of the registry of which there is no source, with the reason.
std::vector<std::pair<std::string, std::string>> without_source();

/// A node of the operator as its registry entry suggests.
bool make_by_entry(Maker& m, const ops::OpDef& def);

}  // namespace reprise::fuzz
