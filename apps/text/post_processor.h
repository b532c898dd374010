// What is put around the ids of a text.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/formats/json.h"
#include "runtime/base/status.h"

namespace reprise::text {

/// Ids before and after those of a text.
struct Frame {
  std::vector<int32_t> before, after;
};

/// From the member "post_processor" of a tokenizer.json, for single texts.
Result<Frame> read_frame(const formats::Json& json);

}  // namespace reprise::text
