// A kind of group, added in this one file: two small layers of a network become one kernel, which
// keeps a row between them in shared memory. The row of the table says which nodes such a group
// has, when separate kernels are better, and how it becomes a launch. Rows in
// codegen/lower/lower.cpp are the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "backends/registry.h"
#include "codegen/compile/compiler.h"
#include "codegen/graph/text/text.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/lower/index_test.h"
#include "codegen/passes/pass.h"
#include "runtime/session/session.h"
#include "tests/support/kernel_runner.h"

namespace reprise::lower {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;
using kernel::Ty;

// --- The lowering --------------------------------------------------------------------------------

constexpr uint32_t kInvocations = 64;  // of a workgroup, which computes a row
constexpr int64_t kMostHidden = 4096;

/// Whether the node multiplies matrices of floats.
bool multiplies(const Graph& g, const Node* n) {
  return n != nullptr && is_contraction(*n) && def_of(*n)->lowering == ops::Lowering::MatMul &&
         std::ranges::all_of(n->inputs.list(), [&](ValueId v) {
           return g.value(v).dtype == DType::F32 && g.value(v).shape.size() == 2;
         });
}

/// The nodes of relu(x * w1) * w2 that end with the second multiplication.
struct Layers {
  Node *first, *relu, *second;

  static std::optional<Layers> of(const Graph& g, Node* second) {
    const auto producer = [&](ValueId v) {
      const bool only_here = !g.is_output(v) && g.users(v).size() == 1;
      return only_here ? g.value(v).producer : nullptr;
    };
    if (!multiplies(g, second)) return {};
    Node* relu = producer(second->inputs[0]);
    if (relu == nullptr || !ops::is_core(*relu, kernel::ScalarOp::Relu)) return {};
    Node* first = producer(relu->inputs[0]);
    if (!multiplies(g, first)) return {};
    const Expr& hidden = g.value(first->outputs[0]).shape[1];
    if (!hidden.is_const() || hidden.value() > kMostHidden) return {};
    return Layers{first, relu, second};
  }
};

std::optional<Group> match_layers(const Graph& g, Node* last) {
  const auto layers = Layers::of(g, last);
  if (!layers) return {};
  Group out;
  out.anchor = last;
  out.nodes = {layers->first, layers->relu, layers->second};
  out.domain = g.value(last->outputs[0]).shape;
  return out;
}

std::string separate_layers(const Graph& g, const Group& group, const TargetFacts& device) {
  const int64_t hidden = g.value(group.anchor->inputs[0]).shape[1].value();
  return 4 * hidden <= device.shared_bytes() ? "" : "a row does not fit in shared memory";
}

/// Writes the kernel of a group.
class LayersKernel {
 public:
  LayersKernel(const Graph& g, const Group& group)
      : g_(g),
        group_(group),
        layers_(*Layers::of(g, group.anchor)),
        b_(kernel_name(group)),
        ev_(g, group, b_),
        local_(b_, b_.convert(b_.builtin(kernel::Builtin::LocalIndex), Ty::I32)) {}

  Result<Lowered> build(const std::string& schedule) {
    b_.set_workgroup(kInvocations);
    const Expr rows = group_.domain[0];
    const kernel::Value id = linear_workgroup(b_, rows);
    RP_TRY(guard_units(ev_, id, rows, 1, [&] { return write_row(ev_.symbol(id, rows)); }));
    return finish(ev_, b_, group_, rows, schedule);
  }

 private:
  Status write_row(const Expr& row) {
    const Expr hidden = shape(layers_.first->outputs[0])[1];
    const int kept = b_.shared("hidden", Ty::F32, static_cast<uint32_t>(hidden.value()));
    RP_TRY(each(hidden, [&](const Expr& h) -> Status {
      RP_ASSIGN(const Val sum, product(shape(layers_.first->inputs[0])[1], [&](const Expr& k) {
                  return pair(ev_.eval(layers_.first->inputs[0], {row, k}),
                              ev_.eval(layers_.first->inputs[1], {k, h}));
                }));
      ev_.bind(layers_.first->outputs[0], {row, h}, sum);
      RP_ASSIGN(const Val positive, ev_.eval(layers_.relu->outputs[0], {row, h}));
      b_.shared_store(kept, ev_.value(h), positive);
      return {};
    }));
    b_.barrier();
    return each(group_.domain[1], [&](const Expr& column) -> Status {
      RP_ASSIGN(const Val sum, product(hidden, [&](const Expr& h) {
                  return pair(b_.shared_load(kept, ev_.value(h)),
                              ev_.eval(layers_.second->inputs[1], {h, column}));
                }));
      return store_result(ev_, group_, {row, column}, sum, 1);
    });
  }

  const Shape& shape(ValueId v) const { return g_.value(v).shape; }

  /// Splits `count` elements over the invocations.
  Status each(const Expr& count, const std::function<Status(const Expr&)>& body) {
    const Expr rounds = Expr::ceildiv(count, int64_t{kInvocations});
    return ev_.for_loop(rounds, [&](kernel::Value round) {
      const kernel::Value at = round * int64_t{kInvocations} + local_;
      return ev_.guard(at < ev_.value(count), [&] { return body(ev_.symbol(at, count)); });
    });
  }

  using Pair = Result<std::pair<Val, Val>>;
  static Pair pair(Result<Val> a, Result<Val> b) {
    RP_ASSIGN(const Val x, std::move(a));
    RP_ASSIGN(const Val y, std::move(b));
    return std::pair(x, y);
  }

  /// The sum of products over `depth` values.
  Result<Val> product(const Expr& depth, const std::function<Pair(const Expr&)>& factors) {
    const int sum = b_.local("sum" + std::to_string(sums_++), kernel::kF32);
    b_.local_store(sum, b_.f32(0));
    RP_TRY(ev_.for_loop(depth, [&](kernel::Value k) -> Status {
      RP_ASSIGN(const auto both, factors(ev_.symbol(k, depth)));
      b_.local_store(sum, b_.add(b_.local_load(sum), b_.mul(both.first, both.second)));
      return {};
    }));
    return b_.local_load(sum);
  }

  const Graph& g_;
  const Group& group_;
  const Layers layers_;
  kernel::Builder b_;
  Evaluator ev_;
  kernel::Value local_;
  int sums_ = 0;
};

struct LayersSchedule {
  double cost = 1;
  static std::string describe() { return "two layers"; }
};

Result<Lowered> lower_layers(const Graph& g, const Group& group, const TargetFacts& /*target*/,
                             size_t choice, LoopForm /*form*/) {
  return lower_choice(std::vector<LayersSchedule>(1), choice, [&](const LayersSchedule& s) {
    return LayersKernel(g, group).build(s.describe());
  });
}

constexpr GroupLowering kLowerings[] = {{
    .name = "two layers",
    .match = match_layers,
    .preferred_apart = separate_layers,
    .loads_operands_again = true,
    .test_indices = test_result,
    .lower = lower_layers,
}};

const Status kLoweringAdded = add_group_lowerings(kLowerings);

// --- Its test ------------------------------------------------------------------------------------

constexpr int64_t kRows = 7, kDepth = 24, kColumns = 90;

/// A weight of small whole numbers, so that sums are exact.
std::string whole_numbers(const std::string& name, int64_t rows, int64_t columns) {
  std::string text =
      "const " + name + ": float32[" + std::to_string(rows) + "," + std::to_string(columns) + "]{";
  for (int64_t i = 0; i < rows * columns; ++i)
    text += (i > 0 ? ", " : "") + std::to_string((i * 5 + 1) % 7 - 3) + ".0";
  return text + "}\n";
}

/// Two layers with something before and after them.
std::string two_layers(int64_t hidden) {
  return "graph g\ninput x: float32[" + std::to_string(kRows) + "," + std::to_string(kDepth) +
         "]\n" + whole_numbers("w1", kDepth, hidden) + whole_numbers("w2", hidden, kColumns) +
         "n = Neg(x) @13\nh = MatMul(n, w1) @13\nr = Relu(h) @14\nm = MatMul(r, w2) @13\n"
         "y = Abs(m) @13\noutput y\n";
}

std::unique_ptr<Graph> parsed(int64_t hidden) {
  auto g = graph::parse(two_layers(hidden));
  EXPECT_TRUE(g.ok()) << g.status().message();
  return g.ok() ? std::move(*g) : nullptr;
}

HostTensor numbers() {
  HostTensor x(DType::F32, {kRows, kDepth});
  for (int64_t i = 0; i < x.count(); ++i)
    x.mutable_data<float>()[i] = static_cast<float>(i * 3 % 5 - 2);
  return x;
}

std::vector<float> run_layers(int64_t hidden, const CompileOptions& options,
                              const std::shared_ptr<Device>& device, CompileReport& report) {
  auto package = compile(parsed(hidden), options, &report);
  EXPECT_TRUE(package.ok()) << package.status().message();
  if (!package.ok()) return {};
  auto session = Session::create(std::make_shared<package::Package>(std::move(*package)), device);
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok()) return {};
  const HostTensor x = numbers();
  auto outputs = (*session)->run({{{.name = "x", .host = &x}}});
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  if (!outputs.ok()) return {};
  const float* y = (*outputs)[0].data<float>();
  return {y, y + (*outputs)[0].count()};
}

std::vector<float> expected_of(int64_t hidden) {
  CompileOptions options;
  options.targets = {};
  CompileReport report;
  return run_layers(hidden, options, nullptr, report);
}

TEST(AddedLowering, IsARowOfTheTable) {
  ASSERT_TRUE(kLoweringAdded.ok()) << kLoweringAdded.message();
  EXPECT_EQ(group_lowerings().back().name, "two layers");
  EXPECT_EQ(add_group_lowerings(kLowerings).code(), Code::Usage);
}

/// What the kernel computes on the interpreter, which checks each of its accesses.
TEST(AddedLowering, IsInterpreted) {
  for (const int64_t hidden : {40, 130}) {
    const std::unique_ptr<Graph> g = parsed(hidden);
    ASSERT_NE(g, nullptr);
    for (const passes::Pass& p : passes::pipeline()) {
      const Status s = passes::run(p, *g);
      ASSERT_TRUE(s.ok()) << s.message();
    }
    const auto fusion = fuse(*g);
    ASSERT_TRUE(fusion.ok()) << fusion.status().message();
    ASSERT_EQ(fusion->groups.size(), 1U);
    EXPECT_EQ(row_of(fusion->groups[0].kind).name, "two layers");
    const auto lowered = lower::lower(*g, fusion->groups[0], Predicate{});
    ASSERT_TRUE(lowered.ok()) << lowered.status().message();
    test::KernelRunner runner(*g, {}, {numbers()});
    const Status ran = runner.run(*lowered, test::interpret);
    ASSERT_TRUE(ran.ok()) << ran.message();
    const std::vector<std::byte>& got = runner.memory_of(g->outputs[0]);
    const std::vector<float> expected = expected_of(hidden);
    ASSERT_EQ(got.size(), expected.size() * sizeof(float));
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size()), 0);
  }
}

TEST(AddedLowering, RunsOnDevices) {
  for (const char* name : {"vulkan:0", "vulkan:1"}) {
    auto device = open_device(name);
    if (!device.ok()) continue;
    SCOPED_TRACE(name);
    CompileOptions options;
    options.fullgraph = true;
    CompileReport report;
    EXPECT_EQ(run_layers(40, options, device->device, report), expected_of(40));
    ASSERT_FALSE(report.groups.empty());
    for (const auto& group : report.groups) EXPECT_EQ(group.schedule, "two layers");
  }
}

/// A row that no device keeps in shared memory.
TEST(AddedLowering, IsNotUsedWhereItsPriceIsTooHigh) {
  for (const auto& [hidden, groups] : {std::pair<int64_t, size_t>{4096, 1}, {4100, 2}}) {
    const std::unique_ptr<Graph> g = parsed(hidden);
    ASSERT_NE(g, nullptr);
    for (const passes::Pass& p : passes::pipeline()) ASSERT_TRUE(passes::run(p, *g).ok());
    Predicate device;
    device.shared_bytes = 16384;
    auto fusion = fuse(*g, {.device = device});
    ASSERT_TRUE(fusion.ok());
    EXPECT_EQ(fusion->groups.size(), groups);
    device.shared_bytes = 16383;
    fusion = fuse(*g, {.device = device});
    ASSERT_TRUE(fusion.ok());
    EXPECT_EQ(fusion->groups.size(), 2U);
  }
}

}  // namespace
}  // namespace reprise::lower
