// The table of cases.
#include <cmath>

#include "bench/baselines.h"
#include "bench/gpu/case.h"
#include "bench/gpu/models.h"
#include "bench/gpu/references.h"
#include "bench/models.h"

namespace reprise::bench::gpu {
namespace {

constexpr DType kFloats[] = {DType::F32, DType::F16, DType::BF16};

std::string text(int64_t n) {
  return std::to_string(n);
}

/// Compiles a model that depends only on its constants.
template <typename F>
auto compiled(const F& onnx) {
  return [onnx](const Tensors& values, const DeviceInfo&, const CompileOptions& options) {
    return compile_model(onnx(values), options);
  };
}

Case copy_case(int64_t count) {
  Case c{.name = "copy " + text(count >> 20) + "M floats", .group = "copy"};
  if (count < 1 << 20) c.name = "copy " + text(count) + " floats";
  c.bytes = 8.0 * static_cast<double>(count);
  c.operands = {{"x0", DType::F32, {count}}};
  c.outputs = {{count}};
  c.peer = CopyOp{};
  c.package = [count](const Tensors&, const DeviceInfo& device,
                      const CompileOptions&) -> Result<PackagePtr> {
    RP_ASSIGN(const ChainSpec spec, copy(count, device.facts));
    return chain_package(spec, device);
  };
  c.expected = [](const Tensors& v) { return copied(v[0]); };
  return c;
}

Case pointwise_case(int64_t rows, int64_t columns) {
  Case c{.name = "pointwise " + text(rows) + "x" + text(columns), .group = "pointwise"};
  c.bytes = 8.0 * static_cast<double>(rows * columns);
  c.operands = {{"x", DType::F32, {rows, columns}}};
  c.outputs = {{rows, columns}};
  c.package = compiled([=](const Tensors&) { return pointwise_model(rows, columns); });
  c.expected = [columns](const Tensors& v) { return pointwise_samples(columns, v[0]); };
  return c;
}

Case gemm_case(int64_t n, DType dtype) {
  const GemmOp op{n, n, n};
  Case c{.name = "matmul " + text(n), .group = "matmul", .dtype = dtype};
  c.flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  c.operands = {{"x", dtype, {n, n}}, {"w", dtype, {n, n}, true}};
  c.outputs = {{n, n}};
  c.peer = op;
  c.package = compiled([op](const Tensors& v) { return gemm_onnx(op, v[1]); });
  c.expected = [op](const Tensors& v) { return gemm_samples(op, v[0], v[1]); };
  return c;
}

Case softmax_case(int64_t rows, int64_t columns, DType dtype) {
  const SoftmaxOp op{rows, columns};
  Case c{.name = "softmax " + text(rows) + "x" + text(columns), .group = "softmax", .dtype = dtype};
  c.bytes = 2.0 * static_cast<double>(size_of(dtype)) * static_cast<double>(rows * columns);
  c.operands = {{"x", dtype, {rows, columns}, false, 4}};
  c.outputs = {{rows, columns}};
  c.peer = op;
  c.package = compiled([=](const Tensors&) { return softmax_onnx(op, dtype); });
  c.expected = [op](const Tensors& v) { return softmax_samples(op, v[0]); };
  return c;
}

Case attention_case(const AttentionSize& op, DType dtype) {
  Case c{.name = "attention " + text(op.heads) + "x" + text(op.rows) + "x" + text(op.keys) + "x" +
                 text(op.size),
         .group = "attention",
         .dtype = dtype};
  const std::vector<int64_t> rows{1, op.heads, op.rows, op.size},
      keys{1, op.heads, op.keys, op.size};
  // A single row reads every key and value once, so its rate is that of memory.
  if (op.rows == 1) {
    c.bytes = static_cast<double>(2 * size_of(dtype)) * static_cast<double>(count_of(keys));
  } else {
    c.flops =
        4.0 * static_cast<double>(op.heads * op.rows) * static_cast<double>(op.keys * op.size);
  }
  c.operands = {{"q", dtype, rows, false, 2}, {"k", dtype, keys, false, 2}, {"v", dtype, keys}};
  c.outputs = {rows};
  c.package = compiled([=](const Tensors&) { return attention_onnx(op, dtype); });
  c.expected = [op](const Tensors& v) { return attention_samples(op, v); };
  return c;
}

Case conv_case(const ConvOp& op, DType dtype) {
  Case c{.name = "conv " + text(op.kernel) + "x" + text(op.kernel) + "/" + text(op.stride) + " " +
                 text(op.channels) + "x" + text(op.size) + " to " + text(op.filters),
         .group = "conv",
         .dtype = dtype};
  const int64_t taps = op.channels * op.kernel * op.kernel;
  c.flops = 2.0 * static_cast<double>(op.filters * op.out() * op.out()) * static_cast<double>(taps);
  c.operands = {{"x", dtype, {1, op.channels, op.size, op.size}},
                {"w", dtype, {op.filters, op.channels, op.kernel, op.kernel}, true}};
  c.outputs = {{1, op.filters, op.out(), op.out()}};
  c.peer = op;
  c.package = compiled([op](const Tensors& v) { return conv_onnx(op, v[1]); });
  c.expected = [op](const Tensors& v) { return conv_samples(op, v[0], v[1]); };
  return c;
}

Case replay_case(size_t launches) {
  Case c{.name = "replay of " + std::to_string(launches), .group = "replay"};
  c.operands = {{"x0", DType::F32, {64}}};
  c.outputs = {{64}};
  c.peer = ReplayOp{launches};
  c.package = [launches](const Tensors&, const DeviceInfo& device,
                         const CompileOptions&) -> Result<PackagePtr> {
    ChainSpec chain;
    RP_ASSIGN(chain.kernel, tiny_kernel());
    chain.inputs = {{64}};
    chain.output = {64};
    chain.launches = launches;
    return chain_package(chain, device);
  };
  c.expected = [launches](const Tensors& v) { return replay_samples(launches, v[0]); };
  return c;
}

std::vector<Case> quick_cases(const std::string& models) {
  std::vector<Case> out{copy_case(65536), pointwise_case(64, 256)};
  for (const DType dtype : kFloats) out.push_back(gemm_case(64, dtype));
  out.push_back(model_case(models, "linear_ln_gelu", DType::F32));
  out.push_back(softmax_case(64, 256, DType::F32));
  out.push_back(attention_case({2, 64, 64, 32}, DType::F32));
  out.push_back(attention_case({2, 1, 128, 32}, DType::F16));
  out.push_back(conv_case({8, 16, 14, 3, 1, 1}, DType::F32));
  for (const size_t launches : {10, 100}) out.push_back(replay_case(launches));
  for (Case& c : constant_cases(true)) out.push_back(std::move(c));
  return out;
}

// The convolutions of resnet18; those with equal sizes occur once.
constexpr ConvOp kResnet18[] = {{3, 64, 224, 7, 2, 3},   {64, 64, 56, 3, 1, 1},
                                {64, 128, 56, 3, 2, 1},  {64, 128, 56, 1, 2, 0},
                                {128, 128, 28, 3, 1, 1}, {128, 256, 28, 3, 2, 1},
                                {256, 256, 14, 3, 1, 1}, {512, 512, 7, 3, 1, 1}};

// Sizes of attention that more than one list has.
constexpr AttentionSize kLongAttention{12, 2048, 2048, 64}, kShortAttention{12, 512, 512, 64},
    kOneRow{12, 1, 2048, 64};

}  // namespace

std::vector<Case> tuned_cases(const Sizes& sizes) {
  if (sizes.quick) return quick_cases(sizes.models);
  std::vector<Case> out;
  out.reserve(12);
  out.push_back(gemm_case(4096, DType::F16));
  out.push_back(attention_case(kLongAttention, DType::F16));
  out.push_back(conv_case(kResnet18[1], DType::F16));
  out.push_back(gemm_case(1024, DType::F16));
  out.push_back(attention_case(kOneRow, DType::F16));
  out.push_back(softmax_case(16384, 4096, DType::F16));
  out.push_back(gemm_case(4096, DType::F32));
  out.push_back(conv_case(kResnet18[7], DType::F16));
  out.push_back(attention_case(kShortAttention, DType::F16));
  out.push_back(gemm_case(4096, DType::BF16));
  out.push_back(conv_case(kResnet18[1], DType::F32));
  out.push_back(gemm_case(2048, DType::F16));
  return out;
}

std::vector<Case> all_cases(const Sizes& sizes) {
  if (sizes.quick) return quick_cases(sizes.models);
  std::vector<Case> out{copy_case(64 << 20), pointwise_case(1024, 4096),
                        pointwise_case(16384, 4096)};
  for (const int64_t n : {1024, 2048, 4096, 8192}) {
    for (const DType dtype : kFloats) out.push_back(gemm_case(n, dtype));
  }
  for (const DType dtype : kFloats) out.push_back(softmax_case(16384, 4096, dtype));
  for (const AttentionSize& size : {kShortAttention, kLongAttention, kOneRow}) {
    for (const DType dtype : kFloats) out.push_back(attention_case(size, dtype));
  }
  for (const char* name : {"linear_ln_gelu", "resnet18", "vit", "bert"}) {
    for (const DType dtype : kFloats) out.push_back(model_case(sizes.models, name, dtype));
  }
  for (const size_t launches : {10, 100, 1000}) out.push_back(replay_case(launches));
  for (const ConvOp& op : kResnet18) {
    for (const DType dtype : {DType::F32, DType::F16}) out.push_back(conv_case(op, dtype));
  }
  for (Case& c : constant_cases(false)) out.push_back(std::move(c));
  return out;
}

}  // namespace reprise::bench::gpu
