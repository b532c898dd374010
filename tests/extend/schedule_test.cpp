// A GEMM schedule, added in this one file. Those in shaders/gemm are the same, but that the build
// makes the table of them.
#include <gtest/gtest.h>

#include <random>

#include "backends/registry.h"
#include "codegen/compile/compiler.h"
#include "codegen/graph/text/text.h"
#include "runtime/session/session.h"
#include "shaders/contraction.h"
#include "tests/support/tensors.h"

namespace reprise {
namespace {

using namespace shaders;

// --- The schedule --------------------------------------------------------------------------------

/// Each invocation computes four columns of one row.
class DotProducts final : public Schedule {
 public:
  const char* name() const override { return "dot products"; }

  std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& /*device*/) const override {
    Tile t;
    t.rows = 1;
    t.columns = 4;
    t.cost = 1e3 * size.batch * size.m * size.n * size.k;  // anything else is faster
    return {t};
  }

  Status write(const TileWork& w) const override {
    kernel::Builder& b = w.gemm.builder();
    LocalGrid acc(b, "acc", kernel::kF32, 1, 4, 0);
    const Index row = w.gemm.row(w.origin.row);
    const bool along_k = w.gemm.b_along_k();
    std::vector<Column> columns;
    for (int c = 0; c < (along_k ? 4 : 1); ++c)
      columns.push_back(w.gemm.column(w.origin.column_tile * (along_k ? 4 : 1) + c));

    RP_TRY(w.gemm.k_loop([&](const KStep& step) -> Status {
      RP_ASSIGN(const Values x, w.gemm.load_a(row, step));
      for (int k = 0; k < step.depth(); ++k) {
        for (int c = 0; c < 4; ++c) {
          const Column& column = columns[along_k ? static_cast<size_t>(c) : 0];
          RP_ASSIGN(const Values y, w.gemm.load_b(column, step, b.i32(along_k ? 0 : k)));
          const Val product = y[static_cast<size_t>(along_k ? k : c)];
          acc.store(0, c,
                    multiply_add(b, x[static_cast<size_t>(k)], product, acc.load(0, c), false));
        }
      }
      return {};
    }));

    const Value vec = w.origin.column_tile;
    return w.result.guard_columns(vec, [&] {
      return store_rows(w.result, w.origin.row, 1, vec, [&](int) { return acc.load_vector(0, 0); });
    });
  }
};

const DotProducts kDotProducts;
constexpr const Schedule* kSchedules[] = {&kDotProducts};
const Status kScheduleAdded = add_schedules(kSchedules);

// --- Its test ------------------------------------------------------------------------------------

constexpr const char* kModels[] = {
    // A constant, which is packed; columns that are no multiple of 4; keys along k.
    "graph packed\ninput x: float32[5,12]\nconst w: float32[12,8]{%}\ny = MatMul(x, w) @13\n"
    "z = Relu(y) @14\noutput z\n",
    "graph odd\ninput x: float32[3,5,7]\ninput w: float32[3,7,9]\ny = MatMul(x, w) @13\n"
    "output y\n",
    "graph transposed\ninput x: float32[2,6,8]\ninput w: float32[2,16,8]\n"
    "t = Transpose<perm=[0,2,1]>(w) @13\ny = MatMul(x, t) @13\noutput y\n",
};

std::unique_ptr<graph::Graph> parsed(std::string text) {
  std::string numbers;
  for (int i = 0; i < 96; ++i) numbers += (i == 0 ? "" : ", ") + std::to_string(i % 7 - 3);
  if (const size_t at = text.find('%'); at != std::string::npos) text.replace(at, 1, numbers);
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.status().message();
  return g.ok() ? std::move(*g) : nullptr;
}

std::vector<HostTensor> run(const std::string& text, const CompileOptions& options,
                            const std::shared_ptr<Device>& device) {
  auto g = parsed(text);
  std::mt19937 rng(7);
  std::vector<HostTensor> inputs;
  std::vector<Binding> bindings;
  for (const graph::ValueId v : g->inputs) {
    const graph::Value& value = g->value(v);
    std::vector<int64_t> dims;
    for (const Expr& dim : value.shape) dims.push_back(dim.value());
    inputs.push_back(test::random_tensor(value.dtype, dims, rng));
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    bindings.push_back({.name = g->value(g->inputs[i]).name, .host = &inputs[i]});
  auto package = compile(std::move(g), options);
  EXPECT_TRUE(package.ok()) << package.status().message();
  if (!package.ok()) return {};
  auto session = Session::create(std::make_shared<package::Package>(std::move(*package)), device);
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok()) return {};
  auto outputs = (*session)->run(bindings);
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  return outputs.ok() ? std::move(*outputs) : std::vector<HostTensor>();
}

TEST(AddedSchedule, ComputesEveryGemm) {
  ASSERT_TRUE(kScheduleAdded.ok()) << kScheduleAdded.message();
  for (const char* name : {"vulkan:0", "vulkan:1"}) {
    auto device = open_device(name);
    if (!device.ok()) continue;
    for (const char* model : kModels) {
      SCOPED_TRACE(std::string(name) + " " + model);
      size_t chosen = 0;
      CompileOptions options;
      options.choose_schedule = [&](const ScheduleSite& site) -> size_t {
        for (size_t i = 0; i < site.candidates.size(); ++i) {
          if (site.candidates[i].schedule != "dot products 1x4") continue;
          ++chosen;
          return i;
        }
        return 0;
      };
      const std::vector<HostTensor> got = run(model, options, device->device);
      EXPECT_GT(chosen, 0U);
      CompileOptions host;
      host.targets = {};
      const std::vector<HostTensor> expected = run(model, host, nullptr);
      ASSERT_EQ(got.size(), 1U);
      ASSERT_EQ(expected.size(), 1U);
      for (int64_t i = 0; i < expected[0].count(); ++i)
        EXPECT_NEAR(got[0].data<float>()[i], expected[0].data<float>()[i], 1e-5) << i;
    }
  }
}

TEST(AddedSchedule, ComesBeforeTheFirstCompilation) {
  ASSERT_FALSE(schedules().empty());
  EXPECT_EQ(add_schedules(kSchedules).code(), Code::Usage);
}

}  // namespace
}  // namespace reprise
