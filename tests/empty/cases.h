// The graphs of tests/empty/operators.txt: at least one for each operator.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace reprise {

struct Case {
  std::string name;  // begins with the operator's: "Add", "Add/scalar"
  std::string text;  // a graph over the symbol n

  std::string op() const { return name.substr(0, name.find('/')); }
};

void PrintTo(const Case& c, std::ostream* os);
std::vector<Case> read_cases();

}  // namespace reprise
