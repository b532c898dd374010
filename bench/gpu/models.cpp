#include "bench/gpu/models.h"

#include <cmath>

#include "tests/support/onnx_writer.h"

namespace reprise::bench::gpu {

using test::OnnxWriter;

namespace {

OnnxWriter::NodeOptions with(const char* name, AttrMap attrs = {}) {
  OnnxWriter::NodeOptions options;
  options.name = name;
  options.attrs = std::move(attrs);
  return options;
}

HostTensor scalar(DType dtype, double v) {
  const auto value = static_cast<float>(v);
  if (dtype == DType::F16) return HostTensor::from<uint16_t>(dtype, {}, {float_to_f16(value)});
  if (dtype == DType::BF16) return HostTensor::from<uint16_t>(dtype, {}, {float_to_bf16(value)});
  return HostTensor::from<float>(dtype, {}, {value});
}

AttrMap last_axis() {
  AttrMap attrs;
  attrs.set("axis", int64_t{-1});
  return attrs;
}

}  // namespace

std::string gemm_onnx(const GemmOp& op, const HostTensor& w) {
  OnnxWriter model;
  model.input("x", w.dtype(), {op.m, op.k}).output("y", w.dtype(), {op.m, op.n});
  model.initializer("w", w).node("MatMul", {"x", "w"}, {"y"});
  return model.bytes();
}

std::string softmax_onnx(const SoftmaxOp& op, DType dtype) {
  OnnxWriter model;
  model.input("x", dtype, {op.rows, op.columns}).output("y", dtype, {op.rows, op.columns});
  model.node("Softmax", {"x"}, {"y"}, with("softmax", last_axis()));
  return model.bytes();
}

std::string conv_onnx(const ConvOp& op, const HostTensor& w) {
  OnnxWriter model;
  model.input("x", w.dtype(), {int64_t{1}, op.channels, op.size, op.size});
  model.output("y", w.dtype(), {int64_t{1}, op.filters, op.out(), op.out()});
  AttrMap attrs;
  attrs.set("kernel_shape", std::vector<int64_t>{op.kernel, op.kernel});
  attrs.set("strides", std::vector<int64_t>{op.stride, op.stride});
  attrs.set("pads", std::vector<int64_t>{op.pad, op.pad, op.pad, op.pad});
  model.initializer("w", w).node("Conv", {"x", "w"}, {"y"}, with("conv", std::move(attrs)));
  return model.bytes();
}

std::string attention_onnx(const AttentionSize& op, DType dtype) {
  OnnxWriter model;
  model.input("q", dtype, {int64_t{1}, op.heads, op.rows, op.size});
  model.input("k", dtype, {int64_t{1}, op.heads, op.keys, op.size});
  model.input("v", dtype, {int64_t{1}, op.heads, op.keys, op.size});
  model.output("y", dtype, {int64_t{1}, op.heads, op.rows, op.size});
  model.initializer("scale", scalar(dtype, 1 / std::sqrt(static_cast<double>(op.size))));
  AttrMap swapped;
  swapped.set("perm", std::vector<int64_t>{0, 1, 3, 2});
  model.node("Transpose", {"k"}, {"kt"}, with("transpose", std::move(swapped)));
  model.node("MatMul", {"q", "kt"}, {"s"}).node("Mul", {"s", "scale"}, {"t"});
  model.node("Softmax", {"t"}, {"p"}, with("softmax", last_axis()));
  model.node("MatMul", {"p", "v"}, {"y"});
  return model.bytes();
}

}  // namespace reprise::bench::gpu
