#include "bench/models.h"

#include "tests/support/onnx_writer.h"

namespace reprise::bench {

using test::OnnxWriter;

namespace {

HostTensor scalar(float v) {
  return HostTensor::from(DType::F32, {}, std::vector<float>{v});
}

/// Adds a chain of nodes with outputs v0, v1, ...
class Chain {
 public:
  explicit Chain(OnnxWriter& w) : w_(w) {}
  std::string add(const std::string& op, const std::vector<std::string>& inputs) {
    std::string name = "v" + std::to_string(count_++);
    w_.node(op, inputs, {name});
    return name;
  }

 private:
  OnnxWriter& w_;
  int count_ = 0;
};

}  // namespace

std::string pointwise_model(int64_t rows, int64_t columns) {
  OnnxWriter w;
  w.input("x", DType::F32, {rows, columns}).output("y", DType::F32, {rows, columns});
  w.initializer("scale", test::float_tensor({columns}, 0.5f, 1.0f));
  w.initializer("bias", test::float_tensor({columns}, 0.1f));
  w.initializer("one", scalar(1.0f));
  Chain c(w);
  std::string v = c.add("Add", {c.add("Mul", {"x", "scale"}), "bias"});
  for (int i = 0; i < 3; ++i) {
    v = c.add("Add", {c.add("Sin", {v}), c.add("Mul", {c.add("Cos", {v}), c.add("Tanh", {v})})});
    v = c.add("Add", {c.add("Mul", {v, c.add("Sigmoid", {v})}), c.add("Relu", {v})});
    v = c.add("Div", {v, c.add("Add", {c.add("Abs", {v}), "one"})});
  }
  w.node("Identity", {v}, {"y"});
  return w.bytes();
}

std::string gelu_model(int64_t count) {
  OnnxWriter w(20);
  w.input("x", DType::F32, {count}).output("y", DType::F32, {count});
  w.initializer("a", scalar(1.5f)).initializer("b", scalar(0.25f));
  Chain c(w);
  w.node("Gelu", {c.add("Add", {c.add("Mul", {"x", "a"}), "b"})}, {"y"});
  return w.bytes();
}

std::string matmul_model(int64_t n) {
  OnnxWriter w;
  w.input("x", DType::F32, {n, n}).output("y", DType::F32, {n, n});
  w.initializer("w", test::float_tensor({n, n}));
  w.node("MatMul", {"x", "w"}, {"y"});
  return w.bytes();
}

}  // namespace reprise::bench
