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

}  // namespace reprise::app
