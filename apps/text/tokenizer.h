// Text to the ids that a language model takes, and back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace reprise::formats {
class Gguf;
}

namespace reprise::text {

/// U+FDD0, a character that no text has. Within the spelling of a special token, it keeps that a
/// text; see guarded().
inline constexpr std::string_view kGuard = "\xEF\xB7\x90";

struct EncodeOptions {
  /// Adds what the model expects around a text, such as a token for its beginning.
  bool add_special = true;
  /// Whether a special token that the text spells ("<|im_end|>") becomes that token. A program that
  /// puts the text of strangers into a prompt takes guarded() of that text.
  bool parse_special = true;
  /// Leaves guards out of the text, once special tokens were found in it.
  bool guarded = false;
};

/// The tokenizer of a model. Copies are cheap and share the vocabulary, which nothing changes, so
/// several threads may use one. Errors name the file and what it has that is not supported.
class Tokenizer {
 public:
  /// From the text of a tokenizer.json of Hugging Face; `name` is for messages. That file has no
  /// bos and eos: set_special() takes them from tokenizer_config.json.
  static Result<Tokenizer> from_json(std::string_view json, const std::string& name);
  /// From the metadata of a GGUF file, with bos, eos and the rest. The file need not stay.
  static Result<Tokenizer> from_gguf(const formats::Gguf& file);

  /// Text must be valid UTF-8.
  Result<std::vector<int32_t>> encode(std::string_view text,
                                      const EncodeOptions& options = {}) const;
  /// The text with guards in the special tokens that it spells. Within a prompt that is encoded
  /// with `guarded`, these stay text. Any other text remains as it is.
  std::string guarded(std::string_view text) const;
  /// Ids that the vocabulary does not have add nothing. Bytes that are no UTF-8 become U+FFFD.
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;

  /// One more than the largest id.
  size_t size() const;
  /// The id of a token as the vocabulary spells it, such as "<|im_end|>".
  std::optional<int32_t> id_of(std::string_view token) const;
  /// The spelling; empty for an id that the vocabulary does not have.
  std::string_view token(int32_t id) const;
  bool is_special(int32_t id) const;

  /// Begin of a text, end of a text, and end of a turn of a chat, where the model has them.
  std::optional<int32_t> bos() const;
  std::optional<int32_t> eos() const;
  std::optional<int32_t> eot() const;
  /// Whether a model that generates this id has finished: eos, eot and all tokens of the kind that
  /// the vocabulary names ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", ...).
  bool ends_generation(int32_t id) const;
  const std::vector<int32_t>& end_ids() const;
  /// Sets bos and eos from the text of a tokenizer_config.json (`bos_token`, `eos_token`).
  Status set_special(std::string_view config_json, const std::string& name);
  /// Adds an id to those that end a generation.
  Status add_end(int32_t id);

  /// The chat template of a GGUF file; empty if there is none.
  const std::string& chat_template() const;

  /// What the loaders of formats make.
  struct Parts;
  struct Special {
    std::optional<int32_t> bos, eos, eot;
    std::vector<int32_t> ends;
  };
  Tokenizer(std::shared_ptr<const Parts> parts, Special special);

 private:
  void find_ends();

  std::shared_ptr<const Parts> parts_;
  Special special_;
};

/// Decodes a sequence token by token. What it returns is complete UTF-8: the beginning of a
/// character waits for its end. Put together, the pieces are what decode() returns for all ids.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool skip_special = true)
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}
  /// The text that this id completes, which may be empty.
  std::string add(int32_t id);
  /// What is still waiting. Afterwards, a new sequence can begin.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  std::vector<int32_t> ids_;  // the last ones that were returned, and those that wait
  size_t returned_ = 0;       // how many of them were returned
  std::string prefix_;        // the text of those
};

}  // namespace reprise::text
