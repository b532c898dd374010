#include "codegen/lower/launch/window.h"

#include "codegen/ops/row/shape_arith.h"

namespace reprise::lower {

using kernel::Val;

bool Windows::needs_clamp(size_t axis) const {
  const size_t at = p_.axes.spatial + axis;
  const Expr last = (output_[at] - Expr(1)) * Expr(p_.strides[axis]) +
                    Expr((p_.kernel[axis] - 1) * p_.dilations[axis] - p_.pads[axis]);
  const Expr room = input_[at] - Expr(1) - last;
  const bool past_end = past_end_ && axis + 1 == p_.kernel.size();
  return p_.pads[axis] != 0 || !room.is_const() || room.value() < 0 || past_end;
}

Expr Windows::present(size_t end) const {
  const std::span<const Symbol> table = ev_.graph().symbols;
  Expr pixels(1);
  for (size_t axis = 0; axis < end; ++axis) {
    const Expr& size = input_[p_.axes.spatial + axis];
    if (needs_clamp(axis) && ops::bounds(size, table).lo <= 0) pixels = pixels * size;
  }
  return ops::min_of(pixels, Expr(1), table);
}

Windows::Coordinate Windows::coordinate(const Expr& out, size_t axis, const Expr& kernel) {
  kernel::Builder& b = ev_.builder();
  const Expr raw =
      out * Expr(p_.strides[axis]) + kernel * Expr(p_.dilations[axis]) - Expr(p_.pads[axis]);
  if (!needs_clamp(axis)) return {raw * present(axis), Val{}};
  const Expr size = input_[p_.axes.spatial + axis] * present(axis);
  const Val v = ev_.value(raw);
  const Val limit = ev_.value(size);
  const Val inside = b.in_range(v, limit);
  const Val safe = b.max(b.min(v, b.sub(limit, b.i32(1))), b.i32(0));
  return {ev_.symbol(safe, size), inside};
}

InputPosition Windows::input(const Index& pixel, const std::vector<Expr>& kernel,
                             const Expr& channel) {
  kernel::Builder& b = ev_.builder();
  InputPosition out;
  Index spatial;
  for (size_t d = 0; d < kernel.size(); ++d) {
    const Coordinate c = coordinate(pixel[d + 1], d, kernel[d]);
    spatial.push_back(ev_.simplify(c.index));
    if (c.inside) out.inside = out.inside ? b.logical_and(out.inside, c.inside) : c.inside;
  }
  const Expr at = p_.channels_last() ? channel * present(kernel.size()) : channel;
  out.index = p_.axes.arrange(pixel[0], ev_.simplify(at), spatial);
  return out;
}

}  // namespace reprise::lower
