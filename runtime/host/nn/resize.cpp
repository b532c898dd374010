// Resize and Upsample: separable interpolation, one axis after the other.
#include <algorithm>
#include <numeric>

#include "runtime/base/number_text.h"
#include "runtime/host/support.h"
#include "runtime/host/tables.h"
#include "runtime/operators/resample.h"

namespace reprise::host {

namespace {

Result<resample::Options> read_resize_options(const Call& c) {
  resample::Options o;
  const std::string mode = c.attrs.get_string("mode", "nearest");
  const auto known = resample::mode_of(mode);
  if (!known)
    return invalid_model("attribute 'mode' is '" + mode + "', must be nearest, linear or cubic");
  o.mode = *known;
  const bool old = c.op == "Upsample" || c.opset == 10;
  const std::string name =
      c.attrs.get_string("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
  const auto coordinates = resample::coordinates_of(name);
  if (!coordinates)
    return invalid_model("attribute 'coordinate_transformation_mode' is '" + name + "'");
  o.coordinates = *coordinates;
  o.nearest = c.attrs.get_string("nearest_mode", old ? "floor" : "round_prefer_floor");
  if (o.nearest != "round_prefer_floor" && o.nearest != "round_prefer_ceil" &&
      o.nearest != "floor" && o.nearest != "ceil") {
    return invalid_model("attribute 'nearest_mode' is '" + o.nearest + "'");
  }
  o.cubic_a = static_cast<double>(c.attrs.get_float("cubic_coeff_a", -0.75F));
  o.exclude_outside = c.attrs.get_int("exclude_outside", 0) != 0;
  o.antialias = c.attrs.get_int("antialias", 0) != 0 && o.mode != resample::Mode::Nearest;
  o.extrapolation = static_cast<double>(c.attrs.get_float("extrapolation_value", 0));
  return o;
}

/// Interpolates `v` (of shape dims) along one axis. Marks positions outside the crop in `outside`.
Result<std::vector<double>> resize_axis(const std::vector<double>& v, Dims& dims, size_t axis,
                                        const resample::Axis& a, const resample::Options& o,
                                        std::vector<bool>& outside) {
  const AxisSplit s = split_at(dims, static_cast<int64_t>(axis));
  dims[axis] = a.out;
  RP_ASSIGN(auto out, allocate_scratch(dims));
  for (int64_t i = 0; i < a.out; ++i) {
    const resample::Taps taps = resample::taps_of(o, a, i);
    outside.push_back(taps.outside);
    for (int64_t outer = 0; outer < s.outer; ++outer) {
      double* to = out.data() + (outer * a.out + i) * s.inner;
      for (const auto& [k, w] : taps.weights) {
        const double* from = v.data() + (outer * s.size + k) * s.inner;
        for (int64_t j = 0; j < s.inner; ++j) to[j] += w * from[j];
      }
    }
  }
  return out;
}

/// Copies nearest neighbours, for any dtype.
Result<HostTensor> resize_nearest(const HostTensor& x, const std::vector<resample::Axis>& axes,
                                  const resample::Options& o, const Dims& dims) {
  RP_ASSIGN(auto y, allocate(x.dtype(), dims));
  if (y.count() == 0) return y;
  const Dims strides = strides_of(x.dims());
  std::vector<Dims> source(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    for (int64_t i = 0; i < dims[d]; ++i) {
      const resample::Taps taps = resample::taps_of(o, axes[d], i);
      source[d].push_back(taps.outside ? -1 : taps.weights[0].first * strides[d]);
    }
  }
  RP_ASSIGN(const HostTensor filler, store_all(x.dtype(), {}, {o.extrapolation}));
  Dims index(dims.size(), 0);
  for (int64_t i = 0; i < y.count(); ++i) {
    int64_t offset = 0;
    for (size_t d = 0; offset >= 0 && d < dims.size(); ++d) {
      const int64_t s = at(source[d], index[d]);
      offset = s < 0 ? -1 : offset + s;
    }
    copy_block(y, i, offset < 0 ? filler : x, std::max<int64_t>(offset, 0), 1);
    for (size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d]) break;
      index[d] = 0;
    }
  }
  return y;
}

Result<HostTensor> resize_smooth(const HostTensor& x, const std::vector<resample::Axis>& axes,
                                 const resample::Options& o, const Dims& out_dims) {
  RP_ASSIGN(auto y, allocate(x.dtype(), out_dims));
  if (y.count() == 0) return y;
  RP_ASSIGN(auto v, load_all(x));
  Dims dims = x.dims();
  std::vector<std::vector<bool>> outside(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    const bool crops = o.coordinates == resample::Coordinates::TfCropAndResize &&
                       (axes[d].roi_begin != 0 || axes[d].roi_end != 1);
    if (axes[d].in == axes[d].out && axes[d].scale == 1 && !crops) continue;
    RP_ASSIGN(v, resize_axis(v, dims, d, axes[d], o, outside[d]));
  }
  Dims index(dims.size(), 0);
  for (double& e : v) {
    for (size_t d = 0; d < dims.size(); ++d) {
      if (!outside[d].empty() && outside[d][static_cast<size_t>(index[d])]) e = o.extrapolation;
    }
    for (size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d]) break;
      index[d] = 0;
    }
  }
  // ONNX does not say how integers are rounded. Without antialiasing they are cut off, as in ONNX
  // Runtime; with it, its reference evaluator rounds to the nearest, and half way to the even one.
  if (o.antialias && is_int(x.dtype())) {
    for (double& e : v) e = std::nearbyint(e);
  }
  store(y, 0, y.count(), v.data());
  return y;
}

/// The floats of an attribute or an input; empty if neither is given.
Result<std::vector<double>> read_floats(const Call& c, const char* attr, size_t i) {
  if (const auto* list = c.attrs.get<std::vector<float>>(attr)) {
    return std::vector<double>(list->begin(), list->end());
  }
  if (!has_input(c, i) || input(c, i).count() == 0) return std::vector<double>{};
  RP_TRY(require_float(c, i, attr));
  RP_TRY(require_rank(c, i, attr, 1, 1));
  return load_all(input(c, i));
}

/// Output sizes and scales from `scales`, or from `sizes` under the aspect ratio policy.
Status scale_axes(const Call& c, const Dims& which, const std::vector<double>& scales,
                  const Dims& sizes, std::vector<resample::Axis>& axes) {
  if ((sizes.empty() ? scales.size() : sizes.size()) != which.size()) {
    return invalid_input("scales or sizes need " + std::to_string(which.size()) + " numbers");
  }
  const std::string policy = c.attrs.get_string("keep_aspect_ratio_policy", "stretch");
  double common = policy == "not_smaller" ? 0 : std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < which.size(); ++i) {
    resample::Axis& a = axes[static_cast<size_t>(which[i])];
    if (sizes.empty()) {
      if (!(scales[i] > 0) || !std::isfinite(scales[i])) {
        return invalid_input("scale " + number_text(scales[i]) + " is not positive");
      }
      a.scale = scales[i];
      const double span =
          c.attrs.get_string("coordinate_transformation_mode", "") == "tf_crop_and_resize"
              ? a.roi_end - a.roi_begin
              : 1.0;
      a.out = saturate_i64(std::floor(static_cast<double>(a.in) * span * a.scale));
    } else {
      if (sizes[i] < 0 || (a.in == 0 && sizes[i] > 0)) {
        return invalid_input("cannot resize " + std::to_string(a.in) + " to " +
                             std::to_string(sizes[i]));
      }
      a.out = sizes[i];
      a.scale = a.in == 0 ? 1 : static_cast<double>(a.out) / static_cast<double>(a.in);
      common = policy == "not_smaller" ? std::max(common, a.scale) : std::min(common, a.scale);
    }
  }
  if (sizes.empty() || policy == "stretch") return {};
  if (policy != "not_smaller" && policy != "not_larger") {
    return invalid_model("attribute 'keep_aspect_ratio_policy' is '" + policy + "'");
  }
  for (int64_t d : which) {
    resample::Axis& a = axes[static_cast<size_t>(d)];
    a.scale = common;
    a.out = saturate_i64(std::round(common * static_cast<double>(a.in)));
  }
  return {};
}

KernelResult resize(const Call& c) {
  RP_TRY(check_arity(c, 1, 4));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(const resample::Options o, read_resize_options(c));
  // Versions before 11 (and Upsample) have no region input.
  const bool old = c.op == "Upsample" || c.opset == 10;
  std::vector<double> roi;
  if (!old) {
    RP_ASSIGN(roi, read_floats(c, "roi", 1));
  }
  RP_ASSIGN(const auto scales, read_floats(c, "scales", old ? 1 : 2));
  Dims sizes;
  if (c.attrs.has("sizes") || (!old && has_input(c, 3) && input(c, 3).count() > 0)) {
    RP_ASSIGN(sizes, read_ints(c, "sizes", 3));
  } else if (scales.empty() && c.output_dims) {
    sizes = *c.output_dims;
  }
  Dims which(x.dims().size());
  std::iota(which.begin(), which.end(), 0);
  if (c.attrs.has("axes")) {
    which = c.attrs.get_ints("axes");
    RP_TRY(normalize_axes(which, x.rank()).status());
    for (int64_t& a : which) a = a < 0 ? a + x.rank() : a;
  }
  std::vector<resample::Axis> axes;
  for (int64_t d : x.dims()) axes.push_back({d, d});
  if (o.coordinates == resample::Coordinates::TfCropAndResize) {
    if (roi.size() != 2 * which.size()) return invalid_input("roi needs two numbers per axis");
    for (size_t i = 0; i < which.size(); ++i) {
      axes[static_cast<size_t>(which[i])].roi_begin = roi[i];
      axes[static_cast<size_t>(which[i])].roi_end = roi[which.size() + i];
    }
  }
  RP_TRY(scale_axes(c, which, scales, sizes, axes));
  Dims dims;
  for (const resample::Axis& a : axes) dims.push_back(a.out);
  RP_TRY(checked_element_count(dims, x.dtype()).status());
  if (o.mode == resample::Mode::Nearest) {
    RP_ASSIGN(auto y, resize_nearest(x, axes, o, dims));
    return one(std::move(y));
  }
  RP_TRY(require_number(c, 0, "X"));
  RP_ASSIGN(auto y, resize_smooth(x, axes, o, dims));
  return one(std::move(y));
}

}  // namespace

Table resize_table() {
  static constexpr Entry kTable[] = {{"Resize", resize}, {"Upsample", resize}};
  return kTable;
}

}  // namespace reprise::host
