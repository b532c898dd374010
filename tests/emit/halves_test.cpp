// Conversions to fp16 around every half: native ones, where a device rounds them as kernels ask,
// and those that are computed from the bits. Both must give the half that is nearest, ties to even,
// subnormal numbers and overflow included.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "codegen/kernel/build/builder.h"
#include "runtime/base/dtype.h"
#include "tests/emit/spirv_tools.h"
#include "tests/emit/vulkan_runner.h"

namespace reprise::test {
namespace {

using kernel::Access;
using kernel::Builder;
using kernel::Builtin;
using kernel::Kernel;
using kernel::LegalizeFor;
using kernel::Ty;
using kernel::Val;

constexpr uint32_t kWorkgroup = 64;

/// Each half, the value halfway to the next one, and the floats around both.
std::vector<float> neighbourhoods() {
  std::vector<float> out;
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const float at = f16_to_float(static_cast<uint16_t>(h));
    const uint32_t bits = std::bit_cast<uint32_t>(at);
    // Halves have 13 bits fewer; below their normal numbers, a float between two is their mean.
    const auto next = static_cast<uint16_t>(h + 1);
    const float after = (h & 0x7fffU) < 0x7bffU ? f16_to_float(next) : std::ldexp(at, 1);
    const float middle = std::isfinite(at) && std::isfinite(after) ? at + (after - at) / 2 : at;
    const uint32_t tie = (h & 0x7fffU) == 0x7bffU ? bits + 0x1000 : std::bit_cast<uint32_t>(middle);
    for (const uint32_t b : {bits, bits + 1, tie - 1, tie, tie + 1})
      out.push_back(std::bit_cast<float>(b));
  }
  for (const float v :
       {1e30F, -1e30F, 0x1p-25F, -0x1p-25F, 0x1.8p-25F, 1e-40F, 65519.996F, 65520.0F})
    out.push_back(v);
  out.resize((out.size() + 8 * kWorkgroup - 1) / (8 * kWorkgroup) * 8 * kWorkgroup);
  return out;
}

/// Converts 8 floats in each invocation, `lanes` at a time. The halves are stored; or, if they are
/// `used_on`, so are the floats that they become.
Kernel conversion(int lanes, bool used_on) {
  Builder b("halves" + std::to_string(lanes));
  b.set_workgroup(kWorkgroup);
  const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::F16, Access::Write),
            back = b.buffer("back", Ty::F32, Access::Write);
  const Val first = b.mul(b.convert(b.builtin(Builtin::GlobalId), Ty::I32), b.i32(8));
  for (int n = 0; n < 8; n += lanes) {
    const Val at = b.add(first, b.i32(n));
    const auto align = static_cast<uint32_t>(lanes);
    const Val half = b.convert(b.load(x, at, lanes, align), Ty::F16);
    b.store(y, at, half, align);
    if (used_on) b.store(back, at, b.convert(half, Ty::F32), align);
  }
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  return std::move(*k);
}

Launch launch_of(const std::vector<float>& values) {
  Launch l;
  l.grid = {static_cast<uint32_t>(values.size()) / (8 * kWorkgroup), 1, 1};
  l.buffers = {std::vector<std::byte>(4 * values.size()), std::vector<std::byte>(2 * values.size()),
               std::vector<std::byte>(4 * values.size())};
  std::memcpy(l.buffers[0].data(), values.data(), 4 * values.size());
  return l;
}

void expect_nearest(const std::vector<float>& values, const Launch& got, bool used_on) {
  size_t wrong = 0;
  for (size_t n = 0; n < values.size() && wrong < 10; ++n) {
    const auto half = static_cast<uint16_t>(element(got.buffers[1], Ty::F16, n));
    const auto back = static_cast<uint32_t>(element(got.buffers[2], Ty::F32, n));
    const uint16_t nearest = float_to_f16(values[n]);
    const float widened = f16_to_float(nearest);
    const bool right =
        std::isnan(values[n])
            ? std::isnan(f16_to_float(half)) && (!used_on || std::isnan(std::bit_cast<float>(back)))
            : half == nearest && (!used_on || back == std::bit_cast<uint32_t>(widened));
    if (right) continue;
    ++wrong;
    ADD_FAILURE() << values[n] << " (" << std::bit_cast<uint32_t>(values[n]) << ") became " << half
                  << " and " << back << ", not " << nearest;
  }
}

/// Runs the kernel on all devices that have what it needs, and returns on how many.
size_t runs(const Kernel& k, const std::vector<float>& values, bool used_on) {
  const auto words = emit_valid(k);
  EXPECT_TRUE(words.ok()) << words.status().message();
  const auto runners = vulkan_runners();
  EXPECT_TRUE(runners.ok()) << runners.status().message();
  if (!words.ok() || !runners.ok()) return 0;
  const bool native = kernel::requirements(k).exact_halves;
  const std::string text = disassemble(*words);
  for (const char* mode : {"RoundingModeRTE 16", "DenormPreserve 16"})
    EXPECT_EQ(text.find(mode) != std::string::npos, native) << text;
  size_t count = 0;
  for (VulkanRunner* runner : *runners) {
    if (!runner->supports(kernel::requirements(k))) continue;
    SCOPED_TRACE(runner->facts().name + (native ? ", native" : ", computed"));
    Launch l = launch_of(values);
    const Status ran = runner->run(*words, l);
    EXPECT_TRUE(ran.ok()) << ran.message();
    expect_nearest(values, l, used_on);
    ++count;
  }
  return count;
}

TEST(Halves, AreTheNearestAroundEachOfThem) {
  const std::vector<float> values = neighbourhoods();
  const LegalizeFor computed{.long_vectors = false, .joins_accesses = true};
  LegalizeFor native = computed;
  native.exact_halves = true;
  size_t native_runs = 0;
  for (const int lanes : {1, 4}) {
    for (const LegalizeFor& target : {computed, native}) {
      for (const bool used_on : {false, true}) {
        SCOPED_TRACE(std::to_string(lanes) + (used_on ? " lanes, used on" : " lanes"));
        Kernel k = conversion(lanes, used_on);
        ASSERT_TRUE(legalize(k, target).ok());
        EXPECT_EQ(kernel::requirements(k).exact_halves, target.exact_halves && !used_on);
        const size_t count = runs(k, values, used_on);
        native_runs += kernel::requirements(k).exact_halves ? count : 0;
      }
    }
  }
  if (native_runs == 0) GTEST_SKIP() << "no device rounds halves natively";
}

/// A kernel without 16-bit storage may have none of its capabilities.
TEST(Halves, ThatAreOnlyConvertedNeedTheCapability) {
  Builder b("rounds");
  b.set_workgroup(1);
  const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
  const Val half = b.convert(b.load(x, b.i32(0)), Ty::F16, true);
  b.store(y, b.i32(0), b.convert(half, Ty::F32));
  const auto k = b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  const auto words = emit_valid(*k);
  ASSERT_TRUE(words.ok()) << words.status().message();
  EXPECT_NE(disassemble(*words).find("OpCapability Float16"), std::string::npos);
}

/// The values of rows that are computed in F32 are rounded as conversions are.
TEST(Halves, OfRowsAreRoundedByTheDeviceIfTheyAreOnlyStored) {
  for (const bool used_on : {false, true}) {
    Builder b("row");
    b.set_workgroup(1);
    const int x = b.buffer("x", Ty::F16, Access::Read), y = b.buffer("y", Ty::F16, Access::Write);
    const Val root = b.scalar_op(kernel::ScalarOp::Exp, {b.load(x, b.i32(0))});
    b.store(y, b.i32(0), used_on ? b.add(root, root) : root);
    auto k = b.finish();
    ASSERT_TRUE(k.ok()) << k.status().message();
    ASSERT_TRUE(legalize(*k, {.exact_halves = true, .long_vectors = false}).ok());
    EXPECT_EQ(kernel::requirements(*k).exact_halves, !used_on) << kernel::print(*k);
  }
}

}  // namespace
}  // namespace reprise::test
