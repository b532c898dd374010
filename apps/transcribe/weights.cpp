#include "apps/transcribe/weights.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "apps/samples/path.h"

namespace transcribe {
namespace {

constexpr uint64_t kVersion = 6;
constexpr size_t kMostVariables = 100000, kHighestRank = 8;

/// What is known of a dtype; 0 bytes: not known.
struct DType {
  size_t bytes = 0;
  bool is_float = false;
};

constexpr uint8_t kFloat32 = 0, kFloat16 = 4;
constexpr DType kDTypes[] = {{4, true}, {1, false}, {2, false}, {4, false}, {2, true}, {2, true}};

DType dtype_of(uint8_t number) {
  return number < std::size(kDTypes) ? kDTypes[number] : DType();
}

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[i - 1]);
  return value;
}

float half_to_float(uint64_t half) {
  const auto fraction = static_cast<float>(half & 0x3FF);
  const int exponent = static_cast<int>(half >> 10 & 0x1F);
  const float sign = half & 0x8000 ? -1.0F : 1.0F;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

float float_of(std::string_view bytes, uint8_t dtype) {
  const uint64_t raw = little_endian(bytes);
  if (dtype == kFloat16) return half_to_float(raw);
  return std::bit_cast<float>(static_cast<uint32_t>(dtype == kFloat32 ? raw : raw << 16));
}

}  // namespace

/// Reads the file from its beginning. After its end, everything is 0.
class WeightFile::Cursor {
 public:
  explicit Cursor(std::string_view file) : file_(file) {}
  std::string_view bytes(size_t count) {
    if (count > file_.size() - at_) {
      is_over_ = true;
      return {};
    }
    at_ += count;
    return file_.substr(at_ - count, count);
  }
  uint64_t number(size_t size) { return little_endian(bytes(size)); }
  std::string text() {
    const std::string_view found = bytes(number(2));
    return std::string(found.substr(0, found.find('\0')));
  }
  size_t at() const { return at_; }
  bool is_over() const { return is_over_; }

 private:
  std::string_view file_;
  size_t at_ = 0;
  bool is_over_ = false;
};

Error WeightFile::damaged(const std::string& what) const {
  return {REPRISE_INVALID_MODEL, path_ + ": no model of CTranslate2 that can be read: " + what};
}

Result<WeightFile> WeightFile::read(const std::string& path) {
  std::ifstream in(samples::utf8_path(path), std::ios::binary);
  if (!in) return Error{REPRISE_IO, path + ": cannot be opened; 'tools/models whisper' fetches it"};
  WeightFile weights;
  weights.path_ = path;
  weights.file_.assign(std::istreambuf_iterator<char>(in), {});
  Error e = weights.read_variables();
  if (e.status != REPRISE_OK) return e;
  return weights;
}

Error WeightFile::read_variables() {
  Cursor c(file_);
  if (const uint64_t version = c.number(4); version != kVersion)
    return damaged("its version is " + std::to_string(version) + ", and 6 is known");
  if (const std::string kind = c.text(); kind != "WhisperSpec")
    return damaged("it is a '" + kind.substr(0, 64) + "', no WhisperSpec");
  c.number(4);
  const uint64_t count = c.number(4);
  if (count > kMostVariables) return damaged("it has " + std::to_string(count) + " variables");
  for (uint64_t i = 0; i < count && !c.is_over(); ++i) {
    const std::string name = c.text();
    Variable v;
    const size_t rank = c.number(1);
    if (rank > kHighestRank) return damaged("'" + name + "' has " + std::to_string(rank) + " dims");
    uint64_t elements = 1;
    for (size_t d = 0; d < rank; ++d) {
      v.dims.push_back(static_cast<int64_t>(c.number(4)));
      if (v.dims.back() == 0 && !c.is_over()) return damaged("'" + name + "' has no elements");
      elements = std::min<uint64_t>(elements * static_cast<uint64_t>(v.dims.back()), 1ULL << 31);
    }
    v.dtype = static_cast<uint8_t>(c.number(1));
    v.bytes = c.number(4);
    v.at = c.at();
    c.bytes(v.bytes);
    if (v.bytes != elements * dtype_of(v.dtype).bytes)
      return damaged("the bytes of '" + name + "' do not fit its dims and dtype");
    variables_[name] = std::move(v);
  }
  if (c.is_over()) return damaged("the file ends too early");
  return {};
}

std::vector<int64_t> WeightFile::dims(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? std::vector<int64_t>() : found->second.dims;
}

Result<std::vector<float>> WeightFile::floats(const std::string& name,
                                              const std::vector<int64_t>& dims) const {
  const auto found = variables_.find(name);
  if (found == variables_.end()) return damaged("it has no '" + name + "'");
  const Variable& v = found->second;
  const DType dtype = dtype_of(v.dtype);
  if (v.dims != dims || !dtype.is_float)
    return damaged("'" + name + "' has other dims than the rest, or is quantized");
  const std::string_view bytes = std::string_view(file_).substr(v.at, v.bytes);
  std::vector<float> out(v.bytes / dtype.bytes);
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = float_of(bytes.substr(i * dtype.bytes, dtype.bytes), v.dtype);
  return out;
}

Result<int64_t> WeightFile::number(const std::string& name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end() || !found->second.dims.empty() ||
      dtype_of(found->second.dtype).is_float)
    return damaged("it has no number '" + name + "'");
  const Variable& v = found->second;
  return static_cast<int64_t>(little_endian(std::string_view(file_).substr(v.at, v.bytes)));
}

}  // namespace transcribe
