// Small graphs that between them use every kind of kernel: what `reprise check` runs by itself.
#pragma once

#include <span>

namespace reprise::app {

struct CheckGraph {
  const char* name;
  const char* text;  // codegen/graph/text.md
};

std::span<const CheckGraph> check_graphs();

}  // namespace reprise::app
