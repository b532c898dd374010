// Grids, blocks of images, transforms and linear attention.
#include "tests/fuzz/lib/recipes.h"

namespace reprise::fuzz {

namespace {

bool affine_grid(Maker& m) {
  const DType t = m.random_float();
  const int64_t batch = m.rng.in(1, 3), rank = m.rng.in(2, 3);
  std::vector<int64_t> size{batch, m.rng.in(1, 3)};
  for (int64_t d = 0; d < rank; ++d) size.push_back(m.rng.in(1, 6));
  return m.add("AffineGrid", {m.operand(t, {batch, rank, rank + 1}), m.ints(size)},
               attr("align_corners", m.rng.in(0, 1)));
}

/// Blocks as Unfold makes them of an image.
bool col2im(Maker& m) {
  const DType t = m.random_float();
  const int64_t height = m.rng.in(2, 7), width = m.rng.in(2, 7);
  const int64_t rows = m.rng.in(1, 2), columns = m.rng.in(1, 2);
  const int64_t windows = (height - rows + 1) * (width - columns + 1);
  const V blocks = m.operand(t, {m.random_dim(), m.rng.in(1, 3) * rows * columns, windows});
  return m.add("Col2Im", {blocks, m.ints({height, width}), m.ints({rows, columns})});
}

bool stft(Maker& m) {
  const DType t = m.rng.chance(0.8) ? DType::F32 : m.random_float();
  const int64_t frame = m.rng.in(1, 12), length = frame + m.rng.in(0, 20);
  // Without a last dim, with one part, or with two: complex numbers.
  const int64_t parts = m.rng.in(0, 2);
  Shape dims{m.rng.in(1, 3), length};
  if (parts > 0) dims.push_back(parts);
  const V signal = m.operand(t, dims);
  const auto number = [&](int64_t v) {
    return m.constant(HostTensor::from(DType::I64, {}, std::vector<int64_t>{v}));
  };
  const V window = m.rng.chance(0.6) ? m.operand(t, {frame}) : Maker::kNone;
  return m.add("STFT", {signal, number(m.rng.in(1, 5)), window, number(frame)},
               attr("onesided", parts == 2 ? 0 : m.rng.in(0, 1)));
}

bool linear_attention(Maker& m) {
  const DType t = m.random_float();
  const int64_t heads = m.rng.in(1, 2), groups = m.rng.in(1, 2);
  const int64_t depth = m.rng.in(1, 4), columns = m.rng.in(1, 4);
  const int64_t batch = m.rng.in(1, 2), length = m.rng.in(1, 4);
  AttrMap attrs = attr("update_rule", std::string("linear"));
  attrs.set("q_num_heads", heads * groups);
  attrs.set("kv_num_heads", heads);
  return m.add("LinearAttention",
               {m.operand(t, {batch, length, heads * groups * depth}),
                m.operand(t, {batch, length, heads * depth}),
                m.operand(t, {batch, length, heads * columns})},
               std::move(attrs), 2);
}

}  // namespace

std::span<const Recipe> signal_recipes() {
  static const Recipe kRecipes[] = {{"AffineGrid", affine_grid},
                                    {"Col2Im", col2im},
                                    {"STFT", stft},
                                    {"LinearAttention", linear_attention}};
  return kRecipes;
}

}  // namespace reprise::fuzz
