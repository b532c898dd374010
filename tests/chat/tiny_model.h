// A model of random numbers that talks in letters: a folder of Hugging Face.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/paths.h"

namespace reprise::test {

/// The model of tests/families/data/llama with a tokenizer of a token for each letter, and a chat
/// template. `positions`: the most positions.
inline void write_tiny_chat_model(const std::filesystem::path& folder, int64_t positions = 512) {
  const std::filesystem::path from = source_dir() / "tests/families/data/llama";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(from / "model.safetensors", folder / "model.safetensors");
  auto config = nlohmann::json::parse(read_file(from / "config.json"));
  config["max_position_embeddings"] = positions;
  write_file(folder / "config.json", config.dump());

  const std::string special[] = {"<unk>", "<s>", "</s>", "<|user|>", "<|model|>"};
  nlohmann::json vocab, added = nlohmann::json::array();
  for (const std::string& token : special) {
    const auto id = static_cast<int>(vocab.size());
    vocab[token] = id;
    added.push_back({{"id", id},
                     {"content", token},
                     {"special", true},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false}});
  }
  for (const char c : std::string("abcdefghijklmnopqrstuvwxyz .,!?0123"))
    vocab[std::string(1, c)] = vocab.size();
  const nlohmann::json tokenizer = {{"version", "1.0"},
                                    {"added_tokens", added},
                                    {"normalizer", nullptr},
                                    {"pre_tokenizer", nullptr},
                                    {"post_processor", nullptr},
                                    {"decoder", {{"type", "Fuse"}}},
                                    {"model",
                                     {{"type", "BPE"},
                                      {"vocab", vocab},
                                      {"merges", nlohmann::json::array()},
                                      {"unk_token", "<unk>"}}}};
  write_file(folder / "tokenizer.json", tokenizer.dump());
  const nlohmann::json text = {
      {"bos_token", "<s>"},
      {"eos_token", "</s>"},
      {"chat_template",
       "{% for m in messages %}{% if m.role == 'system' %}<s>{{ m.content }}"
       "{% elif m.role == 'user' %}<|user|>{{ m.content }}"
       "{% else %}<|model|>{{ m.content }}</s>{% endif %}{% endfor %}"
       "{% if add_generation_prompt %}<|model|>{% endif %}"}};
  write_file(folder / "tokenizer_config.json", text.dump());
}

}  // namespace reprise::test
