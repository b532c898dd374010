// Images that several inputs and outputs of a run have in common.
#pragma once

#include <span>

#include "runtime/base/status.h"
#include "runtime/run/binding.h"

namespace reprise {

/// Several inputs may read one image if they state its layouts and owners alike. An output may be
/// written to an image that an input reads, in the layout in which the input leaves it. An output
/// cannot share an image with another output. Null bindings are left out.
Status check_shared_images(std::span<const Binding* const> inputs,
                           std::span<const Binding* const> outputs);

}  // namespace reprise
