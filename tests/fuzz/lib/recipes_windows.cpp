// Convolutions, pools and resizing, with odd attributes.
#include "tests/fuzz/lib/recipes.h"

namespace reprise::fuzz {

namespace {

std::vector<int64_t> each(Maker& m, int64_t n, int64_t low, int64_t high, double same) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(m.rng.chance(same) ? low : m.rng.in(low, high));
  return out;
}

/// [N, C, spatial...], of floats.
V image(Maker& m, int64_t channels) {
  for (int tries = 0; tries < 4; ++tries) {
    const V x = m.floats(3, 5);
    const Expr& c = m.shape(x)[1];
    if (c.is_const() && c.value() > 0 && (channels == 0 || c.is_const(channels))) return x;
  }
  const int64_t spatial = m.rng.chance(0.7) ? 2 : m.rng.in(1, 3);
  Shape s{m.rng.chance(0.3) ? m.random_dim() : Expr(m.rng.in(1, 2)),
          channels != 0 ? channels : m.rng.in(1, 9)};
  for (int64_t i = 0; i < spatial; ++i)
    s.push_back(m.rng.chance(0.2) ? m.random_dim() : Expr(m.rng.in(1, spatial == 3 ? 5 : 9)));
  if (m.most_elements(s) > 3000) s = {1, s[1], 5, 4};
  return m.fresh(m.random_float(), s);
}

void window_attrs(Maker& m, AttrMap& attrs, int64_t spatial, const std::vector<int64_t>& kernel) {
  if (m.rng.chance(0.5)) attrs.set("strides", each(m, spatial, 1, 3, 0.5));
  if (m.rng.chance(0.3)) attrs.set("dilations", each(m, spatial, 1, 3, 0.6));
  if (m.rng.chance(0.15)) {
    attrs.set("auto_pad",
              m.rng.pick(std::vector<std::string>{"SAME_UPPER", "SAME_LOWER", "VALID"}));
  } else if (m.rng.chance(0.7)) {
    std::vector<int64_t> pads;
    for (int64_t i = 0; i < 2 * spatial; ++i) {
      pads.push_back(
          m.rng.in(0, std::max<int64_t>(kernel[static_cast<size_t>(i % spatial)] - 1, 0)));
    }
    attrs.set("pads", std::move(pads));
  }
}

V window_weights(Maker& m, DType t, const Shape& s) {
  if (m.rng.chance(0.2)) return m.fresh(t, s, {});
  return m.constant(test::random_values(t, static_dims(s), {}, m.rng.next(), "w"));
}

bool convolution(Maker& m, bool transposed) {
  const V x = image(m, 0);
  // Outputs of a stride are computed together, and taps that some of them lack have weight 0: an
  // infinite element makes outputs NaN that it does not reach (graph/semantics.md).
  if (transposed && !m.is_finite(x)) return false;
  const int64_t spatial = m.rank(x) - 2;
  const int64_t c = m.shape(x)[1].value();
  std::vector<int64_t> groups;
  for (int64_t g = 1; g <= c; ++g) {
    if (c % g == 0) groups.push_back(g);
  }
  const int64_t group = m.rng.chance(0.6) ? 1 : m.rng.pick(groups);
  const int64_t per = m.rng.chance(0.8) ? m.rng.in(1, 6) : m.rng.in(8, 17);
  const std::vector<int64_t> kernel = each(m, spatial, 1, 4, 0.3);
  Shape s = transposed ? Shape{c, per} : Shape{per * group, c / group};
  s.insert(s.end(), kernel.begin(), kernel.end());
  AttrMap attrs;
  window_attrs(m, attrs, spatial, kernel);
  attrs.set("group", group);
  if (m.rng.chance(0.5)) attrs.set("kernel_shape", kernel);
  if (transposed && m.rng.chance(0.2)) attrs.set("output_padding", each(m, spatial, 0, 1, 0.5));
  std::vector<V> inputs{x, window_weights(m, m.dtype(x), s)};
  if (m.rng.chance(0.5)) inputs.push_back(window_weights(m, m.dtype(x), {per * group}));
  return m.add(transposed ? "ConvTranspose" : "Conv", std::move(inputs), std::move(attrs));
}

bool pool(Maker& m, std::string_view op) {
  const V x = image(m, 0);
  const int64_t spatial = m.rank(x) - 2;
  const std::vector<int64_t> kernel = each(m, spatial, 1, 4, 0.2);
  AttrMap attrs;
  window_attrs(m, attrs, spatial, kernel);
  attrs.set("kernel_shape", kernel);
  if (m.rng.chance(0.3)) attrs.set("ceil_mode", int64_t{1});
  if (op == "AveragePool" && m.rng.chance(0.5)) attrs.set("count_include_pad", m.rng.in(0, 1));
  if (op == "LpPool") attrs.set("p", m.rng.in(1, 3));
  const size_t outputs = op == "MaxPool" && m.rng.chance(0.3) ? 2 : 1;
  return m.add(op, {x}, std::move(attrs), outputs, 22);
}

bool global_pool(Maker& m, std::string_view op) {
  return m.add(op, {image(m, 0)});
}

bool resize(Maker& m) {
  const V x = image(m, 0);
  AttrMap attrs;
  const std::string mode = m.rng.pick(std::vector<std::string>{"nearest", "linear", "cubic"});
  attrs.set("mode", mode);
  if (mode == "cubic" && m.rank(x) != 4) return false;
  if (mode != "nearest" && m.rng.chance(0.4)) attrs.set("antialias", int64_t{1});
  attrs.set("coordinate_transformation_mode",
            m.rng.pick(std::vector<std::string>{"half_pixel", "asymmetric", "align_corners",
                                                "pytorch_half_pixel", "half_pixel_symmetric"}));
  if (mode == "nearest") {
    attrs.set("nearest_mode", m.rng.pick(std::vector<std::string>{
                                  "floor", "ceil", "round_prefer_floor", "round_prefer_ceil"}));
  }
  for (int64_t i = 2; i < m.rank(x); ++i) {
    if (m.least(x, i) < 1) return false;
  }
  if (m.rng.chance(0.4) && m.is_static(x)) {
    std::vector<int64_t> to = static_dims(m.shape(x));
    for (size_t i = 2; i < to.size(); ++i) to[i] = m.rng.in(1, 9);
    return m.add("Resize", {x, Maker::kNone, Maker::kNone, m.ints(to)}, std::move(attrs));
  }
  std::vector<float> scales(static_cast<size_t>(m.rank(x)), 1);
  for (size_t i = 2; i < scales.size(); ++i)
    scales[i] = m.rng.pick(std::vector<float>{1, 2, 0.5F, 1.5F, 3});
  const auto n = static_cast<int64_t>(scales.size());
  return m.add("Resize", {x, Maker::kNone, m.constant(HostTensor::from(DType::F32, {n}, scales))},
               std::move(attrs));
}

bool upsample(Maker& m) {
  const V x = image(m, 0);
  std::vector<float> scales(static_cast<size_t>(m.rank(x)), 1);
  for (size_t i = 2; i < scales.size(); ++i) scales[i] = m.rng.pick(std::vector<float>{1, 2, 3});
  AttrMap attrs;
  attrs.set("mode", std::string(m.rng.chance(0.5) ? "nearest" : "linear"));
  const auto n = static_cast<int64_t>(scales.size());
  return m.add("Upsample", {x, m.constant(HostTensor::from(DType::F32, {n}, scales))},
               std::move(attrs), 1, 9);
}

}  // namespace

std::span<const Recipe> window_recipes() {
  static constexpr Recipe kRecipes[] = {
      {"Conv", [](Maker& m) { return convolution(m, false); }},
      {"ConvTranspose", [](Maker& m) { return convolution(m, true); }},
      {"MaxPool", [](Maker& m) { return pool(m, "MaxPool"); }},
      {"AveragePool", [](Maker& m) { return pool(m, "AveragePool"); }},
      {"LpPool", [](Maker& m) { return pool(m, "LpPool"); }},
      {"GlobalMaxPool", [](Maker& m) { return global_pool(m, "GlobalMaxPool"); }},
      {"GlobalAveragePool", [](Maker& m) { return global_pool(m, "GlobalAveragePool"); }},
      {"GlobalLpPool", [](Maker& m) { return global_pool(m, "GlobalLpPool"); }},
      {"Resize", resize},
      {"Upsample", upsample},
  };
  return kRecipes;
}

}  // namespace reprise::fuzz
