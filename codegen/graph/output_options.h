// Options about outputs of language models: of which only the last position is wanted, and from
// which tokens are sampled.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace reprise {

/// An output of which only the last position along an axis is wanted. Its size there becomes 1, and
/// what only other positions need is not computed.
struct LastOption {
  std::string output;
  /// The axis, as a number or as the name of its size. Empty: the one before the last axis.
  std::string axis = {};
};

/// An output of logits, [rows, tokens] or [rows, positions, tokens] of which the last position
/// counts, from which a token is sampled for each row. The package gets the output `sampled_ids`
/// [rows, 1], and the inputs `sampling.temperature` (0: the likeliest token), `.top_k`, `.top_p`,
/// `.min_p` and `.seed`, with a number for all rows, which runs may leave out. The state
/// `sampling.step` counts runs, so that each has other random numbers.
struct SampleOption {
  std::string output;
  int64_t window = 0;        // penalties count the last so many tokens; 0: there are none
  bool has_bias = false;     // the input `sampling.bias` is added to the logits
  bool has_mask = false;     // the bits of `sampling.allowed` say which tokens may be chosen
  bool per_row = false;      // the inputs have a number for each row
  bool keeps_logits = true;  // the logits stay an output
  bool short_ids = false;    // ids are int32, not int64
};

/// Parses "OUTPUT" or "OUTPUT=AXIS", as --last takes it, several times.
Result<std::vector<LastOption>> parse_last(const std::vector<std::string>& texts);
/// Parses "OUTPUT,KEY,KEY=VALUE,...", as --sample takes it. Code::Usage lists the keys.
Result<SampleOption> parse_sample(std::string_view text);

}  // namespace reprise
