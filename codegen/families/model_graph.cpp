#include "codegen/families/model_graph.h"

#include <filesystem>

#include "codegen/families/decoder_graph.h"
#include "codegen/formats/gguf_metadata.h"
#include "runtime/platform/file.h"
#include "runtime/platform/path.h"

namespace reprise::families {

namespace {

using Metadata = std::vector<std::pair<std::string, std::string>>;

// What a package keeps of texts. The largest tokenizers that are known have 35 MB.
constexpr uint64_t kMostText = uint64_t{128} << 20;

Status too_large(const std::string& what) {
  return {Code::Unsupported, what + " has more than 128 MiB"};
}

Status add_file(const std::string& folder, const char* name, const char* key, Metadata& out) {
  const std::filesystem::path file = utf8_path(folder) / name;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return {};
  const std::string path = utf8_text(file);
  const auto opened = platform::InputFile::open(path);
  if (!opened.ok()) return opened.status().with_context("'" + path + "'");
  if (opened->size() > kMostText) return too_large("'" + path + "'");
  std::string text(static_cast<size_t>(opened->size()), ' ');
  RP_TRY(opened->read(0, std::as_writable_bytes(std::span(text))));
  out.emplace_back(key, std::move(text));
  return {};
}

Status add_text(const std::string& path, Metadata& out) {
  std::error_code ignored;
  if (std::filesystem::is_directory(utf8_path(path), ignored)) {
    RP_TRY(add_file(path, "tokenizer.json", kTokenizerKey, out));
    RP_TRY(add_file(path, "tokenizer_config.json", kTokenizerConfigKey, out));
    return add_file(path, "chat_template.jinja", kChatTemplateKey, out);
  }
  RP_ASSIGN(const formats::Gguf file, formats::Gguf::open(path));
  if (file.find("tokenizer.ggml.model") == nullptr) return {};
  const std::string tokenizer = formats::gguf_of_keys(file, "tokenizer.");
  if (tokenizer.size() > kMostText / 2) return too_large("the tokenizer of '" + path + "'");
  out.emplace_back(kGgufTokenizerKey, formats::encode_base64(tokenizer));
  return {};
}

}  // namespace

Result<builder::BuiltGraph> build_model(const std::string& path) {
  RP_ASSIGN(const Decoder decoder, open_decoder(path));
  RP_ASSIGN(builder::BuiltGraph built, build_decoder(decoder));
  built.graph->notes.insert(built.graph->notes.end(), decoder.notes.begin(), decoder.notes.end());
  Metadata& metadata = built.graph->metadata;
  metadata.emplace_back(kContextKey, std::to_string(decoder.facts.context));
  metadata.emplace_back(kVocabularyKey, std::to_string(decoder.facts.vocabulary));
  std::string ends;
  for (const int64_t id : decoder.end_tokens)
    ends += (ends.empty() ? "" : ",") + std::to_string(id);
  metadata.emplace_back(kEndTokensKey, ends);
  RP_TRY(add_text(path, metadata));
  return built;
}

}  // namespace reprise::families
