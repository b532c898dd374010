// The text of a language model: its tokenizer and its chat template. In builds without tokenizers,
// opening it is an error (model_text_absent.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace reprise::app {

struct ChatTurn {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

/// A text and its ids, which need not be those that the tokenizer would choose: a model chose them.
struct KnownText {
  std::string text;
  std::vector<int64_t> ids;
};

class ModelText {
 public:
  /// Reads those of a .gguf file, of a folder with tokenizer.json, of a tokenizer.json itself with
  /// the files beside it, or of a package. A package that has none has them beside it.
  static Result<std::unique_ptr<ModelText>> open(const std::string& path);
  virtual ~ModelText() = default;
  /// The same tokenizer, for another text that is generated meanwhile.
  virtual std::unique_ptr<ModelText> another() const = 0;

  /// The ids of a text in UTF-8, with those that the model expects around it.
  virtual Result<std::vector<int64_t>> encode(std::string_view text) const = 0;
  /// The prompt of a chat, up to the beginning of the next answer. Fails if the model has no chat
  /// template, or if the template refuses these turns.
  virtual Result<std::string> chat_prompt(std::span<const ChatTurn> turns) const = 0;
  /// The ids of such a prompt, which has the special tokens in its text. If it begins with a text
  /// whose ids are known, its ids begin with these where that is sure to be right.
  virtual Result<std::vector<int64_t>> encode_prompt(const std::string& prompt,
                                                     const KnownText& known) const = 0;
  /// The ids of a chat that begins with this message of the user, up to the beginning of the
  /// answer.
  Result<std::vector<int64_t>> encode_chat(const std::string& message) const;
  /// Adds an id to the text that is generated. Returns what it completes, which may be empty.
  virtual std::string add(int64_t id) = 0;
  /// What is left at the end of the text.
  virtual std::string finish() = 0;
  /// Whether an id ends the text.
  virtual bool ends(int64_t id) const = 0;
};

/// Where the text of a model is: `given`, or else the model itself or the folder that it is in.
std::string text_path(const std::string& model, const std::string& given);

}  // namespace reprise::app
