// The inputs of SampleTokens, and of SampleRows, which has the first ones.
#pragma once

#include <cstdint>
#include <string_view>

#include "codegen/graph/graph.h"

namespace reprise::ops {

/// The domain of operators that no standard has.
inline constexpr std::string_view kOwnDomain = "reprise";

enum SampleInput : uint8_t {
  kLogits,  // [rows, tokens], floats; SampleRows: scores
  // A number for each row, or one for all of them:
  kTemperature,
  kTopK,
  kTopP,
  kMinP,
  kSeed,  // with one for all rows, the number of a row counts, too
  kStep,
  kRepetition,
  kPresence,
  kFrequency,
  // Matrices with a line for each row, or one for all of them:
  kRecent,   // ids; others than tokens count nothing
  kBias,     // [., tokens]
  kAllowed,  // [., tokens / 32, rounded up]: bit i % 32 of word i / 32 says whether token i may be
  kSampleInputs
};

/// A node that samples tokens, with ids of this type and yet without inputs and outputs.
graph::NodeSpec sampling_node(DType ids);

}  // namespace reprise::ops
