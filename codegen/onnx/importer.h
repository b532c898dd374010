// Imports ONNX models as graph IR. It reads them through a minimal .proto of its own
// (onnx_minimal.proto), in which unusual files reach the importer's checks.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/graph/size_options.h"
#include "codegen/onnx/refusal.h"
#include "runtime/platform/file_bytes.h"

namespace reprise::onnx {

struct ImportOptions {
  /// Fixes dynamic input dims: input name -> dims (--shape).
  std::map<std::string, std::vector<int64_t>> shapes;
  /// Limits the sizes of dynamic dims (--range).
  SizeRanges ranges = {};
  /// If set, the importer adds everything that it refuses to this list and goes on without it. Of a
  /// node that reads the results of refused ones, only the operator is checked, unless the model
  /// declares their types. If the list is not empty afterwards, the graph is the part of the model
  /// that is supported: what nodes lack are inputs, what none reads are outputs. It may be empty.
  std::vector<Refusal>* refusals = nullptr;
  /// Names that become inputs of the graph even if the model gives them initialisers, which the
  /// importer stores here.
  std::map<std::string, std::optional<HostTensor>>* states = nullptr;
  /// Inputs that stay inputs of the graph although the model gives them initialisers, which the
  /// importer stores here. Other names have no effect.
  std::map<std::string, std::optional<HostTensor>>* optional_inputs = nullptr;
  /// The elements of inputs that every run has (--value). The graph uses them as constants. Those
  /// of a vector fix its length.
  InputValues values = {};

  /// If set, the importer notes which memory of constants has bytes of files.
  platform::FileBytes* files = nullptr;

  bool is_state(const std::string& name) const { return states && states->contains(name); }
  bool is_optional(const std::string& name) const {
    return optional_inputs && optional_inputs->contains(name);
  }
};

/// The most elements of a tensor in ImportOptions::values.
inline constexpr size_t kMostValues = 64;

/// Reads a model file. External data is read only inside the model's folder. Model-local functions
/// are inlined, Constant nodes become constants, and every value gets a dtype and shape
/// (ops::infer).
Result<std::unique_ptr<graph::Graph>> import_file(const std::string& path,
                                                  const ImportOptions& o = {});
/// Reads a model from memory, in which external data is an error.
Result<std::unique_ptr<graph::Graph>> import_bytes(std::span<const std::byte> bytes,
                                                   const ImportOptions& o = {});

/// An input that a model file declares.
struct DeclaredInput {
  std::string name;
  DType dtype = DType::Invalid;  // if it is not known
  bool has_value = false;        // from an initialiser, so that runs may leave it out
};
Result<std::vector<DeclaredInput>> declared_inputs(const std::string& path);

/// A TensorProto file (.pb), as the ONNX suite stores inputs and outputs. `name` may be empty.
struct NamedTensor {
  std::string name;
  HostTensor tensor;
};
Result<NamedTensor> read_tensor_file(const std::string& path);
/// The same from memory, without external data.
Result<NamedTensor> read_tensor_bytes(std::span<const std::byte> bytes);
/// A file of a value of this type: a SequenceProto, an OptionalProto, a MapProto or a TensorProto.
Result<NamedTensor> read_value_file(const std::string& path, DType type);
Result<NamedTensor> read_value_bytes(std::span<const std::byte> bytes, DType type);

}  // namespace reprise::onnx
