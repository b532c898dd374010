// Shared libraries that are opened at run time.
#pragma once

#include <span>
#include <string>

namespace reprise::platform {

/// A library that stays open until the process ends: drivers and compilers start threads, and do
/// not survive being unloaded. Null if it could not be opened.
class Library {
 public:
  Library() = default;
  /// Opens the library at a path, or looks for a name as the system does.
  static Library open(const std::string& name);
  /// Opens the first of these that exists.
  static Library open_first(std::span<const std::string> names);

  explicit operator bool() const { return handle_ != nullptr; }
  /// Null if the library does not have it.
  void* find(const char* symbol) const;
  template <typename F>
  F function(const char* symbol) const {
    return reinterpret_cast<F>(find(symbol));
  }
  /// Why it could not be opened.
  const std::string& error() const { return error_; }

 private:
  void* handle_ = nullptr;
  std::string error_;
};

/// The file name of a library of ours or of an installed one: "libNAME.so", "NAME.dll",
/// "libNAME.dylib".
std::string library_name(const std::string& name);
/// The folder of the program that runs, with a separator at its end; empty if that is not known.
std::string program_folder();

}  // namespace reprise::platform
