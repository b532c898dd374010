// Conversions between element types.
#include <algorithm>
#include <charconv>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

/// The domain in which the numbers of a dtype are exact. Low-bit types have one here alone: other
/// operators refuse them.
Domain exact_domain(DType t) {
  if (is_low_bit_int(t)) return Domain::Signed;
  return is_low_bit(t) ? Domain::Float : domain_of(t);
}

/// A float is truncated and saturated to an integer (NaN gives 0), an integer wraps to a narrower
/// one, and Bool is true if the number is not zero.
template <typename T>
void cast_numbers(const HostTensor& x, HostTensor& y) {
  std::array<T, kChunk> buffer;
  for (int64_t i = 0; i < x.count(); i += kChunk) {
    const int64_t n = std::min(kChunk, x.count() - i);
    load(x, i, 1, n, buffer.data());
    store(y, i, n, buffer.data());
  }
}

/// To a float of a low-bit type. Integers beyond 2^53 are rounded twice, but are beyond the ranges.
void cast_to_low_bit(const HostTensor& x, HostTensor& y, LowBitRules rules) {
  auto* codes = y.mutable_data<uint8_t>();
  for (int64_t i = 0; i < x.count(); ++i) {
    double v = 0;
    load(x, i, 1, 1, &v);
    codes[i] = double_to_low_bit(y.dtype(), v, rules);
  }
}

std::string format_number(const HostTensor& x, int64_t i) {
  std::array<char, 64> text;
  const auto print = [&](auto v) {
    const auto r = std::to_chars(text.data(), text.data() + text.size(), v);
    return std::string(text.data(), r.ptr);
  };
  if (exact_domain(x.dtype()) == Domain::Signed) {
    int64_t v = 0;
    load(x, i, 1, 1, &v);
    return print(v);
  }
  if (exact_domain(x.dtype()) == Domain::Unsigned) {
    uint64_t v = 0;
    load(x, i, 1, 1, &v);
    return print(v);
  }
  double v = 0;
  load(x, i, 1, 1, &v);
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v < 0 ? "-INF" : "INF";
  return x.dtype() == DType::F64 ? print(v) : print(static_cast<float>(v));
}

template <typename T>
bool parse_as(std::string_view s, T& v) {
  if (!s.empty() && s.front() == '+') s.remove_prefix(1);
  const auto r = std::from_chars(s.data(), s.data() + s.size(), v);
  return r.ec == std::errc() && r.ptr == s.data() + s.size();
}

Status parse_number(const std::string& s, HostTensor& y, int64_t i, LowBitRules rules) {
  bool ok = false;
  if (exact_domain(y.dtype()) == Domain::Float) {
    double v = 0;
    ok = parse_as(s, v);
    if (is_low_bit(y.dtype())) {
      y.mutable_data<uint8_t>()[i] = double_to_low_bit(y.dtype(), v, rules);
    } else {
      store(y, i, 1, &v);
    }
  } else if (exact_domain(y.dtype()) == Domain::Signed) {
    int64_t v = 0;
    ok = parse_as(s, v);
    store(y, i, 1, &v);
  } else if (is_int(y.dtype())) {
    uint64_t v = 0;
    ok = parse_as(s, v);
    store(y, i, 1, &v);
  }
  if (ok) return {};
  return invalid_input("element " + std::to_string(i) + " ('" + s.substr(0, 40) + "') is not a " +
                       std::string(name_of(y.dtype())));
}

KernelResult cast_to(const HostTensor& x, DType to, LowBitRules rules) {
  if (x.dtype() == to) return one(x);
  RP_ASSIGN(auto y, allocate(to, x.dims()));
  if (x.dtype() == DType::String) {
    if (to == DType::Bool) return unsupported("no conversion from string to bool");
    for (int64_t i = 0; i < x.count(); ++i) {
      RP_TRY(parse_number(x.strings()[static_cast<size_t>(i)], y, i, rules));
    }
    return one(std::move(y));
  }
  if (to == DType::String) {
    for (int64_t i = 0; i < x.count(); ++i) {
      y.mutable_strings()[static_cast<size_t>(i)] = format_number(x, i);
    }
    return one(std::move(y));
  }
  if (is_low_bit(to) && !is_low_bit_int(to)) {
    cast_to_low_bit(x, y, rules);
    return one(std::move(y));
  }
  switch (exact_domain(x.dtype())) {
    case Domain::Float:
      cast_numbers<double>(x, y);
      break;
    case Domain::Signed:
      cast_numbers<int64_t>(x, y);
      break;
    case Domain::Unsigned:
      cast_numbers<uint64_t>(x, y);
      break;
    case Domain::None:
      return unsupported("no conversion from " + std::string(name_of(x.dtype())));
  }
  return one(std::move(y));
}

Result<LowBitRules> rules_of(const Call& c) {
  const std::string mode = c.attrs.get_string("round_mode", "up");
  const auto power = power_rounding(mode);
  if (!power) return invalid_model("attribute 'round_mode' is '" + mode + "'");
  return LowBitRules{c.attrs.get_int("saturate", 1) != 0, *power};
}

KernelResult cast(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  if (!c.attrs.has("to")) return invalid_model("attribute 'to' is missing");
  RP_ASSIGN(const DType to, dtype_from_onnx(c.attrs.get_int("to", 0)));
  RP_ASSIGN(const LowBitRules rules, rules_of(c));
  return cast_to(input(c, 0), to, rules);
}

KernelResult cast_like(const Call& c) {
  RP_TRY(check_arity(c, 2, 2));
  RP_ASSIGN(const LowBitRules rules, rules_of(c));
  return cast_to(input(c, 0), input(c, 1).dtype(), rules);
}

KernelResult bit_cast(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  if (!c.attrs.has("to")) return invalid_model("attribute 'to' is missing");
  RP_ASSIGN(const DType to, dtype_from_onnx(c.attrs.get_int("to", 0)));
  const HostTensor& x = input(c, 0);
  if (bits_of(x.dtype()) == 0 || bits_of(to) != bits_of(x.dtype())) {
    return invalid_input("cannot read the bits of " + std::string(name_of(x.dtype())) + " as " +
                         std::string(name_of(to)) + ": elements must have equal sizes");
  }
  if (to == DType::Bool) return cast_to(x, to, {});  // bytes of a bool are 0 or 1
  RP_ASSIGN(auto y, allocate(to, x.dims()));
  if (bits_of(to) < 8) {  // the upper bits of a byte depend on the type
    std::vector<std::byte> packed(packed_size(to, static_cast<uint64_t>(x.count())));
    pack_elements(x.dtype(), x.bytes(), packed);
    unpack_elements(to, packed, y.mutable_bytes());
  } else {
    std::ranges::copy(x.bytes(), y.mutable_bytes().begin());
  }
  return one(std::move(y));
}

}  // namespace

Table cast_table() {
  static constexpr Entry kTable[] = {
      {"Cast", cast}, {"CastLike", cast_like}, {"BitCast", bit_cast}};
  return kTable;
}

}  // namespace reprise::host
