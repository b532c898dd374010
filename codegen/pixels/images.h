// Inputs and outputs that are images: their pixels become the model's numbers in nodes that the
// compiler adds to the graph, which fusion makes a part of the model's first and last kernels.
#pragma once

#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/options/compile_options.h"
#include "runtime/plan/plan.h"

namespace reprise {

/// Makes the inputs and outputs that the options name images. Of `ranges`, applies those of sizes
/// of images. Code::Usage if an image does not exist, or cannot be such an image or of such sizes.
Status add_images(graph::Graph& g, const std::vector<ImageOption>& images,
                  const SizeRanges& ranges);

/// Whether the name is that of a size that one of the images has of its own, so that add_images()
/// adds it to the graph.
bool is_image_size(const std::vector<ImageOption>& images, const std::string& name);

/// Marks the slots of images in the interface.
void describe_images(const std::vector<ImageOption>& images, plan::Interface& io);

}  // namespace reprise
