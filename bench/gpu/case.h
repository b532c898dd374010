// One thing to measure: its data, our model of it, what its results must be, and what peers need to
// know to compute the same.
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
  bool constant = false;  // part of the model, not an input
  double scale = 1;       // values are in [-scale, scale)
};

/// Values that depend on name and index alone, without a period that a wrong stride could hit.
HostTensor made_up(const Operand& operand);
double value_at(const HostTensor& tensor, int64_t index);
uint64_t bytes_of(const Operand& operand);
int64_t count_of(const std::vector<int64_t>& dims);

/// An element of an output, computed on the host in double.
struct Sample {
  size_t output = 0;
  int64_t index = 0;
  double value = 0;
};
using Samples = std::vector<Sample>;
using Tensors = std::vector<HostTensor>;

// What peers compute, on the operands in their order.
struct CopyOp {};  // y = x
struct GemmOp {    // y[m, n] = x[m, k] w[k, n]
  int64_t m = 0, n = 0, k = 0;
};
struct SoftmaxOp {  // of each row
  int64_t rows = 0, columns = 0;
};
struct ConvOp {  // one square image, NCHW
  int64_t channels = 0, filters = 0, size = 0, kernel = 1, stride = 1, pad = 0;
  int64_t out() const { return (size + 2 * pad - kernel) / stride + 1; }
};
struct ReplayOp {  // launches of a chain of tiny kernels
  size_t launches = 0;
};
using PeerOp = std::variant<std::monostate, CopyOp, GemmOp, SoftmaxOp, ConvOp, ReplayOp>;

struct Case {
  std::string name, group;
  DType dtype = DType::F32;     // of what is computed with
  double flops = 0, bytes = 0;  // of a run; the one that is set gives the rate
  std::vector<Operand> operands = {};
  std::vector<std::vector<int64_t>> outputs = {};  // dims
  PeerOp peer = {};
  std::string skip = {};                       // why it cannot be measured
  std::function<Result<Tensors>()> load = {};  // operands' values; unset: made up
  std::function<Result<PackagePtr>(const Tensors&, const DeviceInfo&)> package = {};
  std::function<Samples(const Tensors&)> expected = {};
};

/// Largest deviation from the samples that counts as equal, as a fraction of the largest of them.
double tolerance_of(DType dtype);

struct Sizes {
  bool quick = false;
  std::string models;  // folder of model cases
};
/// Everything that is measured, in order.
std::vector<Case> all_cases(const Sizes& sizes);
/// A model in the layout of the ONNX suite; with a reason in `skip` where it is missing.
Case model_case(const std::string& folder, const std::string& name, DType precision);

}  // namespace reprise::bench::gpu
