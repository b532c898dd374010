#include "codegen/lower/launch/window.h"

namespace reprise::lower {

using kernel::Val;

Windows::Coordinate Windows::coordinate(const Expr& out, size_t axis, const Expr& kernel) {
  kernel::Builder& b = ev_.builder();
  const size_t at = p_.axes.spatial + axis;
  const Expr& size = input_[at];
  const Expr stride = p_.strides[axis];
  const Expr raw = out * stride + kernel * Expr(p_.dilations[axis]) - Expr(p_.pads[axis]);
  const Expr last = (output_[at] - Expr(1)) * stride +
                    Expr((p_.kernel[axis] - 1) * p_.dilations[axis] - p_.pads[axis]);
  const Expr room = size - Expr(1) - last;
  const bool past_end = past_end_ && axis + 1 == p_.kernel.size();
  if (p_.pads[axis] == 0 && room.is_const() && room.value() >= 0 && !past_end) return {raw, Val{}};
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
  out.index = p_.axes.arrange(pixel[0], ev_.simplify(channel), spatial);
  return out;
}

}  // namespace reprise::lower
