// The table of replacements that SentencePiece compiles into its models.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace reprise::text {

/// A double-array trie of byte sequences and the texts that replace them, one after the other with
/// a zero byte at the end of each.
class Charsmap {
 public:
  /// The bytes of `precompiled_charsmap`; `where` begins messages.
  static Result<Charsmap> parse(std::string_view bytes, const std::string& where);

  struct Found {
    size_t length = 0;  // bytes that are replaced
    std::string_view replacement;
  };
  /// The shortest entry that is a prefix of the text, and the longest one.
  std::optional<Found> shortest(std::string_view text) const;
  std::optional<Found> longest(std::string_view text) const;

 private:
  std::optional<Found> find(std::string_view text, bool longest) const;
  std::vector<uint32_t> units_;
  std::string texts_;
};

/// Standard base64, as JSON has the table.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace reprise::text
