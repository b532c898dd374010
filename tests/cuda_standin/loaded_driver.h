// The stand-in driver as an application has it: loaded at run time, called through a table.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/cuda/api.h"
#include "codegen/kernel/ir/kernel.h"
#include "tests/cuda_standin/control.h"

namespace reprise::test {

using namespace cuda;  // NOLINT(google-build-using-namespace): the driver's own names

/// The driver's functions, by their names.
struct DriverApi {
  // NOLINTBEGIN(bugprone-macro-parentheses): a declaration and its name take no parentheses.
#define REPRISE_MEMBER(name, parameters) CUresult(*name) parameters = nullptr;
  REPRISE_CUDA_SYMBOLS(REPRISE_MEMBER)
  REPRISE_CUDA_OPTIONAL_SYMBOLS(REPRISE_MEMBER)
#undef REPRISE_MEMBER
  // NOLINTEND(bugprone-macro-parentheses)
  standin::Control control = nullptr;
  standin::Stats stats = nullptr;
  standin::Lines lines = nullptr;
  standin::KeepText keep_text = nullptr;
  std::string problem;  // why it could not be loaded

  static const DriverApi& get();
};

/// A kernel's text, and an image that the driver takes for it.
std::string cuda_text(const kernel::Kernel& k);
std::vector<std::byte> image_of(const std::string& head, const std::string& text);
std::string ptx(int arch, int version = 8);
/// The header of a cubin, without any section.
std::string cubin(unsigned flags, unsigned char abi_version);

// Kernels of 64 invocations a workgroup, one element each.
kernel::Kernel fill_kernel(const std::string& name = "fill");  // y[i] = value; (y), value
kernel::Kernel add_kernel(const std::string& name = "add");    // y[i] = x[i] + 1; (x, y)
kernel::Kernel shifted_kernel();                               // y[i + by] = 1; (y), by
kernel::Kernel reverse_kernel();  // y[i] = x of the mirrored place in the workgroup; (x, y)
inline constexpr unsigned kGroup = 64;

/// Settings are the defaults at the start of a test; a primary context is current.
class StandinTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  /// Sets a knob and fails the test if it is not understood.
  void set(const char* key, const std::string& value);
  unsigned long long stat(const std::string& key) const { return api.stats(key.c_str()); }
  /// What the driver has said since the test, or its last SetUp(), began. It is printed for tests
  /// that fail, and for those alone.
  std::string log() const { return api.lines(); }

  CUfunction load(const kernel::Kernel& k);
  CUdeviceptr allocate(size_t bytes);
  std::vector<float> read(CUdeviceptr from, size_t n);
  void write(CUdeviceptr to, const std::vector<float>& values);
  CUresult synchronize() { return api.cuStreamSynchronize(stream); }

  const DriverApi& api = DriverApi::get();
  CUstream stream = nullptr;
  CUcontext context = nullptr;

 private:
  std::vector<CUmodule> modules_;
  std::vector<CUdeviceptr> memory_;
};

/// A graph under construction.
class GraphBuilder {
 public:
  explicit GraphBuilder(const DriverApi& api) : api_(api) {
    EXPECT_EQ(api_.cuGraphCreate(&graph_, 0), CUDA_SUCCESS);
  }
  ~GraphBuilder() {
    if (exec_ != nullptr) api_.cuGraphExecDestroy(exec_);
    api_.cuGraphDestroy(graph_);
  }
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  /// A kernel over `n` elements, with buffers and one scalar.
  CUgraphNode kernel(CUfunction f, const std::vector<CUdeviceptr>& buffers, size_t n,
                     uint32_t scalar, const std::vector<CUgraphNode>& after);
  CUgraphNode copy(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                   const std::vector<CUgraphNode>& after, CUcontext context);
  CUresult update(CUgraphNode node, CUfunction f, const std::vector<CUdeviceptr>& buffers, size_t n,
                  uint32_t scalar);
  CUgraphExec instantiate();
  CUgraphExec exec() const { return exec_; }
  CUgraph graph() const { return graph_; }

 private:
  const DriverApi& api_;
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
};

/// A launch's parameter block, and what points to it.
class Params {
 public:
  Params(CUfunction f, const std::vector<CUdeviceptr>& buffers, size_t n, uint32_t scalar);
  CUDA_KERNEL_NODE_PARAMS params{};

 private:
  std::vector<uint64_t> block_;
  void* pointer_ = nullptr;
};

inline uint32_t bits_of(float v) {
  uint32_t bits = 0;
  std::memcpy(&bits, &v, sizeof bits);
  return bits;
}

}  // namespace reprise::test
