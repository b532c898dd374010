#include "codegen/ops/unsupported.h"

#include <algorithm>

namespace reprise::ops {

namespace {

constexpr std::string_view kMl = "ai.onnx.ml";

constexpr std::string_view kSequence = "sequences of tensors are not supported";
constexpr std::string_view kStack =
    "export the model with tensors instead of lists (in PyTorch, torch.stack or torch.cat)";
constexpr std::string_view kOptional = "optional values are not supported";
constexpr std::string_view kNoOptional =
    "export the model with a tensor that is always there, or one model for each case";
constexpr std::string_view kCut =
    "cut the model behind it (onnx.utils.extract_model), and give the run what it computes";
constexpr std::string_view kMap = "maps are not supported";

constexpr Unsupported kRows[] = {
    {"", "SequenceAt", kSequence, kStack},
    {"", "SequenceConstruct", kSequence, kStack},
    {"", "SequenceEmpty", kSequence, kStack},
    {"", "SequenceErase", kSequence, kStack},
    {"", "SequenceInsert", kSequence, kStack},
    {"", "SequenceLength", kSequence, kStack},
    {"", "SequenceMap", kSequence, kStack},
    {"", "ConcatFromSequence", kSequence, kStack},
    {"", "SplitToSequence", kSequence,
     "export the model with Split, which gives tensors (in PyTorch, torch.split with constant "
     "sizes)"},
    {"", "Optional", kOptional, kNoOptional},
    {"", "OptionalGetElement", kOptional, kNoOptional},
    {"", "OptionalHasElement", kOptional, kNoOptional},
    {"", "ImageDecoder", "decoding image files is left to the application",
     "cut the model behind it (onnx.utils.extract_model), and give the run the pixels"},
    {"", "MaxRoiPool", "pooling of regions with rounded borders is not supported",
     "export the model with RoiAlign"},
    {kMl, "ZipMap", "it makes a sequence of maps",
     "convert the model without it: skl2onnx.to_onnx(..., options={'zipmap': False}), which gives "
     "the probabilities as a tensor"},
    {kMl, "CastMap", kMap, "convert the model for a tensor as input (FloatTensorType)"},
    {kMl, "DictVectorizer", kMap, "convert the model for a tensor as input (FloatTensorType)"},
    {"ai.onnx.preview", "FlexAttention", "its bodies are not supported",
     "export the model with Attention or its parts (MatMul, Softmax)"},
    {"ai.onnx.preview.training", "Gradient", "training is not supported",
     "export the model for inference"},
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
