// How vocabularies of the kind "gpt2" in GGUF files cut a text: the key tokenizer.ggml.pre.
#pragma once

#include <span>
#include <string_view>

namespace reprise::text {

struct GgufPattern {
  std::string_view name;
  /// Applied one after the other.
  std::span<const std::string_view> patterns;
  /// A piece that is a token as a whole is not merged from its characters.
  bool ignore_merges = false;
  /// Whether a file without the key tokenizer.ggml.add_bos_token wants the token for the beginning.
  bool adds_bos = false;
};

/// Null if the name is not known.
const GgufPattern* find_gguf_pattern(std::string_view name);

}  // namespace reprise::text
