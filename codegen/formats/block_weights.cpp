#include "codegen/formats/block_weights.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

namespace reprise::formats {

namespace {

constexpr size_t kMostElements = 256;

/// A block of the file. The number of scales is that of its elements, divided by BlockForm::step.
struct Decoded {
  std::array<int8_t, kMostElements> numbers{};
  std::array<float, kMostElements / 16> scales{}, minimums{};
};

float half_at(const uint8_t* at) {
  return f16_to_float(static_cast<uint16_t>(at[0] | at[1] << 8));
}

int8_t low(uint8_t byte) {
  return static_cast<int8_t>(byte & 15);
}

int8_t high(uint8_t byte) {
  return static_cast<int8_t>(byte >> 4);
}

/// 32 numbers of 4 bits: those of the low halves of 16 bytes, then those of the high halves.
void read_nibbles(const uint8_t* bytes, int8_t* out, int less = 0) {
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<int8_t>(low(bytes[i]) - less);
    out[i + 16] = static_cast<int8_t>(high(bytes[i]) - less);
  }
}

/// Adds to each of 32 numbers the fifth bit, which `bits` has.
void add_fifth_bits(const uint8_t* bits, int8_t* out, int less = 0) {
  for (int i = 0; i < 32; ++i) {
    const int bit = bits[i / 8] >> (i % 8) & 1;
    out[i] = static_cast<int8_t>((out[i] | bit << 4) - less);
  }
}

void decode_q4_0(const uint8_t* b, Decoded& out) {
  out.scales[0] = half_at(b);
  read_nibbles(b + 2, out.numbers.data(), 8);
}

void decode_q4_1(const uint8_t* b, Decoded& out) {
  out.scales[0] = half_at(b);
  out.minimums[0] = half_at(b + 2);
  read_nibbles(b + 4, out.numbers.data());
}

void decode_q5_0(const uint8_t* b, Decoded& out) {
  out.scales[0] = half_at(b);
  read_nibbles(b + 6, out.numbers.data());
  add_fifth_bits(b + 2, out.numbers.data(), 16);
}

void decode_q5_1(const uint8_t* b, Decoded& out) {
  out.scales[0] = half_at(b);
  out.minimums[0] = half_at(b + 2);
  read_nibbles(b + 8, out.numbers.data());
  add_fifth_bits(b + 4, out.numbers.data());
}

void decode_q8_0(const uint8_t* b, Decoded& out) {
  out.scales[0] = half_at(b);
  std::memcpy(out.numbers.data(), b + 2, 32);
}

/// The number of 2 bits at `i` of 256, which lie in bytes as Q2_K and Q3_K have them.
int two_bits(const uint8_t* bytes, int i) {
  return bytes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

void decode_q2_k(const uint8_t* b, Decoded& out) {
  const float d = half_at(b + 80), least = half_at(b + 82);
  for (size_t i = 0; i < 16; ++i) {
    out.scales[i] = d * static_cast<float>(b[i] & 15);
    out.minimums[i] = -(least * static_cast<float>(b[i] >> 4));
  }
  for (int i = 0; i < 256; ++i)
    out.numbers[static_cast<size_t>(i)] = static_cast<int8_t>(two_bits(b + 16, i));
}

void decode_q3_k(const uint8_t* b, Decoded& out) {
  const uint8_t* packed = b + 96;
  const float d = half_at(b + 108);
  for (size_t i = 0; i < 16; ++i) {
    const int four = i < 8 ? packed[i] & 15 : packed[i - 8] >> 4;
    const int two = packed[8 + i % 4] >> (i / 4 * 2) & 3;
    out.scales[i] = d * static_cast<float>((four | two << 4) - 32);
  }
  for (int i = 0; i < 256; ++i) {
    const int third = b[i % 32] >> (i / 32) & 1;
    out.numbers[static_cast<size_t>(i)] =
        static_cast<int8_t>(two_bits(b + 32, i) - (third != 0 ? 0 : 4));
  }
}

/// The eight scales and minimums of 6 bits that Q4_K and Q5_K have after two halves.
void read_six_bits(const uint8_t* b, Decoded& out) {
  const float d = half_at(b), least = half_at(b + 2);
  const uint8_t* s = b + 4;
  for (size_t j = 0; j < 8; ++j) {
    const int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    const int minimum = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4;
    out.scales[j] = d * static_cast<float>(scale);
    out.minimums[j] = -(least * static_cast<float>(minimum));
  }
}

/// 256 numbers of 4 bits: of each 32 bytes, the low halves and then the high ones.
void read_long_nibbles(const uint8_t* bytes, Decoded& out) {
  for (size_t i = 0; i < 256; ++i) {
    const uint8_t byte = bytes[i / 64 * 32 + i % 32];
    out.numbers[i] = i % 64 < 32 ? low(byte) : high(byte);
  }
}

void decode_q4_k(const uint8_t* b, Decoded& out) {
  read_six_bits(b, out);
  read_long_nibbles(b + 16, out);
}

void decode_q5_k(const uint8_t* b, Decoded& out) {
  read_six_bits(b, out);
  read_long_nibbles(b + 48, out);
  for (size_t i = 0; i < 256; ++i) {
    const int bit = b[16 + i % 32] >> (i / 32) & 1;
    out.numbers[i] = static_cast<int8_t>(out.numbers[i] | bit << 4);
  }
}

void decode_q6_k(const uint8_t* b, Decoded& out) {
  const float d = half_at(b + 208);
  for (size_t i = 0; i < 16; ++i)
    out.scales[i] = d * static_cast<float>(std::bit_cast<int8_t>(b[192 + i]));
  for (size_t i = 0; i < 256; ++i) {
    const size_t half = i / 128, part = i % 128 / 32, l = i % 32;
    const uint8_t four = b[half * 64 + part % 2 * 32 + l];
    const int two = b[128 + half * 32 + l] >> (part * 2) & 3;
    out.numbers[i] = static_cast<int8_t>(((part < 2 ? low(four) : high(four)) | two << 4) - 32);
  }
}

/// The numbers that the codes of IQ4_NL and IQ4_XS stand for.
constexpr std::array<int8_t, 16> kUneven{-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};
/// Twice the numbers of MXFP4.
constexpr std::array<int8_t, 16> kSmallFloats{0, 1,  2,  3,  4,  6,  8,  12,
                                              0, -1, -2, -3, -4, -6, -8, -12};

void read_codes(const uint8_t* bytes, const std::array<int8_t, 16>& table, int8_t* out) {
  read_nibbles(bytes, out);
  for (int i = 0; i < 32; ++i) out[i] = table[static_cast<uint8_t>(out[i])];
}

void decode_iq4_nl(const uint8_t* b, Decoded& out) {
  out.scales[0] = half_at(b);
  read_codes(b + 2, kUneven, out.numbers.data());
}

void decode_iq4_xs(const uint8_t* b, Decoded& out) {
  const float d = half_at(b);
  const int highs = b[2] | b[3] << 8;
  for (size_t i = 0; i < 8; ++i) {
    const int four = b[4 + i / 2] >> (i % 2 * 4) & 15;
    out.scales[i] = d * static_cast<float>((four | (highs >> (i * 2) & 3) << 4) - 32);
    read_codes(b + 8 + i * 16, kUneven, out.numbers.data() + i * 32);
  }
}

void decode_mxfp4(const uint8_t* b, Decoded& out) {
  // Half of 2^(b - 127), since the numbers are doubled.
  const uint32_t bits = b[0] < 2 ? 0x00200000U << b[0] : (b[0] - 1U) << 23U;
  out.scales[0] = std::bit_cast<float>(bits);
  read_codes(b + 1, kSmallFloats, out.numbers.data());
}

struct BlockForm {
  GgufType type;
  DType numbers, scales;
  int64_t step;  // elements that share a scale
  bool has_minimum;
  void (*decode)(const uint8_t* block, Decoded& out);
};

constexpr BlockForm kForms[] = {
    {GgufType::Q4_0, DType::I4, DType::F16, 32, false, decode_q4_0},
    {GgufType::Q4_1, DType::U4, DType::F16, 32, true, decode_q4_1},
    {GgufType::Q5_0, DType::I8, DType::F16, 32, false, decode_q5_0},
    {GgufType::Q5_1, DType::U8, DType::F16, 32, true, decode_q5_1},
    {GgufType::Q8_0, DType::I8, DType::F16, 32, false, decode_q8_0},
    {GgufType::Q2_K, DType::U4, DType::F32, 16, true, decode_q2_k},
    {GgufType::Q3_K, DType::I4, DType::F32, 16, false, decode_q3_k},
    {GgufType::Q4_K, DType::U4, DType::F32, 32, true, decode_q4_k},
    {GgufType::Q5_K, DType::U8, DType::F32, 32, true, decode_q5_k},
    {GgufType::Q6_K, DType::I8, DType::F32, 16, false, decode_q6_k},
    {GgufType::IQ4_NL, DType::I8, DType::F16, 32, false, decode_iq4_nl},
    {GgufType::IQ4_XS, DType::I8, DType::F32, 32, false, decode_iq4_xs},
    {GgufType::MXFP4, DType::I8, DType::F32, 32, false, decode_mxfp4},
};

const BlockForm* form_of(GgufType type) {
  const auto* at = std::ranges::find(kForms, type, &BlockForm::type);
  return at == std::end(kForms) ? nullptr : at;
}

/// The number of the stored row that becomes row `r`.
size_t row_at(const StoredRows& s, int64_t r) {
  return static_cast<size_t>(s.order.empty() ? r : s.order[static_cast<size_t>(r)]);
}

const uint8_t* row_bytes_at(const StoredRows& s, int64_t r) {
  return reinterpret_cast<const uint8_t*>(s.bytes.data()) + row_at(s, r) * s.row_bytes();
}

void store_scale(HostTensor& to, size_t at, float v) {
  if (to.dtype() == DType::F16)
    to.mutable_data<uint16_t>()[at] = float_to_f16(v);
  else
    to.mutable_data<float>()[at] = v;
}

/// Writes some rows as columns. Rows are read together so that writes to neighbouring columns meet
/// in the cache.
class ColumnWriter {
 public:
  ColumnWriter(const StoredRows& stored, const BlockForm& form, BlockColumns& out)
      : s_(stored), form_(form), out_(out), traits_(gguf_type_traits(stored.type)) {}

  void write() {
    constexpr int64_t kRows = 64;
    const int64_t blocks = s_.columns / traits_.block;
    for (int64_t first = 0; first < s_.count(); first += kRows) {
      const int64_t end = std::min(first + kRows, s_.count());
      for (int64_t block = 0; block < blocks; ++block) {
        for (int64_t row = first; row < end; ++row) write_block(row, block);
      }
    }
  }

 private:
  void write_block(int64_t row, int64_t block) {
    form_.decode(row_bytes_at(s_, row) + block * traits_.block_bytes, decoded_);
    const auto rows = static_cast<size_t>(s_.count()), at = static_cast<size_t>(row);
    const size_t size = traits_.block, first = static_cast<size_t>(block) * size;
    auto* const numbers = out_.numbers.mutable_data<int8_t>();
    for (size_t i = 0; i < size; ++i) numbers[(first + i) * rows + at] = decoded_.numbers[i];
    const auto step = static_cast<size_t>(form_.step);
    for (size_t i = 0; i < size / step; ++i) {
      const size_t place = (first / step + i) * rows + at;
      store_scale(out_.scales, place, decoded_.scales[i]);
      if (out_.minimums) store_scale(*out_.minimums, place, decoded_.minimums[i]);
    }
  }

  const StoredRows& s_;
  const BlockForm& form_;
  BlockColumns& out_;
  const GgufTypeTraits& traits_;
  Decoded decoded_;
};

float float_at(GgufType type, const uint8_t* row, size_t i) {
  if (type == GgufType::F32) {
    float v;
    std::memcpy(&v, row + i * 4, 4);
    return v;
  }
  uint16_t bits;
  std::memcpy(&bits, row + i * 2, 2);
  return type == GgufType::F16 ? f16_to_float(bits) : bf16_to_float(bits);
}

void dequantize_row(const StoredRows& s, int64_t row, float* out) {
  const uint8_t* bytes = row_bytes_at(s, row);
  const auto columns = static_cast<size_t>(s.columns);
  const BlockForm* form = form_of(s.type);
  if (form == nullptr) {
    for (size_t i = 0; i < columns; ++i) out[i] = float_at(s.type, bytes, i);
    return;
  }
  const GgufTypeTraits& traits = gguf_type_traits(s.type);
  const auto step = static_cast<size_t>(form->step);
  Decoded block;
  for (size_t first = 0; first < columns; first += traits.block, bytes += traits.block_bytes) {
    form->decode(bytes, block);
    for (size_t i = 0; i < traits.block; ++i) {
      const float n = form->numbers == DType::U8
                          ? static_cast<float>(static_cast<uint8_t>(block.numbers[i]))
                          : static_cast<float>(block.numbers[i]);
      const float scaled = n * block.scales[i / step];
      out[first + i] = form->has_minimum ? scaled + block.minimums[i / step] : scaled;
    }
  }
}

}  // namespace

size_t StoredRows::row_bytes() const {
  const GgufTypeTraits& traits = gguf_type_traits(type);
  if (columns < 0 || columns % traits.block != 0) return 0;
  return static_cast<size_t>(columns) / traits.block * traits.block_bytes;
}

Status StoredRows::check() const {
  const GgufTypeTraits& traits = gguf_type_traits(type);
  const std::string what = std::string(traits.name) + " of " + std::to_string(rows) + " rows and " +
                           std::to_string(columns) + " columns";
  if (columns % traits.block != 0)
    return {Code::InvalidModel,
            what + " must have a multiple of " + std::to_string(traits.block) + " columns"};
  const std::array<int64_t, 2> dims{rows, columns};
  RP_TRY(checked_element_count(dims, DType::F32).status());
  if (bytes.size() != static_cast<size_t>(rows) * row_bytes())
    return {Code::InvalidModel, what + " takes " +
                                    std::to_string(static_cast<size_t>(rows) * row_bytes()) +
                                    " bytes, but there are " + std::to_string(bytes.size())};
  if (std::ranges::any_of(order, [&](int64_t r) { return r < 0 || r >= rows; }))
    return {Code::Usage, what + ": the order has a row that is not there"};
  return {};
}

bool has_block_form(GgufType type) {
  return form_of(type) != nullptr;
}

bool can_dequantize(GgufType type) {
  return has_block_form(type) || type == GgufType::F32 || type == GgufType::F16 ||
         type == GgufType::BF16;
}

Result<BlockColumns> block_columns(const StoredRows& stored) {
  RP_TRY(stored.check());
  const BlockForm* form = form_of(stored.type);
  if (form == nullptr)
    return Status(Code::Unsupported, std::string("tensors of the type ") +
                                         gguf_type_traits(stored.type).name +
                                         " have no block form");
  BlockColumns out;
  out.block = form->step;
  out.numbers = HostTensor(form->numbers, {stored.columns, stored.count()});
  const std::vector<int64_t> scales{stored.columns / form->step, stored.count()};
  out.scales = HostTensor(form->scales, scales);
  if (form->has_minimum) out.minimums = HostTensor(form->scales, scales);
  ColumnWriter(stored, *form, out).write();
  return out;
}

Result<HostTensor> dequantized(const StoredRows& stored) {
  RP_TRY(stored.check());
  if (!can_dequantize(stored.type))
    return Status(Code::Unsupported, std::string("tensors of the type ") +
                                         gguf_type_traits(stored.type).name + " are not supported");
  HostTensor out(DType::F32, {stored.count(), stored.columns});
  for (int64_t r = 0; r < stored.count(); ++r)
    dequantize_row(stored, r, out.mutable_data<float>() + r * stored.columns);
  return out;
}

}  // namespace reprise::formats
