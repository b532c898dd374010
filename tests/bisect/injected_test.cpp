// Faults injected into the compiler and in a driver: bisect names the kernel, its operators and the
// cause, and the reduced model has the fault.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "apps/bisect/bisect.h"
#include "apps/common/model.h"
#include "backends/vulkan/api.h"
#include "backends/vulkan/vulkan.h"
#include "codegen/compile/host_plan.h"
#include "codegen/lower/launch/lowered.h"
#include "codegen/onnx/importer.h"
#include "codegen/options/compile_hooks.h"
#include "tests/support/hooks.h"
#include "tests/support/onnx_writer.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

using app::BisectReport;

OnnxWriter::NodeOptions named(const std::string& name) {
  OnnxWriter::NodeOptions o;
  o.name = name;
  return o;
}

struct Subject {
  std::unique_ptr<graph::Graph> graph;
  app::InputSet inputs;
};

Subject subject(const OnnxWriter& writer) {
  const std::string bytes = writer.bytes();
  Subject out;
  auto g = onnx::import_bytes(std::as_bytes(std::span(bytes)));
  EXPECT_TRUE(g.ok()) << g.status().message();
  out.graph = std::move(*g);
  std::vector<std::string> notes;
  auto inputs = app::make_inputs(make_interface(*out.graph), {}, notes);
  EXPECT_TRUE(inputs.ok()) << inputs.status().message();
  out.inputs = std::move(*inputs);
  return out;
}

app::BisectOptions options_for(const OpenedDevice& device) {
  app::BisectOptions o;
  o.device = device;
  o.compile.targets = app::targets_for(device);
  compile_for(device.info, o.compile);
  o.runs = 4;
  o.open = [](const std::string& id) { return open_device(id); };
  return o;
}

app::BisectOptions on_vulkan() {
  auto device = open_device("vulkan");
  EXPECT_TRUE(device.ok()) << device.status().message();
  return options_for(*device);
}

BisectReport bisected(const Subject& s, const app::BisectOptions& o) {
  auto report = app::bisect(*s.graph, s.inputs, o);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? std::move(*report) : BisectReport{};
}

bool has(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

/// The last operation of a kind on floats becomes another; false if there is none.
bool change(kernel::Kernel& k, kernel::ScalarOp from, kernel::ScalarOp to) {
  for (size_t i = k.insts.size(); i-- > 0;) {
    kernel::Inst& inst = k.insts[i];
    const bool is = inst.op == kernel::Op::Scalar && inst.type.ty == kernel::Ty::F32 &&
                    inst.imm == static_cast<uint64_t>(from);
    if (!is) continue;
    inst.imm = static_cast<uint64_t>(to);
    return true;
  }
  return false;
}

/// The reduced model is a file that imports, and differs by the same fault.
void expect_reproduces(const BisectReport& report, const app::BisectOptions& o,
                       const std::string& cause) {
  ASSERT_TRUE(report.reduced.has_value());
  TempDir dir;
  ASSERT_TRUE(app::write_case(*report.reduced, dir.path()).ok());
  auto g = onnx::import_file(dir / "model.onnx");
  ASSERT_TRUE(g.ok()) << g.status().message();
  app::InputSet inputs;
  for (size_t i = 0; i < (*g)->inputs.size(); ++i) {
    auto t =
        app::read_tensor(dir.path() / "test_data_set_0" / ("input_" + std::to_string(i) + ".pb"));
    ASSERT_TRUE(t.ok()) << t.status().message();
    inputs.names.push_back((*g)->value((*g)->inputs[i]).name);
    inputs.tensors.push_back(*t);
  }
  auto again = app::bisect(**g, inputs, o);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_TRUE(again->differs);
  EXPECT_EQ(again->cause, cause);
}

OnnxWriter pointwise_model() {
  OnnxWriter w;
  w.input("x", DType::F32, {4, 64})
      .input("b", DType::F32, {4, 64})
      .output("y", DType::F32, {4, 64});
  w.node("Relu", {"x"}, {"r"}, named("relu")).node("Sin", {"r"}, {"s"}, named("sin"));
  w.node("Add", {"s", "b"}, {"a"}, named("add")).node("Sigmoid", {"a"}, {"y"}, named("gate"));
  return w;
}

TEST(InjectedFault, NothingDiffers) {
  const BisectReport r = bisected(subject(pointwise_model()), on_vulkan());
  EXPECT_FALSE(r.differs);
  EXPECT_TRUE(r.kernel.empty());
  EXPECT_TRUE(r.deterministic);
}

/// Rows that nearly cancel, and logits far apart: large errors, and no kernel to blame.
TEST(InjectedFault, RoundingIsNoFault) {
  OnnxWriter w;
  w.input("x", DType::F32, {8, 64}).output("y", DType::F32, {8, 64});
  w.initializer("large", HostTensor::from<float>(DType::F32, {1}, {30000}));
  w.initializer("zero", float_tensor({64}, 0)).initializer("one", float_tensor({64}, 0, 1));
  w.node("Add", {"x", "large"}, {"a"});
  w.node("LayerNormalization", {"a", "one", "zero"}, {"n"}).node("Sub", {"n", "x"}, {"y"});
  const BisectReport r = bisected(subject(w), on_vulkan());
  EXPECT_TRUE(r.kernel.empty()) << r.kernel << ": " << r.wrong.reason;
  EXPECT_TRUE(r.cause.empty() || r.cause == "rounding") << r.cause;
}

/// The largest of many numbers, where 8 digits do not tell which it is: no pass to blame.
TEST(InjectedFault, PrecisionIsNoFault) {
  OnnxWriter w;
  w.input("x", DType::F32, {64, 32}).output("y", DType::I64, {64, 1});
  std::vector<float> weights(32 * 512);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = std::sin(static_cast<float>(i) * 1.7F);
  w.initializer("w", HostTensor::from<float>(DType::F32, {32, 512}, weights));
  OnnxWriter::NodeOptions columns;
  columns.attrs.set("axis", int64_t{1});
  w.node("MatMul", {"x", "w"}, {"m"}).node("ArgMax", {"m"}, {"y"}, columns);
  app::BisectOptions o = on_vulkan();
  o.compile.precision = DType::BF16;
  const BisectReport r = bisected(subject(w), o);
  EXPECT_TRUE(r.differs);
  EXPECT_EQ(r.cause, "precision") << r.explanation;
}

/// Rows of any length have two kernels, of which one has nothing to do in a run: it is not to
/// blame.
TEST(InjectedFault, AfterKernelsOfTwoForms) {
  OnnxWriter w;
  w.input("x", DType::F32, {3, "n"}).output("y", DType::F32, {"n", 3});
  w.initializer("b", float_tensor({3}, 0, 1));
  w.node("Softmax", {"x"}, {"s"}, named("softmax")).node("Transpose", {"s"}, {"t"});
  w.node("Add", {"t", "b"}, {"y"}, named("sum"));
  app::BisectOptions o = on_vulkan();
  bool has_two_forms = false;
  o.compile.hooks = kernel_hook([&](const lower::Group& group, lower::Lowered& lowered) {
    has_two_forms |=
        group.kind == lower::GroupKind::Row && !lowered.launches[0].iterations.is_const();
    if (group.kind == lower::GroupKind::Pointwise)
      change(lowered.launches[0].kernel, kernel::ScalarOp::Add, kernel::ScalarOp::Sub);
  });
  const BisectReport r = bisected(subject(w), o);
  EXPECT_TRUE(has_two_forms);
  EXPECT_TRUE(r.differs);
  EXPECT_TRUE(has(r.nodes, "sum")) << r.kernel;
  EXPECT_FALSE(has(r.nodes, "softmax")) << r.kernel;
}

TEST(InjectedFault, InFusion) {
  app::BisectOptions o = on_vulkan();
  o.compile.hooks = kernel_hook([](const lower::Group& group, lower::Lowered& lowered) {
    if (group.kind == lower::GroupKind::Pointwise && group.nodes.size() > 1)
      change(lowered.launches[0].kernel, kernel::ScalarOp::Add, kernel::ScalarOp::Sub);
  });
  OnnxWriter w;
  w.input("x", DType::F32, {4, 64})
      .input("b", DType::F32, {4, 64})
      .output("y", DType::F32, {4, 64});
  w.node("Relu", {"x"}, {"r"}, named("relu")).node("Neg", {"r"}, {"n"}, named("neg"));
  w.node("Add", {"n", "b"}, {"a"}, named("add")).node("Abs", {"a"}, {"y"}, named("abs"));
  const BisectReport r = bisected(subject(w), o);
  EXPECT_EQ(r.cause, "pass fusion") << r.explanation;
  EXPECT_TRUE(r.kernel.starts_with("fused_")) << r.kernel;
  EXPECT_EQ(r.interpreter, "wrong");
  EXPECT_TRUE(r.deterministic);
  ASSERT_TRUE(r.reduced.has_value());
  EXPECT_EQ(r.reduced->nodes.size(), 2u);
  EXPECT_TRUE(has(r.reduced->nodes, "add"));
  expect_reproduces(r, o, "pass fusion");
}

/// The host computes an operator without a host kernel as what it decomposes into.
TEST(InjectedFault, InAComposedOperator) {
  OnnxWriter w;
  w.input("x", DType::F32, {4, 64}).output("y", DType::F32, {4, 64});
  w.initializer("b", float_tensor({64}, 0.1F, -3));
  w.node("Neg", {"x"}, {"n"}, named("neg"));
  w.node("BiasGelu", {"n", "b"}, {"g"}, {"gelu", "com.microsoft", {}});
  w.node("Softmax", {"g"}, {"y"}, named("softmax"));
  app::BisectOptions o = on_vulkan();
  EXPECT_FALSE(bisected(subject(w), o).differs);
  o.compile.hooks = kernel_hook([](const lower::Group&, lower::Lowered& lowered) {
    change(lowered.launches[0].kernel, kernel::ScalarOp::Neg, kernel::ScalarOp::Abs);
  });
  const BisectReport r = bisected(subject(w), o);
  EXPECT_TRUE(r.differs);
  EXPECT_FALSE(r.kernel.empty());
  ASSERT_TRUE(r.reduced.has_value());
  EXPECT_TRUE(has(r.reduced->operators, "Neg"));
}

/// The kernels of the model are right, and one of a body is not.
TEST(InjectedFault, InABody) {
  auto g = graph::parse(R"(graph looped
input n: int64[]
input x: float32[4,64]
input b: float32[4,64]
r = Relu(x) @16 "first"
(y: float32[4,64]) = Loop(n, _, r, b) @16 "loop" {
  body {
    input i: int64[]
    input going: bool[]
    input v: float32[4,64]
    capture c: float32[4,64]
    s = Neg(v) @16 "neg"
    a = Add(s, c) @16 "add"
    t = Abs(a) @16 "abs"
    output going, t
  }
}
output y
)");
  ASSERT_TRUE(g.ok()) << g.status().message();
  Subject s;
  s.graph = std::move(*g);
  s.inputs.names = {"n", "x", "b"};
  s.inputs.tensors = {HostTensor::from<int64_t>(DType::I64, {}, {3}), float_tensor({4, 64}, 0.1F),
                      float_tensor({4, 64}, 0.2F, -3)};
  app::BisectOptions o = on_vulkan();
  EXPECT_FALSE(bisected(s, o).differs);
  o.compile.hooks = kernel_hook([](const lower::Group& group, lower::Lowered& lowered) {
    if (group.kind == lower::GroupKind::Pointwise && group.nodes.size() > 1)
      change(lowered.launches[0].kernel, kernel::ScalarOp::Add, kernel::ScalarOp::Sub);
  });
  const BisectReport r = bisected(s, o);
  EXPECT_TRUE(r.differs);
  EXPECT_EQ(r.body, "iteration 0 of the body of node 'loop'");
  EXPECT_EQ(r.cause, "pass fusion") << r.explanation;
  EXPECT_TRUE(has(r.nodes, "add")) << r.kernel;
  EXPECT_TRUE(has(r.operators, "Add"));
  ASSERT_TRUE(r.reduced.has_value());
  EXPECT_EQ(r.reduced->nodes.size(), 2u);
  expect_reproduces(r, o, "pass fusion");
}

TEST(InjectedFault, InLayout) {
  OnnxWriter w;
  const auto ints = [](std::vector<int64_t> v) { return Attr(std::move(v)); };
  const auto transpose = [&](std::vector<int64_t> perm, const std::string& name) {
    OnnxWriter::NodeOptions o = named(name);
    o.attrs.set("perm", ints(std::move(perm)));
    return o;
  };
  w.input("x", DType::F32, {1, 8, 8, 16}).output("y", DType::F32, {1, 4, 4, 16});
  w.initializer("w", float_tensor({16, 16, 1, 1}, 0.1F, -0.7F));
  OnnxWriter::NodeOptions pool = named("pool");
  pool.attrs.set("kernel_shape", ints({2, 2}));
  pool.attrs.set("strides", ints({2, 2}));
  w.node("Transpose", {"x"}, {"t"}, transpose({0, 3, 1, 2}, "first"));
  w.node("Conv", {"t", "w"}, {"c"}, named("conv")).node("Relu", {"c"}, {"r"}, named("relu"));
  w.node("MaxPool", {"r"}, {"p"}, pool);
  w.node("Transpose", {"p"}, {"y"}, transpose({0, 2, 3, 1}, "last"));
  app::BisectOptions o = on_vulkan();
  bool injected = false;
  o.compile.hooks = graph_hook([&](std::string_view pass, graph::Graph& g) {
    if (pass != "layout") return;
    for (const auto& n : g.nodes()) {
      if (n->op != "MaxPool" || n->attrs.get_int("channels_last", 0) == 0) continue;
      n->op = "AveragePool";
      injected = true;
    }
  });
  const BisectReport r = bisected(subject(w), o);
  ASSERT_TRUE(injected);
  EXPECT_EQ(r.cause, "pass layout") << r.explanation;
  EXPECT_TRUE(has(r.nodes, "pool"));
  EXPECT_FALSE(r.kernel.empty());
  ASSERT_TRUE(r.reduced.has_value());
  EXPECT_TRUE(has(r.reduced->operators, "MaxPool"));
  expect_reproduces(r, o, "pass layout");
}

OnnxWriter attention_model() {
  OnnxWriter w;
  w.input("q", DType::F32, {1, 2, 20, 16}).input("k", DType::F32, {1, 2, 16, 24});
  w.input("v", DType::F32, {1, 2, 24, 16}).output("y", DType::F32, {1, 2, 20, 16});
  w.node("Relu", {"q"}, {"a"}, named("relu"));
  w.node("MatMul", {"a", "k"}, {"s"}, named("scores"));
  w.node("Softmax", {"s"}, {"p"}, named("softmax"));
  w.node("MatMul", {"p", "v"}, {"o"}, named("values")).node("Neg", {"o"}, {"y"}, named("neg"));
  return w;
}

TEST(InjectedFault, InAttention) {
  app::BisectOptions o = on_vulkan();
  o.compile.disabled_passes = {"attention-price"};
  o.compile.hooks = kernel_hook([](const lower::Group& group, lower::Lowered& lowered) {
    if (group.kind == lower::GroupKind::Attention)
      change(lowered.launches[0].kernel, kernel::ScalarOp::Mul, kernel::ScalarOp::Add);
  });
  const BisectReport r = bisected(subject(attention_model()), o);
  EXPECT_EQ(r.cause, "pass attention") << r.explanation;
  EXPECT_TRUE(has(r.nodes, "softmax"));
  ASSERT_TRUE(r.reduced.has_value());
  for (const char* node : {"scores", "softmax", "values"}) EXPECT_TRUE(has(r.reduced->nodes, node));
  EXPECT_FALSE(has(r.reduced->nodes, "neg"));
  expect_reproduces(r, o, "pass attention");
}

TEST(InjectedFault, InARowKernel) {
  app::BisectOptions o = on_vulkan();
  o.compile.hooks = kernel_hook([](const lower::Group& group, lower::Lowered& lowered) {
    if (group.kind == lower::GroupKind::Row)
      change(lowered.launches[0].kernel, kernel::ScalarOp::Add, kernel::ScalarOp::Sub);
  });
  OnnxWriter w;
  // Rows are too short for compensated sums, whose last addition hardly matters.
  w.input("x", DType::F32, {16, 12}).output("y", DType::F32, {16, 12});
  w.node("Neg", {"x"}, {"n"}, named("neg")).node("Softmax", {"n"}, {"p"}, named("softmax"));
  w.node("Sqrt", {"p"}, {"y"}, named("sqrt"));
  const BisectReport r = bisected(subject(w), o);
  EXPECT_EQ(r.cause, "lowering") << r.explanation;
  EXPECT_NE(r.explanation.find("row"), std::string::npos) << r.explanation;
  EXPECT_EQ(r.interpreter, "wrong");
  ASSERT_TRUE(r.reduced.has_value());
  EXPECT_EQ(r.reduced->nodes, std::vector<std::string>{"softmax"});
  expect_reproduces(r, o, "lowering");
}

TEST(InjectedFault, AfterASortOfSeveralLaunchesOfOneKernel) {
  app::BisectOptions o = on_vulkan();
  o.compile.hooks = kernel_hook([](const lower::Group& group, lower::Lowered& lowered) {
    if (group.kind == lower::GroupKind::Pointwise)
      change(lowered.launches[0].kernel, kernel::ScalarOp::Add, kernel::ScalarOp::Sub);
  });
  OnnxWriter w;
  w.input("x", DType::F32, {3000}).output("y", DType::F32, {3000});
  w.initializer("k", HostTensor::from<int64_t>(DType::I64, {1}, {3000}));
  w.node("TopK", {"x", "k"}, {"s", ""}, named("sort"));
  w.node("Add", {"s", "x"}, {"y"}, named("add"));
  const BisectReport r = bisected(subject(w), o);
  EXPECT_EQ(r.cause, "lowering") << r.explanation;
  EXPECT_EQ(r.nodes, std::vector<std::string>{"add"});
}

OnnxWriter product_model() {
  OnnxWriter w;
  w.input("x", DType::F32, {24, 40}).output("y", DType::F32, {24, 72});
  w.initializer("w", float_tensor({40, 72}));
  w.node("Relu", {"x"}, {"r"}, named("relu")).node("MatMul", {"r", "w"}, {"y"}, named("product"));
  return w;
}

TEST(InjectedFault, InASchedule) {
  const Subject s = subject(product_model());
  // The smallest devices have one schedule only, which says nothing of others.
  app::BisectOptions o;
  for (const char* id : {"vulkan:0", "vulkan:1"}) {
    auto device = open_device(id);
    if (device.ok() && device->info.facts.subgroup_size == 8) o = options_for(*device);
  }
  if (o.device.device == nullptr) GTEST_SKIP() << "no device with several schedules";
  std::string schedule;
  o.compile.hooks = kernel_hook([&](const lower::Group&, lower::Lowered& lowered) {
    if (lowered.choices.size() < 2) return;
    if (schedule.empty()) schedule = lowered.schedule;
    if (lowered.schedule != schedule) return;
    for (const auto& [from, to] : {std::pair{kernel::ScalarOp::Add, kernel::ScalarOp::Sub},
                                   std::pair{kernel::ScalarOp::Mul, kernel::ScalarOp::Add}}) {
      for (lower::LoweredLaunch& launch : lowered.launches) {
        if (change(launch.kernel, from, to)) return;
      }
    }
    ADD_FAILURE() << "nothing to change in " << schedule;
  });
  const BisectReport r = bisected(s, o);
  ASSERT_FALSE(schedule.empty());
  EXPECT_EQ(r.cause, "schedule " + schedule) << r.explanation;
  ASSERT_TRUE(r.reduced.has_value());
  EXPECT_EQ(r.reduced->nodes, std::vector<std::string>{"product"});
  expect_reproduces(r, o, "schedule " + schedule);
}

// ------------------------------------------------------------ a driver that miscompiles

PFN_vkCreateShaderModule real_create = nullptr;

/// Makes a difference of the last sum of floats in every module.
VKAPI_ATTR VkResult VKAPI_CALL create_altered(VkDevice device, const VkShaderModuleCreateInfo* info,
                                              const VkAllocationCallbacks* callbacks,
                                              VkShaderModule* out) {
  constexpr uint32_t kHeader = 5, kFAdd = 129, kFSub = 131;
  std::vector<uint32_t> words(info->pCode, info->pCode + info->codeSize / 4);
  uint32_t* last = nullptr;
  for (size_t at = kHeader; at < words.size() && (words[at] >> 16U) > 0; at += words[at] >> 16U) {
    if ((words[at] & 0xffffU) == kFAdd) last = &words[at];
  }
  if (last != nullptr) *last = (*last & 0xffff0000U) | kFSub;
  VkShaderModuleCreateInfo altered = *info;
  altered.pCode = words.data();
  return real_create(device, &altered, callbacks, out);
}

size_t first_vulkan() {
  const auto id = open_device("vulkan");
  EXPECT_TRUE(id.ok()) << id.status().message();
  return id->info.id.find(':') == std::string::npos ? 0 : std::stoul(id->info.id.substr(7));
}

TEST(InjectedFault, InADriver) {
  auto altered = vulkan::open(first_vulkan(), {}, [](VolkDeviceTable& t) {
    real_create = t.vkCreateShaderModule;
    t.vkCreateShaderModule = create_altered;
  });
  ASSERT_TRUE(altered.ok()) << altered.status().message();
  OpenedDevice device;
  device.device = std::move(*altered);
  device.info = device.device->info();
  app::BisectOptions o = options_for(device);
  // The same driver without the fault.
  o.other_devices = {device.info.id};
  OnnxWriter w;
  w.input("x", DType::F32, {4, 64})
      .input("b", DType::F32, {4, 64})
      .output("y", DType::F32, {4, 64});
  w.node("Relu", {"x"}, {"r"}, named("relu")).node("Add", {"r", "b"}, {"a"}, named("add"));
  w.node("Neg", {"a"}, {"y"}, named("neg"));
  const BisectReport r = bisected(subject(w), o);
  EXPECT_EQ(r.cause, "driver") << r.explanation;
  EXPECT_EQ(r.interpreter, "right");
  EXPECT_NE(r.explanation.find(device.info.driver), std::string::npos);
  ASSERT_TRUE(r.reduced.has_value());
  EXPECT_EQ(r.reduced->nodes, std::vector<std::string>{"add"});
  expect_reproduces(r, o, "driver");
}

}  // namespace
}  // namespace reprise::test
