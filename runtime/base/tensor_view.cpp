#include "runtime/base/tensor_view.h"

#include <algorithm>
#include <string>

namespace reprise {

Status verify_view(const TensorView& v, size_t buffers, size_t scalars) {
  const auto wrong = [](const std::string& what) { return invalid_model("a view " + what); };
  if (v.buffer >= buffers) return wrong("of buffer " + std::to_string(v.buffer));
  if (v.element_bytes != 1 && v.element_bytes != 2 && v.element_bytes != 4 && v.element_bytes != 8)
    return wrong("of elements of " + std::to_string(v.element_bytes) + " bytes");
  if (static_cast<uint8_t>(v.swizzle) > static_cast<uint8_t>(Swizzle::B128))
    return wrong("with an unknown swizzle");
  const size_t rank = v.rank();
  if (rank < 1 || rank > TensorView::kMostRank || v.dims.size() != rank ||
      v.strides.size() + 1 != rank)
    return wrong("of " + std::to_string(rank) + " dimensions");
  const auto known = [&](uint32_t scalar) { return scalar < scalars; };
  if (!known(v.first) || !std::ranges::all_of(v.dims, known) ||
      !std::ranges::all_of(v.strides, known))
    return wrong("whose sizes are not among the scalars");
  const auto possible = [](uint32_t b) { return b >= 1 && b <= TensorView::kMostBox; };
  if (!std::ranges::all_of(v.box, possible)) return wrong("with an impossible box");
  const uint32_t line = v.box[0] * v.element_bytes, span = span_of(v.swizzle);
  if (line % 16 != 0 || (span != 0 && line != span))
    return wrong("with a box of lines of " + std::to_string(line) + " bytes");
  return {};
}

}  // namespace reprise
