// The texts of options: numbers, and pairs of names.
#include <charconv>
#include <cmath>

#include "apps/reprise/command.h"

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

Result<std::vector<StateOption>> parse_states(const std::vector<std::string>& texts) {
  std::vector<StateOption> out;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      return Status(Code::Usage, "--state takes INPUT=OUTPUT, not '" + text + "'");
    out.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return out;
}

}  // namespace reprise::app
