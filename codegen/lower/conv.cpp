// Convolution as an implicit GEMM: rows are output pixels of all images, columns are
// output channels of a group, and the sum runs over input channels and kernel positions. Weights
// are packed like a MatMul's. With channels last, four channels at a kernel position are one load
// of the input, and four output channels one store.
#include <algorithm>

#include "codegen/lower/contraction.h"
#include "codegen/lower/window.h"
#include "codegen/ops/quantize.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Ty;
using kernel::Val;

namespace {

constexpr int64_t kMaxUnrolled = 12;  // kernel positions written out in the body of a loop
constexpr int64_t kFewPositions = 4;  // fewer make steps too short

/// A constant weight; one of 8 bits only if each output channel has one scale.
std::optional<ConstantOperand> weight_of(const graph::Graph& g, const Group& group) {
  const graph::Node& n = *group.anchor;
  const auto w = constant_operand(g, group, n.inputs[1]);
  if (!w || g.value(n.inputs[0]).dtype != g.value(n.inputs[1]).dtype) return std::nullopt;
  if (w->dequantize == nullptr) return w;
  const auto axis = ops::scaled_axis(g, *w->dequantize);
  return axis && *axis <= 0 ? w : std::nullopt;
}

ConvParams params_of(const graph::Graph& g, const graph::Node& n, const ConstantOperand& weight) {
  const std::vector<int64_t>& dims = g.value(weight.value).constant->dims();
  ConvParams p;
  p.axes = ops::data_axes(n, dims.size());
  p.group = ops::Attributes(n).get_int("group");
  p.strides = ops::Attributes(n).get_ints("strides");
  p.pads = ops::Attributes(n).get_ints("pads");
  p.dilations = ops::Attributes(n).get_ints("dilations");
  p.kernel.assign(dims.begin() + 2, dims.end());
  p.in_channels = dims[1];
  p.out_channels = dims[0] / p.group;
  return p;
}

class ConvGemm final : public Contraction {
 public:
  ConvGemm(const graph::Graph& g, const Group& group, const TargetFacts& target, ConvParams p,
           const ConstantOperand& weight)
      : Contraction(g, group, target),
        p_(std::move(p)),
        weight_(weight),
        windows_(ev_, g.value(group.anchor->inputs[0]).shape, group.domain, p_, false) {
    input_ = group.anchor->inputs[0];
    if (weight_.dequantize != nullptr)
      set_scale(weight_.dequantize, [this](const Expr& column) { return weight_index(column); });
    pixel_shape_.push_back(group.domain[0]);
    const auto spatial = p_.spatial(group.domain);
    pixel_shape_.insert(pixel_shape_.end(), spatial.begin(), spatial.end());
    m_ = element_count(pixel_shape_);
    n_ = p_.out_channels;
    wide_n_ = p_.channels_last() && p_.out_channels % 4 == 0;
    if (p_.group > 1) batch_ = {Expr(p_.group)};
    depth_total_ = p_.in_channels * p_.positions();
    k_ = depth_total_;
  }

  Result<Lowered> build(size_t choice) {
    shaders::GemmSize size;
    size.k = static_cast<double>(depth_total_);
    size.a_loads = vector_channels() ? 1 : 4;
    size.unrolled = static_cast<double>(unrolled_positions() * (in_quads() > 0 ? 4 : 1));
    size.dynamic = std::any_of(pixel_shape_.begin() + 1, pixel_shape_.end(),
                               [](const Expr& dim) { return !dim.is_const(); });
    RP_ASSIGN(Lowered out, write(size, choice));
    out.schedule += ", implicit gemm";
    if (weight_.dequantize != nullptr) out.schedule += " 8-bit";
    PackedOperand packed;
    packed.batch = p_.group;
    packed.k = depth_total_;
    packed.n = p_.out_channels;
    packed.transposed = true;
    pack(out, weight_.value, packed);
    return out;
  }

  void begin(const Expr& batch) override { channel_group_ = batch; }

  Index result_index(const Expr& row, const Expr& column) override {
    const Index pixel = ev_.unflatten(row, pixel_shape_);
    return p_.axes.arrange(pixel[0], ev_.simplify(channel_group_ * Expr(p_.out_channels) + column),
                           std::span(pixel).subspan(1));
  }

  int row(Val at) override {
    const Index pixel = ev_.unflatten(clamped_row(at), pixel_shape_);
    // As values of their own, so that addresses in the loop do not divide.
    Index own;
    for (size_t d = 0; d < pixel.size(); ++d)
      own.push_back(ev_.symbol(ev_.value(pixel[d]), pixel_shape_[d]));
    pixels_.push_back(std::move(own));
    return static_cast<int>(pixels_.size()) - 1;
  }

  int column(Val at) override {
    columns_.push_back(at);
    return static_cast<int>(columns_.size()) - 1;
  }

  bool b_along_k() const override { return false; }

  Status k_loop(const std::function<Status(int)>& step) override {
    const int64_t quads = in_quads();
    const auto emit = [&] { return step(static_cast<int>(taps_.size()) * channels_); };
    if (vector_channels()) {
      // Where a pixel's window lies is computed outside the loop over channels.
      RP_TRY(kernel_loops({}, [&] { return channel_loop(0, quads, 4, emit); }));
    } else if (quads > 0) {
      RP_TRY(channel_loop(0, quads, 4, [&] { return kernel_loops({}, emit); }));
    }
    if (4 * quads == p_.in_channels) return {};
    return channel_loop(4 * quads, p_.in_channels, 1, [&] { return kernel_loops({}, emit); });
  }

  /// The positions of a step: with vectors of channels by kernel position, else by channel.
  Result<Values> load_a(int row) override {
    const Index& pixel = pixels_[static_cast<size_t>(row)];
    const bool vectors = vector_channels() && channels_ == 4;
    Values out;
    for (int c = 0; c < (vectors ? 1 : channels_); ++c) {
      for (const Index& tap : taps_) {
        const Expr channel = channel_ + (vectors ? ev_.lane() : Expr(c));
        RP_ASSIGN(const Values x, input_at(pixel, {channel, tap}, vectors ? 4 : 1));
        out.insert(out.end(), x.begin(), x.end());
      }
    }
    return out;
  }

  Result<Values> load_b(int column, Val position) override {
    const Val first = ev_.value(weight_position({channel_, taps_[0]}));
    if (vector_channels() && channels_ == 4) {
      const Val channel = b_.mul(b_.rem(position, b_.i32(4)), b_.i32(p_.positions()));
      position = b_.add(b_.div(position, b_.i32(4)), channel);
    }
    return scalars(packed(column, b_.add(first, position)));
  }

  bool a_along_k() const override { return aligned_channels(); }

  Result<Values> load_a_block(int row, Val quad) override {
    const Index& pixel = pixels_[static_cast<size_t>(row)];
    return four_positions(quad, aligned_channels(), [&](const Expr& k, int lanes) -> Result<Val> {
      const Expr first = lanes == 4 ? ev_.simplify(k - ev_.lane()) : k;
      RP_ASSIGN(const Values x, input_at(pixel, position_at(first, lanes), lanes));
      return lanes == 4 ? b_.compose(x) : x[0];
    });
  }

  Result<Values> load_b_block(int column, Val position) override {
    return one_position(position, [&](const Expr& k, int) {
      const Expr at = p_.channels_last() ? weight_position(position_at(k, 1)) : k;
      return packed(column, ev_.value(at));
    });
  }

 private:
  /// One position along K.
  struct Position {
    Expr channel;  // within the group
    std::vector<Expr> kernel;
  };
  /// Position k of the sum, or with `lanes` = 4 the four channels from k, a multiple of 4: by
  /// channel, or with channels last by kernel position. Coordinates become values of their own, as
  /// a row's.
  Position position_at(const Expr& k, int lanes) {
    const size_t channel_axis = p_.channels_last() ? p_.kernel.size() : 0;
    Shape shape;
    for (const int64_t size : p_.kernel) shape.emplace_back(size);
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(channel_axis),
                 Expr(p_.in_channels / lanes));
    const Index index = ev_.unflatten(ev_.simplify(Expr::floordiv(k, lanes)), shape);
    Index own;
    for (size_t d = 0; d < shape.size(); ++d)
      own.push_back(ev_.symbol(ev_.value(index[d]), shape[d]));
    Expr channel = own[channel_axis];
    if (lanes == 4) channel = Expr(4) * channel + ev_.lane();
    own.erase(own.begin() + static_cast<std::ptrdiff_t>(channel_axis));
    return {channel, own};
  }

  /// A position along K in the packed weights, which are in the weight's order.
  Expr weight_position(const Position& at) const {
    Expr k = at.channel;
    for (size_t d = 0; d < p_.kernel.size(); ++d) k = k * Expr(p_.kernel[d]) + at.kernel[d];
    return k;
  }

  /// Whether steps load four channels at once. Not where steps of single channels cover more
  /// positions, nor with a driver of slow loads, which takes as long for a vector as for four
  /// elements, and longer for weights that lie apart.
  bool vector_channels() const {
    const bool long_steps = p_.positions() < kFewPositions || positions_up_to(kMaxUnrolled / 4) > 1;
    return p_.channels_last() && p_.in_channels >= 4 && long_steps && !target_.slow_loads();
  }
  /// Whether no four positions along K from a multiple of 4 lie apart.
  bool aligned_channels() const { return p_.channels_last() && p_.in_channels % 4 == 0; }

  /// Steps cover several positions, so that accumulators stay in registers over them: those of the
  /// kernel if it has enough, else also of several channels.
  int64_t in_quads() const {
    return vector_channels() || p_.positions() < kFewPositions ? p_.in_channels / 4 : 0;
  }
  /// Kernel positions in the body of a loop.
  int64_t unrolled_limit() const { return vector_channels() ? kMaxUnrolled / 4 : kMaxUnrolled; }
  int64_t unrolled_positions() const { return positions_up_to(unrolled_limit()); }
  /// Of the inner axes of the kernel, as many as have so many positions.
  int64_t positions_up_to(int64_t limit) const {
    int64_t n = 1;
    for (size_t d = p_.kernel.size(); d-- > 0 && n * p_.kernel[d] <= limit;) n *= p_.kernel[d];
    return n;
  }

  Result<Val> packed(int column, Val position) {
    const Val vec = columns_[static_cast<size_t>(column)];
    const Val raw = load_packed(weight_.value, depth_total_, vec, position);
    if (weight_.dequantize == nullptr) return raw;
    return dequantized(*weight_.dequantize, raw, vec,
                       [this](const Expr& c) { return weight_index(c); });
  }

  /// Of an element with a column's scale.
  Index weight_index(const Expr& column) const {
    Index at(p_.kernel.size() + 2, Expr(0));
    at[0] = channel_group_ * Expr(p_.out_channels) + column;
    return at;
  }

  /// The input under a position of the kernel, zero in the padding; four channels with lanes.
  Result<Values> input_at(const Index& pixel, const Position& position, int lanes) {
    const Expr channel = channel_group_ * Expr(p_.in_channels) + position.channel;
    const InputPosition at = windows_.input(pixel, position.kernel, channel);
    RP_ASSIGN(Values x, scalars(ev_.eval(input_, at.index, lanes)));
    if (!at.inside) return x;
    for (Val& v : x) v = b_.select(at.inside, v, b_.f32(0));
    return x;
  }

  /// Runs `body` for channels [from, to) of `channels` each.
  Status channel_loop(int64_t from, int64_t to, int channels, const Body& body) {
    Status status;
    ev_.for_loop(b_.i32(from), b_.i32(to), b_.i32(1), to - from, [&](Val c) {
      ev_.push_scope();
      channels_ = channels;
      channel_ = Expr(channels) * ev_.symbol(c, to);
      status = body();
      ev_.pop_scope();
    });
    return status;
  }

  /// Loops over the outer axes of the kernel, and runs `body` with taps_ all positions of the inner
  /// ones.
  Status kernel_loops(const Index& outer, const Body& body) {
    const size_t axis = outer.size();
    int64_t inner = 1;
    for (size_t d = axis; d < p_.kernel.size(); ++d) inner *= p_.kernel[d];
    if (inner <= unrolled_limit()) {
      taps_.clear();
      add_taps(outer);
      return body();
    }
    Status status;
    ev_.for_loop(b_.i32(0), b_.i32(p_.kernel[axis]), b_.i32(1), p_.kernel[axis], [&](Val k) {
      ev_.push_scope();
      Index at = outer;
      at.push_back(ev_.symbol(k, p_.kernel[axis]));
      status = kernel_loops(at, body);
      ev_.pop_scope();
    });
    return status;
  }

  void add_taps(const Index& from) {
    if (from.size() == p_.kernel.size()) {
      taps_.push_back(from);
      return;
    }
    for (int64_t k = 0; k < p_.kernel[from.size()]; ++k) {
      Index next = from;
      next.emplace_back(k);
      add_taps(next);
    }
  }

  ConvParams p_;
  ConstantOperand weight_;
  Windows windows_;
  ValueId input_;
  Shape pixel_shape_;  // batch and spatial dims of the output
  int64_t depth_total_ = 0;
  Expr channel_group_;
  std::vector<Index> pixels_;
  std::vector<Val> columns_;
  Expr channel_;             // the first one of the loop's body, within the group
  int channels_ = 1;         // of the loop's body
  std::vector<Index> taps_;  // kernel positions of a step
};

}  // namespace

Result<Lowered> lower_conv(const graph::Graph& g, const Group& group, const TargetFacts& target,
                           size_t choice) {
  const auto weight = weight_of(g, group);
  if (!weight) return lower_pointwise(g, group, target);
  ConvParams params = params_of(g, *group.anchor, *weight);
  const ops::ConvForm form = ops::conv_form(params.group, params.in_channels, params.out_channels);
  if (form == ops::ConvForm::Gemm)
    return ConvGemm(g, group, target, std::move(params), *weight).build(choice);
  // With channels last, vectors of them.
  const bool vectors = form == ops::ConvForm::Depthwise && params.group % 4 == 0;
  if (params.channels_last() && !vectors) return lower_pointwise(g, group, target);
  return lower_depthwise(g, group, target, params);
}

}  // namespace reprise::lower
