#include "apps/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "apps/text/unicode.h"

namespace reprise::text {

namespace {

size_t char_before(std::string_view text, size_t at) {
  do --at;
  while ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

bool within_word(std::string_view text, size_t begin, size_t end) {
  return (begin > 0 && is_word(char_at(text, char_before(text, begin)))) ||
         (end < text.size() && is_word(char_at(text, end)));
}

}  // namespace

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens,
                         const std::vector<std::string>& contents, bool normalized) {
  std::vector<std::pair<std::string, int32_t>> entries, special;
  entries.reserve(tokens.size());
  tokens_.reserve(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string& content = contents[i];
    // What is no text cannot be found in one.
    if (tokens[i].normalized != normalized || content.empty() ||
        first_invalid(content) != content.size()) {
      continue;
    }
    entries.emplace_back(content, static_cast<int32_t>(tokens_.size()));
    if (tokens[i].special) special.push_back(entries.back());
    tokens_.push_back(tokens[i]);
  }
  special_ = Trie(std::move(special));
  trie_ = Trie(std::move(entries));
}

bool AddedTokens::longest(std::string_view text, size_t at, const Special& special, size_t& end,
                          size_t& which) const {
  bool found = false;
  uint32_t node = trie_.root();
  for (size_t i = at; i < text.size(); ++i) {
    node = trie_.next(node, text[i]);
    if (node == Trie::kNone) break;
    const int32_t value = trie_.value(node);
    if (value < 0) continue;
    const bool guarded = !special.guard.empty() && text.substr(i + 1).starts_with(special.guard);
    if (tokens_[static_cast<size_t>(value)].special && (!special.parse || guarded)) continue;
    found = true;
    end = i + 1;
    which = static_cast<size_t>(value);
  }
  return found;
}

std::vector<size_t> AddedTokens::special_begins(std::string_view text) const {
  std::vector<size_t> out;
  if (tokens_.empty()) return out;
  for (size_t at = 0; at < text.size(); ++at) {
    uint32_t node = special_.root();
    size_t i = at;
    for (; i < text.size(); ++i) {
      node = special_.next(node, text[i]);
      if (node == Trie::kNone || special_.value(node) >= 0) break;
    }
    if (node != Trie::kNone) out.push_back(at);
  }
  return out;
}

std::vector<Part> AddedTokens::split(std::string_view text, const Special& special) const {
  std::vector<Part> out;
  size_t done = 0;
  if (tokens_.empty()) {
    out.push_back({-1, 0, text.size()});
    return out;
  }
  for (size_t at = 0; at < text.size();) {
    size_t end = 0, which = 0;
    if (!longest(text, at, special, end, which)) {
      ++at;
      continue;
    }
    const AddedToken& t = tokens_[which];
    size_t begin = std::exchange(at, end);
    if (t.single_word && within_word(text, begin, end)) continue;
    if (t.left_strip) {
      while (begin > done && is_space(char_at(text, char_before(text, begin))))
        begin = char_before(text, begin);
    }
    if (t.right_strip) {
      while (end < text.size() && is_space(char_at(text, end))) end += char_length(text[end]);
    }
    if (done < begin) out.push_back({-1, done, begin});
    out.push_back({t.id, begin, end});
    done = std::max(done, end);
  }
  if (done < text.size()) out.push_back({-1, done, text.size()});
  return out;
}

}  // namespace reprise::text
