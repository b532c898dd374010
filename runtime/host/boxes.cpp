// Operators of object detection: NonMaxSuppression and RoiAlign.
#include <algorithm>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

struct Box {
  double x0, y0, x1, y1;
  double area() const { return (x1 - x0) * (y1 - y0); }
};

/// Reads a box that is given by two corners in any order, or by its centre and size.
Box read_box(const double* v, bool center) {
  if (center) return {v[0] - v[2] / 2, v[1] - v[3] / 2, v[0] + v[2] / 2, v[1] + v[3] / 2};
  return {std::min(v[1], v[3]), std::min(v[0], v[2]), std::max(v[1], v[3]), std::max(v[0], v[2])};
}

bool overlaps(const Box& a, const Box& b, double threshold) {
  const double w = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  const double h = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  if (!(w > 0 && h > 0) || !(a.area() > 0 && b.area() > 0)) return false;
  return w * h / (a.area() + b.area() - w * h) > threshold;
}

Result<double> optional_scalar(const Call& c, size_t i, std::string_view role, double fallback) {
  if (!has_input(c, i) || input(c, i).count() == 0) return fallback;
  return scalar_value(c, i, role);
}

/// Selects boxes by descending score and drops those that overlap a selected one.
Dims suppress(const std::vector<Box>& boxes, const double* scores, double score_threshold,
              bool has_threshold, double iou_threshold, double limit) {
  Dims order;
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (!has_threshold || scores[i] > score_threshold) order.push_back(static_cast<int64_t>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const double sa = scores[a];
    const double sb = scores[b];
    return std::isnan(sb) ? !std::isnan(sa) : sa > sb;
  });
  Dims kept;
  for (int64_t i : order) {
    if (static_cast<double>(kept.size()) >= limit) break;
    const bool drop = std::any_of(kept.begin(), kept.end(), [&](int64_t k) {
      return overlaps(boxes[static_cast<size_t>(k)], boxes[static_cast<size_t>(i)], iou_threshold);
    });
    if (!drop) kept.push_back(i);
  }
  return kept;
}

KernelResult non_max_suppression(const Call& c) {
  RP_TRY(check_arity(c, 2, 5));
  RP_TRY(require_float(c, 0, "boxes"));
  RP_TRY(require_float(c, 1, "scores"));
  RP_TRY(require_rank(c, 0, "boxes", 3, 3));
  RP_TRY(require_rank(c, 1, "scores", 3, 3));
  const Dims& b = input(c, 0).dims();
  const Dims& s = input(c, 1).dims();
  if (b[0] != s[0] || b[1] != s[2] || b[2] != 4) {
    return invalid_input("boxes " + dims_str(b) + " and scores " + dims_str(s) + " do not fit");
  }
  RP_ASSIGN(const double limit, optional_scalar(c, 2, "max_output_boxes_per_class", 0));
  RP_ASSIGN(const double iou, optional_scalar(c, 3, "iou_threshold", 0));
  RP_ASSIGN(const double threshold, optional_scalar(c, 4, "score_threshold", 0));
  const bool has_threshold = has_input(c, 4) && input(c, 4).count() > 0;
  RP_ASSIGN(const auto coordinates, load_all(input(c, 0)));
  RP_ASSIGN(const auto scores, load_all(input(c, 1)));
  const bool center = c.attrs.get_int("center_point_box", 0) != 0;
  Dims selected;
  for (int64_t n = 0; n < b[0] && !coordinates.empty(); ++n) {
    std::vector<Box> boxes;
    for (int64_t i = 0; i < b[1]; ++i) {
      boxes.push_back(read_box(coordinates.data() + (n * b[1] + i) * 4, center));
    }
    for (int64_t k = 0; k < s[1]; ++k) {
      for (int64_t i : suppress(boxes, scores.data() + (n * s[1] + k) * s[2], threshold,
                                has_threshold, iou, limit)) {
        selected.insert(selected.end(), {n, k, i});
      }
    }
  }
  const auto rows = static_cast<int64_t>(selected.size()) / 3;
  return one(HostTensor::from(DType::I64, {rows, 3}, selected));
}

/// Four neighbours and their weights, which are all zero outside the image.
struct Bilinear {
  std::array<int64_t, 4> index{};
  std::array<double, 4> weight{};
};

Bilinear bilinear(double y, double x, int64_t height, int64_t width) {
  Bilinear r;
  const auto h = static_cast<double>(height);
  const auto w = static_cast<double>(width);
  if (!(y >= -1 && y <= h && x >= -1 && x <= w)) return r;
  y = std::clamp(y, 0.0, h - 1);
  x = std::clamp(x, 0.0, w - 1);
  const auto y0 = static_cast<int64_t>(y);
  const auto x0 = static_cast<int64_t>(x);
  const int64_t y1 = std::min(y0 + 1, height - 1);
  const int64_t x1 = std::min(x0 + 1, width - 1);
  const double fy = y - static_cast<double>(y0);
  const double fx = x - static_cast<double>(x0);
  r.index = {y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1};
  r.weight = {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx};
  return r;
}

struct RoiOptions {
  int64_t height = 1, width = 1, ratio = 0;
  double scale = 1;
  bool half_pixel = true, max = false;
};

Result<RoiOptions> read_roi_options(const Call& c) {
  RoiOptions o;
  o.height = c.attrs.get_int("output_height", 1);
  o.width = c.attrs.get_int("output_width", 1);
  o.ratio = c.attrs.get_int("sampling_ratio", 0);
  o.scale = static_cast<double>(c.attrs.get_float("spatial_scale", 1));
  const std::string mode = c.attrs.get_string("mode", "avg");
  if (mode != "avg" && mode != "max") return invalid_model("attribute 'mode' is '" + mode + "'");
  o.max = mode == "max";
  // Before version 16 there was no shift by half a pixel.
  const bool old = c.opset != 0 && c.opset < 16;
  o.half_pixel = c.attrs.get_string("coordinate_transformation_mode",
                                    old ? "output_half_pixel" : "half_pixel") == "half_pixel";
  constexpr int64_t kLimit = int64_t{1} << 20;
  if (std::min(o.height, o.width) < 1 || std::max({o.height, o.width, o.ratio}) > kLimit ||
      o.ratio < 0) {
    return invalid_model("output_height, output_width or sampling_ratio is out of range");
  }
  return o;
}

/// The samples of one output bin.
Result<std::vector<Bilinear>> bin_samples(const RoiOptions& o, const std::array<double, 4>& roi,
                                          int64_t bin_y, int64_t bin_x, const Dims& x) {
  const double shift = o.half_pixel ? 0.5 : 0.0;
  const double x0 = roi[0] * o.scale - shift;
  const double y0 = roi[1] * o.scale - shift;
  double w = roi[2] * o.scale - shift - x0;
  double h = roi[3] * o.scale - shift - y0;
  if (!o.half_pixel) {
    w = std::max(w, 1.0);
    h = std::max(h, 1.0);
  }
  const double step_y = h / static_cast<double>(o.height);
  const double step_x = w / static_cast<double>(o.width);
  const double ny = o.ratio > 0 ? static_cast<double>(o.ratio) : std::max(0.0, std::ceil(step_y));
  const double nx = o.ratio > 0 ? static_cast<double>(o.ratio) : std::max(0.0, std::ceil(step_x));
  if (!(ny * nx <= 0x1p24)) return invalid_input("a region of interest is absurdly large");
  std::vector<Bilinear> samples;
  for (double i = 0; i < ny; ++i) {
    for (double j = 0; j < nx; ++j) {
      samples.push_back(bilinear(y0 + (static_cast<double>(bin_y) + (i + 0.5) / ny) * step_y,
                                 x0 + (static_cast<double>(bin_x) + (j + 0.5) / nx) * step_x, x[2],
                                 x[3]));
    }
  }
  return samples;
}

double pool_samples(const std::vector<Bilinear>& samples, const double* image, bool max) {
  double sum = 0;
  double top = -std::numeric_limits<double>::infinity();
  for (const Bilinear& s : samples) {
    for (size_t k = 0; k < 4; ++k) {
      const double v = s.weight[k] * image[s.index[k]];
      sum += v;
      top = std::max(top, v);
    }
  }
  if (max) return samples.empty() ? 0 : top;
  return sum / static_cast<double>(std::max<size_t>(samples.size(), 1));
}

KernelResult roi_align(const Call& c) {
  RP_TRY(check_arity(c, 3, 3));
  RP_TRY(require_float(c, 0, "X"));
  RP_TRY(require_float(c, 1, "rois"));
  RP_TRY(require_rank(c, 0, "X", 4, 4));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(const Dims images, tensor_ints(input(c, 2), "input 2 (batch_indices)"));
  const auto regions = static_cast<int64_t>(images.size());
  if (input(c, 1).dims() != Dims{regions, 4}) {
    return invalid_input(describe_input(c, 1, "rois") + ": must be " + dims_str(Dims{regions, 4}));
  }
  RP_ASSIGN(const RoiOptions o, read_roi_options(c));
  const int64_t channels = x.dims()[1];
  RP_ASSIGN(auto y, allocate(x.dtype(), {regions, channels, o.height, o.width}));
  if (y.count() > 0 && x.count() == 0)
    return invalid_input("nothing to pool in " + dims_str(x.dims()));
  RP_ASSIGN(const auto v, load_all(x));
  const int64_t pixels = product_range(x.dims(), 2, 4);
  for (int64_t r = 0; r < regions; ++r) {
    const int64_t n = at(images, r);
    if (n < 0 || n >= x.dims()[0]) {
      return invalid_input("batch index " + std::to_string(n) + " is out of range for a batch of " +
                           std::to_string(x.dims()[0]));
    }
    std::array<double, 4> roi{};
    load(input(c, 1), r * 4, 1, 4, roi.data());
    for (int64_t bin = 0; bin < o.height * o.width; ++bin) {
      RP_ASSIGN(const auto samples, bin_samples(o, roi, bin / o.width, bin % o.width, x.dims()));
      for (int64_t ch = 0; ch < channels; ++ch) {
        const double e = pool_samples(samples, v.data() + (n * channels + ch) * pixels, o.max);
        store(y, (r * channels + ch) * o.height * o.width + bin, 1, &e);
      }
    }
  }
  return one(std::move(y));
}

constexpr Entry kTable[] = {{"NonMaxSuppression", non_max_suppression}, {"RoiAlign", roi_align}};

}  // namespace

Table boxes_table() {
  return kTable;
}

}  // namespace reprise::host
