#include "tests/empty/cases.h"

#include <fstream>
#include <ostream>

#include "tests/support/paths.h"

namespace reprise {

void PrintTo(const Case& c, std::ostream* os) {
  *os << c.name;
}

std::vector<Case> read_cases() {
  std::vector<Case> out;
  std::ifstream in(test::source_dir() / "tests/empty/operators.txt");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("--- ", 0) == 0) {
      out.push_back({line.substr(4), {}});
    } else if (!out.empty()) {
      out.back().text += line + "\n";
    }
  }
  return out;
}

}  // namespace reprise
