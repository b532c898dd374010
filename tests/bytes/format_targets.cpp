#include "tests/bytes/format_targets.h"

#include "codegen/formats/block_weights.h"
#include "codegen/formats/safetensors.h"
#include "tests/support/gguf_writer.h"

namespace reprise::test {

namespace {

constexpr uint64_t kMostOfATensor = 1 << 12;

const char* without_message(const Status& s) {
  return s.message().empty() ? "an error without a message" : "";
}

/// The parts of the sum of all bytes, so that each is read.
unsigned sum_of(std::span<const std::byte> bytes) {
  unsigned sum = 0;
  for (const std::byte b : bytes) sum += std::to_integer<unsigned>(b);
  return sum;
}

std::string dequantise(const formats::GgufTensor& t) {
  formats::StoredRows rows{t.type, static_cast<int64_t>(t.count / std::max<uint64_t>(t.dims[0], 1)),
                           static_cast<int64_t>(t.dims[0]), t.bytes};
  const auto floats = formats::dequantized(rows);
  if (!floats.ok()) return without_message(floats.status());
  if (floats->count() != static_cast<int64_t>(t.count)) return "too few floats";
  if (!formats::has_block_form(t.type)) return "";
  const auto blocks = formats::block_columns(rows);
  if (!blocks.ok()) return "no blocks: " + blocks.status().message();
  return blocks->numbers.count() == floats->count() ? "" : "too few numbers";
}

}  // namespace

std::string run_blocks(std::span<const std::byte> bytes) {
  const auto file = formats::Gguf::parse(bytes, nullptr, "file");
  if (!file.ok()) return without_message(file.status());
  unsigned sum = 0;
  for (const auto& [key, value] : file->metadata()) {
    for (size_t i = 0; i < value.size() && i < kMostOfATensor; ++i) {
      sum += static_cast<unsigned>(value.integer(i).value_or(0));
      sum += value.text(i) ? static_cast<unsigned>(value.text(i)->size()) : 0;
    }
  }
  for (const formats::GgufTensor& t : file->tensors()) {
    sum += sum_of(t.bytes);
    if (t.count > kMostOfATensor) continue;
    const std::string problem = dequantise(t);
    if (!problem.empty()) return std::string(t.name) + ": " + problem;
  }
  return sum == 0xFFFFFFFFU ? " " : "";  // which keeps the sum
}

std::string run_safetensors(std::span<const std::byte> bytes) {
  const auto file = formats::Safetensors::parse(bytes, nullptr, "file");
  if (!file.ok()) return without_message(file.status());
  unsigned sum = 0;
  for (const auto& e : file->tensors()) {
    sum += sum_of(e.tensor.bytes());
    if (e.tensor.bytes().size() !=
        static_cast<size_t>(e.tensor.count()) * size_of(e.tensor.dtype()))
      return e.name + " has not the bytes of its shape";
  }
  return sum == 0xFFFFFFFFU ? " " : "";
}

std::vector<std::string> block_files() {
  std::vector<std::string> out;
  for (const uint32_t type : {0U, 1U, 2U, 3U, 6U, 7U, 8U, 10U, 11U, 12U, 13U, 14U, 20U, 23U, 39U}) {
    const formats::GgufTypeTraits& traits = *formats::gguf_type_traits(type);
    GgufWriter w;
    w.text("general.architecture", "llama").f32("epsilon", 1e-5F);
    w.texts("tokens", {"a", "bc"}).numbers<int32_t>("types", 5, {1, 2});
    w.tensor("w", {traits.block, 2}, type, std::string(2 * traits.block_bytes, '\x31'));
    w.tensor("norm", {3}, 0, std::string(12, '\x3F'));
    out.push_back(w.bytes());
  }
  return out;
}

std::vector<std::string> safetensors_files() {
  std::vector<std::string> out;
  for (const char* type : {"F32", "F16", "BF16", "I8", "I64", "BOOL", "F8_E4M3"}) {
    const std::string name = type;
    const bool wide = name == "F32", longest = name == "I64";
    const size_t size = longest ? 8 : wide ? 4 : name == "F16" || name == "BF16" ? 2 : 1;
    const std::string middle = std::to_string(6 * size), end = std::to_string(7 * size);
    const std::string header = R"({"__metadata__":{"format":"pt"},"a":{"dtype":")" + name +
                               R"(","shape":[2,3],"data_offsets":[0,)" + middle +
                               R"(]},"b":{"dtype":")" + name + R"(","shape":[1],"data_offsets":[)" +
                               middle + "," + end + "]}}";
    std::string file(8, '\0');
    for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(header.size() >> (8 * i) & 255U);
    file += header;
    out.push_back(file + std::string(7 * size, '\x01'));
  }
  return out;
}

}  // namespace reprise::test
