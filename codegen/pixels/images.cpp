#include "codegen/pixels/images.h"

#include <algorithm>
#include <set>

#include "codegen/graph/image_origin.h"
#include "codegen/ops/nn/image_nodes.h"

namespace reprise {

namespace {

using graph::Graph;
using graph::kNone;
using graph::ValueId;
using O = ImageOption;

// Positions and elements of images of this size fit 32 bits. It is what devices support.
constexpr int64_t kMaxSide = 16384;

Status refuse(const O& o, const std::string& why) {
  return {Code::Usage, "image '" + o.name + "': " + why};
}

std::string image_type_of(const Graph& g, ValueId v) {
  const graph::Value& value = g.value(v);
  return std::string(name_of(value.dtype)) + shape_str(value.shape, g.symbols);
}

bool may_be_channels(const Expr& d) {
  return d.is_const(1) || d.is_const(3) || d.is_const(4);
}

O::Colors colors_for(int64_t channels) {
  return channels == 1 ? O::Colors::Gray : channels == 3 ? O::Colors::Rgb : O::Colors::Rgba;
}

/// Finds the axes of the model's tensor.
Result<ImageTensor> read_tensor(const Graph& g, ValueId v, const O& o) {
  const graph::Value& value = g.value(v);
  const Shape& s = value.shape;
  const size_t rank = s.size();
  const std::string is = "the model's tensor is " + image_type_of(g, v);
  if (value.dtype != DType::F32 && value.dtype != DType::F16 && value.dtype != DType::U8)
    return refuse(o, is + "; it must be float32, float16 or uint8");
  if (rank < 2 || rank > 4) return refuse(o, is + "; it must have 2 to 4 dims");
  if (rank == 4 && !s[0].is_const(1))
    return refuse(o, is + "; its batch must be 1: fix the sizes of inputs with --shape");
  ImageTensor t;
  t.shape = s;
  t.dtype = value.dtype;
  const size_t first = rank == 4 ? 1 : 0;
  const auto at = [&](size_t axis) { return s[first + axis]; };
  t.channels_first = rank == 2 || (o.layout == O::Layout::Auto ? may_be_channels(at(0))
                                                               : o.layout == O::Layout::Nchw);
  t.height_axis = rank == 2 ? 0 : first + (t.channels_first ? 1U : 0U);
  t.width_axis = t.height_axis + 1;
  t.height = s[t.height_axis];
  t.width = s[t.width_axis];
  const Expr channels = rank == 2 ? Expr(1) : at(t.channels_first ? 0 : 2);
  if (!may_be_channels(channels))
    return refuse(o, is + ", in which no axis has 1, 3 or 4 channels where the layout has them");
  t.channels = channels.value();
  t.colors = o.colors == O::Colors::Auto ? colors_for(t.channels) : o.colors;
  const bool three = t.colors == O::Colors::Rgb || t.colors == O::Colors::Bgr;
  if (t.channels != (three ? 3 : t.colors == O::Colors::Gray ? 1 : 4))
    return refuse(o, is + ", whose number of channels does not fit the colors");
  return t;
}

Status check_numbers(const O& o, const ImageTensor& t) {
  for (const auto* list : {&o.mean, &o.std}) {
    if (list->size() > 1 && list->size() != static_cast<size_t>(t.channels)) {
      return refuse(o, "mean and std have one number, or one for each of the " +
                           std::to_string(t.channels) + " channels");
    }
  }
  return {};
}

Status check_input(const O& o, const ImageTensor& t) {
  RP_TRY(check_numbers(o, t));
  const bool small = o.format == ImageFormat::R8 || o.format == ImageFormat::Nv12;
  if (small && t.channels == 4)
    return refuse(o, "the model takes four channels, which " + std::string(name_of(o.format)) +
                         " does not have");
  const bool scaled = o.resize != O::Resize::None;
  if (o.crop == O::Crop::Run && !scaled)
    return refuse(o, "a crop that each run gives has any size, so it needs resize=");
  if (!scaled && o.crop == O::Crop::None && o.width == 0 && o.format != ImageFormat::Nv12)
    return {};
  if (!t.height.is_const() || !t.width.is_const())
    return refuse(o, "the model's size must be fixed for this; use --shape");
  const std::array<int64_t, 2> model{t.width.value(), t.height.value()};
  const auto same = [&](int64_t width, int64_t height) {
    return model[0] == width && model[1] == height;
  };
  if (o.crop == O::Crop::Fixed && !scaled && !same(o.rectangle[2], o.rectangle[3]))
    return refuse(o, "the crop does not have the model's size, so it needs resize=");
  if (o.crop == O::Crop::None && !scaled && o.width > 0 && !same(o.width, o.height))
    return refuse(o, "the image does not have the model's size, so it needs resize=");
  if (o.crop == O::Crop::Fixed && o.width > 0 &&
      (o.rectangle[0] + o.rectangle[2] > o.width || o.rectangle[1] + o.rectangle[3] > o.height))
    return refuse(o, "the crop is not inside the image");
  return {};
}

/// A dim of the image that each run gives.
Expr side(Graph& g, const std::string& name, Symbol range, size_t input, int axis) {
  range.name = name;
  return Expr::symbol(g.add_symbol(
      std::move(range), {SymbolSource::Kind::InputDim, static_cast<int32_t>(input), axis}));
}

/// Whether the image need not have the size of the model's tensor.
bool has_own_size(const O& o) {
  return o.resize != O::Resize::None || o.crop != O::Crop::None;
}

/// The names of the dims of an image whose size each run gives.
std::string rows_of(const O& o) {
  return o.name + (o.format == ImageFormat::Nv12 ? "_rows" : "_height");
}
std::string columns_of(const O& o) {
  return o.name + "_width";
}

/// The shape of an input image of any size. A fixed crop must be inside it.
Shape dynamic_shape(Graph& g, const O& o, size_t input) {
  const std::string rows = rows_of(o), columns = columns_of(o);
  const int64_t least_rows = std::max<int64_t>(1, o.rectangle[1] + o.rectangle[3]);
  const int64_t least_columns = std::max<int64_t>(1, o.rectangle[0] + o.rectangle[2]);
  if (o.format == ImageFormat::Nv12) {
    const int64_t pairs = (least_rows + 1) / 2;
    return {side(g, rows, {{}, 3 * pairs, kMaxSide / 2 * 3, 3}, input, 0),
            side(g, columns, {{}, (least_columns + 1) / 2 * 2, kMaxSide, 2}, input, 1)};
  }
  return {side(g, rows, {{}, least_rows, kMaxSide, 1}, input, 0),
          side(g, columns, {{}, least_columns, kMaxSide, 1}, input, 1),
          o.format == ImageFormat::R8 ? 1 : 4};
}

/// The shape of an input image.
Result<Shape> input_shape(Graph& g, const O& o, const ImageTensor& t, size_t input) {
  const bool nv12 = o.format == ImageFormat::Nv12;
  const bool own = has_own_size(o);
  if (own && o.width == 0) return dynamic_shape(g, o, input);
  const Expr height = own ? Expr(o.height) : t.height, width = own ? Expr(o.width) : t.width;
  for (const Expr& e : {height, width}) {
    if (nv12 && e.value() % 2 != 0) return refuse(o, "the width and height of nv12 must be even");
    if (e.is_const() && e.value() > kMaxSide)
      return refuse(o, "sides of images have at most " + std::to_string(kMaxSide) + " pixels");
  }
  // The dims of the image take the place of those of the model's tensor.
  for (SymbolSource& source : g.symbol_sources) {
    if (source.kind != SymbolSource::Kind::InputDim || source.index != static_cast<int32_t>(input))
      continue;
    source.axis = source.axis == static_cast<int32_t>(t.height_axis) ? 0 : 1;
  }
  if (nv12) return Shape{height.value() / 2 * 3, width};
  return Shape{height, width, o.format == ImageFormat::R8 ? 1 : 4};
}

/// Adds a node for which the composer writes its decomposition.
graph::Node* add_place(Graph& g, const O& o, std::vector<ValueId> inputs, ValueId output,
                       graph::Node* before) {
  graph::NodeSpec spec = ops::image_place();
  spec.name = graph::image_origin(o.name);
  spec.inputs = std::move(inputs);
  spec.outputs = {output};
  return g.add_node(std::move(spec), before);
}

/// Puts what `write` adds in the place of the node.
template <typename F>
Status replace(Graph& g, graph::Node* place, const F& write) {
  ops::Rewriter rewriter(g, *place);
  ops::Composer c(rewriter);
  c.replace(0, write(c));
  RP_TRY(c.finish().status());
  g.erase_node(place);
  return {};
}

Status add_input(Graph& g, const O& o, size_t i) {
  const ValueId old = g.inputs[i];
  RP_ASSIGN(const ImageTensor t, read_tensor(g, old, o));
  RP_TRY(check_input(o, t));
  RP_ASSIGN(Shape shape, input_shape(g, o, t, i));
  graph::Node* first = g.nodes().empty() ? nullptr : g.nodes().front().get();
  const DType dtype = o.format == ImageFormat::Rgba16F ? DType::F16 : DType::U8;
  const ValueId pixels = g.add_value(o.name, dtype, std::move(shape));
  g.value(old).name = g.value(pixels).name;
  g.value(pixels).name = o.name;
  g.inputs[i] = pixels;
  ValueId crop = kNone;
  if (o.crop == O::Crop::Run) {
    crop = g.add_value(crop_input_of(o.name), DType::F32, {4});
    if (g.value(crop).name != crop_input_of(o.name))
      return refuse(o, "the model has another tensor '" + crop_input_of(o.name) +
                           "', which would be the input for the crop; rename it");
    g.inputs.push_back(crop);
  }
  graph::Node* place = add_place(g, o, {pixels}, old, first);
  return replace(g, place,
                 [&](ops::Composer& c) { return tensor_from_pixels(c, o, t, pixels, crop); });
}

Status check_output(const O& o, const ImageTensor& t) {
  RP_TRY(check_numbers(o, t));
  if (o.resize != O::Resize::None || o.crop != O::Crop::None || o.width != 0)
    return refuse(o, "only inputs are resized or cropped, or have a size of their own");
  if (o.format == ImageFormat::Nv12) {
    if (t.channels == 4)
      return refuse(o, "the model gives four channels, which nv12 does not have");
    if (!t.height.is_const() || !t.width.is_const())
      return refuse(o, "the model's size must be fixed for an output in nv12; use --shape");
    if (t.height.value() % 2 != 0 || t.width.value() % 2 != 0)
      return refuse(o, "the width and height of nv12 must be even");
  }
  if (o.format == ImageFormat::R8 && t.channels != 1)
    return refuse(o, "r8 has one channel, the model's tensor has " + std::to_string(t.channels));
  return {};
}

std::string names_of(const Graph& g) {
  std::string s;
  const auto add = [&](const std::string& name) { s += (s.empty() ? "'" : ", '") + name + "'"; };
  for (const ValueId v : g.inputs) add(g.value(v).name);
  for (size_t i = 0; i < g.outputs.size(); ++i) add(g.output_name(i));
  return s;
}

Status add_output(Graph& g, const O& o, size_t i) {
  const ValueId old = g.outputs[i];
  RP_ASSIGN(const ImageTensor t, read_tensor(g, old, o));
  RP_TRY(check_output(o, t));
  std::vector<ValueId> outputs = g.outputs.list();
  outputs[i] = g.add_unknown(o.name);
  if (g.output_names.empty())
    for (size_t k = 0; k < outputs.size(); ++k) g.output_names.push_back(g.output_name(k));
  graph::Node* place = add_place(g, o, {old}, outputs[i], nullptr);
  g.set_outputs(std::move(outputs));
  return replace(g, place, [&](ops::Composer& c) { return pixels_from_tensor(c, o, t, old); });
}

}  // namespace

bool is_image_size(const std::vector<ImageOption>& images, const std::string& name) {
  return std::ranges::any_of(images, [&](const O& o) {
    return has_own_size(o) && o.width == 0 && (name == rows_of(o) || name == columns_of(o));
  });
}

Status add_images(Graph& g, const std::vector<ImageOption>& images, const SizeRanges& ranges) {
  std::set<std::string> seen;
  for (const O& o : images) {
    if (!seen.insert(o.name).second) return refuse(o, "it is listed twice");
    const auto input =
        std::ranges::find_if(g.inputs, [&](ValueId v) { return g.value(v).name == o.name; });
    if (input != g.inputs.end()) {
      RP_TRY(add_input(g, o, static_cast<size_t>(input - g.inputs.begin())));
      continue;
    }
    size_t output = 0;
    while (output < g.outputs.size() && g.output_name(output) != o.name) ++output;
    if (output == g.outputs.size())
      return refuse(o, "the model has no input or output of this name; it has " + names_of(g));
    RP_TRY(add_output(g, o, output));
  }
  SizeRanges of_images = ranges;
  std::erase_if(of_images, [&](const auto& r) { return !is_image_size(images, r.first); });
  return graph::apply_ranges(g, of_images);
}

void describe_images(const std::vector<ImageOption>& images, plan::Interface& io) {
  for (const O& o : images) {
    for (auto* slots : {&io.inputs, &io.outputs}) {
      const auto slot = std::ranges::find(*slots, o.name, &plan::Slot::name);
      if (slot == slots->end()) continue;
      slot->image = o.format;
      slot->processing = describe(o);
      break;
    }
  }
}

}  // namespace reprise
