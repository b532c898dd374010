#include "codegen/graph/text/cursor.h"

#include <algorithm>
#include <charconv>

#include "codegen/graph/text/text.h"

namespace reprise::graph::text {

namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

std::string trimmed(std::string_view s) {
  while (!s.empty() && is_blank(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_blank(s.back())) s.remove_suffix(1);
  return std::string(s);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

Status Cursor::error(const std::string& message) const {
  const auto line = 1 + std::count(s_.begin(), s_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
  return invalid_model("line " + std::to_string(line) + ": " + message);
}

size_t Cursor::next() const {
  size_t i = at_;
  while (i < s_.size()) {
    if (is_blank(s_[i])) {
      ++i;
    } else if (s_.substr(i, 2) == "//") {
      i = std::min(s_.find('\n', i), s_.size());
    } else {
      break;
    }
  }
  return i;
}

bool Cursor::at_end() const {
  return next() == s_.size();
}

bool Cursor::line_ends() const {
  size_t i = at_;
  while (i < s_.size() && is_blank(s_[i]) && s_[i] != '\n') ++i;
  return i == s_.size() || s_[i] == '\n' || s_.substr(i, 2) == "//";
}

bool Cursor::take(std::string_view punctuation) {
  const size_t i = next();
  if (s_.substr(i, punctuation.size()) != punctuation) return false;
  at_ = i + punctuation.size();
  return true;
}

Status Cursor::expect(std::string_view punctuation) {
  if (take(punctuation)) return {};
  at_ = next();
  const std::string_view rest = s_.substr(at_, 20);
  return error("expected '" + std::string(punctuation) + "' before '" +
               std::string(rest.substr(0, rest.find('\n'))) + "'");
}

std::string_view Cursor::peek_word() const {
  const size_t begin = next();
  size_t end = begin;
  while (end < s_.size() && is_word_char(s_[end]) && s_.substr(end, 2) != "//") ++end;
  return s_.substr(begin, end - begin);
}

bool Cursor::take_word(std::string_view word) {
  if (peek_word() != word) return false;
  at_ = next() + word.size();
  return true;
}

bool Cursor::next_is_quote() const {
  return s_.substr(next(), 1) == "\"";
}

Result<std::string> Cursor::name() {
  if (next_is_quote()) return quoted();
  const std::string_view word = peek_word();
  at_ = next() + word.size();
  if (word.empty()) return error("expected a name");
  return std::string(word);
}

Result<std::string> Cursor::quoted() {
  if (!take("\"")) return error("expected a quoted string");
  std::string out;
  while (at_ < s_.size() && s_[at_] != '"') {
    if (s_[at_] != '\\') {
      out += s_[at_++];
      continue;
    }
    const std::string_view escape = s_.substr(at_, 4);
    at_ += 2;
    if (escape.size() >= 2 && (escape[1] == '"' || escape[1] == '\\')) {
      out += escape[1];
    } else if (escape.size() >= 2 && escape[1] == 'n') {
      out += '\n';
    } else if (escape.size() == 4 && escape[1] == 'x' && hex_digit(escape[2]) >= 0 &&
               hex_digit(escape[3]) >= 0) {
      out += static_cast<char>(hex_digit(escape[2]) * 16 + hex_digit(escape[3]));
      at_ += 2;
    } else {
      at_ = std::min(at_, s_.size());
      return error("unknown escape in a string");
    }
  }
  if (at_ >= s_.size()) return error("unterminated string");
  ++at_;
  return out;
}

Result<int64_t> Cursor::integer() {
  at_ = next();
  int64_t v = 0;
  const char* begin = s_.data() + at_;
  auto [end, code] = std::from_chars(begin, s_.data() + s_.size(), v);
  if (code != std::errc()) return error("expected an integer");
  at_ += static_cast<size_t>(end - begin);
  return v;
}

Result<std::vector<std::string>> Cursor::items(char close) {
  std::vector<std::string> out;
  if (take(std::string_view(&close, 1))) return out;
  while (true) {
    if (next_is_quote()) {
      RP_ASSIGN(std::string s, quoted());
      out.push_back(std::move(s));
    } else {
      at_ = next();
      const size_t begin = at_;
      int depth = 0;
      while (at_ < s_.size() && s_[at_] != '\n' &&
             (depth > 0 || (s_[at_] != ',' && s_[at_] != close))) {
        if (s_[at_] == '(') ++depth;
        if (s_[at_] == ')') --depth;
        ++at_;
      }
      out.push_back(trimmed(s_.substr(begin, at_ - begin)));
      if (out.back().empty()) return error("expected an item of the list");
    }
    if (take(",")) continue;
    RP_TRY(expect(std::string_view(&close, 1)));
    return out;
  }
}

std::string Cursor::until_word(std::string_view end) {
  at_ = next();
  const size_t line = std::min(s_.find('\n', at_), s_.size());
  const size_t stop = std::min(s_.substr(0, line).find(end, at_), line);
  std::string out = trimmed(s_.substr(at_, stop - at_));
  at_ = stop;
  return out;
}

}  // namespace reprise::graph::text
