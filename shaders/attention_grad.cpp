// Kernel template: the gradients of attention for all devices. `lanes` invocations share `rows`
// rows:
//   lanes = 1: an invocation loads everything that it needs. Runs on any device.
//   lanes = 8: a subgroup of a CPU-type device. One lane loads a row and broadcasts it. Each lane
//              computes the weights of some of the others, and some columns of the results. It
//              reads the weights that other lanes computed by shuffles with a constant lane.
// Tiles with shared blocks of operands have a template of their own (attention_grad_blocks.h).
//
//   for each block of lanes * others:
//     both products of each row and other, over the head size in steps
//     their pulls and weights
//     sums[result][row][column] += pull or weight * factor[other][column]
//
// Multiply-adds go row by row over all positions of a step, so that accumulators stay in registers
// (see subgroup_tile.h).
#include "shaders/attention_grad.h"

#include <algorithm>
#include <cmath>

#include "codegen/target/device_costs.h"
#include "shaders/attention_grad_blocks.h"
#include "shaders/contraction.h"

namespace reprise::shaders {

namespace {

constexpr int kFactors = 2;

/// Writes one tile.
class GradWriter {
 public:
  explicit GradWriter(const AttentionGradWork& w)
      : w_(w),
        t_(w.tile),
        b_(w.grad.builder()),
        lane_(t_.lanes > 1 ? lane_of(b_) : b_.i32(0)),
        first_vec_(w.origin.column_tile * (t_.columns / 4) + lane_ * vecs()) {
    for (int f = 0; f < kFactors; ++f)
      pairs_.emplace_back(b_, f == 0 ? "pull" : "weight", kernel::kF32, t_.rows, t_.others,
                          std::nullopt);
    for (int i = 0; i < results(); ++i)
      sums_.emplace_back(b_, i == 0 ? "sum" : "second_sum", kernel::kF32, t_.rows,
                         t_.per_invocation, 0);
    for (int r = 0; r < t_.rows; ++r) rows_.push_back(w_.grad.row(w_.origin.row + r));
    if (shared()) {
      const Value own = min(lane_, std::min(t_.rows, t_.lanes) - 1);
      for (int r = 0; r < t_.rows; r += t_.lanes)
        loaded_.push_back(w_.grad.row(w_.origin.row + r + own));
    } else {
      loaded_ = rows_;
    }
    for (int v = 0; v < vecs(); ++v) columns_.push_back(w_.grad.column(first_vec_ + v));
  }

  Status write() {
    RP_TRY(w_.grad.blocks(w_.origin.row, t_.rows, block(), [&](Value first) -> Status {
      Others others;
      for (int k = 0; k < t_.others; ++k) add(others, first + k * t_.lanes + lane_);
      for (LocalGrid& products : pairs_) {
        for (int r = 0; r < t_.rows; ++r) {
          for (int k = 0; k < t_.others; ++k) products.store(r, k, b_.f32(0));
        }
      }
      // One loop for each factor, as the accumulators of both exceed the registers.
      for (int f = 0; f < kFactors; ++f)
        RP_TRY(w_.grad.k_loop([&](const KStep& step) { return add_products(f, others, step); }));
      for (int r = 0; r < t_.rows; ++r) RP_TRY(products_to_weights(r, others));
      return shared() ? add_factors_of_lanes(first) : add_own_factors(others);
    }));
    for (int i = 0; i < results(); ++i) RP_TRY(store(i));
    return {};
  }

 private:
  /// Others of an invocation. A number may lie past the end; its index is that of the last one
  /// then.
  struct Others {
    std::vector<Value> numbers;
    std::vector<Index> at;
  };

  bool shared() const { return t_.lanes > 1; }
  int vecs() const { return t_.per_invocation / 4; }
  int block() const { return t_.lanes * t_.others; }
  int results() const { return static_cast<int>(w_.results.size()); }
  LocalGrid& pairs(int factor) { return pairs_[static_cast<size_t>(factor)]; }
  LocalGrid& sums(int result) { return sums_[static_cast<size_t>(result)]; }
  void add(Others& others, Value number) {
    others.numbers.push_back(number);
    others.at.push_back(w_.grad.other(number, block()));
  }
  Val exists(const Others& others, size_t k) { return others.numbers[k] < w_.grad.other_count(); }

  /// Element d of the factor of row r, from the lane that loaded it.
  Val of_row(const std::vector<Values>& values, int r, int d) {
    const auto at = static_cast<size_t>(d);
    if (!shared()) return values[static_cast<size_t>(r)][at];
    return broadcast(b_, values[static_cast<size_t>(r / t_.lanes)][at], r % t_.lanes);
  }

  /// Adds the products of rows and others at the positions of a step.
  Status add_products(int factor, const Others& others, const KStep& step) {
    std::vector<Values> xs, ys;
    for (const Index& row : loaded_) {
      RP_ASSIGN(Values x, w_.grad.row_at(factor, row, step));
      xs.push_back(std::move(x));
    }
    for (const Index& other : others.at) {
      RP_ASSIGN(Values y, w_.grad.other_at(factor, other, step));
      ys.push_back(std::move(y));
    }
    std::vector<Val> x(static_cast<size_t>(step.depth()));
    for (int r = 0; r < t_.rows; ++r) {
      for (int d = 0; d < step.depth(); ++d) x[static_cast<size_t>(d)] = of_row(xs, r, d);
      for (int k = 0; k < t_.others; ++k) {
        const Values& y = ys[static_cast<size_t>(k)];
        Value total = pairs(factor).load(r, k);
        for (size_t d = 0; d < x.size(); ++d) total = multiply_add(b_, x[d], y[d], total, t_.fma);
        pairs(factor).store(r, k, total);
      }
    }
    return {};
  }

  /// Replaces the two products of row r and each other by their pull and weight, which are 0 past
  /// the end.
  Status products_to_weights(int r, const Others& others) {
    for (int k = 0; k < t_.others; ++k) {
      const auto at = static_cast<size_t>(k);
      RP_ASSIGN(AttentionGrad::Weights w,
                w_.grad.weights(rows_[static_cast<size_t>(r)], others.at[at], pairs(0).load(r, k),
                                pairs(1).load(r, k)));
      if (!w_.grad.whole_blocks(block())) {
        w.pull = b_.select(exists(others, at), w.pull, b_.f32(0));
        w.weight = b_.select(exists(others, at), w.weight, b_.f32(0));
      }
      pairs(0).store(r, k, w.pull);
      if (results() > 1) pairs(1).store(r, k, w.weight);
    }
    return {};
  }

  /// A factor of each other, for the invocation's columns. Those past the end are replaced by 0, as
  /// a weight of 0 does not hide an infinite value.
  Result<std::vector<Values>> load_factors(int factor, const Others& others, int of_block) {
    const bool whole = w_.grad.whole_blocks(of_block);
    std::vector<Values> out;
    for (size_t k = 0; k < others.at.size(); ++k) {
      Values row;
      for (const Index& column : columns_) {
        RP_ASSIGN(const Values four, w_.grad.columns_at(factor, others.at[k], column));
        row.insert(row.end(), four.begin(), four.end());
      }
      if (!whole) {
        const Val inside = exists(others, k);
        for (Val& x : row) x = b_.select(inside, x, b_.f32(0));
      }
      out.push_back(std::move(row));
    }
    return out;
  }

  void add_factors(int result, int r, const std::vector<Val>& weights,
                   const std::vector<Values>& factors) {
    for (int c = 0; c < t_.per_invocation; ++c) {
      Value total = sums(result).load(r, c);
      for (size_t k = 0; k < weights.size(); ++k)
        total = multiply_add(b_, weights[k], factors[k][static_cast<size_t>(c)], total, t_.fma);
      sums(result).store(r, c, total);
    }
  }

  Status add_own_factors(const Others& others) {
    for (int i = 0; i < results(); ++i) {
      RP_ASSIGN(const std::vector<Values> factors, load_factors(i, others, block()));
      for (int r = 0; r < t_.rows; ++r) {
        std::vector<Val> weights;
        weights.reserve(static_cast<size_t>(t_.others));
        for (int k = 0; k < t_.others; ++k) weights.push_back(pairs(i).load(r, k));
        add_factors(i, r, weights, factors);
      }
    }
    return {};
  }

  /// Each step adds the factors of one other of every lane. Selects choose that other's weight,
  /// because indexing an array would be a gather.
  Status add_factors_of_lanes(Value first) {
    const Value steps = (w_.grad.other_count() - first + (t_.lanes - 1)) / t_.lanes;
    return w_.results[0]->loop(min(steps, t_.others), t_.others, [&](Value step) -> Status {
      Others others;
      for (int l = 0; l < t_.lanes; ++l) add(others, first + step * t_.lanes + l);
      for (int i = 0; i < results(); ++i) {
        RP_ASSIGN(const std::vector<Values> factors, load_factors(i, others, t_.lanes));
        for (int r = 0; r < t_.rows; ++r) {
          Value own = pairs(i).load(r, t_.others - 1);
          for (int k = t_.others - 1; k-- > 0;)
            own = b_.select(b_.eq(step, b_.i32(k)), pairs(i).load(r, k), own);
          std::vector<Val> weights;
          weights.reserve(static_cast<size_t>(t_.lanes));
          for (int l = 0; l < t_.lanes; ++l) weights.push_back(broadcast(b_, own, l));
          add_factors(i, r, weights, factors);
        }
      }
      return {};
    });
  }

  Status store(int result) {
    ResultTile& to = *w_.results[static_cast<size_t>(result)];
    const Value row = w_.origin.row;
    const Value end = min(to.row_count() - row, t_.rows);
    for (int v = 0; v < vecs(); ++v) {
      const Value vec = first_vec_ + v;
      const auto four = [&](int r) {
        const auto part = [&](int c) {
          return w_.grad.finished(result, sums(result).load(r, 4 * v + c));
        };
        return b_.compose({part(0), part(1), part(2), part(3)});
      };
      RP_TRY(to.guard_columns(vec, [&] { return store_chunk(to, row, vec, end, t_.rows, four); }));
    }
    return {};
  }

  const AttentionGradWork& w_;
  const AttentionGradTile& t_;
  kernel::Builder& b_;
  Value lane_;       // 0 if no subgroup shares rows
  Value first_vec_;  // the invocation's first vector of columns
  std::vector<LocalGrid> pairs_, sums_;
  std::vector<Index> rows_, loaded_, columns_;
};

constexpr int kGradLanes = kCpuLanes;
/// The most sums of an invocation on CPU-type devices and on GPUs, which have 255 registers. Other
/// invocations compute the further columns, and compute the same weights again.
constexpr int kMaxCpuSums = 256, kMaxGpuSums = 128;
/// The most values of a block on GPUs: unrolled code loads all of them before it uses one.
constexpr int kMaxGradGpuValues = 512;

int grad_columns_of_lane(int columns, int lanes) {
  return (columns + 4 * lanes - 1) / (4 * lanes) * 4;
}

AttentionGradTile tile_of(const AttentionGradSize& size, const TargetFacts& device, int lanes,
                          int rows, int others) {
  AttentionGradTile t;
  t.lanes = lanes;
  t.rows = rows;
  t.others = others;
  const int most = (device.cpu_type() ? kMaxCpuSums : kMaxGpuSums) / size.results() * lanes;
  const int parts = (size.head + most - 1) / most;
  t.per_invocation = grad_columns_of_lane((size.head + parts - 1) / parts, lanes);
  t.columns = t.per_invocation * lanes;
  t.workgroup = lanes > 1 ? kGradLanes : device.cpu_type() ? 16 : 64;
  t.fma = !device.cpu_type();
  if (lanes > 1) {
    t.unit = Unit::Subgroup;
    t.subgroup_size = kGradLanes;
  }
  return t;
}

/// The cost of all blocks of all units of work, in multiply-adds of a register: see cost_of() of
/// attention, whose prices hold here.
double cost_of(const AttentionGradSize& size, const TargetFacts& device,
               const AttentionGradTile& t) {
  const bool shared = t.lanes > 1;
  const CpuCosts& cpu = cpu_costs(device);
  const AttentionCosts& price = cpu.attention;
  const double gather = shared ? cpu.vector_load : price.gather;
  const double others = t.others, rows = t.rows, columns = t.per_invocation * size.results();
  const double steps = kFactors * size.head / 4.0;
  const double visited = others * t.lanes;
  const double blocks = std::ceil(size.others / visited);
  const double valued = shared ? std::ceil(size.others / t.lanes) * t.lanes : blocks * visited;
  const double row_loads = shared ? std::ceil(rows / t.lanes) : rows;
  const double multiply_adds = steps * (gather * (row_loads + others) * size.loads +
                                        rows * others * (4 + price.accumulator));
  const double weights = rows * others * (price.exp + 6 + size.score_flops);
  const double step = shared ? t.lanes : others;
  const double per_other =
      gather * columns / 4 * size.loads + rows * columns * (1 + price.accumulator / step);
  double shuffles = 0;
  if (shared) shuffles = cpu.broadcast * rows * (blocks * 4 * steps + valued * size.results());
  double units = size.batch * std::ceil(size.rows / rows) *
                 std::ceil(static_cast<double>(size.head) / t.columns);
  if (!shared) units /= kGradLanes;
  double cost = units * (blocks * (multiply_adds + weights) + valued * per_other + shuffles);
  if (units < cpu.min_units) cost *= cpu.min_units / units;
  const double written = rows * (8 * others + columns * step + 10 * others);
  return cost + price.unrolled_square * written * written + price.unrolled * written;
}

/// Estimated time of a tile whose invocations load everything that they need.
double gpu_time_of(const AttentionGradSize& size, const AttentionGradTile& t) {
  const GpuCosts& gpu = kGpuCosts;
  const double parts = std::ceil(static_cast<double>(size.head) / t.columns);
  const double workgroups = std::ceil(size.batch * size.rows * parts / t.workgroup);
  const double quads = size.head / 4.0, columns = t.per_invocation * size.results();
  const double loads = (kFactors * quads * (1 + t.others) + t.others * columns / 4) * size.loads;
  const double multiply_adds =
      t.others * (kFactors * size.head + columns + 12 + size.score_flops) + columns;
  const double waits = quads + 1;
  const double blocks = std::ceil(size.others / t.others);
  return gpu_time(workgroups, t.workgroup, blocks * waits + gpu.ends,
                  (gpu.load * loads + multiply_adds) / waits);
}

/// The tile with this number of rows whose number of others is the cheapest.
AttentionGradTile with_others(const AttentionGradSize& size, const TargetFacts& device, int lanes,
                              int rows) {
  AttentionGradTile best;
  for (int others = 1; others <= 8; ++others) {
    if (!device.cpu_type() && others > 1 && others * size.head > kMaxGradGpuValues) break;
    AttentionGradTile t = tile_of(size, device, lanes, rows, others);
    t.cost = device.cpu_type() ? cost_of(size, device, t) : gpu_time_of(size, t);
    if (others == 1 || t.cost < best.cost) best = t;
  }
  return best;
}

}  // namespace

std::string AttentionGradTile::describe() const {
  if (chunk > 0) {
    return "attention gradient, shared blocks " + std::to_string(rows) + "x" +
           std::to_string(others);
  }
  return std::string("attention gradient") + (lanes > 1 ? ", by subgroups, " : " ") +
         std::to_string(rows) + "x" + std::to_string(lanes * others);
}

std::vector<AttentionGradTile> attention_grad_tiles(const AttentionGradSize& size,
                                                    const TargetFacts& device) {
  std::vector<AttentionGradTile> out;
  const bool subgroups = has_cpu_subgroups(device);
  const auto add = [&](int lanes, int rows) {
    if (rows > 1 && rows >= 2 * size.rows) return;
    out.push_back(with_others(size, device, lanes, rows));
  };
  for (const int rows : {32, 16, 8, 4, 2, 1}) {
    const int sums = rows * grad_columns_of_lane(size.head, kGradLanes) * size.results();
    if (subgroups && sums <= kMaxCpuSums) add(kGradLanes, rows);
  }
  for (const int rows : {4, 2, 1}) {
    const int sums = rows * size.head * size.results();
    if (device.cpu_type() && (rows == 1 || sums <= kMaxCpuSums)) add(1, rows);
  }
  if (!device.cpu_type()) {
    add(1, 1);
    if (fits_attention_grad_blocks(size)) {
      out.push_back(attention_grad_blocks(size));
      out.back().cost = attention_grad_blocks_time(size, out.back());
    }
  }
  std::stable_sort(
      out.begin(), out.end(),
      [](const AttentionGradTile& a, const AttentionGradTile& b) { return a.cost < b.cost; });
  return out;
}

Status write_attention_grad(const AttentionGradWork& work) {
  return work.tile.chunk > 0 ? write_attention_grad_blocks(work) : GradWriter(work).write();
}

}  // namespace reprise::shaders
