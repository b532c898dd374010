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

  // A query does not advance, nor does a function that does not find what it would consume: they do
  // not skip the blanks, comments and line ends that come next.
  bool at_end() const;
  /// Whether only blanks and a comment are left on this line.
  bool line_ends() const;
  /// Consumes the punctuation if it is next.
  bool take(std::string_view punctuation);
  Status expect(std::string_view punctuation);
  /// Consumes the next bare word if all of it equals `word`.
  bool take_word(std::string_view word);
  /// Returns the next bare word without consuming it. Empty if there is none.
  std::string_view peek_word() const;
  bool next_is_quote() const;
  Result<std::string> name();  // bare or quoted
  Result<std::string> quoted();
  Result<int64_t> integer();
  /// Reads a list up to and including the bracket that closes it. The caller has consumed the
  /// opening bracket. Items are raw text between top-level commas; quoted items are unquoted.
  Result<std::vector<std::string>> items(char close);
  /// Reads up to the text `end`, or to the end of the line if the line does not contain it.
  std::string until_word(std::string_view end);
  Status error(const std::string& message) const;

 private:
  /// Position of the next character that is neither blank nor in a comment.
  size_t next() const;
  std::string_view s_;
  size_t at_ = 0;
};

}  // namespace reprise::graph::text
