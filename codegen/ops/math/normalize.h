// The formula that normalisations share.
#pragma once

#include <vector>

#include "codegen/ops/row/op_builder.h"

namespace reprise::ops {

/// What a normalisation subtracts.
enum class Center : uint8_t { Mean, Zero };

struct Normalized {
  graph::ValueId value, mean, inverse_deviation;  // mean: kNone for Center::Zero
};

/// (x - center) / sqrt(mean((x - center)^2) + epsilon) over the axes.
Normalized normalize(OpBuilder& c, graph::ValueId x, const std::vector<int64_t>& axes,
                     double epsilon, Center center = Center::Mean);

}  // namespace reprise::ops
