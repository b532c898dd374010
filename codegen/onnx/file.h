// Files of a model: the protobuf itself and external tensor data beside it.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "codegen/onnx/onnx_minimal.pb.h"
#include "runtime/base/status.h"

namespace reprise::onnx {

/// A name from the file between quotes, for messages: control characters escaped, length bounded.
std::string shown(const std::string& name);

Result<std::shared_ptr<const wire::Model>> read_model(const std::string& path);
Result<std::shared_ptr<const wire::Model>> parse_model(std::span<const std::byte> bytes);
Result<std::shared_ptr<const wire::Tensor>> read_tensor(const std::string& path);
Result<std::shared_ptr<const wire::Tensor>> parse_tensor(std::span<const std::byte> bytes);

/// Memory that lives as long as `owner`.
struct Mapped {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// Opens external data inside one folder and nowhere else; each file is mapped once.
class ExternalData {
 public:
  ExternalData() = default;  // of a model in memory: every request fails
  explicit ExternalData(std::string folder) : folder_(std::move(folder)) {}
  /// The whole file at a relative path. Absolute paths, "..", and symbolic links that leave the
  /// folder are refused.
  Result<Mapped> open(const std::string& location);

 private:
  std::string folder_;
  std::map<std::string, Mapped> files_;
};

}  // namespace reprise::onnx
