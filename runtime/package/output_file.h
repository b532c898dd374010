// The file that a package is written to.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>

namespace reprise::package {

/// While it lives, writing to a pipe whose reader has gone is an error and no signal.
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

/// The file at a path, after symbolic links. A pipe, a device or the like is written in place. Else
/// a new file is written, which replaces the old one, with its mode, when it is complete. Failures
/// leave errno.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  bool open() const { return fd_ >= 0; }
  bool write(const void* data, uint64_t size);
  bool pad_to(uint64_t offset);
  /// Completes the file. If it is not called, the old file stays.
  bool finish();

 private:
  void create_beside_target();

  WithoutSigpipe without_sigpipe_;
  std::string target_;     // empty: written in place
  std::string temporary_;  // the new file
  int fd_ = -1;
  bool kept_ = false;
  uint64_t written_ = 0;
};

}  // namespace reprise::package
