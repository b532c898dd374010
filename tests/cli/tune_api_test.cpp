// Tuning through the public interface.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string_view>

#include "reprise/compiler.h"
#include "tests/support/tuning.h"

namespace reprise::test {
namespace {

struct Device {
  reprise_device* handle = nullptr;
  Device() { reprise_device_open("vulkan", nullptr, &handle, nullptr); }
  ~Device() { reprise_device_free(handle); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
};

/// A model whose kernel has several schedules on devices of every kind.
void write_tanh(const std::string& path) {
  OnnxWriter w;
  w.input("x", DType::F32, {24, 40}).output("y", DType::F32, {24, 40});
  w.node("Tanh", {"x"}, {"y"});
  write_file(path, w.bytes());
}

TEST(TuneApi, APackageHasTheMeasuredSchedules) {
  const TempDir dir;
  const std::string path = dir / "m.onnx", cache = dir / "cache";
  write_tanh(path);
  const Device device;
  if (!device.handle) GTEST_SKIP() << "no Vulkan device";
  std::vector<float> values(24 * 40, 0.5F);
  reprise_tensor x = REPRISE_TENSOR_INIT;
  x.name = "x";
  x.rank = 2;
  x.dims[0] = 24;
  x.dims[1] = 40;
  x.data = values.data();
  x.bytes = values.size() * sizeof(float);
  reprise_tune_options tuning = REPRISE_TUNE_OPTIONS_INIT;
  tuning.device = device.handle;
  tuning.inputs = &x;
  tuning.input_count = 1;
  tuning.seconds = 0.001;
  tuning.cache_dir = cache.c_str();
  std::string said;
  tuning.log_user = &said;
  tuning.log = [](void* user, reprise_severity, const char* line) {
    static_cast<std::string*>(user)->append(line) += "\n";
  };
  reprise_package* package = nullptr;
  reprise_error error{};
  ASSERT_EQ(reprise_tune_file(path.c_str(), nullptr, &tuning, &package, &error), REPRISE_OK)
      << error.message;
  EXPECT_NE(said.find("schedules 1 of"), std::string::npos) << said;
  reprise_package_free(package);
  // The same model in memory has the choices that are kept, so nothing is measured.
  const std::string model = read_file(path);
  said.clear();
  ASSERT_EQ(reprise_tune_memory(model.data(), model.size(), nullptr, &tuning, &package, &error),
            REPRISE_OK)
      << error.message;
  EXPECT_EQ(said.find("schedules 1 of"), std::string::npos) << said;
  reprise_package_free(package);
  EXPECT_EQ(reprise_tune_memory(nullptr, 0, nullptr, &tuning, &package, &error), REPRISE_USAGE);
  EXPECT_EQ(reprise_tune_file(nullptr, nullptr, &tuning, &package, &error), REPRISE_USAGE);

  // Measuring can be cancelled.
  tuning.cache_dir = nullptr;
  reprise_compile_options options = REPRISE_COMPILE_OPTIONS_INIT;
  for (const char* part : {"candidates", "measuring"}) {
    options.progress_user = const_cast<char*>(part);
    options.progress = [](void* user, const char* what, uint64_t, uint64_t) {
      return std::string_view(what) == static_cast<const char*>(user) ? 1 : 0;
    };
    EXPECT_EQ(reprise_tune_file(path.c_str(), &options, &tuning, &package, &error),
              REPRISE_CANCELLED);
    EXPECT_NE(std::string(error.message).find(part), std::string::npos) << error.message;
  }
  for (const double seconds : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    tuning.seconds = seconds;
    EXPECT_EQ(reprise_tune_file(path.c_str(), nullptr, &tuning, &package, &error), REPRISE_USAGE);
  }
  tuning.seconds = 0.001;
  const std::array<reprise_tensor, 2> twice{x, x};
  tuning.inputs = twice.data();
  tuning.input_count = 2;
  EXPECT_EQ(reprise_tune_file(path.c_str(), nullptr, &tuning, &package, &error),
            REPRISE_INVALID_INPUT);
  EXPECT_NE(std::string(error.message).find("'x' is given twice"), std::string::npos)
      << error.message;
  tuning.inputs = &x;
  tuning.input_count = 1;

  x.bytes -= 1;
  tuning.cache_dir = nullptr;  // so that it measures again
  EXPECT_EQ(reprise_tune_file(path.c_str(), nullptr, &tuning, &package, &error),
            REPRISE_INVALID_INPUT);
  EXPECT_NE(std::string(error.message).find("input 'x' must be float32[24,40]"), std::string::npos)
      << error.message;
  x.name = "y";
  EXPECT_EQ(reprise_tune_file(path.c_str(), nullptr, &tuning, &package, &error),
            REPRISE_INVALID_INPUT);
  tuning.device = nullptr;
  EXPECT_EQ(reprise_tune_file(path.c_str(), nullptr, &tuning, &package, &error), REPRISE_USAGE);
}

}  // namespace
}  // namespace reprise::test
