// GridSample over 2 or 3 spatial dimensions, and AffineGrid.
#include <algorithm>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

enum class SampleMode : uint8_t { Nearest, Linear, Cubic };
enum class Padding : uint8_t { Zeros, Border, Reflection };

struct SampleOptions {
  SampleMode mode = SampleMode::Linear;
  Padding padding = Padding::Zeros;
  bool align_corners = false;
  bool pixels = false;  // the grid counts pixels, as in core form
};

Result<SampleOptions> read_sample_options(const Call& c) {
  SampleOptions o;
  const std::string mode = c.attrs.get_string("mode", "linear");
  if (mode == "nearest") {
    o.mode = SampleMode::Nearest;
  } else if (mode == "cubic" || mode == "bicubic") {
    o.mode = SampleMode::Cubic;
  } else if (mode != "linear" && mode != "bilinear") {
    return invalid_model("attribute 'mode' is '" + mode + "', must be nearest, linear or cubic");
  }
  const std::string padding = c.attrs.get_string("padding_mode", "zeros");
  if (padding == "border") {
    o.padding = Padding::Border;
  } else if (padding == "reflection") {
    o.padding = Padding::Reflection;
  } else if (padding != "zeros") {
    return invalid_model("attribute 'padding_mode' is '" + padding +
                         "', must be zeros, border or reflection");
  }
  o.align_corners = c.attrs.get_int("align_corners", 0) != 0;
  o.pixels = c.attrs.get_int("pixels", 0) != 0;
  return o;
}

double reflect(double x, double lowest, double highest) {
  const double range = highest - lowest;
  if (range <= 0) return lowest;
  const double distance = std::fabs(x - lowest);
  const double r = std::fmod(distance, 2 * range);
  return lowest + (r <= range ? r : 2 * range - r);
}

/// The pixel for an index that may be outside the image; -1 stands for zero.
int64_t padded_index(const SampleOptions& o, double i, int64_t dim) {
  if (i >= 0 && i < static_cast<double>(dim)) return static_cast<int64_t>(i);
  switch (o.padding) {
    case Padding::Zeros:
      return -1;
    case Padding::Border:
      return i < 0 ? 0 : dim - 1;
    case Padding::Reflection: {
      const auto size = static_cast<double>(dim);
      const double r = o.align_corners ? reflect(i, 0, size - 1) : reflect(i, -0.5, size - 0.5);
      return std::clamp<int64_t>(saturate_i64(r), 0, dim - 1);
    }
  }
  return -1;
}

struct SampleTaps {
  std::array<int64_t, 4> index{};
  std::array<double, 4> weight{};
  size_t count = 0;
};

SampleTaps taps_of(const SampleOptions& o, double position, int64_t dim) {
  const auto size = static_cast<double>(dim);
  double x = o.align_corners ? (position + 1) / 2 * (size - 1) : ((position + 1) * size - 1) / 2;
  if (o.pixels) x = position;
  const double lowest = o.align_corners ? 0.0 : -0.5;
  const double highest = o.align_corners ? size - 1 : size - 0.5;
  if (std::isnan(x)) x = -1;  // counts as outside
  if (x < lowest || x > highest) {
    // For a position outside, cubic taps are clamped one by one, as in PyTorch and ONNX Runtime.
    // Three pixels outside, all of them are the border.
    const double beyond = o.mode == SampleMode::Cubic ? 3 : 0;
    if (o.padding == Padding::Border) x = std::clamp(x, -beyond, size - 1 + beyond);
    if (o.padding == Padding::Reflection) x = reflect(x, lowest, highest);
  }
  SampleTaps t;
  const auto add = [&](double i, double weight) {
    t.index[t.count] = padded_index(o, i, dim);
    t.weight[t.count++] = weight;
  };
  if (o.mode == SampleMode::Nearest) {
    add(round_half_even(x), 1);
    return t;
  }
  const double first = std::floor(x);
  const double f = x - first;
  if (o.mode == SampleMode::Linear) {
    add(first, 1 - f);
    add(first + 1, f);
    return t;
  }
  constexpr double a = -0.75;
  const auto far = [](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  const auto near = [](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  add(first - 1, far(f + 1));
  add(first, near(f));
  add(first + 1, near(1 - f));
  add(first + 2, far(2 - f));
  return t;
}

/// The weighted sum over the product of the taps of all dimensions.
double sample(const double* image, const std::array<SampleTaps, 3>& taps,
              const std::array<int64_t, 3>& in) {
  double sum = 0;
  for (size_t i = 0; i < taps[0].count; ++i) {
    for (size_t j = 0; j < taps[1].count; ++j) {
      for (size_t k = 0; k < taps[2].count; ++k) {
        const int64_t z = taps[0].index[i];
        const int64_t y = taps[1].index[j];
        const int64_t x = taps[2].index[k];
        if (z < 0 || y < 0 || x < 0) continue;
        sum += taps[0].weight[i] * taps[1].weight[j] * taps[2].weight[k] *
               image[(z * in[1] + y) * in[2] + x];
      }
    }
  }
  return sum;
}

KernelResult grid_sample(const Call& c) {
  RP_TRY(check_arity(c, 2, 2));
  RP_TRY(require_float(c, 0, "X"));
  RP_TRY(require_float(c, 1, "grid"));
  RP_TRY(require_rank(c, 0, "X", 4, 5));
  const HostTensor& x = input(c, 0);
  const HostTensor& grid = input(c, 1);
  const int64_t spatial = x.rank() - 2;
  if (grid.rank() != x.rank() || grid.dims()[0] != x.dims()[0] || grid.dims().back() != spatial) {
    return invalid_input("grid " + dims_str(grid.dims()) + " does not fit X " + dims_str(x.dims()));
  }
  RP_ASSIGN(const SampleOptions o, read_sample_options(c));
  Dims dims{x.dims()[0], x.dims()[1]};
  dims.insert(dims.end(), grid.dims().begin() + 1, grid.dims().end() - 1);
  RP_ASSIGN(auto y, allocate(x.dtype(), dims));
  if (y.count() == 0) return one(std::move(y));
  if (x.count() == 0) return invalid_input("nothing to sample in " + dims_str(x.dims()));
  std::array<int64_t, 3> in{1, 1, 1};
  for (int64_t d = 0; d < spatial; ++d)
    in[static_cast<size_t>(3 - spatial + d)] = x.dims()[static_cast<size_t>(2 + d)];
  const int64_t channels = x.dims()[1];
  const int64_t pixels = product_range(dims, 2, x.rank());
  const int64_t in_pixels = in[0] * in[1] * in[2];
  RP_ASSIGN(const auto v, load_all(x));
  std::array<double, 3> at_point{};
  for (int64_t n = 0; n < dims[0]; ++n) {
    for (int64_t p = 0; p < pixels; ++p) {
      load(grid, (n * pixels + p) * spatial, 1, spatial, at_point.data());
      std::array<SampleTaps, 3> taps;
      taps[0] = {{0}, {1.0}, 1};
      // The grid has x first, then y (and z).
      for (int64_t d = 0; d < spatial; ++d) {
        const auto k = static_cast<size_t>(2 - d);
        taps[k] = taps_of(o, at_point[static_cast<size_t>(d)], in[k]);
      }
      for (int64_t ch = 0; ch < channels; ++ch) {
        const double e = sample(v.data() + (n * channels + ch) * in_pixels, taps, in);
        store(y, (n * channels + ch) * pixels + p, 1, &e);
      }
    }
  }
  return one(std::move(y));
}

/// The coordinate of a pixel along an axis of this size. A single pixel is at 0.
double grid_coordinate(int64_t i, int64_t size, bool align_corners) {
  const auto last = static_cast<double>(size - 1);
  const double from_centre = 2 * static_cast<double>(i) - last;
  return from_centre / (align_corners ? std::max(last, 1.0) : last + 1);
}

KernelResult affine_grid(const Call& c) {
  RP_TRY(check_arity(c, 2, 2));
  RP_TRY(require_float(c, 0, "theta"));
  const HostTensor& theta = input(c, 0);
  RP_ASSIGN(const Dims size, tensor_ints(input(c, 1), "size"));
  const int64_t rank = theta.rank() == 3 ? theta.dims()[1] : 0;
  if ((rank != 2 && rank != 3) || theta.dims()[2] != rank + 1) {
    return invalid_input(describe_input(c, 0, "theta") + ": must be [N,2,3] or [N,3,4]");
  }
  if (std::ssize(size) != rank + 2 || size[0] != theta.dims()[0]) {
    return invalid_input("size " + dims_str(size) + " does not fit theta " +
                         dims_str(theta.dims()));
  }
  const bool align_corners = c.attrs.get_int("align_corners", 0) != 0;
  Dims dims{size[0]};
  dims.insert(dims.end(), size.begin() + 2, size.end());
  dims.push_back(rank);
  RP_ASSIGN(auto y, allocate(theta.dtype(), dims));
  if (y.count() == 0) return one(std::move(y));
  RP_ASSIGN(const auto m, load_all(theta));
  const int64_t points = y.count() / rank;
  const int64_t per_image = points / size[0];
  for (int64_t p = 0; p < points; ++p) {
    std::array<double, 4> at_point{};
    at_point[static_cast<size_t>(rank)] = 1;
    int64_t rest = p % per_image;
    for (int64_t k = 0; k < rank; ++k) {  // coordinate 0 is along the last axis
      const int64_t dim = at(size, rank + 1 - k);
      at_point[static_cast<size_t>(k)] = grid_coordinate(rest % dim, dim, align_corners);
      rest /= dim;
    }
    for (int64_t r = 0; r < rank; ++r) {
      const double* row = m.data() + (p / per_image * rank + r) * (rank + 1);
      double sum = 0;
      for (int64_t k = 0; k <= rank; ++k) sum += row[k] * at_point[static_cast<size_t>(k)];
      store(y, p * rank + r, 1, &sum);
    }
  }
  return one(std::move(y));
}

}  // namespace

Table gridsample_table() {
  static constexpr Entry kTable[] = {{"GridSample", grid_sample}, {"AffineGrid", affine_grid}};
  return kTable;
}

}  // namespace reprise::host
