#include "backends/vulkan/float_modes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <spirv-tools/libspirv.hpp>

#include "codegen/emit/spirv/spirv.h"
#include "codegen/kernel/build/builder.h"

namespace reprise::vulkan {
namespace {

using kernel::Access;
using kernel::Ty;
using Words = std::vector<uint32_t>;

/// A module that computes with floats of 32 bits and, if `half`, of 16. It converts to halves
/// without rounding; or else, if `rounds`, as the mode says.
Words module_of(bool half, bool rounds = false) {
  kernel::Builder b("modes");
  const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
  kernel::Val v = b.load(x, b.i32(0));
  const auto halved = [&] { return b.convert(v, Ty::F16, !rounds); };
  if (half) v = b.convert(b.add(halved(), halved()), Ty::F32);
  b.store(y, b.i32(0), b.add(v, v));
  const auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  auto words = emit::spirv(*k, {});
  EXPECT_TRUE(words.ok()) << words.status().message();
  return *words;
}

FloatModes preserving(bool f16, bool f32) {
  return {.special_values = {.f16 = f16, .f32 = f32}};
}

std::string text_of(const Words& words) {
  std::string text;
  const spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_1);
  EXPECT_TRUE(tools.Disassemble(words, &text, SPV_BINARY_TO_TEXT_OPTION_NO_HEADER));
  EXPECT_TRUE(tools.Validate(words));
  return text;
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(FloatModes, StayWhereTheDeviceSupportsThem) {
  const Words both = module_of(true), single = module_of(false);
  EXPECT_EQ(count(text_of(both), "SignedZeroInfNanPreserve 16"), 1U);
  EXPECT_EQ(count(text_of(both), "SignedZeroInfNanPreserve 32"), 1U);
  EXPECT_EQ(count(text_of(single), "SignedZeroInfNanPreserve 16"), 0U);
  EXPECT_EQ(with_supported_modes(both, preserving(true, true)), both);
  EXPECT_EQ(with_supported_modes(single, preserving(false, true)), single);
}

TEST(FloatModes, GoWhereItDoesNot) {
  const Words both = module_of(true);
  const std::string f32 = text_of(with_supported_modes(both, preserving(false, true)));
  EXPECT_EQ(count(f32, "SignedZeroInfNanPreserve 16"), 0U);
  EXPECT_EQ(count(f32, "SignedZeroInfNanPreserve 32"), 1U);
  EXPECT_EQ(count(f32, "OpCapability SignedZeroInfNanPreserve"), 1U);
  const Words none = with_supported_modes(both, {});
  EXPECT_EQ(count(text_of(none), "SignedZeroInfNanPreserve"), 0U);
  EXPECT_EQ(none.size(), both.size() - 2 * 4 - 2);  // two modes and the capability
}

TEST(FloatModes, OfRoundingGoOneByOne) {
  const Words rounding = module_of(true, true);
  const auto modes = [&](const FloatModes& supported) {
    const std::string text = text_of(with_supported_modes(rounding, supported));
    std::string out;
    for (const char* mode : {"DenormPreserve", "RoundingModeRTE", "SignedZeroInfNanPreserve"}) {
      const std::string name = mode;
      const size_t found = count(text, " " + name + " 16");
      EXPECT_EQ(found, count(text, "OpCapability " + name)) << text;
      out += found != 0 ? name + " " : "";
    }
    return out;
  };
  const FloatWidths halves{.f16 = true};
  EXPECT_EQ(with_supported_modes(rounding, {halves, halves, halves}).size(),
            rounding.size() - 3 * 4);
  EXPECT_EQ(modes({halves, halves, halves}),
            "DenormPreserve RoundingModeRTE SignedZeroInfNanPreserve ");
  EXPECT_EQ(modes({.nearest = halves}), "RoundingModeRTE ");
  EXPECT_EQ(modes({.subnormals = halves}), "DenormPreserve ");
  EXPECT_EQ(modes({}), "");
}

TEST(FloatModes, DamagedModulesStayAsTheyAre) {
  Words words = module_of(true);
  words[5] &= 0xffffU;  // an instruction of no words
  EXPECT_EQ(with_supported_modes(words, {}), words);
  words.resize(3);
  EXPECT_EQ(with_supported_modes(words, {}), words);
  EXPECT_TRUE(with_supported_modes({}, {}).empty());
}

}  // namespace
}  // namespace reprise::vulkan
