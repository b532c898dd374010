// The regular expressions of tokenizers.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace reprise::text {

struct Match {
  size_t begin = 0, end = 0;
};

/// A pattern as tokenizer.json has it, in the syntax of Oniguruma, which PCRE2 executes. What both
/// read differently is translated or refused. Immutable, so several threads may use one.
class Regex {
 public:
  /// `where` begins messages.
  static Result<Regex> compile(std::string_view pattern, const std::string& where);
  /// A pattern that matches exactly this text.
  static Result<Regex> literal(std::string_view text, const std::string& where);

  /// Finds the first match that begins at `from` or later in valid UTF-8. An empty match at `from`
  /// does not count if `from` is the end of the last match.
  Result<bool> search(std::string_view text, size_t from, bool after_match, Match& out) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

}  // namespace reprise::text
