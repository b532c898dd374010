// Packages with weights for which a device has no room.
#include <gtest/gtest.h>

#include "tests/cli/run_reprise.h"
#include "tests/support/onnx_writer.h"

namespace reprise::test {
namespace {

TEST(LargeWeights, AutoPassesOverDevicesWithoutRoom) {
  const TempDir folder;
  const std::string model = folder / "m.onnx", package = folder / "m.rpk";
  OnnxWriter w;
  w.input("x", DType::F32, {1, 1024}).output("y", DType::F32, {1, 1024});
  w.initializer("w", float_tensor({1024, 1024}, 1e-6F)).node("MatMul", {"x", "w"}, {"y"});
  write_file(model, w.bytes());
  ASSERT_EQ(reprise({"compile", model, "-o", package}).status, 0);
  const auto run_on = [&](const std::string& device) {
    return run_process({program("reprise"), "run", package, "--device", device},
                       {"REPRISE_FAULTS=hide:large-buffers"});
  };
  const std::string reason =
      "weight 'w' (float32[1024,1024]) needs 4194304 bytes, the device "
      "allows buffers of 1048576";
  const ProcessResult chosen = run_on("auto");
  EXPECT_EQ(chosen.status, 0) << chosen.err;
  EXPECT_NE(chosen.err.find("auto: the host"), std::string::npos) << chosen.err;
  EXPECT_NE(chosen.err.find(reason), std::string::npos) << chosen.err;
  const ProcessResult named = run_on("vulkan");
  EXPECT_EQ(named.status, 3) << named.err;
  EXPECT_NE(named.err.find(reason), std::string::npos) << named.err;
}

}  // namespace
}  // namespace reprise::test
