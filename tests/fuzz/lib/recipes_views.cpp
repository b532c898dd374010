// Views, and what moves elements without computing.
#include <algorithm>
#include <numeric>

#include "tests/fuzz/lib/recipes.h"

namespace reprise::fuzz {

namespace {

std::vector<int64_t> permutation(Maker& m, int64_t rank) {
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  if (rank > 1 && m.rng.chance(0.5)) {  // two neighbours, or one axis to the end
    const int64_t a = m.rng.in(0, rank - 2);
    if (m.rng.chance(0.5)) {
      std::swap(perm[static_cast<size_t>(a)], perm[static_cast<size_t>(a + 1)]);
    } else {
      std::rotate(perm.begin() + a, perm.begin() + a + 1, perm.end());
    }
    return perm;
  }
  for (size_t i = perm.size(); i > 1; --i) {
    std::swap(perm[i - 1], perm[static_cast<size_t>(m.rng.in(0, static_cast<int64_t>(i) - 1))]);
  }
  return perm;
}

bool transpose(Maker& m) {
  const V x = m.of_rank(1, 6);
  if (m.rng.chance(0.1)) return m.add("Transpose", {x});
  return m.add("Transpose", {x}, attr("perm", permutation(m, m.rank(x))));
}

/// Static dims are merged and split; dynamic ones stay (0), but one of them may be part of a -1.
bool reshape(Maker& m) {
  const V x = m.of_rank(0, 6);
  std::vector<int64_t> to;
  const auto r = static_cast<size_t>(m.rank(x));
  const size_t first = static_cast<size_t>(m.rng.in(0, static_cast<int64_t>(r)));
  const size_t end =
      static_cast<size_t>(m.rng.in(static_cast<int64_t>(first), static_cast<int64_t>(r)));
  bool open = false;
  for (size_t i = 0; i < first; ++i) to.push_back(0);
  // [first, end) becomes one dim or several.
  const Shape part(m.shape(x).begin() + static_cast<std::ptrdiff_t>(first),
                   m.shape(x).begin() + static_cast<std::ptrdiff_t>(end));
  if (!is_static(part)) {
    to.push_back(-1);
    open = true;
  } else {
    int64_t left = element_count(part).value();
    for (const int64_t f : {2, 3, 5, 4, 2}) {
      if (left > 0 && left % f == 0 && m.rng.chance(0.4)) {
        to.push_back(f);
        left /= f;
      }
    }
    if (part.empty() ? m.rng.chance(0.5) : true) to.push_back(left);
    if (to.size() > first && m.rng.chance(0.3))
      std::reverse(to.begin() + static_cast<std::ptrdiff_t>(first), to.end());
  }
  for (size_t i = end; i < r; ++i) {
    const Expr& d = m.shape(x)[i];
    if (d.is_const()) {
      to.push_back(d.value());
    } else if (to.size() == i) {
      to.push_back(0);
    } else if (!open) {
      to.push_back(-1);
      open = true;
    } else {
      return false;
    }
  }
  if (!open && !to.empty() && m.rng.chance(0.3) && r > 0 && m.least(x, 0) > 0) {
    const auto at = static_cast<size_t>(m.rng.in(0, std::ssize(to) - 1));
    if (to[at] > 0 && std::count(to.begin(), to.end(), -1) == 0) to[at] = -1;
  }
  return m.add("Reshape", {x, m.ints(to)});
}

bool flatten(Maker& m) {
  const V x = m.of_rank(0, 6);
  return m.add("Flatten", {x}, attr("axis", m.rng.in(-m.rank(x), m.rank(x))));
}

bool squeeze(Maker& m) {
  const V x = m.of_rank(1, 6);
  std::vector<int64_t> ones;
  for (int64_t i = 0; i < m.rank(x); ++i) {
    if (m.shape(x)[static_cast<size_t>(i)].is_const(1)) ones.push_back(i);
  }
  if (ones.empty()) return false;
  const int64_t a = m.rng.pick(ones) - (m.rng.chance(0.5) ? m.rank(x) : 0);
  if (m.rng.chance(0.2)) return m.add("Squeeze", {x}, attr("axes", std::vector<int64_t>{a}), 1, 11);
  return m.add("Squeeze", {x, m.ints({a})});
}

bool unsqueeze(Maker& m) {
  const V x = m.of_rank(0, 5);
  const int64_t a = m.rng.in(-m.rank(x) - 1, m.rank(x));
  if (m.rng.chance(0.2)) {
    return m.add("Unsqueeze", {x}, attr("axes", std::vector<int64_t>{a}), 1, 11);
  }
  return m.add("Unsqueeze", {x, m.ints({a})});
}

bool expand(Maker& m) {
  const V x = m.of_rank(0, 5);
  std::vector<int64_t> to;
  for (const Expr& d : m.shape(x)) {
    to.push_back(d.is_const(1) && m.rng.chance(0.7) ? m.rng.in(1, 6)
                 : d.is_const()                     ? d.value()
                                                    : 1);
  }
  if (m.rng.chance(0.4)) to.insert(to.begin(), m.rng.in(1, 4));
  if (!to.empty() && m.rng.chance(0.3)) to.erase(to.begin());
  return m.add("Expand", {x, m.ints(to)});
}

struct Range {
  int64_t start, end, step;
};

/// Of a dim that is at least `least` in all runs; ends may lie beyond, as ONNX clamps them.
Range random_range(Maker& m, int64_t least) {
  const bool back = m.rng.chance(0.35);
  const int64_t step = m.rng.pick(std::vector<int64_t>{1, 1, 1, 2, 3}) * (back ? -1 : 1);
  if (back) {
    const int64_t start = m.rng.chance(0.6) ? -1 : m.rng.in(0, std::max<int64_t>(least - 1, 0));
    return {start, m.rng.chance(0.7) ? -1000000 : m.rng.in(-3, 1), step};
  }
  const int64_t start = m.rng.chance(0.4) ? 0 : m.rng.in(-2, std::max<int64_t>(least / 2, 1));
  const int64_t end = m.rng.chance(0.5) ? 1000000 : m.rng.in(-2, std::max<int64_t>(least, 1));
  return {start, end, step};
}

bool slice(Maker& m) {
  const V x = m.of_rank(1, 6);
  std::vector<int64_t> starts, ends, steps, axes;
  for (int64_t i = 0; i < m.rank(x); ++i) {
    if (!m.rng.chance(0.5)) continue;
    const Range r = random_range(m, m.least(x, i));
    starts.push_back(r.start);
    ends.push_back(r.end);
    steps.push_back(r.step);
    axes.push_back(m.rng.chance(0.3) ? i - m.rank(x) : i);
  }
  if (axes.empty()) return false;
  const DType t = m.rng.chance(0.8) ? DType::I64 : DType::I32;
  return m.add("Slice", {x, m.ints(starts, t), m.ints(ends, t), m.ints(axes, t), m.ints(steps, t)});
}

bool split(Maker& m) {
  const V x = m.of_rank(1, 6);
  const int64_t a = m.rng.in(0, m.rank(x) - 1);
  const Expr& dim = m.shape(x)[static_cast<size_t>(a)];
  if (!dim.is_const() || dim.value() < 1) return false;
  const int64_t parts = m.rng.in(1, std::min<int64_t>(3, dim.value()));
  AttrMap attrs = attr("axis", m.rng.chance(0.5) ? a : a - m.rank(x));
  if (m.rng.chance(0.4)) {
    attrs.set("num_outputs", parts);
    return m.add("Split", {x}, std::move(attrs), static_cast<size_t>(parts), 18);
  }
  std::vector<int64_t> sizes;
  int64_t left = dim.value();
  for (int64_t i = 0; i + 1 < parts; ++i) {
    sizes.push_back(m.rng.in(0, left));
    left -= sizes.back();
  }
  sizes.push_back(left);
  return m.add("Split", {x, m.ints(sizes)}, std::move(attrs), sizes.size());
}

bool concat(Maker& m) {
  const V x = m.of_rank(1, 6);
  const int64_t a = m.rng.in(0, m.rank(x) - 1);
  std::vector<V> inputs{x};
  const int64_t more = m.rng.in(m.rng.chance(0.1) ? 0 : 1, 3);
  for (int64_t i = 0; i < more; ++i) {
    Shape s = m.shape(x);
    if (m.rng.chance(0.5)) s[static_cast<size_t>(a)] = m.rng.in(m.rng.chance(0.1) ? 0 : 1, 5);
    inputs.push_back(m.rng.chance(0.2) ? x : m.operand(m.dtype(x), s));
  }
  std::rotate(inputs.begin(), inputs.begin() + m.rng.in(0, more), inputs.end());
  return m.add("Concat", std::move(inputs), attr("axis", m.rng.chance(0.5) ? a : a - m.rank(x)));
}

bool pad(Maker& m) {
  const V x = m.of_rank(1, 6);
  const std::string mode =
      m.rng.pick(std::vector<std::string>{"constant", "constant", "reflect", "edge", "wrap"});
  std::vector<int64_t> begins, ends;
  for (int64_t i = 0; i < m.rank(x); ++i) {
    const int64_t n = m.least(x, i);
    // Reflection needs a neighbour, and nothing is repeated of what is empty.
    const int64_t most = mode == "constant"  ? 4
                         : mode == "reflect" ? std::clamp<int64_t>(n - 1, 0, 4)
                                             : std::clamp<int64_t>(n, 0, 4);
    const int64_t low = mode == "constant" && n > 2 && m.rng.chance(0.2) ? -1 : 0;
    begins.push_back(m.rng.chance(0.5) ? m.rng.in(low, most) : 0);
    ends.push_back(m.rng.chance(0.5) ? m.rng.in(low, most) : 0);
  }
  begins.insert(begins.end(), ends.begin(), ends.end());
  std::vector<V> inputs{x, m.ints(begins)};
  if (mode == "constant" && m.rng.chance(0.5)) inputs.push_back(m.fresh(m.dtype(x), {}));
  return m.add("Pad", std::move(inputs), attr("mode", mode));
}

bool tile(Maker& m) {
  const V x = m.of_rank(1, 5);
  std::vector<int64_t> repeats;
  for (int64_t i = 0; i < m.rank(x); ++i) {
    repeats.push_back(m.rng.chance(0.5) ? 1 : m.rng.in(m.rng.chance(0.1) ? 0 : 1, 3));
  }
  return m.add("Tile", {x, m.ints(repeats)});
}

bool depth_to_space(Maker& m, bool to_space) {
  const int64_t b = 2;
  const int64_t c = m.rng.in(1, 3), h = m.rng.in(1, 4), w = m.rng.in(1, 4);
  const Shape s =
      to_space ? Shape{m.random_dim(), c * b * b, h, w} : Shape{m.random_dim(), c, h * b, w * b};
  const V x = m.operand(m.random_dtype(), s);
  AttrMap attrs = attr("blocksize", b);
  if (to_space && m.rng.chance(0.5)) {
    attrs.set("mode", std::string(m.rng.chance(0.5) ? "CRD" : "DCR"));
  }
  return m.add(to_space ? "DepthToSpace" : "SpaceToDepth", {x}, std::move(attrs));
}

bool trilu(Maker& m) {
  const V x = m.of_rank(2, 5);
  std::vector<V> inputs{x};
  if (m.rng.chance(0.6)) {
    inputs.push_back(
        m.constant(HostTensor::from(DType::I64, {}, std::vector<int64_t>{m.rng.in(-3, 3)})));
  }
  return m.add("Trilu", std::move(inputs), attr("upper", m.rng.in(0, 1)));
}

/// Several views on top of each other.
bool views(Maker& m) {
  static constexpr Make kViews[] = {transpose, reshape, slice,     pad,
                                    concat,    expand,  unsqueeze, flatten};
  bool any = false;
  for (int64_t i = m.rng.in(2, 4); i > 0; --i) any |= kViews[m.rng.in(0, 7)](m);
  return any;
}

}  // namespace

std::span<const Recipe> view_recipes() {
  static constexpr Recipe kRecipes[] = {
      {"Transpose", transpose},
      {"Reshape", reshape},
      {"Flatten", flatten},
      {"Squeeze", squeeze},
      {"Unsqueeze", unsqueeze},
      {"Expand", expand},
      {"Slice", slice},
      {"Split", split},
      {"Concat", concat},
      {"Pad", pad},
      {"Tile", tile},
      {"DepthToSpace", [](Maker& m) { return depth_to_space(m, true); }},
      {"SpaceToDepth", [](Maker& m) { return depth_to_space(m, false); }},
      {"Trilu", trilu},
      {"views", views},
  };
  return kRecipes;
}

}  // namespace reprise::fuzz
