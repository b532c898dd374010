// Decoders in folders of Hugging Face: config.json, and weights in safetensors.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "codegen/families/facts.h"
#include "codegen/formats/json.h"
#include "codegen/formats/safetensors.h"
#include "runtime/platform/path.h"

namespace reprise::families {

namespace {

using formats::GgufType;
using formats::Json;

/// The part of config.json that describes the language model, and what models name it.
struct Config {
  Json json;
  std::string type;
};

Result<Config> read_config(const std::string& folder) {
  RP_ASSIGN(Json json, Json::read(utf8_text(utf8_path(folder) / "config.json")));
  if (const auto inner = json.find("text_config")) json = *inner;
  RP_ASSIGN(std::string type, json.text_or("model_type", ""));
  return Config{std::move(json), std::move(type)};
}

Status read_sizes(const Json& c, DecoderFacts& f) {
  const Family& family = *f.family;
  const auto required = [&](const char* key, int64_t otherwise) -> Result<int64_t> {
    if (otherwise > 0) return c.integer_or(key, otherwise);
    RP_ASSIGN(const Json value, c.at(key));
    return value.integer();
  };
  RP_ASSIGN(f.layers, required("num_hidden_layers", 0));
  RP_ASSIGN(f.hidden, required("hidden_size", 0));
  RP_ASSIGN(f.intermediate, required("intermediate_size", 0));
  RP_ASSIGN(f.heads, required("num_attention_heads", family.heads));
  RP_ASSIGN(f.kv_heads,
            c.integer_or("num_key_value_heads", family.kv_heads > 0 ? family.kv_heads : f.heads));
  const int64_t even = f.heads > 0 ? f.hidden / f.heads : 0;
  RP_ASSIGN(f.head_size, c.integer_or("head_dim", family.head_size > 0 ? family.head_size : even));
  RP_ASSIGN(f.context, c.integer_or("max_position_embeddings", 8192));
  RP_ASSIGN(const double epsilon, c.number_or("rms_norm_eps", 1e-6));
  f.epsilon = static_cast<float>(epsilon);
  f.norms_from_one = family.norms_from_one;
  return {};
}

Status read_attention(const Json& c, DecoderFacts& f) {
  const Family& family = *f.family;
  RP_ASSIGN(f.score_cap, c.number_or("attn_logit_softcapping", family.score_cap));
  RP_ASSIGN(f.logit_cap, c.number_or("final_logit_softcapping", family.logit_cap));
  RP_ASSIGN(const double scalar,
            c.number_or("query_pre_attn_scalar", static_cast<double>(f.head_size)));
  f.score_scale = 1 / std::sqrt(scalar);
  RP_ASSIGN(f.window, c.integer_or("sliding_window", 0));
  RP_ASSIGN(const bool used, c.boolean_or("use_sliding_window", true));
  if (!used) f.window = 0;
  const auto kinds = c.find("layer_types");
  const auto layers = static_cast<size_t>(std::max<int64_t>(f.layers, 0));
  if (!kinds) {
    for (size_t i = 0; i < std::min<size_t>(layers, 4096); ++i)
      f.windowed.push_back(f.window > 0 && has_window(family.windows, static_cast<int64_t>(i)));
    return {};
  }
  if (!kinds->is(Json::Kind::Array) || kinds->size() != layers)
    return kinds->error("must have one item for each of the " + std::to_string(layers) + " layers");
  f.windowed.reserve(layers);
  for (const Json& kind : kinds->items()) {
    RP_ASSIGN(const std::string_view name, kind.text());
    if (name != "sliding_attention" && name != "full_attention")
      return kind.error("must be sliding_attention or full_attention");
    f.windowed.push_back(f.window > 0 && name == "sliding_attention");
  }
  return {};
}

/// The most positions, and those that the model was trained for before they were extended.
struct Contexts {
  int64_t most = 0, first = 0;
};

/// A scaling of rotary positions, or nothing: an object with the type and its parameters.
Result<Rotary> rotary_of(const std::optional<Json>& scaling, double base, int64_t size,
                         Contexts& context) {
  if (!scaling) return Rotary{frequencies(base, size), 1};
  RP_ASSIGN(std::string kind, scaling->text_or("rope_type", ""));
  if (kind.empty()) {
    RP_ASSIGN(kind, scaling->text_or("type", "default"));
  }
  RP_ASSIGN(const double given, scaling->number_or("rope_theta", base));
  RP_ASSIGN(const double factor, scaling->number_or("factor", 1));
  if (kind == "default") return Rotary{frequencies(given, size), 1};
  if (kind == "linear") return Rotary{frequencies(given, size, factor), 1};
  if (kind == "llama3") {
    BandScaling bands{factor};
    RP_ASSIGN(bands.low, scaling->number_or("low_freq_factor", 1));
    RP_ASSIGN(bands.high, scaling->number_or("high_freq_factor", 4));
    RP_ASSIGN(bands.context, scaling->number_or("original_max_position_embeddings", 8192));
    if (!(bands.high > bands.low))
      return scaling->error("must have a high_freq_factor above its low_freq_factor");
    Rotary out{frequencies(given, size), 1};
    scale_bands(out.frequencies, bands);
    return out;
  }
  if (kind == "longrope") {
    RP_ASSIGN(const Json factors, scaling->at("short_factor"));
    Rotary out{frequencies(given, size), 1};
    if (factors.size() != out.frequencies.size())
      return factors.error("must have " + std::to_string(out.frequencies.size()) + " items");
    size_t i = 0;
    for (const Json& item : factors.items()) {
      RP_ASSIGN(const double divisor, item.number());
      out.frequencies[i++] /= static_cast<float>(divisor);
    }
    RP_ASSIGN(const int64_t first,
              scaling->integer_or("original_max_position_embeddings", context.first));
    const double ratio =
        static_cast<double>(context.most) / static_cast<double>(std::max<int64_t>(first, 2));
    const double magnitude =
        ratio > 1 ? std::sqrt(1 + std::log(ratio) / std::log(static_cast<double>(first))) : 1;
    RP_ASSIGN(const double stated, scaling->number_or("attention_factor", magnitude));
    out.magnitude = static_cast<float>(stated);
    context.most = std::min(context.most, first);
    return out;
  }
  return scaling->error("has the type '" + kind +
                        "'; supported are default, linear, llama3 and longrope");
}

Status read_rotary(const Json& c, DecoderFacts& f) {
  RP_ASSIGN(const double base, c.number_or("rope_theta", 10000));
  const auto all = c.find("rope_parameters");
  RP_ASSIGN(const double inner, all ? all->number_or("partial_rotary_factor", 1) : 1.0);
  RP_ASSIGN(const double share, c.number_or("partial_rotary_factor", inner));
  if (!(share > 0 && share <= 1))
    return c.error("partial_rotary_factor must be above 0 and at most 1");
  if (f.head_size < 2 || f.head_size > kMostHeadSize)
    return c.error("the size of heads must be 2 to " + std::to_string(kMostHeadSize));
  const int64_t size =
      std::max<int64_t>(2, static_cast<int64_t>(static_cast<double>(f.head_size) * share) / 2 * 2);
  std::optional<Json> scaling = c.find("rope_scaling"), windowed;
  RP_ASSIGN(double local, c.number_or("rope_local_base_freq", f.family->windowed_rotary_base));
  if (all) {
    const auto full = all->find("full_attention");
    scaling = full ? full : all;
    if (full) windowed = all->find("sliding_attention");
  }
  Contexts context{f.context, f.context};
  RP_ASSIGN(context.first, c.integer_or("original_max_position_embeddings", f.context));
  RP_ASSIGN(f.rotary, rotary_of(scaling, base, size, context));
  f.context = context.most;
  f.windowed_rotary = f.rotary;
  if (!windowed && local <= 0) return {};
  if (windowed) {
    RP_ASSIGN(f.windowed_rotary, rotary_of(windowed, local > 0 ? local : base, size, context));
  } else {
    f.windowed_rotary = {frequencies(local, size), 1};
  }
  return {};
}

Result<GgufType> float_type(const HostTensor& t, const std::string& name) {
  if (t.dtype() == DType::F32) return GgufType::F32;
  if (t.dtype() == DType::F16) return GgufType::F16;
  if (t.dtype() == DType::BF16) return GgufType::BF16;
  return Status(Code::Unsupported, "tensor '" + name + "' is " + std::string(name_of(t.dtype())) +
                                       "; supported are float32, float16 and bfloat16");
}

/// The ids of a value that is one integer or a list of them.
Result<std::vector<int64_t>> ids_of(const std::optional<Json>& value) {
  std::vector<int64_t> ids;
  if (!value) return ids;
  if (!value->is(Json::Kind::Array)) {
    RP_ASSIGN(const int64_t id, value->integer());
    return std::vector{id};
  }
  for (const Json& item : value->items()) {
    RP_ASSIGN(const int64_t id, item.integer());
    ids.push_back(id);
  }
  return ids;
}

Status read_end_tokens(const std::string& folder, const Json& config, Decoder& out) {
  RP_ASSIGN(out.end_tokens, ids_of(config.find("eos_token_id")));
  const std::string path = utf8_text(utf8_path(folder) / "generation_config.json");
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(utf8_path(path), ignored)) return {};
  RP_ASSIGN(const Json generation, Json::read(path));
  RP_ASSIGN(std::vector<int64_t> ids, ids_of(generation.find("eos_token_id")));
  if (!ids.empty()) out.end_tokens = std::move(ids);
  return {};
}

/// What precedes the names of the language model's weights in models that have other parts too.
std::string prefix_of(const formats::SafetensorsFolder& weights) {
  for (const char* prefix : {"", "language_model.", "model.language_model."}) {
    if (weights.find(std::string(prefix) + "model.embed_tokens.weight") != nullptr) return prefix;
  }
  return "";
}

}  // namespace

Result<Decoder> open_folder(const std::string& path) {
  RP_ASSIGN(const Config config, read_config(path));
  Decoder out;
  out.path = path;
  DecoderFacts& f = out.facts;
  f.family = family_of_folder(config.type);
  if (f.family == nullptr)
    return Status(Code::Unsupported, path + ": model_type of config.json is '" + config.type +
                                         "'; supported are " + family_names());
  RP_TRY(read_sizes(config.json, f));
  RP_TRY(read_attention(config.json, f));
  RP_TRY(read_rotary(config.json, f));
  RP_TRY(read_end_tokens(path, config.json, out));
  RP_ASSIGN(formats::SafetensorsFolder opened, formats::SafetensorsFolder::open(path));
  const auto weights = std::make_shared<const formats::SafetensorsFolder>(std::move(opened));
  const std::string prefix = prefix_of(*weights);
  const HostTensor* embedding = weights->find(prefix + "model.embed_tokens.weight");
  if (embedding == nullptr || embedding->rank() != 2)
    return Status(Code::InvalidModel, path + ": there is no matrix 'model.embed_tokens.weight'");
  f.vocabulary = embedding->dims()[0];
  RP_TRY(check_facts(f, path));
  const Family* family = f.family;
  out.find = [weights, prefix, family](Role role, int64_t layer,
                                       bool bias) -> Result<std::optional<StoredTensor>> {
    const std::string name =
        prefix + folder_name(role, layer, *family) + (bias ? ".bias" : ".weight");
    const HostTensor* t = weights->find(name);
    if (t == nullptr) return std::optional<StoredTensor>();
    RP_ASSIGN(const GgufType type, float_type(*t, name));
    return std::optional(StoredTensor{name, type, t->dims(), t->bytes(), weights});
  };
  return out;
}

}  // namespace reprise::families
