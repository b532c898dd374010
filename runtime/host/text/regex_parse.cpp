// Compiles a pattern to a program, as in Thompson, Regular expression search algorithm, 1968.
#include <algorithm>
#include <optional>

#include "runtime/host/text/regex_classes.h"
#include "runtime/host/text/utf8.h"

namespace reprise::host {

namespace {

constexpr int kMaxDepth = 200;
constexpr uint32_t kMaxRepeat = 1000;
constexpr size_t kMaxProgram = 100'000;
constexpr size_t kMaxCopied = 100 * kMaxProgram;  // by repetitions of repetitions

int digit_of(char c, int base) {
  const int v = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : 99;
  return v < base ? v : -1;
}

}  // namespace

/// A recursive descent parser that writes the program as it reads. A fragment of the program begins
/// at an index, and goes on behind its last instruction.
class RegexCompiler {
 public:
  explicit RegexCompiler(std::string_view pattern) : pattern_(pattern), rest_(pattern) {}

  Result<Regex> run() {
    RP_TRY(alternatives(0));
    if (!rest_.empty()) return invalid("an unexpected ')'");
    emit({Regex::Op::Match, 0, 0});
    return std::move(out_);
  }

 private:
  using Op = Regex::Op;
  struct Flags {
    bool ignore_case = false, multi_line = false, dot_newline = false;
  };
  struct Repetition {
    uint32_t low = 0;
    std::optional<uint32_t> high;  // nothing: no limit
  };
  struct NamedClass {
    Ranges ranges;
    bool negated = false;
  };

  Status invalid(const std::string& what) const { return invalid(what, rest_); }
  /// `from`: the rest of the pattern where the error begins.
  Status invalid(const std::string& what, std::string_view from) const {
    return invalid_model("the pattern '" + std::string(pattern_) + "' has " + what + " at byte " +
                         std::to_string(pattern_.size() - from.size()));
  }
  Status unsupported_part(const std::string& what) const {
    return unsupported("the pattern '" + std::string(pattern_) + "' has " + what +
                       ", which is not supported");
  }
  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  uint32_t here() const { return static_cast<uint32_t>(out_.program_.size()); }
  void emit(Regex::Instruction i) { out_.program_.push_back(i); }
  /// Moves the program from `at` on by one, and puts an instruction there.
  void insert(uint32_t at, Regex::Instruction i) {
    shift(at, here(), 1);
    out_.program_.insert(out_.program_.begin() + at, i);
  }
  /// Adds `by` to the targets of instructions [begin, end) that are at or behind `begin`.
  void shift(uint32_t begin, uint32_t end, uint32_t by) {
    for (uint32_t k = begin; k < end; ++k) {
      Regex::Instruction& in = out_.program_[k];
      if (in.op == Op::Match) continue;
      if (in.op != Op::Take && in.a >= begin) in.a += by;
      if ((in.op == Op::Take || in.op == Op::Fork) && in.b >= begin) in.b += by;
    }
  }
  Status emit_set(Ranges ranges, bool negated = false);
  void emit_assertion(Op op) { emit({op, here() + 1, 0}); }

  Status alternatives(int depth);
  Status sequence(int depth);
  Status atom(int depth);
  Status literal();
  Status group(int depth);
  bool sets_flags() const;
  Status flags();
  Status escape();
  std::optional<NamedClass> perl_escape();
  Result<uint32_t> literal_escape();
  Result<uint32_t> hexadecimal(std::string_view begin);
  Status bracket();
  void add_class(NamedClass named, Ranges& to) const;
  Status bracket_item(Ranges& ranges);
  Result<uint32_t> bracket_code();
  std::optional<Repetition> repetition();
  std::optional<Repetition> bounds();
  Status repeat(uint32_t begin, const Repetition& r);

  std::string_view pattern_, rest_;
  Flags flags_;
  size_t copied_ = 0;  // instructions
  // No ":]" follows if false, so that it is not searched again from each "[:".
  bool has_class_ends_ = true;
  Regex out_;
};

Status RegexCompiler::emit_set(Ranges ranges, bool negated) {
  if (out_.program_.size() >= kMaxProgram) return unsupported_part("too many repetitions");
  out_.sets_.push_back({std::move(ranges), negated, flags_.ignore_case});
  emit({Op::Take, static_cast<uint32_t>(out_.sets_.size() - 1), here() + 1});
  return {};
}

Status RegexCompiler::alternatives(int depth) {
  if (depth > kMaxDepth) return unsupported_part("too many nested groups");
  const Flags outer = flags_;
  std::vector<uint32_t> ends;  // jumps behind the last alternative
  uint32_t begin = here();
  RP_TRY(sequence(depth));
  while (take("|")) {
    insert(begin, {Op::Fork, begin + 1, here() + 2});
    ends.push_back(here());
    emit({Op::Jump, 0, 0});
    begin = here();
    RP_TRY(sequence(depth));
  }
  for (const uint32_t at : ends) out_.program_[at].a = here();
  flags_ = outer;  // flags that a group sets end with it
  return {};
}

/// Terms one after another. As in RE2, flags and empty quotations between a term and an operator of
/// repetition make no difference, but allow one more repetition.
Status RegexCompiler::sequence(int depth) {
  bool quoted = false;    // between \Q and \E
  bool repeated = false;  // the last part is a repetition
  std::optional<uint32_t> term;
  while (!rest_.empty()) {
    const std::string_view begin = rest_;
    if (take(quoted ? "\\E" : "\\Q")) {
      quoted = !quoted;
      repeated = false;
    } else if (quoted) {
      term = here();
      RP_TRY(literal());
    } else if (rest_[0] == '|' || rest_[0] == ')') {
      break;
    } else if (sets_flags()) {
      take("(?");
      RP_TRY(flags());
      take(")");
      repeated = false;
    } else if (const auto r = repetition()) {
      if (!term) return invalid("a repetition of nothing", begin);
      if (repeated) return invalid("a repetition of a repetition", begin);
      if (r->low > kMaxRepeat || r->high.value_or(0) > kMaxRepeat ||
          r->high.value_or(r->low) < r->low)
        return invalid("a repetition with bad bounds", begin);
      RP_TRY(repeat(*term, *r));
      repeated = true;
    } else {
      term = here();
      RP_TRY(atom(depth));
      repeated = false;
    }
  }
  return {};
}

Status RegexCompiler::literal() {
  const CodePoint p = first_code_point(rest_);
  if (p.bytes == 0) return invalid("bytes that are not UTF-8");
  rest_.remove_prefix(p.bytes);
  return emit_set({{p.code, p.code}});
}

Status RegexCompiler::atom(int depth) {
  const char c = rest_[0];
  switch (c) {
    case '(':
      return group(depth);
    case '[':
      return bracket();
    case '\\':
      return escape();
    case '.':
      take(".");
      return emit_set(flags_.dot_newline ? Ranges{} : Ranges{{'\n', '\n'}}, true);
    case '^':
      take("^");
      emit_assertion(flags_.multi_line ? Op::LineBegin : Op::TextBegin);
      return {};
    case '$':
      take("$");
      emit_assertion(flags_.multi_line ? Op::LineEnd : Op::TextEnd);
      return {};
    default:
      break;
  }
  return literal();
}

Status RegexCompiler::group(int depth) {
  take("(");
  const Flags outer = flags_;
  if (take("?P<") || (!rest_.starts_with("?<=") && !rest_.starts_with("?<!") && take("?<"))) {
    const size_t end = rest_.find('>');
    const std::string_view name = rest_.substr(0, end);
    const bool valid =
        end != std::string_view::npos && !name.empty() && std::ranges::all_of(name, [](char c) {
          return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                 c == '_';
        });
    if (!valid) return invalid("a group with a bad name");
    rest_.remove_prefix(end + 1);
  } else if (take("?")) {
    RP_TRY(flags());
    take(":");
  }
  RP_TRY(alternatives(depth + 1));
  if (!take(")")) return invalid("a '(' without its ')'");
  flags_ = outer;
  return {};
}

/// Whether flags follow that hold to the end of the group around them.
bool RegexCompiler::sets_flags() const {
  if (!rest_.starts_with("(?")) return false;
  const size_t end = rest_.find_first_not_of("imsU-", 2);
  return end != std::string_view::npos && rest_[end] == ')';
}

/// Reads flags up to a ":" or ")".
Status RegexCompiler::flags() {
  bool value = true;
  bool any = true;  // a letter follows the minus
  while (!rest_.starts_with(":") && !rest_.starts_with(")")) {
    if (take("-")) {
      if (!value) return invalid("two '-'");
      value = any = false;
      continue;
    }
    any = true;
    if (take("i")) {
      flags_.ignore_case = value;
    } else if (take("m")) {
      flags_.multi_line = value;
    } else if (take("s")) {
      flags_.dot_newline = value;
    } else if (!take("U")) {  // it chooses among matches, which makes no difference here
      return invalid("an unknown flag or group");
    }
  }
  return any ? Status() : invalid("a '-' without flags");
}

Status RegexCompiler::escape() {
  constexpr std::pair<std::string_view, Op> kAssertions[] = {{"\\A", Op::TextBegin},
                                                             {"\\z", Op::TextEnd},
                                                             {"\\b", Op::WordBoundary},
                                                             {"\\B", Op::NoWordBoundary}};
  for (const auto& [text, op] : kAssertions) {
    if (!take(text)) continue;
    emit_assertion(op);
    return {};
  }
  if (auto named = perl_escape()) return emit_set(std::move(named->ranges), named->negated);
  RP_ASSIGN(const uint32_t code, literal_escape());
  return emit_set({{code, code}});
}

/// Reads \d, \s, \w, or the negation \D, \S, \W.
std::optional<RegexCompiler::NamedClass> RegexCompiler::perl_escape() {
  if (rest_.size() < 2 || rest_[0] != '\\') return std::nullopt;
  const char letter = rest_[1];
  const bool negated = letter == 'D' || letter == 'S' || letter == 'W';
  auto set = perl_class(negated ? static_cast<char>(letter - 'A' + 'a') : letter);
  if (!set) return std::nullopt;
  rest_.remove_prefix(2);
  return NamedClass{*std::move(set), negated};
}

/// An escape that stands for one code point.
Result<uint32_t> RegexCompiler::literal_escape() {
  const std::string_view begin = rest_;
  take("\\");
  if (rest_.empty()) return invalid("a '\\' at its end", begin);
  const char c = rest_[0];
  if (c == 'p' || c == 'P' || c == 'C') return unsupported_part(std::string("\\") + c);
  rest_.remove_prefix(1);
  constexpr std::string_view kLetters = "afnrtv";
  constexpr std::string_view kCodes = "\a\f\n\r\t\v";
  const size_t at = kLetters.find(c);
  if (at != std::string_view::npos) return static_cast<unsigned char>(kCodes[at]);
  if (c == 'x') return hexadecimal(begin);
  if (c == '0' || (c >= '1' && c <= '7' && !rest_.empty() && digit_of(rest_[0], 8) >= 0)) {
    auto code = static_cast<uint32_t>(c - '0');
    for (int i = 0; i < 2 && !rest_.empty() && digit_of(rest_[0], 8) >= 0; ++i) {
      code = code * 8 + static_cast<uint32_t>(digit_of(rest_[0], 8));
      rest_.remove_prefix(1);
    }
    return code;
  }
  const bool alphanumeric =
      digit_of(c, 10) >= 0 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  if (alphanumeric || static_cast<unsigned char>(c) >= 0x80)
    return invalid("an unknown escape", begin);
  return static_cast<unsigned char>(c);
}

/// "7f" or "{10ffff}". `begin` is where the escape begins.
Result<uint32_t> RegexCompiler::hexadecimal(std::string_view begin) {
  const bool braces = take("{");
  uint32_t code = 0;
  size_t digits = 0;
  while ((braces || digits < 2) && !rest_.empty() && digit_of(rest_[0], 16) >= 0) {
    code = code * 16 + static_cast<uint32_t>(digit_of(rest_[0], 16));
    rest_.remove_prefix(1);
    ++digits;
    if (code > kLastCode) return invalid("a code point that is too large", begin);
  }
  if (digits == 0 || (!braces && digits != 2) || (braces && !take("}")))
    return invalid("an escape without its digits", begin);
  return code;
}

/// A class in brackets.
Status RegexCompiler::bracket() {
  take("[");
  const bool negated = take("^");
  Ranges ranges;
  for (bool first = true; first || !rest_.starts_with("]"); first = false) {
    if (rest_.empty()) return invalid("a '[' without its ']'");
    RP_TRY(bracket_item(ranges));
  }
  take("]");
  // A negated class also contains newlines.
  return emit_set(std::move(ranges), negated);
}

/// Adds a class to a class in brackets. Where case is ignored, the negation of a class has no code
/// point that is equal to one in the class.
void RegexCompiler::add_class(NamedClass named, Ranges& to) const {
  if (named.negated) {
    named.ranges = negation(flags_.ignore_case ? with_case_variants(std::move(named.ranges))
                                               : std::move(named.ranges));
  }
  to.insert(to.end(), named.ranges.begin(), named.ranges.end());
}

Status RegexCompiler::bracket_item(Ranges& ranges) {
  const size_t end =
      has_class_ends_ && rest_.starts_with("[:") ? rest_.find(":]", 2) : std::string_view::npos;
  if (rest_.starts_with("[:") && end == std::string_view::npos) has_class_ends_ = false;
  if (end != std::string_view::npos) {
    std::string_view name = rest_.substr(2, end - 2);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    auto set = posix_class(name);
    if (!set) return invalid("an unknown class");
    rest_.remove_prefix(end + 2);
    add_class({*std::move(set), negated}, ranges);
    return {};
  }
  if (auto named = perl_escape()) {
    add_class(*std::move(named), ranges);
    return {};
  }
  RP_ASSIGN(const uint32_t first, bracket_code());
  Regex::Range r{first, first};
  if (rest_.size() > 1 && rest_[0] == '-' && rest_[1] != ']') {
    take("-");
    RP_ASSIGN(r.last, bracket_code());
    if (r.last < r.first) return invalid("a range that ends before it begins");
  }
  ranges.push_back(r);
  return {};
}

Result<uint32_t> RegexCompiler::bracket_code() {
  if (rest_.empty()) return invalid("a '[' without its ']'");
  if (rest_[0] == '\\') return literal_escape();
  const CodePoint p = first_code_point(rest_);
  if (p.bytes == 0) return invalid("bytes that are not UTF-8");
  rest_.remove_prefix(p.bytes);
  return p.code;
}

/// Reads an operator of repetition, if one follows.
std::optional<RegexCompiler::Repetition> RegexCompiler::repetition() {
  std::optional<Repetition> r;
  if (take("*")) {
    r = Repetition{0, std::nullopt};
  } else if (take("+")) {
    r = Repetition{1, std::nullopt};
  } else if (take("?")) {
    r = Repetition{0, 1};
  } else {
    r = bounds();
  }
  if (r) take("?");  // prefers few repetitions, which makes no difference here
  return r;
}

/// "{2}", "{2,}" or "{2,5}". Anything else is no repetition, but text.
std::optional<RegexCompiler::Repetition> RegexCompiler::bounds() {
  const std::string_view before = rest_;
  const auto number = [this](uint32_t& v) {
    const size_t digits = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    v = 0;
    for (size_t i = 0; i < digits; ++i)
      v = std::min<uint32_t>(v * 10 + static_cast<uint32_t>(rest_[i] - '0'), kMaxRepeat + 1);
    rest_.remove_prefix(digits);
    return digits > 0;
  };
  Repetition r;
  if (take("{") && number(r.low)) {
    r.high = r.low;
    if (take(",")) {
      uint32_t v = 0;
      r.high = number(v) ? std::optional(v) : std::nullopt;
    }
    if (take("}")) return r;
  }
  rest_ = before;
  return std::nullopt;
}

/// Writes copies of the fragment from `begin` to the end of the program: `low` that are needed, and
/// those that are optional, or one that repeats.
Status RegexCompiler::repeat(uint32_t begin, const Repetition& r) {
  const auto [low, high] = r;
  const std::vector<Regex::Instruction> fragment(out_.program_.begin() + begin,
                                                 out_.program_.end());
  out_.program_.resize(begin);
  const auto append = [&] {
    const uint32_t at = here();
    out_.program_.insert(out_.program_.end(), fragment.begin(), fragment.end());
    for (uint32_t k = at; k < here(); ++k) {
      Regex::Instruction& in = out_.program_[k];
      if (in.op != Op::Take) in.a += at - begin;
      in.b += at - begin;
    }
  };
  const size_t copies = std::max<size_t>(low, high.value_or(low + 1));
  copied_ += copies * (fragment.size() + 2);
  if (begin + copies * (fragment.size() + 2) > kMaxProgram || copied_ > kMaxCopied)
    return unsupported_part("too many repetitions");
  for (uint32_t i = 0; i < low; ++i) append();
  if (!high) {
    const auto size = static_cast<uint32_t>(fragment.size());
    emit({Op::Fork, here() + 1, here() + size + 2});
    const uint32_t fork = here() - 1;
    append();
    emit({Op::Jump, fork, 0});
    return {};
  }
  std::vector<uint32_t> forks;  // past all optional copies
  for (uint32_t i = low; i < *high; ++i) {
    forks.push_back(here());
    emit({Op::Fork, here() + 1, 0});
    append();
  }
  for (const uint32_t at : forks) out_.program_[at].b = here();
  if (here() == begin) emit({Op::Jump, here() + 1, 0});
  return {};
}

Result<Regex> Regex::parse(std::string_view pattern) {
  return RegexCompiler(pattern).run();
}

}  // namespace reprise::host
