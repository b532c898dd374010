// The builder of graphs for Python: reprise.GraphBuilder.
#pragma once

#include <nanobind/nanobind.h>

#include "codegen/builder/graph_builder.h"

namespace reprise::python {

void bind_graph_builder(nanobind::module_& m);

}  // namespace reprise::python
