// Writes small ONNX models and tensor files for tests and benchmarks, straight in protobuf's wire
// format, so that nothing is shared with the importer that reads them. Writes what it is told:
// invalid models are wanted too.
#pragma once

#include <initializer_list>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/tensor.h"
#include "runtime/operators/attrs.h"

namespace reprise::test {

/// A dimension of an input or output: a number, or a symbol's name.
using Dim = std::variant<int64_t, std::string>;

/// The number that ONNX gives an element type.
int32_t onnx_type(DType t);

class OnnxWriter {
 public:
  explicit OnnxWriter(int64_t opset = 17) : opset_(opset) {}

  OnnxWriter& input(const std::string& name, DType dtype, const std::vector<Dim>& dims);
  OnnxWriter& output(const std::string& name, DType dtype, const std::vector<Dim>& dims);
  OnnxWriter& initializer(const std::string& name, const HostTensor& tensor);
  /// An initialiser that claims dims that its data does not have.
  OnnxWriter& raw_initializer(const std::string& name, DType dtype,
                              const std::vector<int64_t>& dims, const std::string& bytes);
  struct NodeOptions {
    std::string name = {};
    std::string domain = {};
    AttrMap attrs = {};
  };
  OnnxWriter& node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<std::string>& outputs, const NodeOptions& options);
  OnnxWriter& node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<std::string>& outputs) {
    return node(op, inputs, outputs, NodeOptions());
  }

  /// The model file.
  std::string bytes() const;

 private:
  int64_t opset_;
  std::string nodes_, initializers_, inputs_, outputs_;
  std::vector<std::string> domains_;
};

/// A TensorProto file, as the ONNX suite stores inputs and outputs.
std::string onnx_tensor(const HostTensor& tensor, const std::string& name = {});

/// A float tensor from a formula of the element's index.
HostTensor float_tensor(const std::vector<int64_t>& dims, float scale = 1.0f, float offset = 0.0f);
HostTensor int64_tensor(const std::vector<int64_t>& dims, const std::vector<int64_t>& values);

}  // namespace reprise::test
