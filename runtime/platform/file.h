// Files. All paths of this folder's interface are UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "runtime/base/status.h"

namespace reprise::platform {

/// What an application calls an open file: a file descriptor, on Windows a HANDLE.
using NativeFile = intptr_t;

/// An open regular file, or a part of one. Reading it never waits for another process, moves no
/// position that others share, and is an error where the file has become shorter.
class InputFile {
 public:
  static Result<InputFile> open(const std::string& path);
  /// `length` bytes from `offset` on of a file that the caller opened; 0: up to its end. The caller
  /// keeps its file, and may close it.
  static Result<InputFile> part_of(NativeFile file, uint64_t offset, uint64_t length);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  /// When it was opened.
  uint64_t size() const { return size_; }
  /// Fills `out` with the bytes from `offset` on.
  Status read(uint64_t offset, std::span<std::byte> out) const;
  /// Like read(), but fewer bytes if the file ends. Returns how many.
  Result<size_t> read_some(uint64_t offset, std::span<std::byte> out) const;
  /// The whole file as memory, which lives as long as the result. For files of whoever runs this
  /// process: if another process shortens the file, reading the memory ends this one.
  Result<std::shared_ptr<const std::span<const std::byte>>> map() const;

 private:
  InputFile() = default;
  /// Checks that it is a regular file, and takes its size.
  Status inspect();
  /// Narrows it to a part; `length` 0: up to the end.
  Status take(uint64_t offset, uint64_t length);
  void close();

  NativeFile file_ = -1;
  uint64_t begin_ = 0;  // in the file
  uint64_t size_ = 0;
};

struct FileCloser {
  void operator()(std::FILE* f) const { std::fclose(f); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

/// A file of the C library. `mode` is that of fopen().
File open_stream(const std::string& path, const char* mode);
/// Opens a file for reading that only this user and the system's administrator could have written.
/// Returns null if there is none or if it cannot be trusted. In the second case `wrong` says why:
/// it is not a regular file, belongs to another user, or others may write to it or exchange it.
File open_own_file(const std::string& path, std::string& wrong);
/// Creates a file that only this user can read. Returns null if it exists.
File create_own_file(const std::string& path);
/// Creates the folder, and those above it that are missing, for this user alone. False if it cannot
/// be created, or if every user may exchange the files in it.
bool create_own_folder(const std::string& path);
/// Creates a folder with a new name, for this user alone, below the system's temporary folder.
Result<std::string> create_temporary_folder();

/// A file descriptor that is closed with it.
class Descriptor {
 public:
  /// A second descriptor of what `handle` refers to, which the caller keeps. Code::Usage if it is
  /// no open descriptor, Code::Unsupported on systems without descriptors.
  static Result<Descriptor> duplicate(uint64_t handle);
  Descriptor() = default;
  Descriptor(Descriptor&& o) noexcept : descriptor_(o.release()) {}
  Descriptor& operator=(Descriptor&& o) noexcept {
    std::swap(descriptor_, o.descriptor_);
    return *this;
  }
  ~Descriptor();

  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

/// The message of an error number of the C library.
std::string error_text(int error);

}  // namespace reprise::platform
