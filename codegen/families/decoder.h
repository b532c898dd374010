// A language model of a known family: its sizes, and where its weights are. GGUF files and folders
// of Hugging Face are read to this form.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/families/family.h"
#include "codegen/formats/block_weights.h"
#include "runtime/base/status.h"

namespace reprise::families {

/// Rotary positions: the angle of pair i at a position is the position times frequencies[i].
struct Rotary {
  std::vector<float> frequencies;
  float magnitude = 1;  // of cosine and sine
};

struct DecoderFacts {
  const Family* family = nullptr;
  int64_t layers = 0, hidden = 0, intermediate = 0, vocabulary = 0;
  int64_t heads = 0, kv_heads = 0, head_size = 0;
  int64_t context = 0;  // the most positions
  float epsilon = 0;    // of norms
  double score_scale = 0;
  double score_cap = 0, logit_cap = 0;  // 0: none
  int64_t window = 0;                   // positions that a layer with a window reads; 0: all
  std::vector<bool> windowed;           // for each layer
  Rotary rotary, windowed_rotary;
  bool norms_from_one = false;  // weights of norms are those less 1
};

/// What a weight does in a layer or, the first ones, in the model.
enum class Role : uint8_t {
  Embedding,
  FinalNorm,
  Head,
  AttentionNorm,
  Query,
  Key,
  Value,
  QueryKeyValue,
  AttentionResult,
  QueryNorm,
  KeyNorm,
  AttentionResultNorm,
  FeedForwardNorm,
  Gate,
  Up,
  GateUp,
  Down,
  FeedForwardResultNorm,
};

/// A tensor as a file has it. Its last dim is the one whose elements are adjacent.
struct StoredTensor {
  std::string name;
  formats::GgufType type = formats::GgufType::F32;
  std::vector<int64_t> dims;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  /// Its rows are heads in which the pairs that are rotated stand side by side.
  bool interleaved = false;
};

struct Decoder {
  std::string path;
  DecoderFacts facts;
  /// The weight of a role in a layer, or its bias. Nothing if the model has none.
  std::function<Result<std::optional<StoredTensor>>(Role role, int64_t layer, bool bias)> find;
  std::vector<int64_t> end_tokens;
  std::vector<std::string> notes;  // what people should know
};

/// Opens a GGUF file, or a folder with config.json and weights in safetensors. Errors name the key
/// or the tensor.
Result<Decoder> open_decoder(const std::string& path);
/// Whether open_decoder() is for this path: a folder with config.json, or a file whose name ends in
/// .gguf.
bool is_decoder(const std::string& path);

}  // namespace reprise::families
