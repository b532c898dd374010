#include "tests/primitives/lib/helpers.h"

#include <bit>
#include <cmath>

#include "runtime/base/dtype.h"

namespace reprise::test {

std::vector<std::byte> small_integers(kernel::Ty type, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint16_t> bits(count);
  for (uint16_t& v : bits) {
    const auto value = static_cast<float>(static_cast<int>(random() % 9) - 4);
    v = type == kernel::Ty::F16 ? float_to_f16(value) : float_to_bf16(value);
  }
  return bytes_of(bits);
}

std::vector<float> any_floats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    float v = std::bit_cast<float>(static_cast<uint32_t>(random()));
    // Half of them are of magnitudes that 16 bits have.
    if (i % 2 == 0)
      v = std::ldexp(static_cast<float>(random() % 4096), static_cast<int>(i % 34) - 30);
    values[i] = std::isnan(v) ? 0.0F : v;
  }
  return values;
}

kernel::Kernel finished(kernel::Builder& b) {
  auto k = b.finish();
  const Status legal = k.ok() ? kernel::legalize(*k, {.exact = true}) : k.status();
  if (!legal.ok()) {  // which the emitter refuses
    kernel::Kernel none;
    none.name = legal.message();
    return none;
  }
  return std::move(*k);
}

std::vector<Primitive> primitives() {
  std::vector<Primitive> all;
  add_scalar_primitives(all);
  add_copy_primitives(all);
  add_product_primitives(all);
  return all;
}

Result<std::string> read_as(std::string text, const Reading& reading) {
  size_t places = 0;
  for (size_t at = text.find(reading.from); at != std::string::npos;
       at = text.find(reading.from, at + reading.to.size())) {
    text.replace(at, reading.from.size(), reading.to);
    ++places;
  }
  if (places == 0)
    return internal_error("'" + reading.name + "': the CUDA text has no '" + reading.from + "'");
  return text;
}

}  // namespace reprise::test
