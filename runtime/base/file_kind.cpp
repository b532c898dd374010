#include "runtime/base/file_kind.h"

#include <algorithm>
#include <string_view>

namespace reprise {

namespace {

using namespace std::string_view_literals;

struct KindRow {
  size_t offset;
  std::string_view magic;
  std::string_view what;  // the file, and what to do
};

constexpr std::string_view kUnpack = "a compressed file; unpack it first";

// No protobuf of ONNX begins like one of these.
constexpr KindRow kKinds[] = {
    {0, "version https://git-lfs"sv,
     "a Git LFS pointer; fetch the file itself with 'git lfs pull'"},
    {0, "\x89RPK\r\n\x1a\n"sv, "a compiled model; name it .rpk"},
    {0, "PK\x03\x04"sv,
     "a zip archive, as PyTorch writes (.pt, .pth); export the model with torch.onnx.export, or "
     "unpack the archive if it holds an .onnx"},
    {0, "\x93NUMPY"sv, "an array of NumPy; name it .npy"},
    {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file, as Keras writes; convert it with tf2onnx"},
    {0, "GGUF"sv, "a GGUF file, which has weights but no graph; export the model to ONNX"},
    {4, "TFL3"sv,
     "a model of TensorFlow Lite; convert it: python -m tf2onnx.convert --tflite FILE"},
    {4, "ORTM"sv, "in the ORT format of ONNX Runtime; pass the .onnx that it was made from"},
    {0, "\x80\x02"sv, "a Python pickle; export the model with torch.onnx.export or skl2onnx"},
    {0, "\x80\x03"sv, "a Python pickle; export the model with torch.onnx.export or skl2onnx"},
    {0, "\x80\x04"sv, "a Python pickle; export the model with torch.onnx.export or skl2onnx"},
    {0, "\x80\x05"sv, "a Python pickle; export the model with torch.onnx.export or skl2onnx"},
    {0, "\x1f\x8b"sv, kUnpack},
    {0,
     "\xfd"
     "7zXZ"sv,
     kUnpack},
    {0, "\x28\xb5\x2f\xfd"sv, kUnpack},
    {0, "BZh"sv, kUnpack},
};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// The text without white space in front, in lower case.
std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  std::string out(first == std::string_view::npos ? std::string_view() : text.substr(first));
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

/// Eight bytes with the size of a header, which is JSON.
bool is_safetensors(std::string_view text) {
  return text.size() > 9 && text.substr(5, 3) == "\0\0\0"sv && text[8] == '{';
}

}  // namespace

std::string file_kind(std::span<const std::byte> start) {
  const std::string_view text(reinterpret_cast<const char*>(start.data()),
                              std::min(start.size(), kFileKindBytes));
  for (const KindRow& row : kKinds) {
    if (text.size() < row.offset || !text.substr(row.offset).starts_with(row.magic)) continue;
    // A FlatBuffer begins with a small offset, in 32 bits.
    if (row.offset == 0 || text.substr(1, 3) == "\0\0\0"sv) return std::string(row.what);
  }
  if (is_safetensors(text))
    return "a safetensors file, which has weights but no graph; export the model to ONNX";
  const std::string page = trimmed(text);
  if (page.starts_with("<!doctype html") || page.starts_with("<html"))
    return "a web page; download the file itself (the raw file, not the page that shows it)";
  if (page.starts_with("<?xml")) return "an XML file; pass the .onnx that it was made from";
  return {};
}

bool looks_like_onnx(std::span<const std::byte> start) {
  // The version of the format, and the tag of the producer's name or of another field of a model.
  if (start.size() < 4 || start[0] != std::byte{0x08}) return false;
  const auto version = static_cast<unsigned>(start[1]);
  constexpr std::string_view kTags = "\x12\x1a\x22\x28\x32\x3a\x42";
  return version > 0 && version < 64 &&
         kTags.find(static_cast<char>(start[2])) != std::string_view::npos;
}

}  // namespace reprise
