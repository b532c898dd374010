#include "tests/support/paths.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace reprise::test {

namespace fs = std::filesystem;

namespace {

/// As built, unless the tests were packed for another machine (tools/gpu-check --pack).
fs::path moved(const char* variable, const char* built) {
  const char* elsewhere = std::getenv(variable);
  return elsewhere && *elsewhere ? elsewhere : built;
}

}  // namespace

fs::path source_dir() {
  return moved("REPRISE_TEST_SOURCES", REPRISE_SOURCE_DIR);
}

fs::path binary_dir() {
  return moved("REPRISE_TEST_BINARIES", REPRISE_BINARY_DIR);
}

fs::path program(const std::string& name) {
  return binary_dir() / "bin" / name;
}

fs::path models_dir() {
  return moved("REPRISE_TEST_MODELS", REPRISE_MODELS_DIR);
}

bool has_models() {
  return fs::is_directory(models_dir());
}

fs::path corpus_file() {
  return REPRISE_CORPUS_FILE;
}

fs::path own_cases(const std::string& folder) {
  return binary_dir() / "tests/conformance" / folder / "cases";
}

fs::path onnx_suite_dir() {
  return REPRISE_ONNX_SUITE_DIR;
}

TempDir::TempDir() {
  std::string path = (fs::temp_directory_path() / "reprise-test-XXXXXX").string();
  if (mkdtemp(path.data()) != nullptr) path_ = path;
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string read_file(const fs::path& p) {
  std::ifstream in(p, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const fs::path& p, const std::string& contents) {
  std::ofstream out(p, std::ios::binary);
  out.write(contents.data(), static_cast<std::streamsize>(contents.size()));
}

}  // namespace reprise::test
