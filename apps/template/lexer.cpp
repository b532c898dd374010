#include <algorithm>
#include <array>
#include <cctype>

#include "apps/template/syntax.h"
#include "apps/text/unicode.h"

namespace reprise::text {

namespace {

constexpr size_t kMostTokens = 1 << 20;

bool is_name_char(char c, bool first) {
  const auto b = static_cast<unsigned char>(c);
  return c == '_' || b >= 0x80 || std::isalpha(b) != 0 || (!first && std::isdigit(b) != 0);
}

bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_blank(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f';
  });
}

std::string with_plain_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_lines(source)), s_(source_) {}

  Result<std::vector<Token>> run() {
    while (at_ < s_.size()) {
      const size_t tag = next_tag();
      RP_TRY(data(tag));
      if (at_ >= s_.size()) break;
      RP_TRY(this->tag());
      if (out_.size() > kMostTokens) return fail("the template is too long");
    }
    add(Token::Kind::End, "");
    return std::move(out_);
  }

 private:
  Status fail(const std::string& what) const {
    return invalid_model("line " + std::to_string(line_) + ": " + what);
  }
  void add(Token::Kind kind, std::string text) { out_.push_back({kind, std::move(text), line_}); }
  void skip(size_t to) {
    line_ += static_cast<int>(std::count(s_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         s_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  size_t next_tag() const {
    for (size_t i = s_.find('{', at_); i != std::string_view::npos; i = s_.find('{', i + 1)) {
      if (i + 1 < s_.size() && (s_[i + 1] == '{' || s_[i + 1] == '%' || s_[i + 1] == '#')) return i;
    }
    return s_.size();
  }

  char sign_at(size_t at) const { return at < s_.size() ? s_[at] : '\0'; }

  Status data(size_t tag) {
    std::string_view text = s_.substr(at_, tag - at_);
    if (tag < s_.size()) {
      const char sign = sign_at(tag + 2);
      if (sign == '-') {
        while (!text.empty() && is_blank(text.substr(text.size() - 1))) text.remove_suffix(1);
      } else if (sign != '+' && s_[tag + 1] != '{') {
        const size_t newline = text.rfind('\n');
        const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
        const bool starts_line = newline != std::string_view::npos || line_starts_;
        if (starts_line && is_blank(text.substr(begin))) text = text.substr(0, begin);
      }
    }
    if (!text.empty()) add(Token::Kind::Data, std::string(text));
    if (tag > at_) line_starts_ = false;
    skip(tag);
    return {};
  }

  /// Goes on after the end of a tag, whose two last characters are at `end`.
  void leave(size_t end, bool block) {
    const char sign = end > 0 ? s_[end - 1] : '\0';
    size_t to = end + 2;
    if (sign == '-') {
      while (to < s_.size() && is_blank(s_.substr(to, 1))) ++to;
    } else if (block && sign != '+' && to < s_.size() && s_[to] == '\n') {
      ++to;
    }
    line_starts_ = s_[to - 1] == '\n';
    skip(to);
  }

  Status tag() {
    const char kind = s_[at_ + 1];
    if (kind == '#') {
      const size_t end = s_.find("#}", at_ + 2);
      if (end == std::string_view::npos) return fail("a comment has no end");
      leave(end, true);
      return {};
    }
    const bool block = kind == '%';
    const std::string_view closing = block ? "%}" : "}}";
    add(block ? Token::Kind::BlockBegin : Token::Kind::OutputBegin, "");
    const char sign = sign_at(at_ + 2);
    at_ += sign == '-' || (block && sign == '+') ? 3 : 2;
    const size_t first = out_.size();
    open_.clear();
    bool raw = false;
    while (true) {
      while (at_ < s_.size() && is_blank(s_.substr(at_, 1))) skip(at_ + 1);
      if (at_ >= s_.size()) return fail("a tag has no end");
      const size_t signed_end = s_[at_] == '-' || s_[at_] == '+' ? at_ + 1 : at_;
      if (open_.empty() && s_.substr(signed_end, 2) == closing && (block || s_[at_] != '+')) {
        raw = block && out_.size() == first + 1 && out_[first].text == "raw";
        add(block ? Token::Kind::BlockEnd : Token::Kind::OutputEnd, "");
        leave(signed_end, block && !raw);
        break;
      }
      RP_TRY(token());
    }
    return raw ? raw_text(first) : Status();
  }

  /// {% raw %} text {% endraw %}
  Status raw_text(size_t first) {
    out_.resize(first - 1);
    for (size_t i = s_.find("{%", at_); i != std::string_view::npos; i = s_.find("{%", i + 2)) {
      size_t word = i + 2;
      const bool strips = sign_at(word) == '-';
      if (strips || sign_at(word) == '+') ++word;
      while (word < s_.size() && is_blank(s_.substr(word, 1))) ++word;
      if (s_.substr(word, 6) != "endraw") continue;
      const size_t end = s_.find("%}", word);
      if (end == std::string_view::npos) break;
      std::string_view text = s_.substr(at_, i - at_);
      const size_t begin = text.rfind('\n') + 1;  // 0 if there is none
      while (strips && !text.empty() && is_blank(text.substr(text.size() - 1)))
        text.remove_suffix(1);
      if (!strips && sign_at(i + 2) != '+' && (begin > 0 || line_starts_) &&
          is_blank(text.substr(begin)))
        text = text.substr(0, begin);
      if (!text.empty()) add(Token::Kind::Data, std::string(text));
      leave(end, true);
      return {};
    }
    return fail("a raw block has no end");
  }

  Status token() {
    const char c = s_[at_];
    if (is_ascii_digit(c)) return number();
    if (c == '\'' || c == '"') return text(c);
    if (is_name_char(c, true)) {
      size_t end = at_ + 1;
      while (end < s_.size() && is_name_char(s_[end], false)) ++end;
      add(Token::Kind::Name, std::string(s_.substr(at_, end - at_)));
      at_ = end;
      return {};
    }
    return operation();
  }

  Status number() {
    size_t end = at_;
    std::string digits;
    const auto take = [&] {
      for (; end < s_.size() && (is_ascii_digit(s_[end]) || s_[end] == '_'); ++end) {
        if (s_[end] != '_') digits += s_[end];
      }
    };
    take();
    bool real = false;
    if (end + 1 < s_.size() && s_[end] == '.' && is_ascii_digit(s_[end + 1])) {
      real = true;
      digits += s_[end++];
      take();
    }
    if (end < s_.size() && (s_[end] == 'e' || s_[end] == 'E')) {
      size_t power = end + 1;
      if (power < s_.size() && (s_[power] == '+' || s_[power] == '-')) ++power;
      if (power < s_.size() && is_ascii_digit(s_[power])) {
        real = true;
        digits += std::string(s_.substr(end, power - end));
        end = power;
        take();
      }
    }
    if (digits.size() > 400) return fail("a number is too long");
    add(real ? Token::Kind::Float : Token::Kind::Integer, digits);
    at_ = end;
    return {};
  }

  Status text(char quote) {
    std::string out;
    size_t i = at_ + 1;
    while (i < s_.size() && s_[i] != quote) {
      if (s_[i] != '\\') {
        out += s_[i++];
        continue;
      }
      if (i + 1 >= s_.size()) break;
      RP_TRY(escape(i, out));
    }
    if (i >= s_.size()) return fail("a text has no end");
    add(Token::Kind::Text, std::move(out));
    skip(i + 1);
    return {};
  }

  /// An escape of Python at `i`, which moves behind it.
  Status escape(size_t& i, std::string& out) const {
    static constexpr std::string_view kLetters = "ntr\\'\"abfv";
    static constexpr std::string_view kValues = "\n\t\r\\'\"\a\b\f\v";
    const char c = s_[i + 1];
    i += 2;
    if (c == '\n') return {};
    const size_t letter = kLetters.find(c);
    if (letter != std::string_view::npos) {
      out += kValues[letter];
      return {};
    }
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {
      out += '\\';
      out += c;
      return is_ascii_digit(c) ? fail("an octal escape in a text is not supported") : Status();
    }
    char32_t code = 0;
    for (size_t d = 0; d < digits; ++d, ++i) {
      const int value = i < s_.size() && std::isxdigit(static_cast<unsigned char>(s_[i])) != 0
                            ? std::stoi(std::string(1, s_[i]), nullptr, 16)
                            : -1;
      if (value < 0) return fail("an escape in a text has too few digits");
      code = code << 4 | static_cast<char32_t>(value);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
      return fail("an escape in a text is no character");
    append_char(out, code);
    return {};
  }

  Status operation() {
    static constexpr std::array<std::string_view, 24> kOperators{
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~",
        ">",  "<",  "=",  ".",  ":",  "|",  ",", "(", "[", "{", ")", "]"};
    const std::string_view rest = s_.substr(at_);
    const auto* found = std::find_if(kOperators.begin(), kOperators.end(),
                                     [&](std::string_view o) { return rest.starts_with(o); });
    std::string_view name = found == kOperators.end() ? std::string_view() : *found;
    if (name.empty() && rest[0] == '}') name = "}";
    if (name.empty()) return fail(std::string("the character '") + rest[0] + "' is not expected");
    if (name == "(" || name == "[" || name == "{") open_ += name;
    if ((name == ")" || name == "]" || name == "}") && !open_.empty()) open_.pop_back();
    add(Token::Kind::Operator, std::string(name));
    at_ += name.size();
    return {};
  }

  std::string source_;
  std::string_view s_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
  std::string open_;  // brackets
  std::vector<Token> out_;
};

}  // namespace

Result<std::vector<Token>> cut_template(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace reprise::text
