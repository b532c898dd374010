#include "tests/support/random_values.h"

#include <cmath>
#include <limits>
#include <sstream>
#include <type_traits>

#include "runtime/base/low_bit.h"
#include "runtime/base/storage.h"
#include "tests/support/random_source.h"

namespace reprise::test {

namespace {

std::string number(double v) {
  std::ostringstream out;
  out.precision(17);
  out << v;
  return out.str();
}

Values parse_values(const std::string& text) {
  if (text == "special") return {Values::Kind::Special};
  if (text == "wide") return {Values::Kind::Wide};
  const size_t dots = text.find("..");
  if (dots == std::string::npos) return {};
  return Values::between(std::stod(text.substr(0, dots)), std::stod(text.substr(dots + 2)));
}

bool is_values(const std::string& text) {
  return text == "special" || text == "wide" || text == "tame" ||
         text.find("..") != std::string::npos;
}

template <typename T>
T tame_int(RandomSource& rng) {
  return static_cast<T>(std::numeric_limits<T>::is_signed ? rng.in(-8, 8) : rng.in(0, 16));
}

template <typename T>
T int_value(const Values& values, RandomSource& rng) {
  using Limits = std::numeric_limits<T>;
  switch (values.kind) {
    case Values::Kind::Between:
      return static_cast<T>(
          rng.in(static_cast<int64_t>(values.low), static_cast<int64_t>(values.high)));
    case Values::Kind::Wide:
      return static_cast<T>(rng.next());
    case Values::Kind::Special:
      switch (rng.in(0, 7)) {
        case 0:
          return Limits::min();
        case 1:
          return Limits::max();
        case 2:
          return static_cast<T>(Limits::max() - 1);
        case 3:
          return static_cast<T>(rng.next());
        case 4:
          return static_cast<T>(0);
        default:
          return tame_int<T>(rng);
      }
    case Values::Kind::Tame:
      break;
  }
  return tame_int<T>(rng);
}

double tame_real(RandomSource& rng) {
  // Whole and half numbers make ties, of rounding and of maxima.
  return rng.chance(0.125) ? static_cast<double>(rng.in(-4, 4)) / 2 : rng.real(-2, 2);
}

double special_real(RandomSource& rng) {
  static const std::vector<double> kSpecial{
      0.0,   -0.0,   INFINITY, -INFINITY, NAN,    0x1p-149, -0x1p-130,    0x1p-126,
      1e9,   -1e9,   65504,    -65520,    3e5,    -3e5,     1e-10,        0.5,
      1.5,   2.5,    -0.5,     127.5,     -128.5, 255.5,    2147483648.0, 16777217,
      32768, -32769, 1,        -1,        88.8,   -104,     1e-3};
  return rng.chance(0.4) ? rng.pick(kSpecial) : tame_real(rng);
}

double real_value(const Values& values, RandomSource& rng) {
  switch (values.kind) {
    case Values::Kind::Between:
      return rng.real(values.low, values.high);
    case Values::Kind::Wide:
      return (rng.chance(0.5) ? -1 : 1) * std::exp2(rng.real(-24, 24));
    case Values::Kind::Special:
      return special_real(rng);
    case Values::Kind::Tame:
      break;
  }
  return tame_real(rng);
}

template <typename T>
T element_of(const Values& values, RandomSource& rng) {
  if constexpr (std::is_same_v<T, F16>) {
    return {float_to_f16(static_cast<float>(real_value(values, rng)))};
  } else if constexpr (std::is_same_v<T, BF16>) {
    return {float_to_bf16(static_cast<float>(real_value(values, rng)))};
  } else if constexpr (std::is_same_v<T, Bool8>) {
    return {static_cast<uint8_t>(rng.next() & 1)};
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(real_value(values, rng));
  } else {
    return int_value<T>(values, rng);
  }
}

/// As readers of files make them: the upper bits of a byte follow from the element's.
uint8_t low_bit_code(DType t, uint64_t bits) {
  return is_low_bit_int(t) ? low_bit_from_int(t, static_cast<int64_t>(bits & 0xff))
                           : static_cast<uint8_t>(bits & ((1U << bits_of(t)) - 1));
}

}  // namespace

std::string Values::str() const {
  switch (kind) {
    case Kind::Special:
      return "special";
    case Kind::Wide:
      return "wide";
    case Kind::Between:
      return number(low) + ".." + number(high);
    case Kind::Tame:
      break;
  }
  return "tame";
}

Heading Heading::parse(const std::string& text) {
  Heading h;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    const size_t eq = word.find('=');
    if (eq == std::string::npos || eq + 1 == word.size()) continue;
    const std::string name = word.substr(0, eq);
    const std::string value = word.substr(eq + 1);
    if (word == "devices=full") {
      h.full_on_devices = true;
    } else if (is_values(value)) {
      h.values[name] = parse_values(value);
    } else if (value.find_first_not_of("0123456789,") != std::string::npos) {
      continue;  // a word of prose
    } else if (name == "seed") {
      h.seed = std::stoull(value);
    } else {
      std::istringstream list(value);
      for (std::string item; std::getline(list, item, ',');) {
        h.sizes[name].push_back(std::stoll(item));
      }
    }
  }
  return h;
}

std::string Heading::str() const {
  std::string out;
  const auto word = [&](const std::string& name, const std::string& value) {
    out += (out.empty() ? "" : " ") + name + "=" + value;
  };
  for (const auto& [name, list] : sizes) {
    std::string text;
    for (const int64_t size : list) text += (text.empty() ? "" : ",") + std::to_string(size);
    word(name, text);
  }
  if (seed) word("seed", std::to_string(*seed));
  if (full_on_devices) word("devices", "full");
  for (const auto& [name, kind] : values) {
    if (kind.kind != Values::Kind::Tame) word(name, kind.str());
  }
  return out;
}

Values Heading::values_of(const std::string& input) const {
  const auto at = values.find(input);
  return at == values.end() ? Values{} : at->second;
}

HostTensor random_values(DType dtype, const std::vector<int64_t>& dims, const Values& values,
                         uint64_t seed, const std::string& name) {
  RandomSource rng(seed, name);
  HostTensor t(dtype, dims);
  for (int64_t i = 0; is_low_bit(dtype) && i < t.count(); ++i)
    t.mutable_data<uint8_t>()[i] = low_bit_code(dtype, rng.next());
  with_storage(dtype, [&]<typename T>(T) {
    T* out = t.mutable_data<T>();
    for (int64_t i = 0; i < t.count(); ++i) out[i] = element_of<T>(values, rng);
  });
  return t;
}

}  // namespace reprise::test
