// Operators that keep every element and change only the shape, or read nothing but the shape.
#include <algorithm>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

/// A 0 copies the input's dim (unless allowzero is set), and one -1 takes the remaining elements.
/// Copied dims cancel, so that the -1 is known for empty inputs as well.
Result<Dims> complete_shape(Dims shape, const Dims& from, int64_t count, bool allow_zero) {
  int64_t known = 1;
  Dims rest = from;
  int64_t* free = nullptr;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t& d = shape[i];
    if (d == 0 && !allow_zero) {
      if (i >= from.size()) {
        return invalid_input("dimension " + std::to_string(i) +
                             " is 0 (copy), but the input has rank " + std::to_string(from.size()));
      }
      d = from[i];
      rest[i] = 1;
      continue;
    }
    if (d == -1) {
      if (free != nullptr) return invalid_input("more than one dimension is -1");
      free = &d;
      continue;
    }
    if (d < 0) return invalid_input("dimension " + std::to_string(d) + " is negative");
    known = product(std::array<int64_t, 2>{known, d});
  }
  if (free != nullptr) {
    const int64_t left = product(rest);
    if (known == 0 || left % known != 0) {
      return invalid_input(std::to_string(count) + " elements do not fill the shape's -1");
    }
    *free = left / known;
  }
  if (product(shape) != count) {
    return invalid_input("cannot hold the input's " + std::to_string(count) + " elements");
  }
  return shape;
}

KernelResult reshape(const Call& c) {
  RP_TRY(check_arity(c, 1, 2));
  RP_ASSIGN(const Dims shape, read_ints(c, "shape", 1));
  const HostTensor& x = input(c, 0);
  const bool allow_zero = c.attrs.has("shape") || c.attrs.get_int("allowzero", 0) != 0;
  auto dims = complete_shape(shape, x.dims(), x.count(), allow_zero);
  if (!dims) {
    return dims.status().with_context("reshape of " + dims_str(x.dims()) + " to " +
                                      dims_str(shape));
  }
  return one(x.reshaped(std::move(*dims)));
}

KernelResult flatten(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  const HostTensor& x = input(c, 0);
  int64_t axis = c.attrs.get_int("axis", 1);
  if (axis != x.rank()) {
    RP_ASSIGN(axis, normalize_axis(axis, x.rank()));
  }
  return one(
      x.reshaped({product_range(x.dims(), 0, axis), product_range(x.dims(), axis, x.rank())}));
}

KernelResult squeeze(const Call& c) {
  RP_TRY(check_arity(c, 1, 2));
  const HostTensor& x = input(c, 0);
  Dims axes;
  if (has_ints(c, "axes", 1)) {
    RP_ASSIGN(const Dims raw, read_ints(c, "axes", 1));
    RP_ASSIGN(axes, normalize_axes(raw, x.rank()));
    for (int64_t a : axes) {
      if (at(x.dims(), a) == 1) continue;
      return invalid_input("axis " + std::to_string(a) + " of " + dims_str(x.dims()) + " is not 1");
    }
  } else {
    for (int64_t a = 0; a < x.rank(); ++a) {
      if (at(x.dims(), a) == 1) axes.push_back(a);
    }
  }
  Dims dims;
  for (int64_t a = 0; a < x.rank(); ++a) {
    if (!std::binary_search(axes.begin(), axes.end(), a)) dims.push_back(at(x.dims(), a));
  }
  return one(x.reshaped(std::move(dims)));
}

KernelResult unsqueeze(const Call& c) {
  RP_TRY(check_arity(c, 1, 2));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(const Dims raw, read_ints(c, "axes", 1));
  const int64_t rank = x.rank() + static_cast<int64_t>(raw.size());
  RP_ASSIGN(const Dims axes, normalize_axes(raw, rank));
  Dims dims;
  auto next = x.dims().begin();
  for (int64_t a = 0; a < rank; ++a) {
    dims.push_back(std::binary_search(axes.begin(), axes.end(), a) ? 1 : *next++);
  }
  return one(x.reshaped(std::move(dims)));
}

KernelResult expand(const Call& c) {
  RP_TRY(check_arity(c, 1, 2));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(Dims shape, read_ints(c, "shape", 1));
  Dims dims = shape;
  if (dims.size() < x.dims().size()) {
    dims.insert(dims.begin(), x.dims().size() - dims.size(), 1);
  }
  const size_t shift = dims.size() - x.dims().size();
  for (size_t i = 0; i < x.dims().size(); ++i) {
    const int64_t from = x.dims()[i];
    int64_t& to = dims[shift + i];
    if (to == 1) to = from;
    if (from == 1 || from == to) continue;
    return invalid_input(dims_str(x.dims()) + " does not broadcast to " + dims_str(shape));
  }
  RP_ASSIGN(auto y, allocate(x.dtype(), dims));
  copy_strided(dims, y, {strides_of(dims)}, x, {broadcast_strides(x.dims(), dims)});
  return one(std::move(y));
}

KernelResult shape(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  const Dims& dims = input(c, 0).dims();
  const auto rank = static_cast<int64_t>(dims.size());
  const auto clamp_axis = [&](int64_t a) {
    return std::clamp<int64_t>(a < 0 ? a + rank : a, 0, rank);
  };
  const int64_t start = clamp_axis(c.attrs.get_int("start", 0));
  const int64_t end = std::max(start, clamp_axis(c.attrs.get_int("end", rank)));
  const Dims part(dims.begin() + start, dims.begin() + end);
  return one(HostTensor::from(DType::I64, {end - start}, part));
}

KernelResult size(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  return one(HostTensor::from<int64_t>(DType::I64, {}, {input(c, 0).count()}));
}

/// The core form of evaluated shape arithmetic.
KernelResult shape_value(const Call& c) {
  RP_TRY(check_arity(c, 0, 0));
  const Dims elements = c.attrs.get_ints("elements");
  RP_ASSIGN(const DType dtype, dtype_from_onnx(c.attrs.get_int("dtype", 0)));
  if (dtype != DType::I64 && dtype != DType::I32) {
    return invalid_model("attribute 'dtype' must be int32 or int64");
  }
  const bool scalar = c.attrs.get_int("scalar", 0) != 0;
  if (scalar && elements.size() != 1) return invalid_model("a scalar needs one element");
  RP_ASSIGN(auto y, allocate(dtype, scalar ? Dims{} : Dims{static_cast<int64_t>(elements.size())}));
  store(y, 0, y.count(), elements.data());
  return one(std::move(y));
}

}  // namespace

Table shape_table() {
  static constexpr Entry kTable[] = {
      {"Reshape", reshape}, {"Flatten", flatten}, {"Squeeze", squeeze}, {"Unsqueeze", unsqueeze},
      {"Expand", expand},   {"Shape", shape},     {"Size", size},       {"ShapeValue", shape_value},
  };
  return kTable;
}

}  // namespace reprise::host
