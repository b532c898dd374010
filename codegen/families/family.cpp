#include "codegen/families/family.h"

#include <algorithm>

namespace reprise::families {

namespace {

constexpr Family kFamilies[] = {
    {.name = "llama", .hf = "llama", .gguf = "llama", .interleaves_heads = true},
    {.name = "mistral", .hf = "mistral", .gguf = "", .windows = Windows::All},
    {.name = "qwen2", .hf = "qwen2", .gguf = "qwen2"},
    {.name = "qwen3", .hf = "qwen3", .gguf = "qwen3", .norms_heads = true},
    {.name = "gemma2",
     .hf = "gemma2",
     .gguf = "gemma2",
     .gate = GatedBy::GeluTanh,
     .windows = Windows::EverySecond,
     .norms_results = true,
     .norms_from_one = true,
     .scales_embeddings = true,
     .heads = 8,
     .kv_heads = 4,
     .head_size = 256,
     .score_cap = 50,
     .logit_cap = 30},
    {.name = "gemma3",
     .hf = "gemma3_text",
     .gguf = "gemma3",
     .gate = GatedBy::GeluTanh,
     .windows = Windows::FiveOfSix,
     .norms_heads = true,
     .norms_results = true,
     .norms_from_one = true,
     .scales_embeddings = true,
     .heads = 8,
     .kv_heads = 4,
     .head_size = 256,
     .windowed_rotary_base = 10000},
    {.name = "phi3",
     .hf = "phi3",
     .gguf = "phi3",
     .windows = Windows::All,
     .joins_projections = true},
};

const Family* find(std::string_view name, std::string_view Family::*key) {
  if (name.empty()) return nullptr;
  const auto* at = std::ranges::find(kFamilies, name, key);
  return at == std::end(kFamilies) ? nullptr : at;
}

}  // namespace

std::span<const Family> families() {
  return kFamilies;
}

const Family* family_of_folder(std::string_view model_type) {
  return find(model_type, &Family::hf);
}

const Family* family_of_gguf(std::string_view architecture) {
  return find(architecture, &Family::gguf);
}

std::string family_names() {
  std::string names;
  for (const Family& f : kFamilies) {
    if (!names.empty()) names += ", ";
    names += f.name;
  }
  return names;
}

}  // namespace reprise::families
