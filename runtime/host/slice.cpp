// Slice: the core form, the form with attributes (before version 10) and the form with inputs.
#include <algorithm>
#include <numeric>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

struct Part {
  Dims starts, steps, dims;
};

/// Computes start, step and count of one axis; all values are clamped. For a negative step, a start
/// before the first element is the first one (NumPy would take no element).
void slice_axis(int64_t dim, int64_t start, int64_t end, int64_t step, size_t axis, Part& p) {
  const auto resolve = [&](int64_t v, int64_t lowest, int64_t highest) {
    if (v < 0) v = v < -dim ? std::numeric_limits<int64_t>::min() : v + dim;
    return std::clamp(v, lowest, highest);
  };
  const bool forward = step > 0;
  const int64_t backward_start = dim == 0 ? -1 : 0;
  const int64_t first = forward ? resolve(start, 0, dim) : resolve(start, backward_start, dim - 1);
  const int64_t last = forward ? resolve(end, 0, dim) : resolve(end, -1, dim - 1);
  const int64_t distance = forward ? last - first : first - last;
  p.starts[axis] = first;
  // A step beyond the dim takes one element; clamping it keeps the arithmetic from overflowing.
  p.steps[axis] = std::clamp(step, -dim - 1, dim + 1);
  const int64_t stride = std::max<int64_t>(1, std::abs(p.steps[axis]));
  p.dims[axis] = distance <= 0 ? 0 : (distance - 1) / stride + 1;
}

KernelResult take(const HostTensor& x, const Part& p) {
  RP_ASSIGN(auto y, allocate(x.dtype(), p.dims));
  if (y.count() == 0) return one(std::move(y));
  Dims strides = strides_of(x.dims());
  int64_t offset = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    offset += p.starts[d] * strides[d];
    strides[d] *= p.steps[d];
  }
  copy_strided(p.dims, y, {strides_of(p.dims)}, x, {strides, offset});
  return one(std::move(y));
}

/// The core form has starts and steps for every axis; the sizes follow from the output's shape.
KernelResult core_slice(const Call& c) {
  const HostTensor& x = input(c, 0);
  Part p{c.attrs.get_ints("starts"), c.attrs.get_ints("steps"), {}};
  const auto rank = static_cast<size_t>(x.rank());
  if (!c.output_dims) return internal_error("core Slice needs the output's dims");
  p.dims = *c.output_dims;
  if (p.starts.size() != rank || p.steps.size() != rank || p.dims.size() != rank) {
    return invalid_model("starts, steps and sizes must have one number per axis of " +
                         dims_str(x.dims()));
  }
  RP_TRY(checked_element_count(p.dims, x.dtype()).status());
  for (size_t d = 0; d < rank; ++d) {
    if (product(p.dims) == 0) break;
    const int64_t dim = x.dims()[d];
    const bool start_ok = p.starts[d] >= 0 && p.starts[d] < dim;
    const int64_t room = !start_ok ? -1 : p.steps[d] >= 0 ? dim - 1 - p.starts[d] : p.starts[d];
    const int64_t step = p.steps[d] == std::numeric_limits<int64_t>::min()
                             ? std::numeric_limits<int64_t>::max()
                             : std::abs(p.steps[d]);
    if (room < 0 || (p.dims[d] > 1 && step > room / (p.dims[d] - 1))) {
      return invalid_input("axis " + std::to_string(d) + ": start " + std::to_string(p.starts[d]) +
                           ", step " + std::to_string(p.steps[d]) + ", size " +
                           std::to_string(p.dims[d]) + " leaves " + dims_str(x.dims()));
    }
    if (p.dims[d] == 1) p.steps[d] = 0;
  }
  return take(x, p);
}

KernelResult slice(const Call& c) {
  RP_TRY(check_arity(c, 1, 5));
  if (c.attrs.has("starts") && c.attrs.has("steps") && !c.attrs.has("ends")) return core_slice(c);
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(const Dims starts, read_ints(c, "starts", 1));
  RP_ASSIGN(const Dims ends, read_ints(c, "ends", 2));
  Dims axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  Dims steps(starts.size(), 1);
  if (has_ints(c, "axes", 3)) {
    RP_ASSIGN(axes, read_ints(c, "axes", 3));
  }
  if (has_ints(c, "steps", 4)) {
    RP_ASSIGN(steps, read_ints(c, "steps", 4));
  }
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    return invalid_input("starts, ends, axes and steps have different lengths");
  }
  RP_TRY(normalize_axes(axes, x.rank()).status());
  Part p{Dims(x.dims().size(), 0), Dims(x.dims().size(), 1), x.dims()};
  for (size_t i = 0; i < starts.size(); ++i) {
    if (steps[i] == 0) return invalid_input("step 0 on axis " + std::to_string(axes[i]));
    const auto axis = static_cast<size_t>(axes[i] < 0 ? axes[i] + x.rank() : axes[i]);
    slice_axis(x.dims()[axis], starts[i], ends[i], steps[i], axis, p);
  }
  return take(x, p);
}

}  // namespace

Table slice_table() {
  static constexpr Entry kTable[] = {{"Slice", slice}};
  return kTable;
}

}  // namespace reprise::host
