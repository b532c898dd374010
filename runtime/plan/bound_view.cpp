#include "runtime/plan/bound_view.h"

#include <algorithm>
#include <cstring>

#include "runtime/plan/block_layout.h"

namespace reprise::plan {
namespace {

template <typename T>
T load_at(std::span<const std::byte> block, uint32_t offset) {
  T v{};
  std::memcpy(&v, block.data() + offset, sizeof v);
  return v;
}

}  // namespace

BoundView bind_view(const TensorView& v, size_t buffers, std::span<const std::byte> block) {
  const auto scalar = [&](uint32_t i) {
    return static_cast<uint64_t>(
        std::max(load_at<int32_t>(block, BlockLayout::scalar_offset(buffers, i)), 0));
  };
  BoundView out;
  out.element_bytes = v.element_bytes;
  out.swizzle = v.swizzle;
  out.rank = v.rank();
  out.address = load_at<uint64_t>(block, BlockLayout::buffer_offset(v.buffer)) +
                scalar(v.first) * v.element_bytes;
  for (size_t d = 0; d < out.rank; ++d) {
    out.dims[d] = scalar(v.dims[d]);
    out.strides[d] = (d == 0 ? 1 : scalar(v.strides[d - 1])) * v.element_bytes;
    out.box[d] = v.box[d];
  }
  return out;
}

}  // namespace reprise::plan
