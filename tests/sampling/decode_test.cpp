// Options about the outputs of language models: `last` and `sample`, and a loop of steps whose ids
// stay on the device.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "codegen/compile/compiler.h"
#include "runtime/session/session.h"
#include "tests/sampling/on_devices.h"
#include "tests/support/random_values.h"

namespace reprise {
namespace {

constexpr int64_t kTokens = 37, kWidth = 8;

/// A model that continues each token by itself: an embedding, a layer, and a head.
constexpr const char* kModel = R"(graph model
input input_ids: int64[batch,positions]
input table: float32[37,8]
input layer: float32[8,8]
input head: float32[8,37]
h: float32[batch,positions,8] = Gather<axis=0>(table, input_ids) @13
m: float32[batch,positions,8] = MatMul(h, layer) @13
t: float32[batch,positions,8] = Tanh(m) @13
r: float32[batch,positions,8] = Add(h, t) @14
logits: float32[batch,positions,37] = MatMul(r, head) @13
output logits
)";

HostTensor random_weight(const std::string& name, std::vector<int64_t> dims) {
  return test::random_values(DType::F32, dims, test::Values::between(-2, 2), 3, name);
}

/// The model with its weights as constants.
std::unique_ptr<graph::Graph> model() {
  auto g = graph::parse(kModel);
  EXPECT_TRUE(g.ok()) << g.status().message();
  graph::Graph& graph = **g;
  const std::vector<graph::ValueId> inputs = graph.inputs;
  graph.inputs.resize(1);
  for (size_t i = 1; i < inputs.size(); ++i) {
    graph::Value& v = graph.value(inputs[i]);
    v.constant = random_weight(v.name, static_dims(v.shape));
  }
  return *std::move(g);
}

Result<package::Package> compiled(const CompileOptions& options) {
  return compile(model(), options);
}

std::shared_ptr<const package::Package> package_of(const CompileOptions& options) {
  auto p = compiled(options);
  EXPECT_TRUE(p.ok()) << p.status().message();
  return p.ok() ? std::make_shared<const package::Package>(*std::move(p)) : nullptr;
}

HostTensor ids(std::vector<int64_t> dims, std::vector<int64_t> values) {
  return HostTensor::from(DType::I64, std::move(dims), values);
}

Result<std::vector<HostTensor>> run(Session& session, const HostTensor& input) {
  return session.run(std::vector<Binding>{{.name = "input_ids", .host = &input}});
}

TEST(LastPosition, EqualsTheLastRow) {
  std::vector<float> all;
  const HostTensor input = ids({2, 3}, {1, 2, 3, 30, 20, 10});
  on_each_device(package_of({}), [&](Session& session) {
    auto out = run(session, input);
    ASSERT_TRUE(out.ok()) << out.status().message();
    if (all.empty())
      all.assign(out->front().data<float>(), out->front().data<float>() + 6 * kTokens);
  });
  CompileOptions options;
  options.last = {{"logits", "positions"}};
  on_each_device(package_of(options), [&](Session& session) {
    auto out = run(session, input);
    ASSERT_TRUE(out.ok()) << out.status().message();
    ASSERT_EQ(out->front().dims(), (std::vector<int64_t>{2, 1, kTokens}));
    EXPECT_EQ(session.io().outputs.front().name, "logits");
    for (int64_t r = 0; r < 2; ++r)
      for (int64_t i = 0; i < kTokens; ++i)
        EXPECT_NEAR(out->front().data<float>()[r * kTokens + i],
                    all[static_cast<size_t>((r * 3 + 2) * kTokens + i)], 1e-5F);
    const auto none = run(session, ids({2, 0}, {}));
    ASSERT_FALSE(none.ok());
    EXPECT_NE(none.status().message().find("logits"), std::string::npos) << none.status().message();
  });
}

/// Nothing but the embedding of the last position is computed: launches have rows for each of the
/// batch alone.
TEST(LastPosition, IsAllThatIsComputed) {
  CompileOptions options;
  options.last = {{"logits"}};
  const auto package = package_of(options);
  ASSERT_TRUE(package);
  for (const package::Variant& v : package->variants) {
    for (const plan::Buffer& b : v.plan.buffers) {
      if (b.kind != plan::BufferKind::Arena) continue;
      EXPECT_EQ(shape_str(b.shape, package->io.symbols).find("positions"), std::string::npos)
          << v.name << ": " << b.name;
    }
  }
}

TEST(LastPosition, RefusesWhatTheModelHasNot) {
  const auto refusal = [](LastOption last) {
    CompileOptions options;
    options.targets = {};
    options.last = {std::move(last)};
    const auto p = compiled(options);
    return p.ok() ? "" : p.status().message();
  };
  EXPECT_NE(refusal({"scores"}).find("it has logits"), std::string::npos);
  EXPECT_NE(refusal({"logits", "heads"}).find("no axis 'heads'"), std::string::npos);
  EXPECT_NE(refusal({"logits", "3"}).find("no axis '3'"), std::string::npos);
  EXPECT_EQ(refusal({"logits", "-2"}), "");
}

CompileOptions sampling(const std::string& text) {
  CompileOptions options;
  auto sample = parse_sample(text);
  EXPECT_TRUE(sample.ok()) << sample.status().message();
  options.sample = *sample;
  return options;
}

/// What the model continues with, read back after each step.
std::vector<int64_t> continued(Session& session, int64_t first, int steps,
                               const std::vector<Binding>& more) {
  std::vector<int64_t> out;
  HostTensor token = ids({1, 1}, {first});
  for (int i = 0; i < steps; ++i) {
    std::vector<Binding> inputs = more;
    inputs.push_back({.name = "input_ids", .host = &token});
    auto results = session.run(inputs);
    EXPECT_TRUE(results.ok()) << results.status().message();
    if (!results.ok()) return out;
    token = results->back();
    out.push_back(token.data<int64_t>()[0]);
  }
  return out;
}

TEST(SampleOption, AddsIdsAndInputsThatRunsMayLeaveOut) {
  const auto package = package_of(sampling("logits"));
  std::vector<int64_t> greedy, random;
  on_each_device(package, [&](Session& session) {
    ASSERT_EQ(session.io().outputs.size(), 2U);
    EXPECT_EQ(session.io().outputs[1].name, "sampled_ids");
    auto out = run(session, ids({2, 3}, {1, 2, 3, 30, 20, 10}));
    ASSERT_TRUE(out.ok()) << out.status().message();
    ASSERT_EQ((*out)[1].dims(), (std::vector<int64_t>{2, 1}));
    for (int64_t r = 0; r < 2; ++r) {
      const float* row = (*out)[0].data<float>() + (r * 3 + 2) * kTokens;
      EXPECT_EQ((*out)[1].data<int64_t>()[r], std::max_element(row, row + kTokens) - row);
    }
    ASSERT_TRUE(session.reset_states().ok());
    const std::vector<int64_t> likeliest = continued(session, 5, 12, {});
    if (greedy.empty()) greedy = likeliest;
    EXPECT_EQ(likeliest, greedy);
    const HostTensor hot = HostTensor::from(DType::F32, {1}, std::vector{3.0F});
    ASSERT_TRUE(session.reset_states().ok());
    const auto sampled =
        continued(session, 5, 12, {{.name = "sampling.temperature", .host = &hot}});
    if (random.empty()) random = sampled;
    EXPECT_EQ(sampled, random);
    EXPECT_NE(sampled, greedy);
    auto step = session.read_state("sampling.step");
    ASSERT_TRUE(step.ok()) << step.status().message();
    EXPECT_EQ(step->data<int32_t>()[0], 12);
  });
}

TEST(SampleOption, PenaltiesRememberTokens) {
  CompileOptions options = sampling("logits,window=40,bias,mask,only,int32");
  options.shapes = {};
  auto text = std::string(kModel);
  text.replace(text.find("int64[batch,positions]"), 22, "int64[1,positions]");
  for (size_t at = 0; (at = text.find("[batch,", at)) != std::string::npos;)
    text.replace(at, 7, "[1,");
  auto g = graph::parse(text);
  ASSERT_TRUE(g.ok()) << g.status().message();
  const std::vector<graph::ValueId> inputs = (*g)->inputs;
  (*g)->inputs.resize(1);
  for (size_t i = 1; i < inputs.size(); ++i) {
    graph::Value& v = (*g)->value(inputs[i]);
    v.constant = random_weight(v.name, static_dims(v.shape));
  }
  auto p = compile(*std::move(g), options);
  ASSERT_TRUE(p.ok()) << p.status().message();
  on_each_device(std::make_shared<const package::Package>(*std::move(p)), [&](Session& session) {
    ASSERT_EQ(session.io().outputs.size(), 1U);
    EXPECT_EQ(session.io().outputs[0].dtype, DType::I32);
    // With a large penalty, no token comes twice, and those that the mask forbids never come.
    const HostTensor penalty = HostTensor::from(DType::F32, {1}, std::vector{1000.0F});
    const HostTensor allowed = HostTensor::from(DType::I32, {1, 2}, std::vector<int32_t>{-4, -1});
    std::vector<bool> seen(kTokens, false);
    const HostTensor first = ids({1, 1}, {3});
    for (int64_t i = 0; i < kTokens - 2; ++i) {
      auto out =
          session.run(std::vector<Binding>{{.name = "input_ids", .host = &first},
                                           {.name = "sampling.presence_penalty", .host = &penalty},
                                           {.name = "sampling.allowed", .host = &allowed}});
      ASSERT_TRUE(out.ok()) << out.status().message();
      const auto id = static_cast<size_t>(out->front().data<int32_t>()[0]);
      ASSERT_LT(id, seen.size());
      EXPECT_GE(id, 2U);
      EXPECT_FALSE(seen[id]) << id;
      seen[id] = true;
    }
  });
}

TEST(SampleOption, Refusals) {
  for (const char* text :
       {"", ",only", "logits,window=0", "logits,window=99999", "logits,what", "logits,window"})
    EXPECT_FALSE(parse_sample(text).ok()) << text;
  CompileOptions options = sampling("logits,window=4");
  options.targets = {};
  const auto p = compiled(options);
  ASSERT_FALSE(p.ok());
  EXPECT_NE(p.status().message().find("fix it with --shape"), std::string::npos)
      << p.status().message();
  options = sampling("scores");
  EXPECT_NE(compiled(options).status().message().find("it has logits"), std::string::npos);
}

TEST(SampleOption, NamesOfTheModelAreRefused) {
  const auto refusal = [](const std::string& lines, const std::string& option) {
    auto g = graph::parse("graph names\ninput logits0: float32[1,8]\n" + lines +
                          "logits = Relu(logits0) @14\noutput logits\n");
    EXPECT_TRUE(g.ok()) << g.status().message();
    return g.ok() ? compile(*std::move(g), sampling(option)).status().message() : "";
  };
  const std::string ids = "sampled_ids = Relu(logits0) @14\noutput sampled_ids\n";
  EXPECT_EQ(refusal("", "logits,only"), "");
  for (const char* option : {"logits", "logits,only"})
    EXPECT_NE(refusal(ids, option).find("has an output 'sampled_ids'"), std::string::npos);
  EXPECT_EQ(refusal(ids, "sampled_ids,only").find("an output 'sampled_ids'"), std::string::npos);
  const std::string step = "input sampling.step: int32[1]\n";
  EXPECT_NE(refusal(step, "logits").find("has an input 'sampling.step'"), std::string::npos);
}

/// 50 steps, of which each reads the id that the one before it has left on the device. The host
/// reads nothing before the end, and each step is one submission.
TEST(SampleOption, IdsStayOnTheDevice) {
  constexpr int kSteps = 50;
  const auto package = package_of(sampling("logits,only"));
  ASSERT_TRUE(package);
  const HostTensor hot = HostTensor::from(DType::F32, {1}, std::vector{2.0F});
  const Binding temperature{.name = "sampling.temperature", .host = &hot};
  std::vector<int64_t> expected;
  on_each_device(package, [&](Session& session) {
    if (expected.empty()) expected = continued(session, 5, kSteps, {temperature});
    if (session.device() == nullptr) return;
    ASSERT_TRUE(session.reset_states().ok());
    Device& device = *session.device();
    // The ids of all steps, 16 bytes apart.
    auto buffer = device.allocate(16 * (kSteps + 1), MemoryUse::Device);
    ASSERT_TRUE(buffer.ok()) << buffer.status().message();
    const int64_t first = 5;
    ASSERT_TRUE(device.upload(**buffer, 0, std::as_bytes(std::span(&first, 1))).ok());
    std::vector<HostTensor> results;
    const uint64_t submits = session.stats().submits;
    for (int i = 0; i < kSteps; ++i) {
      const uint64_t at = 16 * static_cast<uint64_t>(i);
      const std::vector<Binding> inputs{
          temperature,
          {.name = "input_ids", .device = buffer->get(), .device_offset = at, .dims = {1, 1}}};
      const std::vector<Binding> outputs{
          {.name = "sampled_ids", .device = buffer->get(), .device_offset = at + 16}};
      const Status s = session.run_into(inputs, outputs, results, nullptr);
      ASSERT_TRUE(s.ok()) << s.message();
    }
    EXPECT_EQ(session.stats().submits - submits, uint64_t{kSteps});
    EXPECT_LE(session.stats().recordings, 2U);
    std::vector<std::byte> bytes(16 * (kSteps + 1));
    ASSERT_TRUE(device.download(**buffer, 0, bytes).ok());
    std::vector<int64_t> found(kSteps);
    for (size_t i = 0; i < found.size(); ++i)
      std::memcpy(&found[i], bytes.data() + 16 * (i + 1), sizeof(int64_t));
    EXPECT_EQ(found, expected);
  });
}

}  // namespace
}  // namespace reprise
