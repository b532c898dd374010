// Where tests find what they read, and where they may write.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace reprise::test {

/// Root of the source tree.
std::filesystem::path source_dir();
/// Root of the build tree; programs are in its bin/.
std::filesystem::path binary_dir();
/// Path of a program of this build, e.g. program("reprise").
std::filesystem::path program(const std::string& name);
/// Acceptance models (-DREPRISE_MODELS); may be absent, see has_models().
std::filesystem::path models_dir();
bool has_models();
/// An archive of real models (-DREPRISE_CORPUS), which may be absent; `tar --zstd` unpacks it.
std::filesystem::path corpus_file();
/// The cases of a folder of tests/conformance, as CMake unpacked them.
std::filesystem::path own_cases(const std::string& folder);
/// The ONNX backend test data: folders node, simple, pytorch-converted, pytorch-operator.
std::filesystem::path onnx_suite_dir();

/// A fresh folder that is removed with its contents when the object goes.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Whole contents of a file; a missing file is an empty string.
std::string read_file(const std::filesystem::path& p);
void write_file(const std::filesystem::path& p, const std::string& contents);

}  // namespace reprise::test
