#define PCRE2_CODE_UNIT_WIDTH 8
#include "apps/text/regex.h"

#include <pcre2.h>

#include <array>

#include "codegen/formats/quoted.h"

namespace reprise::text {

namespace {

constexpr size_t kMostPattern = 20'000;
constexpr uint32_t kMostSteps = 20'000'000;

// White_Space; PCRE2's \s has U+180E as well.
constexpr std::string_view kSpaces =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
// What Oniguruma takes for a character of a word: Alphabetic, marks, digits and connectors; outside
// of a class the numbers of Latin-1, too.
constexpr std::string_view kWords =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
constexpr std::string_view kNumbers = R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";

/// Rewrites what Oniguruma and PCRE2 read differently.
class Translation {
 public:
  Translation(std::string_view pattern, const std::string& where) : p_(pattern), where_(where) {}

  Result<std::string> run() {
    while (at_ < p_.size()) {
      if (p_[at_] == '\\') {
        RP_TRY(escape());
      } else if (in_class_) {
        RP_TRY(class_character());
      } else {
        if (p_[at_] == '[')
          open_class();
        else
          out_ += p_[at_++];
      }
    }
    return std::move(out_);
  }

 private:
  Status refuse(const std::string& what) const {
    return unsupported(where_ + ": " + what + " in the pattern " + formats::quoted(p_, 200) +
                       " is not supported");
  }

  void open_class() {
    in_class_ = true;
    out_ += p_[at_++];
    if (at_ < p_.size() && p_[at_] == '^') out_ += p_[at_++];
    if (at_ < p_.size() && p_[at_] == ']') out_ += "\\]", ++at_;
  }

  Status class_character() {
    const char c = p_[at_];
    if (c == '[') {
      if (p_.substr(at_, 2) != "[:") return refuse("a class in a class");
      const size_t end = p_.find(":]", at_);
      if (end == std::string_view::npos) return refuse("'[:'");
      out_ += p_.substr(at_, end + 2 - at_);
      at_ = end + 2;
      return {};
    }
    if (p_.substr(at_, 2) == "&&") return refuse("the intersection of classes");
    in_class_ = c != ']';
    out_ += c;
    ++at_;
    return {};
  }

  Status escape() {
    if (at_ + 1 >= p_.size()) return refuse("a backslash at the end");
    const char c = p_[at_ + 1];
    at_ += 2;
    const auto set = [&](std::string_view members, bool negated) -> Status {
      if (!in_class_) {
        out_ += negated ? "[^" : "[";
        out_ += std::string(members) + "]";
      } else if (!negated) {
        out_ += members;
      } else {
        out_ += std::string("\\") + c;
      }
      return {};
    };
    switch (c) {
      case 's':
      case 'S':
        return set(kSpaces, c == 'S');
      case 'w':
      case 'W':
        return set(std::string(kWords) + std::string(in_class_ ? "" : kNumbers), c == 'W');
      case 'h':
      case 'H':
        return set("0-9a-fA-F", c == 'H');
      case 'd':
      case 'D':
        return set("\\p{Nd}", c == 'D');
      case 'g':
      case 'k':
      case 'y':
      case 'Y':
      case 'O':
      case 'C':
      case 'Q':
      case 'M':
        return refuse(std::string("'\\") + c + "'");
      default:
        out_ += std::string("\\") + c;
        return {};
    }
  }

  std::string_view p_;
  const std::string& where_;
  std::string out_;
  size_t at_ = 0;
  bool in_class_ = false;
};

/// What a thread needs to match: room for results, and for the stack of compiled patterns.
struct Scratch {
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(size_t{64} << 10, size_t{32} << 20, nullptr);

  Scratch() {
    pcre2_set_match_limit(context, kMostSteps);
    pcre2_set_heap_limit(context, 64 << 10);  // KiB
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    pcre2_jit_stack_free(stack);
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
};

std::string text_of(int error) {
  std::array<unsigned char, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  std::string where;
  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

Result<Regex> Regex::compile(std::string_view pattern, const std::string& where) {
  if (pattern.size() > kMostPattern) {
    return invalid_model(where + ": the pattern has " + std::to_string(pattern.size()) +
                         " bytes, more than " + std::to_string(kMostPattern));
  }
  RP_ASSIGN(const std::string translated, Translation(pattern, where).run());
  const auto code = std::make_shared<Code>();
  code->where = where;
  using Context = std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)>;
  const Context context(pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 100);
  int error = 0;
  size_t at = 0;
  // As in Ruby's syntax, ^ and $ match at the ends of lines.
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                             &error, &at, context.get());
  if (code->code == nullptr) {
    return invalid_model(where + ": the pattern " + formats::quoted(pattern, 200) +
                         " is wrong: " + text_of(error));
  }
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);  // without, patterns are interpreted
  Regex out;
  out.code_ = code;
  return out;
}

Result<Regex> Regex::literal(std::string_view text, const std::string& where) {
  std::string pattern;
  pattern.reserve(text.size() * 2);
  for (const char c : text) {
    const auto b = static_cast<unsigned char>(c);
    if (b < 0x80 && std::isalnum(b) == 0 && b > 0x20) pattern += '\\';
    pattern += c;
  }
  return compile(pattern, where);
}

Result<bool> Regex::search(std::string_view text, size_t from, bool after_match, Match& out) const {
  thread_local const Scratch scratch;
  const uint32_t options =
      PCRE2_NO_UTF_CHECK | (after_match ? PCRE2_NOTEMPTY_ATSTART : uint32_t{0});
  const int count = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                from, options, scratch.data, scratch.context);
  if (count == PCRE2_ERROR_NOMATCH) return false;
  if (count < 0) {
    return invalid_input(code_->where + ": the pattern cannot be matched with a text of " +
                         std::to_string(text.size()) + " bytes: " + text_of(count));
  }
  const size_t* places = pcre2_get_ovector_pointer(scratch.data);
  out = {places[0], places[1]};
  if (out.begin > out.end || out.begin < from)
    return invalid_input(code_->where + ": a match of the pattern ends before it begins");
  return true;
}

}  // namespace reprise::text
