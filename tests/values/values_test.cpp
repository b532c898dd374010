// Strings, sequences, optionals and maps as inputs and outputs of sessions, through the C++ layer
// over the C interface. The models are cases of tests/conformance/sequences.
#include <gtest/gtest.h>

#include "backends/registry.h"
#include "reprise/compiler.hpp"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

using api::Session;
using api::Tensor;
using api::Value;

std::vector<std::string> devices() {
  std::vector<std::string> ids{"host"};
  for (const DeviceInfo& info : list_devices())
    if (info.usable && info.facts.api == Api::Vulkan) ids.push_back(info.id);
  return ids;
}

class Values : public testing::TestWithParam<std::string> {
 protected:
  Session session(const std::string& name) {
    const auto path = own_cases("sequences") / name / "model.onnx";
    auto package = api::compile_file(path.string());
    EXPECT_TRUE(package) << package.error().message;
    auto device = api::Device::open(GetParam());
    EXPECT_TRUE(device) << device.error().message;
    auto made = Session::create(*package, *device);
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
  }
};

std::vector<float> floats_of(const Value& v) {
  const auto t = v.as_tensor();
  if (!t || t->dtype != REPRISE_F32) return {};
  const auto* data = static_cast<const float*>(t->data);
  return {data, data + t->bytes / sizeof(float)};
}

std::vector<std::string> strings_of(const Value& v) {
  const auto t = v.as_tensor();
  if (!t || t->dtype != REPRISE_STRING) return {};
  std::vector<std::string> out;
  const auto* data = static_cast<const reprise_string*>(t->data);
  for (size_t i = 0; i < t->bytes / sizeof(reprise_string); ++i)
    out.emplace_back(data[i].data, data[i].size);
  return out;
}

TEST_P(Values, SequencesOfTensors) {
  Session s = session("given");
  const float a[] = {1, -2, 3, 4, 5, 6}, b[] = {7, 8, -9};
  const int64_t position = -1;
  std::vector<Value> items{*Value::tensor(a, {2, 3}), *Value::tensor(b, {1, 3})};
  const auto list = Value::of(REPRISE_KIND_SEQUENCE, REPRISE_F32, items);
  ASSERT_TRUE(list) << list.error().message;
  const auto outputs = s.run({Tensor("s", *list), Tensor("i", &position, {})});
  ASSERT_TRUE(outputs) << outputs.error().message;
  EXPECT_EQ((*outputs)[0].as<int64_t>(), std::vector<int64_t>{2});
  EXPECT_EQ((*outputs)[1].as<float>(), (std::vector<float>{7, 8, 0}));
  const Value& t = (*outputs)[2].value;
  EXPECT_EQ(t.info().kind, REPRISE_KIND_SEQUENCE);
  EXPECT_EQ(t.info().dtype, REPRISE_F32);
  ASSERT_EQ(t.info().count, 2U);
  EXPECT_EQ(floats_of(*t.item(0)), (std::vector<float>{7, 8, 0}));
  EXPECT_EQ(floats_of(*t.item(1)), (std::vector<float>{1, -2, 3, 4, 5, 6}));
}

TEST_P(Values, ItemsHaveTheRankOfTheModel) {
  Session s = session("given");
  const float a[] = {1, 2, 3};
  const int64_t position = 0;
  const auto list = Value::of(REPRISE_KIND_SEQUENCE, REPRISE_F32,
                              {*Value::tensor(a, {3}), *Value::tensor(a, {3})});
  ASSERT_TRUE(list) << list.error().message;
  const auto outputs = s.run({Tensor("s", *list), Tensor("i", &position, {})});
  ASSERT_FALSE(outputs);
  EXPECT_EQ(outputs.error().status, REPRISE_INVALID_INPUT);
  for (const char* part : {"rank 1", "expects rank 2", "the items of 's'"})
    EXPECT_NE(outputs.error().message.find(part), std::string::npos) << outputs.error().message;
}

// Strings are read when the run is submitted, as all memory that is bound.
TEST_P(Values, StringsOfARunObject) {
  Session s = session("strings");
  auto run = api::Run::create(s);
  ASSERT_TRUE(run) << run.error().message;
  reprise_string x = {"a", 1}, y = {"b c", 3};
  reprise_tensor in[] = {REPRISE_TENSOR_INIT, REPRISE_TENSOR_INIT};
  for (size_t i = 0; i < 2; ++i) {
    in[i].name = i == 0 ? "x" : "y";
    in[i].dtype = REPRISE_STRING;
    in[i].rank = 1;
    in[i].dims[0] = 1;
    in[i].data = i == 0 ? &x : &y;
    in[i].bytes = sizeof(reprise_string);
  }
  reprise_error e{};
  ASSERT_EQ(reprise_run_bind(run->get(), in, 2, nullptr, 0, &e), REPRISE_OK) << e.message;
  std::vector<std::vector<api::Output>> kept;  // later submissions must not change these
  for (const std::string word : {"b c", "second", ""}) {
    y = {word.data(), word.size()};
    const api::Error submitted = run->submit();
    ASSERT_EQ(submitted.status, REPRISE_OK) << submitted.message;
    auto outputs = run->wait();
    ASSERT_TRUE(outputs) << outputs.error().message;
    kept.push_back(std::move(*outputs));
    EXPECT_EQ(strings_of(*kept.back()[1].value.item(0)), (std::vector<std::string>{word}));
  }
  EXPECT_EQ(strings_of(*kept[0][1].value.item(0)), (std::vector<std::string>{"b c"}));
  y = {nullptr, 1};
  EXPECT_EQ(run->submit().status, REPRISE_USAGE);
  y = {"z", 1};
  EXPECT_EQ(run->submit().status, REPRISE_OK);
  EXPECT_TRUE(run->wait());
}

// The run keeps the outputs that it has when other ones are refused.
TEST_P(Values, ARefusedBindInFlight) {
  Session s = session("strings");
  auto run = api::Run::create(s);
  ASSERT_TRUE(run) << run.error().message;
  const auto x = Value::strings({"a"}), y = Value::strings({"b c"});
  ASSERT_EQ(run->bind({Tensor("x", *x), Tensor("y", *y)}).status, REPRISE_OK);
  ASSERT_EQ(run->submit().status, REPRISE_OK);
  const float none[] = {0};
  EXPECT_EQ(run->bind({Tensor("x", *x)}, {Tensor("z", none, {1})}).status, REPRISE_USAGE);
  const auto outputs = run->wait();
  ASSERT_TRUE(outputs) << outputs.error().message;
  EXPECT_EQ(strings_of(*(*outputs)[1].value.item(0)), (std::vector<std::string>{"b c"}));
  EXPECT_EQ(run->bind({Tensor("x", *x)}, {Tensor("z", none, {1})}).status, REPRISE_INVALID_INPUT);
  EXPECT_EQ(run->submit().status, REPRISE_USAGE);
}

TEST_P(Values, RanksOverSixteenAreRefused) {
  const float x[] = {1};
  const auto value = Value::tensor(x, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  ASSERT_FALSE(value);
  EXPECT_NE(value.error().message.find("rank over 16"), std::string::npos);
  Session s = session("strings");
  const auto outputs = s.run({Tensor("x", x, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})});
  ASSERT_FALSE(outputs);
  EXPECT_NE(outputs.error().message.find("rank over 16"), std::string::npos);
}

TEST_P(Values, Strings) {
  Session s = session("strings");
  const auto x = Value::strings({"a", "", std::string("z\0z", 3)}), y = Value::strings({"b c"});
  const auto outputs = s.run({Tensor("x", *x), Tensor("y", *y)});
  ASSERT_TRUE(outputs) << outputs.error().message;
  EXPECT_EQ((*outputs)[0].value.info().count, 0U);
  EXPECT_EQ((*outputs)[0].value.info().dtype, REPRISE_STRING);
  EXPECT_EQ(strings_of(*(*outputs)[1].value.item(0)), (std::vector<std::string>{"b c"}));
  const std::vector<std::string> all{"b c", "a", "", std::string("z\0z", 3)};
  EXPECT_EQ((*outputs)[2].strings, all);
  EXPECT_EQ((*outputs)[2].dims, std::vector<int64_t>{4});
}

TEST_P(Values, OptionalsAndMaps) {
  Session optional = session("optional_sequence_none");
  const auto nothing = Value::of(REPRISE_KIND_OPTIONAL_SEQUENCE, REPRISE_F32, {});
  auto outputs = optional.run({Tensor("o", *nothing)});
  ASSERT_TRUE(outputs) << outputs.error().message;
  EXPECT_EQ((*outputs)[0].value.info().kind, REPRISE_KIND_OPTIONAL_SEQUENCE);
  EXPECT_EQ((*outputs)[0].value.info().count, 0U);
  EXPECT_EQ((*outputs)[1].bytes, std::vector<unsigned char>{0});

  Session vectorizer = session("dict_vectorizer_strings");
  const float values[] = {1.5F, -2};
  const auto map = Value::of(REPRISE_KIND_STRING_MAP, REPRISE_F32,
                             {*Value::strings({"a", "b"}), *Value::tensor(values, {2})});
  outputs = vectorizer.run({Tensor("m", *map)});
  ASSERT_TRUE(outputs) << outputs.error().message;
  EXPECT_EQ((*outputs)[0].as<float>(), (std::vector<float>{-2, 0, 1.5F}));

  Session zip = session("zip_map_integers");
  const float scores[] = {0.25F, 0.75F};
  outputs = zip.run({Tensor("x", scores, {1, 2})});
  ASSERT_TRUE(outputs) << outputs.error().message;
  const auto row = (*outputs)[0].value.item(0);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->info().kind, REPRISE_KIND_INT64_MAP);
  EXPECT_EQ(floats_of(*row->item(1)), (std::vector<float>{0.25F, 0.75F}));
}

TEST_P(Values, SlotsSayTheKind) {
  Session s = session("given");
  reprise_slot slot = REPRISE_SLOT_INIT;
  ASSERT_EQ(reprise_session_input(s.get(), 0, &slot, nullptr), REPRISE_OK);
  EXPECT_EQ(slot.kind, REPRISE_KIND_SEQUENCE);
  EXPECT_EQ(slot.dtype, REPRISE_F32);
  ASSERT_EQ(reprise_session_input(s.get(), 1, &slot, nullptr), REPRISE_OK);
  EXPECT_EQ(slot.kind, REPRISE_KIND_TENSOR);
}

TEST_P(Values, WrongValuesAreRefused) {
  Session s = session("given");
  const int64_t position = 0;
  const double wide[] = {1, 2, 3};
  const float a[] = {1, 2, 3};
  // What the slot does not take.
  auto outputs = s.run({Tensor("s", *Value::tensor(a, {1, 3})), Tensor("i", &position, {})});
  EXPECT_FALSE(outputs);
  EXPECT_NE(outputs.error().message.find("expected seq(float32)"), std::string::npos)
      << outputs.error().message;
  // A position that the sequence lacks: the message names the node.
  const auto one = Value::of(REPRISE_KIND_SEQUENCE, REPRISE_F32, {*Value::tensor(a, {1, 3})});
  const int64_t beyond = 1;
  outputs = s.run({Tensor("s", *one), Tensor("i", &beyond, {})});
  EXPECT_FALSE(outputs);
  EXPECT_NE(
      outputs.error().message.find("'SequenceAt_one' (SequenceAt): position 1 is not in [-1, 0]"),
      std::string::npos)
      << outputs.error().message;
  // Items that do not fit the type.
  EXPECT_FALSE(Value::of(REPRISE_KIND_SEQUENCE, REPRISE_F32, {*Value::tensor(wide, {3})}));
  EXPECT_FALSE(Value::of(REPRISE_KIND_OPTIONAL, REPRISE_F32,
                         {*Value::tensor(a, {3}), *Value::tensor(a, {3})}));
  EXPECT_FALSE(Value::of(REPRISE_KIND_STRING_MAP, REPRISE_F32,
                         {*Value::strings({"a"}), *Value::tensor(a, {3})}));
  EXPECT_FALSE(Value::of(REPRISE_KIND_TENSOR, REPRISE_F32, {}));
  EXPECT_FALSE(one->item(1));
  EXPECT_FALSE(one->as_tensor());
}

INSTANTIATE_TEST_SUITE_P(Each, Values, testing::ValuesIn(devices()), [](const auto& device) {
  std::string name = device.param;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
});

}  // namespace
}  // namespace reprise::test
