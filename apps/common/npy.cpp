#include "apps/common/npy.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "apps/common/files.h"
#include "apps/common/status.h"
#include "apps/common/utf8.h"
#include "runtime/base/file_kind.h"
#include "runtime/base/low_bit.h"
#include "runtime/platform/path.h"

namespace reprise::app {

namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;
  size_t data_offset = 0;
};

/// Parses the header's Python dictionary, which has three keys in any order.
class DictParser {
 public:
  explicit DictParser(std::string_view text) : s_(text) {}

  Status parse(Header& h) {
    if (!eat('{')) return malformed("a '{'");
    bool has_descr = false, has_order = false, has_shape = false;
    while (!eat('}')) {
      std::string key;
      RP_TRY(quoted(key));
      if (!eat(':')) return malformed("a ':'");
      if (key == "descr") {
        RP_TRY(quoted(h.descr));
        has_descr = true;
      } else if (key == "fortran_order") {
        RP_TRY(boolean(h.fortran));
        has_order = true;
      } else if (key == "shape") {
        RP_TRY(tuple(h.shape));
        has_shape = true;
      } else {
        return invalid_input("unknown key '" + key + "' in the npy header");
      }
      if (!eat(',') && peek() != '}') return malformed("a ',' or '}'");
    }
    if (!has_descr || !has_order || !has_shape) {
      return invalid_input("the npy header lacks 'descr', 'fortran_order' or 'shape'");
    }
    return {};
  }

 private:
  void skip() {
    while (i_ < s_.size() && (s_[i_] == ' ' || s_[i_] == '\n' || s_[i_] == '\t')) ++i_;
  }
  char peek() {
    skip();
    return i_ < s_.size() ? s_[i_] : '\0';
  }
  bool eat(char c) {
    if (peek() != c) return false;
    ++i_;
    return true;
  }
  Status malformed(const std::string& expected) const {
    return invalid_input("malformed npy header: expected " + expected + " at column " +
                         std::to_string(i_));
  }
  Status quoted(std::string& out) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return malformed("a quoted string");
    const size_t end = s_.find(quote, i_ + 1);
    if (end == std::string_view::npos) return malformed("a closing quote");
    out = s_.substr(i_ + 1, end - i_ - 1);
    i_ = end + 1;
    return {};
  }
  Status boolean(bool& out) {
    skip();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (s_.substr(i_, word.size()) == word) {
        out = value;
        i_ += word.size();
        return {};
      }
    }
    return malformed("True or False");
  }
  Status tuple(std::vector<int64_t>& out) {
    if (!eat('(')) return malformed("a '('");
    while (!eat(')')) {
      skip();
      int64_t dim = 0;
      const auto [end, error] = std::from_chars(s_.data() + i_, s_.data() + s_.size(), dim);
      if (error != std::errc() || dim < 0) return malformed("a dimension");
      i_ = static_cast<size_t>(end - s_.data());
      out.push_back(dim);
      if (!eat(',') && peek() != ')') return malformed("a ',' or ')'");
      if (out.size() > 32) return invalid_input("the npy file has more than 32 dimensions");
    }
    return {};
  }

  std::string_view s_;
  size_t i_ = 0;
};

Result<Header> parse_header(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.substr(0, kMagic.size()) != kMagic) {
    const std::string other = file_kind(file);
    return invalid_input("not an npy file" + (other.empty() ? ": it does not start with \\x93NUMPY"
                                                            : ", but " + other));
  }
  if (file.size() < 12) return invalid_input("the npy file is truncated in its header");
  auto byte = [&](size_t i) { return static_cast<uint32_t>(file[i]); };
  const uint32_t major = byte(6);
  if (major < 1 || major > 3) {
    return unsupported("npy format version " + std::to_string(major) +
                       "; versions 1 to 3 are read");
  }
  const size_t start = major == 1 ? 10 : 12;
  const size_t length = major == 1
                            ? byte(8) | byte(9) << 8
                            : byte(8) | byte(9) << 8 | byte(10) << 16 | size_t{byte(11)} << 24;
  if (length > file.size() - start) {
    return invalid_input("the npy file is truncated: its header claims " + std::to_string(length) +
                         " bytes, the file has " + std::to_string(file.size() - start));
  }
  Header h;
  h.data_offset = start + length;
  RP_TRY(DictParser(text.substr(start, length)).parse(h));
  return h;
}

struct Element {
  DType dtype = DType::Invalid;
  size_t bytes = 0;
  bool big_endian = false;
};

Result<Element> parse_descr(const std::string& descr) {
  const auto refuse = [&] {
    return unsupported("npy element type '" + descr +
                       "'; numbers up to 8 bytes, bool and unicode strings are read");
  };
  if (descr.size() < 3) return refuse();
  if (descr[1] == 'V') {
    return unsupported("npy element type '" + descr +
                       "': NumPy does not name the types of ml_dtypes (bfloat16, float8, int4) in "
                       "a file; give the input as a .pb, which onnx.numpy_helper.from_array(array)"
                       ".SerializeToString() makes");
  }
  Element e;
  e.big_endian = descr[0] == '>';
  if (std::string_view("<>|=").find(descr[0]) == std::string_view::npos) return refuse();
  size_t n = 0;
  const auto [end, error] = std::from_chars(descr.data() + 2, descr.data() + descr.size(), n);
  if (error != std::errc() || end != descr.data() + descr.size()) return refuse();
  struct Row {
    char kind;
    size_t bytes;
    DType dtype;
  };
  static constexpr Row rows[] = {{'f', 4, DType::F32}, {'f', 2, DType::F16}, {'f', 8, DType::F64},
                                 {'i', 1, DType::I8},  {'u', 1, DType::U8},  {'i', 2, DType::I16},
                                 {'u', 2, DType::U16}, {'i', 4, DType::I32}, {'u', 4, DType::U32},
                                 {'i', 8, DType::I64}, {'u', 8, DType::U64}, {'b', 1, DType::Bool}};
  for (const Row& row : rows) {
    if (row.kind == descr[1] && row.bytes == n) {
      e.dtype = row.dtype;
      e.bytes = n;
      return e;
    }
  }
  if (descr[1] != 'U' || n > (1u << 20)) return refuse();
  e.dtype = DType::String;
  e.bytes = 4 * n;
  return e;
}

void swap_bytes(std::span<std::byte> data, size_t width) {
  for (size_t i = 0; i + width <= data.size(); i += width) {
    std::reverse(data.begin() + static_cast<std::ptrdiff_t>(i),
                 data.begin() + static_cast<std::ptrdiff_t>(i + width));
  }
}

/// Reorders elements of `width` bytes from column-major to row-major.
std::vector<std::byte> to_row_major(std::span<const std::byte> data, size_t width,
                                    const std::vector<int64_t>& dims, int64_t count) {
  std::vector<std::byte> out(data.size());
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t d = 1; d < dims.size(); ++d) strides[d] = strides[d - 1] * dims[d - 1];
  std::vector<int64_t> index(dims.size(), 0);
  int64_t from = 0;
  for (int64_t to = 0; to < count; ++to) {
    std::copy_n(data.begin() + from * static_cast<std::ptrdiff_t>(width), width,
                out.begin() + to * static_cast<std::ptrdiff_t>(width));
    for (size_t d = dims.size(); d-- > 0;) {
      from += strides[d];
      if (++index[d] < dims[d]) break;
      from -= strides[d] * dims[d];
      index[d] = 0;
    }
  }
  return out;
}

Result<HostTensor> make_strings(std::span<const std::byte> data, size_t width,
                                const std::vector<int64_t>& dims) {
  HostTensor t(DType::String, dims);
  std::vector<std::string>& out = t.mutable_strings();
  out.resize(static_cast<size_t>(t.count()));
  for (size_t i = 0; i < out.size(); ++i) {
    std::u32string text(width / 4, U'\0');
    if (width) std::memcpy(text.data(), data.data() + i * width, width);
    while (!text.empty() && text.back() == U'\0') text.pop_back();
    RP_ASSIGN(out[i], to_utf8(text));
  }
  return t;
}

Result<std::string> format_strings(const HostTensor& t, std::string& descr) {
  std::vector<std::u32string> texts;
  size_t width = 1;
  for (const std::string& s : t.strings()) {
    RP_ASSIGN(std::u32string text, from_utf8(s));
    width = std::max(width, text.size());
    texts.push_back(std::move(text));
  }
  descr = "<U" + std::to_string(width);
  std::string data;
  for (std::u32string& text : texts) {
    text.resize(width);
    data.append(reinterpret_cast<const char*>(text.data()), 4 * width);
  }
  return data;
}

/// Whether NumPy has no such float type, so that a file holds the same numbers as float32.
bool is_widened(DType t) {
  return t == DType::BF16 || (is_low_bit(t) && !is_low_bit_int(t));
}

/// Integers of 2 and 4 bits become int8 and uint8.
std::string_view descr_of(DType t) {
  if (is_widened(t)) return "<f4";
  switch (carrier_of(t)) {
    case DType::F32:
      return "<f4";
    case DType::F16:
      return "<f2";
    case DType::F64:
      return "<f8";
    case DType::I8:
      return "|i1";
    case DType::U8:
      return "|u1";
    case DType::I16:
      return "<i2";
    case DType::U16:
      return "<u2";
    case DType::I32:
      return "<i4";
    case DType::U32:
      return "<u4";
    case DType::I64:
      return "<i8";
    case DType::U64:
      return "<u8";
    case DType::Bool:
      return "|b1";
    default:
      return "";
  }
}

std::string payload(const HostTensor& t) {
  if (!is_widened(t.dtype())) {
    return {reinterpret_cast<const char*>(t.bytes().data()), t.bytes().size()};
  }
  std::string out(static_cast<size_t>(t.count()) * 4, '\0');
  for (int64_t i = 0; i < t.count(); ++i) {
    const float wide = t.dtype() == DType::BF16 ? bf16_to_float(t.data<uint16_t>()[i])
                                                : low_bit_to_float(t.dtype(), t.data<uint8_t>()[i]);
    std::memcpy(out.data() + 4 * i, &wide, 4);
  }
  return out;
}

Result<std::string> format_checked(const HostTensor& t) {
  std::string descr(descr_of(t.dtype()));
  std::string data;
  if (t.dtype() == DType::String) {
    RP_ASSIGN(data, format_strings(t, descr));
  } else {
    data = payload(t);
  }
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
  for (const int64_t d : t.dims()) header += (header.back() == '(' ? "" : ", ") + std::to_string(d);
  if (t.rank() == 1) header += ",";
  header += "), }";
  constexpr size_t kPrefix = 10;
  header.append(63 - (kPrefix + header.size()) % 64, ' ');
  header += '\n';
  std::string out(kMagic);
  out +=
      {'\1', '\0', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  return out + header + data;
}

}  // namespace

Result<HostTensor> parse_npy(std::span<const std::byte> file) {
  RP_ASSIGN(Header h, parse_header(file));
  RP_ASSIGN(const Element e, parse_descr(h.descr));
  RP_ASSIGN(const int64_t count,
            checked_element_count(h.shape, e.dtype == DType::String ? DType::U32 : e.dtype));
  const std::span<const std::byte> data = file.subspan(h.data_offset);
  if (e.bytes != 0 && static_cast<size_t>(count) > data.size() / e.bytes) {
    return invalid_input("the npy file is truncated: " + describe(e.dtype, h.shape) + " needs " +
                         std::to_string(count) + " elements of " + std::to_string(e.bytes) +
                         " bytes, the file has " + std::to_string(data.size()) + " bytes of data");
  }
  const size_t bytes = static_cast<size_t>(count) * e.bytes;
  if (data.size() != bytes) {
    return invalid_input("the npy file has " + std::to_string(data.size() - bytes) +
                         " bytes after the data of " + describe(e.dtype, h.shape));
  }
  std::vector<std::byte> owned(data.begin(), data.end());
  if (h.fortran && h.shape.size() > 1) owned = to_row_major(owned, e.bytes, h.shape, count);
  if (e.big_endian) swap_bytes(owned, e.dtype == DType::String ? 4 : e.bytes);
  if (e.dtype == DType::String) return make_strings(owned, e.bytes, h.shape);
  return HostTensor::from(e.dtype, h.shape, owned);
}

Result<HostTensor> read_npy(const std::string& path) {
  std::ifstream in(utf8_path(path), std::ios::binary);
  if (!in) return file_error("cannot read", path);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) return file_error("cannot read", path);
  Result<HostTensor> t = parse_npy(std::as_bytes(std::span(text)));
  if (!t.ok()) return t.status().with_context("'" + path + "'");
  return t;
}

std::string format_npy(const HostTensor& tensor) {
  Result<std::string> text = format_checked(tensor);
  return text.ok() ? *text : std::string();
}

Status write_npy(const HostTensor& tensor, const std::string& path) {
  Result<std::string> text = format_checked(tensor);
  if (!text.ok()) return text.status().with_context("writing '" + path + "'");
  return write_file(path, *text);
}

}  // namespace reprise::app
