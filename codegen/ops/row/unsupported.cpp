#include "codegen/ops/row/unsupported.h"

#include <algorithm>

namespace reprise::ops {

namespace {

constexpr std::string_view kCut =
    "cut the model behind it (onnx.utils.extract_model), and give the run what it computes";

constexpr std::string_view kMicrosoftDomain = "com.microsoft";
constexpr std::string_view kGeneration = "loops that generate text are left to the application";
constexpr std::string_view kDecoder =
    "export the decoder alone, with its past as inputs and its present as outputs";
constexpr std::string_view kPacked = "rows without padding are not supported";
constexpr std::string_view kWithPadding =
    "optimise the model without packing mode (in ONNX Runtime, do not call "
    "convert_to_packing_mode.py)";
constexpr std::string_view kOrdered = "layouts of one GPU library are not supported";
constexpr std::string_view kQdq = "quantise the model in the format QDQ";
constexpr std::string_view kLayout = "its layout is that of one processor";
constexpr std::string_view kExtended =
    "save the model with graph_optimization_level = ORT_ENABLE_EXTENDED or lower, which is the "
    "same "
    "on all devices";
constexpr std::string_view kFourier = "transforms of ONNX Runtime's own are not supported";

constexpr Unsupported kRows[] = {
    {"ai.onnx.preview.training", "Gradient", "gradients within a model are not supported",
     "export the model for inference, or a training step with reprise.torch.TrainStep"},
    {kMicrosoftDomain, "BeamSearch", kGeneration, kDecoder},
    {kMicrosoftDomain, "GreedySearch", kGeneration, kDecoder},
    {kMicrosoftDomain, "Sampling", kGeneration, kDecoder},
    {kMicrosoftDomain, "WhisperBeamSearch", kGeneration, kDecoder},
    {kMicrosoftDomain, "DecoderMaskedMultiHeadAttention",
     "its caches are shared buffers, which only ONNX Runtime's BeamSearch gives it", kDecoder},
    {kMicrosoftDomain, "DecoderMaskedSelfAttention",
     "its caches are shared buffers, which only ONNX Runtime's BeamSearch gives it", kDecoder},
    {kMicrosoftDomain, "PackedAttention", kPacked, kWithPadding},
    {kMicrosoftDomain, "PackedMultiHeadAttention", kPacked, kWithPadding},
    {kMicrosoftDomain, "RemovePadding", kPacked, kWithPadding},
    {kMicrosoftDomain, "RestorePadding", kPacked, kWithPadding},
    {kMicrosoftDomain, "PagedAttention", "pages of caches are not supported",
     "build the model with GroupQueryAttention"},
    {kMicrosoftDomain, "QOrderedAttention", kOrdered, kQdq},
    {kMicrosoftDomain, "QOrderedGelu", kOrdered, kQdq},
    {kMicrosoftDomain, "QOrderedLayerNormalization", kOrdered, kQdq},
    {kMicrosoftDomain, "QOrderedLongformerAttention", kOrdered, kQdq},
    {kMicrosoftDomain, "QOrderedMatMul", kOrdered, kQdq},
    {kMicrosoftDomain, "QuantizeWithOrder", kOrdered, kQdq},
    {kMicrosoftDomain, "DequantizeWithOrder", kOrdered, kQdq},
    {kMicrosoftDomain, "Rfft", kFourier, "export the model with DFT of ONNX"},
    {kMicrosoftDomain, "Irfft", kFourier, "export the model with DFT of ONNX"},
    {kMicrosoftDomain, "MatMulFpQ4", kLayout, "quantise the model with MatMulNBits"},
    {kMicrosoftDomain, "EPContext", "it holds a program for one device",
     "use the model from which it was compiled"},
    {"com.microsoft.nchwc", "", kLayout, kExtended},
    {"com.ms.internal.nhwc", "", kLayout, kExtended},
    {"ai.onnx.contrib", "",
     "operators of onnxruntime-extensions process text and images, which is "
     "left to the application",
     kCut},
};

}  // namespace

std::span<const Unsupported> unsupported_ops() {
  return kRows;
}

const Unsupported* find_unsupported(std::string_view domain, std::string_view name) {
  const auto row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Unsupported& u) {
    return u.domain == domain && (u.name.empty() || u.name == name);
  });
  return row == std::end(kRows) ? nullptr : row;
}

}  // namespace reprise::ops
