#include "tests/host/cases.h"

#include <gtest/gtest.h>

#include <cmath>

namespace reprise::test {

namespace {

double number_at(const HostTensor& t, int64_t i) {
  switch (t.dtype()) {
    case DType::F32:
      return static_cast<double>(t.data<float>()[i]);
    case DType::F64:
      return t.data<double>()[i];
    case DType::F16:
      return static_cast<double>(f16_to_float(t.data<uint16_t>()[i]));
    case DType::BF16:
      return static_cast<double>(bf16_to_float(t.data<uint16_t>()[i]));
    default:
      ADD_FAILURE() << "not a float: " << describe(t.dtype(), t.dims());
      return 0;
  }
}

HostTensor halves(DType t, Dims dims, const std::vector<float>& v) {
  std::vector<uint16_t> bits;
  for (float x : v) bits.push_back(t == DType::F16 ? float_to_f16(x) : float_to_bf16(x));
  return HostTensor::from(t, std::move(dims), bits);
}

Result<std::vector<HostTensor>> call(const std::string& op, const Inputs& inputs,
                                     const AttrMap& attrs, int64_t opset, size_t outputs,
                                     const std::optional<Dims>& output_dims = std::nullopt) {
  const host::Kernel kernel = host::find(op);
  if (kernel == nullptr) return internal_error("no host kernel for " + op);
  std::vector<const HostTensor*> pointers;
  for (const auto& t : inputs) pointers.push_back(t ? &*t : nullptr);
  return kernel({op, opset, attrs, pointers, outputs, output_dims});
}

}  // namespace

HostTensor f32(Dims dims, const std::vector<float>& v) {
  return HostTensor::from(DType::F32, std::move(dims), v);
}
HostTensor f64(Dims dims, const std::vector<double>& v) {
  return HostTensor::from(DType::F64, std::move(dims), v);
}
HostTensor f16(Dims dims, const std::vector<float>& v) {
  return halves(DType::F16, std::move(dims), v);
}
HostTensor bf16(Dims dims, const std::vector<float>& v) {
  return halves(DType::BF16, std::move(dims), v);
}
HostTensor i64(Dims dims, const std::vector<int64_t>& v) {
  return HostTensor::from(DType::I64, std::move(dims), v);
}
HostTensor i32(Dims dims, const std::vector<int32_t>& v) {
  return HostTensor::from(DType::I32, std::move(dims), v);
}
HostTensor i8(Dims dims, const std::vector<int8_t>& v) {
  return HostTensor::from(DType::I8, std::move(dims), v);
}
HostTensor u8(Dims dims, const std::vector<uint8_t>& v) {
  return HostTensor::from(DType::U8, std::move(dims), v);
}
HostTensor u64(Dims dims, const std::vector<uint64_t>& v) {
  return HostTensor::from(DType::U64, std::move(dims), v);
}
HostTensor boolean(Dims dims, const std::vector<uint8_t>& v) {
  return HostTensor::from(DType::Bool, std::move(dims), v);
}
HostTensor strings(Dims dims, const std::vector<std::string>& v) {
  HostTensor t(DType::String, std::move(dims));
  t.mutable_strings() = v;
  return t;
}
HostTensor counting(Dims dims, float first) {
  HostTensor t(DType::F32, std::move(dims));
  for (int64_t i = 0; i < t.count(); ++i)
    t.mutable_data<float>()[i] = first + static_cast<float>(i);
  return t;
}

AttrMap attrs(std::initializer_list<std::pair<const char*, Attr>> list) {
  AttrMap m;
  for (const auto& [name, value] : list) m.set(name, value);
  return m;
}

std::string difference(const HostTensor& got, const HostTensor& want, double tolerance) {
  if (got.dtype() != want.dtype() || got.dims() != want.dims()) {
    return "got " + describe(got.dtype(), got.dims()) + ", want " +
           describe(want.dtype(), want.dims());
  }
  if (got.dtype() == DType::String) {
    return got.strings() == want.strings() ? "" : "strings differ";
  }
  if (!is_float(got.dtype())) {
    const bool same = std::equal(got.bytes().begin(), got.bytes().end(), want.bytes().begin());
    if (same) return "";
    for (size_t i = 0; i < got.bytes().size(); ++i) {
      if (got.bytes()[i] == want.bytes()[i]) continue;
      return "element " + std::to_string(i / size_of(got.dtype())) + " differs";
    }
  }
  for (int64_t i = 0; i < got.count(); ++i) {
    const double a = number_at(got, i);
    const double b = number_at(want, i);
    const bool equal = a == b ? std::signbit(a) == std::signbit(b) || tolerance > 0
                              : (std::isnan(a) && std::isnan(b));
    if (equal || std::fabs(a - b) <= tolerance * (1 + std::fabs(b))) continue;
    return "element " + std::to_string(i) + ": got " + std::to_string(a) + ", want " +
           std::to_string(b);
  }
  return "";
}

void run_cases(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.op + ": " + c.label);
    const auto got = call(c.op, c.inputs, c.attrs, c.opset, c.expected.size(), c.output_dims);
    if (!got.ok()) {
      ADD_FAILURE() << got.status().message();
      continue;
    }
    ASSERT_GE(got->size(), c.expected.size());
    for (size_t i = 0; i < c.expected.size(); ++i) {
      EXPECT_EQ(difference((*got)[i], c.expected[i], c.tolerance), "") << "output " << i;
    }
  }
}

void run_error_cases(const std::vector<ErrorCase>& cases) {
  for (const ErrorCase& c : cases) {
    SCOPED_TRACE(c.op + ": " + c.label);
    const auto got = call(c.op, c.inputs, c.attrs, c.opset, c.output_count);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.status().code(), c.code) << got.status().message();
    EXPECT_NE(got.status().message().find(c.message), std::string::npos) << got.status().message();
  }
}

}  // namespace reprise::test
