// A probe checks one kernel alone. It is a launch of the kernel on seeded inputs, with the expected
// values of sampled elements of its outputs. The compiler computes it with the interpreter
// (codegen/probes/probes.h), a package stores it, and runtime/check/check.h runs it on a device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"

namespace reprise::plan {

/// A range of values for the inputs of a probe. Floats are between `from` and `from + span`.
/// Integers are one of `count` consecutive numbers, beginning with `least`, or with
/// `least_unsigned` if they are unsigned; if `count` is 0, all their bits are random. Bools are
/// true or false. A probe uses the first row of kProbeInputs for which its kernel reports no error
/// and its results are finite.
struct ProbeInputs {
  float from, span;
  int32_t least, least_unsigned, count;
};
inline constexpr std::array<ProbeInputs, 6> kProbeInputs{{
    {-1.0f, 2.0f, 0, 0, 0},       // all integers
    {-1.0f, 2.0f, -100, 0, 201},  // integers whose sums and products fit 32 bits
    {-1.0f, 2.0f, 0, 0, 4},       // indices into small dimensions
    {0.5f, 1.0f, 0, 0, 4},        // operands of roots and logarithms
    {0.5f, 1.0f, 1, 1, 3},        // divisors
    {0.5f, 1.0f, 0, 0, 1},        // indices into dimensions of size 1
}};
/// The limit for all buffers of a probe together.
inline constexpr uint64_t kMaxProbeBytes = uint64_t{64} << 20;

struct Probe {
  /// Elements of one written buffer.
  struct Samples {
    uint32_t buffer = 0;            // parameter of the kernel
    std::vector<uint32_t> at;       // indices of elements of the plan buffer's dtype
    std::vector<double> values;     // for floats: the expected values ...
    std::vector<double> tolerance;  // ... and the largest allowed differences from them
    std::vector<int64_t> exact;     // for integers and bools: the expected values
    friend bool operator==(const Samples&, const Samples&) = default;
  };
  std::string skipped;             // if not empty: why there is no probe; the rest is empty then
  uint32_t step = 0;               // of the plan: a launch of the kernel, for its buffers
  std::array<uint32_t, 3> grid{};  // workgroups
  std::vector<int32_t> scalars;    // one per scalar parameter
  std::vector<uint64_t> bytes;     // per buffer parameter; equal for those of one plan buffer
  uint8_t inputs = 0;              // row of kProbeInputs
  /// Every workgroup was interpreted, so the kernel must not report an error. Otherwise a workgroup
  /// that was not interpreted may report one, because the inputs were not chosen for it.
  bool complete = false;
  std::vector<Samples> samples;
  friend bool operator==(const Probe&, const Probe&) = default;
};

/// The value of an element of a float dtype with these bits.
double real_of(DType dtype, uint64_t bits);
/// The value of an element of an integer dtype or Bool with these bits.
int64_t integer_of(DType dtype, uint64_t bits);

/// Checks that the probe fits the kernel, its launch and their buffers.
Status verify_probe(const Plan& p, uint32_t kernel, const Probe& probe);

/// The first parameter of the launch that is bound to the same buffer as parameter `i`.
size_t first_binding(const Launch& launch, size_t i);
/// Whether the launch writes the buffer of parameter `i` and reads it by no other parameter.
bool is_only_written(const Launch& launch, size_t i);

/// The contents of a probe's buffer before the launch. Element i is entry i mod 4093 of a table of
/// random numbers in the range of the row. Each parameter has its own table. The bits of buffers
/// that are only written are inverted, so that a kernel that writes nothing does not pass by
/// chance.
class ProbeFill {
 public:
  /// `parameter` is the first one that the buffer is bound to.
  ProbeFill(const ProbeInputs& row, size_t parameter, DType dtype, bool only_written);
  /// Writes the contents from byte `offset` on, a multiple of the element's size, to `out`.
  void write(uint64_t offset, std::span<std::byte> out) const;
  /// The contents repeat after this many bytes, a multiple of the element's size and of 4.
  size_t period() const;

 private:
  size_t size_;
  std::vector<std::byte> table_;
};

}  // namespace reprise::plan
