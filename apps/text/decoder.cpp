#include "apps/text/decoder.h"

#include <utility>

#include "apps/text/replacement.h"
#include "apps/text/unicode.h"
#include "apps/text/vocabulary.h"

namespace reprise::text {

namespace {

using formats::Json;
using MadeDecoder = Result<std::unique_ptr<Decoder>>;
using Tokens = std::vector<std::string>;

constexpr std::string_view kBlock = "\xE2\x96\x81";

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  std::string out;
  size_t copied = 0;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, copied)) {
    out.append(text, copied, at - copied);
    out += to;
    copied = at + from.size();
  }
  if (copied == 0) return;
  out.append(text, copied);
  text = std::move(out);
}

std::string joined(const Tokens& tokens) {
  std::string out;
  for (const std::string& t : tokens) out += t;
  return out;
}

/// A token that has a character which stands for no byte is taken as it is.
struct ByteLevelDecoder final : Decoder {
  void apply(Tokens& tokens) const override {
    std::string out;
    for (const std::string& token : tokens) out += bytes_of(token);
    tokens.assign(1, valid_utf8(out));
  }
  static std::string bytes_of(const std::string& token) {
    if (first_invalid(token) != token.size()) return token;
    std::string out;
    for (size_t i = 0; i < token.size(); i += char_length(token[i])) {
      const int byte = byte_of_char(char_at(token, i));
      if (byte < 0) return token;
      out.push_back(static_cast<char>(byte));
    }
    return out;
  }
};

/// Bytes that follow each other become text, or one U+FFFD for each byte if they are none.
struct ByteFallbackDecoder final : Decoder {
  void apply(Tokens& tokens) const override {
    Tokens out;
    out.reserve(tokens.size());
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (first_invalid(bytes) == bytes.size()) {
        out.push_back(bytes);
      } else {
        for (size_t i = 0; i < bytes.size(); ++i) out.emplace_back("\xEF\xBF\xBD");
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      const int byte = byte_of_token(token);
      if (byte >= 0) {
        bytes.push_back(static_cast<char>(byte));
        continue;
      }
      flush();
      out.push_back(std::move(token));
    }
    flush();
    tokens = std::move(out);
  }
};

struct FuseDecoder final : Decoder {
  void apply(Tokens& tokens) const override { tokens.assign(1, joined(tokens)); }
};

struct StripDecoder final : Decoder {
  void apply(Tokens& tokens) const override {
    for (std::string& token : tokens) {
      size_t begin = 0, end = token.size();
      const auto at_begin = [&] {
        return token.compare(begin, content.size(), content) == 0 && begin + content.size() <= end;
      };
      const auto at_end = [&] {
        return end >= begin + content.size() &&
               token.compare(end - content.size(), content.size(), content) == 0;
      };
      for (int64_t i = 0; i < start && at_begin(); ++i) begin += content.size();
      for (int64_t i = 0; i < stop && at_end(); ++i) end -= content.size();
      token = token.substr(begin, end - begin);
    }
  }
  std::string content = " ";
  int64_t start = 0, stop = 0;
};

struct ReplaceDecoder final : Decoder {
  explicit ReplaceDecoder(Replacement r) : replacement(std::move(r)) {}
  void apply(Tokens& tokens) const override {
    for (std::string& token : tokens) {
      // What is no text stays as it is.
      if (first_invalid(token) != token.size() || !replacement.apply(token).ok()) continue;
    }
  }
  Replacement replacement;
};

struct MetaspaceDecoder final : Decoder {
  void apply(Tokens& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], replacement, i == 0 && strip_first ? "" : " ");
  }
  std::string replacement{kBlock};
  bool strip_first = true;
};

/// Removes spaces before punctuation, as in English.
void clean_up(std::string& text) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_all(text, from, to);
}

struct WordPieceDecoder final : Decoder {
  void apply(Tokens& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& t = tokens[i];
      if (i > 0 && t.starts_with(prefix)) {
        t.erase(0, prefix.size());
      } else if (i > 0) {
        t.insert(0, 1, ' ');
      }
      if (cleanup) clean_up(t);
    }
  }
  std::string prefix = "##";
  bool cleanup = true;
};

struct BpeDecoder final : Decoder {
  void apply(Tokens& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], suffix, i + 1 == tokens.size() ? "" : " ");
  }
  std::string suffix = "</w>";
};

struct SequenceDecoder final : Decoder {
  void apply(Tokens& tokens) const override {
    for (const auto& part : parts) part->apply(tokens);
  }
  std::vector<std::unique_ptr<Decoder>> parts;
};

MadeDecoder make_strip_decoder(const Json& json) {
  constexpr int64_t kMost = 1 << 20;
  auto out = std::make_unique<StripDecoder>();
  RP_ASSIGN(out->content, json.text_or("content", " "));
  if (out->content.empty()) return json.error("must have a content");
  RP_ASSIGN(out->start, json.integer_or("start", 0));
  RP_ASSIGN(out->stop, json.integer_or("stop", 0));
  if (out->start < 0 || out->start > kMost || out->stop < 0 || out->stop > kMost)
    return json.error("must strip between 0 and " + std::to_string(kMost) + " characters");
  return MadeDecoder(std::move(out));
}

MadeDecoder make_metaspace_decoder(const Json& json) {
  auto out = std::make_unique<MetaspaceDecoder>();
  RP_ASSIGN(out->replacement, json.text_or("replacement", kBlock));
  if (out->replacement.empty()) return json.error("must have a replacement");
  RP_ASSIGN(const bool prefix, json.boolean_or("add_prefix_space", true));
  RP_ASSIGN(const std::string scheme, json.text_or("prepend_scheme", prefix ? "always" : "never"));
  out->strip_first = scheme != "never";
  return MadeDecoder(std::move(out));
}

MadeDecoder make_word_piece_decoder(const Json& json) {
  auto out = std::make_unique<WordPieceDecoder>();
  RP_ASSIGN(out->prefix, json.text_or("prefix", "##"));
  RP_ASSIGN(out->cleanup, json.boolean_or("cleanup", true));
  return MadeDecoder(std::move(out));
}

MadeDecoder make_sequence_decoder(const Json& json) {
  auto out = std::make_unique<SequenceDecoder>();
  RP_ASSIGN(const Json parts, json.at("decoders"));
  RP_TRY(parts.array().status());
  out->parts.reserve(parts.size());
  for (const Json& part : parts.items()) {
    RP_ASSIGN(out->parts.emplace_back(), make_decoder(part));
  }
  return MadeDecoder(std::move(out));
}

}  // namespace

std::unique_ptr<Decoder> make_byte_level_decoder() {
  return std::make_unique<ByteLevelDecoder>();
}

std::unique_ptr<Decoder> make_sentence_decoder(bool strip_first) {
  auto out = std::make_unique<SequenceDecoder>();
  auto spaces = std::make_unique<MetaspaceDecoder>();
  spaces->strip_first = false;
  auto strip = std::make_unique<StripDecoder>();
  strip->start = strip_first ? 1 : 0;
  out->parts.push_back(std::make_unique<ByteFallbackDecoder>());
  out->parts.push_back(std::make_unique<FuseDecoder>());
  out->parts.push_back(std::move(spaces));
  out->parts.push_back(std::move(strip));
  return out;
}

std::unique_ptr<Decoder> make_word_decoder() {
  return make_sentence_decoder(true);
}

Result<std::unique_ptr<Decoder>> make_decoder(const Json& json) {
  RP_ASSIGN(const Json type_of, json.at("type"));
  RP_ASSIGN(const std::string_view type, type_of.text());
  if (type == "ByteLevel") return make_byte_level_decoder();
  if (type == "ByteFallback") return MadeDecoder(std::make_unique<ByteFallbackDecoder>());
  if (type == "Fuse") return MadeDecoder(std::make_unique<FuseDecoder>());
  if (type == "Strip") return make_strip_decoder(json);
  if (type == "Metaspace") return make_metaspace_decoder(json);
  if (type == "WordPiece") return make_word_piece_decoder(json);
  if (type == "Sequence") return make_sequence_decoder(json);
  if (type == "Replace") {
    RP_ASSIGN(Replacement replacement, Replacement::parse(json));
    return MadeDecoder(std::make_unique<ReplaceDecoder>(std::move(replacement)));
  }
  if (type == "BPEDecoder") {
    auto out = std::make_unique<BpeDecoder>();
    RP_ASSIGN(out->suffix, json.text_or("suffix", "</w>"));
    return MadeDecoder(std::move(out));
  }
  return unsupported(
      type_of.error("the decoder '" + std::string(type) + "' is not supported").message());
}

}  // namespace reprise::text
