// Between the format and the model's layout, a value is [height, width, channels] of F32.
#include "codegen/ops/nn/image_nodes.h"

#include <algorithm>

namespace reprise {

namespace {

using graph::kNone;
using ops::Composer;
using V = graph::ValueId;
using Colors = ImageOption::Colors;

bool is_bytes(ImageFormat f) {
  return f != ImageFormat::Rgba16F && f != ImageFormat::Nv12;
}

V vector_of(Composer& c, const std::vector<double>& values) {
  const std::vector<float> floats(values.begin(), values.end());
  return c.constant(HostTensor::from<float>(DType::F32, {std::ssize(floats)}, floats));
}

/// A constant for each channel, or one for all of them if they are equal.
V per_channel(Composer& c, const std::vector<double>& values) {
  const bool equal = std::ranges::all_of(values, [&](double v) { return v == values[0]; });
  return equal ? c.scalar(DType::F32, values[0]) : vector_of(c, values);
}

/// v * gain + bias for each channel.
V affine(Composer& c, V v, const std::vector<double>& gain, const std::vector<double>& bias) {
  const auto all = [](const std::vector<double>& list, double value) {
    return std::ranges::all_of(list, [=](double x) { return x == value; });
  };
  if (!all(gain, 1)) v = c.mul(v, per_channel(c, gain));
  if (!all(bias, 0)) v = c.add(v, per_channel(c, bias));
  return v;
}

double of_channel(const std::vector<double>& list, size_t i, double otherwise) {
  return list.empty() ? otherwise : list.size() == 1 ? list[0] : list[i];
}

/// Channels in the opposite order.
V reversed(Composer& c, V v) {
  Shape sizes = c.shape(v);
  return c.slice(v, {0, 0, sizes[2] - 1}, {1, 1, -1}, sizes);
}

V channel(Composer& c, V v, int64_t i) {
  return c.slice_axis(v, 2, i, 1);
}

/// Whether the channels of the format and the model have opposite orders.
bool opposite(ImageFormat format, Colors colors) {
  return (format == ImageFormat::Bgra8) != (colors == Colors::Bgr);
}

/// The colours of a format of four channels, as the model has them.
V colors_of(Composer& c, const ImageOption& o, Colors wanted, V pixels) {
  const bool swapped = opposite(o.format, wanted);
  if (wanted == Colors::Rgba) {
    V all = c.cast(pixels, DType::F32);
    if (!swapped) return all;
    const V colors = reversed(c, c.slice_axis(all, 2, 0, 3));
    return c.concat({colors, channel(c, all, 3)}, 2);
  }
  V colors = c.cast(c.slice_axis(pixels, 2, 0, 3), DType::F32);
  if (wanted != Colors::Gray) return swapped ? reversed(c, colors) : colors;
  // The weights of BT.601, which image libraries use for gray.
  const int64_t red = swapped ? 2 : 0;
  return c.add(c.add(c.mul(channel(c, colors, red), 0.299), c.mul(channel(c, colors, 1), 0.587)),
               c.mul(channel(c, colors, 2 - red), 0.114));
}

/// Each pixel of the smaller plane for four pixels.
V doubled(Composer& c, V v) {
  const Shape s = c.shape(v);
  const V split = c.reshape(v, {s[0], 1, s[1], 1, s[2]});
  return c.reshape(c.expand(split, {s[0], 2, s[1], 2, s[2]}), {s[0] * 2, s[1] * 2, s[2]});
}

/// What a channel of colour is made of: y * Y + u * U + v * V + constant, of bytes Y, U and V.
struct FromYuv {
  double y, u, v, constant;
};

/// What brightness is made of, and the bytes of a standard's range.
struct Yuv {
  explicit Yuv(const ImageOption& o)
      : kr(o.matrix == ImageOption::Matrix::Bt601 ? 0.299 : 0.2126),
        kb(o.matrix == ImageOption::Matrix::Bt601 ? 0.114 : 0.0722),
        kg(1 - kr - kb),
        luma(o.full_range ? 255 : 219),
        chroma(o.full_range ? 255 : 224),
        black(o.full_range ? 0 : 16) {}
  double kr, kb, kg;           // of red, blue and green
  double luma, chroma, black;  // the bytes from black to white, those of colour, and that of black
};

std::vector<FromYuv> yuv_weights(const ImageOption& o, Colors wanted) {
  const Yuv yuv(o);
  const double kr = yuv.kr, kb = yuv.kb, kg = yuv.kg;
  const double y = 1 / yuv.luma, color = 1 / yuv.chroma, black = yuv.black;
  const auto made = [&](double u, double v) {
    return FromYuv{y, u * color, v * color, -black * y - 128 * color * (u + v)};
  };
  const FromYuv red = made(0, 2 * (1 - kr)), blue = made(2 * (1 - kb), 0);
  const FromYuv green = made(-2 * kb * (1 - kb) / kg, -2 * kr * (1 - kr) / kg);
  if (wanted == Colors::Gray) return {made(0, 0)};
  if (wanted == Colors::Bgr) return {blue, green, red};
  return {red, green, blue};
}

V from_nv12(Composer& c, const ImageOption& o, Colors wanted, V pixels) {
  const Shape s = c.shape(pixels);
  const Expr half_height = Expr::floordiv(s[0], 3), half_width = Expr::floordiv(s[1], 2);
  const Expr height = half_height * 2;
  const V luma =
      c.cast(c.reshape(c.slice_axis(pixels, 0, 0, height), {height, s[1], 1}), DType::F32);
  const std::vector<FromYuv> weights = yuv_weights(o, wanted);
  const auto list = [&](double FromYuv::*member) {
    std::vector<double> out;
    out.reserve(weights.size());
    for (const FromYuv& w : weights) out.push_back(w.*member);
    return per_channel(c, out);
  };
  V v = c.mul(luma, list(&FromYuv::y));
  if (wanted != Colors::Gray) {
    const V small =
        c.reshape(c.slice_axis(pixels, 0, height, half_height), {half_height, half_width, 2});
    const V chroma = c.cast(doubled(c, small), DType::F32);
    v = c.add(v, c.add(c.mul(channel(c, chroma, 0), list(&FromYuv::u)),
                       c.mul(channel(c, chroma, 1), list(&FromYuv::v))));
  }
  return c.clip(c.add(v, list(&FromYuv::constant)), 0, 1);
}

/// Rounded and limited to bytes; NaN becomes 0.
V bytes_of(Composer& c, V v) {
  const V zero = c.scalar(DType::F32, 0);
  v = c.where(c.op("Greater", {v, zero}), v, zero);  // NaN is not greater
  return c.op("Round", {c.min(v, 255.0)});
}

/// The mean of each 2 x 2 pixels.
V halved(Composer& c, V v) {
  const Shape s = c.shape(v);
  const Shape half{Expr::floordiv(s[0], 2), Expr::floordiv(s[1], 2), s[2]};
  const auto part = [&](int64_t y, int64_t x) { return c.slice(v, {y, x, 0}, {2, 2, 1}, half); };
  const V sum = c.add(c.add(part(0, 0), part(0, 1)), c.add(part(1, 0), part(1, 1)));
  return c.mul(sum, 0.25);
}

/// Colours from 0 to 1 as a plane of brightness and one of colour, the mean of four pixels.
V to_nv12(Composer& c, const ImageOption& o, Colors given, V colors) {
  const Yuv yuv(o);
  const Shape s = c.shape(colors);
  const Shape small{Expr::floordiv(s[0], 2), s[1]};
  const bool gray = given == Colors::Gray, bgr = given == Colors::Bgr;
  const auto sum = [&](V of, double red, double green, double blue) {
    const V r = channel(c, of, bgr ? 2 : 0), g = channel(c, of, 1), b = channel(c, of, bgr ? 0 : 2);
    return c.add(c.add(c.mul(r, red), c.mul(g, green)), c.mul(b, blue));
  };
  V y = gray ? c.mul(colors, yuv.luma)
             : sum(colors, yuv.luma * yuv.kr, yuv.luma * yuv.kg, yuv.luma * yuv.kb);
  y = bytes_of(c, c.reshape(c.add(y, yuv.black), {s[0], s[1]}));
  if (gray) return c.concat({y, c.expand(c.scalar(DType::F32, 128), small)}, 0);
  const V mean = halved(c, colors);
  const double u = yuv.chroma / (2 * (1 - yuv.kb)), v = yuv.chroma / (2 * (1 - yuv.kr));
  const V blue = sum(mean, -u * yuv.kr, -u * yuv.kg, u * (1 - yuv.kb));
  const V red = sum(mean, v * (1 - yuv.kr), -v * yuv.kg, -v * yuv.kb);
  const V pairs = c.reshape(c.concat({blue, red}, 2), small);
  return c.concat({y, bytes_of(c, c.add(pairs, 128.0))}, 0);
}

V decoded(Composer& c, const ImageOption& o, const ImageTensor& t, V pixels) {
  if (o.format == ImageFormat::Nv12) return from_nv12(c, o, t.colors, pixels);
  if (o.format != ImageFormat::R8) return colors_of(c, o, t.colors, pixels);
  const V v = c.cast(pixels, DType::F32);
  Shape all = c.shape(v);
  all[2] = t.channels;
  return c.expand(v, all);
}

V gather(Composer& c, V v, V indices, int64_t axis) {
  return c.op("Gather", {v, indices}, ops::attributes({{"axis", axis}}));
}

V blend(Composer& c, V a, V b, V weight) {
  return c.add(a, c.mul(c.sub(b, a), weight));
}

/// The pixels that an axis of the result reads.
struct Taps {
  V first, second, weight;  // indices of I32; the second one and its weight only if bilinear
};

/// Every device and the host compute the same numbers from these, to the bit: they are sums and
/// products alone.
V sampled(Composer& c, const ImageTensor& t, V v, const Taps& x, const Taps& y) {
  const bool bilinear = x.weight != kNone;
  const auto row = [&](V rows) {
    const V left = gather(c, rows, x.first, 1);
    if (!bilinear) return left;
    return blend(c, left, gather(c, rows, x.second, 1), c.reshape(x.weight, {t.width, 1}));
  };
  const V above = row(gather(c, v, y.first, 0));
  if (!bilinear) return above;
  return blend(c, above, row(gather(c, v, y.second, 0)), c.reshape(y.weight, {t.height, 1, 1}));
}

/// The taps of an axis of `in` pixels that becomes one of `out`, with half-pixel centres. Positions
/// are exact: they are integers, divided by 2 * out.
Taps axis_taps(Composer& c, const Expr& in, int64_t out) {
  std::vector<int32_t> centres;
  for (int64_t i = 0; i < out; ++i) centres.push_back(static_cast<int32_t>(2 * i + 1));
  const V numbers = c.constant(HostTensor::from<int32_t>(DType::I32, {out}, centres));
  const V size = c.expr_value(in, DType::I32), zero = c.scalar(DType::I32, 0);
  const auto parts = static_cast<double>(2 * out);
  const V at = c.max(c.sub(c.mul(numbers, size), static_cast<double>(out)), zero);
  const V first = c.div(at, parts), rest = c.sub(at, c.mul(first, parts));
  return {first, c.min(c.add(first, 1.0), c.sub(size, 1.0)),
          c.mul(c.cast(rest, DType::F32), 1 / parts)};
}

/// Nearest means the pixel in which the centre of the result's pixel lies.
V resized(Composer& c, const ImageOption& o, const ImageTensor& t, V v) {
  if (o.resize == ImageOption::Resize::Bilinear) {
    const Shape s = c.shape(v);
    return sampled(c, t, v, axis_taps(c, s[1], t.width.value()),
                   axis_taps(c, s[0], t.height.value()));
  }
  const V sizes = c.ints({t.height.value(), t.width.value(), t.channels});
  return c.model("Resize", {v, kNone, kNone, sizes},
                 ops::attributes({{"mode", std::string("nearest")},
                                  {"coordinate_transformation_mode", std::string("half_pixel")},
                                  {"nearest_mode", std::string("round_prefer_ceil")}}));
}

/// The taps of an axis of a crop, whose `begin` and `size` each run gives. `in` is the size of the
/// image. All are F32.
Taps crop_taps(Composer& c, bool bilinear, V begin, V size, V in, int64_t out) {
  std::vector<double> centres;
  for (int64_t i = 0; i < out; ++i)
    centres.push_back((static_cast<double>(i) + 0.5) / static_cast<double>(out));
  const V last = c.sub(in, 1.0), zero = c.scalar(DType::F32, 0), end = c.add(begin, size);
  const V centre = c.add(c.mul(vector_of(c, centres), size), begin);
  const auto limited = [&](V at, V least, V most) {
    return c.max(c.min(c.min(c.max(at, least), most), last), zero);
  };
  if (!bilinear) {
    const V begun = c.op("Floor", {begin}), ended = c.sub(c.op("Ceil", {end}), 1.0);
    const V at = limited(c.op("Floor", {centre}), begun, ended);
    return {c.cast(at, DType::I32), kNone, kNone};
  }
  const V at = limited(c.sub(centre, 0.5), begin, c.sub(end, 1.0));
  const V first = c.op("Floor", {at});
  return {c.cast(first, DType::I32), c.cast(c.min(c.add(first, 1.0), last), DType::I32),
          c.sub(at, first)};
}

/// The rectangle (x, y, width, height) of the image in the size of the model. What is outside the
/// rectangle or the image has the value of the pixel at its edge.
V cropped(Composer& c, const ImageOption& o, const ImageTensor& t, V v, V rectangle) {
  const bool bilinear = o.resize == ImageOption::Resize::Bilinear;
  const Shape s = c.shape(v);
  const auto taps = [&](int64_t i, size_t axis, const Expr& out) {
    return crop_taps(c, bilinear, c.slice_axis(rectangle, 0, i, 1),
                     c.slice_axis(rectangle, 0, i + 2, 1), c.expr_value(s[axis], DType::F32),
                     out.value());
  };
  const Taps x = taps(0, 1, t.width);
  return sampled(c, t, v, x, taps(1, 0, t.height));
}

/// A model of bytes has the bytes of the image, unless the options say otherwise.
double scale_of(const ImageOption& o, const ImageTensor& t) {
  const bool keeps_bytes = t.dtype == DType::U8 && o.mean.empty() && o.std.empty() && o.scale == 1;
  return keeps_bytes ? 255 : o.scale;
}

/// pixel * scale, minus mean, divided by std.
V normalized(Composer& c, const ImageOption& o, const ImageTensor& t, V v) {
  const double unit = is_bytes(o.format) ? 255 : 1;
  const double scale = scale_of(o, t);
  std::vector<double> gain, bias;
  for (size_t i = 0; i < static_cast<size_t>(t.channels); ++i) {
    const double std = of_channel(o.std, i, 1);
    gain.push_back(scale / (unit * std));
    bias.push_back(-of_channel(o.mean, i, 0) / std);
  }
  v = affine(c, v, gain, bias);
  return t.dtype == DType::U8 ? c.op("Round", {c.clip(v, 0, 255)}) : v;
}

}  // namespace

V tensor_from_pixels(Composer& c, const ImageOption& o, const ImageTensor& t, V pixels, V crop) {
  V v = decoded(c, o, t, pixels);
  if (o.crop == ImageOption::Crop::Fixed) {
    v = c.slice(v, {o.rectangle[1], o.rectangle[0], 0}, {1, 1, 1},
                {o.rectangle[3], o.rectangle[2], t.channels});
  }
  if (crop != kNone) {
    v = cropped(c, o, t, v, crop);
  } else if (o.resize != ImageOption::Resize::None) {
    v = resized(c, o, t, v);
  }
  v = normalized(c, o, t, v);
  if (t.channels_first) v = c.transpose(v, {2, 0, 1});
  return c.cast(c.reshape(v, t.shape), t.dtype);
}

V pixels_from_tensor(Composer& c, const ImageOption& o, const ImageTensor& t, V value) {
  const Expr channels = t.channels;
  V v = c.cast(value, DType::F32);
  v = t.channels_first ? c.transpose(c.reshape(v, {channels, t.height, t.width}), {1, 2, 0})
                       : c.reshape(v, {t.height, t.width, channels});
  const double unit = is_bytes(o.format) ? 255 : 1;
  std::vector<double> gain, bias;
  for (size_t i = 0; i < static_cast<size_t>(t.channels); ++i) {
    gain.push_back(unit * of_channel(o.std, i, 1) / scale_of(o, t));
    bias.push_back(unit * of_channel(o.mean, i, 0) / scale_of(o, t));
  }
  v = affine(c, v, gain, bias);
  if (o.format == ImageFormat::Nv12) return c.cast(to_nv12(c, o, t.colors, v), DType::U8);
  if (is_bytes(o.format)) v = bytes_of(c, v);
  const DType stored = is_bytes(o.format) ? DType::U8 : DType::F16;
  if (o.format == ImageFormat::R8) return c.cast(v, stored);
  if (t.channels == 1) v = c.expand(v, {t.height, t.width, 3});
  if (t.channels == 4) {
    if (!opposite(o.format, t.colors)) return c.cast(v, stored);
    return c.cast(c.concat({reversed(c, c.slice_axis(v, 2, 0, 3)), channel(c, v, 3)}, 2), stored);
  }
  if (t.channels == 3 && opposite(o.format, t.colors)) v = reversed(c, v);
  const V opaque = c.scalar(DType::F32, is_bytes(o.format) ? 255 : 1);
  return c.cast(c.model("Pad", {v, c.ints({0, 0, 0, 0, 0, 1}), opaque}), stored);
}

graph::NodeSpec ops::image_place() {
  graph::NodeSpec spec;
  spec.op = "Identity";
  spec.origin_op = "Image";
  return spec;
}

}  // namespace reprise
