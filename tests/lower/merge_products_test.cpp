// Products of one operand by several weights become one product
// (codegen/passes/merge_products.cpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "backends/registry.h"
#include "codegen/compile/compiler.h"
#include "codegen/onnx/importer.h"
#include "runtime/session/session.h"
#include "tests/support/onnx_writer.h"
#include "tests/support/paths.h"

namespace reprise {
namespace {

using test::OnnxWriter;

constexpr int64_t kSize = 128;  // of the operand's rows
/// Queries are wider than keys and values, of which two heads share one.
constexpr int64_t kColumns[] = {128, 64, 64};

/// How the model has its weights.
enum class Form : uint8_t { Columns, Rows, Bytes, Nibbles };

HostTensor codes(DType dtype, const std::vector<int64_t>& dims, size_t seed) {
  HostTensor t(dtype, dims);
  for (size_t i = 0; i < t.bytes().size(); ++i)
    t.mutable_bytes()[i] = static_cast<std::byte>((i * 29 + seed) % 251);
  return t;
}

/// A product of x by weight `i`, whose result is called `to`.
void add_product(OnnxWriter& w, size_t i, Form form, const std::string& to) {
  const std::string n = std::to_string(i);
  const int64_t columns = kColumns[i];
  const float offset = -0.05F + 0.01F * static_cast<float>(i);
  OnnxWriter::NodeOptions options;
  if (form == Form::Columns) {
    w.initializer("w" + n, test::float_tensor({kSize, columns}, 1e-5F, offset));
    w.node("MatMul", {"x", "w" + n}, {to});
  } else if (form == Form::Rows) {
    options.attrs.set("perm", std::vector<int64_t>{1, 0});
    w.initializer("w" + n, test::float_tensor({columns, kSize}, 1e-5F, offset));
    w.node("Transpose", {"w" + n}, {"turned" + n}, options);
    w.node("MatMul", {"x", "turned" + n}, {to});
  } else if (form == Form::Bytes) {
    options.attrs.set("axis", int64_t{1});
    w.initializer("w" + n, codes(DType::I8, {kSize, columns}, i));
    w.initializer("s" + n, test::float_tensor({columns}, 1e-5F, 1e-3F));
    w.node("DequantizeLinear", {"w" + n, "s" + n}, {"d" + n}, options);
    w.node("MatMul", {"x", "d" + n}, {to});
  } else {
    options.domain = "com.microsoft";
    for (const auto& [name, value] :
         {std::pair{"K", kSize}, {"N", columns}, {"bits", int64_t{4}}, {"block_size", int64_t{32}}})
      options.attrs.set(name, value);
    w.initializer("w" + n, codes(DType::U8, {columns, kSize / 32, 16}, i));
    w.initializer("s" + n, test::float_tensor({columns * kSize / 32}, 1e-5F, 1e-2F));
    w.node("MatMulNBits", {"x", "w" + n, "s" + n}, {to}, options);
  }
}

OnnxWriter attention(Form form, bool biased = true) {
  OnnxWriter w(23);
  w.input("x", DType::F32, {std::string("batch"), std::string("n"), kSize});
  w.output("y", DType::F32, {std::string("batch"), std::string("n"), kSize});
  for (size_t i = 0; i < 3; ++i) {
    const std::string n = std::to_string(i), to = "t" + n;
    add_product(w, i, form, biased ? "m" + n : to);
    if (!biased) continue;
    w.initializer("b" + n, test::float_tensor({kColumns[i]}, 0.001F, -0.03F));
    w.node("Add", {"m" + n, "b" + n}, {to});
  }
  OnnxWriter::NodeOptions heads;
  heads.attrs.set("q_num_heads", int64_t{8});
  heads.attrs.set("kv_num_heads", int64_t{4});
  w.node("Attention", {"t0", "t1", "t2"}, {"a"}, heads);
  w.initializer("last", test::float_tensor({kColumns[0], kSize}, 1e-5F, -0.02F));
  w.node("MatMul", {"a", "last"}, {"y"});
  return w;
}

std::shared_ptr<package::Package> compiled(const OnnxWriter& w, const CompileOptions& options) {
  const std::string bytes = w.bytes();
  auto g = onnx::import_bytes(std::as_bytes(std::span(bytes)));
  EXPECT_TRUE(g.ok()) << g.status().message();
  if (!g.ok()) return nullptr;
  auto package = compile(std::move(*g), options);
  EXPECT_TRUE(package.ok()) << package.status().message();
  return package.ok() ? std::make_shared<package::Package>(std::move(*package)) : nullptr;
}

size_t launches(const package::Package& p) {
  return static_cast<size_t>(std::ranges::count_if(p.variants.at(0).plan.steps, [](const auto& s) {
    return std::holds_alternative<plan::Launch>(s.what);
  }));
}

CompileOptions vulkan() {
  CompileOptions options;
  options.targets = {"vulkan"};
  return options;
}

CompileOptions apart(CompileOptions options = vulkan()) {
  options.disabled_passes.emplace_back("merge-products");
  return options;
}

/// The names of the plan's weights that consist of others.
std::vector<std::string> merged(const package::Package& p) {
  std::vector<std::string> out;
  for (const plan::Weight& w : p.variants.at(0).plan.weights) {
    const auto parts = p.parts.find(w.segment);
    if (parts == p.parts.end()) continue;
    out.push_back(w.name);
    EXPECT_TRUE(p.weights[w.segment].bytes().empty()) << w.name;
  }
  return out;
}

bool host_has_parts_of(const package::Package& p, const std::string& name) {
  for (const plan::Weight& w : p.variants.at(0).plan.weights) {
    if (w.name != name) continue;
    return std::ranges::all_of(p.parts.at(w.segment).segments, [&](uint32_t s) {
      return std::ranges::find(p.host_plan.weights, s, &plan::Weight::segment) !=
             p.host_plan.weights.end();
    });
  }
  return false;
}

std::vector<HostTensor> results(const std::shared_ptr<const package::Package>& package,
                                const std::shared_ptr<Device>& device, const HostTensor& x) {
  auto session = Session::create(package, device);
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok()) return {};
  auto out = (*session)->run(std::vector<Binding>{{.name = "x", .host = &x}});
  EXPECT_TRUE(out.ok()) << out.status().message();
  return out.ok() ? std::move(*out) : std::vector<HostTensor>();
}

class MergeProducts : public testing::TestWithParam<Form> {};

/// The kernels sum in the same order, so that results are equal bit for bit.
TEST_P(MergeProducts, OfAttention) {
  const OnnxWriter model = attention(GetParam());
  const auto one = compiled(model, vulkan()), three = compiled(model, apart());
  ASSERT_TRUE(one && three);
  EXPECT_EQ(launches(*one) + 2, launches(*three));
  EXPECT_TRUE(merged(*three).empty());
  const std::vector<std::string> weights = merged(*one);
  const auto weight = std::ranges::find_if(weights, [&](const std::string& name) {
    // Of 4 bits, the compiler makes it from what the model has.
    return name == "w0 + w1 + w2" || (GetParam() == Form::Nibbles && name[0] != 'b');
  });
  ASSERT_NE(weight, weights.end()) << testing::PrintToString(weights);
  EXPECT_NE(std::ranges::find(weights, "b0 + b1 + b2"), weights.end());
  // The host reads weights of 4 bits as the model has them, devices in another order.
  EXPECT_EQ(host_has_parts_of(*one, *weight), GetParam() != Form::Nibbles);
  auto opened = open_device("vulkan");
  if (!opened.ok()) GTEST_SKIP() << opened.status().message();
  for (const int64_t n : {1, 7}) {
    const HostTensor x = test::float_tensor({2, n, kSize}, 0.002F, -0.3F);
    const auto a = results(one, opened->device, x), b = results(three, opened->device, x);
    const auto host = results(one, nullptr, x);
    ASSERT_TRUE(a.size() == 1 && b.size() == 1 && host.size() == 1);
    EXPECT_EQ(std::memcmp(a[0].bytes().data(), b[0].bytes().data(), a[0].bytes().size()), 0);
    for (int64_t i = 0; i < a[0].count(); ++i)
      ASSERT_NEAR(a[0].data<float>()[i], host[0].data<float>()[i], 1e-4F) << i;
  }
}

std::string name_of_form(const testing::TestParamInfo<Form>& info) {
  constexpr const char* kNames[] = {"Columns", "Rows", "Bytes", "Nibbles"};
  return kNames[static_cast<size_t>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Forms, MergeProducts,
                         testing::Values(Form::Columns, Form::Rows, Form::Bytes, Form::Nibbles),
                         name_of_form);

TEST(MergedWeights, HaveThePrecisionOfTheHostPlan) {
  CompileOptions options = vulkan();
  options.precision = DType::F16;
  OnnxWriter model = attention(Form::Columns, false);
  const auto p = compiled(model, options);
  ASSERT_TRUE(p);
  ASSERT_EQ(merged(*p), std::vector<std::string>{"w0 + w1 + w2"});
  EXPECT_TRUE(host_has_parts_of(*p, "w0 + w1 + w2"));
  for (const auto& [index, parts] : p->parts) EXPECT_EQ(p->weights[index].dtype(), DType::F16);
}

TEST(MergedWeights, AreNoLargerThanTheLimit) {
  CompileOptions options = vulkan();
  const OnnxWriter model = attention(Form::Columns, false);
  constexpr int64_t kBytes = 256 * kSize * 4;
  options.pass_options["merge-products.bytes"] = kBytes;
  EXPECT_EQ(merged(*compiled(model, options)).size(), 1U);
  options.pass_options["merge-products.bytes"] = kBytes - 1;
  const auto p = compiled(model, options);
  for (const auto& [index, parts] : p->parts) EXPECT_EQ(parts.segments.size(), 2U);
}

/// An activation is computed in the kernel of its product. After a merged one it would need a
/// kernel of its own.
TEST(MergedWeights, ProductsWithOperatorsOfTheirOwnStayApart) {
  OnnxWriter w(23);
  w.input("x", DType::F32, {5, kSize});
  for (size_t i = 0; i < 3; ++i) {
    const std::string n = std::to_string(i);
    add_product(w, i, Form::Columns, "m" + n);
    w.output("y" + n, DType::F32, {5, kColumns[i]});
    w.node(i == 0 ? "Relu" : i == 1 ? "Sigmoid" : "Tanh", {"m" + n}, {"y" + n});
  }
  const auto p = compiled(w, vulkan());
  ASSERT_TRUE(p);
  EXPECT_TRUE(p->parts.empty());
  EXPECT_EQ(launches(*p), launches(*compiled(w, apart())));
}

/// A device would have such a weight twice.
TEST(MergedWeights, WeightsThatOthersReadStayApart) {
  OnnxWriter w = attention(Form::Columns);
  w.input("i", DType::I64, {3}).output("rows", DType::F32, {3, kColumns[1]});
  w.node("Gather", {"w1", "i"}, {"rows"});
  const auto p = compiled(w, vulkan());
  ASSERT_TRUE(p);
  for (const auto& name : merged(*p)) EXPECT_EQ(name.find("w1"), std::string::npos) << name;
}

/// Compiles the model to a file and runs what the file has on a device and on the host. Returns how
/// many parts the weights that consist of others have.
std::vector<size_t> parts_after_a_run(const OnnxWriter& model, const HostTensor& x) {
  const auto p = compiled(model, vulkan());
  if (!p) return {};
  std::vector<size_t> parts;
  for (const auto& [index, weight] : p->parts) parts.push_back(weight.segments.size());
  const test::TempDir folder;
  const std::string path = folder / "model.rpk";
  const Status written = package::write(*p, path);
  EXPECT_TRUE(written.ok()) << written.message();
  const auto back = package::read(path);
  EXPECT_TRUE(back.ok()) << back.status().message();
  const auto opened = open_device("vulkan");
  if (!back.ok() || !opened.ok()) return parts;
  const auto a = results(*back, opened->device, x), b = results(*back, nullptr, x);
  EXPECT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    for (int64_t at = 0; at < a[i].count(); ++at)
      EXPECT_NEAR(a[i].data<float>()[at], b[i].data<float>()[at], 1e-4F) << at;
  }
  return parts;
}

TEST(MergedWeights, HaveNoMorePartsThanAPackageAllows) {
  constexpr int64_t kProducts = 1100;
  OnnxWriter w(23);
  w.input("x", DType::F32, {4, 64}).output("y", DType::F32, {4, 8 * kProducts});
  std::vector<std::string> all;
  for (int64_t i = 0; i < kProducts; ++i) {
    const std::string n = std::to_string(i);
    w.initializer("w" + n,
                  test::float_tensor({64, 8}, 1e-4F, -0.02F + 1e-5F * static_cast<float>(i)));
    w.node("MatMul", {"x", "w" + n}, {"m" + n});
    all.push_back("m" + n);
  }
  OnnxWriter::NodeOptions columns;
  columns.attrs.set("axis", int64_t{1});
  w.node("Concat", all, {"y"}, columns);
  EXPECT_EQ(parts_after_a_run(w, test::float_tensor({4, 64}, 0.002F, -0.2F)),
            (std::vector<size_t>{1024, 76}));
}

}  // namespace
}  // namespace reprise
