// The list of faults and slow paths of single drivers, separate from what devices can do. The code
// that works around a row names it, which tests/arch checks. Packages are compiled before their
// devices are known, so most workarounds apply to every Vulkan kernel. DriverTraits has those that
// a backend looks up by driver and version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace reprise {

struct DriverWorkaround {
  std::string_view driver, versions;  // observed to need the workaround
  std::string_view found;             // date
  std::string_view problem;
  std::string_view test;  // a test that fails without it, or the document that has the measurement
};

namespace workarounds {

// --- wrong results ---
inline constexpr DriverWorkaround kProductsWithZero{
    "Mesa llvmpipe", "22.3.6; others were not tried", "2026-11-23",
    "a product with the constant 0 is 0, even of NaN or an infinity",
    "tests/agreement/times_zero.txt"};
inline constexpr DriverWorkaround kQuotientsWithZero{
    "Mesa llvmpipe", "22.3.6", "2026-11-21",
    "a quotient with a constant 0 does not look at the other operand",
    "tests/agreement/divided_by_zero.txt"};
inline constexpr DriverWorkaround kUnrolledCounters{
    "Mesa llvmpipe", "22.3.6; others were not tried", "2026-11-23",
    "unrolling a loop that makes floats of its counter shows products with the constant 0",
    "tests/agreement/resize_of_infinities_in_rows.txt"};
inline constexpr DriverWorkaround kOrderedInt64{
    "Mesa llvmpipe", "22.3.6", "2026-11-23",
    "ordered comparisons of a sign-extended integer with a 64-bit constant are wrong, also where "
    "only unrolling shows the constant, or the integer was converted to a float",
    "tests/agreement/argmax_of_sizes.txt"};
inline constexpr DriverWorkaround kWidenedHalves{
    "Mesa llvmpipe", "26.2.6, not 22.3.6", "2026-12-01",
    "a conversion to fp16 and back is dropped, and with it the rounding",
    "tests/emit/halves_test.cpp"};
inline constexpr DriverWorkaround kRoundedDoubles{
    "Mesa llvmpipe", "22.3.6, on processors without AVX-512", "2026-11-28",
    "RoundEven of the double 1.5 is 1, and from 2^24 on, doubles are not rounded at all: nor by "
    "Floor, Ceil and Trunc",
    "tests/emit/rows_test.cpp"};
inline constexpr DriverWorkaround kFirstComponent{
    "Mesa llvmpipe", "22.3.6", "2026-11-22",
    "a component that is loaded through the pointer of a whole vector is the first one",
    "tests/emit/instructions_test.cpp"};
inline constexpr DriverWorkaround kPointerCasts{
    "SwiftShader", "that of tools/swiftshader", "2026-11-21",
    "pointers cannot be cast to another type", "tests/emit/instructions_test.cpp"};
inline constexpr DriverWorkaround kPreservedFloats{
    "SwiftShader", "that of tools/swiftshader", "2026-11-23",
    "modules with SignedZeroInfNanPreserve lose values that loops carry through extended "
    "instructions, as SPIRV-Tools takes them for constants",
    "tests/agreement/attention_of_constant_scores.txt"};
inline constexpr DriverWorkaround kUnsignedFloats{
    "SwiftShader", "that of tools/swiftshader", "2026-11-29",
    "unsigned integers from 2^31 on are rounded twice as they become floats: their lower 31 bits, "
    "and the sum with 2^31",
    "tests/lower/narrow_test.cpp"};
inline constexpr DriverWorkaround kDeepNesting{
    "Mesa llvmpipe", "22.3.6, 25.0.7", "2026-11-25",
    "conditions that nest more than about 80 deep are wrong, in silence",
    "tests/lower/code_size_test.cpp"};
inline constexpr DriverWorkaround kLongLoops{
    "Mesa llvmpipe", "22.3.6, 25.0.7, 26.2.6", "2026-11-23",
    "all loops of an invocation together end after 65,535 iterations, in silence",
    "tests/agreement/long_loops_test.cpp"};

// --- slow ---
inline constexpr DriverWorkaround kSlowLoads{
    "Mesa llvmpipe", "22.3.6", "2026-11-21",
    "a load through an address loops over lanes: 67 ns for 16 bytes in 8 lanes, 3 ns with 25.0.7",
    "docs/tuning.md"};
inline constexpr DriverWorkaround kBroadcasts{
    "Mesa llvmpipe", "22.3.6", "2026-11-21",
    "a broadcast takes 30 times as long as a shuffle with a constant lane", "docs/tuning.md"};
inline constexpr DriverWorkaround kSharedStores{"Mesa llvmpipe", "not noted", "2026-11-21",
                                                "a store to shared memory is a loop over lanes, "
                                                "one to a local array at a constant place is free",
                                                "docs/tuning.md"};
inline constexpr DriverWorkaround kLongKernels{
    "Mesa llvmpipe", "not noted", "2026-11-21",
    "kernels compile in more than linear time: 0.4 s for 500 flops an element, 4 s for 2,000",
    "docs/tuning.md"};

}  // namespace workarounds

/// The limit of workarounds::kLongLoops, in iterations. The iteration that only evaluates the exit
/// condition counts. No known driver has a lower limit.
inline constexpr uint32_t kLeastLoopLimit = 65535;

/// The limit of workarounds::kDeepNesting, in nested blocks of a kernel, with a margin.
inline constexpr size_t kMaxNestedBlocks = 72;

/// Traits of a device's driver, which a backend derives from its name and version.
struct DriverTraits {
  bool slow_loads = false;           // workarounds::kSlowLoads
  uint32_t max_loop_iterations = 0;  // workarounds::kLongLoops; 0: no limit

  friend bool operator==(const DriverTraits&, const DriverTraits&) = default;
};

}  // namespace reprise
