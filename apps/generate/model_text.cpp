#include "apps/generate/model_text.h"

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "apps/generate/text_file.h"
#include "apps/template/chat_template.h"
#include "apps/text/charsmap.h"
#include "apps/text/tokenizer.h"
#include "codegen/families/model_graph.h"
#include "codegen/formats/gguf.h"
#include "codegen/formats/json.h"
#include "runtime/package/package.h"
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

/// What tokenizer.json and the files beside it have.
struct TextFiles {
  std::string tokenizer, config, chat_template;  // the latter two may be empty
  std::string name;                              // of the tokenizer, for messages
  std::string config_name;
};

Result<Loaded> from_files(const TextFiles& files) {
  RP_ASSIGN(text::Tokenizer tokenizer, text::Tokenizer::from_json(files.tokenizer, files.name));
  Loaded out{std::move(tokenizer), files.chat_template};
  if (files.config.empty()) return out;
  RP_TRY(out.tokenizer.set_special(files.config, files.config_name));
  RP_ASSIGN(const formats::Json config, formats::Json::parse(files.config, files.config_name));
  if (!out.chat_template.empty()) return out;
  RP_ASSIGN(out.chat_template, template_of(config));
  return out;
}

Result<Loaded> open_json(const std::filesystem::path& file) {
  TextFiles files;
  files.name = utf8_text(file);
  RP_ASSIGN(files.tokenizer, read_text_file(files.name));
  const std::filesystem::path folder = file.parent_path();
  files.config_name = utf8_text(folder / "tokenizer_config.json");
  if (is_file(folder / "tokenizer_config.json")) {
    RP_ASSIGN(files.config, read_text_file(files.config_name));
  }
  if (is_file(folder / "chat_template.jinja")) {
    RP_ASSIGN(files.chat_template, read_text_file(utf8_text(folder / "chat_template.jinja")));
  }
  return from_files(files);
}

Result<Loaded> from_gguf(const formats::Gguf& file) {
  RP_ASSIGN(text::Tokenizer tokenizer, text::Tokenizer::from_gguf(file));
  std::string chat = tokenizer.chat_template();
  return Loaded{std::move(tokenizer), std::move(chat)};
}

/// Of a package, or beside it if it has none.
Result<Loaded> open_package(const std::filesystem::path& file) {
  const std::string path = utf8_text(file);
  RP_ASSIGN(const auto package, package::read(path));
  const auto find = [&](const char* key) -> const std::string* {
    const auto at =
        std::ranges::find(package->metadata, key, [](const auto& m) { return m.first; });
    return at == package->metadata.end() ? nullptr : &at->second;
  };
  if (const std::string* gguf = find(families::kGgufTokenizerKey)) {
    const auto bytes = text::decode_base64(*gguf);
    if (!bytes)
      return Status(Code::InvalidModel, path + ": the tokenizer in its metadata is not base64");
    RP_ASSIGN(const formats::Gguf parsed,
              formats::Gguf::parse(std::as_bytes(std::span(*bytes)), nullptr, path));
    return from_gguf(parsed);
  }
  const std::string* tokenizer = find(families::kTokenizerKey);
  if (tokenizer == nullptr) return open_json(file.parent_path() / "tokenizer.json");
  const std::string* config = find(families::kTokenizerConfigKey);
  const std::string* chat = find(families::kChatTemplateKey);
  return from_files({*tokenizer, config ? *config : "", chat ? *chat : "",
                     path + ": tokenizer.json", path + ": tokenizer_config.json"});
}

Result<Loaded> load_text(const std::string& path) {
  const std::filesystem::path file = utf8_path(path);
  if (file.extension() == ".rpk") return open_package(file);
  if (file.extension() == ".gguf") {
    RP_ASSIGN(const formats::Gguf gguf, formats::Gguf::open(path));
    return from_gguf(gguf);
  }
  std::error_code ignored;
  return open_json(std::filesystem::is_directory(file, ignored) ? file / "tokenizer.json" : file);
}

class TextOfModel final : public ModelText {
 public:
  explicit TextOfModel(Loaded loaded) : loaded_(std::move(loaded)), stream_(loaded_.tokenizer) {}

  std::unique_ptr<ModelText> another() const override {
    auto out = std::make_unique<TextOfModel>(loaded_);
    out->opened_ = opened_;
    return out;
  }
  Result<std::vector<int64_t>> encode(std::string_view text) const override {
    RP_ASSIGN(const std::vector<int32_t> ids, loaded_.tokenizer.encode(text));
    return std::vector<int64_t>(ids.begin(), ids.end());
  }
  Result<std::string> chat_prompt(std::span<const ChatTurn> turns) const override {
    if (loaded_.chat_template.empty())
      return Status(Code::Unsupported,
                    "the model has no chat template, as models have that answer; `reprise generate "
                    "--prompt` continues texts");
    RP_ASSIGN(const text::ChatTemplate chat,
              text::ChatTemplate::parse(loaded_.chat_template, "the chat template"));
    const text::Tokenizer& t = loaded_.tokenizer;
    text::ChatOptions options;
    if (t.bos()) options.bos_token = t.token(*t.bos());
    if (t.eos()) options.eos_token = t.token(*t.eos());
    options.now = opened_;
    std::vector<text::ChatMessage> messages;
    messages.reserve(turns.size());
    for (const ChatTurn& turn : turns) messages.push_back({turn.role, turn.content});
    return chat.render(messages, options);
  }
  Result<std::vector<int64_t>> encode_prompt(const std::string& prompt,
                                             const KnownText& known) const override {
    const text::Tokenizer& t = loaded_.tokenizer;
    const bool continues = !known.text.empty() && prompt.starts_with(known.text);
    if (continues && prompt.size() > known.text.size()) {
      RP_ASSIGN(
          const std::vector<int32_t> rest,
          t.encode(std::string_view(prompt).substr(known.text.size()), {.add_special = false}));
      // Special tokens are cut out of a text first, so what precedes one cannot join it.
      if (!rest.empty() && t.is_special(rest[0])) {
        std::vector<int64_t> ids = known.ids;
        ids.insert(ids.end(), rest.begin(), rest.end());
        return ids;
      }
    }
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
  int64_t opened_ = std::time(nullptr);  // the time that templates see, one for a whole chat
};

}  // namespace

Result<std::vector<int64_t>> ModelText::encode_chat(const std::string& message) const {
  const ChatTurn turns[] = {{"user", message}};
  RP_ASSIGN(const std::string prompt, chat_prompt(turns));
  return encode_prompt(prompt, {});
}

Result<std::unique_ptr<ModelText>> ModelText::open(const std::string& path) {
  RP_ASSIGN(Loaded loaded, load_text(path));
  return std::unique_ptr<ModelText>(std::make_unique<TextOfModel>(std::move(loaded)));
}

}  // namespace reprise::app
