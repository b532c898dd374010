// Decoders in GGUF files. https://github.com/ggml-org/ggml/blob/master/docs/gguf.md names the keys.
#include <algorithm>
#include <cmath>
#include <set>

#include "codegen/families/facts.h"

namespace reprise::families {

namespace {

using formats::Gguf;
using formats::GgufTensor;

/// The keys of a file, which begin with its architecture.
class Keys {
 public:
  Keys(const Gguf& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  Result<int64_t> integer(const char* key) const { return file_.integer(prefix_ + key); }
  Result<int64_t> integer_or(const char* key, int64_t otherwise) const {
    return file_.integer_or(prefix_ + key, otherwise);
  }
  Result<double> number(const char* key) const { return file_.number(prefix_ + key); }
  Result<double> number_or(const char* key, double otherwise) const {
    return file_.number_or(prefix_ + key, otherwise);
  }
  Result<std::string_view> text_or(const char* key, std::string_view otherwise) const {
    return file_.text_or(prefix_ + key, otherwise);
  }

 private:
  const Gguf& file_;
  const std::string prefix_;
};

Status read_sizes(const Gguf& file, const Keys& keys, DecoderFacts& f) {
  RP_ASSIGN(f.layers, keys.integer("block_count"));
  RP_ASSIGN(f.hidden, keys.integer("embedding_length"));
  RP_ASSIGN(f.intermediate, keys.integer("feed_forward_length"));
  RP_ASSIGN(f.context, keys.integer("context_length"));
  RP_ASSIGN(f.heads, keys.integer("attention.head_count"));
  RP_ASSIGN(f.kv_heads, keys.integer_or("attention.head_count_kv", f.heads));
  const int64_t even = f.heads > 0 ? f.hidden / f.heads : 0;
  RP_ASSIGN(f.head_size, keys.integer_or("attention.key_length", even));
  RP_ASSIGN(const int64_t value_size, keys.integer_or("attention.value_length", f.head_size));
  if (value_size != f.head_size)
    return {Code::Unsupported, file.name() + ": heads of values have " +
                                   std::to_string(value_size) + " elements, those of keys " +
                                   std::to_string(f.head_size) +
                                   "; only equal sizes are supported"};
  RP_ASSIGN(const double epsilon, keys.number("attention.layer_norm_rms_epsilon"));
  f.epsilon = static_cast<float>(epsilon);
  const GgufTensor* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr)
    return {Code::InvalidModel, file.name() + ": there is no tensor 'token_embd.weight'"};
  f.vocabulary = static_cast<int64_t>(embedding->dims[1]);
  RP_ASSIGN(const int64_t experts, keys.integer_or("expert_count", 0));
  if (experts > 0)
    return {Code::Unsupported, file.name() + ": the model is a mixture of " +
                                   std::to_string(experts) + " experts, which is not supported"};
  return {};
}

Status read_attention(const Keys& keys, DecoderFacts& f) {
  const Family& family = *f.family;
  RP_ASSIGN(f.score_cap, keys.number_or("attn_logit_softcapping", family.score_cap));
  RP_ASSIGN(f.logit_cap, keys.number_or("final_logit_softcapping", family.logit_cap));
  RP_ASSIGN(f.window, keys.integer_or("attention.sliding_window", 0));
  // The largest models of two families scale by the hidden size, which no key says.
  const bool large =
      (family.name == "gemma2" && f.layers == 46) || (family.name == "gemma3" && f.layers == 62);
  const double size = static_cast<double>(large && f.heads > 0 ? f.hidden / f.heads : f.head_size);
  f.score_scale = 1 / std::sqrt(size);
  return {};
}

/// The factors of a tensor such as `rope_freqs`, by which frequencies are divided.
Status divide_by(const Gguf& file, const char* name, std::vector<float>& frequencies) {
  const GgufTensor* t = file.find_tensor(name);
  if (t == nullptr) return {};
  if (t->type != formats::GgufType::F32 || t->count != frequencies.size())
    return {Code::InvalidModel, file.name() + ": '" + name + "' must have " +
                                    std::to_string(frequencies.size()) + " numbers of F32"};
  RP_ASSIGN(const HostTensor factors,
            formats::dequantized({t->type, 1, static_cast<int64_t>(t->count), t->bytes}));
  for (size_t i = 0; i < frequencies.size(); ++i) frequencies[i] /= factors.data<float>()[i];
  return {};
}

Status read_rotary(const Gguf& file, const Keys& keys, DecoderFacts& f) {
  RP_ASSIGN(const double base, keys.number_or("rope.freq_base", 10000));
  RP_ASSIGN(const int64_t size, keys.integer_or("rope.dimension_count", f.head_size));
  if (size < 2 || size > std::min(f.head_size, kMostHeadSize) || size % 2 != 0)
    return {Code::InvalidModel, file.name() + ": rope.dimension_count is " + std::to_string(size) +
                                    ", expected an even number up to " +
                                    std::to_string(f.head_size)};
  RP_ASSIGN(const std::string_view kind, keys.text_or("rope.scaling.type", "none"));
  RP_ASSIGN(const double scaled, keys.number_or("rope.scaling.factor", 1));
  const bool linear = kind == "linear";
  if (!linear && kind != "none" && kind != "longrope")
    return {Code::Unsupported, file.name() + ": rope.scaling.type is '" + std::string(kind) +
                                   "'; supported are none, linear and longrope"};
  f.rotary.frequencies = frequencies(base, size, linear ? scaled : 1);
  RP_TRY(divide_by(file, "rope_freqs.weight", f.rotary.frequencies));
  f.windowed_rotary = f.rotary;
  if (f.family->windowed_rotary_base > 0)
    f.windowed_rotary.frequencies = frequencies(f.family->windowed_rotary_base, size);
  if (file.find_tensor("rope_factors_short.weight") == nullptr) return {};
  // Within the context that the model was trained for first, the short factors hold.
  RP_ASSIGN(f.context, keys.integer_or("rope.scaling.original_context_length", f.context));
  RP_TRY(divide_by(file, "rope_factors_short.weight", f.rotary.frequencies));
  RP_ASSIGN(const double magnitude, keys.number_or("rope.scaling.attn_factor", 1));
  f.rotary.magnitude = static_cast<float>(magnitude);
  f.windowed_rotary = f.rotary;
  return {};
}

StoredTensor stored(const GgufTensor& t, const std::shared_ptr<const void>& owner) {
  StoredTensor out{std::string(t.name), t.type, {}, t.bytes, owner};
  for (size_t d = t.rank; d > 0; --d) out.dims.push_back(static_cast<int64_t>(t.dims[d - 1]));
  return out;
}

void read_end_tokens(const Gguf& file, Decoder& out) {
  std::set<int64_t> found;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    const auto id = file.find(key) != nullptr ? file.integer(key) : Result<int64_t>(int64_t{-1});
    if (id.ok() && *id >= 0) found.insert(*id);
  }
  out.end_tokens.assign(found.begin(), found.end());
}

}  // namespace

Result<Decoder> open_gguf(const std::string& path) {
  RP_ASSIGN(Gguf opened, Gguf::open(path));
  const auto file = std::make_shared<const Gguf>(std::move(opened));
  RP_ASSIGN(const std::string_view architecture, file->text("general.architecture"));
  Decoder out;
  out.path = path;
  DecoderFacts& f = out.facts;
  f.family = family_of_gguf(architecture);
  if (f.family == nullptr)
    return Status(Code::Unsupported, path + ": general.architecture is '" +
                                         std::string(architecture) + "'; supported are " +
                                         family_names());
  const Keys keys(*file, architecture);
  RP_TRY(read_sizes(*file, keys, f));
  RP_TRY(read_attention(keys, f));
  RP_TRY(read_rotary(*file, keys, f));
  RP_TRY(check_facts(f, path));
  f.windowed.reserve(static_cast<size_t>(f.layers));
  for (int64_t i = 0; i < f.layers; ++i)
    f.windowed.push_back(f.window > 0 && has_window(f.family->windows, i));
  read_end_tokens(*file, out);
  const bool interleaved = f.family->interleaves_heads;
  out.find = [file, interleaved](Role role, int64_t layer,
                                 bool bias) -> Result<std::optional<StoredTensor>> {
    const GgufTensor* t = file->find_tensor(gguf_name(role, layer) + (bias ? ".bias" : ".weight"));
    if (t == nullptr) return std::optional<StoredTensor>();
    StoredTensor found = stored(*t, file);
    found.interleaved = interleaved && (role == Role::Query || role == Role::Key);
    return std::optional(std::move(found));
  };
  return out;
}

}  // namespace reprise::families
