#include "codegen/formats/gguf_metadata.h"

#include <algorithm>
#include <bit>

namespace reprise::formats {

namespace {

void put(std::string& out, uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xFFU));
}

void put_text(std::string& out, std::string_view text) {
  put(out, text.size(), 8);
  out += text;
}

/// Item `i` of a value, whose kind it is.
void put_item(std::string& out, const GgufValue& v, GgufKind kind, size_t i) {
  const auto integer = static_cast<uint64_t>(v.integer(i).value_or(0));
  switch (kind) {
    case GgufKind::U8:
    case GgufKind::I8:
      return put(out, integer, 1);
    case GgufKind::U16:
    case GgufKind::I16:
      return put(out, integer, 2);
    case GgufKind::U32:
    case GgufKind::I32:
      return put(out, integer, 4);
    case GgufKind::U64:
    case GgufKind::I64:
      return put(out, integer, 8);
    case GgufKind::F32:
      return put(out, std::bit_cast<uint32_t>(static_cast<float>(v.number(i).value_or(0))), 4);
    case GgufKind::F64:
      return put(out, std::bit_cast<uint64_t>(v.number(i).value_or(0)), 8);
    case GgufKind::Bool:
      return put(out, v.boolean(i).value_or(false) ? 1 : 0, 1);
    case GgufKind::Text:
      return put_text(out, v.text(i).value_or(""));
    case GgufKind::Array:
      return;  // of arrays there are none
  }
}

}  // namespace

std::string gguf_of_keys(const Gguf& file, std::string_view prefix) {
  constexpr uint32_t kVersion = 3;
  std::string keys;
  uint64_t count = 0;
  for (const auto& [key, value] : file.metadata()) {
    if (!key.starts_with(prefix)) continue;
    ++count;
    put_text(keys, key);
    put(keys, static_cast<uint32_t>(value.kind()), 4);
    const bool array = value.kind() == GgufKind::Array;
    if (array) {
      put(keys, static_cast<uint32_t>(value.item_kind()), 4);
      put(keys, value.size(), 8);
    }
    const GgufKind kind = array ? value.item_kind() : value.kind();
    for (size_t i = 0; i < value.size(); ++i) put_item(keys, value, kind, i);
  }
  std::string out = "GGUF";
  put(out, kVersion, 4);
  put(out, 0, 8);  // tensors
  put(out, count, 8);
  out += keys;
  out.resize((out.size() + file.alignment() - 1) / file.alignment() * file.alignment());
  return out;
}

std::string encode_base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i)
      bits = bits << 8U | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (size_t i = 0; i < 4; ++i)
      out.push_back(i <= count ? kDigits[bits >> (18 - 6 * i) & 63U] : '=');
  }
  return out;
}

}  // namespace reprise::formats
