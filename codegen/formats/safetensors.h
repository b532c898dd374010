// Files in the format safetensors, and folders of them: tensors that stay where they are in the
// files. https://github.com/huggingface/safetensors#format
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/tensor.h"

namespace reprise::formats {

/// A file that has been read and checked as a whole: its header, and the dtype, dims and place of
/// each tensor, which must not overlap. Nothing changes it, so several threads may use it.
class Safetensors {
 public:
  /// Maps the file into memory. Messages name the path.
  static Result<Safetensors> open(const std::string& path);
  /// `bytes` must live as long as `owner` does. `name` is for messages.
  static Result<Safetensors> parse(std::span<const std::byte> bytes,
                                   const std::shared_ptr<const void>& owner,
                                   const std::string& name);

  struct Entry {
    std::string name;
    HostTensor tensor;  // a view of the file's memory, which it keeps; perhaps not aligned
  };
  /// In the order of the header.
  const std::vector<Entry>& tensors() const { return tensors_; }

 private:
  std::vector<Entry> tensors_;
};

/// The tensors of a folder: those of `model.safetensors`, or of the files that
/// `model.safetensors.index.json` names, which must be in the folder itself.
class SafetensorsFolder {
 public:
  static Result<SafetensorsFolder> open(const std::string& folder);
  /// Null if there is none of that name.
  const HostTensor* find(std::string_view name) const;
  size_t size() const { return tensors_.size(); }

 private:
  Status add(const std::string& path);
  std::unordered_map<std::string, HostTensor> tensors_;
};

}  // namespace reprise::formats
