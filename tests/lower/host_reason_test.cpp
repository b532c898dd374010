// The reason why a node runs on the host is true: sizes depend on data only where they do.
#include <gtest/gtest.h>

#include "codegen/lower/fuse/fuse.h"
#include "codegen/passes/pass.h"

namespace reprise {
namespace {

struct ReasonCase {
  const char* name;
  const char* text;
  const char* reason;  // "": every node has a device form
};

void PrintTo(const ReasonCase& c, std::ostream* os) {
  *os << c.name;
}

class HostReason : public testing::TestWithParam<ReasonCase> {};

TEST_P(HostReason, IsTheTrueOne) {
  auto g = graph::parse(GetParam().text);
  ASSERT_TRUE(g.ok()) << g.status().message();
  for (const passes::Pass& p : passes::pipeline()) ASSERT_TRUE(passes::run(p, **g).ok()) << p.name;
  Predicate device;
  device.needs_float64 = true;
  const auto fusion = lower::fuse(**g, {.device = device});
  ASSERT_TRUE(fusion.ok()) << fusion.status().message();
  std::string reasons;
  for (const lower::Group& group : fusion->groups) {
    if (group.kind == lower::GroupKind::Host) reasons += group.host_reason;
  }
  EXPECT_EQ(reasons, GetParam().reason);
}

const ReasonCase kReasons[] = {
    {"IntegerPow", "input x: int32[4], e: int32[4]\ny = Pow(x, e) @15\noutput y", ""},
    {"IntegerPowOfOtherTypes", "input x: int8[4], e: int64[4]\ny = Pow(x, e) @15\noutput y", ""},
    {"IntegerPowByFloats", "input x: int32[n], e: float32[n]\ny = Pow(x, e) @15\noutput y",
     "the power of an integer by a float needs float64"},
    {"PowOfUint64", "input x: uint64[n], e: int32[n]\ny = Pow(x, e) @15\noutput y",
     "'x' has dtype uint64, which has no device form"},
    {"CumSumOfKnownAxis",
     "input x: float32[n,4]\nconst a: int64[]{1}\ny = CumSum(x, a) @14\noutput y", ""},
    {"CumSumOfAnAxisThatIsGiven",
     "input x: float32[n,4], a: int64[]\ny = CumSum(x, a) @14\noutput y", ""},
    {"CumSumOfOneOfManyAxes",
     "input x: float32[n,4,2,2,2], a: int64[]\ny = CumSum(x, a) @14\noutput y",
     "its axis is known only in a run, and kernels try at most 4 axes"},
    {"Antialias",
     "input x: float32[n,2,9,9]\nconst s: float32[4]{1, 1, 0.5, 0.3}\n"
     "y = Resize<mode=\"cubic\", antialias=1>(x, _, s) @18\noutput y",
     ""},
    {"AntialiasOfVaryingSize",
     "input x: float32[1,2,n,9]\nconst s: float32[4]{1, 1, 0.5, 0.3}\n"
     "y = Resize<mode=\"linear\", antialias=1>(x, _, s) @18\noutput y",
     "the size of axis 2 varies, and kernels need the weights of antialiasing"},
    {"AntialiasOfIntegers",
     "input x: uint8[1,2,9,9]\nconst s: float32[4]{1, 1, 0.5, 0.3}\n"
     "y = Resize<mode=\"linear\", antialias=1>(x, _, s) @18\noutput y",
     "interpolated integers are rounded, which needs float64"},
    {"CropAndResize",
     "input x: float32[1,1,9,9]\nconst r: float32[8]{0, 0, 0, 0, 1, 1, 1, 1}\n"
     "const s: float32[4]{1, 1, 0.5, 0.5}\n"
     "y = Resize<coordinate_transformation_mode=\"tf_crop_and_resize\">(x, r, s) @18\noutput y",
     "tf_crop_and_resize has no device form"},
    {"SizesThatDependOnData",
     "input x: float32[1,1,9,9], s: float32[4]\ny = Resize<mode=\"linear\">(x, _, s) @18\noutput y",
     "the sizes of Resize depend on data"},
    {"SizesThatMayBeOne",
     "input x: float32[1,1,n,9]\nconst s: float32[4]{1, 1, 2, 2}\n"
     "y = Resize<mode=\"linear\", coordinate_transformation_mode=\"pytorch_half_pixel\">(x, _, s) "
     "@18\n"
     "output y",
     "the size of axis 2 varies, and may be 1; --range n=MIN..MAX limits it"},
    {"BoxesOfAnyNumber",
     "input b: float32[1,n,4], s: float32[1,2,n]\nconst k: int64[]{9999}\n"
     "y = NonMaxSuppression(b, s, k) @11\noutput y",
     "more than 896 boxes of a class may be selected, for which kernels have no room; "
     "--range n=MIN..MAX limits it"},
    {"Dft", "input x: float32[2,16,1]\ny = DFT<axis=1>(x) @17\noutput y", ""},
    {"DftOfVaryingLength", "input x: float32[2,n,1]\ny = DFT<axis=1>(x) @17\noutput y",
     "kernels need the length of a transform when they are compiled; --shape fixes it"},
    {"DftOfAPrimeLength", "input x: float32[2,8009,1]\ny = DFT<axis=1>(x) @17\noutput y",
     "the length 8009 is not a product of factors of at most 512"},
    {"Diagonal", "input x: float32[4,4]\ny = Einsum<equation=\"ii->i\">(x) @12\noutput y",
     "a diagonal has no device form"},
    {"LogSumOfIntegers", "input x: int32[4,4]\ny = ReduceLogSum<axes=[1]>(x) @13\noutput y",
     "no kernel computes logarithms of integers"},
    {"Strings", "input x: string[4]\ny = StringNormalizer(x) @10\noutput y",
     "the sizes of StringNormalizer depend on data"},
};
INSTANTIATE_TEST_SUITE_P(Cases, HostReason, testing::ValuesIn(kReasons),
                         [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace reprise
