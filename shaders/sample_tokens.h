// Kernel template that chooses a token of a row, as runtime/operators/sampling.h defines it. A
// workgroup has a row, and reads its scores several times: once for the largest, up to 16 times for
// each threshold (top-k, top-p), of which each time yields two bits, and twice to choose. Where the
// temperature is 0, once is enough. Weights are not stored but computed again.
#pragma once

#include <functional>

#include "codegen/kernel/build/builder.h"

namespace reprise::shaders {

using kernel::Val;
using kernel::Value;

/// The scores of a row, as the invocations of its workgroup read them.
class SampledScores {
 public:
  using Body = std::function<Status()>;
  /// `score` is F32, `position` I32 and ascending in each invocation.
  using ElementBody = std::function<Status(Value score, Value position)>;

  SampledScores() = default;
  SampledScores(const SampledScores&) = delete;
  SampledScores& operator=(const SampledScores&) = delete;
  virtual ~SampledScores() = default;

  /// Runs the body for the elements that the invocation has, so that the accesses of neighbours are
  /// neighbours.
  virtual Status each(const ElementBody& body) = 0;
  /// Runs the body for another division: the n-th invocation has the n-th part of the row.
  virtual Status each_of_part(const ElementBody& body) = 0;
  /// for (i = 0; i < count; ++i)
  virtual Status loop(int64_t count, const std::function<Status(Value i)>& body) = 0;
  virtual Status guard(Val condition, const Body& body) = 0;
  /// Stores the result, an I32. One invocation calls it.
  virtual Status store(Value token) = 0;
};

/// The numbers of a row. All invocations have the same.
struct SampleNumbers {
  Value size;  // of the row, I32, at least 1
  Value temperature, top_k, top_p, min_p;
  Value seed, step, row;  // U32
};

/// Invocations of the workgroup, a power of two, for which shared memory of so many bytes suffices.
uint32_t sample_workgroup(uint32_t most, uint32_t shared_bytes);

Status sample_token(kernel::Builder& b, SampledScores& scores, const SampleNumbers& numbers,
                    uint32_t workgroup);

}  // namespace reprise::shaders
