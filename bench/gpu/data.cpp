#include <cmath>

#include "bench/gpu/case.h"
#include "runtime/base/compare.h"
#include "runtime/base/random.h"

namespace reprise::bench::gpu {
namespace {

uint64_t mixed(uint64_t x) {
  return splitmix64(x);
}

void store(HostTensor& t, int64_t i, float v) {
  switch (t.dtype()) {
    case DType::F16:
      t.mutable_data<uint16_t>()[i] = float_to_f16(v);
      break;
    case DType::BF16:
      t.mutable_data<uint16_t>()[i] = float_to_bf16(v);
      break;
    default:
      t.mutable_data<float>()[i] = v;
      break;
  }
}

}  // namespace

HostTensor made_up(const Operand& operand) {
  HostTensor t(operand.dtype, operand.dims);
  uint64_t seed = 0;
  for (const char c : operand.name) seed = mixed(seed + static_cast<unsigned char>(c));
  for (int64_t i = 0; i < t.count(); ++i) {
    const auto bits = static_cast<double>(mixed(seed + static_cast<uint64_t>(i)) >> 40);
    store(t, i, static_cast<float>(operand.scale * (bits / (1 << 23) - 1)));
  }
  return t;
}

double value_at(const HostTensor& tensor, int64_t index) {
  switch (tensor.dtype()) {
    case DType::F32:
      return static_cast<double>(tensor.data<float>()[index]);
    case DType::F16:
      return static_cast<double>(f16_to_float(tensor.data<uint16_t>()[index]));
    case DType::BF16:
      return static_cast<double>(bf16_to_float(tensor.data<uint16_t>()[index]));
    case DType::I64:
      return static_cast<double>(tensor.data<int64_t>()[index]);
    case DType::I32:
      return tensor.data<int32_t>()[index];
    default:
      return std::nan("");
  }
}

int64_t count_of(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

uint64_t bytes_of(const Operand& operand) {
  return static_cast<uint64_t>(count_of(operand.dims)) * size_of(operand.dtype);
}

double tolerance_of(DType dtype) {
  return tolerance(Rule::Model, dtype).of_max;
}

}  // namespace reprise::bench::gpu
