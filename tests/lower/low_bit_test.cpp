// Conversions of low-bit types in kernels give what the host kernel gives, bit for bit: every code
// to every type, and numbers with the midpoints between codes to every code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/registry.h"
#include "codegen/compile/compiler.h"
#include "codegen/graph/text/text.h"
#include "runtime/base/compare.h"
#include "runtime/base/low_bit.h"
#include "runtime/session/session.h"
#include "tests/lower/model_on_variants.h"

namespace reprise {
namespace {

constexpr DType kLowBit[] = {DType::I4,       DType::U4,         DType::I2,     DType::U2,
                             DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ,
                             DType::F4E2M1,   DType::F8E8M0};
constexpr DType kOthers[] = {DType::F32, DType::F16, DType::BF16, DType::I8,  DType::U8,
                             DType::I16, DType::U16, DType::I32,  DType::U32, DType::Bool};

bool is_low_bit_float(DType t) {
  return is_low_bit(t) && !is_low_bit_int(t);
}

/// The numbers of all formats, what lies between, and their neighbours.
std::vector<float> interesting() {
  constexpr float inf = std::numeric_limits<float>::infinity();
  std::vector<float> out{
      0,         0.5F,       1.9F,  7.5F, 1e-20F,
      0x1p-126F, 0x1.1p127F, 1e30F, inf,  std::numeric_limits<float>::quiet_NaN()};
  for (const DType t : kLowBit) {
    std::vector<float> numbers;
    for (int code = 0; code < 1 << bits_of(t); ++code) {
      const float v = low_bit_to_float(t, static_cast<uint8_t>(code));
      if (v >= 0x1p-126F && std::isfinite(v)) numbers.push_back(v);
    }
    std::sort(numbers.begin(), numbers.end());
    for (size_t i = 0; i < numbers.size(); ++i) {
      const float next = i + 1 < numbers.size() ? numbers[i + 1] : 2 * numbers[i];
      const float middle = numbers[i] + (next - numbers[i]) / 2;
      out.insert(out.end(), {numbers[i], middle, std::nextafter(middle, 0.0F),
                             std::nextafter(middle, inf), std::nextafter(numbers[i], inf)});
    }
  }
  const size_t positive = out.size();
  for (size_t i = 0; i < positive; ++i) out.push_back(-out[i]);
  return out;
}

/// All bytes, of which some have bits that their type does not, or numbers.
HostTensor values_of(DType t) {
  if (size_of(t) == 1) {
    HostTensor out(t, {256});
    for (int i = 0; i < 256; ++i)
      out.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(t == DType::Bool ? i & 1 : i);
    return out;
  }
  const std::vector<float> numbers = interesting();
  HostTensor out(t, {static_cast<int64_t>(numbers.size())});
  for (size_t i = 0; i < numbers.size(); ++i) {
    const float v = numbers[i];
    const float whole = std::isfinite(v) ? std::clamp(v, -40000.0F, 40000.0F) : 3;
    switch (t) {
      case DType::F32:
        out.mutable_data<float>()[i] = v;
        break;
      case DType::F16:
        out.mutable_data<uint16_t>()[i] = float_to_f16(std::fabs(v) < 0x1p-14F ? 0 : v);
        break;
      case DType::BF16:
        out.mutable_data<uint16_t>()[i] = float_to_bf16(v);
        break;
      case DType::I16:
      case DType::U16:
        out.mutable_data<uint16_t>()[i] = static_cast<uint16_t>(static_cast<int32_t>(whole));
        break;
      default:
        out.mutable_data<uint32_t>()[i] = static_cast<uint32_t>(static_cast<int32_t>(whole));
    }
  }
  return out;
}

/// Casts of a type to all types that have a kernel, one for each rule.
std::string graph_text(DType from) {
  const std::string n = std::to_string(values_of(from).count());
  std::string text = "graph casts\ninput x: " + std::string(name_of(from)) + "[" + n + "]\n";
  std::string outputs;
  const auto add = [&](DType to, const std::string& name, const std::string& rules) {
    const std::string v = std::string(name_of(to)) + name;
    text += v + " = Cast<" + rules + "to=" + std::to_string(onnx_number_of(to)) + ">(x) @25\n";
    outputs += (outputs.empty() ? "" : ", ") + v;
  };
  for (const DType to : kLowBit) {
    if (to == from || (to == DType::F8E8M0 && is_int(from) && size_of(from) == 4)) continue;
    add(to, "", "");
    if (is_low_bit_float(to)) add(to, "_open", "saturate=0, ");
    if (to != DType::F8E8M0) continue;
    add(to, "_down", "round_mode=\"down\", ");
    add(to, "_nearest", "round_mode=\"nearest\", saturate=0, ");
  }
  for (const DType to : kOthers) {
    if (is_low_bit(from) && to != from) add(to, "", "");
  }
  return text + "output " + outputs;
}

class LowBitCasts : public test::ModelOnVariants, public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    fullgraph_ = true;
    load(graph_text(GetParam()), {values_of(GetParam())});
  }

  /// NaNs are equal whatever their bits, and numbers below the smallest normal one may be zero.
  void compare(size_t output, std::span<const std::byte> actual, const std::string& what) override {
    const HostTensor& e = expected_[output];
    HostTensor a(e.dtype(), e.dims());
    std::memcpy(a.mutable_bytes().data(), actual.data(), a.bytes().size());
    const std::vector<double> is = to_double(a), want = to_double(e), x = to_double(inputs_[0]);
    const size_t size = size_of(e.dtype());
    const double least = e.dtype() == DType::F16 ? 0x1p-14 : 0x1p-126;
    for (size_t i = 0; i < is.size(); ++i) {
      if (is_float(e.dtype()) && std::isnan(is[i]) && std::isnan(want[i])) continue;
      if (is_float(e.dtype()) && std::fabs(want[i]) < least && is[i] == 0) continue;
      ASSERT_EQ(std::memcmp(e.bytes().data() + i * size, a.bytes().data() + i * size, size), 0)
          << what << ": " << model_->value(model_->outputs[output]).name << " of " << x[i] << " is "
          << is[i] << ", not " << want[i];
    }
  }
};

TEST_P(LowBitCasts, InterpreterOfEveryVariant) {
  interpret_every_variant();
}

TEST_P(LowBitCasts, Devices) {
  run_on_devices();
}

struct Weights {
  DType dtype;
  std::string attributes, scales;  // of DequantizeLinear, and the dims of scale and zero point
};

/// Numbers without a pattern that a wrong stride could hit by chance.
std::string listed(int64_t count, int64_t least, int64_t numbers) {
  std::string out;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t mixed = static_cast<uint64_t>(i + 1) * 2654435761U >> 7U;
    out += (i == 0 ? "" : ", ") +
           std::to_string(least + static_cast<int64_t>(mixed % static_cast<uint64_t>(numbers)));
  }
  return out;
}

class LowBitWeights : public testing::TestWithParam<Weights> {
 protected:
  static constexpr int64_t kSide = 64;

  static std::string graph_text() {
    const Weights& w = GetParam();
    const int64_t numbers = int64_t{1} << bits_of(w.dtype);
    const int64_t least = is_signed_low_bit_int(w.dtype) ? -numbers / 2 : 0;
    int64_t scales = 1, dim = 0;
    for (const char c : w.scales + ",") {
      if (c != ',') dim = 10 * dim + (c - '0');
      if (c == ',') scales *= dim > 0 ? dim : 1;
      if (c == ',') dim = 0;
    }
    const std::string type(name_of(w.dtype));
    return "graph weights\ninput x: float32[3,64]\ninput i: int64[2]\nconst w: " + type +
           "[64,64]{" + listed(kSide * kSide, least, numbers) + "}\nconst s: float32[" + w.scales +
           "]{" + listed(scales, 1, 7) + "}\nconst z: " + type + "[" + w.scales + "]{" +
           listed(scales, least, numbers) + "}\nd = DequantizeLinear<" + w.attributes +
           ">(w, s, z) @25\ny = MatMul(x, d) @13\nr = Gather<axis=0>(d, i) @13\noutput y, r";
  }
};

TEST_P(LowBitWeights, StayNarrow) {
  auto model = graph::parse(graph_text());
  ASSERT_TRUE(model.ok()) << model.status().message();
  HostTensor x(DType::F32, {3, kSide});
  for (int64_t i = 0; i < x.count(); ++i)
    x.mutable_data<float>()[i] = static_cast<float>(i * 37 % 64) / 16 - 2;
  const HostTensor rows = HostTensor::from<int64_t>(DType::I64, {2}, {5, 63});
  std::vector<Binding> bindings(2);
  bindings[0].name = "x";
  bindings[0].host = &x;
  bindings[1].name = "i";
  bindings[1].host = &rows;
  CompileOptions options;
  options.targets = {"vulkan"};
  options.fullgraph = true;
  auto compiled = compile((*model)->clone(), options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  for (const HostTensor& w : compiled->weights)
    EXPECT_FALSE(w.dtype() == DType::F32 && w.count() == kSide * kSide) << "it was widened";
  const auto package = std::make_shared<package::Package>(std::move(*compiled));
  const auto run = [&](const std::shared_ptr<Device>& device) {
    auto session = Session::create(package, device);
    EXPECT_TRUE(session.ok()) << session.status().message();
    auto outputs = (*session)->run(bindings);
    EXPECT_TRUE(outputs.ok()) << outputs.status().message();
    return std::move(*outputs);
  };
  const std::vector<HostTensor> expected = run(nullptr);
  for (const DeviceInfo& info : list_devices()) {
    if (!info.usable || info.facts.api != Api::Vulkan) continue;
    auto opened = open_device(info.id);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const std::vector<HostTensor> outputs = run(opened->device);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Comparison c =
          reprise::compare(outputs[i], expected[i], tolerance(Rule::Model, DType::F32));
      EXPECT_TRUE(c.ok) << info.name << ": output " << i << " " << c.reason;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, LowBitWeights,
                         testing::Values(Weights{DType::I4, "axis=0, block_size=16", "4,64"},
                                         Weights{DType::U4, "axis=1, block_size=32", "64,2"},
                                         Weights{DType::I4, "axis=1", "64"},
                                         Weights{DType::U4, "axis=0", "64"},
                                         Weights{DType::I2, "axis=0", ""},
                                         Weights{DType::U2, "axis=1", "64"}));

std::vector<DType> sources() {
  std::vector<DType> out;
  for (const DType t : kLowBit) out.push_back(t);
  for (const DType t : kOthers) out.push_back(t);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Types, LowBitCasts, testing::ValuesIn(sources()),
                         [](const auto& c) { return std::string(name_of(c.param)); });

}  // namespace
}  // namespace reprise
