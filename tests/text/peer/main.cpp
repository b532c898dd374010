// Encodes texts and renders templates for tests in Python, which compare the results with other
// libraries: text_peer tokenizer|gguf FILE reads a JSON text from each line and writes
// {"ids": [...], "plain": [...], "text": "...", "stream": "..."}. text_peer template reads from
// each line {"template": "...", "variables": {...}} and writes {"text": "..."} or {"error": "..."}.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "apps/template/chat_template.h"
#include "apps/text/tokenizer.h"
#include "codegen/formats/gguf.h"

namespace {

using json = nlohmann::ordered_json;  // members keep their order
using reprise::Result;
using reprise::Status;
using reprise::text::StreamDecoder;
using reprise::text::Tokenizer;

std::string whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Result<Tokenizer> load(const std::string& kind, const std::string& path) {
  if (kind != "gguf") return Tokenizer::from_json(whole(path), path);
  auto file = reprise::formats::Gguf::open(path);
  if (!file.ok()) return file.status();
  return Tokenizer::from_gguf(*file);
}

json results(const Tokenizer& t, const std::string& text) {
  const auto ids = t.encode(text);
  if (!ids.ok()) return {{"error", ids.status().message()}};
  const auto plain = t.encode(text, {false, true});
  StreamDecoder stream(t, false);
  std::string streamed;
  for (const int32_t id : *ids) streamed += stream.add(id);
  streamed += stream.finish();
  return {{"ids", *ids},
          {"plain", *plain},
          {"text", t.decode(*ids, false)},
          {"short", t.decode(*ids, true)},
          {"stream", streamed}};
}

json rendered(const json& request) {
  const auto parsed =
      reprise::text::ChatTemplate::parse(request["template"].get<std::string>(), "template");
  if (!parsed.ok()) return {{"error", parsed.status().message()}};
  reprise::text::ChatOptions options;
  options.now = 1'700'000'000;
  const auto out = parsed->render_variables(request["variables"].dump(), options);
  return out.ok() ? json{{"text", *out}} : json{{"error", out.status().message()}};
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2) {
    for (std::string line; std::getline(std::cin, line);)
      std::cout << rendered(json::parse(line)).dump() << "\n";
    return 0;
  }
  if (count < 3) return 2;
  const auto tokenizer = load(arguments[1], arguments[2]);
  if (!tokenizer.ok()) {
    std::cout << json{{"error", tokenizer.status().message()}}.dump() << "\n";
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);)
    std::cout << results(*tokenizer, json::parse(line).get<std::string>()).dump() << "\n";
}
