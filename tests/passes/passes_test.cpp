// Pass tests are text in, text out: tests/passes/*.txt, whose first line names the passes to run.
#include <gtest/gtest.h>

#include <sstream>

#include "codegen/passes/pass.h"
#include "tests/support/paths.h"
#include "tests/support/text_cases.h"

namespace reprise::passes {
namespace {

const Pass* find(const std::string& name) {
  for (const Pass& p : pipeline()) {
    if (p.name == name) return &p;
  }
  return nullptr;
}

std::string run(const test::TextCase& c) {
  auto g = graph::parse(c.source);
  if (!g.ok()) return "parse: " + g.status().message() + "\n";
  std::istringstream names(c.heading);
  bool core = false;
  for (std::string name; names >> name;) {
    const Pass* pass = find(name);
    if (pass == nullptr) return "there is no pass " + name + "\n";
    if (Status s = pass->run(**g); !s.ok()) return s.message() + "\n";
    core |= name == "decompose";
  }
  if (Status s = graph::verify(**g, core); !s.ok()) return "verify: " + s.message() + "\n";
  return graph::print(**g);
}

TEST(Passes, TextCases) {
  const auto cases = test::text_cases(test::source_dir() / "tests/passes");
  EXPECT_GE(cases.size(), 10u);
  for (const test::TextCase& c : cases) {
    const std::string actual = run(c);
    if (test::rewriting()) test::rewrite(c, actual);
    EXPECT_EQ(actual, c.expected) << c.file;
  }
}

TEST(Passes, NamesAreUnique) {
  for (const Pass& p : pipeline()) EXPECT_EQ(find(std::string(p.name)), &p) << p.name;
}

}  // namespace
}  // namespace reprise::passes
