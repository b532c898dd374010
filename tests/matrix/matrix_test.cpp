// Products by cooperative matrices, on a device that has them: every tail of rows, columns and
// depth, packed and variable operands, epilogues, convolutions. Values are small integers, so that
// results are exact whatever the order of additions. The only such driver for CPUs is lavapipe of
// Debian sid (tools/lavapipe --newest), with which this binary is run where it is there.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string_view>

#include "backends/registry.h"
#include "codegen/compile/compiler.h"
#include "codegen/compile/targets.h"
#include "codegen/graph/text/text.h"
#include "runtime/session/session.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace reprise {
namespace {

constexpr const char* kSchedule = "cooperative matrix tile";

/// A variant with matrices that the device takes; empty if there is none.
std::string matrix_variant(const DeviceFacts& facts) {
  for (const lower::Target& t : vulkan_targets()) {
    if (!t.predicate.matrices.empty() && t.predicate.mismatch(facts).empty()) return t.name;
  }
  return "";
}

/// The candidate that is the schedule's tile `number`.
std::optional<size_t> tile_of(const ScheduleSite& q, size_t number) {
  for (size_t i = 0; i < q.candidates.size(); ++i) {
    if (q.candidates[i].schedule.starts_with(kSchedule) && number-- == 0) return i;
  }
  return std::nullopt;
}

std::unique_ptr<graph::Graph> parsed(const std::string& text) {
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.status().message();
  return g.ok() ? std::move(*g) : nullptr;
}

/// Integers in [-2, 2], not periodic in any size.
int number(int64_t i) {
  return static_cast<int>((i * i * 7 + i * 3) % 11 % 5) - 2;
}

HostTensor numbers(const std::vector<int64_t>& dims, int seed) {
  HostTensor t(DType::F16, dims);
  for (int64_t i = 0; i < t.count(); ++i)
    t.mutable_data<uint16_t>()[i] = float_to_f16(static_cast<float>(number(i + seed)));
  return t;
}

/// A constant of the text form.
std::string constant(const std::string& name, const std::vector<int64_t>& dims) {
  std::string shape, values;
  int64_t count = 1;
  for (int64_t d : dims) {
    shape += (shape.empty() ? "" : ",") + std::to_string(d);
    count *= d;
  }
  for (int64_t i = 0; i < count; ++i)
    values += (i > 0 ? ", " : "") + std::to_string(number(i)) + ".0";
  return "const " + name + ": float16[" + shape + "]{" + values + "}\n";
}

class CooperativeMatrix : public testing::Test {
 protected:
  void SetUp() override {
    for (const DeviceInfo& info : list_devices()) {
      variant_ = info.usable ? matrix_variant(info.facts) : "";
      if (variant_.empty()) continue;
      auto opened = open_device(info.id);
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      device_ = opened->device;
      return;
    }
    GTEST_SKIP() << "no device has cooperative matrices; tools/lavapipe --newest fetches one";
  }

  /// A session of the graph whose product is by the schedule's tile `number`; null if it has not so
  /// many.
  std::unique_ptr<Session> session(const std::string& text, size_t number) {
    CompileOptions options;
    options.targets = {variant_};
    options.added_targets = added_;
    bool found = false;
    options.choose_schedule = [&](const ScheduleSite& q) {
      const std::optional<size_t> tile = tile_of(q, number);
      found = found || tile;
      return tile.value_or(0);
    };
    auto package = compile(parsed(text), options);
    EXPECT_TRUE(package.ok()) << package.status().message();
    if (!package.ok() || !found) return nullptr;
    auto s = Session::create(std::make_shared<package::Package>(std::move(*package)), device_);
    EXPECT_TRUE(s.ok()) << s.status().message();
    return s.ok() ? std::move(*s) : nullptr;
  }

  static std::unique_ptr<Session> reference(const std::string& text) {
    CompileOptions options;
    options.targets = {};
    auto package = compile(parsed(text), options);
    EXPECT_TRUE(package.ok()) << package.status().message();
    if (!package.ok()) return nullptr;
    auto s = Session::create(std::make_shared<package::Package>(std::move(*package)), nullptr);
    return s.ok() ? std::move(*s) : nullptr;
  }

  using Dims = std::vector<std::vector<int64_t>>;  // of the inputs
  static void expect_equal(Session& device, Session& host, const std::vector<std::string>& names,
                           const Dims& dims, const std::string& what) {
    std::vector<HostTensor> inputs;
    for (size_t i = 0; i < dims.size(); ++i)
      inputs.push_back(numbers(dims[i], 17 * static_cast<int>(i)));
    std::vector<Binding> bindings(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      bindings[i].name = names[i];
      bindings[i].host = &inputs[i];
    }
    auto got = device.run(bindings);
    auto expected = host.run(bindings);
    ASSERT_TRUE(got.ok()) << what << ": " << got.status().message();
    ASSERT_TRUE(expected.ok()) << what << ": " << expected.status().message();
    const HostTensor& e = (*expected)[0];
    const HostTensor& g = (*got)[0];
    ASSERT_EQ(e.dims(), g.dims()) << what;
    for (int64_t i = 0; i < e.count(); ++i) {
      ASSERT_EQ(f16_to_float(e.data<uint16_t>()[i]), f16_to_float(g.data<uint16_t>()[i]))
          << what << " [" << i << "]";
    }
  }

  /// The first tiles of the schedule against the reference.
  void check(const std::string& text, const std::vector<std::string>& names,
             const std::vector<Dims>& shapes, size_t tiles = 2) {
    const auto host = reference(text);
    ASSERT_TRUE(host);
    for (size_t tile = 0; tile < tiles; ++tile) {
      const auto device = session(text, tile);
      ASSERT_TRUE(device) << "tile " << tile << " of\n" << text;
      for (const Dims& dims : shapes) {
        std::string what = "tile " + std::to_string(tile);
        for (const auto& d : dims) {
          what += " [";
          for (int64_t n : d) what += " " + std::to_string(n);
          what += " ]";
        }
        expect_equal(*device, *host, names, dims, what + " of\n" + text);
        if (HasFatalFailure()) return;
      }
    }
  }

  std::string variant_;
  std::vector<lower::Target> added_;
  std::shared_ptr<Device> device_;
};

/// A size of every remainder by 8, below and beyond a block.
int64_t size_with_tail(int64_t remainder) {
  return remainder + 8 * (1 + remainder * 5 % 6);
}

TEST_F(CooperativeMatrix, EveryTailOfRowsColumnsAndDepth) {
  std::vector<Dims> shapes;
  for (int64_t m = 0; m < 8; ++m) {
    for (int64_t n = 0; n < 8; ++n) {
      for (int64_t k = 0; k < 8; ++k) {
        const int64_t rows = size_with_tail(m), columns = size_with_tail(n),
                      depth = size_with_tail(k);
        shapes.push_back({{rows, depth}, {depth, columns}, {columns}, {rows, columns}});
      }
    }
  }
  shapes.push_back({{1, 1}, {1, 1}, {1}, {1, 1}});
  check(R"(graph tails
input x: float16[rows,depth]
input w: float16[depth,columns]
input b: float16[columns]
input r: float16[rows,columns]
m = MatMul(x, w) @13
a = Add(m, b) @14
s = Add(a, r) @14
y = Relu(s) @14
output y
)",
        {"x", "w", "b", "r"}, shapes);
}

/// A layer whose weights are packed: rows, columns and depth.
std::string packed_layer(int64_t rows, int64_t columns, int64_t depth) {
  return "graph packed\ninput x: float16[" + std::to_string(rows) + "," + std::to_string(depth) +
         "]\n" + constant("w", {depth, columns}) + constant("b", {columns}) +
         "m = MatMul(x, w) @13\na = Add(m, b) @14\ny = Relu(a) @14\noutput y\n";
}

TEST_F(CooperativeMatrix, StaticSizesAndPackedWeights) {
  check(packed_layer(33, 12, 20), {"x"}, {{{33, 20}}});
}

TEST_F(CooperativeMatrix, FullStaticSizesAndPackedWeights) {
  for (const auto& [rows, columns, depth] :
       std::vector<std::array<int64_t, 3>>{{32, 32, 32}, {5, 8, 7}, {64, 40, 16}, {7, 33, 3}}) {
    check(packed_layer(rows, columns, depth), {"x"}, {{{rows, depth}}});
    if (HasFatalFailure()) return;
  }
}

TEST_F(CooperativeMatrix, BatchesAndOperandsAlongTheDepth) {
  check(R"(graph along
input x: float16[batch,rows,12]
input w: float16[batch,columns,12]
t = Transpose<perm=[0, 2, 1]>(w) @13
y = MatMul(x, t) @13
output y
)",
        {"x", "w"},
        {{{3, 19, 12}, {3, 21, 12}}, {{1, 8, 12}, {1, 1, 12}}, {{2, 33, 12}, {2, 40, 12}}});
}

TEST_F(CooperativeMatrix, Convolutions) {
  const std::string text = "graph conv\ninput x: float16[2,5,side,9]\n" +
                           constant("w", {19, 5, 3, 3}) + constant("b", {19}) +
                           "c = Conv<kernel_shape=[3, 3], pads=[1, 1, 1, 1]>(x, w, b) @11\n"
                           "y = Relu(c) @14\noutput y\n";
  check(text, {"x"}, {{{2, 5, 9, 9}}, {{2, 5, 4, 9}}, {{2, 5, 13, 9}}});
}

/// Larger matrices than the driver lists, of sizes that differ in each dimension.
TEST_F(CooperativeMatrix, OfFlexibleSizes) {
  const auto all = vulkan_targets();
  lower::Target larger = *std::ranges::find(all, variant_, &lower::Target::name);
  larger.name = variant_ = "larger-matrices";
  larger.predicate.matrices = {{16, 32, 24, kHalfMma}};
  const std::string mismatch = larger.predicate.mismatch(device_->info().facts);
  if (!mismatch.empty()) GTEST_SKIP() << device_->info().name << ": " << mismatch;
  added_ = {larger};
  check(
      "graph larger\ninput x: float16[rows,depth]\ninput w: float16[depth,columns]\n"
      "m = MatMul(x, w) @13\ny = Relu(m) @14\noutput y\n",
      {"x", "w"}, {{{70, 50}, {50, 90}}, {{16, 24}, {24, 32}}, {{1, 1}, {1, 1}}}, 1);
}

// --- without a device ---

std::string half_matmul() {
  return "graph half\ninput x: float16[64,256]\n" + constant("w", {256, 128}) +
         "y = MatMul(x, w) @13\noutput y\n";
}

/// The same in bf16.
std::string bfloat_matmul() {
  return std::regex_replace(half_matmul(), std::regex("float16"), "bfloat16");
}

std::vector<std::string> variants_of(const std::string& text, const CompileOptions& options = {}) {
  auto package = compile(parsed(text), options);
  EXPECT_TRUE(package.ok()) << package.status().message();
  std::vector<std::string> names;
  if (!package.ok()) return names;
  for (const package::Variant& v : package->variants) names.push_back(v.name);
  return names;
}

TEST(MatrixVariants, OnlyForProductsInHalfPrecisionOrByName) {
  const auto has = [](const std::vector<std::string>& names, const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const std::vector<std::string> half = variants_of(half_matmul());
  EXPECT_TRUE(has(half, "vulkan-matrix"));
  EXPECT_FALSE(has(half, "vulkan-matrix-bf16"));
  EXPECT_FALSE(has(half, "vulkan-matrix-sg8"));
  EXPECT_FALSE(has(half, "vulkan-matrix-workgroup"));
  EXPECT_TRUE(has(half, "vulkan-float16"));
  const std::vector<std::string> bfloat = variants_of(bfloat_matmul());
  EXPECT_TRUE(has(bfloat, "vulkan-matrix-bf16"));
  EXPECT_FALSE(has(bfloat, "vulkan-matrix"));
  const std::vector<std::string> single = variants_of(
      "graph single\ninput x: float32[64,256]\ninput w: float32[256,128]\n"
      "y = MatMul(x, w) @13\noutput y\n");
  EXPECT_FALSE(has(single, "vulkan-matrix"));
  EXPECT_FALSE(has(single, "vulkan-float16"));
  EXPECT_TRUE(has(single, "vulkan-int64"));
}

/// Constant integers of 8 bits.
std::string integers(const std::string& name, const std::string& type, int64_t count) {
  std::string values;
  for (int64_t i = 0; i < count; ++i) values += (i > 0 ? ", " : "") + std::to_string(i * i % 113);
  return "const " + name + ": " + type + "{" + values + "}\n";
}

/// Kernels convert weights of integers to the type of the other operand, which matrix units
/// multiply.
TEST(MatrixVariants, OfWeightsOfIntegers) {
  const std::string models[] = {
      "graph nibbles\ninput x: float16[64,128]\n" + integers("w", "uint8[64,4,16]", 64 * 4 * 16) +
          constant("s", {64 * 4}) +
          "y = \"com.microsoft\"::MatMulNBits<K=128, N=64, bits=4, block_size=32>(x, w, s) @1\n"
          "output y\n",
      "graph bytes\ninput x: float16[64,128]\n" + integers("w", "int8[128,64]", 128 * 64) +
          constant("s", {64}) +
          "d = DequantizeLinear<axis=1>(w, s) @19\ny = MatMul(x, d) @13\noutput y\n",
      "graph both\ninput x: float16[64,128]\ninput t: float16[]\n" +
          integers("w", "int8[128,64]", 128 * 64) + constant("s", {64}) +
          integers("z", "int8[]", 1) +
          "q = QuantizeLinear(x, t, z) @19\nf = DequantizeLinear(q, t, z) @19\n"
          "d = DequantizeLinear<axis=1>(w, s) @19\ny = MatMul(f, d) @13\noutput y\n",
      "graph turned\ninput x: float16[64,128]\n" + integers("w", "int8[64,128]", 128 * 64) +
          constant("s", {64}) +
          "d = DequantizeLinear<axis=0>(w, s) @19\nc = Transpose<perm=[1, 0]>(d) @13\n"
          "y = MatMul(x, c) @13\noutput y\n"};
  for (const std::string& model : models) {
    size_t products = 0;
    CompileOptions options;
    options.on_kernel = [&](const std::string& variant, const std::string&, const std::string& ir,
                            const std::vector<uint32_t>&, const std::string&) {
      products += variant == "vulkan-matrix" && ir.find("matrix_mul_add") != std::string::npos;
    };
    const auto has = [](const std::vector<std::string>& names, const char* name) {
      return std::ranges::find(names, std::string(name)) != names.end();
    };
    EXPECT_TRUE(has(variants_of(model, options), "vulkan-matrix")) << model.substr(0, 16);
    EXPECT_EQ(products, 1U) << model.substr(0, 16);
    const auto bfloats = variants_of(std::regex_replace(model, std::regex("float16"), "bfloat16"));
    EXPECT_TRUE(has(bfloats, "vulkan-matrix-bf16")) << model.substr(0, 16);
    EXPECT_FALSE(has(bfloats, "vulkan-matrix")) << model.substr(0, 16);
    const auto singles = variants_of(std::regex_replace(model, std::regex("float16"), "float32"));
    EXPECT_FALSE(has(singles, "vulkan-matrix")) << model.substr(0, 16);
  }
}

/// The prices of all candidates for 4096 rows of a product by an input or constant of so many
/// columns.
std::map<std::string, double> prices(int64_t columns, bool is_constant) {
  const std::string n = std::to_string(columns);
  const std::string text =
      "graph prices\ninput x: float16[4096,64]\n" +
      (is_constant ? constant("w", {64, columns}) : "input w: float16[64," + n + "]\n") +
      "y = MatMul(x, w) @13\noutput y\n";
  CompileOptions options;
  options.targets = {"vulkan-matrix"};
  CompileReport report;
  const auto package = compile(parsed(text), options, &report);
  EXPECT_TRUE(package.ok()) << package.status().message();
  std::map<std::string, double> out;
  for (const ScheduleChoice& choice : report.schedules)
    for (const lower::ScheduleCandidate& c : choice.site.candidates) out[c.schedule] = c.cost;
  return out;
}

/// Rows of 141 elements lie at odd distances, so that no vector of four is loaded at once;
/// constants are packed.
TEST(MatrixPrices, ElementsThatAreLoadedOneByOneCostMore) {
  const auto even = prices(144, false), odd = prices(141, false), packed = prices(141, true);
  std::set<std::string> dearer;
  for (const auto& [schedule, price] : odd) {
    if (!even.contains(schedule)) continue;
    EXPECT_GE(price, even.at(schedule)) << schedule;
    if (price > even.at(schedule)) dearer.insert(schedule.substr(0, schedule.find(" tile")));
  }
  EXPECT_EQ(dearer, (std::set<std::string>{"cooperative matrix", "register", "shared"}));
  for (const auto& [schedule, price] : packed) {
    const std::string name = schedule.substr(0, schedule.find(", packed"));
    if (even.contains(name)) {
      EXPECT_EQ(price, even.at(name)) << name;
    }
  }
}

/// Tensors that --precision stores in fp16 are rounded as those of the model are.
TEST(MatrixVariants, OfNarrowedModels) {
  const std::string text =
      "graph narrowed\ninput x: float32[64,512]\ninput w: float32[512,512]\n"
      "a = MatMul(x, w) @13\nr = Relu(a) @14\ny = MatMul(r, w) @13\noutput y\n";
  const auto rounds = [&](DType precision) {
    CompileOptions options;
    options.precision = precision;
    const std::vector<std::string> names = variants_of(text, options);
    return std::ranges::find(names, "vulkan-float16") != names.end();
  };
  EXPECT_TRUE(rounds(DType::F16));
  EXPECT_FALSE(rounds(DType::BF16));
  EXPECT_FALSE(rounds(DType::F32));
}

/// For a device that does not round exactly, products use its matrices nevertheless.
TEST(MatrixVariants, OfADeviceWithoutExactHalves) {
  const auto all = vulkan_targets();
  const Predicate needed =
      std::ranges::find(all, std::string("vulkan-matrix"), &lower::Target::name)->predicate;
  DeviceFacts facts;
  facts.api = Api::Vulkan;
  facts.kind = DeviceKind::DiscreteGpu;
  facts.int64 = facts.float16 = facts.storage8 = facts.storage16 = facts.buffer_address = true;
  facts.subgroup_shuffle = true;
  facts.subgroup_size = needed.subgroup_size;
  facts.max_workgroup_invocations = needed.workgroup_invocations;
  facts.max_shared_bytes = needed.shared_bytes;
  facts.matrices = needed.matrices;
  CompileOptions options;
  options.device = facts;
  EXPECT_EQ(variants_of(half_matmul(), options), std::vector<std::string>{"vulkan-matrix"});
  options.device->matrices.clear();
  EXPECT_EQ(variants_of(half_matmul(), options), std::vector<std::string>{"vulkan-int64"});
}

TEST(MatrixVariants, ModulesAreValid) {
  const auto newest = test::source_dir() / ".cache/lavapipe-newest";
  if (!std::filesystem::exists(newest / "run"))
    GTEST_SKIP() << "Debian 12's spirv-val does not know cooperative matrices; tools/lavapipe "
                    "--newest fetches one that does";
  test::TempDir dir;
  size_t modules = 0;
  for (const char* variant : {"vulkan-matrix", "vulkan-matrix-bf16", "vulkan-matrix-sg16",
                              "vulkan-matrix-sg8", "vulkan-matrix-workgroup"}) {
    CompileOptions options;
    options.targets = {variant};
    options.choose_schedule = [](const ScheduleSite& q) { return tile_of(q, 0).value_or(0); };
    options.on_kernel = [&](const std::string&, const std::string& kernel, const std::string& ir,
                            const std::vector<uint32_t>& spirv, const std::string&) {
      EXPECT_NE(ir.find("matrix_mul_add"), std::string::npos) << ir;
      EXPECT_EQ(ir.find(" of a workgroup") != std::string::npos,
                std::string_view(variant).ends_with("workgroup"))
          << ir;
      const auto file = dir / (std::string(variant) + kernel + ".spv");
      test::write_file(file, std::string(reinterpret_cast<const char*>(spirv.data()),
                                         spirv.size() * sizeof(uint32_t)));
      const auto validated = test::run_process(
          {newest / "run", newest / "spirv-val", "--target-env", "vulkan1.3", file});
      EXPECT_EQ(validated.status, 0) << validated.out << validated.err << ir;
      ++modules;
    };
    const bool bfloats = std::string_view(variant).ends_with("bf16");
    auto package = compile(parsed(bfloats ? bfloat_matmul() : half_matmul()), options);
    ASSERT_TRUE(package.ok()) << package.status().message();
  }
  EXPECT_EQ(modules, 5U);
}

}  // namespace
}  // namespace reprise
