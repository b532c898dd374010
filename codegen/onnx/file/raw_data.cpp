#include "codegen/onnx/file/raw_data.h"

#include <algorithm>
#include <array>
#include <optional>

namespace reprise::onnx {
namespace {

// Numbers of fields in ONNX's protobuf.
constexpr uint64_t kGraph = 7, kInitializer = 5, kRawData = 9;

/// Reads the fields of messages in a file, and skips what they hold.
class FieldReader {
 public:
  FieldReader(const platform::InputFile& file, uint64_t begin, uint64_t end)
      : file_(file), at_(begin), end_(end) {}

  struct Field {
    uint64_t number = 0;
    uint64_t offset = 0, size = 0;  // of what a field with a length holds
  };
  /// Nothing at the end, or where the message is malformed.
  std::optional<Field> next() {
    const auto tag = varint();
    if (!tag) return std::nullopt;
    Field field{*tag >> 3, 0, 0};
    enum : uint64_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };
    switch (*tag & 7) {
      case kVarint:
        if (!varint()) return std::nullopt;
        return field;
      case kFixed64:
        return skip(8) ? std::optional(field) : std::nullopt;
      case kFixed32:
        return skip(4) ? std::optional(field) : std::nullopt;
      case kLength:
        break;
      default:
        return std::nullopt;
    }
    const auto size = varint();
    if (!size) return std::nullopt;
    field.offset = at_;
    field.size = *size;
    return skip(*size) ? std::optional(field) : std::nullopt;
  }

 private:
  bool skip(uint64_t bytes) {
    if (bytes > end_ - at_) return false;
    at_ += bytes;
    return true;
  }
  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = this->byte();
      if (!byte) return std::nullopt;
      value |= uint64_t{*byte & 0x7FU} << shift;
      if ((*byte & 0x80U) == 0) return value;
    }
    return std::nullopt;
  }
  std::optional<uint8_t> byte() {
    if (at_ >= end_) return std::nullopt;
    if (at_ < begin_ || at_ - begin_ >= filled_) {
      const auto n = file_.read_some(at_, block_);
      if (!n.ok() || *n == 0) return std::nullopt;
      begin_ = at_;
      filled_ = *n;
    }
    return std::to_integer<uint8_t>(block_[at_++ - begin_]);
  }

  const platform::InputFile& file_;
  uint64_t at_, end_;
  std::array<std::byte, 256> block_{};  // of the file, from begin_ on
  uint64_t begin_ = 0, filled_ = 0;
};

}  // namespace

std::vector<RawData> find_raw_data(const platform::InputFile& file) {
  std::vector<RawData> found;
  FieldReader model(file, 0, file.size());
  while (const auto graph = model.next()) {
    if (graph->number != kGraph) continue;
    if (!found.empty()) return {};
    FieldReader fields(file, graph->offset, graph->offset + graph->size);
    while (const auto tensor = fields.next()) {
      if (tensor->number != kInitializer) continue;
      FieldReader of_tensor(file, tensor->offset, tensor->offset + tensor->size);
      RawData& raw = found.emplace_back();
      while (const auto field = of_tensor.next())
        if (field->number == kRawData) raw = {field->offset, field->size};
    }
  }
  return found;
}

}  // namespace reprise::onnx
