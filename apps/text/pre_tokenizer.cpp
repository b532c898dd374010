#include "apps/text/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "apps/text/replacement.h"
#include "apps/text/unicode.h"

namespace reprise::text {

namespace {

using formats::Json;
using MadeCutter = Result<std::unique_ptr<PreTokenizer>>;

constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

enum class Behavior : unsigned char {
  Removed,
  Isolated,
  MergedWithPrevious,
  MergedWithNext,
  Contiguous
};

struct Span {
  size_t begin, end;
  bool matched;
};
using Spans = std::vector<Span>;

/// What to do with matches. The spans of a text follow each other.
Spans arranged(Spans spans, Behavior behavior) {
  if (behavior == Behavior::Isolated) return spans;
  Spans out;
  out.reserve(spans.size());
  if (behavior == Behavior::Removed) {
    std::copy_if(spans.begin(), spans.end(), std::back_inserter(out),
                 [](const Span& s) { return !s.matched; });
    return out;
  }
  const bool backwards = behavior == Behavior::MergedWithNext;
  if (backwards) std::reverse(spans.begin(), spans.end());
  bool before = false;
  for (const Span& s : spans) {
    const bool joins = behavior == Behavior::Contiguous ? s.matched == before && !out.empty()
                                                        : s.matched && !before && !out.empty();
    if (!joins) {
      out.push_back(s);
    } else if (backwards) {
      out.back().begin = s.begin;
    } else {
      out.back().end = s.end;
    }
    before = s.matched;
  }
  if (backwards) std::reverse(out.begin(), out.end());
  return out;
}

void append_spans(Piece piece, const Spans& spans, Pieces& out) {
  if (spans.size() == 1 && spans[0].begin == 0 && spans[0].end == piece.text.size()) {
    if (!piece.text.empty()) out.push_back(std::move(piece));
    return;
  }
  for (const Span& s : spans) {
    if (s.begin == s.end) continue;
    out.push_back({piece.text.substr(s.begin, s.end - s.begin), piece.first && s.begin == 0});
  }
}

Result<Spans> spans_of(const Regex& pattern, std::string_view text, bool invert) {
  Spans out;
  size_t done = 0;
  Match m;
  bool after = false;
  for (size_t from = 0; from <= text.size(); from = m.end, after = true) {
    RP_ASSIGN(const bool found, pattern.search(text, from, after, m));
    if (!found) break;
    if (m.begin > done) out.push_back({done, m.begin, invert});
    out.push_back({m.begin, m.end, !invert});
    done = m.end;
  }
  if (done < text.size()) out.push_back({done, text.size(), invert});
  return out;
}

/// Each character for which the predicate holds is a match of its own.
template <typename F>
Spans spans_where(const F& holds, std::string_view text) {
  Spans out;
  size_t done = 0;
  for (size_t i = 0, length = 0; i < text.size(); i += length) {
    length = char_length(text[i]);
    if (!holds(char_at(text, i))) continue;
    if (i > done) out.push_back({done, i, false});
    out.push_back({i, i + length, true});
    done = i + length;
  }
  if (done < text.size()) out.push_back({done, text.size(), false});
  return out;
}

bool is_bert_punctuation(char32_t c) {
  const bool ascii = c < 0x80 && c > 0x20 && c != 0x7F && !is_alphanumeric(c);
  // U+166D was punctuation then.
  return ascii || c == 0x166D || (is_punctuation(c) && is_of_unicode_8(c));
}

struct PatternCutter final : PreTokenizer {
  PatternCutter(Regex p, Behavior b, bool i) : pattern(std::move(p)), behavior(b), invert(i) {}
  Status cut(Piece piece, Pieces& out) const override {
    RP_ASSIGN(Spans spans, spans_of(pattern, piece.text, invert));
    append_spans(std::move(piece), arranged(std::move(spans), behavior), out);
    return {};
  }
  Regex pattern;
  Behavior behavior;
  bool invert;
};

struct CharacterCutter final : PreTokenizer {
  using Predicate = bool (*)(char32_t);
  CharacterCutter(Predicate p, Behavior b) : predicate(p), behavior(b) {}
  Status cut(Piece piece, Pieces& out) const override {
    Spans spans = spans_where(predicate, piece.text);
    append_spans(std::move(piece), arranged(std::move(spans), behavior), out);
    return {};
  }
  Predicate predicate;
  Behavior behavior;
};

struct DelimiterCutter final : PreTokenizer {
  explicit DelimiterCutter(char32_t d) : delimiter(d) {}
  Status cut(Piece piece, Pieces& out) const override {
    Spans spans = spans_where([&](char32_t c) { return c == delimiter; }, piece.text);
    append_spans(std::move(piece), arranged(std::move(spans), Behavior::Removed), out);
    return {};
  }
  char32_t delimiter;
};

struct MetaspaceCutter final : PreTokenizer {
  enum class Prepend : unsigned char { Always, First, Never };
  Status cut(Piece piece, Pieces& out) const override {
    std::string text;
    text.reserve(piece.text.size() + 8);
    const bool wanted = prepend == Prepend::Always || (prepend == Prepend::First && piece.first);
    const bool there = piece.text[0] == ' ' || piece.text.starts_with(replacement);
    if (wanted && !there) text += replacement;
    for (const char c : piece.text) {
      if (c == ' ')
        text += replacement;
      else
        text += c;
    }
    piece.text = std::move(text);
    if (!split) {
      out.push_back(std::move(piece));
      return {};
    }
    const char32_t delimiter = char_at(replacement, 0);
    Spans spans = spans_where([&](char32_t c) { return c == delimiter; }, piece.text);
    append_spans(std::move(piece), arranged(std::move(spans), Behavior::MergedWithNext), out);
    return {};
  }
  std::string replacement = "\xE2\x96\x81";
  Prepend prepend = Prepend::Always;
  bool split = true;
};

struct ByteLevelCutter final : PreTokenizer {
  Status cut(Piece piece, Pieces& out) const override {
    if (prefix_space && piece.text[0] != ' ') piece.text.insert(0, " ");
    Pieces pieces;
    pieces.push_back(std::move(piece));
    for (const Regex& pattern : patterns)
      RP_TRY(cut_all(PatternCutter(pattern, Behavior::Isolated, false), pieces));
    out.reserve(out.size() + pieces.size());
    for (Piece& p : pieces) out.push_back({to_byte_chars(p.text), p.first});
    return {};
  }
  bool prefix_space = false;
  std::vector<Regex> patterns;
};

struct SequenceCutter final : PreTokenizer {
  Status cut(Piece piece, Pieces& out) const override {
    Pieces pieces;
    pieces.push_back(std::move(piece));
    for (const auto& part : parts) RP_TRY(cut_all(*part, pieces));
    std::move(pieces.begin(), pieces.end(), std::back_inserter(out));
    return {};
  }
  std::vector<std::unique_ptr<PreTokenizer>> parts;
};

template <typename T, typename... A>
MadeCutter made_cutter(A&&... arguments) {
  return MadeCutter(std::make_unique<T>(std::forward<A>(arguments)...));
}

Result<Behavior> parse_behavior(const Json& json, const char* otherwise) {
  RP_ASSIGN(const std::string name, json.text_or("behavior", otherwise));
  if (name == "Removed") return Behavior::Removed;
  if (name == "Isolated") return Behavior::Isolated;
  if (name == "MergedWithPrevious") return Behavior::MergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::MergedWithNext;
  if (name == "Contiguous") return Behavior::Contiguous;
  return json.error("has the unknown behavior '" + name + "'");
}

MadeCutter make_split(const Json& json) {
  RP_ASSIGN(Regex pattern, parse_pattern(json));
  RP_ASSIGN(const Behavior behavior, parse_behavior(json, "Isolated"));
  RP_ASSIGN(const bool invert, json.boolean_or("invert", false));
  return made_cutter<PatternCutter>(std::move(pattern), behavior, invert);
}

MadeCutter make_metaspace(const Json& json) {
  auto out = std::make_unique<MetaspaceCutter>();
  RP_ASSIGN(out->replacement, json.text_or("replacement", out->replacement));
  if (count_chars(out->replacement) != 1)
    return json.error("must have a replacement of one character");
  RP_ASSIGN(out->split, json.boolean_or("split", true));
  RP_ASSIGN(const bool prefix, json.boolean_or("add_prefix_space", true));
  RP_ASSIGN(const std::string scheme, json.text_or("prepend_scheme", prefix ? "always" : "never"));
  if (scheme == "always")
    out->prepend = MetaspaceCutter::Prepend::Always;
  else if (scheme == "first")
    out->prepend = MetaspaceCutter::Prepend::First;
  else if (scheme == "never")
    out->prepend = MetaspaceCutter::Prepend::Never;
  else
    return json.error("has the unknown prepend_scheme '" + scheme + "'");
  return MadeCutter(std::move(out));
}

MadeCutter make_byte_level(const Json& json) {
  auto out = std::make_unique<ByteLevelCutter>();
  RP_ASSIGN(out->prefix_space, json.boolean_or("add_prefix_space", true));
  RP_ASSIGN(const bool use_regex, json.boolean_or("use_regex", true));
  if (use_regex) {
    RP_ASSIGN(out->patterns.emplace_back(), Regex::compile(kGpt2Pattern, "ByteLevel"));
  }
  return MadeCutter(std::move(out));
}

MadeCutter make_sequence_cutter(const Json& json) {
  auto out = std::make_unique<SequenceCutter>();
  RP_ASSIGN(const Json parts, json.at("pretokenizers"));
  RP_TRY(parts.array().status());
  out->parts.reserve(parts.size());
  for (const Json& part : parts.items()) {
    RP_ASSIGN(out->parts.emplace_back(), make_pre_tokenizer(part));
  }
  return MadeCutter(std::move(out));
}

MadeCutter make_bert_cutter() {
  auto out = std::make_unique<SequenceCutter>();
  out->parts.push_back(std::make_unique<CharacterCutter>(is_space, Behavior::Removed));
  out->parts.push_back(std::make_unique<CharacterCutter>(is_bert_punctuation, Behavior::Isolated));
  return MadeCutter(std::move(out));
}

MadeCutter make_whitespace() {
  // Words as the Unicode standard defines them for regular expressions: with letters in circles and
  // the characters that join others, but without fractions.
#define REPRISE_WORD                                                           \
  R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}\x{24b6}-\x{24e9}\x{1f130}-)" \
  R"(\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})"
  RP_ASSIGN(Regex words,
            Regex::compile("[" REPRISE_WORD R"(]+|[^\s)" REPRISE_WORD "]+", "Whitespace"));
#undef REPRISE_WORD
  return made_cutter<PatternCutter>(std::move(words), Behavior::Removed, true);
}

MadeCutter make_delimiter(const Json& json) {
  RP_ASSIGN(const Json delimiter, json.at("delimiter"));
  RP_ASSIGN(const std::string_view text, delimiter.text());
  if (count_chars(text) != 1) return delimiter.error("must be one character");
  return made_cutter<DelimiterCutter>(char_at(text, 0));
}

}  // namespace

Status cut_all(const PreTokenizer& cutter, Pieces& pieces) {
  Pieces out;
  out.reserve(pieces.size());
  for (Piece& p : pieces) RP_TRY(cutter.cut(std::move(p), out));
  pieces = std::move(out);
  return {};
}

std::unique_ptr<PreTokenizer> make_byte_level(std::vector<Regex> patterns) {
  auto out = std::make_unique<ByteLevelCutter>();
  out->patterns = std::move(patterns);
  return out;
}

Result<std::unique_ptr<PreTokenizer>> make_pre_tokenizer(const Json& json) {
  RP_ASSIGN(const Json type_of, json.at("type"));
  RP_ASSIGN(const std::string_view type, type_of.text());
  if (type == "ByteLevel") return make_byte_level(json);
  if (type == "Split") return make_split(json);
  if (type == "Metaspace") return make_metaspace(json);
  if (type == "Sequence") return make_sequence_cutter(json);
  if (type == "BertPreTokenizer") return make_bert_cutter();
  if (type == "Whitespace") return make_whitespace();
  if (type == "WhitespaceSplit") return made_cutter<CharacterCutter>(is_space, Behavior::Removed);
  if (type == "CharDelimiterSplit") return make_delimiter(json);
  if (type == "Digits") {
    RP_ASSIGN(const bool individual, json.boolean_or("individual_digits", false));
    return made_cutter<CharacterCutter>(is_number,
                                        individual ? Behavior::Isolated : Behavior::Contiguous);
  }
  if (type == "Punctuation") {
    RP_ASSIGN(const Behavior behavior, parse_behavior(json, "Isolated"));
    return made_cutter<CharacterCutter>(is_bert_punctuation, behavior);
  }
  return unsupported(
      type_of.error("the pre-tokenizer '" + std::string(type) + "' is not supported").message());
}

}  // namespace reprise::text
