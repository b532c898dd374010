// A probe checks one kernel alone: a launch of it on seeded inputs, and what sampled elements of
// its outputs must be. Computed by the compiler on the interpreter (codegen/probes.h), kept in a
// package, run on a device by runtime/check.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"

namespace reprise::plan {

/// The values of a probe's inputs. Floats lie between `from` and `from + span`. Integers are one of
/// `count` consecutive numbers that begin with `least`, or `least_unsigned` where they have no
/// sign; all their bits are random where `count` is 0. Bools are true or false. A probe takes the
/// first row for which its kernel reports no error and its results are finite.
struct ProbeInputs {
  float from, span;
  int32_t least, least_unsigned, count;
};
inline constexpr std::array<ProbeInputs, 6> kProbeInputs{{
    {-1.0f, 2.0f, 0, 0, 0},       // all integers
    {-1.0f, 2.0f, -100, 0, 201},  // integers whose sums and products fit 32 bits
    {-1.0f, 2.0f, 0, 0, 4},       // indices of small dimensions
    {0.5f, 1.0f, 0, 0, 4},        // roots and logarithms
    {0.5f, 1.0f, 1, 1, 3},        // divisors
    {0.5f, 1.0f, 0, 0, 1},        // indices of dimensions of 1
}};
/// Buffers of a probe take no more memory together.
inline constexpr uint64_t kMaxProbeBytes = uint64_t{64} << 20;

struct Probe {
  /// Elements of one written buffer.
  struct Samples {
    uint32_t buffer = 0;           // parameter of the kernel
    std::vector<uint32_t> at;      // elements of the plan buffer's dtype
    std::vector<float> values;     // of floats: what they must be, ...
    std::vector<float> tolerance;  // ... within this
    std::vector<int64_t> exact;    // of integers and bools
    friend bool operator==(const Samples&, const Samples&) = default;
  };
  std::string skipped;             // why there is no probe; then the rest is empty
  uint32_t step = 0;               // of the plan: a launch of the kernel, for its buffers
  std::array<uint32_t, 3> grid{};  // workgroups
  std::vector<int32_t> scalars;    // one per scalar parameter
  std::vector<uint64_t> bytes;  // one per buffer parameter, the same for those of one plan buffer
  uint8_t inputs = 0;           // row of kProbeInputs
  /// Every workgroup was interpreted: then no kernel error is allowed. Else those whose results are
  /// not known may report one, as inputs are not chosen for them.
  bool complete = false;
  std::vector<Samples> samples;
  friend bool operator==(const Probe&, const Probe&) = default;
};

/// What the bits of one element stand for, of a float dtype, or of an integer dtype or Bool.
double real_of(DType dtype, uint64_t bits);
int64_t integer_of(DType dtype, uint64_t bits);

/// The probe of one kernel fits it, its launch and their buffers.
Status verify_probe(const Plan& p, uint32_t kernel, const Probe& probe);

/// The first parameter of the launch that is bound to the same buffer as parameter `i`.
size_t first_binding(const Launch& launch, size_t i);
/// Whether the launch writes the buffer of parameter `i` and reads it by no other parameter.
bool is_only_written(const Launch& launch, size_t i);

/// What a buffer of a probe holds before the launch. Element i is entry i mod 4093 of a table of
/// random numbers in the range that the row gives; each parameter has a table of its own. The
/// bits of buffers that are only written are inverted, so that no kernel gives the same by chance.
class ProbeFill {
 public:
  /// `parameter`: the first that the buffer is bound to.
  ProbeFill(const ProbeInputs& row, size_t parameter, DType dtype, bool only_written);
  /// The bytes from `offset` on, a multiple of the element's size.
  void write(uint64_t offset, std::span<std::byte> out) const;

 private:
  size_t size_;
  std::vector<std::byte> table_;
};

}  // namespace reprise::plan
