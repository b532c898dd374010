// Alphabets and their files. In an ONNX model, the characters are an entry of
// ModelProto.metadata_props, of which this reads just as much as it needs: a protobuf message is a
// row of fields, each a number, a kind and a value.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

#include "apps/ocr/recognise.h"
#include "apps/samples/path.h"
#include "apps/samples/text_output.h"

namespace ocr {
namespace {

struct Field {
  uint64_t number = 0;
  std::string_view bytes;  // empty for numbers, which are skipped
};

class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}

  /// The next field; nothing at the end, and if the message is damaged.
  std::optional<Field> next() {
    const std::optional<uint64_t> key = varint();
    if (!key) return std::nullopt;
    std::optional<uint64_t> size;
    switch (*key & 7) {
      case 0:
        return varint() ? std::optional(Field{*key >> 3, {}}) : std::nullopt;
      case 1:
        size = 8;
        break;
      case 2:
        size = varint();
        break;
      case 5:
        size = 4;
        break;
      default:
        break;
    }
    if (!size || *size > rest_.size()) return std::nullopt;
    const Field field{*key >> 3, rest_.substr(0, *size)};
    rest_.remove_prefix(*size);
    return field;
  }

 private:
  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  std::string_view rest_;
};

constexpr uint64_t kMetadata = 14, kKey = 1, kValue = 2;  // onnx.proto3

std::optional<std::string> metadata(std::string_view model, std::string_view key) {
  Fields fields(model);
  while (const std::optional<Field> field = fields.next()) {
    if (field->number != kMetadata) continue;
    std::string_view name, value;
    Fields entry(field->bytes);
    while (const std::optional<Field> part = entry.next()) {
      if (part->number == kKey) name = part->bytes;
      if (part->number == kValue) value = part->bytes;
    }
    if (name == key) return std::string(value);
  }
  return std::nullopt;
}

Result<std::string> contents(const std::string& path) {
  std::ifstream in(samples::utf8_path(path), std::ios::binary);
  if (!in) return Error{REPRISE_IO, path + ": cannot be opened: " + std::strerror(errno)};
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

Alphabet::Alphabet(std::string lines) : lines_(std::move(lines)) {
  characters_.emplace_back();  // the blank
  for (size_t start = 0; start < lines_.size();) {
    const size_t end = std::min(lines_.find('\n', start), lines_.size());
    characters_.push_back(lines_.substr(start, end - start));
    start = end + 1;
  }
  characters_.emplace_back(" ");
}

Text Alphabet::decode(std::span<const float> probabilities) const {
  Text out;
  size_t before = 0;
  int count = 0;
  for (size_t at = 0; at + classes() <= probabilities.size(); at += classes()) {
    const auto step = probabilities.subspan(at, classes());
    const auto best = std::max_element(step.begin(), step.end());
    const auto label = static_cast<size_t>(best - step.begin());
    if (label != before && label != 0) {
      out.text += characters_[label];
      out.score += *best;
      ++count;
    }
    before = label;
  }
  if (count) out.score /= static_cast<float>(count);
  return out;
}

Result<Alphabet> Alphabet::read(const std::string& path) {
  Result<std::string> text = contents(path);
  if (!text) return text.error();
  return Alphabet(std::move(*text));
}

Result<Alphabet> Alphabet::from_model(const std::string& path) {
  const Result<std::string> model = contents(path);
  if (!model) return model.error();
  std::optional<std::string> characters = metadata(*model, "character");
  if (characters) return Alphabet(std::move(*characters));
  return Error{REPRISE_INVALID_MODEL,
               path + ": its metadata have no entry 'character' with the model's alphabet"};
}

Error Alphabet::write(const std::string& path) const {
  return samples::write_file(path, lines_);
}

}  // namespace ocr
