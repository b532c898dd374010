// The recorded results are right, and other readings of the instruction set would be told apart.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "codegen/emit/cuda/cuda.h"
#include "codegen/interpreter/interpreter.h"
#include "tests/primitives/lib/record.h"
#include "tests/ptx/needs.h"
#include "tests/ptx/ptx_module.h"

namespace reprise::test {
namespace {

constexpr CudaArch kHopper{false, 90, true}, kHopperPtx{true, 90, true};

/// The outputs of the interpreter.
std::vector<std::vector<std::byte>> interpreted(const Primitive& p) {
  std::vector<std::vector<std::byte>> memory = p.launch.buffers;
  for (size_t n = 0; n < p.repeats; ++n) {
    if (n > 0) std::swap(memory[0], memory[1]);
    kernel::Launch launch;
    launch.grid = p.launch.grid;
    launch.buffers.assign(memory.begin(), memory.end());
    launch.scalars = p.launch.scalars;
    const auto done = kernel::interpret(p.kernel, launch, {});
    EXPECT_TRUE(done.ok()) << p.name << ": " << done.status().message();
  }
  memory.erase(memory.begin(), memory.begin() + static_cast<std::ptrdiff_t>(p.inputs));
  return memory;
}

TEST(Primitives, TheExecutorGivesTheBitsOfTheInterpreter) {
  REPRISE_NEEDS_PTX();
  std::set<std::string> names;
  for (const Primitive& p : primitives()) {
    SCOPED_TRACE(p.name);
    EXPECT_TRUE(names.insert(p.name).second);
    const auto results = executed(p, kHopperPtx);
    ASSERT_TRUE(results.ok()) << results.status().message();
    EXPECT_EQ(*results, interpreted(p));
    for (const auto& bytes : *results)
      EXPECT_TRUE(
          std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; }));
  }
  EXPECT_GT(names.size(), 40U);
}

/// Otherwise a device whose result matches one of them would tell nothing.
TEST(Primitives, EveryReadingGivesOtherResultsOrNone) {
  REPRISE_NEEDS_PTX();
  size_t different = 0;
  for (const Primitive& p : primitives()) {
    const auto kernel = emit::cuda(p.kernel);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    const std::string text = emit::cuda_prelude() + *kernel;
    if (p.readings.empty()) continue;
    const auto results = executed(p, kHopperPtx);
    ASSERT_TRUE(results.ok()) << results.status().message();
    for (const Reading& reading : p.readings) {
      const auto other = read_as(text, reading);
      ASSERT_TRUE(other.ok()) << p.name << ": " << other.status().message();
      const auto module = PtxModule::of_text(*other, p.kernel.name, kHopperPtx);
      ASSERT_TRUE(module.ok()) << p.name << ": " << module.status().message();
      const auto others = executed(p, *module);
      EXPECT_TRUE(!others.ok() || *others != *results) << p.name << ": " << reading.name;
      different += others.ok() ? 1 : 0;
    }
  }
  EXPECT_GT(different, 20U);  // most of the others read what nobody wrote
}

TEST(Primitives, AReadingWithoutAPlaceIsAnError) {
  EXPECT_FALSE(read_as("text", {"some", "other", "none"}).ok());
}

TEST(Primitives, AFolderHasWhatADeviceNeeds) {
  REPRISE_NEEDS_PTX();
  const auto folder = std::filesystem::path(testing::TempDir()) / "reprise-primitives";
  std::filesystem::remove_all(folder);
  const Status s = record(folder.string(), kHopper, "");
  ASSERT_TRUE(s.ok()) << s.message();
  size_t packages = 0, bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    bytes += entry.file_size();
    if (entry.path().extension() != ".rpk") continue;
    ++packages;
    const auto package = package::read(entry.path().string());
    ASSERT_TRUE(package.ok()) << package.status().message();
    EXPECT_EQ((*package)->variants[0].predicate.cuda_arch, "sm_90a");
  }
  EXPECT_GT(packages, 80U);
  EXPECT_LT(bytes, size_t{8} << 20);
  EXPECT_TRUE(std::filesystem::is_regular_file(folder / "index.json"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace reprise::test
