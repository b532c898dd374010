// The register tile: an invocation accumulates rows x columns in locals from its own loads. Needs
// no subgroup size, no shared memory and at most 128 invocations: the baseline of every device, and
// a good form on CPU-type ones, where wide loads and reuse in registers decide the speed.
#include <algorithm>
#include <array>
#include <cmath>

#include "shaders/contraction.h"
#include "shaders/device_costs.h"

namespace reprise::shaders {

using kernel::Val;

namespace {

constexpr int kColumns = 8;

class RegisterSchedule final : public Schedule {
 public:
  const char* name() const override { return "register tile"; }

  std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& device) const override {
    Tile t;
    t.rows = static_cast<int>(std::clamp(size.m, 1.0, device.cpu_type() ? 8.0 : 4.0));
    t.columns = kColumns;
    t.workgroup = device.cpu_type() ? 16 : 64;
    t.fma = !device.cpu_type();
    // Loads of one invocation for 4 positions, as many for a whole register of invocations.
    const double gather = cpu_costs(device).gather;
    const double loads = t.rows * size.a_loads + kColumns;
    const double units = size.batch * std::ceil(size.m / t.rows) * std::ceil(size.n / t.columns);
    const double steps = size.k / 4;
    const double products = 4.0 * t.rows * t.columns;
    t.cost = device.cpu_type() ? units / 8 * steps * (gather * loads + products)
                               : gpu_time(std::ceil(units / t.workgroup), t.workgroup, steps,
                                          kGpuLoad * loads + products);
    return {t};
  }

  Status write(Gemm& gemm, const Tile& tile, Val row, Val column) const override {
    return write_tile(Writer{gemm, tile}, row, column);
  }

 private:
  struct Writer {
    Gemm& gemm;
    const Tile& tile;
    std::vector<int> accs = {};

    int vecs() const { return tile.columns / 4; }
    size_t index(int major, int column) const {
      return static_cast<size_t>(major) * static_cast<size_t>(tile.columns) +
             static_cast<size_t>(column);
    }
    int& acc(int r, int c) { return accs[index(r, c)]; }

    Status accumulate(Val row, Val column) {
      kernel::Builder& b = gemm.builder();
      for (int i = 0; i < tile.rows * tile.columns; ++i) {
        accs.push_back(b.local("acc" + std::to_string(i), kernel::kF32));
        b.local_store(accs.back(), b.f32(0));
      }
      std::vector<int> rows, columns;
      for (int r = 0; r < tile.rows; ++r) rows.push_back(gemm.row(b.add(row, b.i32(r))));
      const int count = gemm.b_along_k() ? tile.columns : vecs();
      for (int c = 0; c < count; ++c)
        columns.push_back(gemm.column(b.add(b.mul(column, b.i32(count)), b.i32(c))));
      return gemm.k_loop([&](int depth) { return step(rows, columns, depth); });
    }

    /// right[position * columns + column] as scalars.
    Result<std::vector<Val>> load_right(const std::vector<int>& columns, int depth) {
      kernel::Builder& b = gemm.builder();
      std::vector<Val> out(index(depth, 0));
      const int loads = gemm.b_along_k() ? 1 : depth;
      for (size_t c = 0; c < columns.size(); ++c) {
        for (int k = 0; k < loads; ++k) {
          RP_ASSIGN(const Gemm::Values v, gemm.load_b(columns[c], b.i32(k)));
          for (size_t i = 0; i < v.size(); ++i) {
            const auto n = static_cast<int>(i);
            if (gemm.b_along_k()) {
              out[index(n, static_cast<int>(c))] = v[i];
            } else {
              out[index(k, 4 * static_cast<int>(c) + n)] = v[i];
            }
          }
        }
      }
      return out;
    }

    Status step(const std::vector<int>& rows, const std::vector<int>& columns, int depth) {
      kernel::Builder& b = gemm.builder();
      RP_ASSIGN(const std::vector<Val> ys, load_right(columns, depth));
      RP_ASSIGN(const std::vector<Gemm::Values> lefts, load_a_rows(gemm, rows));
      for (int r = 0; r < tile.rows; ++r) {
        for (int c = 0; c < tile.columns; ++c) {
          Val total = b.local_load(acc(r, c));
          for (int k = 0; k < depth; ++k) {
            const Val x = lefts[static_cast<size_t>(r)][static_cast<size_t>(k)];
            const Val y = ys[index(k, c)];
            total = tile.fma ? b.fma(x, y, total) : b.add(total, b.mul(x, y));
          }
          b.local_store(acc(r, c), total);
        }
      }
      return {};
    }

    Status store(Val row, Val column) {
      kernel::Builder& b = gemm.builder();
      for (int v = 0; v < vecs(); ++v) {
        const Val vec = b.add(b.mul(column, b.i32(vecs())), b.i32(v));
        RP_TRY(gemm.guard_columns(vec, [&] {
          return store_rows(gemm, row, tile.rows, vec, [&](int r) { return four(r, v); });
        }));
      }
      return {};
    }

    Val four(int r, int vec) {
      const auto part = [&](int c) { return gemm.builder().local_load(acc(r, 4 * vec + c)); };
      return gemm.builder().compose(std::array{part(0), part(1), part(2), part(3)});
    }
  };
};

}  // namespace

const Schedule& register_schedule() {
  static const RegisterSchedule schedule;
  return schedule;
}

}  // namespace reprise::shaders
