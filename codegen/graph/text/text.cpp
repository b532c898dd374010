#include "codegen/graph/text/text.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

namespace reprise::graph::text {

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '/' || c == '$' || c == '-';
}

bool is_keyword(std::string_view word) {
  for (std::string_view k :
       {"_", "graph", "symbol", "guard", "input", "const", "output", "capture"}) {
    if (word == k) return true;
  }
  return false;
}

std::string quoted(std::string_view s) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : s) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (u < 0x20 || u == 0x7f) {
      out += "\\x";
      out += kHex[u >> 4];
      out += kHex[u & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string name(std::string_view s) {
  bool bare = !s.empty() && !is_keyword(s) && s.find("//") == std::string_view::npos;
  for (char c : s) bare = bare && is_word_char(c);
  return bare ? std::string(s) : quoted(s);
}

namespace {

template <typename T>
std::string shortest(T v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer;
  auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), v).ptr;
  return std::string(buffer.data(), end);
}

template <typename T>
std::string with_point(T v) {
  std::string s = shortest(v);
  return s.find_first_of(".en") == std::string::npos ? s + ".0" : s;
}

template <typename T>
T read_at(const HostTensor& t, int64_t i) {
  T v;
  std::memcpy(&v, t.bytes().data() + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return v;
}

/// Formats one element; of a low-bit type, the number in its byte.
std::string element(const HostTensor& t, int64_t i) {
  switch (carrier_of(t.dtype())) {
    case DType::F32:
      return shortest(read_at<float>(t, i));
    case DType::F16:
      return shortest(f16_to_float(read_at<uint16_t>(t, i)));
    case DType::BF16:
      return shortest(bf16_to_float(read_at<uint16_t>(t, i)));
    case DType::F64:
      return shortest(read_at<double>(t, i));
    case DType::I8:
      return std::to_string(read_at<int8_t>(t, i));
    case DType::U8:
      return std::to_string(read_at<uint8_t>(t, i));
    case DType::I16:
      return std::to_string(read_at<int16_t>(t, i));
    case DType::U16:
      return std::to_string(read_at<uint16_t>(t, i));
    case DType::I32:
      return std::to_string(read_at<int32_t>(t, i));
    case DType::U32:
      return std::to_string(read_at<uint32_t>(t, i));
    case DType::I64:
      return std::to_string(read_at<int64_t>(t, i));
    case DType::U64:
      return std::to_string(read_at<uint64_t>(t, i));
    case DType::Bool:
      return read_at<uint8_t>(t, i) ? "true" : "false";
    case DType::String:
      return quoted(t.strings()[static_cast<size_t>(i)]);
    default:
      return "?";
  }
}

template <typename T>
Status store(HostTensor& t, size_t i, T v) {
  std::memcpy(t.mutable_bytes().data() + i * sizeof(T), &v, sizeof(T));
  return {};
}

template <typename T>
Status read_int(HostTensor& t, size_t i, const std::string& s) {
  T v = 0;
  auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (error != std::errc() || end != s.data() + s.size()) {
    return invalid_model("'" + s + "' is not a value of " + std::string(name_of(t.dtype())));
  }
  return store(t, i, v);
}

template <typename T, typename F>
Status read_float(HostTensor& t, size_t i, const std::string& s, F convert) {
  RP_ASSIGN(const double v, read_real(s));
  return store<T>(t, i, convert(v));
}

Status read_element(HostTensor& t, size_t i, const std::string& s) {
  switch (carrier_of(t.dtype())) {
    case DType::F32: {  // not via double, which could round twice
      float v = 0;
      auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
      if (error == std::errc() && end == s.data() + s.size()) return store(t, i, v);
      return read_float<float>(t, i, s, [](double d) { return static_cast<float>(d); });
    }
    case DType::F16:
      return read_float<uint16_t>(t, i, s,
                                  [](double d) { return float_to_f16(static_cast<float>(d)); });
    case DType::BF16:
      return read_float<uint16_t>(t, i, s,
                                  [](double d) { return float_to_bf16(static_cast<float>(d)); });
    case DType::F64:
      return read_float<double>(t, i, s, [](double d) { return d; });
    case DType::I8:
      return read_int<int8_t>(t, i, s);
    case DType::U8:
      return read_int<uint8_t>(t, i, s);
    case DType::I16:
      return read_int<int16_t>(t, i, s);
    case DType::U16:
      return read_int<uint16_t>(t, i, s);
    case DType::I32:
      return read_int<int32_t>(t, i, s);
    case DType::U32:
      return read_int<uint32_t>(t, i, s);
    case DType::I64:
      return read_int<int64_t>(t, i, s);
    case DType::U64:
      return read_int<uint64_t>(t, i, s);
    case DType::Bool:
      if (s != "true" && s != "false") return invalid_model("'" + s + "' is not a bool");
      return store<uint8_t>(t, i, s == "true");
    case DType::String:
      t.mutable_strings()[i] = s;
      return {};
    default:
      return invalid_model("a constant has an unknown dtype");
  }
}

}  // namespace

std::string real(double v) {
  return with_point(v);
}
std::string real(float v) {
  return with_point(v);
}

bool prints_exactly(const HostTensor& t) {
  for (int64_t i = 0; i < t.count(); ++i) {
    switch (t.dtype()) {
      case DType::F32: {
        const auto bits = read_at<uint32_t>(t, i);
        if (std::isnan(std::bit_cast<float>(bits)) && bits != 0x7fc00000) return false;
        break;
      }
      case DType::F64: {
        const auto bits = read_at<uint64_t>(t, i);
        if (std::isnan(std::bit_cast<double>(bits)) && bits != 0x7ff8000000000000) return false;
        break;
      }
      case DType::F16: {
        const auto bits = read_at<uint16_t>(t, i);
        if ((bits & 0x7fff) > 0x7c00 && float_to_f16(f16_to_float(0x7e00)) != bits) return false;
        break;
      }
      case DType::BF16: {
        const auto bits = read_at<uint16_t>(t, i);
        if ((bits & 0x7fff) > 0x7f80 && float_to_bf16(bf16_to_float(0x7fc0)) != bits) return false;
        break;
      }
      case DType::Bool:
        if (read_at<uint8_t>(t, i) > 1) return false;
        break;
      default:
        return true;
    }
  }
  return true;
}

std::string contents(const HostTensor& t) {
  std::string out;
  for (int64_t i = 0; i < t.count(); ++i) {
    if (i) out += ", ";
    out += element(t, i);
  }
  return out;
}

Result<double> read_real(std::string_view s) {
  double v = 0;
  if (s == "nan") return std::numeric_limits<double>::quiet_NaN();
  auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (error != std::errc() || end != s.data() + s.size()) {
    return invalid_model("'" + std::string(s) + "' is not a number");
  }
  return v;
}

Result<HostTensor> read_contents(DType dtype, std::vector<int64_t> dims,
                                 const std::vector<std::string>& items) {
  RP_ASSIGN(const int64_t count, checked_element_count(dims, dtype));
  if (static_cast<uint64_t>(count) != items.size()) {
    return invalid_model(describe(dtype, dims) + " needs " + std::to_string(count) +
                         " elements, found " + std::to_string(items.size()));
  }
  HostTensor t(dtype, std::move(dims));
  for (size_t i = 0; i < items.size(); ++i) RP_TRY(read_element(t, i, items[i]));
  return t;
}

namespace {

template <typename T, typename F>
std::string list(const std::vector<T>& items, const char* empty, const F& item) {
  if (items.empty()) return empty;
  std::string out;
  for (const T& x : items) out += (out.empty() ? "[" : ", ") + item(x);
  return out + "]";
}

struct AttributeText {
  std::span<const Symbol> symbols;
  const std::function<std::string(const HostTensor&)>& tensor;

  std::string operator()(int64_t v) const { return std::to_string(v); }
  std::string operator()(float v) const { return real(v); }
  std::string operator()(const std::string& v) const { return quoted(v); }
  std::string operator()(const std::vector<int64_t>& v) const {
    return list(v, "[]", [](int64_t i) { return std::to_string(i); });
  }
  std::string operator()(const std::vector<float>& v) const {
    return list(v, "floats[]", [](float f) { return real(f); });
  }
  std::string operator()(const std::vector<std::string>& v) const {
    return list(v, "strings[]", [](const std::string& s) { return quoted(s); });
  }
  std::string operator()(const HostTensor& v) const { return tensor(v); }
  std::string operator()(const std::vector<Expr>& v) const { return "(" + exprs(v, symbols) + ")"; }
};

}  // namespace

std::string exprs(const std::vector<Expr>& list, std::span<const Symbol> symbols) {
  std::string out;
  for (size_t i = 0; i < list.size(); ++i) out += (i > 0 ? ", " : "") + list[i].str(symbols);
  return out;
}

std::string attribute(const Attr& a, std::span<const Symbol> symbols,
                      const std::function<std::string(const HostTensor&)>& tensor) {
  return std::visit(AttributeText{symbols, tensor}, a);
}

}  // namespace reprise::graph::text
