// Tokens that are found in a text before anything else happens to it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/text/trie.h"
#include "runtime/base/status.h"

namespace reprise::text {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool special = false;
  bool single_word = false;                      // not within a word
  bool left_strip = false, right_strip = false;  // takes spaces before it, or after it
  bool normalized = false;                       // found in normalised text
};

/// A token, or (id -1) text between tokens.
struct Part {
  int32_t id = -1;
  size_t begin = 0, end = 0;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  /// Those of `tokens` that are normalised, or those that are not. `contents` are what is looked
  /// for.
  AddedTokens(const std::vector<AddedToken>& tokens, const std::vector<std::string>& contents,
              bool normalized);

  /// Which special tokens are found.
  struct Special {
    bool parse = true;
    std::string_view guard;  // one that this follows is none; empty: nothing does that
  };
  /// Cuts valid UTF-8 at the tokens: at the first one, the longest one that begins there.
  std::vector<Part> split(std::string_view text, const Special& special) const;
  /// Where valid UTF-8 spells special tokens: the first byte of each, also of one within another,
  /// and of a token that the end of the text cuts off.
  std::vector<size_t> special_begins(std::string_view text) const;

 private:
  bool longest(std::string_view text, size_t at, const Special& special, size_t& end,
               size_t& which) const;
  std::vector<AddedToken> tokens_;
  Trie trie_, special_;  // all, and the special ones
};

}  // namespace reprise::text
