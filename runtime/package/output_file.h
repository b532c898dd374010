// The file that a package is written to.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>

namespace reprise::package {

/// While an object of this class lives, writing to a pipe without a reader is an error instead of a
/// signal.
class WithoutSigpipe {
 public:
  WithoutSigpipe();
  ~WithoutSigpipe();
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

/// The file at a path, with symbolic links resolved. If the path is not a regular file, such as a
/// pipe or a device, it is written in place. Otherwise a new file is written, which replaces the
/// old one and takes its mode when it is complete. Failures set errno.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  bool open() const { return fd_ >= 0; }
  bool write(const void* data, uint64_t size);
  /// Writes zeros up to `offset`.
  bool pad_to(uint64_t offset);
  /// Completes the file. Without this call the old file stays.
  bool finish();

 private:
  void create_beside_target();

  WithoutSigpipe without_sigpipe_;
  std::string target_;     // empty: the path is written in place
  std::string temporary_;  // the new file
  int fd_ = -1;
  bool kept_ = false;
  uint64_t written_ = 0;
};

}  // namespace reprise::package
