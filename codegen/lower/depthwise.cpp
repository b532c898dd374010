// Convolution of groups with few output channels, depthwise above all: there is no product to tile,
// so an invocation computes kWidth neighbouring outputs of a channel along the last axis. Their
// windows overlap: each input element and weight is loaded once.
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
  DepthwiseKernel(const graph::Graph& g, const Group& group, const Target& target, ConvParams p)
      : g_(g),
        group_(group),
        target_(target),
        p_(std::move(p)),
        b_(kernel_name(group)),
        ev_(g, group, b_),
        windows_(ev_, g.value(group.anchor->inputs[0]).shape, group.domain, p_,
                 group.domain.back().known_divisor(g.symbols) % kWidth != 0) {
    input_ = group.anchor->inputs[0];
    weights_ = group.anchor->inputs[1];
    width_ = group.domain.back();
    units_shape_ = group.domain;
    units_shape_.back() = Expr::ceildiv(width_, kWidth);
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
    return finish(ev_, b_, group_, groups, target_, "windows of " + std::to_string(kWidth));
  }

 private:
  void place(const Index& unit) {
    for (size_t d = 0; d < unit.size(); ++d)
      at_.push_back(ev_.symbol(ev_.value(unit[d]), units_shape_[d]));
    const Expr channel_group = ev_.simplify(Expr::floordiv(at_[1], p_.out_channels));
    first_channel_ = ev_.simplify(channel_group * Expr(p_.in_channels));
    for (int64_t i = 0; i < kWidth; ++i) {
      acc_.push_back(b_.local("acc" + std::to_string(i), kernel::kF32));
      b_.local_store(acc_.back(), b_.f32(0));
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
    Index from{at_[1], channel_};
    from.insert(from.end(), kernel.begin(), kernel.end());
    RP_ASSIGN(const Val weight, f32(ev_.eval(weights_, from)));
    for (int64_t i = 0; i < kWidth; ++i) {
      std::vector<Expr> pixel{at_[0]};
      pixel.insert(pixel.end(), at_.begin() + 2, at_.end());
      pixel.back() = Expr(kWidth) * at_.back() + Expr(i);
      const InputPosition at = windows_.input(pixel, kernel, first_channel_ + channel_);
      RP_ASSIGN(Val x, f32(ev_.eval(input_, at.index)));
      if (at.inside) x = b_.select(at.inside, x, b_.f32(0));
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

  Status store() {
    const bool wide = width_.known_divisor(g_.symbols) % 4 == 0;
    const int lanes = wide ? 4 : 1;
    for (int64_t i = 0; i < kWidth; i += lanes) {
      const Val column = b_.add(b_.mul(ev_.value(at_.back()), b_.i32(kWidth)), b_.i32(i));
      const bool inside = i == 0 || width_.known_divisor(g_.symbols) % kWidth == 0;
      RP_TRY(guard(ev_, inside ? Val{} : b_.lt(column, ev_.value(width_)), [&] {
        std::vector<Val> parts;
        parts.reserve(static_cast<size_t>(lanes));
        for (int l = 0; l < lanes; ++l)
          parts.push_back(b_.local_load(acc_[static_cast<size_t>(i + l)]));
        Index index = at_;
        index.back() = Expr(kWidth) * at_.back() + Expr(i);
        if (wide) index.back() += ev_.lane();
        return store_result(ev_, group_, index, wide ? b_.compose(parts) : parts[0], lanes);
      }));
    }
    return {};
  }

  const graph::Graph& g_;
  const Group& group_;
  const Target& target_;
  ConvParams p_;
  kernel::Builder b_;
  Evaluator ev_;
  Windows windows_;
  ValueId input_, weights_;
  Expr width_;
  Shape units_shape_;
  Index at_;  // of the unit, as values of their own
  Expr first_channel_, channel_;
  std::vector<int> acc_;
};

}  // namespace

Result<Lowered> lower_depthwise(const graph::Graph& g, const Group& group, const Target& target,
                                const ConvParams& params) {
  return DepthwiseKernel(g, group, target, params).build();
}

}  // namespace reprise::lower
