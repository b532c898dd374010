#include "tests/ops/decomposition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "codegen/ops/row/op.h"
#include "tests/ops/run_graph.h"

namespace reprise::test {

namespace {

HostTensor random_tensor(DType t, const std::vector<int64_t>& dims, const Decomposition& c,
                         std::mt19937& rng) {
  HostTensor out(t, dims);
  std::uniform_real_distribution<double> real(c.lo, c.hi);
  const double inf = std::numeric_limits<double>::infinity();
  const double specials[] = {std::nan(""), inf, -inf, 0.0, -0.0, 1.0};
  for (int64_t i = 0; i < out.count(); ++i) {
    double v = real(rng);
    if (c.special && is_float(t) && i % 3 == 0) v = specials[static_cast<size_t>(i / 3) % 6];
    const auto n = static_cast<int64_t>(std::floor(v));
    switch (t) {
      case DType::F32:
        out.mutable_data<float>()[i] = static_cast<float>(v);
        break;
      case DType::F16:
        out.mutable_data<uint16_t>()[i] = float_to_f16(static_cast<float>(v));
        break;
      case DType::Bool:
        out.mutable_data<uint8_t>()[i] = v > (c.lo + c.hi) / 2;
        break;
      case DType::I8:
        out.mutable_data<int8_t>()[i] = static_cast<int8_t>(n);
        break;
      case DType::U8:
        out.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(n < 0 ? -n : n);
        break;
      case DType::I32:
        out.mutable_data<int32_t>()[i] = static_cast<int32_t>(n);
        break;
      case DType::I64:
        out.mutable_data<int64_t>()[i] = n;
        break;
      default:
        ADD_FAILURE() << "no random values for " << name_of(t);
    }
  }
  return out;
}

/// Small distinct values of symbols, but where the graph needs two of them to be equal.
std::vector<int64_t> sizes_of(const graph::Graph& g) {
  std::vector<int64_t> values(g.symbols.size());
  std::iota(values.begin(), values.end(), 3);
  for (const graph::DimGuard& guard : g.guards) {
    const auto a = guard.a.as_symbol(), b = guard.b.as_symbol();
    if (a && b) values[static_cast<size_t>(*a)] = values[static_cast<size_t>(*b)];
  }
  return values;
}

/// Dims of an input.
std::vector<int64_t> concrete(const Shape& shape, const std::vector<int64_t>& values) {
  std::vector<int64_t> dims;
  for (const Expr& d : shape) {
    const auto v = d.eval(values);
    EXPECT_TRUE(v.ok()) << v.status().message();
    dims.push_back(v.ok() ? *v : 1);
  }
  return dims;
}

void expect_close(const HostTensor& want, const HostTensor& got, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(describe(want.dtype(), want.dims()), describe(got.dtype(), got.dims())) << what;
  const auto a = numbers(want);
  const auto b = numbers(got);
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || std::isinf(a[i])) {
      ASSERT_TRUE(std::isnan(a[i]) ? std::isnan(b[i]) : a[i] == b[i])
          << what << ": element " << i << " is " << b[i] << ", expected " << a[i];
      continue;
    }
    const double slack = want.dtype() == DType::F16 ? 2e-3 : tolerance;
    ASSERT_LE(std::fabs(a[i] - b[i]), is_float(want.dtype()) ? slack * (1 + std::fabs(a[i])) : 0)
        << what << ": element " << i << " is " << b[i] << ", expected " << a[i];
  }
}

}  // namespace

void check_decomposition(const Decomposition& c) {
  const auto onnx = must_parse(c.text);
  ASSERT_TRUE(onnx);
  std::mt19937 rng(7);
  std::vector<HostTensor> inputs;
  const std::vector<int64_t> sizes = sizes_of(*onnx);
  for (graph::ValueId v : onnx->inputs) {
    const graph::Value& value = onnx->value(v);
    inputs.push_back(random_tensor(value.dtype, concrete(value.shape, sizes), c, rng));
  }
  const auto want = run_graph(*onnx, inputs, Engine::Host);
  ASSERT_TRUE(want.ok()) << want.status().message();

  const auto core = must_parse(c.text);
  const Status s = decompose_all(*core);
  ASSERT_TRUE(s.ok()) << s.message();
  const Status verified = graph::verify(*core, true);
  ASSERT_TRUE(verified.ok()) << verified.message() << "\n" << graph::print(*core);
  for (const auto& n : core->nodes()) EXPECT_TRUE(ops::is_core(*n)) << graph::print(*core);

  const auto host = run_graph(*core, inputs, Engine::Host);
  ASSERT_TRUE(host.ok()) << host.status().message() << "\n" << graph::print(*core);
  int interpreted = 0;
  const auto elements = run_graph(*core, inputs, Engine::Elements, &interpreted);
  ASSERT_TRUE(elements.ok()) << elements.status().message() << "\n" << graph::print(*core);
  const auto by_element = std::ranges::count_if(core->nodes(), [](const auto& n) {
    const ops::Lowering how = ops::find(*n)->lowering;
    return how != ops::Lowering::Scan && how != ops::Lowering::Kernel;
  });
  EXPECT_EQ(interpreted, by_element);
  for (size_t i = 0; i < want->size(); ++i) {
    expect_close((*want)[i], (*host)[i], c.tolerance, "core form on the host");
    expect_close((*want)[i], (*elements)[i], c.tolerance, "elements");
  }
}

}  // namespace reprise::test
