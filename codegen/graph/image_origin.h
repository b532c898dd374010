// The nodes that the compiler adds to process an image have it as their origin, through all passes.
#pragma once

#include <algorithm>
#include <string>

#include "codegen/graph/node.h"

namespace reprise::graph {

inline std::string image_origin(const std::string& image) {
  return "image '" + image + "'";
}

/// Whether the node stands for nothing but the processing of images.
inline bool processes_image(const Node& n) {
  return std::ranges::all_of(n.origins, [](const std::string& o) {
    return o.starts_with("image '") && o.ends_with('\'');
  });
}

}  // namespace reprise::graph
