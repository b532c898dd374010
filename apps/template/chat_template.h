// Templates that turn a chat into the prompt of a model: the part of Jinja that models use.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace reprise::text {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", ...
  std::string content;
};

/// Bounds of one rendering. A template that exceeds one is an error.
struct TemplateLimits {
  uint64_t steps = 2'000'000;        // expressions and statements that are executed
  size_t output = size_t{16} << 20;  // bytes of any text
  size_t depth = 64;                 // of calls of macros
};

struct ChatOptions {
  /// Ends the prompt with the beginning of the assistant's turn.
  bool add_generation_prompt = true;
  std::string bos_token, eos_token;
  /// JSON: an array of functions that the model may call; empty for none.
  std::string tools;
  /// JSON: an object with further variables of the template, such as {"enable_thinking": false}.
  std::string variables;
  /// The time that strftime_now() tells, in seconds since 1970 UTC; absent: a template that asks
  /// for it is an error. The library does not look at clocks.
  std::optional<int64_t> now;
  TemplateLimits limits;
};

/// A template can read its variables and write text, and nothing else: it has no files, no modules
/// and no attributes of objects but the members and methods that it needs. Results are those of
/// Jinja's sandbox as `transformers` sets it up (trim_blocks, lstrip_blocks). What is not supported
/// is an error that names it, with the line.
class ChatTemplate {
 public:
  /// `name` is for messages.
  static Result<ChatTemplate> parse(std::string_view source, const std::string& name);

  Result<std::string> render(std::span<const ChatMessage> messages,
                             const ChatOptions& options = {}) const;
  /// With messages as JSON: an array of objects with any members (tool calls, parts of content).
  Result<std::string> render_json(std::string_view messages, const ChatOptions& options = {}) const;
  /// Any template: `variables` is a JSON object.
  Result<std::string> render_variables(std::string_view variables,
                                       const ChatOptions& options = {}) const;

  struct Program;

 private:
  explicit ChatTemplate(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const Program> program_;
};

}  // namespace reprise::text
