#include "runtime/host/support.h"

#include <algorithm>
#include <new>

namespace reprise::host {

namespace {

// Larger tensors are refused, so that an excessive Expand does not exhaust the machine.
constexpr int64_t kMaxBytes = int64_t{1} << 34;
constexpr int64_t kSaturated = int64_t{1} << 62;

}  // namespace

Status check_arity(const Call& c, size_t required, size_t max_inputs, size_t max_outputs) {
  if (c.inputs.size() > max_inputs) {
    return invalid_model("has " + std::to_string(c.inputs.size()) + " inputs, at most " +
                         std::to_string(max_inputs) + " are defined");
  }
  for (size_t i = 0; i < required; ++i) {
    if (!has_input(c, i)) return invalid_model("input " + std::to_string(i) + " is missing");
  }
  if (c.output_count > max_outputs) {
    return invalid_model("has " + std::to_string(c.output_count) + " outputs, at most " +
                         std::to_string(max_outputs) + " are defined");
  }
  return {};
}

std::string describe_input(const Call& c, size_t i, std::string_view role) {
  const HostTensor& t = input(c, i);
  return "input " + std::to_string(i) + " (" + std::string(role) +
         "): " + describe(t.dtype(), t.dims());
}

Status wrong_dtype(const Call& c, size_t i, std::string_view role, std::string_view wanted) {
  return unsupported(describe_input(c, i, role) + ": the host kernel takes " + std::string(wanted));
}

Status require_float(const Call& c, size_t i, std::string_view role) {
  return is_float(input(c, i).dtype()) ? Status() : wrong_dtype(c, i, role, "floats");
}

Status require_number(const Call& c, size_t i, std::string_view role) {
  const DType t = input(c, i).dtype();
  return is_float(t) || is_int(t) ? Status() : wrong_dtype(c, i, role, "numbers");
}

Status require_same_dtype(const Call& c, size_t i, size_t j) {
  if (input(c, i).dtype() == input(c, j).dtype()) return {};
  return invalid_input("inputs " + std::to_string(i) + " and " + std::to_string(j) +
                       " have different dtypes: " + std::string(name_of(input(c, i).dtype())) +
                       " and " + std::string(name_of(input(c, j).dtype())));
}

Status require_rank(const Call& c, size_t i, std::string_view role, int64_t min_rank,
                    int64_t max_rank) {
  const int64_t rank = input(c, i).rank();
  if (rank >= min_rank && rank <= max_rank) return {};
  std::string wanted = std::to_string(min_rank);
  if (max_rank == std::numeric_limits<int64_t>::max()) {
    wanted += " or more";
  } else if (max_rank != min_rank) {
    wanted += " to " + std::to_string(max_rank);
  }
  return invalid_input(describe_input(c, i, role) + ": its rank must be " + wanted);
}

Result<DType> dtype_from_onnx(int64_t code) {
  const DType t = dtype_with_onnx_number(code);
  if (t != DType::Invalid) return t;
  return unsupported("data type number " + std::to_string(code) +
                     " of ONNX is not supported on the host");
}

bool has_ints(const Call& c, std::string_view attr, size_t i) {
  return c.attrs.has(attr) || has_input(c, i);
}

Result<Dims> tensor_ints(const HostTensor& t, const std::string& what) {
  if (t.dtype() != DType::I64 && t.dtype() != DType::I32) {
    return invalid_input(what + " must be int32 or int64, is " + describe(t.dtype(), t.dims()));
  }
  Dims out(static_cast<size_t>(t.count()));
  load(t, 0, 1, t.count(), out.data());
  return out;
}

Result<Dims> read_ints(const Call& c, std::string_view attr, size_t i) {
  if (c.attrs.has(attr)) {
    if (const auto* list = c.attrs.get<std::vector<int64_t>>(attr)) return *list;
    if (const auto* value = c.attrs.get<int64_t>(attr)) return Dims{*value};
    return invalid_model("attribute '" + std::string(attr) + "' must hold integers");
  }
  const std::string what = "input " + std::to_string(i) + " (" + std::string(attr) + ")";
  if (!has_input(c, i)) return invalid_model(what + " is missing");
  if (input(c, i).rank() > 1) {
    return invalid_input(describe_input(c, i, attr) + ": must be a list of integers");
  }
  return tensor_ints(input(c, i), what);
}

Result<double> scalar_value(const Call& c, size_t i, std::string_view role) {
  if (!has_input(c, i)) {
    return invalid_model("input " + std::to_string(i) + " (" + std::string(role) + ") is missing");
  }
  if (input(c, i).count() != 1 || domain_of(input(c, i).dtype()) == Domain::None) {
    return invalid_input(describe_input(c, i, role) + ": must hold one number");
  }
  double v = 0;
  load(input(c, i), 0, 1, 1, &v);
  return v;
}

Result<int64_t> normalize_axis(int64_t axis, int64_t rank, std::string_view what) {
  if (axis < -rank || axis >= rank) {
    return invalid_model(std::string(what) + " " + std::to_string(axis) +
                         " is out of range for rank " + std::to_string(rank));
  }
  return axis < 0 ? axis + rank : axis;
}

Result<Dims> normalize_axes(const Dims& axes, int64_t rank) {
  Dims out;
  for (int64_t a : axes) {
    RP_ASSIGN(const int64_t axis, normalize_axis(a, rank));
    out.push_back(axis);
  }
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end()) {
    return invalid_model("axes " + dims_str(axes) + " name one axis twice");
  }
  return out;
}

Result<HostTensor> allocate(DType dtype, Dims dims) {
  RP_ASSIGN(const int64_t count, checked_element_count(dims, dtype));
  const int64_t bytes =
      count * static_cast<int64_t>(dtype == DType::String ? sizeof(std::string) : size_of(dtype));
  const std::string what = describe(dtype, dims);
  if (bytes > kMaxBytes) {
    return invalid_input("the result " + what + " is over the host's limit of 16 GiB a tensor");
  }
  try {
    return HostTensor(dtype, std::move(dims));
  } catch (const std::bad_alloc&) {
    return out_of_memory("out of memory for the result " + what);
  }
}

Result<std::vector<double>> allocate_scratch(std::span<const int64_t> dims) {
  RP_ASSIGN(const int64_t count, checked_element_count(dims, DType::F64));
  if (count > kMaxBytes / 8) {
    return invalid_input("scratch memory of " + dims_str(dims) + " is over the host's limit");
  }
  try {
    return std::vector<double>(static_cast<size_t>(count));
  } catch (const std::bad_alloc&) {
    return out_of_memory("out of memory for scratch memory of " + dims_str(dims));
  }
}

std::string dims_str(std::span<const int64_t> dims) {
  std::string s = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) s += ",";
    s += std::to_string(dims[i]);
  }
  return s + "]";
}

int64_t product(std::span<const int64_t> dims) {
  int64_t p = 1;
  for (int64_t d : dims) {
    if (d == 0) return 0;
  }
  for (int64_t d : dims) {
    if (d > kSaturated / p) return kSaturated;
    p *= d;
  }
  return p;
}

Dims strides_of(std::span<const int64_t> dims) {
  Dims strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) {
    const int64_t size = std::max<int64_t>(dims[d], 1);
    strides[d - 1] = size > kSaturated / strides[d] ? kSaturated : strides[d] * size;
  }
  return strides;
}

Result<Dims> broadcast_dims(std::span<const HostTensor* const> inputs) {
  Dims out;
  for (const HostTensor* t : inputs) {
    const Dims& d = t->dims();
    if (d.size() > out.size()) out.insert(out.begin(), d.size() - out.size(), 1);
    for (size_t i = 0; i < d.size(); ++i) {
      int64_t& o = out[out.size() - d.size() + i];
      if (d[i] == o || d[i] == 1) continue;
      if (o == 1) {
        o = d[i];
        continue;
      }
      std::string shapes;
      for (const HostTensor* s : inputs) {
        shapes += (shapes.empty() ? "" : ", ") + dims_str(s->dims());
      }
      return invalid_input("the inputs' shapes do not broadcast: " + shapes);
    }
  }
  return out;
}

Dims broadcast_strides(std::span<const int64_t> from, std::span<const int64_t> to) {
  const Dims own = strides_of(from);
  Dims out(to.size(), 0);
  const size_t shift = to.size() - from.size();
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] != 1) out[shift + d] = own[d];
  }
  return out;
}

AxisSplit split_at(const Dims& dims, int64_t axis) {
  return {product_range(dims, 0, axis), at(dims, axis),
          product_range(dims, axis + 1, static_cast<int64_t>(dims.size()))};
}

Dims without(Dims dims, int64_t axis) {
  dims.erase(dims.begin() + axis);
  return dims;
}

Result<HostTensor> slice_of(const HostTensor& t, int64_t axis, int64_t begin, int64_t size) {
  const AxisSplit from = split_at(t.dims(), axis);
  Dims dims = t.dims();
  at(dims, axis) = size;
  RP_ASSIGN(HostTensor out, allocate(t.dtype(), std::move(dims)));
  for (int64_t o = 0; o < from.outer; ++o) {
    copy_block(out, o * size * from.inner, t, (o * from.size + begin) * from.inner,
               size * from.inner);
  }
  return out;
}

Result<Broadcast> broadcast(std::span<const HostTensor* const> inputs) {
  Broadcast b;
  RP_ASSIGN(b.dims, broadcast_dims(inputs));
  std::vector<Dims> full;
  for (const HostTensor* t : inputs) full.push_back(broadcast_strides(t->dims(), b.dims));
  b.strides.resize(inputs.size());
  for (size_t d = 0; d < b.dims.size(); ++d) {
    if (b.dims[d] == 1) continue;
    bool joins = !b.loop.empty();
    for (size_t k = 0; joins && k < full.size(); ++k) {
      joins = b.strides[k].back() == full[k][d] * b.dims[d];
    }
    if (joins) {
      b.loop.back() *= b.dims[d];
    } else {
      b.loop.push_back(b.dims[d]);
    }
    for (size_t k = 0; k < full.size(); ++k) {
      if (joins) {
        b.strides[k].back() = full[k][d];
      } else {
        b.strides[k].push_back(full[k][d]);
      }
    }
  }
  if (b.loop.empty()) {
    b.loop.push_back(1);
    for (Dims& s : b.strides) s.push_back(0);
  }
  return b;
}

void for_each_chunk(const Broadcast& b,
                    const std::function<void(int64_t, int64_t, std::span<const int64_t>)>& f) {
  if (product(b.dims) == 0) return;
  const int64_t row = b.loop.back();
  const size_t outer_rank = b.loop.size() - 1;
  const size_t operands = b.strides.size();
  std::vector<int64_t> index(outer_rank, 0);
  std::vector<int64_t> base(operands, 0);
  std::vector<int64_t> offsets(operands, 0);
  for (int64_t start = 0;;) {
    for (int64_t i = 0; i < row; i += kChunk) {
      for (size_t k = 0; k < operands; ++k) offsets[k] = base[k] + i * b.strides[k].back();
      f(start + i, std::min(kChunk, row - i), offsets);
    }
    start += row;
    size_t d = outer_rank;
    for (;;) {
      if (d == 0) return;
      --d;
      for (size_t k = 0; k < operands; ++k) base[k] += b.strides[k][d];
      if (++index[d] < b.loop[d]) break;
      for (size_t k = 0; k < operands; ++k) base[k] -= b.strides[k][d] * b.loop[d];
      index[d] = 0;
    }
  }
}

}  // namespace reprise::host
