#include "tests/ptx/machine/decode.h"

#include <algorithm>
#include <array>

namespace reprise::test::ptx {
namespace {

struct TypeRow {
  std::string_view name;
  Type type;
  uint32_t size;
};
constexpr std::array<TypeRow, 17> kTypes{{{"pred", Type::Pred, 1},
                                          {"b8", Type::B8, 1},
                                          {"b16", Type::B16, 2},
                                          {"b32", Type::B32, 4},
                                          {"b64", Type::B64, 8},
                                          {"u8", Type::U8, 1},
                                          {"u16", Type::U16, 2},
                                          {"u32", Type::U32, 4},
                                          {"u64", Type::U64, 8},
                                          {"s8", Type::S8, 1},
                                          {"s16", Type::S16, 2},
                                          {"s32", Type::S32, 4},
                                          {"s64", Type::S64, 8},
                                          {"f16", Type::F16, 2},
                                          {"bf16", Type::BF16, 2},
                                          {"f32", Type::F32, 4},
                                          {"f64", Type::F64, 8}}};

}  // namespace

uint32_t size_of(Type t) {
  return kTypes[static_cast<size_t>(t)].size;
}

bool type_named(std::string_view name, Type& out) {
  const auto* const at =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& r) { return r.name == name; });
  if (at == kTypes.end()) return false;
  out = at->type;
  return true;
}

Words::Words(std::string_view opcode) {
  size_t dot = opcode.find('.');
  opcode_ = opcode.substr(0, dot);
  while (dot != std::string_view::npos) {
    const size_t next = opcode.find('.', dot + 1);
    words_.emplace_back(opcode.substr(dot + 1, next - dot - 1));
    dot = next;
  }
}

bool Words::take(std::string_view word) {
  const auto at = std::find(words_.begin(), words_.end(), word);
  if (at == words_.end()) return false;
  words_.erase(at);
  return true;
}

int Words::take_one(std::initializer_list<std::string_view> words) {
  int n = 0;
  for (const std::string_view word : words) {
    if (take(word)) return n;
    ++n;
  }
  return -1;
}

bool Words::take_type(Type& out) {
  if (words_.empty() || !type_named(words_.front(), out)) return false;
  words_.erase(words_.begin());
  return true;
}

Status decode(Words& words, Instruction& i, Shape& shape) {
  constexpr std::array families{decode_arithmetic,     decode_bits,     decode_conversion,
                                decode_signals,        decode_clusters, decode_bulk,
                                decode_memory,         decode_exchange, decode_roles,
                                decode_multiplication, decode_matrix};
  const std::vector<std::string> all = words.left();
  const Instruction plain = i;
  const bool known = std::any_of(families.begin(), families.end(), [&](auto f) {
    i = plain;
    shape = {};
    return f(words, i, shape);
  });
  if (!known) {
    std::string name = words.opcode();
    for (const std::string& w : all) name += "." + w;
    return {Code::Device, "unknown instruction " + name};
  }
  if (!words.left().empty())
    return {Code::Device, "unknown modifier ." + words.left().front() + " of " + words.opcode()};
  return {};
}

}  // namespace reprise::test::ptx
