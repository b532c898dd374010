#include "tests/bytes/text_targets.h"

#include <algorithm>
#include <filesystem>

#include "apps/template/chat_template.h"
#include "apps/text/tokenizer.h"
#include "codegen/formats/gguf.h"
#include "codegen/formats/json.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;
using formats::Gguf;
using formats::Json;
using text::ChatTemplate;
using text::Tokenizer;

std::string_view view_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string unless_silent(const Status& s) {
  return s.message().empty() ? "an error without a message" : "";
}

/// Encodes and decodes texts of several scripts.
std::string use(const Tokenizer& t) {
  static const std::string texts[] = {
      "",
      "Hello, world!  It's 2024.\n\n\tx",
      "na\xC3\xAFve e\xCC\x81 \xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E "
      "\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD",
      "<s>[MASK] <|im_end|> HeLLo world <left> <right>  \xC2\xA0\xE2\x96\x81##",
      std::string("a\0b\x7F\xEF\xBF\xBD", 7),
      std::string(300, 'a')};
  for (const std::string& text : texts) {
    const auto ids = t.encode(text);
    if (!ids.ok()) {
      if (ids.status().message().empty()) return "an error without a message";
      continue;
    }
    if (std::any_of(ids->begin(), ids->end(), [](int32_t id) { return id < 0; }))
      return "a negative id";
    const std::string decoded = t.decode(*ids, false);
    text::StreamDecoder stream(t, false);
    for (const int32_t id : *ids) stream.add(id);
    stream.finish();
    const auto again = t.encode(decoded, {true, false});
    if (!again.ok() && again.status().message().find("UTF-8") != std::string::npos)
      return "a decoded text is not valid UTF-8";
  }
  return {};
}

std::string walk(const Json& json, size_t& left) {
  if (left == 0) return {};
  --left;
  if (json.path().size() > (size_t{1} << 20)) return "a path is too long";
  size_t count = 0;
  for (const Json& item : json.items()) {
    ++count;
    if (std::string problem = walk(item, left); !problem.empty()) return problem;
    if (left == 0) return {};
  }
  return count == json.size() ? "" : "a value has not as many items as it says";
}

}  // namespace

std::string run_json(std::span<const std::byte> bytes) {
  const auto json = Json::parse(view_of(bytes), "x.json");
  if (!json.ok()) return unless_silent(json.status());
  size_t left = 1000;
  return walk(*json, left);
}

std::string run_gguf(std::span<const std::byte> bytes) {
  const auto owner = std::make_shared<std::string>(view_of(bytes));
  const auto all = std::as_bytes(std::span(*owner));
  const auto file = Gguf::parse(all, owner, "x.gguf");
  if (!file.ok()) return unless_silent(file.status());
  size_t sum = 0;
  for (const formats::GgufTensor& t : file->tensors()) {
    if (!t.bytes.empty() &&
        (t.bytes.data() < all.data() || t.bytes.data() + t.bytes.size() > all.data() + all.size()))
      return "a tensor is outside of the file";
    for (const std::byte b : t.bytes) sum += static_cast<size_t>(b);
  }
  for (const auto& [key, value] : file->metadata()) {
    for (size_t i = 0; i < std::min<size_t>(value.size(), 1000); ++i) {
      sum += value.text(i).value_or("").size();
      sum += value.integer(i).has_value() || value.number(i).has_value() ? 1 : 0;
      sum += value.boolean(i).value_or(false) ? 1 : 0;
    }
  }
  if (sum == ~size_t{0}) return "a sum that cannot be";
  const auto tokenizer = Tokenizer::from_gguf(*file);
  return tokenizer.ok() ? use(*tokenizer) : unless_silent(tokenizer.status());
}

std::string run_tokenizer(std::span<const std::byte> bytes) {
  const auto t = Tokenizer::from_json(view_of(bytes), "x.json");
  return t.ok() ? use(*t) : unless_silent(t.status());
}

std::string run_template(std::span<const std::byte> bytes) {
  const auto t = ChatTemplate::parse(view_of(bytes), "x.jinja");
  if (!t.ok()) return unless_silent(t.status());
  text::ChatOptions options;
  options.now = 1'700'000'000;
  options.limits = {20'000, size_t{1} << 16, 16};
  options.tools =
      R"([{"function": {"name": "f", "parameters": {"properties": {"a": {"type": "x"}}}}}])";
  const auto out = t->render_json(
      R"([{"role": "user", "content": "a b"}, {"role": "assistant", "content": [{"type": "text", "text": "x"}]}])",
      options);
  return out.ok() ? "" : unless_silent(out.status());
}

std::vector<std::string> text_seeds_of(const std::string& target) {
  std::vector<std::string> out;
  if (target == "template") {
    for (const auto& entry : fs::directory_iterator(source_dir() / "tests/text/templates"))
      if (entry.path().extension() == ".jinja") out.push_back(read_file(entry.path()));
  }
  if (target == "tokenizer") {
    for (const auto& entry : fs::directory_iterator(source_dir() / "tests/text/cases")) {
      const auto json = Json::parse(read_file(entry.path()), "case");
      // The text of a case begins with {"tokenizer": ..., "cases": ...}.
      const std::string text = read_file(entry.path());
      const size_t begin = text.find('{', 1), end = text.rfind(", \"cases\": ");
      if (json.ok() && begin < end) out.push_back(text.substr(begin, end - begin));
    }
  }
  if (target == "json") {
    out = {"{\"a\": [1, -2.5e3, true, null, \"\\u00e9\\n\"], \"b\": {\"c\": {}}}", "[]",
           "[[[[1]]]]", "\"x\"",
           "{\"model\": {\"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": [\"a b\"]}}"};
  }
  if (target == "gguf") {
    for (const char* kind : {"gpt2", "llama", "bert", "t5", "other"}) {
      GgufWriter w;
      w.text("tokenizer.ggml.model", kind)
          .text("tokenizer.ggml.pre", "smollm")
          .f32("f", 1.5F)
          .boolean("b", 1);
      w.texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "a", "\xE2\x96\x81", "aa", "<0x61>",
                                        "\xE2\x96\x81"
                                        "a",
                                        "H"});
      w.numbers<float>("tokenizer.ggml.scores", 6, {0, 0, 0, -1, -2, -3, -4, -5, -6});
      w.numbers<int32_t>("tokenizer.ggml.token_type", 5, {2, 3, 3, 1, 1, 1, 6, 4, 1});
      w.texts("tokenizer.ggml.merges", {"a a"}).u32("tokenizer.ggml.bos_token_id", 1);
      w.u32("tokenizer.ggml.unknown_token_id", 0).boolean("tokenizer.ggml.add_eos_token", 1);
      w.tensor("w", {32, 2}, 2, std::string(36, 'w')).tensor("v", {3}, 0, std::string(12, 'v'));
      out.push_back(w.bytes());
    }
  }
  return out;
}

}  // namespace reprise::test
