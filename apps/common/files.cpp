#include "apps/common/files.h"

#include <filesystem>

#include "runtime/package/package.h"
#include "runtime/platform/output_file.h"
#include "runtime/platform/path.h"

namespace reprise::app {

namespace fs = std::filesystem;

Status write_file(const std::string& path, std::string_view contents) {
  platform::OutputFile file(path);
  if (file.open() && file.write(contents.data(), contents.size()) && file.finish()) return {};
  return {Code::Io, "cannot write '" + path + "': " + file.error()};
}

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code error;  // of a file that does not exist
  return fs::equivalent(utf8_path(a), utf8_path(b), error);
}

Status check_package_output(const std::string& model, const std::string& output) {
  if (is_same_file(model, output)) {
    return {Code::Usage, "--output names the model itself, '" + output +
                             "', which the package would replace; name another file, such as '" +
                             utf8_text(utf8_path(output).replace_extension(".rpk")) + "'"};
  }
  std::error_code error;  // then the file does not exist, or writing it says what is wrong
  const fs::path file = utf8_path(output);
  const bool is_other = fs::is_regular_file(file, error) && fs::file_size(file, error) > 0 &&
                        !error && !package::is_package(output);
  if (!is_other) return {};
  return {Code::Usage, "--output: '" + output +
                           "' exists and is no package, so it is not replaced; remove it or name "
                           "another file"};
}

}  // namespace reprise::app
