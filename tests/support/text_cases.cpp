#include "tests/support/text_cases.h"

#include <algorithm>
#include <cstdlib>

#include "tests/support/paths.h"

namespace reprise::test {

namespace {
constexpr const char* kSeparator = "-----\n";
}

std::vector<TextCase> text_cases(const std::filesystem::path& folder) {
  std::vector<TextCase> cases;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".txt") continue;
    const std::string text = read_file(entry.path());
    TextCase c;
    c.file = entry.path();
    const size_t at = text.find(kSeparator);
    c.source = text.substr(0, at);
    if (at != std::string::npos) c.expected = text.substr(at + std::string(kSeparator).size());
    if (c.source.rfind("// ", 0) == 0) c.heading = c.source.substr(3, c.source.find('\n') - 3);
    cases.push_back(std::move(c));
  }
  std::sort(cases.begin(), cases.end(),
            [](const auto& a, const auto& b) { return a.file < b.file; });
  return cases;
}

bool rewriting() {
  return std::getenv("REPRISE_REWRITE_CASES") != nullptr;
}

void rewrite(const TextCase& c, const std::string& actual) {
  write_file(c.file, c.source + kSeparator + actual);
}

}  // namespace reprise::test
