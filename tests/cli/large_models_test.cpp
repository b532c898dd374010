// Models of hundreds of megabytes: what of them is in the memory of the process, and when.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "codegen/compile/compiler.h"
#include "runtime/session/session.h"
#include "tests/cli/run_reprise.h"
#include "tests/support/onnx_writer.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

/// Layers of two matrices, each of `rows` x 1024 numbers that no driver can share.
std::string layers(size_t count, int64_t rows) {
  OnnxWriter m;
  m.input("x", DType::F32, {1, 1024}).output("y", DType::F32, {1, 1024});
  std::string from = "x";
  for (size_t i = 0; i < 2 * count; ++i) {
    const bool down = i % 2 == 1;
    const std::string n = std::to_string(i), to = i + 1 == 2 * count ? "y" : "t" + n;
    HostTensor w(DType::F32, {down ? rows : 1024, down ? 1024 : rows});
    float* const data = w.mutable_data<float>();
    for (int64_t e = 0; e < w.count(); e += 61)
      data[e] = static_cast<float>((e * 2654435761 + static_cast<int64_t>(i)) % 1001 - 500) / 1e5F;
    m.initializer("w" + n, w).node("MatMul", {from, "w" + n}, {"m" + n});
    m.node("Tanh", {"m" + n}, {to});
    from = to;
  }
  return m.bytes();
}

/// Layers of weights of 4 bits. Each has 2048 x `columns` numbers.
std::string layers_of_4_bits(size_t count, int64_t columns) {
  constexpr int64_t kRows = 2048, kBlock = 32;
  OnnxWriter m;
  m.input("x", DType::F32, {1, kRows}).output("y", DType::F32, {1, columns});
  std::string from = "x";
  for (size_t i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    HostTensor w(DType::U8, {columns, kRows / kBlock, kBlock / 2});
    for (size_t e = 0; e < w.bytes().size(); ++e)
      w.mutable_bytes()[e] = static_cast<std::byte>((e * 2654435761U >> 7U) + i);
    m.initializer("w" + n, w);
    m.initializer("scales" + n, HostTensor(DType::F32, {columns * kRows / kBlock}));
    OnnxWriter::NodeOptions options{.domain = "com.microsoft"};
    options.attrs.set("K", kRows);
    options.attrs.set("N", columns);
    options.attrs.set("bits", int64_t{4});
    options.attrs.set("block_size", kBlock);
    m.node("MatMulNBits", {"x", "w" + n, "scales" + n}, {"m" + n}, options);
    if (i == 0) {
      from = "m0";
      continue;
    }
    const std::string to = i + 1 == count ? "y" : "s" + n;
    m.node("Add", {from, "m" + n}, {to});
    from = to;
  }
  return m.bytes();
}

/// The most memory that the command line had, in bytes.
uint64_t peak_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program("reprise"));
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<char*> argv;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    const int null = ::open("/dev/null", O_WRONLY);
    ::dup2(null, STDOUT_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  int status = -1;
  rusage used{};
  EXPECT_EQ(::wait4(child, &status, 0, &used), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return static_cast<uint64_t>(used.ru_maxrss) * 1024;
}

class LargeModels : public testing::Test {
 protected:
  TempDir dir_;
  const std::string model_ = dir_ / "m.onnx";
  static constexpr uint64_t kMatrix = uint64_t{4096} * 1024 * 4;
};

/// Weights stay in the model's file, which is read again when a session needs them.
TEST_F(LargeModels, LeaveTheirWeightsInTheFile) {
  write_file(model_, layers(3, 4096));
  auto compiled = compile_file(model_, {});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  size_t in_file = 0;
  for (const HostTensor& w : compiled->weights) in_file += w.count() > 0 && w.bytes().empty();
  EXPECT_EQ(in_file, 6U);
  auto package = std::make_shared<const package::Package>(std::move(*compiled));
  EXPECT_TRUE(package::verify_weights(*package).ok());
  const HostTensor x = HostTensor::from(DType::F32, {1, 1024}, std::vector<float>(1024, 0.5F));
  const auto run = [&]() -> Result<std::vector<HostTensor>> {
    RP_ASSIGN(const auto session, Session::create(package, nullptr));
    return session->run(std::vector<Binding>{{.name = "x", .host = &x}});
  };
  const auto first = run();
  ASSERT_TRUE(first.ok()) << first.status().message();

  // The model may be removed, and a package saved, but not changed.
  const std::string saved = dir_ / "m.rpk";
  fs::rename(model_, model_ + ".old");
  ASSERT_TRUE(package::write(*package, saved).ok());
  const auto again = run();
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(std::memcmp(first->front().bytes().data(), again->front().bytes().data(), 4096), 0);
  const auto read = package::read(saved);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_TRUE(package::verify_weights(**read).ok());
  {
    std::fstream file(model_ + ".old", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(kMatrix));
    file.write("changed", 7);
  }
  const auto changed = run();
  EXPECT_EQ(changed.status().code(), Code::CorruptPackage);
  EXPECT_NE(changed.status().message().find("changed"), std::string::npos)
      << changed.status().message();
}

TEST_F(LargeModels, SmallOnesAreKeptInMemory) {
  write_file(model_, layers(1, 1024));
  const auto compiled = compile_file(model_, {});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  for (const HostTensor& w : compiled->weights) EXPECT_FALSE(w.bytes().empty());
}

/// Numbers of 4 bits have a byte each while the model is compiled, and are unpacked once: for the
/// host and for devices together.
TEST_F(LargeModels, HaveWeightsOfFewBitsInMemoryOnce) {
  constexpr size_t kLayers = 16;
  constexpr uint64_t kWeights = kLayers * 2048 * 4096 / 2;
  write_file(dir_ / "small.onnx", layers_of_4_bits(kLayers, 8));
  write_file(model_, layers_of_4_bits(kLayers, 4096));
  const auto peak = [&](const std::string& name) {
    return peak_of({"compile", name + ".onnx", "-o", name + ".rpk", "--no-probes"});
  };
  const uint64_t small = peak((dir_ / "small").string());
  const uint64_t large = peak((dir_ / "m").string());
  std::printf("%zu MB of weights, peak %zu MB, of a small model %zu MB\n",
              static_cast<size_t>(kWeights >> 20), static_cast<size_t>(large >> 20),
              static_cast<size_t>(small >> 20));
  // Two as bytes, one and an eighth for the scales in the model, and what the compiler reads.
  EXPECT_LE(large, small + 48 * kWeights / 10);
}

/// On a driver whose memory is that of the process, the weights are there once.
TEST_F(LargeModels, FullAreInMemoryOnce) {
  constexpr size_t kLayers = 16;
  constexpr uint64_t kWeights = 2 * kLayers * kMatrix, kAllowed = kWeights * 15 / 100;
  write_file(dir_ / "small.onnx", layers(kLayers, 8));
  write_file(model_, layers(kLayers, 4096));
  for (const std::string& name : {(dir_ / "small").string(), (dir_ / "m").string()})
    ASSERT_EQ(reprise({"compile", name + ".onnx", "-o", name + ".rpk", "--no-probes"}).status, 0);
  for (const char* kind : {".rpk", ".onnx"}) {
    const uint64_t small = peak_of({"run", (dir_ / "small").string() + kind, "--device", "vulkan"});
    const uint64_t large = peak_of({"run", (dir_ / "m").string() + kind, "--device", "vulkan"});
    std::printf("%s: %zu MB of weights, peak %zu MB, of a small model %zu MB\n", kind,
                static_cast<size_t>(kWeights >> 20), static_cast<size_t>(large >> 20),
                static_cast<size_t>(small >> 20));
    EXPECT_LE(large, kWeights + kAllowed + small) << kind;
  }
}

}  // namespace
}  // namespace reprise::test
