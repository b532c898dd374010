// Convolution as an implicit matrix product over the register tile: rows are output pixels, columns
// output channels, k runs over (input channel, kernel position). Weights are packed like a
// MatMul's.
#include <algorithm>

#include "codegen/lower/contraction.h"
#include "shaders/contraction.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Builder;
using kernel::Builtin;
using kernel::Ty;
using kernel::Val;
using shaders::RegisterTile;

namespace {

constexpr int kCols = 8;
constexpr int64_t kMaxUnrolled = 16;  // kernel positions of the innermost axes written out

struct Params {
  std::vector<int64_t> strides, pads, dilations, kernel;
  int64_t group = 1;
  int64_t in_channels = 0;   // per group
  int64_t out_channels = 0;  // per group
};

std::optional<Params> params_of(const graph::Graph& g, const graph::Node& n) {
  const graph::Value& w = g.value(n.inputs[1]);
  if (!w.constant || w.dtype != DType::F32 || g.value(n.inputs[0]).dtype != DType::F32)
    return std::nullopt;
  const std::vector<int64_t>& dims = w.constant->dims();
  Params p;
  p.group = n.attrs.get_int("group", 1);
  p.strides = n.attrs.get_ints("strides");
  p.pads = n.attrs.get_ints("pads");
  p.dilations = n.attrs.get_ints("dilations");
  p.kernel.assign(dims.begin() + 2, dims.end());
  p.in_channels = dims[1];
  p.out_channels = dims[0] / p.group;
  // Tiles of columns do not cross groups; depthwise forms have nothing to reuse in a tile.
  if (p.group > 1 && p.out_channels % kCols != 0) return std::nullopt;
  if (w.constant->count() == 0) return std::nullopt;
  return p;
}

class ConvKernel {
 public:
  ConvKernel(const graph::Graph& g, const Group& group, const Target& target, Params p)
      : g_(g),
        group_(group),
        target_(target),
        b_(kernel_name(group)),
        ev_(g, group, b_),
        p_(std::move(p)) {
    x_ = group.anchor->inputs[0];
    w_ = group.anchor->inputs[1];
    spatial_ = static_cast<int>(p_.kernel.size());
    const Shape& d = group.domain;
    pixel_shape_.push_back(d[0]);
    pixel_shape_.insert(pixel_shape_.end(), d.begin() + 2, d.end());
    pixels_ = element_count(pixel_shape_);
    rows_n_ = 4;
    if (pixels_.is_const()) rows_n_ = static_cast<int>(std::clamp<int64_t>(pixels_.value(), 1, 4));
    fma_ = !target.cpu_type();
    workgroup_ = target.cpu_type() ? 16 : 64;
  }

  Result<Lowered> build() {
    b_.set_workgroup(workgroup_);
    const int64_t tiles_per_group = (p_.out_channels + kCols - 1) / kCols;
    const Expr pixel_tiles = Expr::ceildiv(pixels_, rows_n_);
    const Expr tiles = pixel_tiles * Expr(tiles_per_group * p_.group);
    const Expr groups = Expr::ceildiv(tiles, workgroup_);
    const Val id = b_.add(b_.mul(linear_workgroup(b_, groups), b_.i32(workgroup_)),
                          b_.convert(b_.builtin(Builtin::LocalIndex), Ty::I32));
    const bool exact = tiles.is_const() && tiles.value() % workgroup_ == 0;
    const Val inside = exact ? Val{} : b_.lt(id, ev_.value(tiles));
    RP_TRY(guard(ev_, inside, [&]() -> Status {
      const Expr t = ev_.symbol(id, tiles);
      place_pixels(ev_.simplify(Expr::mod(t, pixel_tiles)));
      const Expr col_tile = ev_.simplify(Expr::floordiv(t, pixel_tiles));
      col_tile_ = ev_.value(col_tile);
      channel_group_ = ev_.simplify(Expr::floordiv(col_tile, tiles_per_group));
      place_channels(ev_.simplify(Expr::mod(col_tile, tiles_per_group)));
      return body();
    }));
    RP_ASSIGN(Lowered out,
              finish(ev_, b_, group_, groups, target_,
                     "implicit gemm " + std::to_string(rows_n_) + "x" + std::to_string(kCols)));
    PackedOperand packed;
    for (size_t i = 0; i < out.buffers.size(); ++i) {
      if (out.buffers[i].value == w_) packed.buffer = static_cast<int>(i);
    }
    packed.batch = p_.group;
    packed.k = k_count();
    packed.n = p_.out_channels;
    packed.tile_n = kCols;
    packed.transposed = true;
    out.packed.push_back(packed);
    return out;
  }

 private:
  int64_t k_count() const {
    int64_t k = p_.in_channels;
    for (int64_t s : p_.kernel) k *= s;
    return k;
  }

  void place_pixels(const Expr& tile) {
    const Val first = b_.mul(ev_.value(tile), b_.i32(rows_n_));
    const bool exact = pixels_.known_divisor(g_.symbols) % rows_n_ == 0;
    for (int r = 0; r < rows_n_; ++r) {
      pixels_at_.push_back(clamped(ev_, b_.add(first, b_.i32(r)), pixels_, exact));
      const Index at = ev_.unflatten(pixels_at_.back().index, pixel_shape_);
      // As values of their own, so that addresses in the loop do not divide.
      Index simple;
      for (size_t d = 0; d < at.size(); ++d)
        simple.push_back(ev_.symbol(ev_.value(at[d]), pixel_shape_[d]));
      pixel_index_.push_back(at);
      pixel_values_.push_back(simple);
    }
  }

  void place_channels(const Expr& tile) {
    const Val first = b_.mul(ev_.value(tile), b_.i32(kCols));
    for (int c = 0; c < kCols; ++c) {
      channels_.push_back(
          clamped(ev_, b_.add(first, b_.i32(c)), p_.out_channels, p_.out_channels % kCols == 0));
    }
  }

  /// Input coordinate of a pixel along a spatial axis, with whether it lies inside the padding.
  struct Position {
    Expr index;
    Val inside;  // none: always
  };
  Position position(int row, int axis, const Expr& k) {
    const auto a = static_cast<size_t>(axis);
    const Expr& out = pixel_values_[static_cast<size_t>(row)][a + 1];
    const Expr size = g_.value(x_).shape[a + 2];
    const Expr raw = out * Expr(p_.strides[a]) + k * Expr(p_.dilations[a]) - Expr(p_.pads[a]);
    const Expr last = (group_.domain[a + 2] - Expr(1)) * Expr(p_.strides[a]) +
                      Expr((p_.kernel[a] - 1) * p_.dilations[a] - p_.pads[a]);
    const Expr room = size - Expr(1) - last;
    if (p_.pads[a] == 0 && room.is_const() && room.value() >= 0) return {raw, Val{}};
    const Val v = ev_.value(raw);
    const Val limit = ev_.value(size);
    const Val inside = b_.logical_and(b_.ge(v, b_.i32(0)), b_.lt(v, limit));
    const Val safe = b_.max(b_.min(v, b_.sub(limit, b_.i32(1))), b_.i32(0));
    return {ev_.symbol(safe, size), inside};
  }

  /// One kernel position: loads, multiplies.
  Status step(RegisterTile& tile, const Expr& channel, const std::vector<Expr>& kernel_at) {
    Expr k = channel;
    for (int d = 0; d < spatial_; ++d)
      k = k * Expr(p_.kernel[static_cast<size_t>(d)]) + kernel_at[static_cast<size_t>(d)];
    std::vector<Val> bs;
    const int w = ev_.buffer(w_);
    const Val base =
        b_.mul(b_.add(b_.mul(col_tile_, b_.i32(k_count())), ev_.value(k)), b_.i32(kCols));
    for (int v = 0; v < tile.vecs(); ++v)
      bs.push_back(b_.load(w, b_.add(base, b_.i32(4 * v)), 4, 4));
    std::vector<Val> as;
    for (int r = 0; r < rows_n_; ++r) {
      Index at{pixel_values_[static_cast<size_t>(r)][0],
               ev_.simplify(channel_group_ * Expr(p_.in_channels) + channel)};
      Val inside;
      for (int d = 0; d < spatial_; ++d) {
        const Position pos = position(r, d, kernel_at[static_cast<size_t>(d)]);
        at.push_back(ev_.simplify(pos.index));
        if (pos.inside) inside = inside ? b_.logical_and(inside, pos.inside) : pos.inside;
      }
      RP_ASSIGN(Val x, ev_.eval(x_, at));
      if (inside) x = b_.select(inside, x, b_.f32(0));
      as.push_back(x);
    }
    tile.multiply(as, bs);
    return {};
  }

  Status kernel_loops(RegisterTile& tile, const Expr& channel, std::vector<Expr> at) {
    const size_t axis = at.size();
    if (axis == p_.kernel.size()) return step(tile, channel, at);
    int64_t inner = 1;
    for (size_t d = axis; d < p_.kernel.size(); ++d) inner *= p_.kernel[d];
    Status status;
    at.emplace_back();
    if (inner <= kMaxUnrolled) {
      for (int64_t k = 0; k < p_.kernel[axis] && status.ok(); ++k) {
        at[axis] = k;
        status = kernel_loops(tile, channel, at);
      }
      return status;
    }
    ev_.for_loop(b_.i32(0), b_.i32(p_.kernel[axis]), b_.i32(1), p_.kernel[axis], [&](Val k) {
      ev_.push_scope();
      at[axis] = ev_.symbol(k, p_.kernel[axis]);
      status = kernel_loops(tile, channel, at);
      ev_.pop_scope();
    });
    return status;
  }

  Status body() {
    RegisterTile tile(b_, rows_n_, kCols, fma_);
    Status status;
    ev_.for_loop(b_.i32(0), b_.i32(p_.in_channels), b_.i32(1), p_.in_channels, [&](Val c) {
      ev_.push_scope();
      status = kernel_loops(tile, ev_.symbol(c, p_.in_channels), {});
      ev_.pop_scope();
    });
    RP_TRY(status);
    for (int r = 0; r < rows_n_; ++r) {
      RP_TRY(guard(ev_, pixels_at_[static_cast<size_t>(r)].in_range,
                   [&] { return store_pixel(tile, r); }));
    }
    return {};
  }

  Status store_pixel(RegisterTile& tile, int r) {
    const Index& pixel = pixel_index_[static_cast<size_t>(r)];
    for (int c = 0; c < kCols; ++c) {
      const Coordinate& channel = channels_[static_cast<size_t>(c)];
      Index index{pixel[0], ev_.simplify(channel_group_ * Expr(p_.out_channels) + channel.index)};
      index.insert(index.end(), pixel.begin() + 1, pixel.end());
      const Val result = b_.extract(tile.result(r, c / 4), c % 4);
      RP_TRY(guard(ev_, channel.in_range,
                   [&] { return store_outputs(ev_, group_, index, result, 1); }));
    }
    return {};
  }

  const graph::Graph& g_;
  const Group& group_;
  const Target& target_;
  Builder b_;
  Evaluator ev_;
  Params p_;
  ValueId x_, w_;
  int spatial_ = 2;
  int rows_n_ = 4;  // pixels of a tile
  bool fma_ = false;
  uint32_t workgroup_ = 64;
  Shape pixel_shape_;  // batch and spatial dims of the output
  Expr pixels_;
  Val col_tile_;
  Expr channel_group_;
  std::vector<Coordinate> pixels_at_;
  std::vector<Index> pixel_index_;    // as expressions of the pixel's linear position
  std::vector<Index> pixel_values_;   // the same as values of their own
  std::vector<Coordinate> channels_;  // within the group
};

}  // namespace

Result<Lowered> lower_conv(const graph::Graph& g, const Group& group, const Target& target) {
  auto params = params_of(g, *group.anchor);
  if (!params) return lower_pointwise(g, group, target);
  return ConvKernel(g, group, target, std::move(*params)).build();
}

}  // namespace reprise::lower
