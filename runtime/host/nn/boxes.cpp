// Operators of object detection: NonMaxSuppression and RoiAlign.
#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

// NonMaxSuppression computes in float, in the order of the device kernels
// (codegen/lower/kernels/boxes.cpp), so that both choose the same boxes.

struct Box {
  float x0, y0, x1, y1;
};

/// Boxes side by side, each with its area.
struct BoxList {
  std::array<std::vector<float>, 5> parts;

  size_t size() const { return parts[0].size(); }
  Box box(size_t i) const { return {parts[0][i], parts[1][i], parts[2][i], parts[3][i]}; }
  void add(const Box& b) {
    const std::array<float, 5> all{b.x0, b.y0, b.x1, b.y1, (b.x1 - b.x0) * (b.y1 - b.y0)};
    for (size_t i = 0; i < all.size(); ++i) parts[i].push_back(all[i]);
  }
};

/// Reads a box that is given by two corners in any order, or by its centre and size.
Box read_box(const float* v, bool center) {
  if (center) return {v[0] - v[2] / 2, v[1] - v[3] / 2, v[0] + v[2] / 2, v[1] + v[3] / 2};
  return {std::min(v[1], v[3]), std::min(v[0], v[2]), std::max(v[1], v[3]), std::max(v[0], v[2])};
}

/// What NonMaxSuppression and SelectBoxes read.
struct Suppression {
  int64_t batches = 0, classes = 0, boxes = 0;
  std::vector<float> corners, scores;
  double limit = 0;  // of the selected boxes of a class
  float iou = 0;
  std::optional<float> least;  // scores must be greater
  bool center = false;
};

/// Whether a box of the list overlaps `b` by more than the threshold.
bool is_suppressed(const BoxList& kept, const Box& b, float threshold) {
  constexpr size_t kBlock = 16;  // boxes between two checks whether any overlaps
  const float area = (b.x1 - b.x0) * (b.y1 - b.y0);
  if (!(area > 0)) return false;
  const float* const x0 = kept.parts[0].data();
  const float* const y0 = kept.parts[1].data();
  const float* const x1 = kept.parts[2].data();
  const float* const y1 = kept.parts[3].data();
  const float* const areas = kept.parts[4].data();
  const auto overlaps = [&](size_t i) {
    const float w = (b.x1 < x1[i] ? b.x1 : x1[i]) - (x0[i] < b.x0 ? b.x0 : x0[i]);
    const float h = (b.y1 < y1[i] ? b.y1 : y1[i]) - (y0[i] < b.y0 ? b.y0 : y0[i]);
    const float common = w * h;
    return int{w > 0} & int{h > 0} & int{areas[i] > 0} &
           int{common / (areas[i] + area - common) > threshold};
  };
  size_t first = 0;
  for (; first + kBlock <= kept.size(); first += kBlock) {
    int any = 0;
    for (size_t i = first; i < first + kBlock; ++i) any |= overlaps(i);
    if (any != 0) return true;
  }
  for (; first < kept.size(); ++first)
    if (overlaps(first) != 0) return true;
  return false;
}

/// Boxes of a class in the order of their scores: an integer with the score in its high half, so
/// that smaller ones come first, and the box in its low half.
std::vector<uint64_t> candidates(std::span<const float> scores, std::optional<float> least) {
  std::vector<uint64_t> out;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (least && !(scores[i] > *least)) continue;
    const auto bits = std::bit_cast<int32_t>(scores[i] == 0 ? 0.0F : scores[i]);
    const int32_t ordered = bits < 0 ? std::numeric_limits<int32_t>::min() - bits : bits;
    const auto rank =
        static_cast<uint32_t>(std::numeric_limits<int32_t>::max()) - static_cast<uint32_t>(ordered);
    out.push_back((uint64_t{std::isnan(scores[i]) ? 0 : rank} << 32) | i);
  }
  return out;
}

/// Selects boxes by descending score and drops those that overlap a selected one. Sorts no more
/// candidates than it looks at.
std::vector<size_t> suppress(const Suppression& s, std::span<const Box> boxes,
                             std::span<const float> scores) {
  constexpr size_t kFirst = 512;  // candidates that are sorted first
  std::vector<uint64_t> order = candidates(scores, s.least);
  std::vector<size_t> selected;
  BoxList kept;
  size_t sorted = 0;
  for (size_t i = 0; i < order.size() && static_cast<double>(selected.size()) < s.limit; ++i) {
    if (i == sorted) {
      const auto from = order.begin() + static_cast<std::ptrdiff_t>(sorted);
      sorted = std::min(order.size(), std::max(2 * sorted, kFirst));
      const auto to = order.begin() + static_cast<std::ptrdiff_t>(sorted);
      std::nth_element(from, to, order.end());
      std::sort(from, to);
    }
    const auto candidate = static_cast<size_t>(order[i] & 0xffffffff);
    if (is_suppressed(kept, boxes[candidate], s.iou)) continue;
    selected.push_back(candidate);
    kept.add(boxes[candidate]);
  }
  return selected;
}

Result<double> optional_scalar(const Call& c, size_t i, std::string_view role, double fallback) {
  if (!has_input(c, i) || input(c, i).count() == 0) return fallback;
  return scalar_value(c, i, role);
}

Result<std::vector<float>> load_floats(const HostTensor& t) {
  std::vector<float> out(static_cast<size_t>(t.count()));
  if (t.dtype() == DType::F32) {
    std::memcpy(out.data(), t.bytes().data(), t.bytes().size());
    return out;
  }
  RP_ASSIGN(const auto wide, load_all(t));
  std::transform(wide.begin(), wide.end(), out.begin(),
                 [](double v) { return static_cast<float>(v); });
  return out;
}

Result<Suppression> read_suppression(const Call& c) {
  RP_TRY(require_float(c, 0, "boxes"));
  RP_TRY(require_float(c, 1, "scores"));
  RP_TRY(require_rank(c, 0, "boxes", 3, 3));
  RP_TRY(require_rank(c, 1, "scores", 3, 3));
  const Dims& b = input(c, 0).dims();
  const Dims& s = input(c, 1).dims();
  if (b[0] != s[0] || b[1] != s[2] || b[2] != 4) {
    return invalid_input("boxes " + dims_str(b) + " and scores " + dims_str(s) + " do not fit");
  }
  Suppression out;
  out.batches = b[0];
  out.classes = s[1];
  out.boxes = b[1];
  if (out.boxes > int64_t{std::numeric_limits<int32_t>::max()})
    return invalid_input("there are more than 2^31 boxes");
  RP_ASSIGN(out.limit, optional_scalar(c, 2, "max_output_boxes_per_class", 0));
  RP_ASSIGN(const double iou, optional_scalar(c, 3, "iou_threshold", 0));
  out.iou = static_cast<float>(iou);
  RP_ASSIGN(const double least, optional_scalar(c, 4, "score_threshold", 0));
  if (has_input(c, 4) && input(c, 4).count() > 0) out.least = static_cast<float>(least);
  RP_ASSIGN(out.corners, load_floats(input(c, 0)));
  RP_ASSIGN(out.scores, load_floats(input(c, 1)));
  out.center = c.attrs.get_int("center_point_box", 0) != 0;
  return out;
}

/// The rows (batch, class, box) of the selected boxes.
Dims selected_rows(const Suppression& s) {
  const auto boxes_of = static_cast<size_t>(s.boxes);
  Dims rows;
  for (int64_t n = 0; n < s.batches && s.boxes > 0; ++n) {
    std::vector<Box> boxes;
    for (size_t i = 0; i < boxes_of; ++i) {
      const size_t at = (static_cast<size_t>(n) * boxes_of + i) * 4;
      boxes.push_back(read_box(s.corners.data() + at, s.center));
    }
    for (int64_t k = 0; k < s.classes; ++k) {
      const auto at = static_cast<size_t>(n * s.classes + k) * boxes_of;
      for (const size_t i : suppress(s, boxes, std::span(s.scores).subspan(at, boxes_of)))
        rows.insert(rows.end(), {n, k, static_cast<int64_t>(i)});
    }
  }
  return rows;
}

KernelResult non_max_suppression(const Call& c) {
  RP_TRY(check_arity(c, 2, 5));
  RP_ASSIGN(const Suppression s, read_suppression(c));
  const Dims rows = selected_rows(s);
  const auto count = static_cast<int64_t>(rows.size()) / 3;
  return one(HostTensor::from(DType::I64, {count, 3}, rows));
}

/// NonMaxSuppression with as many rows as there may be, and their number. Rows beyond it are 0.
KernelResult select_boxes(const Call& c) {
  RP_TRY(check_arity(c, 2, 5, 2));
  RP_ASSIGN(Suppression s, read_suppression(c));
  RP_ASSIGN(const Dims most, read_ints(c, "most", c.inputs.size()));
  if (most.size() != 1) return invalid_model("attribute 'most' must have one element");
  s.limit = std::min(has_input(c, 2) ? s.limit : static_cast<double>(most[0]),
                     static_cast<double>(most[0]));
  const Dims rows = selected_rows(s);
  RP_ASSIGN(HostTensor all, allocate(DType::I64, {s.batches * s.classes * most[0], 3}));
  store(all, 0, static_cast<int64_t>(rows.size()), rows.data());
  Tensors out;
  out.push_back(std::move(all));
  out.push_back(
      HostTensor::from(DType::I32, {1}, std::vector{static_cast<int32_t>(rows.size() / 3)}));
  return out;
}

/// No elements, with the only element of the input as a dim.
KernelResult counted_rows(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_ASSIGN(const Dims count, tensor_ints(input(c, 0), "input 0"));
  if (count.size() != 1 || count[0] < 0) return invalid_input("input 0 must be one number >= 0");
  return one(HostTensor(DType::Bool, {count[0], 0}));
}

/// Four neighbours and their weights, if the position is inside the image.
struct Bilinear {
  bool inside = false;
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
  r.inside = true;
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

/// A sample outside the image counts as 0.
double pool_samples(const std::vector<Bilinear>& samples, const double* image, bool max) {
  double sum = 0;
  double top = -std::numeric_limits<double>::infinity();
  for (const Bilinear& s : samples) {
    if (!s.inside) top = std::max(top, 0.0);
    for (size_t k = 0; s.inside && k < 4; ++k) {
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

}  // namespace

Table boxes_table() {
  static constexpr Entry kTable[] = {{"CountedRows", counted_rows},
                                     {"NonMaxSuppression", non_max_suppression},
                                     {"RoiAlign", roi_align},
                                     {"SelectBoxes", select_boxes}};
  return kTable;
}

}  // namespace reprise::host
