// ONNX -> graph IR, through the project's own minimal .proto (decision 14).
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"

namespace reprise::onnx {

struct ImportOptions {
  /// Fixes dynamic input dims: input name -> dims (--shape).
  std::map<std::string, std::vector<int64_t>> shapes;
};

/// Reads a model file. External data is opened inside the model's folder only. Model-local
/// functions are inlined, Constant nodes become constants, every value gets dtype and shape
/// (ops::infer).
Result<std::unique_ptr<graph::Graph>> import_file(const std::string& path,
                                                  const ImportOptions& o = {});
/// From memory; external data is then an error.
Result<std::unique_ptr<graph::Graph>> import_bytes(std::span<const std::byte> bytes,
                                                   const ImportOptions& o = {});

/// A TensorProto file (.pb), as the ONNX suite stores inputs and outputs. `name` may be empty.
struct NamedTensor {
  std::string name;
  HostTensor tensor;
};
Result<NamedTensor> read_tensor_file(const std::string& path);
/// The same from memory, without external data.
Result<NamedTensor> read_tensor_bytes(std::span<const std::byte> bytes);

}  // namespace reprise::onnx
