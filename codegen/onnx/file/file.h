// The files of a model: the protobuf and external tensor data.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "codegen/onnx/onnx_minimal.pb.h"
#include "runtime/base/status.h"
#include "runtime/platform/file_bytes.h"

namespace reprise::onnx {

/// A name from the file in quotes, for messages. Escapes control characters and bounds the length.
std::string shown(const std::string& name);

/// Reads a whole protobuf file. `what` names the kind of file in messages. For wire::Sequence,
/// Optional and Map, and for those below.
template <typename Message>
Result<std::shared_ptr<const Message>> read_message(const std::string& path, const char* what);
/// The same from memory. `thing` names the data in messages.
template <typename Message>
Result<std::shared_ptr<const Message>> parse_message(std::span<const std::byte> bytes,
                                                     const std::string& thing, const char* what);

/// `files` may be null; see ImportOptions.
Result<std::shared_ptr<const wire::Model>> read_model(const std::string& path,
                                                      platform::FileBytes* files = nullptr);
Result<std::shared_ptr<const wire::Model>> parse_model(std::span<const std::byte> bytes);
Result<std::shared_ptr<const wire::Tensor>> read_tensor(const std::string& path);
Result<std::shared_ptr<const wire::Tensor>> parse_tensor(std::span<const std::byte> bytes);

/// Memory that is valid as long as `owner` exists.
struct Mapped {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// Opens external data inside the folder of a file and nowhere else. If the file is a symbolic
/// link, as in caches that keep all files of many models in one folder, the folder of the file that
/// it leads to counts as well. Each file is mapped once.
class ExternalData {
 public:
  ExternalData() = default;  // for a model in memory: open() fails
  explicit ExternalData(std::string file, platform::FileBytes* files = nullptr)
      : file_(std::move(file)), noted_(files) {}
  /// Maps the whole file at a relative path. Refuses absolute paths, "..", and symbolic links that
  /// leave the folders.
  Result<Mapped> open(const std::string& location);

 private:
  std::string file_;
  platform::FileBytes* noted_ = nullptr;
  std::map<std::string, Mapped> files_;
};

}  // namespace reprise::onnx
