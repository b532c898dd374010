// Convolution as an implicit GEMM: M counts output pixels of all images, N counts output channels
// of a group, and K runs over input channels and kernel positions. Constant weights are packed like
// a MatMul's. With channels last, one load reads four channels of the input at a kernel position,
// and one store writes four output channels.
#include <algorithm>

#include "codegen/lower/kernels/kernels.h"
#include "codegen/lower/launch/window.h"
#include "codegen/lower/problems/contraction.h"

namespace reprise::lower {

using graph::ValueId;

namespace {

constexpr int64_t kMaxUnrolled = 12;  // kernel positions in the unrolled body of a loop
constexpr int64_t kFewPositions = 4;  // with fewer positions than this, steps are too short
/// A prologue of more instructions than this for four elements, such as one that resizes an image,
/// is written once for each row of a tile and not also for each kernel position.
constexpr int kLongPrologue = 128;

struct Weight {
  ValueId value = graph::kNone;             // the operand of the convolution
  std::optional<ConstantOperand> constant;  // unset: it is known in a run only
};

/// The weight if its size is known and, if it has 8 bits, has one scale for each output channel.
std::optional<Weight> weight_of(const graph::Graph& g, const Group& group) {
  const graph::Node& n = *group.anchor;
  const graph::Value& v = g.value(n.inputs[1]);
  if (g.value(n.inputs[0]).dtype != v.dtype) return std::nullopt;
  const Weight w{n.inputs[1], constant_operand(g, group, n.inputs[1])};
  if (!w.constant) {
    const bool fits = is_gemm_float(v.dtype) && is_static(v.shape) && !v.constant;
    return fits ? std::optional(w) : std::nullopt;
  }
  if (w.constant->dequantize == nullptr) return w;
  return scales_result(g, *w.constant, 0) ? std::optional(w) : std::nullopt;
}

ConvParams params_of(const graph::Graph& g, const graph::Node& n, const Weight& weight) {
  std::vector<int64_t> dims;
  for (const Expr& dim : g.value(weight.value).shape) dims.push_back(dim.value());
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

/// A convolution as an implicit GEMM, before a tile is chosen.
struct ConvGemm {
  ConvGemm(const graph::Graph& g, const Group& group, ConvParams params, Weight of, bool slow_loads)
      : p(std::move(params)),
        weight(of),
        input(group.anchor->inputs[0]),
        input_shape(g.value(input).shape),
        output_shape(group.domain),
        k(p.in_channels * p.positions()) {
    pixels.push_back(group.domain[0]);
    const auto spatial = p.spatial(group.domain);
    pixels.insert(pixels.end(), spatial.begin(), spatial.end());
    const bool long_steps = p.positions() < kFewPositions || positions_up_to(kMaxUnrolled / 4) > 1;
    vector_channels = p.channels_last() && p.in_channels >= 4 && long_steps && !slow_loads;
    unrolled_limit = vector_channels ? kMaxUnrolled / 4 : kMaxUnrolled;
    if (input_shape.size() < 2 || g.value(input).producer == nullptr) return;
    const int instructions =
        operand_cost(g, group, input, true, input_shape.back(), input_shape[input_shape.size() - 2])
            .instructions;
    if (instructions <= kLongPrologue) return;
    a_prologue = instructions;
    unrolled_limit = 1;
  }

  /// Number of steps over four channels. A step covers several positions along K, so that
  /// accumulators stay in registers meanwhile: several kernel positions if the kernel has enough,
  /// else also four channels.
  int64_t channel_quads() const {
    return vector_channels || p.positions() < kFewPositions ? p.in_channels / 4 : 0;
  }
  /// Kernel positions in the body of a loop.
  int64_t unrolled_positions() const { return positions_up_to(unrolled_limit); }
  /// Positions of the kernel's innermost axes, as many axes as have at most `limit` positions.
  int64_t positions_up_to(int64_t limit) const {
    int64_t n = 1;
    for (size_t d = p.kernel.size(); d-- > 0 && n * p.kernel[d] <= limit;) n *= p.kernel[d];
    return n;
  }
  /// Whether the four values of k from every multiple of 4 are consecutive in memory.
  bool aligned_channels() const { return p.channels_last() && p.in_channels % 4 == 0; }

  ConvParams p;
  /// Whether a node of the kernel dequantises the weight.
  const graph::Node* dequantize() const {
    return weight.constant ? weight.constant->dequantize : nullptr;
  }

  Weight weight;
  ValueId input;
  Shape input_shape, output_shape;
  Shape pixels;  // batch and spatial dims of the output
  int64_t k;
  /// Whether steps load four channels at once. They do not if steps of single channels cover
  /// more positions. Nor do they on drivers with slow loads, on which a vector takes as long as
  /// four elements, and weights that are not consecutive take longer.
  bool vector_channels = false;
  int64_t unrolled_limit = 0;
  int a_prologue = 0;  // instructions of a long prologue
};

class ConvOperands final : public TileOperands {
 public:
  ConvOperands(const ConvGemm& conv, ResultKernel& kernel, const shaders::Tile& tile,
               const WorkUnit& unit)
      : TileOperands(kernel, tile, unit, conv.k),
        conv_(conv),
        p_(conv.p),
        windows_(ev_, conv.input_shape, conv.output_shape, p_, false) {
    if (conv.dequantize() != nullptr) {
      scale_result(conv.dequantize(), [this](const Expr& column) { return weight_index(column); });
    }
  }

  Index result_index(const Expr& row, const Expr& column) override {
    const Index pixel = ev_.unflatten(row, conv_.pixels);
    return p_.axes.arrange(pixel[0], ev_.simplify(unit_.batch * Expr(p_.out_channels) + column),
                           std::span(pixel).subspan(1));
  }

  bool a_along_k() const override { return conv_.aligned_channels(); }
  /// Packing keeps the weight's order of k, by channel. With channels last, A has another one.
  shaders::Operand b() override {
    const bool same_order = !p_.channels_last() || p_.positions() == 1 || p_.in_channels == 1;
    if (!conv_.weight.constant || !same_order) return {};
    return packed_operand(*conv_.weight.constant);
  }
  bool b_along_k() const override { return false; }

  Index row(Value at) override {
    return own_values(ev_.unflatten(kernel_.clamped_row(at), conv_.pixels), conv_.pixels);
  }
  shaders::Column column(Value at) override { return {at, {}}; }

  Status k_loop(const shaders::KStepBody& body) override {
    const int64_t quads = conv_.channel_quads();
    if (conv_.vector_channels) {
      // The loop over channels is the inner one, so that a window is located outside of it.
      RP_TRY(kernel_loops({}, [&](const std::vector<Index>& taps) {
        return channel_loop(0, quads, 4, [&](const Expr& channel) {
          return body({channel, 4, taps});
        });
      }));
    } else if (quads > 0) {
      RP_TRY(channel_loop(0, quads, 4, [&](const Expr& channel) {
        return kernel_loops({}, [&](const std::vector<Index>& taps) {
          return body({channel, 4, taps});
        });
      }));
    }
    if (4 * quads == p_.in_channels) return {};
    return channel_loop(4 * quads, p_.in_channels, 1, [&](const Expr& channel) {
      return kernel_loops({}, [&](const std::vector<Index>& taps) {
        return body({channel, 1, taps});
      });
    });
  }

  /// The elements are ordered by kernel position if steps have vectors of channels, else by
  /// channel.
  Result<Values> load_a(const Index& pixel, const shaders::KStep& step) override {
    const bool vectors = conv_.vector_channels && step.count == 4;
    Values out;
    for (int c = 0; c < (vectors ? 1 : step.count); ++c) {
      for (const Index& tap : step.taps) {
        const Expr channel = step.first + (vectors ? ev_.lane() : Expr(c));
        RP_ASSIGN(const Values x, input_at(pixel, {channel, tap}, vectors ? 4 : 1));
        out.insert(out.end(), x.begin(), x.end());
      }
    }
    return out;
  }

  Result<Values> load_b(const shaders::Column& column, const shaders::KStep& step,
                        Value k) override {
    const Value first = ev_.value(weight_position({step.first, step.taps[0]}));
    if (conv_.vector_channels && step.count == 4) k = k / 4 + k % 4 * p_.positions();
    return kernel_.scalars(weights(column, first + k));
  }

  Result<Values> load_a_block(const Index& pixel, Value quad, bool whole) override {
    return load_quad(quad, a_along_k(), whole, [&](const Expr& k, int lanes) -> Result<Val> {
      const Expr first = lanes == 4 ? ev_.simplify(k - ev_.lane()) : k;
      RP_ASSIGN(const Values x, input_at(pixel, position_at(first, lanes), lanes));
      return lanes == 4 ? b_.compose(x) : Value(b_, x[0]);
    });
  }

  Result<Values> load_b_block(const shaders::Column& column, Value k, bool whole) override {
    return load_one(k, whole, [&](const Expr& at, int) {
      return weights(column,
                     ev_.value(p_.channels_last() ? weight_position(position_at(at, 1)) : at));
    });
  }

 private:
  /// One position along K.
  struct Position {
    Expr channel;  // within the group
    Index kernel;
  };

  /// Makes each coordinate a symbol, so that addresses in the loop contain no divisions.
  Index own_values(const Index& index, const Shape& shape) {
    Index own;
    for (size_t d = 0; d < index.size(); ++d)
      own.push_back(ev_.symbol(ev_.value(index[d]), shape[d]));
    return own;
  }

  /// The position of k or, if `lanes` is 4, of the four channels from k, a multiple of 4. K is
  /// ordered by channel, or by kernel position with channels last.
  Position position_at(const Expr& k, int lanes) {
    const size_t channel_axis = p_.channels_last() ? p_.kernel.size() : 0;
    Shape shape;
    for (const int64_t size : p_.kernel) shape.emplace_back(size);
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(channel_axis),
                 Expr(p_.in_channels / lanes));
    Index at = own_values(ev_.unflatten(ev_.simplify(Expr::floordiv(k, lanes)), shape), shape);
    Expr channel = at[channel_axis];
    if (lanes == 4) channel = Expr(4) * channel + ev_.lane();
    at.erase(at.begin() + static_cast<std::ptrdiff_t>(channel_axis));
    return {channel, at};
  }

  /// The number of a position along K in the weight's order, which packing keeps.
  Expr weight_position(const Position& at) const {
    Expr k = at.channel;
    for (size_t d = 0; d < p_.kernel.size(); ++d) k = k * Expr(p_.kernel[d]) + at.kernel[d];
    return k;
  }

  /// The weights of four columns at number k in the weight's order.
  Result<Val> weights(const shaders::Column& column, Value k) {
    if (conv_.weight.constant) {
      return load_packed(*conv_.weight.constant, column.vec, k,
                         [this](const Expr& c) { return weight_index(c); });
    }
    Shape rest{Expr(p_.in_channels)};
    for (const int64_t size : p_.kernel) rest.emplace_back(size);
    const Index position = ev_.unflatten(ev_.symbol(k, k_), rest);
    const auto at = [&](const Expr& c, int lanes) {
      Index index = weight_index(c);
      std::ranges::copy(position, index.begin() + 1);
      return ev_.eval(conv_.weight.value, index, lanes);
    };
    if (p_.out_channels % 4 == 0) return at(kernel_.clamped_vec(column.vec) + ev_.lane(), 4);
    std::vector<Val> four;
    for (int l = 0; l < 4; ++l) {
      RP_ASSIGN(const Val x, at(kernel_.clamped_column(column.vec * 4 + l), 1));
      four.push_back(x);
    }
    return b_.compose(four);
  }

  /// The index of a weight element with the scale of this column.
  Index weight_index(const Expr& column) const {
    Index at(p_.kernel.size() + 2, Expr(0));
    at[0] = unit_.batch * Expr(p_.out_channels) + column;
    return at;
  }

  /// The input under a position of the kernel, or zero in the padding. With 4 lanes, four channels.
  Result<Values> input_at(const Index& pixel, const Position& position, int lanes) {
    const Expr channel = unit_.batch * Expr(p_.in_channels) + position.channel;
    const InputPosition at = windows_.input(pixel, position.kernel, channel);
    RP_ASSIGN(Values x, kernel_.scalars(ev_.eval(conv_.input, at.index, lanes)));
    if (!at.inside) return x;
    for (Val& v : x) v = b_.select(at.inside, v, b_.f32(0));
    return x;
  }

  /// Loops over channels [from, to), `count` of them at a time.
  Status channel_loop(int64_t from, int64_t to, int count,
                      const std::function<Status(const Expr& channel)>& body) {
    return ev_.for_loop(b_.i32(from), b_.i32(to), b_.i32(1), to - from,
                        [&](Value c) { return body(Expr(count) * ev_.symbol(c, to)); });
  }

  /// Loops over the outer axes of the kernel and calls `body` with all positions of the inner axes.
  using TapsBody = std::function<Status(const std::vector<Index>& taps)>;
  Status kernel_loops(const Index& outer, const TapsBody& body) {
    const size_t axis = outer.size();
    int64_t inner = 1;
    for (size_t d = axis; d < p_.kernel.size(); ++d) inner *= p_.kernel[d];
    if (inner <= conv_.unrolled_limit) {
      std::vector<Index> taps;
      add_taps(outer, taps);
      return body(taps);
    }
    return ev_.for_loop(p_.kernel[axis], [&](Value k) {
      Index at = outer;
      at.push_back(ev_.symbol(k, p_.kernel[axis]));
      return kernel_loops(at, body);
    });
  }

  void add_taps(const Index& from, std::vector<Index>& taps) const {
    if (from.size() == p_.kernel.size()) {
      taps.push_back(from);
      return;
    }
    for (int64_t k = 0; k < p_.kernel[from.size()]; ++k) {
      Index next = from;
      next.emplace_back(k);
      add_taps(next, taps);
    }
  }

  const ConvGemm& conv_;
  const ConvParams& p_;
  Windows windows_;
};

Result<Lowered> lower_implicit_gemm(const graph::Graph& g, const Group& group,
                                    const TargetFacts& target, const ConvGemm& conv,
                                    size_t choice) {
  const ConvParams& p = conv.p;
  ContractionProblem problem;
  problem.result.m = element_count(conv.pixels);
  problem.result.n = p.out_channels;
  problem.result.vector_n = p.channels_last() && p.out_channels % 4 == 0;
  if (p.group > 1) problem.result.batch = {Expr(p.group)};
  problem.size.k = static_cast<double>(conv.k);
  problem.size.a_loads = conv.vector_channels ? 1 : 4;
  problem.size.b_loads = conv.weight.constant ? 1 : 4;
  problem.size.a_prologue = conv.a_prologue;
  problem.size.unrolled =
      static_cast<double>(conv.unrolled_positions() * (conv.channel_quads() > 0 ? 4 : 1));
  problem.size.dynamic = std::any_of(conv.pixels.begin() + 1, conv.pixels.end(),
                                     [](const Expr& dim) { return !dim.is_const(); });
  problem.note = conv.dequantize() != nullptr ? ", implicit gemm 8-bit" : ", implicit gemm";
  if (conv.weight.constant) problem.constant = conv.weight.constant->value;
  problem.weight = {p.group, conv.k, p.out_channels, true};
  problem.integers = conv.dequantize() != nullptr;
  problem.operands = [&](ResultKernel& kernel, const shaders::Tile& tile, const WorkUnit& unit) {
    return std::make_unique<ConvOperands>(conv, kernel, tile, unit);
  };
  return lower_contraction(g, group, target, std::move(problem), choice);
}

}  // namespace

Result<Lowered> lower_conv(const graph::Graph& g, const Group& group, const TargetFacts& target,
                           size_t choice) {
  const auto weight = weight_of(g, group);
  if (!weight) return lower_pointwise(g, group, target, choice);
  ConvParams params = params_of(g, *group.anchor, *weight);
  const ops::ConvForm form = ops::conv_form(params.group, params.in_channels, params.out_channels);
  if (form == ops::ConvForm::Gemm) {
    const ConvGemm conv(g, group, std::move(params), *weight, target.slow_loads());
    return lower_implicit_gemm(g, group, target, conv, choice);
  }
  // With channels last, only the depthwise form has a kernel: it computes vectors of channels.
  const bool vectors = form == ops::ConvForm::Depthwise && params.group % 4 == 0;
  if (params.channels_last() && !vectors) return lower_pointwise(g, group, target, choice);
  return lower_depthwise(g, group, target, params, choice);
}

}  // namespace reprise::lower
