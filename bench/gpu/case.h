// A case to measure: its data, our model of it, its expected results, and a description for peers
// that compute the same.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "bench/harness.h"
#include "runtime/base/tensor.h"

namespace reprise::bench::gpu {

struct Operand {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
  bool constant = false;  // a part of the model, not an input
  double scale = 1;       // the values are in [-scale, scale)
};

/// Generates values that depend only on name and index. They have no period, so a wrong stride does
/// not read the same values by chance.
HostTensor made_up(const Operand& operand);
double value_at(const HostTensor& tensor, int64_t index);
uint64_t bytes_of(const Operand& operand);
int64_t count_of(const std::vector<int64_t>& dims);

/// The expected value of an element of an output, computed on the host in double.
struct Sample {
  size_t output = 0;
  int64_t index = 0;
  double value = 0;
};
using Samples = std::vector<Sample>;
using Tensors = std::vector<HostTensor>;

// The computations of peers. They take the operands in order.
struct CopyOp {};  // y = x
struct GemmOp {    // y[m, n] = x[m, k] w[k, n]
  int64_t m = 0, n = 0, k = 0;
};
struct SoftmaxOp {  // softmax of each row
  int64_t rows = 0, columns = 0;
};
struct ConvOp {  // convolution of one square image in NCHW
  int64_t channels = 0, filters = 0, size = 0, kernel = 1, stride = 1, pad = 0;
  int64_t out() const { return (size + 2 * pad - kernel) / stride + 1; }
};
struct ReplayOp {  // a chain of tiny kernels
  size_t launches = 0;
};
using PeerOp = std::variant<std::monostate, CopyOp, GemmOp, SoftmaxOp, ConvOp, ReplayOp>;

struct Case {
  std::string name, group;
  DType dtype = DType::F32;  // in which the case computes
  // Of a run; the rate is that of the one that is set. Operations are what the name says.
  double flops = 0, bytes = 0, operations = 0;
  std::vector<Operand> operands = {};
  std::vector<std::vector<int64_t>> outputs = {};  // dims
  PeerOp peer = {};
  std::string skip = {};                       // if not empty: why it cannot be measured
  std::function<Result<Tensors>()> load = {};  // the operands' values; unset: generate them
  /// Why a device cannot compute the case; empty if it can. Unset: every device can.
  std::function<std::string(const DeviceFacts&)> unfit = {};
  /// Compiles the case, with the given schedules if the options choose them.
  std::function<Result<PackagePtr>(const Tensors&, const DeviceInfo&, const CompileOptions&)>
      package = {};
  std::function<Samples(const Tensors&)> expected = {};
};

/// The largest allowed deviation from the samples, as a fraction of the largest sample.
double tolerance_of(DType dtype);

struct Sizes {
  bool quick = false;
  std::string models;  // folder of the model cases
};
/// What the parts of a device can do: memory, caches, arithmetic, latency, barriers.
std::vector<Case> constant_cases(bool quick);
/// All cases, in order.
std::vector<Case> all_cases(const Sizes& sizes);
/// Those whose schedules are worth the minutes on a device, the ones that tell most first.
std::vector<Case> tuned_cases(const Sizes& sizes);
/// The case of a model in the layout of the ONNX suite. If it is missing, `skip` says so.
Case model_case(const std::string& folder, const std::string& name, DType precision);

}  // namespace reprise::bench::gpu
