// The elements of constants, for those who evaluate a graph or write it down.
#pragma once

#include "codegen/graph/graph.h"

namespace reprise::graph {

/// The constant as one tensor. One that consists of others is copied.
inline HostTensor whole(const Value& v) {
  return v.joined ? join(v.joined->parts, v.constant->dims(), v.joined->axis) : *v.constant;
}

}  // namespace reprise::graph
