#include "codegen/families/facts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <numbers>

#include "runtime/platform/path.h"

namespace reprise::families {

namespace {

struct RoleNames {
  Role role;
  const char* gguf;
  const char* folder;
  const char* with_result_norms;  // in folders of families that norm results; null: `folder`
};

constexpr RoleNames kNames[] = {
    {Role::Embedding, "token_embd", "embed_tokens", nullptr},
    {Role::FinalNorm, "output_norm", "norm", nullptr},
    {Role::Head, "output", "lm_head", nullptr},
    {Role::AttentionNorm, "attn_norm", "input_layernorm", nullptr},
    {Role::Query, "attn_q", "self_attn.q_proj", nullptr},
    {Role::Key, "attn_k", "self_attn.k_proj", nullptr},
    {Role::Value, "attn_v", "self_attn.v_proj", nullptr},
    {Role::QueryKeyValue, "attn_qkv", "self_attn.qkv_proj", nullptr},
    {Role::AttentionResult, "attn_output", "self_attn.o_proj", nullptr},
    {Role::QueryNorm, "attn_q_norm", "self_attn.q_norm", nullptr},
    {Role::KeyNorm, "attn_k_norm", "self_attn.k_norm", nullptr},
    {Role::AttentionResultNorm, "post_attention_norm", "post_attention_layernorm", nullptr},
    {Role::FeedForwardNorm, "ffn_norm", "post_attention_layernorm", "pre_feedforward_layernorm"},
    {Role::Gate, "ffn_gate", "mlp.gate_proj", nullptr},
    {Role::Up, "ffn_up", "mlp.up_proj", nullptr},
    {Role::GateUp, "ffn_up", "mlp.gate_up_proj", nullptr},
    {Role::Down, "ffn_down", "mlp.down_proj", nullptr},
    {Role::FeedForwardResultNorm, "post_ffw_norm", "post_feedforward_layernorm", nullptr},
};

const RoleNames& names_of(Role role) {
  return *std::ranges::find(kNames, role, &RoleNames::role);
}

bool is_of_model(Role role) {
  return role == Role::Embedding || role == Role::FinalNorm || role == Role::Head;
}

}  // namespace

std::string gguf_name(Role role, int64_t layer) {
  const std::string name = names_of(role).gguf;
  return is_of_model(role) ? name : "blk." + std::to_string(layer) + "." + name;
}

std::string folder_name(Role role, int64_t layer, const Family& family) {
  const RoleNames& names = names_of(role);
  if (role == Role::Head) return names.folder;
  const bool other = family.norms_results && names.with_result_norms != nullptr;
  const std::string name = other ? names.with_result_norms : names.folder;
  return "model." + (is_of_model(role) ? name : "layers." + std::to_string(layer) + "." + name);
}

std::vector<float> frequencies(double base, int64_t size, double factor) {
  std::vector<float> out(static_cast<size_t>(size / 2));
  for (size_t i = 0; i < out.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(size);
    out[i] = 1.0F / std::pow(static_cast<float>(base), exponent) / static_cast<float>(factor);
  }
  return out;
}

void scale_bands(std::vector<float>& frequencies, const BandScaling& s) {
  for (float& f : frequencies) {
    const double length = 2 * std::numbers::pi / static_cast<double>(f);
    const double share = std::clamp((s.context / length - s.low) / (s.high - s.low), 0.0, 1.0);
    const auto given = static_cast<double>(f);
    f = static_cast<float>((1 - share) * given / s.factor + share * given);
  }
}

bool has_window(Windows windows, int64_t layer) {
  switch (windows) {
    case Windows::None:
      return false;
    case Windows::All:
      return true;
    case Windows::EverySecond:
      return (layer + 1) % 2 != 0;
    case Windows::FiveOfSix:
      return (layer + 1) % 6 != 0;
  }
  return false;
}

Status check_facts(const DecoderFacts& f, const std::string& path) {
  struct Bound {
    const char* name;
    int64_t value, most;
  };
  constexpr int64_t kMost = int64_t{1} << 24;
  const std::array<Bound, 9> bounds{
      {{"layers", f.layers, 4096},
       {"hidden size", f.hidden, kMost},
       {"intermediate size", f.intermediate, kMost},
       {"vocabulary", f.vocabulary, kMost},
       {"heads", f.heads, 65536},
       {"heads of keys", f.kv_heads, 65536},
       {"head size", f.head_size, kMostHeadSize},
       {"context", f.context, int64_t{1} << 31},
       {"rotated elements", static_cast<int64_t>(f.rotary.frequencies.size()) * 2, f.head_size}}};
  for (const Bound& b : bounds) {
    if (b.value >= 1 && b.value <= b.most) continue;
    return {Code::InvalidModel, path + ": the model has " + std::to_string(b.value) + " " + b.name +
                                    ", expected 1 to " + std::to_string(b.most)};
  }
  if (f.heads % f.kv_heads != 0)
    return {Code::InvalidModel, path + ": " + std::to_string(f.kv_heads) +
                                    " heads of keys do not divide the " + std::to_string(f.heads) +
                                    " heads"};
  const auto is_finite = [](float v) { return std::isfinite(v); };
  for (const Rotary* r : {&f.rotary, &f.windowed_rotary}) {
    if (std::ranges::all_of(r->frequencies, is_finite) && is_finite(r->magnitude)) continue;
    return {Code::InvalidModel,
            path +
                ": a frequency or the magnitude of the rotary positions is infinite or not a "
                "number; check the base, the factors and the contexts of their scaling"};
  }
  if (!(f.epsilon >= 0) || !std::isfinite(f.score_scale) || f.window < 0)
    return {Code::InvalidModel, path +
                                    ": the epsilon of norms, the scale of scores or the window "
                                    "is negative or not a number"};
  return {};
}

bool is_decoder(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path file = utf8_path(path);
  if (std::filesystem::is_directory(file, ignored))
    return std::filesystem::is_regular_file(file / "config.json", ignored);
  return file.extension() == ".gguf";
}

Result<Decoder> open_decoder(const std::string& path) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(utf8_path(path), ignored);
  return folder ? open_folder(path) : open_gguf(path);
}

}  // namespace reprise::families
