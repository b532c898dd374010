// A schedule of GEMMs that packs weights in a way of its own, in this one file: neither runtime nor
// file format know it. Its kernel loads 16 values of k of a column at a time.
#include <gtest/gtest.h>

#include "backends/registry.h"
#include "codegen/compile/compiler.h"
#include "codegen/graph/text/text.h"
#include "runtime/session/session.h"
#include "shaders/contraction.h"
#include "tests/support/onnx_writer.h"

namespace reprise {
namespace {

using namespace shaders;

// --- The schedule --------------------------------------------------------------------------------

constexpr int64_t kDeep = 16;  // values of k of a column that lie side by side

/// Each invocation computes four columns of one row. A weight is packed as
/// [k / 16][n][16], so that a column's values lie in one piece.
class DeepColumns final : public Schedule {
 public:
  const char* name() const override { return "deep columns"; }

  std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& /*device*/) const override {
    Tile t;
    t.rows = 1;
    t.columns = 4;
    t.cost = 1e3 * size.batch * size.m * size.n * size.k;  // anything else is faster
    return {t};
  }

  plan::Packing packing(const plan::MatrixShape& b, int64_t bits, const Tile& tile) const override {
    if (bits != 0) return columns_in_tiles(b, bits, tile);
    plan::Packing p;
    p.dims = b.transposed ? std::vector{b.batch, b.n, b.k} : std::vector{b.batch, b.k, b.n};
    const int64_t k = b.transposed ? 2 : 1, n = 3 - k;
    p.parts = {{0, b.batch, 1}, {k, (b.k + kDeep - 1) / kDeep, kDeep}, {n, b.n, 1}, {k, kDeep, 1}};
    return p;
  }

  Status write(const TileWork& w) const override {
    const Operand a = w.gemm.a(), b = w.gemm.b();
    return a.plain && b.packed && b.packed->packing.bits == 0 && a.plain->contiguous_along
               ? write_bytes(w, *a.plain, *b.packed)
               : write_elements(w);
  }

 private:
  /// The operands are floats in memory: the schedule finds and loads them itself.
  static Status write_bytes(const TileWork& w, const PlainOperand& a, const PackedOperand& b) {
    kernel::Builder& builder = w.gemm.builder();
    LocalGrid sums(builder, "sum", kernel::kF32, 1, 4, 0);
    const int64_t depth =
        b.packing.dims[1] == b.packing.parts[2].size ? b.packing.dims[2] : b.packing.dims[1];
    const int64_t columns = b.packing.parts[2].size;
    const Value row = a.first + w.origin.row * a.across, first = w.origin.column_tile * 4;
    RP_TRY(w.result.loop(builder.i32(depth), depth, [&](Value k) {
      const Val x = builder.convert(builder.load(a.buffer, row + k * a.along), kernel::Ty::F32);
      for (int c = 0; c < 4; ++c) {
        const Value column = min(first + c, Value(builder, builder.i32(columns - 1)));
        const Value place = (k / kDeep * columns + column) * kDeep + k % kDeep;
        const Val y = builder.convert(builder.load(b.buffer, place), kernel::Ty::F32);
        sums.store(0, c, multiply_add(builder, x, y, sums.load(0, c), false));
      }
      return Status();
    }));
    return store(w, sums);
  }

  /// Any other operands: the problem loads their elements.
  static Status write_elements(const TileWork& w) {
    kernel::Builder& b = w.gemm.builder();
    LocalGrid sums(b, "sum", kernel::kF32, 1, 4, 0);
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
          sums.store(0, c,
                     multiply_add(b, x[static_cast<size_t>(k)], product, sums.load(0, c), false));
        }
      }
      return {};
    }));
    return store(w, sums);
  }

  static Status store(const TileWork& w, LocalGrid& sums) {
    const Value vec = w.origin.column_tile;
    return w.result.guard_columns(vec, [&] {
      return store_rows(w.result, w.origin.row, 1, vec,
                        [&](int) { return sums.load_vector(0, 0); });
    });
  }
};

const DeepColumns kDeepColumns;
constexpr const Schedule* kDeepSchedules[] = {&kDeepColumns};
const Status kDeepAdded = add_schedules(kDeepSchedules);

// --- Its test ------------------------------------------------------------------------------------

/// A constant of the text form.
std::string weight_text(const std::string& name, int64_t rows, int64_t columns) {
  std::string text =
      "const " + name + ": float32[" + std::to_string(rows) + "," + std::to_string(columns) + "]{";
  for (int64_t i = 0; i < rows * columns; ++i)
    text += (i > 0 ? ", " : "") + std::to_string((i * 7 + 3) % 11 - 5) + ".0";
  return text + "}\n";
}

std::vector<HostTensor> run_deep(const std::string& text, const CompileOptions& options,
                                 const std::shared_ptr<Device>& device) {
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.status().message();
  if (!g.ok()) return {};
  auto package = compile(std::move(*g), options);
  EXPECT_TRUE(package.ok()) << package.status().message();
  if (!package.ok()) return {};
  auto session = Session::create(std::make_shared<package::Package>(std::move(*package)), device);
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok()) return {};
  const HostTensor x = test::float_tensor({9, 40}, 0.25F, -4);
  auto outputs = (*session)->run({{{.name = "x", .host = &x}}});
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  return outputs.ok() ? std::move(*outputs) : std::vector<HostTensor>{};
}

/// A plain A, an A that is computed, a weight that is stored transposed, sizes that are no
/// multiples.
std::vector<std::string> deep_models() {
  const std::string x = "graph g\ninput x: float32[9,40]\n";
  return {x + weight_text("w", 40, 22) + "y = MatMul(x, w) @13\noutput y\n",
          x + weight_text("w", 40, 22) + "r = Relu(x) @14\ny = MatMul(r, w) @13\noutput y\n",
          x + weight_text("w", 13, 40) +
              "t = Transpose<perm=[1, 0]>(w) @13\nm = MatMul(x, t) @13\ny = Relu(m) @14\noutput "
              "y\n"};
}

TEST(AddedPacking, IsReadFromThePackageAndPacked) {
  ASSERT_TRUE(kDeepAdded.ok()) << kDeepAdded.message();
  for (const std::string& text : deep_models()) {
    SCOPED_TRACE(text);
    CompileOptions host;
    host.targets = {};
    const std::vector<HostTensor> expected = run_deep(text, host, nullptr);
    ASSERT_EQ(expected.size(), 1U);
    for (const char* name : {"vulkan:0", "vulkan:1"}) {
      auto device = open_device(name);
      if (!device.ok()) continue;
      SCOPED_TRACE(name);
      size_t chosen = 0;
      CompileOptions options;
      options.choose_schedule = [&](const ScheduleSite& site) -> size_t {
        for (size_t i = 0; i < site.candidates.size(); ++i) {
          if (site.candidates[i].schedule != "deep columns 1x4") continue;
          ++chosen;
          return i;
        }
        return 0;
      };
      const std::vector<HostTensor> got = run_deep(text, options, device->device);
      EXPECT_GT(chosen, 0U);
      ASSERT_EQ(got.size(), 1U);
      for (int64_t i = 0; i < expected[0].count(); ++i)
        ASSERT_EQ(got[0].data<float>()[i], expected[0].data<float>()[i]) << i;
    }
  }
}

}  // namespace
}  // namespace reprise
