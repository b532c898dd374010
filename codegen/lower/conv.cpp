// Convolution as an implicit matrix product: rows are output pixels of all images, columns are
// output channels of a group, and the sum runs over input channels and kernel positions. Weights
// are packed like a MatMul's.
#include <algorithm>

#include "codegen/lower/contraction.h"
#include "codegen/lower/window.h"
#include "codegen/ops/quantize.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Ty;
using kernel::Val;

namespace {

constexpr int kMinColumns = 8;        // a group with fewer output channels is no product
constexpr int64_t kMaxUnrolled = 12;  // kernel positions written out in the body of a loop

/// A constant weight; one of 8 bits only if each output channel has one scale.
std::optional<ConstantOperand> weight_of(const graph::Graph& g, const Group& group) {
  const graph::Node& n = *group.anchor;
  const auto w = constant_operand(g, group, n.inputs[1]);
  if (!w || g.value(n.inputs[0]).dtype != g.value(n.inputs[1]).dtype) return std::nullopt;
  if (g.value(w->value).constant->count() == 0) return std::nullopt;
  if (w->dequantize == nullptr) return w;
  const auto axis = ops::scaled_axis(g, *w->dequantize);
  return axis && *axis <= 0 ? w : std::nullopt;
}

ConvParams params_of(const graph::Graph& g, const graph::Node& n, const ConstantOperand& weight) {
  const std::vector<int64_t>& dims = g.value(weight.value).constant->dims();
  ConvParams p;
  p.group = n.attrs.get_int("group", 1);
  p.strides = n.attrs.get_ints("strides");
  p.pads = n.attrs.get_ints("pads");
  p.dilations = n.attrs.get_ints("dilations");
  p.kernel.assign(dims.begin() + 2, dims.end());
  p.in_channels = dims[1];
  p.out_channels = dims[0] / p.group;
  return p;
}

class ConvProduct final : public Contraction {
 public:
  ConvProduct(const graph::Graph& g, const Group& group, const Target& target, ConvParams p,
              const ConstantOperand& weight)
      : Contraction(g, group, target),
        p_(std::move(p)),
        weight_(weight),
        windows_(ev_, g.value(group.anchor->inputs[0]).shape, group.domain, p_, false) {
    input_ = group.anchor->inputs[0];
    if (weight_.dequantize != nullptr)
      set_scale(weight_.dequantize, [this](const Expr& column) { return weight_index(column); });
    const Shape& d = group.domain;
    pixel_shape_.push_back(d[0]);
    pixel_shape_.insert(pixel_shape_.end(), d.begin() + 2, d.end());
    m_ = element_count(pixel_shape_);
    n_ = p_.out_channels;
    if (p_.group > 1) batch_ = {Expr(p_.group)};
    depth_total_ = p_.in_channels * p_.positions();
    k_ = depth_total_;
  }

  Result<Lowered> build(size_t choice) {
    shaders::ProductSize size;
    size.depth = static_cast<double>(depth_total_);
    size.left_loads = 4;
    size.unrolled = static_cast<double>(unrolled_positions() * (in_quads() > 0 ? 4 : 1));
    size.dynamic = std::any_of(pixel_shape_.begin() + 1, pixel_shape_.end(),
                               [](const Expr& dim) { return !dim.is_const(); });
    RP_ASSIGN(Lowered out, write(size, choice));
    out.schedule += ", implicit gemm";
    if (weight_.dequantize != nullptr) out.schedule += " 8-bit";
    PackedOperand packed = packing(out, weight_.value);
    packed.batch = p_.group;
    packed.k = depth_total_;
    packed.n = p_.out_channels;
    packed.transposed = true;
    out.packed.push_back(packed);
    return out;
  }

  void begin(const Expr& batch) override { channel_group_ = batch; }

  Index result_index(const Expr& row, const Expr& column) override {
    const Index pixel = ev_.unflatten(row, pixel_shape_);
    Index index{pixel[0], ev_.simplify(channel_group_ * Expr(p_.out_channels) + column)};
    index.insert(index.end(), pixel.begin() + 1, pixel.end());
    return index;
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

  bool right_along_k() const override { return false; }

  Status sum(const std::function<Status(int)>& step) override {
    Status status;
    const auto over = [&](int64_t from, int64_t to, int channels) {
      ev_.for_loop(b_.i32(from), b_.i32(to), b_.i32(1), to - from, [&](Val c) {
        ev_.push_scope();
        channels_ = channels;
        channel_ = Expr(channels) * ev_.symbol(c, to);
        status = kernel_loops({}, step);
        ev_.pop_scope();
      });
    };
    const int64_t quads = in_quads();
    if (quads > 0) over(0, quads, 4);
    RP_TRY(status);
    if (4 * quads < p_.in_channels) over(4 * quads, p_.in_channels, 1);
    return status;
  }

  Result<Values> left(int row) override {
    Values out;
    for (const Position& at : step_) {
      RP_ASSIGN(const Val x, input_at(pixels_[static_cast<size_t>(row)], at));
      out.push_back(x);
    }
    return out;
  }

  Result<Values> right(int column, Val position) override {
    // Positions of a step lie side by side in the packed weights.
    Expr first = step_[0].channel;
    for (size_t d = 0; d < p_.kernel.size(); ++d)
      first = first * Expr(p_.kernel[d]) + step_[0].kernel[d];
    return scalars(packed(column, b_.add(ev_.value(first), position)));
  }

  bool left_along_k() const override { return false; }

  Result<Values> left_at(int row, Val quad) override {
    return four_positions(quad, false, [&](const Expr& k, int) -> Result<Val> {
      return input_at(pixels_[static_cast<size_t>(row)], position_at(k));
    });
  }

  Result<Values> right_at(int column, Val position) override {
    return one_position(position, [&](const Expr& k, int) { return packed(column, ev_.value(k)); });
  }

 private:
  /// One position of the sum.
  struct Position {
    Expr channel;  // within the group
    std::vector<Expr> kernel;
  };
  /// Position k of the sum. Its coordinates become values of their own, as a row's.
  Position position_at(const Expr& k) {
    Shape shape{Expr(p_.in_channels)};
    for (const int64_t size : p_.kernel) shape.emplace_back(size);
    const Index index = ev_.unflatten(k, shape);
    std::vector<Expr> own;
    for (size_t d = 0; d < shape.size(); ++d)
      own.push_back(ev_.symbol(ev_.value(index[d]), shape[d]));
    return {own[0], {own.begin() + 1, own.end()}};
  }

  /// Steps cover several positions, so that accumulators stay in registers over them: those of the
  /// kernel if it has enough, else also of several channels.
  int64_t in_quads() const {
    constexpr int64_t kFewPositions = 4;
    return p_.positions() < kFewPositions ? p_.in_channels / 4 : 0;
  }
  int64_t unrolled_positions() const {
    int64_t n = 1;
    for (size_t d = p_.kernel.size(); d-- > 0 && n * p_.kernel[d] <= kMaxUnrolled;)
      n *= p_.kernel[d];
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

  /// The input under a position of the kernel; zero in the padding.
  Result<Val> input_at(const Index& pixel, const Position& position) {
    const Expr channel = channel_group_ * Expr(p_.in_channels) + position.channel;
    const InputPosition at = windows_.input(pixel, position.kernel, channel);
    RP_ASSIGN(const Values x, scalars(ev_.eval(input_, at.index)));
    return at.inside ? b_.select(at.inside, x[0], b_.f32(0)) : x[0];
  }

  /// Loops over the outer axes of the kernel, and calls `step` for all positions of the inner ones.
  Status kernel_loops(const std::vector<Expr>& outer, const std::function<Status(int)>& step) {
    const size_t axis = outer.size();
    int64_t inner = 1;
    for (size_t d = axis; d < p_.kernel.size(); ++d) inner *= p_.kernel[d];
    if (inner <= kMaxUnrolled) {
      step_.clear();
      for (int c = 0; c < channels_; ++c) add_positions({channel_ + Expr(c), outer});
      return step(static_cast<int>(step_.size()));
    }
    Status status;
    ev_.for_loop(b_.i32(0), b_.i32(p_.kernel[axis]), b_.i32(1), p_.kernel[axis], [&](Val k) {
      ev_.push_scope();
      std::vector<Expr> at = outer;
      at.push_back(ev_.symbol(k, p_.kernel[axis]));
      status = kernel_loops(at, step);
      ev_.pop_scope();
    });
    return status;
  }

  void add_positions(const Position& from) {
    const size_t axis = from.kernel.size();
    if (axis == p_.kernel.size()) {
      step_.push_back(from);
      return;
    }
    for (int64_t k = 0; k < p_.kernel[axis]; ++k) {
      Position next = from;
      next.kernel.emplace_back(k);
      add_positions(next);
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
  Expr channel_;      // the first one of the loop's body, within the group
  int channels_ = 1;  // of the loop's body
  std::vector<Position> step_;
};

}  // namespace

Result<Lowered> lower_conv(const graph::Graph& g, const Group& group, const Target& target,
                           size_t choice) {
  const auto weight = weight_of(g, group);
  if (!weight) return lower_pointwise(g, group, target);
  ConvParams params = params_of(g, *group.anchor, *weight);
  if (params.group > 1 && params.out_channels < kMinColumns)
    return lower_depthwise(g, group, target, params);
  return ConvProduct(g, group, target, std::move(params), *weight).build(choice);
}

}  // namespace reprise::lower
