// Inputs that decide more than values: those with values in the model, those whose elements or
// sizes the compiler knows, and scalars.
#include <gtest/gtest.h>

#include <vector>

#include "backends/registry.h"
#include "reprise/compiler.hpp"
#include "tests/support/onnx_writer.h"

namespace reprise::test {
namespace {

using api::Package;
using api::Session;
using api::Tensor;

/// y = x + b, where b is an input with a value.
std::string model_with_default() {
  OnnxWriter m;
  m.input("x", DType::F32, {"n", 2}).input("b", DType::F32, {2}).output("y", DType::F32, {"n", 2});
  m.initializer("b", HostTensor::from<float>(DType::F32, {2}, {10, 20}));
  m.node("Add", {"x", "b"}, {"y"});
  return m.bytes();
}

/// y = Reshape(x, s)
std::string model_of_any_rank() {
  OnnxWriter m;
  m.input("x", DType::F32, {"n"}).input("s", DType::I64, {"r"}).output("y", DType::F32, {});
  m.node("Reshape", {"x", "s"}, {"a"});
  m.node("Neg", {"a"}, {"y"});
  return m.bytes();
}

Package compiled(const std::string& model, const reprise_compile_options& options) {
  auto package = api::compile_memory(model.data(), model.size(), &options);
  EXPECT_TRUE(package) << package.error().message;
  return std::move(*package);
}

TEST(InputFacts, RunsMayLeaveOutOptionalInputs) {
  const char* optional[] = {"b"};
  reprise_compile_options options = REPRISE_COMPILE_OPTIONS_INIT;
  options.optional_inputs = optional;
  options.optional_input_count = 1;
  const Package package = compiled(model_with_default(), options);
  auto device = api::Device::open("host");
  ASSERT_TRUE(device);
  auto session = Session::create(package, *device);
  ASSERT_TRUE(session) << session.error().message;
  reprise_slot slot = REPRISE_SLOT_INIT;
  ASSERT_EQ(reprise_session_input(session->get(), 1, &slot, nullptr), REPRISE_OK);
  EXPECT_EQ(slot.has_value, 1);
  const std::vector<float> x{1, 2}, b{-1, -2};
  auto left_out = session->run({{"x", x.data(), {1, 2}}});
  ASSERT_TRUE(left_out) << left_out.error().message;
  EXPECT_EQ(left_out->front().as<float>()[1], 22);
  auto given = session->run({{"x", x.data(), {1, 2}}, {"b", b.data(), {2}}});
  ASSERT_TRUE(given) << given.error().message;
  EXPECT_EQ(given->front().as<float>()[1], 0);

  optional[0] = "x";
  const std::string model = model_with_default();
  const auto refused = api::compile_memory(model.data(), model.size(), &options);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("gives input 'x' no value"), std::string::npos)
      << refused.error().message;
}

TEST(InputFacts, OtherValuesThanKnownOnesAreRefused) {
  const char* values[] = {"s=2,-1"};
  reprise_compile_options options = REPRISE_COMPILE_OPTIONS_INIT;
  options.values = values;
  options.value_count = 1;
  const Package package = compiled(model_of_any_rank(), options);
  auto device = api::Device::open("host");
  ASSERT_TRUE(device);
  auto session = Session::create(package, *device);
  ASSERT_TRUE(session) << session.error().message;
  const std::vector<float> x(6, 0.5F);
  const std::vector<int64_t> right{2, -1}, wrong{3, -1};
  auto ran = session->run({{"x", x.data(), {6}}, {"s", right.data(), {2}}});
  ASSERT_TRUE(ran) << ran.error().message;
  EXPECT_EQ(ran->front().dims, (std::vector<int64_t>{2, 3}));
  const auto refused = session->run({{"x", x.data(), {6}}, {"s", wrong.data(), {2}}});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("input 's' is [3, -1], but was compiled for the values "
                                         "[2, -1]"),
            std::string::npos)
      << refused.error().message;
}

TEST(InputFacts, OneElementIsAScalar) {
  OnnxWriter m;
  m.input("x", DType::F32, {"n"}).input("k", DType::F32, {}).output("y", DType::F32, {"n"});
  m.node("Mul", {"x", "k"}, {"y"});
  const Package package = compiled(m.bytes(), REPRISE_COMPILE_OPTIONS_INIT);
  for (const char* id : {"host", "auto"}) {
    auto device = api::Device::open(id);
    ASSERT_TRUE(device) << device.error().message;
    auto session = Session::create(package, *device);
    ASSERT_TRUE(session) << session.error().message;
    const std::vector<float> x{1, 2, 3}, k{2}, two{2, 2};
    for (const Tensor& one :
         {Tensor("k", k.data(), {}), Tensor("k", k.data(), {1}), Tensor("k", k.data(), {1, 1})}) {
      auto y = session->run({{"x", x.data(), {3}}, one});
      ASSERT_TRUE(y) << y.error().message;
      EXPECT_EQ(y->front().as<float>()[2], 6);
    }
    EXPECT_FALSE(session->run({{"x", x.data(), {3}}, {"k", two.data(), {2}}}));
  }
}

}  // namespace
}  // namespace reprise::test
