// Reads the lexical elements of a graph's text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace reprise::graph::text {

class Cursor {
 public:
  explicit Cursor(std::string_view s) : s_(s) {}

  // What only looks, or does not find what it would consume, stays where it is: before the blanks,
  // comments and line ends that come next.
  bool at_end() const;
  /// Whether nothing but blanks and a comment is left of this line.
  bool line_ends() const;
  /// Consumes the punctuation if it is next.
  bool take(std::string_view punctuation);
  Status expect(std::string_view punctuation);
  /// Consumes the bare word if it is next, whole.
  bool take_word(std::string_view word);
  /// The bare word that is next, unconsumed; empty when there is none.
  std::string_view peek_word() const;
  bool next_is_quote() const;
  Result<std::string> name();  // bare or quoted
  Result<std::string> quoted();
  Result<int64_t> integer();
  /// Raw text up to the closing bracket that matches an opening one already consumed, split at
  /// top-level commas; consumes the bracket. Quoted items are unquoted.
  Result<std::vector<std::string>> items(char close);
  /// The rest of the line up to `end` (a word between blanks) or its end.
  std::string until_word(std::string_view end);
  Status error(const std::string& message) const;

 private:
  /// Position of the next character that is neither blank nor in a comment.
  size_t next() const;
  std::string_view s_;
  size_t at_ = 0;
};

}  // namespace reprise::graph::text
