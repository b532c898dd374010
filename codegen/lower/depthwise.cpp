// Convolution of groups with few output channels, depthwise above all: there is no GEMM to tile,
// so an invocation computes kWidth neighbouring outputs of a channel along the last spatial axis,
// with channels last of four channels as vectors. Their windows overlap: each input element and
// weight is loaded once.
#include <algorithm>

#include "codegen/lower/contraction.h"
#include "codegen/lower/window.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Ty;
using kernel::Val;

namespace {

constexpr int64_t kWidth = 8;

class DepthwiseKernel {
 public:
  DepthwiseKernel(const graph::Graph& g, const Group& group, const TargetFacts& target,
                  ConvParams p)
      : g_(g),
        group_(group),
        target_(target),
        p_(std::move(p)),
        b_(kernel_name(group)),
        ev_(g, group, b_),
        last_(p_.axes.spatial + p_.kernel.size() - 1),
        width_(group.domain[last_]),
        exact_width_(width_.known_divisor(g.symbols) % kWidth == 0),
        windows_(ev_, g.value(group.anchor->inputs[0]).shape, group.domain, p_, !exact_width_) {
    limit_loops(ev_, target);
    input_ = group.anchor->inputs[0];
    weights_ = group.anchor->inputs[1];
    units_shape_ = group.domain;
    units_shape_[last_] = Expr::ceildiv(width_, kWidth);
    if (p_.channels_last()) {
      lanes_ = 4;
      units_shape_[p_.axes.channel] = Expr(p_.group / lanes_);
    }
  }

  Result<Lowered> build() {
    const uint32_t workgroup = target_.cpu_type() ? 16 : 64;
    b_.set_workgroup(workgroup);
    const Expr units = element_count(units_shape_);
    const Expr groups = Expr::ceildiv(units, workgroup);
    const Val id = linear_invocation(b_, groups, workgroup);
    const bool exact = units.is_const() && units.value() % workgroup == 0;
    const auto unit = [&]() -> Status {
      place(ev_.unflatten(ev_.symbol(id, units), units_shape_));
      RP_TRY(accumulate());
      return store();
    };
    RP_TRY(guard(ev_, exact ? Val{} : b_.lt(id, ev_.value(units)), unit));
    std::string name = "windows of " + std::to_string(kWidth);
    if (lanes_ > 1) name += " v" + std::to_string(lanes_);
    return finish(ev_, b_, group_, groups, std::move(name));
  }

 private:
  void place(const Index& unit) {
    for (size_t d = 0; d < unit.size(); ++d)
      at_.push_back(ev_.symbol(ev_.value(unit[d]), units_shape_[d]));
    Expr& channel = at_[p_.axes.channel];
    if (lanes_ > 1) channel = Expr(lanes_) * channel + ev_.lane();
    const Expr channel_group = ev_.simplify(Expr::floordiv(channel, p_.out_channels));
    first_channel_ = ev_.simplify(channel_group * Expr(p_.in_channels));
    const kernel::Type type = kernel::vec(kernel::kF32, lanes_);
    for (int64_t i = 0; i < kWidth; ++i) {
      acc_.push_back(b_.local("acc" + std::to_string(i), type));
      b_.local_store(acc_.back(), b_.constant(type, 0));
    }
  }

  Status accumulate() {
    Status status;
    ev_.for_loop(b_.i32(0), b_.i32(p_.in_channels), b_.i32(1), p_.in_channels, [&](Val c) {
      ev_.push_scope();
      channel_ = ev_.symbol(c, p_.in_channels);
      status = taps({});
      ev_.pop_scope();
    });
    return status;
  }

  /// All positions of the kernel, outer axes as loops where they are many.
  Status taps(const std::vector<Expr>& outer) {
    const size_t axis = outer.size();
    if (axis == p_.kernel.size()) return tap(outer);
    int64_t inner = kWidth;
    for (size_t d = axis; d < p_.kernel.size(); ++d) inner *= p_.kernel[d];
    constexpr int64_t kMaxWritten = 256;  // multiply-adds
    Status status;
    const auto next = [&](const Expr& k) {
      std::vector<Expr> at = outer;
      at.push_back(k);
      return taps(at);
    };
    if (inner <= kMaxWritten || axis + 1 == p_.kernel.size()) {
      for (int64_t k = 0; k < p_.kernel[axis]; ++k) RP_TRY(next(k));
      return {};
    }
    ev_.for_loop(b_.i32(0), b_.i32(p_.kernel[axis]), b_.i32(1), p_.kernel[axis], [&](Val k) {
      ev_.push_scope();
      status = next(ev_.symbol(k, p_.kernel[axis]));
      ev_.pop_scope();
    });
    return status;
  }

  Status tap(const std::vector<Expr>& kernel) {
    Index from{at_[p_.axes.channel], channel_};
    from.insert(from.end(), kernel.begin(), kernel.end());
    RP_ASSIGN(const Val weight, f32(ev_.eval(weights_, from, lanes_)));
    const auto spatial = p_.spatial(at_);
    for (int64_t i = 0; i < kWidth; ++i) {
      Index pixel{at_[0]};
      pixel.insert(pixel.end(), spatial.begin(), spatial.end());
      pixel.back() = column(i);
      const InputPosition at = windows_.input(pixel, kernel, first_channel_ + channel_);
      RP_ASSIGN(Val x, f32(ev_.eval(input_, at.index, lanes_)));
      if (at.inside) {
        const Val inside = lanes_ > 1 ? b_.splat(at.inside, lanes_) : at.inside;
        x = b_.select(inside, x, b_.constant(b_.type(x), 0));
      }
      const int acc = acc_[static_cast<size_t>(i)];
      const Val product = b_.mul(x, weight);
      b_.local_store(acc, b_.add(b_.local_load(acc), product));
    }
    return {};
  }

  Result<Val> f32(Result<Val> v) {
    if (!v.ok() || b_.type(*v).ty == Ty::F32) return v;
    return b_.convert(*v, Ty::F32);
  }

  /// Coordinate of output i along the last spatial axis.
  Expr column(int64_t i) const { return Expr(kWidth) * at_[last_] + Expr(i); }

  Status store() {
    // Outputs side by side in memory: channels, or columns.
    const bool wide = lanes_ == 1 && width_.known_divisor(g_.symbols) % 4 == 0;
    const int columns = wide ? 4 : 1;
    for (int64_t i = 0; i < kWidth; i += columns) {
      const bool inside = i == 0 || exact_width_;
      const Val exists = inside ? Val{} : b_.lt(ev_.value(column(i)), ev_.value(width_));
      RP_TRY(guard(ev_, exists, [&] {
        std::vector<Val> parts;
        parts.reserve(static_cast<size_t>(columns));
        for (int l = 0; l < columns; ++l)
          parts.push_back(b_.local_load(acc_[static_cast<size_t>(i + l)]));
        Index index = at_;
        index[last_] = column(i);
        if (wide) index[last_] += ev_.lane();
        const Val result = wide ? b_.compose(parts) : parts[0];
        return store_result(ev_, group_, index, result, std::max(lanes_, columns));
      }));
    }
    return {};
  }

  const graph::Graph& g_;
  const Group& group_;
  const TargetFacts& target_;
  ConvParams p_;
  kernel::Builder b_;
  Evaluator ev_;
  size_t last_;  // spatial axis
  Expr width_;
  bool exact_width_;
  Windows windows_;
  ValueId input_, weights_;
  int lanes_ = 1;  // channels of an invocation
  Shape units_shape_;
  Index at_;  // of the unit, as values of their own
  Expr first_channel_, channel_;
  std::vector<int> acc_;
};

}  // namespace

Result<Lowered> lower_depthwise(const graph::Graph& g, const Group& group,
                                const TargetFacts& target, const ConvParams& params) {
  return DepthwiseKernel(g, group, target, params).build();
}

}  // namespace reprise::lower
