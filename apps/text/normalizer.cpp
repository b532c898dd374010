#include "apps/text/normalizer.h"

#include <utility>
#include <vector>

#include "apps/text/charsmap.h"
#include "apps/text/regex.h"
#include "apps/text/replacement.h"
#include "apps/text/unicode.h"

namespace reprise::text {

namespace {

using formats::Json;
using Made = Result<std::unique_ptr<Normalizer>>;

/// Calls `change(c, out)` for each character.
template <typename F>
void rewrite(std::string& text, const F& change) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (size_t i = 0; i < text.size(); i += char_length(text[i])) change(char_at(text, i), out);
  text = std::move(out);
}

struct FormNormalizer final : Normalizer {
  explicit FormNormalizer(NormalForm f) : form(f) {}
  Status apply(std::string& text) const override {
    RP_ASSIGN(text, normal_form(form, text));
    return {};
  }
  NormalForm form;
};

struct LowercaseNormalizer final : Normalizer {
  Status apply(std::string& text) const override {
    std::string out;
    out.reserve(text.size());
    append_lower(out, text);
    text = std::move(out);
    return {};
  }
};

struct StripAccentsNormalizer final : Normalizer {
  Status apply(std::string& text) const override {
    rewrite(text, [](char32_t c, std::string& out) {
      if (!is_mark(c)) append_char(out, c);
    });
    return {};
  }
};

struct NmtNormalizer final : Normalizer {
  static bool removed(char32_t c) {
    return (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
           c == 0x9F;
  }
  static bool spaced(char32_t c) {
    return c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
           (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
           c == 0xFEFF || c == 0xFFFD;
  }
  Status apply(std::string& text) const override {
    rewrite(text, [](char32_t c, std::string& out) {
      if (!removed(c)) append_char(out, spaced(c) ? U' ' : c);
    });
    return {};
  }
};

struct StripNormalizer final : Normalizer {
  StripNormalizer(bool l, bool r) : left(l), right(r) {}
  Status apply(std::string& text) const override {
    size_t begin = 0, end = text.size();
    while (left && begin < end && is_space(char_at(text, begin))) begin += char_length(text[begin]);
    while (right && end > begin) {
      size_t last = end - 1;
      while ((static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
      if (!is_space(char_at(text, last))) break;
      end = last;
    }
    text = text.substr(begin, end - begin);
    return {};
  }
  bool left, right;
};

struct PrependNormalizer final : Normalizer {
  explicit PrependNormalizer(std::string p) : prefix(std::move(p)) {}
  Status apply(std::string& text) const override {
    if (!text.empty()) text = prefix + text;
    return {};
  }
  std::string prefix;
};

struct ReplaceNormalizer final : Normalizer {
  explicit ReplaceNormalizer(Replacement r) : replacement(std::move(r)) {}
  Status apply(std::string& text) const override { return replacement.apply(text); }
  Replacement replacement;
};

struct ByteLevelNormalizer final : Normalizer {
  Status apply(std::string& text) const override {
    text = to_byte_chars(text);
    return {};
  }
};

struct BertNormalizer final : Normalizer {
  static void clean(std::string& text) {
    rewrite(text, [](char32_t c, std::string& out) {
      const bool spaces = c == '\t' || c == '\n' || c == '\r';
      if (c == 0 || c == 0xFFFD || (!spaces && is_other(c))) return;
      append_char(out, is_space(c) ? U' ' : c);
    });
  }
  Status apply(std::string& text) const override {
    if (clean_text) clean(text);
    if (separate_cjk) {
      rewrite(text, [](char32_t c, std::string& out) {
        if (!is_cjk(c)) return append_char(out, c);
        out += ' ';
        append_char(out, c);
        out += ' ';
      });
    }
    if (strip_accents) {
      RP_ASSIGN(text, normal_form(NormalForm::NFD, text));
      rewrite(text, [](char32_t c, std::string& out) {
        if (!is_nonspacing(c) || !is_of_unicode_8(c)) append_char(out, c);
      });
    }
    return lowercase ? LowercaseNormalizer().apply(text) : Status();
  }
  bool clean_text = true, separate_cjk = true, strip_accents = true, lowercase = true;
};

/// As the library `tokenizers` applies the table: to whole graphemes, or else to characters.
struct CharsmapNormalizer final : Normalizer {
  explicit CharsmapNormalizer(Charsmap m) : map(std::move(m)) {}
  Status apply(std::string& text) const override {
    constexpr size_t kLongGrapheme = 6;
    std::string out;
    out.reserve(text.size());
    size_t begin = 0;
    for (const size_t end : grapheme_ends(text)) {
      const std::string_view grapheme = std::string_view(text).substr(begin, end - begin);
      begin = end;
      const auto whole = grapheme.size() < kLongGrapheme ? map.shortest(grapheme) : std::nullopt;
      if (whole) {
        out += whole->replacement;
        continue;
      }
      for (size_t i = 0, length = 0; i < grapheme.size(); i += length) {
        length = char_length(grapheme[i]);
        const std::string_view one = grapheme.substr(i, length);
        const auto found = map.shortest(one);
        out += found ? found->replacement : one;
      }
    }
    text = std::move(out);
    return {};
  }
  Charsmap map;
};

struct SequenceNormalizer final : Normalizer {
  Status apply(std::string& text) const override {
    const size_t most = 64 * text.size() + 65536;
    for (const auto& part : parts) {
      RP_TRY(part->apply(text));
      if (text.size() > most)
        return invalid_input("a text becomes more than 64 times as long by its normalisation");
    }
    return {};
  }
  std::vector<std::unique_ptr<Normalizer>> parts;
};

template <typename T, typename... A>
Made made(A&&... arguments) {
  return Made(std::make_unique<T>(std::forward<A>(arguments)...));
}

Made make_bert(const Json& json) {
  auto out = std::make_unique<BertNormalizer>();
  RP_ASSIGN(out->clean_text, json.boolean_or("clean_text", true));
  RP_ASSIGN(out->separate_cjk, json.boolean_or("handle_chinese_chars", true));
  RP_ASSIGN(out->lowercase, json.boolean_or("lowercase", true));
  RP_ASSIGN(out->strip_accents, json.boolean_or("strip_accents", out->lowercase));
  return Made(std::move(out));
}

Made make_charsmap(const Json& json) {
  RP_ASSIGN(const Json member, json.at("precompiled_charsmap"));
  if (member.is(Json::Kind::Null)) return made<SequenceNormalizer>();
  RP_ASSIGN(const std::string_view text, member.text());
  const std::optional<std::string> bytes = decode_base64(text);
  if (!bytes) return member.error("is not base64");
  if (bytes->empty()) return made<SequenceNormalizer>();
  RP_ASSIGN(Charsmap map, Charsmap::parse(*bytes, member.path()));
  return made<CharsmapNormalizer>(std::move(map));
}

Made make_sequence(const Json& json) {
  auto out = std::make_unique<SequenceNormalizer>();
  RP_ASSIGN(const Json parts, json.at("normalizers"));
  RP_TRY(parts.array().status());
  out->parts.reserve(parts.size());
  for (const Json& part : parts.items()) {
    RP_ASSIGN(out->parts.emplace_back(), make_normalizer(part));
  }
  return Made(std::move(out));
}

Made make_strip(const Json& json) {
  RP_ASSIGN(const bool left, json.boolean_or("strip_left", true));
  RP_ASSIGN(const bool right, json.boolean_or("strip_right", true));
  return made<StripNormalizer>(left, right);
}

}  // namespace

Result<std::unique_ptr<Normalizer>> make_normalizer(const Json& json) {
  RP_ASSIGN(const Json type_of, json.at("type"));
  RP_ASSIGN(const std::string_view type, type_of.text());
  if (type == "NFC") return made<FormNormalizer>(NormalForm::NFC);
  if (type == "NFD") return made<FormNormalizer>(NormalForm::NFD);
  if (type == "NFKC") return made<FormNormalizer>(NormalForm::NFKC);
  if (type == "NFKD") return made<FormNormalizer>(NormalForm::NFKD);
  if (type == "Lowercase") return made<LowercaseNormalizer>();
  if (type == "StripAccents") return made<StripAccentsNormalizer>();
  if (type == "Nmt") return made<NmtNormalizer>();
  if (type == "ByteLevel") return made<ByteLevelNormalizer>();
  if (type == "Strip") return make_strip(json);
  if (type == "BertNormalizer") return make_bert(json);
  if (type == "Precompiled") return make_charsmap(json);
  if (type == "Sequence") return make_sequence(json);
  if (type == "Replace") {
    RP_ASSIGN(Replacement replacement, Replacement::parse(json));
    return made<ReplaceNormalizer>(std::move(replacement));
  }
  if (type == "Prepend") {
    RP_ASSIGN(const Json prefix, json.at("prepend"));
    RP_ASSIGN(const std::string_view text, prefix.text());
    return made<PrependNormalizer>(std::string(text));
  }
  return unsupported(
      type_of.error("the normalizer '" + std::string(type) + "' is not supported").message());
}

}  // namespace reprise::text
