// Regular expressions in the syntax of RE2. The time of a match is proportional to the length of
// the text that is read: patterns and texts are untrusted, so there is no backtracking, which is
// why this is not std::regex (whose syntax also differs). RE2 itself is not a dependency of the
// small runtime. https://github.com/google/re2/wiki/Syntax
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/host/text/letter_case.h"

namespace reprise::host {

class Regex {
 public:
  /// Fails on patterns that are not valid. Classes of Unicode (`\p`) and single bytes (`\C`) are
  /// not supported.
  static Result<Regex> parse(std::string_view pattern);
  /// Whether all of the text, in UTF-8, matches.
  bool matches(std::string_view text) const;

  /// Positions of code points.
  struct Found {
    size_t begin, end;
  };
  /// The first match in a text that begins at position `from` or later. Of the matches that begin
  /// there, the longest.
  std::optional<Found> find(const std::vector<uint32_t>& text, size_t from) const;

  struct Range {
    uint32_t first, last;
  };
  /// A set of code points.
  struct Set {
    std::vector<Range> ranges;
    bool negated = false, ignores_case = false;
    /// `variants` are those of the code point.
    bool contains(uint32_t c, const CaseVariants& variants) const;
  };
  enum class Op : uint8_t {
    Take,  // a code point of set `a`
    Fork,  // goes on at a and at b
    Jump,  // goes on at a
    TextBegin,
    TextEnd,
    LineBegin,
    LineEnd,
    WordBoundary,
    NoWordBoundary,
    Match
  };
  struct Instruction {
    Op op = Op::Match;
    uint32_t a = 0, b = 0;
  };

 private:
  friend class RegexCompiler;
  std::vector<Instruction> program_;
  std::vector<Set> sets_;
};

/// The code points of UTF-8; a byte that is not valid is a number that no set contains.
std::vector<uint32_t> code_points(std::string_view text);

}  // namespace reprise::host
