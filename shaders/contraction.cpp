#include "shaders/contraction.h"

#include <array>
#include <string>

namespace reprise::shaders {

using kernel::Val;

RegisterTile::RegisterTile(kernel::Builder& b, int rows, int cols, bool fma)
    : b_(b), rows_(rows), vecs_(cols / 4), fma_(fma) {
  const kernel::Type vec4 = kernel::vec(kernel::kF32, 4);
  for (int r = 0; r < rows_; ++r) {
    for (int v = 0; v < vecs_; ++v) {
      acc_.push_back(b_.local("acc" + std::to_string(r) + "_" + std::to_string(v), vec4));
      b_.local_store(acc_.back(), b_.constant(vec4, 0));
    }
  }
}

void RegisterTile::accumulate(int row, int vec, std::span<const Val> xs, std::span<const Val> ys) {
  Val sum = b_.local_load(local(row, vec));
  for (size_t i = 0; i < xs.size(); ++i) {
    sum = fma_ ? b_.fma(xs[i], ys[i], sum) : b_.add(sum, b_.mul(xs[i], ys[i]));
  }
  b_.local_store(local(row, vec), sum);
}

void RegisterTile::multiply(std::span<const Val> a, std::span<const Val> b) {
  for (int r = 0; r < rows_; ++r) {
    const std::array xs{b_.splat(a[static_cast<size_t>(r)], 4)};
    for (int v = 0; v < vecs_; ++v) accumulate(r, v, xs, b.subspan(static_cast<size_t>(v), 1));
  }
}

void RegisterTile::multiply4(std::span<const Val> a, std::span<const Val> b) {
  for (int r = 0; r < rows_; ++r) {
    std::array<Val, 4> xs;
    for (int k = 0; k < 4; ++k)
      xs[static_cast<size_t>(k)] = b_.splat(b_.extract(a[static_cast<size_t>(r)], k), 4);
    for (int v = 0; v < vecs_; ++v) {
      std::array<Val, 4> ys;
      for (int k = 0; k < 4; ++k)
        ys[static_cast<size_t>(k)] = b[static_cast<size_t>(k * vecs_ + v)];
      accumulate(r, v, xs, ys);
    }
  }
}

Val RegisterTile::result(int row, int vec) const {
  return b_.local_load(local(row, vec));
}

}  // namespace reprise::shaders
