// Operators on strings where peers differ, or that need no peer; tests/conformance/host has others.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "runtime/host/text/regex.h"
#include "tests/host/cases.h"

namespace reprise::test {
namespace {

/// The text of the standard decides: whitespace is more than blanks, and an empty string that is
/// split at a delimiter is one empty part.
TEST(HostText, Split) {
  run_cases({
      {"whitespace",
       "StringSplit",
       {strings({2}, {"\ta\n b ", ""})},
       {strings({2, 2}, {"a", "b", "", ""}), i64({2}, {2, 0})}},
      {"empty",
       "StringSplit",
       {strings({1}, {""})},
       {strings({1, 1}, {""}), i64({1}, {1})},
       attrs({{"delimiter", text(",")}})},
      {"the rest",
       "StringSplit",
       {strings({1}, {"a  b  c  "})},
       {strings({1, 2}, {"a", "b  c"}), i64({1}, {2})},
       attrs({{"maxsplit", int64_t{1}}})},
  });
}

/// As ONNX Runtime does it.
TEST(HostText, Tokens) {
  const HostTensor x = strings({2}, {"ab a\u00e9 abc", " "});
  const auto one_of = [](const char* name, std::vector<std::string> value) {
    return attrs({{"mincharnum", int64_t{1}}, {name, std::move(value)}});
  };
  run_cases({
      {"separated, with marks",
       "Tokenizer",
       {x},
       {strings({2, 5}, {"\x02", "ab", "a\u00e9", "abc", "\x03", "\x02", "\x03", "#", "#", "#"})},
       attrs({{"mark", int64_t{1}},
              {"mincharnum", int64_t{1}},
              {"pad_value", text("#")},
              {"separators", std::vector<std::string>{" "}}})},
      {"the longest match",
       "Tokenizer",
       {x},
       {strings({2, 3}, {"ab", "a", "abc", "", "", ""})},
       attrs({{"mincharnum", int64_t{1}}, {"tokenexp", text("a|ab|abc")}})},
      {"characters",
       "Tokenizer",
       {strings({1}, {"a\u00e9"})},
       {strings({1, 2}, {"a", "\u00e9"})},
       one_of("separators", {""})},
      {"of two characters",
       "Tokenizer",
       {x},
       {strings({2, 1}, {"bc", ""})},
       attrs({{"mincharnum", int64_t{2}}, {"tokenexp", text("[b-z]+")}})},
      {"a separator of nothing",
       "Tokenizer",
       {strings({1}, {"abcd"})},
       {strings({1, 1}, {"d"})},
       one_of("separators", {"[ab]*?c", "x*$"})},
      {"nothing",
       "Tokenizer",
       {strings({1}, {"  "})},
       {strings({1, 0}, {})},
       one_of("separators", {" "})},
  });
  run_error_cases({
      {"both",
       "Tokenizer",
       {x},
       Code::InvalidModel,
       "exactly one of",
       attrs({{"mincharnum", int64_t{1}}})},
      {"length",
       "Tokenizer",
       {x},
       Code::InvalidModel,
       "'mincharnum' is 0",
       attrs({{"mincharnum", int64_t{0}}, {"tokenexp", text("a")}})},
      {"pattern",
       "Tokenizer",
       {x},
       Code::InvalidModel,
       "(",
       attrs({{"mincharnum", int64_t{1}}, {"tokenexp", text("(")}})},
  });
}

TEST(HostText, LettersBeyondAscii) {
  const HostTensor x = strings({3}, {"Stra\u00dfe \u00c9", "\u0436\u03a9", "\xff"});
  run_cases({
      {"upper",
       "StringNormalizer",
       {x},
       {strings({3}, {"STRA\u00dfE \u00c9", "\u0416\u03a9", "\xff"})},
       attrs({{"case_change_action", text("UPPER")}})},
      {"lower",
       "StringNormalizer",
       {x},
       {strings({3}, {"stra\u00dfe \u00e9", "\u0436\u03c9", "\xff"})},
       attrs({{"case_change_action", text("LOWER")}})},
  });
}

/// The 27 classes of three or more equal code points have 84 members (Unicode 14.0.0).
TEST(HostText, CaseVariants) {
  std::map<std::set<uint32_t>, size_t> classes;
  for (uint32_t c = 0; c <= 0x10ffff; ++c) {
    const host::CaseVariants variants = host::case_variants(c);
    const std::set<uint32_t> members(variants.begin(), variants.end());
    ASSERT_TRUE(members.contains(c)) << c;
    if (members.size() > 1) ++classes[members];
  }
  size_t large = 0;
  for (const auto& [members, count] : classes) {
    EXPECT_EQ(members.size(), count) << *members.begin();
    large += members.size() > 2 ? 1 : 0;
  }
  EXPECT_EQ(large, 27U);
  EXPECT_EQ(classes.size(), 1424U);
}

struct Match {
  std::string pattern;
  std::vector<std::string> yes, no;
};

/// What RE2 does with these.
TEST(HostText, Patterns) {
  const std::vector<Match> kMatches = {
      {"", {""}, {"a"}},
      {"a|b|", {"a", "b", ""}, {"ab"}},
      {"(a*)*b", {"b", "aab"}, {"a", ""}},
      {"(?:ab){2}c{0,1}d{1,}", {"ababd", "ababcdd"}, {"abd", "ababc"}},
      {"a{,2}", {"a{,2}"}, {"aa"}},
      {".", {"a", "\u00e9"}, {"\n", "", "ab", "\xff"}},
      {"(?s).", {"\n"}, {""}},
      {"[^a]", {"\n", "b"}, {"a", "\xff"}},
      {"[]a-]+", {"]a-"}, {"b"}},
      {"[[:]+", {"[:"}, {"a"}},
      {"[[:alpha:][:^ascii:]\\d]+", {"aZ9\u00e9"}, {"_"}},
      {"(?i)a[b-d]e", {"AcE", "abe"}, {"aee"}},
      {"(?i:a)b", {"Ab"}, {"AB"}},
      {"(?i)s", {"s", "S", "\u017f"}, {"z"}},
      {"(?i)K", {"k", "K", "\u212a"}, {"\u03ba"}},
      {"(?i)[^k]", {"s"}, {"k", "K", "\u212a"}},
      {"(?i)i", {"i", "I"}, {"\u0130", "\u0131"}},
      {"(?i)[\u00df\u00e9\u1f80]+", {"\u1e9e\u00c9\u1f88"}, {"ss"}},
      {"(?i)[\u03c2\u03b8]+", {"\u03a3\u03c3\u03c2\u0398\u03d1\u03f4"}, {"\u03b1"}},
      {"(?i)\\w+", {"kS\u212a\u017f"}, {"\u00e9"}},
      {"(?i)[\\W]", {"\u00e9", "-"}, {"\u212a", "\u017f", "k"}},
      {"(?i)[[:^lower:]]", {"\u00c9", "1"}, {"A", "\u212a"}},
      {"(a(?i)b)c", {"aBc"}, {"aBC"}},
      {"\\Qa.b*\\E+", {"a.b*", "a.b**"}, {"aab"}},
      {"\\ba\\b.\\Bb?", {"a "}, {"ab"}},
      {"(?m)^a$\\n^b$", {"a\nb"}, {"ab"}},
      {"\\x41\\x{42}\\103\\t", {"ABC\t"}, {"ABC"}},
      {"[\\x41-\\x5a]+", {"AZ"}, {"a", "\u4100"}},
      {"[\\x{3b1}-\\x{3c9}\\101-\\103]+", {"\u03b1\u03c9BC"}, {"\u03ca", "D"}},
      {"a\\ \\_\\\t\\\x7f[\\ \\-]", {"a _\t\x7f-"}, {"a"}},
      {"\\x{000000041}", {"A"}, {"\x04"}},
      {"a(?i)*b", {"b", "aaaB"}, {"AB"}},
      {"ab(?i){2}", {"abb"}, {"abab", "abB"}},
      {"(a(?i)*)(?)+", {"aa", ""}, {"A"}},
      {"a*(?i)?(?i)\\Q\\E+", {"aa", ""}, {"b"}},
      {"\\Qab\\E*", {"a", "abb"}, {"abab"}},
      {"^*$?a{,1}", {"a{,1}"}, {"a"}},
      {"(?P<name>a)(?<other>b)", {"ab"}, {"a"}},
      {"a*?b+?c??", {"b", "aabbc"}, {"ac"}},
  };
  for (const Match& m : kMatches) {
    const auto regex = host::Regex::parse(m.pattern);
    ASSERT_TRUE(regex.ok()) << regex.status().message();
    for (const std::string& s : m.yes) EXPECT_TRUE(regex->matches(s)) << m.pattern << " " << s;
    for (const std::string& s : m.no) EXPECT_FALSE(regex->matches(s)) << m.pattern << " " << s;
  }
}

std::string repeated(const std::string& part, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += part;
  return out;
}

TEST(HostText, PatternsThatAreRefused) {
  const std::vector<std::pair<std::string, std::string>> kRefused = {
      {"(a", "a '(' without its ')'"},
      {"a)", "an unexpected ')'"},
      {"*", "a repetition of nothing"},
      {"(?i)*", "a repetition of nothing at byte 4"},
      {"a|(?i)*", "a repetition of nothing"},
      {"a({2})", "a repetition of nothing at byte 2"},
      {"\\Q\\E*", "a repetition of nothing"},
      {"a(?i-)", "a '-' without flags"},
      {"a**", "a repetition of a repetition at byte 2"},
      {"[b-a]", "ends before it begins"},
      {"[a", "a '[' without its ']'"},
      {"[" + repeated("[:", 500'000), "a '[' without its ']'"},
      {"[[:foo:]]", "an unknown class"},
      {"x(?=y)", "an unknown flag or group"},
      {"ab\\1", "an unknown escape at byte 2"},
      {"[a\\y]", "an unknown escape at byte 2"},
      {"\\u00e9", "an unknown escape at byte 0"},
      {"a\\x4", "an escape without its digits at byte 1"},
      {"a\\x{41", "an escape without its digits at byte 1"},
      {"a\\x{110000}", "a code point that is too large at byte 1"},
      {"a{1001}", "bad bounds"},
      {"((a{1000}){1000}){1000}", "too many repetitions"},
      {"(a{1000}){90}" + repeated("(?i){1}", 10'000), "too many repetitions"},
      {"\\pL", "not supported"},
      {"a\\", "a '\\' at its end at byte 1"},
      {std::string(5000, '('), "nested groups"}};
  for (const auto& [pattern, message] : kRefused) {
    const auto regex = host::Regex::parse(pattern);
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_NE(regex.status().message().find(message), std::string::npos)
        << regex.status().message();
  }
}

/// Backtracking would take 2^40 steps.
TEST(HostText, MatchesInLinearTime) {
  const auto regex = host::Regex::parse("(a|a)*(a|a)*b");
  ASSERT_TRUE(regex.ok());
  EXPECT_FALSE(regex->matches(std::string(20'000, 'a')));
}

}  // namespace
}  // namespace reprise::test
