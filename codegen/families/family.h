// The families of language models that are known, as data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace reprise::families {

enum class GatedBy : uint8_t { Silu, GeluTanh };

/// Layers whose attention reads a window only.
enum class Windows : uint8_t {
  None,
  All,          // if the model gives a window
  EverySecond,  // all but every second one
  FiveOfSix,    // all but every sixth one
};

/// What the models of a family have in common. Sizes are those of a model (DecoderFacts).
struct Family {
  std::string_view name;
  std::string_view hf;    // `model_type` in config.json
  std::string_view gguf;  // `general.architecture`; empty: that of another row
  GatedBy gate = GatedBy::Silu;
  Windows windows = Windows::None;
  bool norms_heads = false;        // queries and keys, by head
  bool norms_results = false;      // of attention and of the feed-forward layer
  bool norms_from_one = false;     // a folder's weights of norms are those less 1
  bool scales_embeddings = false;  // by the root of the hidden size
  bool joins_projections = false;  // queries, keys and values are one weight, as are gate and up
  bool interleaves_heads = false;  // in GGUF: pairs that are rotated stand side by side
  // For files that leave them out.
  int64_t heads = 0, kv_heads = 0, head_size = 0;
  double score_cap = 0, logit_cap = 0;
  double windowed_rotary_base = 0;  // of layers with windows; 0: as others
};

std::span<const Family> families();
const Family* family_of_folder(std::string_view model_type);
const Family* family_of_gguf(std::string_view architecture);
/// "gemma2, gemma3, llama, ..."
std::string family_names();

}  // namespace reprise::families
