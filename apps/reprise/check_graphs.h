// Small graphs that together use every kind of kernel. `reprise check` runs them if no model is
// given.
#pragma once

#include <span>

namespace reprise::app {

struct CheckGraph {
  const char* name;
  const char* text;  // see codegen/graph/text/text.md
};

std::span<const CheckGraph> check_graphs();

}  // namespace reprise::app
