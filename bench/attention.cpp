#include "bench/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tests/support/onnx_writer.h"

namespace reprise::bench {

using test::OnnxWriter;

namespace {

struct Case {
  int64_t rows = 1, keys = 1, heads = 1, size = 64;
  const char* what = "";  // "mask" (added to the scores), "causal", or ""
  int64_t groups = 1;     // heads that share keys
};

std::string name_of(const Case& c) {
  std::string name = std::to_string(c.heads) + " x " + std::to_string(c.rows) + "x" +
                     std::to_string(c.keys) + "x" + std::to_string(c.size);
  if (c.groups > 1) name += " /" + std::to_string(c.groups);
  return *c.what == 0 ? name : name + " " + c.what;
}

/// Attention in the form that exporters write. Grouped heads and causal scores use the operator
/// Attention.
std::string attention_op(const Case& c) {
  OnnxWriter w(23);
  w.input("q", DType::F32, {1, c.heads, c.rows, c.size});
  w.input("k", DType::F32, {1, c.heads / c.groups, c.keys, c.size});
  w.input("v", DType::F32, {1, c.heads / c.groups, c.keys, c.size});
  w.output("y", DType::F32, {1, c.heads, c.rows, c.size});
  OnnxWriter::NodeOptions options;
  if (c.what == std::string("causal")) options.attrs.set("is_causal", int64_t{1});
  w.node("Attention", {"q", "k", "v"}, {"y"}, options);
  return w.bytes();
}

std::string attention_chain(const Case& c) {
  OnnxWriter w;
  w.input("q", DType::F32, {1, c.heads, c.rows, c.size});
  w.input("k", DType::F32, {1, c.heads, c.keys, c.size});
  w.input("v", DType::F32, {1, c.heads, c.keys, c.size});
  w.output("y", DType::F32, {1, c.heads, c.rows, c.size});
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(c.size)));
  w.initializer("scale", HostTensor::from(DType::F32, {}, std::vector<float>{scale}));
  OnnxWriter::NodeOptions transposed;
  transposed.attrs.set("perm", std::vector<int64_t>{0, 1, 3, 2});
  w.node("Transpose", {"k"}, {"kt"}, transposed);
  w.node("MatMul", {"q", "kt"}, {"s"}).node("Mul", {"s", "scale"}, {"t"});
  std::string logits = "t";
  if (c.what == std::string("mask")) {
    w.input("mask", DType::F32, {1, 1, c.rows, c.keys});
    w.node("Add", {"t", "mask"}, {"m"});
    logits = "m";
  }
  OnnxWriter::NodeOptions last;
  last.attrs.set("axis", int64_t{-1});
  w.node("Softmax", {logits}, {"p"}, last).node("MatMul", {"p", "v"}, {"y"});
  return w.bytes();
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const int64_t length : {8, 16, 32, 64, 128, 256, 512, 1024, 2048}) {
    for (const int64_t heads : {1, 4, 12}) {
      for (const int64_t size : {32, 64, 128}) out.push_back({length, length, heads, size});
    }
  }
  for (const int64_t keys : {128, 512, 2048}) {
    for (const int64_t heads : {1, 4, 12, 32}) out.push_back({1, keys, heads, 64});
  }
  for (const int64_t length : {64, 256, 1024}) {
    out.push_back({length, length, 12, 64, "mask"});
    out.push_back({length, length, 12, 64, "causal"});
    out.push_back({length, length, 12, 64, "causal", 4});
  }
  out.push_back({1, 2048, 32, 64, "", 4});
  out.push_back({16, 2048, 12, 64});
  out.push_back({2048, 77, 8, 40});
  return out;
}

/// The number of runs, which is smaller for cases that take long.
int runs_of(const Case& c, int runs) {
  constexpr double kWork = 20e9;
  const double flops = 4e0 * static_cast<double>(c.heads * c.rows * c.keys * c.size);
  return std::clamp(static_cast<int>(kWork / flops), std::min(runs, 7), runs);
}

Result<Row> measure(const Case& c, const Request& r) {
  const bool chain = c.groups == 1 && c.what != std::string("causal");
  const std::string model = chain ? attention_chain(c) : attention_op(c);
  RP_ASSIGN(const PackagePtr chosen, r.compile(model));
  RP_ASSIGN(const PackagePtr fused, r.compile(model, {"attention-price"}));
  RP_ASSIGN(const PackagePtr apart, r.compile(model, {"attention"}));
  RP_ASSIGN(const auto t, time_packages({chosen, fused, apart}, r.device, runs_of(c, r.runs)));
  const double better = std::min(t[1].best_ms, t[2].best_ms);
  char forms[64];
  std::snprintf(forms, sizeof forms, "fused %.2f, chain %.2f", t[1].best_ms, t[2].best_ms);
  const std::string choice = t[0].launches == t[1].launches ? ": fused" : ": chain";
  return Row{name_of(c) + choice, forms, t[0].best_ms, better, "ms", better / t[0].best_ms, 0.9};
}

}  // namespace

Status attention(const Request& request) {
  for (const Case& c : cases()) {
    if (!request.wants(name_of(c))) continue;
    RP_ASSIGN(const Row row, measure(c, request));
    request.line(row);
  }
  return {};
}

}  // namespace reprise::bench
