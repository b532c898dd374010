#include "bench/bandwidth.h"

#include "bench/baselines.h"
#include "tests/support/onnx_writer.h"

namespace reprise::bench {

using test::OnnxWriter;

namespace {

/// An operator over one float input. Its other inputs are constants.
struct BandwidthCase {
  const char* name;
  const char* op;
  std::vector<int64_t> input, output;
  AttrMap attrs = {};
  std::vector<std::pair<const char*, HostTensor>> constants = {};  // after the input; "" is omitted
  bool repeated = false;                                           // the input is read twice
  bool counts_constants = false;                                   // they are most of what is read
};

AttrMap ints(std::initializer_list<std::pair<const char*, std::vector<int64_t>>> values) {
  AttrMap out;
  for (const auto& [name, v] : values) out.set(name, v);
  return out;
}

AttrMap integer(const char* name, int64_t v) {
  AttrMap out;
  out.set(name, v);
  return out;
}

HostTensor row_numbers(int64_t count) {
  std::vector<int64_t> rows(static_cast<size_t>(count));
  for (size_t i = 0; i < rows.size(); ++i)  // a scattered permutation
    rows[i] = static_cast<int64_t>(i * 7919 % rows.size());
  return test::int64_tensor({count}, rows);
}

/// The product of a row with a matrix of 4-bit integers, in blocks of 32.
BandwidthCase gemv_of_4_bits() {
  constexpr int64_t kSize = 4096, kBlock = 32, kBlocks = kSize / kBlock;
  AttrMap attrs;
  for (const char* name : {"K", "N"}) attrs.set(name, kSize);
  attrs.set("block_size", kBlock);
  HostTensor packed(DType::U8, {kSize, kBlocks, kBlock / 2});
  auto* bytes = packed.mutable_data<uint8_t>();
  for (int64_t i = 0; i < packed.count(); ++i) bytes[i] = static_cast<uint8_t>(i * 7919 >> 5);
  BandwidthCase c{"gemv, 4-bit weights", "MatMulNBits", {1, kSize}, {1, kSize}, std::move(attrs)};
  c.constants = {{"packed", packed}, {"scales", test::float_tensor({kSize * kBlocks}, 0.01F, 1)}};
  c.counts_constants = true;
  return c;
}

std::vector<BandwidthCase> bandwidth_cases() {
  constexpr int64_t kRows = 4096, kColumns = 1024, kSide = 2048;
  const HostTensor ones = test::float_tensor({kColumns}, 0.01F, 1);
  const HostTensor channels = test::float_tensor({64}, 0.01F, 1);
  const HostTensor none = HostTensor::from(DType::F32, {0}, std::vector<float>{});
  const HostTensor twice = HostTensor::from(DType::F32, {4}, std::vector<float>{1, 1, 2, 2});
  const auto resize = [](const char* mode) {
    AttrMap a;
    a.set("mode", std::string(mode));
    return a;
  };
  return {
      {"softmax, last axis", "Softmax", {kRows, kColumns}, {kRows, kColumns}, {}, {}},
      {"softmax, channels", "Softmax", {1, 64, 256, 256}, {1, 64, 256, 256}, integer("axis", 1)},
      {"softmax, first axis", "Softmax", {kRows, kColumns}, {kRows, kColumns}, integer("axis", 0)},
      {"LayerNorm",
       "LayerNormalization",
       {kRows, kColumns},
       {kRows, kColumns},
       {},
       {{"scale", ones}, {"bias", ones}}},
      {"InstanceNorm",
       "InstanceNormalization",
       {1, 64, 256, 256},
       {1, 64, 256, 256},
       {},
       {{"scale", channels}, {"bias", channels}}},
      {"sum, last axis",
       "ReduceSum",
       {kRows, kColumns},
       {kRows, 1},
       {},
       {{"axes", test::int64_tensor({1}, {1})}}},
      {"sum, channels",
       "ReduceSum",
       {1, 64, 256, 256},
       {1, 1, 256, 256},
       {},
       {{"axes", test::int64_tensor({1}, {1})}}},
      {"sum, first axis",
       "ReduceSum",
       {kRows, kColumns},
       {1, kColumns},
       {},
       {{"axes", test::int64_tensor({1}, {0})}}},
      {"global average pool", "GlobalAveragePool", {4, 256, 64, 64}, {4, 256, 1, 1}},
      {"max pool 3x3 / 2",
       "MaxPool",
       {1, 64, 256, 256},
       {1, 64, 128, 128},
       ints({{"kernel_shape", {3, 3}}, {"strides", {2, 2}}, {"pads", {1, 1, 1, 1}}})},
      {"average pool 2x2 / 2",
       "AveragePool",
       {1, 64, 256, 256},
       {1, 64, 128, 128},
       ints({{"kernel_shape", {2, 2}}, {"strides", {2, 2}}})},
      {"resize 2x, nearest",
       "Resize",
       {1, 64, 128, 128},
       {1, 64, 256, 256},
       resize("nearest"),
       {{"", none}, {"scales", twice}}},
      {"resize 2x, linear",
       "Resize",
       {1, 64, 128, 128},
       {1, 64, 256, 256},
       resize("linear"),
       {{"", none}, {"scales", twice}}},
      {"gather rows",
       "Gather",
       {kRows, kColumns},
       {kRows, kColumns},
       {},
       {{"rows", row_numbers(kRows)}}},
      {"concat", "Concat", {kSide, kColumns}, {kSide, 2 * kColumns}, integer("axis", 1), {}, true},
      {"transpose", "Transpose", {kSide, kSide}, {kSide, kSide}, ints({{"perm", {1, 0}}})},
      {"transpose of heads",
       "Transpose",
       {8, 512, 16, 64},
       {8, 16, 512, 64},
       ints({{"perm", {0, 2, 1, 3}}})},
      {"transpose to channels last",
       "Transpose",
       {1, 64, 256, 256},
       {1, 256, 256, 64},
       ints({{"perm", {0, 2, 3, 1}}})},
      gemv_of_4_bits(),
  };
}

std::string model_of(const BandwidthCase& c) {
  OnnxWriter w;
  w.input("x", DType::F32, {c.input.begin(), c.input.end()});
  w.output("y", DType::F32, {c.output.begin(), c.output.end()});
  std::vector<std::string> inputs{"x"};
  if (c.repeated) inputs.emplace_back("x");
  for (const auto& [name, tensor] : c.constants) {
    inputs.emplace_back(name);
    if (*name != 0) w.initializer(name, tensor);
  }
  OnnxWriter::NodeOptions options;
  options.attrs = c.attrs;
  if (c.op == std::string_view("MatMulNBits")) options.domain = "com.microsoft";
  w.node(c.op, inputs, {"y"}, options);
  return w.bytes();
}

int64_t count(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

/// How many elements of 4 bytes the operator reads and writes at least.
int64_t moved_by(const BandwidthCase& c) {
  int64_t moved = count(c.input) * (c.repeated ? 2 : 1) + count(c.output);
  for (const auto& [name, tensor] : c.constants) {
    if (c.counts_constants) moved += static_cast<int64_t>(tensor.bytes().size() / 4);
  }
  return moved;
}

}  // namespace

Status bandwidth(const Request& request) {
  for (const BandwidthCase& c : bandwidth_cases()) {
    if (!request.wants(c.name)) continue;
    const int64_t moved = moved_by(c);
    constexpr int64_t kUnit = 4096;
    RP_ASSIGN(auto model, request.compile(model_of(c)));
    RP_ASSIGN(const ChainSpec spec, copy(moved / 2 / kUnit * kUnit, request.device->info().facts));
    RP_ASSIGN(auto baseline, chain_package(spec, request.device->info()));
    RP_ASSIGN(const auto t, time_packages({model, baseline}, request.device, request.runs));
    const auto gbs = [&](const Timing& x) {
      return 4e-6 * static_cast<double>(moved) / x.median_ms;
    };
    request.line({c.name, "copy", gbs(t[0]), gbs(t[1]), "GB/s", gbs(t[0]) / gbs(t[1]), 0.6});
  }
  return {};
}

}  // namespace reprise::bench
