// The decisions of fusion: a list that can be printed, cut short and replayed. It has one decision
// for each join, except those of reshapes and dequantisations, which always join their users.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>

namespace reprise::lower {

struct FusionDecision {
  enum class Kind : uint8_t {
    Attention,  // two MatMuls and their softmax became one kernel
    Region,     // a node joined the contraction, reduction or attention before it
    Inline,     // a node is computed in the kernels that read it
    Output,     // a node joined a kernel over the same domain, which stores its value
    Merge,      // two kernels over one domain became one
  };

  Kind kind = Kind::Region;
  std::string value;   // first output of the node that joins
  std::string kernel;  // first output of the kernel's anchor, or of its first node

  friend auto operator<=>(const FusionDecision&,
                          const FusionDecision&) = default;  // NOLINT(modernize-use-nullptr)
  /// "region: relu joins conv"
  std::string str() const;
};

/// Limits the joins that fusion may make.
struct FusionLimit {
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();
  size_t first = kNone;                                         // at most this many, in order
  std::optional<std::set<FusionDecision>> only = std::nullopt;  // only these
};

}  // namespace reprise::lower
