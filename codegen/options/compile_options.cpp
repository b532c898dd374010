#include "codegen/options/compile_options.h"

#include <algorithm>
#include <charconv>

namespace reprise {

Result<std::vector<StateOption>> parse_states(const std::vector<std::string>& texts) {
  std::vector<StateOption> out;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      return Status(Code::Usage, "a state is INPUT=OUTPUT, not '" + text + "'");
    out.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return out;
}

Result<std::map<std::string, int64_t, std::less<>>> parse_pass_options(
    const std::vector<std::string>& texts) {
  std::map<std::string, int64_t, std::less<>> out;
  for (const std::string& text : texts) {
    const size_t equals = std::min(text.find('='), text.size());
    int64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] =
        std::from_chars(std::min(text.data() + equals + 1, end), end, number);
    if (error != std::errc() || rest != end) {
      return Status(Code::Usage, "an option of a pass is PASS.OPTION=NUMBER, not '" + text + "'");
    }
    out[text.substr(0, equals)] = number;
  }
  return out;
}

}  // namespace reprise
