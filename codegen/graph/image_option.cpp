#include "codegen/graph/image_option.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <span>

#include "runtime/base/number_text.h"

namespace reprise {

namespace {

using Text = std::string_view;

constexpr const char* kHelp =
    "an image is NAME=FORMAT,KEY=VALUE,... with the formats rgba8, bgra8, rgba16f, r8 and nv12, "
    "and the keys resize (nearest, bilinear), mean, std, scale, colors (rgb, bgr, gray, rgba), "
    "layout (nchw, nhwc), crop (X:Y:WIDTH:HEIGHT, run), size (WIDTHxHEIGHT), matrix (bt601, bt709) "
    "and range (limited, full)";

std::vector<Text> split(Text text, char at) {
  std::vector<Text> out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(at, begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

template <typename T>
bool read_number(Text text, T& out) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && rest == text.data() + text.size();
}

bool read_numbers(Text text, char at, std::vector<double>& out) {
  out.clear();
  for (const Text item : split(text, at)) {
    double value = 0;
    if (!read_number(item, value) || !std::isfinite(value)) return false;
    out.push_back(value);
  }
  return true;
}

/// Sizes of at most 2^20, so that all positions fit 32 bits.
bool read_sizes(Text text, char at, std::span<int64_t> out) {
  const std::vector<Text> items = split(text, at);
  if (items.size() != out.size()) return false;
  for (size_t i = 0; i < items.size(); ++i)
    if (!read_number(items[i], out[i]) || out[i] < 0 || out[i] > (1 << 20)) return false;
  return true;
}

template <typename E>
bool read_name(Text text, std::initializer_list<std::pair<Text, E>> names, E& out) {
  for (const auto& [name, value] : names) {
    if (name != text) continue;
    out = value;
    return true;
  }
  return false;
}

bool read_crop(Text text, ImageOption& o) {
  o.crop = ImageOption::Crop::Run;
  if (text == "run") return true;
  o.crop = ImageOption::Crop::Fixed;
  return read_sizes(text, ':', o.rectangle) && o.rectangle[2] > 0 && o.rectangle[3] > 0;
}

bool read_size(Text text, ImageOption& o) {
  std::array<int64_t, 2> size{};
  if (!read_sizes(text, 'x', size) || size[0] == 0 || size[1] == 0) return false;
  o.width = size[0];
  o.height = size[1];
  return true;
}

/// Whether a float32 can hold the number as a divisor: it is neither 0 nor denormal nor infinite.
bool is_normal_float(double v) {
  using Limits = std::numeric_limits<float>;
  return std::abs(v) >= Limits::min() && std::abs(v) <= Limits::max();
}

bool read_scale(Text text, ImageOption& o) {
  return read_number(text, o.scale) && is_normal_float(o.scale);
}

bool read_std(Text text, ImageOption& o) {
  return read_numbers(text, ':', o.std) && std::ranges::all_of(o.std, is_normal_float);
}

/// Whether the key exists and takes the value.
bool read_key(Text key, Text value, ImageOption& o) {
  using O = ImageOption;
  if (key == "resize")
    return read_name(value, {{"nearest", O::Resize::Nearest}, {"bilinear", O::Resize::Bilinear}},
                     o.resize);
  if (key == "colors")
    return read_name(value,
                     {{"rgb", O::Colors::Rgb},
                      {"bgr", O::Colors::Bgr},
                      {"gray", O::Colors::Gray},
                      {"rgba", O::Colors::Rgba}},
                     o.colors);
  if (key == "layout")
    return read_name(value, {{"nchw", O::Layout::Nchw}, {"nhwc", O::Layout::Nhwc}}, o.layout);
  if (key == "matrix")
    return read_name(value, {{"bt601", O::Matrix::Bt601}, {"bt709", O::Matrix::Bt709}}, o.matrix);
  if (key == "range") return read_name(value, {{"limited", false}, {"full", true}}, o.full_range);
  if (key == "mean") return read_numbers(value, ':', o.mean);
  if (key == "std") return read_std(value, o);
  if (key == "scale") return read_scale(value, o);
  if (key == "crop") return read_crop(value, o);
  if (key == "size") return read_size(value, o);
  return false;
}

std::string list_text(const std::vector<double>& values) {
  std::string s;
  for (const double v : values) s += (s.empty() ? "" : ":") + number_text(v);
  return s;
}

}  // namespace

std::string crop_input_of(const std::string& image) {
  return image + ".crop";
}

Result<ImageOption> parse_image(std::string_view text) {
  const auto refuse = [&](const std::string& why) {
    return Status(Code::Usage, "image '" + std::string(text) + "': " + why + "; " + kHelp);
  };
  const size_t equals = text.find('=');
  if (equals == Text::npos || equals == 0) return refuse("it has no NAME=FORMAT");
  ImageOption o;
  o.name = std::string(text.substr(0, equals));
  const std::vector<Text> items = split(text.substr(equals + 1), ',');
  const auto format = image_format_named(items[0]);
  if (!format) return refuse("there is no format '" + std::string(items[0]) + "'");
  o.format = *format;
  std::set<Text> keys;
  for (const Text item : std::span(items).subspan(1)) {
    const size_t at = std::min(item.find('='), item.size());
    const Text key = item.substr(0, at), value = item.substr(std::min(at + 1, item.size()));
    if (!read_key(key, value, o)) return refuse("'" + std::string(item) + "' is not understood");
    if (!keys.insert(key).second) return refuse("'" + std::string(key) + "' is given twice");
    if ((key == "matrix" || key == "range") && o.format != ImageFormat::Nv12)
      return refuse("'" + std::string(key) + "' is only for nv12");
  }
  return o;
}

std::string describe(const ImageOption& o) {
  using O = ImageOption;
  std::string s;
  const auto add = [&](const std::string& what) { s += (s.empty() ? "" : ", ") + what; };
  if (o.crop == O::Crop::Run) add("cropped to '" + crop_input_of(o.name) + "'");
  if (o.crop == O::Crop::Fixed) {
    add("cropped to " + std::to_string(o.rectangle[2]) + "x" + std::to_string(o.rectangle[3]) +
        " at " + std::to_string(o.rectangle[0]) + "," + std::to_string(o.rectangle[1]));
  }
  if (o.resize == O::Resize::Nearest) add("resized to the nearest pixel");
  if (o.resize == O::Resize::Bilinear) add("resized bilinearly");
  if (o.format == ImageFormat::Nv12)
    add(std::string(o.matrix == O::Matrix::Bt601 ? "BT.601" : "BT.709") +
        (o.full_range ? " full range" : " limited range"));
  constexpr std::array<const char*, 5> kColors{"", "rgb", "bgr", "gray", "rgba"};
  if (o.colors != O::Colors::Auto) add(kColors[static_cast<size_t>(o.colors)]);
  if (o.scale != 1) add("scale " + number_text(o.scale));
  if (!o.mean.empty()) add("mean " + list_text(o.mean));
  if (!o.std.empty()) add("std " + list_text(o.std));
  return s;
}

}  // namespace reprise
