#include "tests/platforms/cases.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

namespace reprise::platforms {
namespace {

namespace fs = std::filesystem;

/// Reads the wire format of protobuf.
class Wire {
 public:
  Wire(const unsigned char* begin, const unsigned char* end) : at_(begin), end_(end) {}
  bool more() const { return at_ < end_ && good_; }
  bool good() const { return good_; }
  uint64_t varint() {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == end_) break;
      const unsigned char c = *at_++;
      v |= static_cast<uint64_t>(c & 127) << shift;
      if (c < 128) return v;
    }
    good_ = false;
    return v;
  }
  Wire bytes() {
    const uint64_t size = varint();
    if (size > static_cast<uint64_t>(end_ - at_)) good_ = false;
    const unsigned char* const begin = at_;
    if (good_) at_ += size;
    return {begin, good_ ? at_ : begin};
  }
  void skip(uint64_t type) {
    if (type == 0) {
      varint();
    } else if (type == 2) {
      bytes();
    } else {
      good_ = false;
    }
  }
  const unsigned char* begin() const { return at_; }
  const unsigned char* end() const { return end_; }

 private:
  const unsigned char* at_;
  const unsigned char* end_;
  bool good_ = true;
};

/// The dtype with a number of ONNX; 0 if this program does not read it.
reprise_dtype dtype_of(uint64_t number) {
  switch (number) {
    case 1:
      return REPRISE_F32;
    case 2:
      return REPRISE_U8;
    case 3:
      return REPRISE_I8;
    case 4:
      return REPRISE_U16;
    case 5:
      return REPRISE_I16;
    case 6:
      return REPRISE_I32;
    case 7:
      return REPRISE_I64;
    case 9:
      return REPRISE_BOOL;
    case 11:
      return REPRISE_F64;
    case 12:
      return REPRISE_U32;
    case 13:
      return REPRISE_U64;
    default:
      return static_cast<reprise_dtype>(0);
  }
}

template <typename T>
T element(const unsigned char* bytes, size_t index) {
  T v;
  std::memcpy(&v, bytes + index * sizeof(T), sizeof v);
  return v;
}

template <typename T>
std::string compare(const Output& found, const Data& expected) {
  for (size_t i = 0; i < found.bytes.size() / sizeof(T); ++i) {
    const double a = static_cast<double>(element<T>(found.bytes.data(), i));
    const double b = static_cast<double>(element<T>(expected.bytes.data(), i));
    const bool equal = a == b || (std::isnan(a) && std::isnan(b));
    if (!equal && !(std::fabs(a - b) <= 1e-7 + 1e-3 * std::fabs(b))) {
      return "element " + std::to_string(i) + " is " + std::to_string(a) + ", not " +
             std::to_string(b);
    }
  }
  return {};
}

}  // namespace

std::vector<unsigned char> read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string read_tensor(const fs::path& path, Data& to) {
  const std::vector<unsigned char> file = read_file(path);
  Wire wire(file.data(), file.data() + file.size());
  uint64_t type = 0;
  while (wire.more()) {
    const uint64_t key = wire.varint();
    if (key == (1 << 3)) {
      to.dims.push_back(static_cast<int64_t>(wire.varint()));
    } else if (key == (1 << 3 | 2)) {
      for (Wire dims = wire.bytes(); dims.more();)
        to.dims.push_back(static_cast<int64_t>(dims.varint()));
    } else if (key == 2 << 3) {
      type = wire.varint();
    } else if (key == (8 << 3 | 2)) {
      const Wire name = wire.bytes();
      to.name.assign(name.begin(), name.end());
    } else if (key == (9 << 3 | 2)) {
      const Wire raw = wire.bytes();
      to.bytes.assign(raw.begin(), raw.end());
    } else {
      wire.skip(key & 7);
    }
  }
  to.dtype = dtype_of(type);
  size_t bytes = reprise_dtype_size(to.dtype);
  for (const int64_t d : to.dims) bytes *= static_cast<size_t>(d);
  if (!wire.good() || file.empty()) return path.filename().string() + " is not a tensor";
  if (to.dtype == 0 || bytes != to.bytes.size())
    return path.filename().string() + " has a form that this program does not read";
  return {};
}

std::string read_tensors(const fs::path& folder, const std::string& prefix, std::vector<Data>& to) {
  for (size_t i = 0;; ++i) {
    const fs::path path = folder / (prefix + "_" + std::to_string(i) + ".pb");
    if (!fs::exists(path)) return {};
    const std::string wrong = read_tensor(path, to.emplace_back());
    if (!wrong.empty()) return wrong;
  }
}

std::string difference(const Output& found, const Data& expected) {
  if (found.dtype != expected.dtype) return "the dtype differs";
  if (found.dims != expected.dims || found.bytes.size() != expected.bytes.size())
    return "the dims differ";
  switch (found.dtype) {
    case REPRISE_F32:
      return compare<float>(found, expected);
    case REPRISE_F64:
      return compare<double>(found, expected);
    default:
      return found.bytes == expected.bytes ? "" : "integers differ";
  }
}

}  // namespace reprise::platforms
