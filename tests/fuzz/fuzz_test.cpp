// The fuzzer: graphs of fixed seeds on every executor, what it covers, and that it finds bugs
// that are injected.
#include <gtest/gtest.h>

#include <set>

#include "tests/fuzz/lib/injected.h"
#include "tests/fuzz/lib/process.h"
#include "tests/fuzz/lib/recipes.h"
#include "tests/fuzz/lib/session.h"
#include "tests/support/paths.h"
#include "tests/support/text_cases.h"

namespace reprise::fuzz {
namespace {

RunOptions options() {
  RunOptions o;
  o.worker = {test::program("reprise_fuzz").string(), "--serve"};
  o.reduce_seconds = 20;
  return o;
}

/// What was found, as text for tests/agreement.
std::string text_of(const RunReport& report) {
  std::string out;
  for (const Finding& f : report.findings) {
    const Failure& failure = f.reduced.failure;
    out += "\nseed " + std::to_string(f.seed) + ", " + kind_name(failure.kind) + " with " +
           failure.config.str() + ": " + failure.message + "\n" + f.reduced.program.str();
  }
  return out;
}

TEST(Fuzz, GraphsOfFixedSeedsAreRight) {
  RunOptions o = options();
  o.seed = 1;
  o.programs = 60;
  const RunReport report = run(o);
  EXPECT_EQ(report.programs, o.programs);
  EXPECT_GT(report.counts.at("elements"), 10000);
  EXPECT_TRUE(report.findings.empty()) << text_of(report);
}

TEST(Fuzz, FullGraphsOfFixedSeedsAreRight) {
  RunOptions o = options();
  o.seed = 100000;
  o.programs = 1500;
  o.jobs = 2;
  o.cuda_every = 16;
  const RunReport report = run(o);
  std::cout << coverage(report);
  EXPECT_TRUE(report.findings.empty()) << text_of(report);
}

void expect_right(const std::string& folder) {
  Checker checker;
  const auto cases = test::text_cases(test::source_dir() / "tests/fuzz" / folder);
  ASSERT_FALSE(cases.empty());
  for (const test::TextCase& c : cases) {
    const auto p = Program::parse(c.source);
    ASSERT_TRUE(p.ok()) << c.file << ": " << p.status().message();
    for (const Failure& f : checker.check(*p).failures)
      ADD_FAILURE() << c.file << " with " << f.config.str() << ": " << f.message;
  }
}

/// What is right although the host's numbers differ: each once was a false alarm.
TEST(Fuzz, WhatFp32CannotHoldIsNoFinding) {
  expect_right("accepted");
}

/// Findings in graphs with control flow, which tests/agreement does not run.
TEST(Fuzz, WhatWasFoundIsRight) {
  expect_right("found");
}

/// A new operator is made as its registry entry suggests; one of which that makes no node at all
/// needs a recipe (tests/fuzz/lib/recipes.h).
TEST(Fuzz, EveryOperatorIsMade) {
  std::set<std::string> idle;
  for (const Source& s : sources()) {
    if (s.pattern) continue;
    bool made = false;
    for (uint64_t seed = 1; seed <= 40 && !made; ++seed) {
      Maker m(seed);
      for (int tries = 0; tries < 10 && !made; ++tries) {
        const size_t before = m.nodes();
        made = s.make(m) && m.nodes() > before;
      }
    }
    if (!made) idle.insert(s.name);
  }
  EXPECT_EQ(idle, std::set<std::string>{});
}

/// Operators that are not made, and why. The list may only become shorter.
TEST(Fuzz, OperatorsWithoutASourceAreKnown) {
  std::set<std::string> without;
  for (const auto& [op, reason] : without_source()) {
    const bool others = reason.rfind("no operator of ONNX", 0) == 0 ||
                        reason.rfind("the host runs what it decomposes into", 0) == 0;
    if (!others) without.insert(op);
  }
  const std::set<std::string> known{
      "ImageDecoder",  // its input is an image file (tests/images)
      // Their results are random.
      "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
      "RandomUniformLike",
      // They run on the host alone, and their attributes are lists that fit each other.
      "LinearClassifier", "OneHotEncoder", "SVMClassifier", "SVMRegressor",
      // Their inputs are strings.
      "CategoryMapper", "LabelEncoder", "RegexFullMatch", "StringConcat", "StringNormalizer",
      "StringSplit", "Tokenizer", "CastMap", "DictVectorizer",
      "ZipMap",  // their inputs or results are maps
      // A pass makes them, no model.
      "ShapeValue", "RecurrentSteps", "TreeLeaves", "FlatIndex", "ScatterSorted", "SelectBoxes",
      "CountedRows", "SearchCounts", "StateAppend", "StateRows",
      // Its operands are results of attention (tests/agreement/attention_grad_random_test.cpp).
      "AttentionGrad",
      "InvalidBranch",                        // the importer writes it, and it always fails
      "RoundBF16",                            // lowering writes it
      "IDiv", "IRem", "InRange", "FusedFma",  // rows that only the expansion of others writes
      "SqrtNative", "RsqrtNative", "LogNative", "Log2Native", "ExpNative", "Exp2Native"};
  for (const std::string& op : without) {
    EXPECT_TRUE(known.count(op) != 0) << op << " has no source: give it a recipe";
  }
}

TEST(Fuzz, AProcessHangsIfItDoesNothingOrNeverEnds) {
  for (const char* script : {"exec sleep 100", "while :; do :; done"}) {
    Process process({"/bin/sh", "-c", script}, 0.2);
    ASSERT_TRUE(process.start());
    bool hung = false;
    EXPECT_FALSE(process.receive(hung).has_value());
    EXPECT_TRUE(hung) << script;
  }
}

TEST(Fuzz, TheTextOfAProgramReadsBack) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const auto p = generate(seed);
    if (!p.ok()) continue;
    const auto back = Program::parse(p->str());
    ASSERT_TRUE(back.ok()) << back.status().message() << "\n" << p->str();
    EXPECT_EQ(back->str(), p->str());
    const auto again = generate(seed);
    EXPECT_EQ(again->str(), p->str()) << "the same seed gives another program";
  }
}

class InjectedBugs : public testing::TestWithParam<std::string> {};

/// Each bug is found, and what is found is small.
TEST_P(InjectedBugs, FullAreFound) {
  RunOptions o = options();
  o.seed = 500000;
  o.seconds = 600;
  o.jobs = 2;
  o.fault = GetParam();
  o.stop_at_first = true;
  const RunReport report = run(o);
  ASSERT_FALSE(report.findings.empty()) << "not found in " << report.programs << " graphs";
  EXPECT_LE(report.findings[0].reduced.program.nodes.size(), 8U) << text_of(report);
}

std::vector<std::string> bugs() {
  std::vector<std::string> out;
  for (const InjectedBug& b : injected_bugs()) out.emplace_back(b.name);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Each, InjectedBugs, testing::ValuesIn(bugs()),
                         [](const auto& bug) { return bug.param; });

}  // namespace
}  // namespace reprise::fuzz
