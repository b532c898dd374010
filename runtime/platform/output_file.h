// A file that is replaced as a whole.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace reprise::platform {

/// The file at a path, with symbolic links resolved. If the path is not a regular file, such as a
/// pipe or a device, it is written in place; a pipe without a reader is an error then, not a
/// signal. Otherwise a new file is written, which replaces the old one and takes its mode when it
/// is complete. error() says what failed.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  bool open() const;
  bool write(const void* data, uint64_t size);
  /// Writes zeros up to `offset`.
  bool pad_to(uint64_t offset);
  /// Completes the file. Without this call the old file stays.
  bool finish();
  /// Why the last call failed.
  std::string error() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  uint64_t written_ = 0;
};

}  // namespace reprise::platform
