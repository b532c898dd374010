#include "apps/generate/model_text.h"

#include <filesystem>

#include "apps/generate/text_file.h"
#include "apps/template/chat_template.h"
#include "apps/text/tokenizer.h"
#include "codegen/formats/gguf.h"
#include "codegen/formats/json.h"
#include "runtime/platform/path.h"

namespace reprise::app {

namespace {

struct Loaded {
  text::Tokenizer tokenizer;
  std::string chat_template;  // empty: none
};

bool is_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

/// The template of tokenizer_config.json: a text, or a list of which one is called "default".
Result<std::string> template_of(const formats::Json& config) {
  const auto given = config.find("chat_template");
  if (!given) return std::string();
  if (given->is(formats::Json::Kind::Text)) {
    RP_ASSIGN(const std::string_view text, given->text());
    return std::string(text);
  }
  for (const formats::Json& item : given->items()) {
    RP_ASSIGN(const std::string name, item.text_or("name", ""));
    if (name == "default") return item.text_or("template", "");
  }
  return std::string();
}

Result<Loaded> open_json(const std::filesystem::path& file) {
  RP_ASSIGN(const std::string json, read_text_file(utf8_text(file)));
  RP_ASSIGN(text::Tokenizer tokenizer, text::Tokenizer::from_json(json, utf8_text(file)));
  Loaded out{std::move(tokenizer), {}};
  const std::filesystem::path folder = file.parent_path();
  if (is_file(folder / "tokenizer_config.json")) {
    const std::string path = utf8_text(folder / "tokenizer_config.json");
    RP_ASSIGN(const std::string text, read_text_file(path));
    RP_TRY(out.tokenizer.set_special(text, path));
    RP_ASSIGN(const formats::Json config, formats::Json::parse(text, path));
    RP_ASSIGN(out.chat_template, template_of(config));
  }
  if (is_file(folder / "chat_template.jinja")) {
    RP_ASSIGN(out.chat_template, read_text_file(utf8_text(folder / "chat_template.jinja")));
  }
  return out;
}

Result<Loaded> load_text(const std::string& path) {
  const std::filesystem::path file = utf8_path(path);
  if (file.extension() == ".gguf") {
    RP_ASSIGN(const formats::Gguf gguf, formats::Gguf::open(path));
    RP_ASSIGN(text::Tokenizer tokenizer, text::Tokenizer::from_gguf(gguf));
    std::string chat = tokenizer.chat_template();
    return Loaded{std::move(tokenizer), std::move(chat)};
  }
  std::error_code ignored;
  return open_json(std::filesystem::is_directory(file, ignored) ? file / "tokenizer.json" : file);
}

class TextOfModel final : public ModelText {
 public:
  explicit TextOfModel(Loaded loaded) : loaded_(std::move(loaded)), stream_(loaded_.tokenizer) {}

  Result<std::vector<int64_t>> encode(std::string_view text) const override {
    RP_ASSIGN(const std::vector<int32_t> ids, loaded_.tokenizer.encode(text));
    return std::vector<int64_t>(ids.begin(), ids.end());
  }
  Result<std::vector<int64_t>> encode_chat(const std::string& message) const override {
    if (loaded_.chat_template.empty())
      return Status(Code::Unsupported,
                    "the model has no chat template; use --prompt without --chat");
    RP_ASSIGN(const text::ChatTemplate chat,
              text::ChatTemplate::parse(loaded_.chat_template, "the chat template"));
    const text::Tokenizer& t = loaded_.tokenizer;
    text::ChatOptions options;
    if (t.bos()) options.bos_token = t.token(*t.bos());
    if (t.eos()) options.eos_token = t.token(*t.eos());
    const text::ChatMessage messages[] = {{"user", message}};
    RP_ASSIGN(const std::string prompt, chat.render(messages, options));
    RP_ASSIGN(const std::vector<int32_t> ids, t.encode(prompt, {.add_special = false}));
    return std::vector<int64_t>(ids.begin(), ids.end());
  }
  std::string add(int64_t id) override { return stream_.add(static_cast<int32_t>(id)); }
  std::string finish() override { return stream_.finish(); }
  bool ends(int64_t id) const override {
    return loaded_.tokenizer.ends_generation(static_cast<int32_t>(id));
  }

 private:
  Loaded loaded_;
  text::StreamDecoder stream_;
};

}  // namespace

Result<std::unique_ptr<ModelText>> ModelText::open(const std::string& path) {
  RP_ASSIGN(Loaded loaded, load_text(path));
  return std::unique_ptr<ModelText>(std::make_unique<TextOfModel>(std::move(loaded)));
}

}  // namespace reprise::app
