// Pad in every mode; negative pads crop.
#include <algorithm>
#include <numeric>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

enum class PadMode : uint8_t { Constant, Reflect, Edge, Wrap };

Result<PadMode> read_mode(const Call& c) {
  const std::string mode = c.attrs.get_string("mode", "constant");
  if (mode == "constant") return PadMode::Constant;
  if (mode == "reflect") return PadMode::Reflect;
  if (mode == "edge") return PadMode::Edge;
  if (mode == "wrap") return PadMode::Wrap;
  return invalid_model("attribute 'mode' is '" + mode +
                       "', must be constant, reflect, edge or wrap");
}

/// The elements of an axis that negative pads leave, and that other modes repeat.
struct Kept {
  int64_t begin = 0, size = 0;
};
Kept kept_by(int64_t dim, int64_t begin, int64_t end) {
  const int64_t first = std::max<int64_t>(-begin, 0);
  return {first, dim - first - std::max<int64_t>(-end, 0)};
}

/// The source index of position i, relative to the first kept element; -1 for the pad value.
int64_t source_index(PadMode mode, int64_t i, int64_t dim) {
  if (i >= 0 && i < dim) return i;
  switch (mode) {
    case PadMode::Constant:
      return -1;
    case PadMode::Edge:
      return std::clamp<int64_t>(i, 0, dim - 1);
    case PadMode::Wrap:
      return (i % dim + dim) % dim;
    case PadMode::Reflect: {
      if (dim == 1) return 0;
      const int64_t period = 2 * (dim - 1);
      const int64_t r = (i % period + period) % period;
      return r < dim ? r : period - r;
    }
  }
  return -1;
}

/// The pads at the beginnings of all axes, followed by those at the ends.
Result<Dims> read_pads(const Call& c, const HostTensor& x) {
  RP_ASSIGN(const Dims raw, read_ints(c, "pads", 1));
  Dims axes(static_cast<size_t>(x.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  const bool from_input = !c.attrs.has("pads");
  if (from_input && has_input(c, 3)) {
    RP_ASSIGN(axes, read_ints(c, "axes", 3));
    RP_TRY(normalize_axes(axes, x.rank()).status());
  }
  if (raw.size() != 2 * axes.size()) {
    return invalid_input("pads " + dims_str(raw) + " need two numbers for each of " +
                         std::to_string(axes.size()) + " axes");
  }
  constexpr int64_t kLimit = int64_t{1} << 40;
  Dims pads(2 * x.dims().size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i] < 0 ? axes[i] + x.rank() : axes[i]);
    const int64_t begin = raw[i];
    const int64_t end = raw[axes.size() + i];
    if (std::min(begin, end) < -kLimit || std::max(begin, end) > kLimit) {
      return invalid_input("pads " + dims_str(raw) + " are absurd");
    }
    pads[axis] = begin;
    pads[x.dims().size() + axis] = end;
  }
  return pads;
}

/// The pad value, a scalar of x's dtype: from the input, the attribute of old versions, or zero.
Result<HostTensor> read_value(const Call& c, const HostTensor& x) {
  RP_ASSIGN(auto value, allocate(x.dtype(), {}));
  const size_t i = c.attrs.has("pads") ? 1 : 2;
  if (has_input(c, i)) {
    if (input(c, i).dtype() != x.dtype() || input(c, i).count() != 1) {
      return invalid_input(describe_input(c, i, "constant_value") + ": must be one " +
                           std::string(name_of(x.dtype())));
    }
    copy_block(value, 0, input(c, i), 0, 1);
  } else if (c.attrs.has("value")) {
    const double v = static_cast<double>(c.attrs.get_float("value", 0));
    store(value, 0, 1, &v);
  }
  return value;
}

KernelResult pad(const Call& c) {
  RP_TRY(check_arity(c, 1, 4));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(const PadMode mode, read_mode(c));
  RP_ASSIGN(const Dims pads, read_pads(c, x));
  RP_ASSIGN(const HostTensor value, read_value(c, x));
  const size_t rank = x.dims().size();
  Dims dims = x.dims();
  for (size_t d = 0; d < rank; ++d) {
    dims[d] += pads[d] + pads[rank + d];
    if (dims[d] < 0) {
      return invalid_input("pads remove more of axis " + std::to_string(d) + " than " +
                           dims_str(x.dims()) + " has");
    }
    const int64_t kept = kept_by(x.dims()[d], pads[d], pads[rank + d]).size;
    if (kept <= 0 && dims[d] > 0 && mode != PadMode::Constant) {
      return invalid_input("nothing of axis " + std::to_string(d) +
                           " to repeat: " + dims_str(x.dims()) + " with pads " + dims_str(pads));
    }
  }
  RP_ASSIGN(auto y, allocate(x.dtype(), dims));
  if (y.count() == 0) return one(std::move(y));
  // Per axis: the offset that each output position reads; -1 for padding.
  const Dims strides = strides_of(x.dims());
  std::vector<Dims> source(rank);
  for (size_t d = 0; d < rank; ++d) {
    const Kept kept = kept_by(x.dims()[d], pads[d], pads[rank + d]);
    for (int64_t i = 0; i < dims[d]; ++i) {
      const int64_t s = source_index(mode, i - std::max<int64_t>(pads[d], 0), kept.size);
      source[d].push_back(s < 0 ? -1 : (kept.begin + s) * strides[d]);
    }
  }
  with_width(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T padding = element<T>(value, 0);
    Dims index(rank, 0);
    for (int64_t i = 0; i < y.count(); ++i) {
      int64_t offset = 0;
      for (size_t d = 0; offset >= 0 && d < rank; ++d) {
        const int64_t s = at(source[d], index[d]);
        offset = s < 0 ? -1 : offset + s;
      }
      set_element<T>(y, i, offset < 0 ? padding : element<T>(x, offset));
      for (size_t d = rank; d-- > 0;) {
        if (++index[d] < dims[d]) break;
        index[d] = 0;
      }
    }
  });
  return one(std::move(y));
}

/// Keeps the elements around the middle, or pads with zeros on both sides. An odd element is at the
/// end.
KernelResult center_crop_pad(const Call& c) {
  RP_TRY(check_arity(c, 2, 2));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(const Dims sizes, tensor_ints(input(c, 1), "shape"));
  Dims axes = c.attrs.get_ints("axes");
  if (!c.attrs.has("axes")) {
    axes.resize(x.dims().size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  RP_TRY(normalize_axes(axes, x.rank()).status());
  if (sizes.size() != axes.size()) {
    return invalid_input("shape " + dims_str(sizes) + " needs a size for each of " +
                         std::to_string(axes.size()) + " axes");
  }
  Dims dims = x.dims();
  for (size_t i = 0; i < axes.size(); ++i) {
    if (sizes[i] < 0) return invalid_input("shape " + dims_str(sizes) + " has a negative size");
    at(dims, axes[i] < 0 ? axes[i] + x.rank() : axes[i]) = sizes[i];
  }
  RP_ASSIGN(auto y, allocate(x.dtype(), dims));
  Dims common = dims;
  int64_t from = 0;
  int64_t to = 0;
  const Dims from_strides = strides_of(x.dims());
  const Dims to_strides = strides_of(dims);
  for (size_t d = 0; d < dims.size(); ++d) {
    common[d] = std::min(dims[d], x.dims()[d]);
    from += (x.dims()[d] - common[d]) / 2 * from_strides[d];
    to += (dims[d] - common[d]) / 2 * to_strides[d];
  }
  copy_strided(common, y, {to_strides, to}, x, {from_strides, from});
  return one(std::move(y));
}

}  // namespace

Table pad_table() {
  static constexpr Entry kTable[] = {{"Pad", pad}, {"CenterCropPad", center_crop_pad}};
  return kTable;
}

}  // namespace reprise::host
