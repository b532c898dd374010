// Operators that generate tensors from shapes and scalars.
#include <algorithm>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

KernelResult constant(const Call& c) {
  RP_TRY(check_arity(c, 0, 0));
  if (const auto* t = c.attrs.get<HostTensor>("value")) return one(*t);
  if (const auto* v = c.attrs.get<float>("value_float")) {
    return one(HostTensor::from<float>(DType::F32, {}, {*v}));
  }
  if (const auto* v = c.attrs.get<int64_t>("value_int")) {
    return one(HostTensor::from<int64_t>(DType::I64, {}, {*v}));
  }
  if (const auto* v = c.attrs.get<std::vector<float>>("value_floats")) {
    return one(HostTensor::from(DType::F32, {static_cast<int64_t>(v->size())}, *v));
  }
  if (const auto* v = c.attrs.get<std::vector<int64_t>>("value_ints")) {
    return one(HostTensor::from(DType::I64, {static_cast<int64_t>(v->size())}, *v));
  }
  std::vector<std::string> strings;
  Dims dims;
  if (const auto* v = c.attrs.get<std::string>("value_string")) {
    strings = {*v};
  } else if (const auto* list = c.attrs.get<std::vector<std::string>>("value_strings")) {
    strings = *list;
    dims = {static_cast<int64_t>(list->size())};
  } else {
    return invalid_model("no attribute holds the constant's value");
  }
  RP_ASSIGN(auto t, allocate(DType::String, dims));
  t.mutable_strings() = std::move(strings);
  return one(std::move(t));
}

KernelResult constant_of_shape(const Call& c) {
  RP_TRY(check_arity(c, 0, 1));
  RP_ASSIGN(const Dims dims, read_ints(c, "shape", 0));
  HostTensor value(DType::F32, {});
  if (c.attrs.has("value")) {
    const auto* t = c.attrs.get<HostTensor>("value");
    if (t == nullptr || t->count() != 1) {
      return invalid_model("attribute 'value' must be a tensor of one element");
    }
    value = *t;
  }
  RP_ASSIGN(auto y, allocate(value.dtype(), dims));
  fill(y, value);
  return one(std::move(y));
}

template <typename T>
KernelResult int_range(const Call& c) {
  T start = 0;
  T limit = 0;
  T delta = 0;
  load(input(c, 0), 0, 1, 1, &start);
  load(input(c, 1), 0, 1, 1, &limit);
  load(input(c, 2), 0, 1, 1, &delta);
  if (delta == 0) return invalid_input("delta is 0");
  // Distances are unsigned, because limit - start may overflow.
  const bool up = delta > 0;
  const auto from = static_cast<uint64_t>(start);
  const auto to = static_cast<uint64_t>(limit);
  const uint64_t distance = up ? (limit > start ? to - from : 0) : (limit < start ? from - to : 0);
  const uint64_t step = up ? static_cast<uint64_t>(delta) : 0 - static_cast<uint64_t>(delta);
  const uint64_t count = distance / step + (distance % step != 0 ? 1 : 0);
  if (count >= (uint64_t{1} << 40)) return invalid_input("the range has an absurd size");
  RP_ASSIGN(auto y, allocate(input(c, 0).dtype(), {static_cast<int64_t>(count)}));
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t v = from + i * static_cast<uint64_t>(delta);
    store(y, static_cast<int64_t>(i), 1, &v);
  }
  return one(std::move(y));
}

KernelResult range(const Call& c) {
  RP_TRY(check_arity(c, 3, 3));
  for (size_t i = 0; i < 3; ++i) {
    const char* role = i == 0 ? "start" : i == 1 ? "limit" : "delta";
    RP_TRY(require_number(c, i, role));
    RP_TRY(require_same_dtype(c, 0, i));
    RP_TRY(scalar_value(c, i, role).status());
  }
  const DType t = input(c, 0).dtype();
  if (domain_of(t) == Domain::Signed) return int_range<int64_t>(c);
  if (domain_of(t) == Domain::Unsigned) return int_range<uint64_t>(c);
  double v[3];
  for (size_t i = 0; i < 3; ++i) load(input(c, i), 0, 1, 1, &v[i]);
  if (v[2] == 0) return invalid_input("delta is 0");
  const double count = std::ceil((v[1] - v[0]) / v[2]);
  if (!(count < 0x1p40)) return invalid_input("the range is not finite or has an absurd size");
  RP_ASSIGN(auto y, allocate(t, {static_cast<int64_t>(std::max(0.0, count))}));
  for (int64_t i = 0; i < y.count(); ++i) {
    const double e = v[0] + static_cast<double>(i) * v[2];
    store(y, i, 1, &e);
  }
  return one(std::move(y));
}

KernelResult eye_like(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_TRY(require_rank(c, 0, "input", 2, 2));
  const HostTensor& x = input(c, 0);
  DType t = x.dtype();
  if (c.attrs.has("dtype")) {
    RP_ASSIGN(t, dtype_from_onnx(c.attrs.get_int("dtype", 0)));
  }
  if (domain_of(t) == Domain::None) return unsupported("no identity matrix of strings");
  const int64_t k = c.attrs.get_int("k", 0);
  RP_ASSIGN(auto y, allocate(t, x.dims()));
  const uint64_t ones = 1;
  const int64_t columns = x.dims()[1];
  for (int64_t r = 0; r < x.dims()[0]; ++r) {
    if (k >= -r && k < columns - r) store(y, r * columns + r + k, 1, &ones);
  }
  return one(std::move(y));
}

/// Indices outside [-depth, depth) give rows of the off value.
KernelResult one_hot(const Call& c) {
  RP_TRY(check_arity(c, 3, 3));
  RP_TRY(require_number(c, 0, "indices"));
  const HostTensor& indices = input(c, 0);
  const HostTensor& values = input(c, 2);
  RP_ASSIGN(const double depth_value, scalar_value(c, 1, "depth"));
  if (!(depth_value >= 0 && depth_value < 0x1p40)) return invalid_input("depth is out of range");
  const auto depth = static_cast<int64_t>(depth_value);
  if (values.dims() != Dims{2}) {
    return invalid_input(describe_input(c, 2, "values") + ": must be [off, on]");
  }
  RP_ASSIGN(const int64_t axis, normalize_axis(c.attrs.get_int("axis", -1), indices.rank() + 1));
  Dims dims = indices.dims();
  dims.insert(dims.begin() + axis, depth);
  RP_ASSIGN(auto y, allocate(values.dtype(), dims));
  if (y.count() == 0) return one(std::move(y));
  fill(y, values);
  const AxisSplit s = split_at(dims, axis);
  for (int64_t i = 0; i < indices.count(); ++i) {
    double v = 0;
    load(indices, i, 1, 1, &v);
    int64_t hot = saturate_i64(v);  // indices of any dtype are cast to int64
    if (hot < 0) hot += depth;
    if (hot < 0 || hot >= depth) continue;
    copy_block(y, (i / s.inner * depth + hot) * s.inner + i % s.inner, values, 1, 1);
  }
  return one(std::move(y));
}

/// Hann, Hamming and Blackman windows.
KernelResult window(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_ASSIGN(const double size, scalar_value(c, 0, "size"));
  if (!(size >= 0 && size < 0x1p40)) return invalid_input("size is out of range");
  RP_ASSIGN(const DType t, dtype_from_onnx(c.attrs.get_int("output_datatype", 1)));
  if (domain_of(t) == Domain::None || t == DType::Bool)
    return unsupported("windows of numbers only");
  RP_ASSIGN(auto y, allocate(t, {static_cast<int64_t>(size)}));
  const double period = c.attrs.get_int("periodic", 1) != 0 ? size : size - 1;
  for (int64_t i = 0; i < y.count(); ++i) {
    const double angle = 2 * 3.14159265358979323846 * static_cast<double>(i) / period;
    double v = 0.5 - 0.5 * std::cos(angle);
    if (c.op == "HammingWindow") v = 25.0 / 46.0 - 21.0 / 46.0 * std::cos(angle);
    if (c.op == "BlackmanWindow") v = 0.42 - 0.5 * std::cos(angle) + 0.08 * std::cos(2 * angle);
    store(y, i, 1, &v);
  }
  return one(std::move(y));
}

}  // namespace

Table generate_table() {
  static constexpr Entry kTable[] = {
      {"Constant", constant},    {"ConstantOfShape", constant_of_shape},
      {"Range", range},          {"EyeLike", eye_like},
      {"OneHot", one_hot},       {"HannWindow", window},
      {"HammingWindow", window}, {"BlackmanWindow", window},
  };
  return kTable;
}

}  // namespace reprise::host
