// The texts of options: numbers, and pairs of names.
#include <charconv>
#include <cmath>
#include <filesystem>

#include "apps/reprise/command.h"
#include "runtime/platform/path.h"

namespace reprise::app {

CLI::Validator at_least_zero() {
  const auto check = [](const std::string& text) {
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    const bool ok = error == std::errc() && rest == end && std::isfinite(value) && value >= 0;
    return ok ? std::string() : "expected a number of at least 0, found '" + text + "'";
  };
  return CLI::Validator(check, "NUMBER");
}

CLI::Validator whole_number() {
  const auto check = [](const std::string& text) {
    uint64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    const bool ok = error == std::errc() && rest == end;
    return ok ? std::string() : "expected a whole number from 0 to 2^64 - 1, found '" + text + "'";
  };
  return CLI::Validator(check, "WHOLE NUMBER");
}

CLI::Validator no_stream() {
  const auto check = [](const std::string& text) {
    return text != "-" ? std::string()
                       : "'-' would be a name: this output does not go to standard output; give "
                         "the name of a file or folder, for one that is called so ./-";
  };
  return CLI::Validator(check, "");
}

CLI::Validator no_model() {
  const auto check = [](const std::string& text) {
    const std::filesystem::path file = utf8_path(text);
    std::error_code error;
    const bool is_model = file.extension() == ".onnx" || file.extension() == ".rpk";
    return is_model && std::filesystem::exists(file, error)
               ? "'" + text + "' is a model, which the results would replace; name another file"
               : std::string();
  };
  return CLI::Validator(check, "");
}

}  // namespace reprise::app
