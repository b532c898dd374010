// Convolution of groups with few output channels, mostly depthwise, which leave no GEMM to tile. An
// invocation computes `width` neighbouring outputs of a channel along the last spatial axis; with
// channels last, of four channels as vectors. Their windows overlap, and each input element and
// weight is loaded once.
#include <algorithm>

#include "codegen/lower/launch/window.h"
#include "codegen/lower/problems/contraction.h"
#include "shaders/result_tile.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Ty;

namespace {

struct WindowSchedule {
  int width = 8;            // outputs of an invocation along the last spatial axis
  uint32_t workgroup = 64;  // invocations
  int lanes = 1;            // channels of an invocation
  double cost = 0;

  std::string describe() const {
    std::string name = "windows of " + std::to_string(width);
    return lanes > 1 ? name + " v" + std::to_string(lanes) : name;
  }
};

std::vector<WindowSchedule> window_schedules(const ConvParams& p, const TargetFacts& target) {
  std::vector<WindowSchedule> out;
  for (const int width : {8, 4}) {
    WindowSchedule s;
    s.width = width;
    s.workgroup = target.cpu_type() ? 16 : 64;
    s.lanes = p.channels_last() ? 4 : 1;
    s.cost = preference_cost(out.size());
    out.push_back(s);
  }
  return out;
}

class DepthwiseKernel {
 public:
  DepthwiseKernel(const graph::Graph& g, const Group& group, const TargetFacts& target,
                  const ConvParams& p, const WindowSchedule& schedule)
      : g_(g),
        group_(group),
        p_(p),
        s_(schedule),
        lanes_(schedule.lanes),
        b_(kernel_name(group)),
        ev_(g, group, b_),
        last_(p_.axes.spatial + p_.kernel.size() - 1),
        width_(group.domain[last_]),
        exact_width_(width_.known_divisor(g.symbols) % s_.width == 0),
        windows_(ev_, g.value(group.anchor->inputs[0]).shape, group.domain, p_, !exact_width_) {
    limit_loops(ev_, target);
    input_ = group.anchor->inputs[0];
    weights_ = group.anchor->inputs[1];
    units_shape_ = group.domain;
    units_shape_[last_] = Expr::ceildiv(width_, s_.width);
    if (lanes_ > 1) units_shape_[p_.axes.channel] = Expr(p_.group / lanes_);
  }

  Result<Lowered> build() {
    const uint32_t workgroup = s_.workgroup;
    b_.set_workgroup(workgroup);
    const Expr units = element_count(units_shape_);
    const Expr groups = Expr::ceildiv(units, workgroup);
    const Value id = linear_invocation(b_, groups, workgroup);
    const auto unit = [&]() -> Status {
      const Index at = place(ev_.unflatten(ev_.symbol(id, units), units_shape_));
      shaders::LocalGrid acc(b_, "acc", kernel::vec(kernel::kF32, lanes_), 1, s_.width, 0);
      RP_TRY(accumulate(at, acc));
      return store(at, acc);
    };
    RP_TRY(guard_units(ev_, id, units, workgroup, unit));
    return finish(ev_, b_, group_, groups, s_.describe());
  }

 private:
  /// Where the outputs of an invocation lie. Each coordinate is a symbol.
  Index place(const Index& unit) {
    Index at;
    for (size_t d = 0; d < unit.size(); ++d)
      at.push_back(ev_.symbol(ev_.value(unit[d]), units_shape_[d]));
    Expr& channel = at[p_.axes.channel];
    if (lanes_ > 1) channel = Expr(lanes_) * channel + ev_.lane();
    return at;
  }

  Status accumulate(const Index& at, shaders::LocalGrid& acc) {
    const Expr channel_group = ev_.simplify(Expr::floordiv(at[p_.axes.channel], p_.out_channels));
    const Expr first = ev_.simplify(channel_group * Expr(p_.in_channels));
    return ev_.for_loop(p_.in_channels, [&](Value c) {
      const Expr channel = ev_.symbol(c, p_.in_channels);
      return taps({}, [&](const Index& kernel) {
        return add_tap(at, {first, channel}, kernel, acc);
      });
    });
  }

  /// Visits all positions of the kernel. Outer axes are loops if there are too many to unroll.
  using TapBody = std::function<Status(const Index& kernel)>;
  Status taps(const Index& outer, const TapBody& body) {
    const size_t axis = outer.size();
    if (axis == p_.kernel.size()) return body(outer);
    int64_t inner = s_.width;
    for (size_t d = axis; d < p_.kernel.size(); ++d) inner *= p_.kernel[d];
    constexpr int64_t kMaxUnrolledTaps = 256;  // unrolled multiply-adds
    const auto next = [&](const Expr& k) {
      Index at = outer;
      at.push_back(k);
      return taps(at, body);
    };
    if (inner <= kMaxUnrolledTaps || axis + 1 == p_.kernel.size()) {
      for (int64_t k = 0; k < p_.kernel[axis]; ++k) RP_TRY(next(k));
      return {};
    }
    return ev_.for_loop(p_.kernel[axis],
                        [&](Value k) { return next(ev_.symbol(k, p_.kernel[axis])); });
  }

  /// An input channel: the first channel of its group, and its number within the group.
  struct InputChannel {
    Expr first, channel;
  };

  Status add_tap(const Index& unit, const InputChannel& in, const Index& kernel,
                 shaders::LocalGrid& acc) {
    Index from{unit[p_.axes.channel], in.channel};
    from.insert(from.end(), kernel.begin(), kernel.end());
    RP_ASSIGN(const Val weight, f32(ev_.eval(weights_, from, lanes_)));
    const auto spatial = p_.spatial(unit);
    for (int i = 0; i < s_.width; ++i) {
      Index pixel{unit[0]};
      pixel.insert(pixel.end(), spatial.begin(), spatial.end());
      pixel.back() = column(unit, i);
      const InputPosition at = windows_.input(pixel, kernel, in.first + in.channel);
      RP_ASSIGN(Val x, f32(ev_.eval(input_, at.index, lanes_)));
      if (at.inside) {
        const Val inside = lanes_ > 1 ? b_.splat(at.inside, lanes_) : at.inside;
        x = b_.select(inside, x, b_.constant(b_.type(x), 0));
      }
      acc.store(0, i, shaders::multiply_add(b_, x, weight, acc.load(0, i), false));
    }
    return {};
  }

  Result<Val> f32(Result<Val> v) {
    if (!v.ok() || b_.type(*v).ty == Ty::F32) return v;
    return b_.convert(*v, Ty::F32);
  }

  /// Coordinate of output i along the last spatial axis.
  Expr column(const Index& at, int64_t i) const { return Expr(s_.width) * at[last_] + Expr(i); }

  Status store(const Index& at, shaders::LocalGrid& acc) {
    // A vector store needs neighbours in memory: channels (lanes_ > 1), or columns.
    const bool vector = lanes_ == 1 && width_.known_divisor(g_.symbols) % 4 == 0;
    const int columns = vector ? 4 : 1;
    for (int i = 0; i < s_.width; i += columns) {
      const bool inside = i == 0 || exact_width_;
      const Val exists = inside ? Val{} : ev_.value(column(at, i)) < ev_.value(width_);
      RP_TRY(ev_.guard(exists, [&] {
        std::vector<Val> parts;
        parts.reserve(static_cast<size_t>(columns));
        for (int l = 0; l < columns; ++l) parts.push_back(acc.load(0, i + l));
        Index index = at;
        index[last_] = column(at, i);
        if (vector) index[last_] += ev_.lane();
        const Val result = vector ? b_.compose(parts) : parts[0];
        return store_result(ev_, group_, index, result, std::max(lanes_, columns));
      }));
    }
    return {};
  }

  const graph::Graph& g_;
  const Group& group_;
  const ConvParams& p_;
  const WindowSchedule& s_;
  int lanes_;
  kernel::Builder b_;
  Evaluator ev_;
  size_t last_;  // spatial axis
  Expr width_;
  bool exact_width_;
  Windows windows_;
  ValueId input_, weights_;
  Shape units_shape_;
};

}  // namespace

Result<Lowered> lower_depthwise(const graph::Graph& g, const Group& group,
                                const TargetFacts& target, const ConvParams& params,
                                size_t choice) {
  return lower_choice(window_schedules(params, target), choice, [&](const WindowSchedule& s) {
    return DepthwiseKernel(g, group, target, params, s).build();
  });
}

}  // namespace reprise::lower
