// How tests change what is compiled, to see whether the fault is found.
#pragma once

#include <functional>
#include <string_view>

namespace reprise::graph {
class Graph;
}  // namespace reprise::graph
namespace reprise::lower {
struct Group;
struct Lowered;
}  // namespace reprise::lower

namespace reprise {

struct CompileHooks {
  /// Called with the graph after each pass, before it is verified.
  std::function<void(std::string_view pass, graph::Graph& g)> graph;
  /// Called with each group's kernel after it is lowered.
  std::function<void(const lower::Group& group, lower::Lowered& lowered)> kernel;
};

}  // namespace reprise
