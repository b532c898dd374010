// What the readers of files share.
#pragma once

#include <optional>
#include <string>

#include "codegen/families/decoder.h"

namespace reprise::families {

inline constexpr int64_t kMostHeadSize = 65536;

Result<Decoder> open_gguf(const std::string& path);
Result<Decoder> open_folder(const std::string& path);

/// The name of a weight without ".weight": "blk.3.attn_q" or "model.layers.3.self_attn.q_proj".
std::string gguf_name(Role role, int64_t layer);
std::string folder_name(Role role, int64_t layer, const Family& family);

/// A scaling of frequencies as Llama 3 has it.
struct BandScaling {
  double factor = 1, low = 1, high = 4, context = 8192;
};
/// base^(-2i / size), each divided by `factor`.
std::vector<float> frequencies(double base, int64_t size, double factor = 1);
void scale_bands(std::vector<float>& frequencies, const BandScaling& scaling);

/// Whether the layer has a window in models that do not say it themselves.
bool has_window(Windows windows, int64_t layer);
/// Checks that sizes are positive and fit each other, bounds them, and checks that what rotary
/// positions are computed from is finite.
Status check_facts(const DecoderFacts& facts, const std::string& path);

}  // namespace reprise::families
