// One form for all devices: `lanes` invocations share rows. With 8 (a subgroup of a CPU-type
// device) a query is loaded by one lane and broadcast, keys and columns belong to lanes, and the
// weights of a row pass from the lanes of its keys to all by constant shuffles. With 1 an
// invocation does it all from its own loads, on any device.
//
// Multiply-adds are written for one row after another over all positions of a step, so that
// accumulators stay in registers (see subgroup_tile.cpp).
#include "shaders/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "shaders/device_costs.h"

namespace reprise::shaders {

using kernel::ScalarOp;
using kernel::Val;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Writer {
 public:
  using Values = ResultTile::Values;

  Writer(Attention& p, const AttentionTile& tile) : p_(p), t_(tile), b_(p.builder()) {}

  Status write(Val row, Val column_tile) {
    if (t_.lanes > 1) lane_ = lane_of(b_);
    prepare(row, column_tile);
    Status status;
    p_.blocks(t_.lanes * t_.keys, [&](Val first) { status = block(first); });
    RP_TRY(status);
    return store(row);
  }

 private:
  bool shared() const { return t_.lanes > 1; }
  int vecs() const { return t_.own / 4; }
  int accumulator(const std::string& name, float start) {
    const int local = b_.local(name, kernel::kF32);
    b_.local_store(local, b_.f32(start));
    return local;
  }
  static size_t position(int row, int width, int at) {
    return static_cast<size_t>(row) * static_cast<size_t>(width) + static_cast<size_t>(at);
  }
  int score(int r, int k) const { return scores_[position(r, t_.keys, k)]; }
  int out(int r, int c) const { return out_[position(r, t_.own, c)]; }
  Val multiply_add(Val total, Val x, Val y) {
    return t_.fma ? b_.fma(x, y, total) : b_.add(total, b_.mul(x, y));
  }

  void prepare(Val row, Val column_tile) {
    for (int r = 0; r < t_.rows; ++r) {
      const std::string n = std::to_string(r);
      largest_.push_back(accumulator("largest" + n, -kInfinity));
      total_.push_back(accumulator("total" + n, 0));
      rows_.push_back(p_.row(b_.add(row, b_.i32(r))));
      for (int c = 0; c < t_.own; ++c)
        out_.push_back(accumulator("out" + n + "_" + std::to_string(c), 0));
      for (int k = 0; k < t_.keys; ++k)
        scores_.push_back(b_.local("score" + n + "_" + std::to_string(k), kernel::kF32));
    }
    queries_ = rows_;
    first_vec_ = b_.mul(column_tile, b_.i32(t_.columns / 4));
    if (shared()) {
      queries_.clear();
      const Val own = b_.min(lane_, b_.i32(std::min(t_.rows, t_.lanes) - 1));
      for (int r = 0; r < t_.rows; r += t_.lanes)
        queries_.push_back(p_.row(b_.add(b_.add(row, b_.i32(r)), own)));
      first_vec_ = b_.add(first_vec_, b_.mul(lane_, b_.i32(vecs())));
    }
    for (int v = 0; v < vecs(); ++v) columns_.push_back(p_.column(b_.add(first_vec_, b_.i32(v))));
  }

  /// The value that row r's lane has.
  Val of_row(const std::vector<Values>& values, int r, int d) {
    const auto at = static_cast<size_t>(d);
    if (!shared()) return values[static_cast<size_t>(r)][at];
    return broadcast(b_, values[static_cast<size_t>(r / t_.lanes)][at], r % t_.lanes);
  }

  Status block(Val first) {
    // Neighbouring lanes have neighbouring keys.
    std::vector<Val> at;
    std::vector<int> keys;
    for (int k = 0; k < t_.keys; ++k) {
      Val key = b_.add(first, b_.i32(k * t_.lanes));
      if (shared()) key = b_.add(key, lane_);
      at.push_back(key);
      keys.push_back(p_.key(key));
    }
    for (int s : scores_) b_.local_store(s, b_.f32(0));
    RP_TRY(p_.k_loop([&](int depth) { return products(keys, depth); }));
    for (int r = 0; r < t_.rows; ++r) RP_TRY(weights(r, keys, at));
    return shared() ? accumulate_shared(first) : accumulate_own(keys, at);
  }

  Status products(const std::vector<int>& keys, int depth) {
    std::vector<Values> xs, ys;
    for (int q : queries_) {
      RP_ASSIGN(Values x, p_.query_at(q));
      xs.push_back(std::move(x));
    }
    for (int k : keys) {
      RP_ASSIGN(Values y, p_.key_at(k));
      ys.push_back(std::move(y));
    }
    std::vector<Val> x(static_cast<size_t>(depth));
    for (int r = 0; r < t_.rows; ++r) {
      for (int d = 0; d < depth; ++d) x[static_cast<size_t>(d)] = of_row(xs, r, d);
      for (int k = 0; k < t_.keys; ++k) {
        const Values& y = ys[static_cast<size_t>(k)];
        Val total = b_.local_load(score(r, k));
        for (size_t d = 0; d < x.size(); ++d) total = multiply_add(total, x[d], y[d]);
        b_.local_store(score(r, k), total);
      }
    }
    return {};
  }

  Val larger(Val a, Val b) { return b_.scalar_op(ScalarOp::MaxNum, {a, b}); }
  Val exp(Val x) { return b_.scalar_op(ScalarOp::Exp, {x}); }

  /// Scores of row r become weights, relative to its largest score so far.
  Status weights(int r, const std::vector<int>& keys, const std::vector<Val>& at) {
    const auto row = static_cast<size_t>(r);
    std::vector<Val> scores;
    Val largest;
    for (size_t k = 0; k < keys.size(); ++k) {
      const Val dot = b_.local_load(score(r, static_cast<int>(k)));
      RP_ASSIGN(Val x, p_.score(rows_[row], keys[k], dot));
      if (!p_.whole_blocks(t_.lanes * t_.keys))
        x = b_.select(b_.lt(at[k], p_.key_count()), x, b_.f32(-kInfinity));
      scores.push_back(x);
      largest = largest ? larger(largest, x) : x;
    }
    const Val before = b_.local_load(largest_[row]);
    Val now = larger(before, largest);
    for (int l = 0; shared() && l < t_.lanes; ++l) now = larger(now, broadcast(b_, largest, l));
    // A row that is masked so far has no finite score to be relative to.
    const Val base = b_.select(b_.eq(now, b_.f32(-kInfinity)), b_.f32(0), now);
    const Val scale = exp(b_.sub(before, base));
    Val total = b_.mul(b_.local_load(total_[row]), scale);
    for (size_t k = 0; k < keys.size(); ++k) {
      const Val weight = exp(b_.sub(scores[k], base));
      b_.local_store(score(r, static_cast<int>(k)), weight);
      total = b_.add(total, weight);
    }
    b_.local_store(total_[row], total);
    b_.local_store(largest_[row], now);
    for (int c = 0; c < t_.own; ++c)
      b_.local_store(out(r, c), b_.mul(b_.local_load(out(r, c)), scale));
    return {};
  }

  /// values[position][column] of the invocation's columns. Keys past the end have other keys'
  /// values, which may be infinite: a weight of 0 would not hide those.
  Result<std::vector<Values>> load_values(const std::vector<int>& keys,
                                          const std::vector<Val>& at) {
    const bool whole = p_.whole_blocks(static_cast<int>(keys.size()));
    std::vector<Values> out;
    for (size_t k = 0; k < keys.size(); ++k) {
      Values row;
      for (int c : columns_) {
        RP_ASSIGN(const Values four, p_.value(keys[k], c));
        row.insert(row.end(), four.begin(), four.end());
      }
      if (!whole) {
        const Val exists = b_.lt(at[k], p_.key_count());
        for (Val& x : row) x = b_.select(exists, x, b_.f32(0));
      }
      out.push_back(std::move(row));
    }
    return out;
  }

  void add_values(int r, const std::vector<Val>& weights, const std::vector<Values>& values) {
    for (int c = 0; c < t_.own; ++c) {
      Val total = b_.local_load(out(r, c));
      for (size_t k = 0; k < weights.size(); ++k)
        total = multiply_add(total, weights[k], values[k][static_cast<size_t>(c)]);
      b_.local_store(out(r, c), total);
    }
  }

  Status accumulate_own(const std::vector<int>& keys, const std::vector<Val>& at) {
    RP_ASSIGN(const std::vector<Values> values, load_values(keys, at));
    for (int r = 0; r < t_.rows; ++r) {
      std::vector<Val> weights;
      weights.reserve(static_cast<size_t>(t_.keys));
      for (int k = 0; k < t_.keys; ++k) weights.push_back(b_.local_load(score(r, k)));
      add_values(r, weights, values);
    }
    return {};
  }

  /// A step is a key of every lane. Which one of its keys that is, is chosen by selects: indexing
  /// an array would be a gather.
  Status accumulate_shared(Val first) {
    const Val left = b_.sub(p_.key_count(), first);
    const Val steps = b_.div(b_.add(left, b_.i32(t_.lanes - 1)), b_.i32(t_.lanes));
    Status status;
    p_.loop(b_.min(steps, b_.i32(t_.keys)), t_.keys, [&](Val step) {
      status = accumulate_step(b_.add(first, b_.mul(step, b_.i32(t_.lanes))), step);
    });
    return status;
  }

  Status accumulate_step(Val first, Val step) {
    std::vector<Val> at;
    std::vector<int> keys;
    for (int l = 0; l < t_.lanes; ++l) {
      at.push_back(b_.add(first, b_.i32(l)));
      keys.push_back(p_.key(at.back()));
    }
    RP_ASSIGN(const std::vector<Values> values, load_values(keys, at));
    for (int r = 0; r < t_.rows; ++r) {
      Val own = b_.local_load(score(r, t_.keys - 1));
      for (int k = t_.keys - 1; k-- > 0;)
        own = b_.select(b_.eq(step, b_.i32(k)), b_.local_load(score(r, k)), own);
      std::vector<Val> weights;
      weights.reserve(static_cast<size_t>(t_.lanes));
      for (int l = 0; l < t_.lanes; ++l) weights.push_back(broadcast(b_, own, l));
      add_values(r, weights, values);
    }
    return {};
  }

  Status store(Val row) {
    std::vector<Val> totals;
    for (int r = 0; r < t_.rows; ++r) {
      const Val own = b_.local_load(total_[static_cast<size_t>(r)]);
      Val total = shared() ? broadcast(b_, own, 0) : own;
      for (int l = 1; l < t_.lanes; ++l) total = b_.add(total, broadcast(b_, own, l));
      totals.push_back(total);
    }
    const Val end = b_.min(b_.sub(p_.row_count(), row), b_.i32(t_.rows));
    for (int v = 0; v < vecs(); ++v) {
      const Val vec = b_.add(first_vec_, b_.i32(v));
      const auto four = [&](int r) {
        const auto part = [&](int c) {
          return p_.normalized(b_.local_load(out(r, 4 * v + c)), totals[static_cast<size_t>(r)]);
        };
        return b_.compose(std::array{part(0), part(1), part(2), part(3)});
      };
      RP_TRY(p_.guard_columns(vec, [&] { return store_chunk(p_, row, vec, end, t_.rows, four); }));
    }
    return {};
  }

  Attention& p_;
  const AttentionTile& t_;
  kernel::Builder& b_;
  Val lane_, first_vec_;
  std::vector<int> rows_, queries_, columns_;        // handles
  std::vector<int> largest_, total_, scores_, out_;  // locals
};

constexpr int kLanes = kCpuLanes;

int columns_of_lane(int columns, int lanes) {
  return (columns + 4 * lanes - 1) / (4 * lanes) * 4;
}

/// Columns of an invocation on GPUs, which have 255 registers: further ones belong to other
/// invocations, which compute the same scores.
constexpr int kMostGpuColumns = 128;
/// Values of a block of keys there: what is written out is loaded before it is used.
constexpr int kMostGpuValues = 512;

AttentionTile tile_of(const AttentionSize& size, const TargetFacts& device, int lanes, int rows,
                      int keys) {
  AttentionTile t;
  t.lanes = lanes;
  t.rows = rows;
  t.keys = keys;
  const int parts = device.cpu_type() ? 1 : (size.columns + kMostGpuColumns - 1) / kMostGpuColumns;
  t.own = columns_of_lane((size.columns + parts - 1) / parts, lanes);
  t.columns = t.own * lanes;
  if (lanes > 1) {
    t.unit = Unit::Subgroup;
    t.subgroup_size = kLanes;
  }
  return t;
}

/// Multiply-adds of a register, for all blocks of all units.
double cost_of(const AttentionSize& size, const TargetFacts& device, const AttentionTile& t) {
  constexpr double kExp = 6, kBroadcast = 0.5, kAccumulator = 1.5;
  const bool shared = t.lanes > 1;
  const CpuCosts& price = cpu_costs(device);
  const double gather = shared ? price.vector_load : price.attention_gather;
  const double keys = t.keys, rows = t.rows, own = t.own, steps = size.depth / 4;
  const double visited = keys * t.lanes;  // keys of a block
  const double blocks = std::ceil(size.keys / visited);
  // The last block visits as many values as there are keys, to whole steps.
  const double valued = shared ? std::ceil(size.keys / t.lanes) * t.lanes : blocks * visited;
  const double query_loads = shared ? std::ceil(rows / t.lanes) : rows;
  const double products =
      steps * (gather * (query_loads + keys * size.key_loads) + rows * keys * (4 + kAccumulator));
  const double softmax =
      rows * (keys * (kExp + 4 + size.score_flops) + kExp + own + (shared ? 2 * t.lanes : 0));
  const double step = shared ? t.lanes : keys;  // values of one step
  const double per_key =
      gather * own / 4 * size.value_loads + rows * own * (1 + kAccumulator / step);
  double shuffles = 0;
  if (shared) shuffles = kBroadcast * rows * (blocks * 4 * steps + valued);
  double units = size.batch * std::ceil(size.rows / rows) *
                 std::ceil(static_cast<double>(size.columns) / t.columns);
  if (!shared) units /= kLanes;
  double cost = units * (blocks * (products + softmax) + valued * per_key + shuffles);
  if (units < kEnoughUnits) cost *= kEnoughUnits / units;
  // The time to compile what is written out, spread over more launches than a GEMM's
  // (subgroup_tile.cpp), as layers of a model share the kernel.
  const double written = rows * (4 * keys + own * step + 10 * keys);
  return cost + price.attention_written_square * written * written +
         price.attention_written * written;
}

/// The best number of keys for tiles of these rows.
AttentionTile with_keys(const AttentionSize& size, const TargetFacts& device, int lanes, int rows,
                        bool fma) {
  AttentionTile best;
  for (int keys = 1; keys <= 8; ++keys) {
    AttentionTile t = tile_of(size, device, lanes, rows, keys);
    if (!device.cpu_type() && keys > 1 && keys * size.columns > kMostGpuValues) break;
    t.workgroup = lanes > 1 ? kLanes : device.cpu_type() ? 16 : 64;
    t.fma = fma;
    t.cost = cost_of(size, device, t);
    if (keys == 1 || t.cost < best.cost) best = t;
  }
  return best;
}

}  // namespace

std::string AttentionTile::describe() const {
  return std::string("attention") + (lanes > 1 ? ", by subgroups, " : " ") + std::to_string(rows) +
         "x" + std::to_string(lanes * keys);
}

std::vector<AttentionTile> attention_tiles(const AttentionSize& size, const TargetFacts& device) {
  std::vector<AttentionTile> out;
  const bool subgroups = has_cpu_subgroups(device);
  const auto add = [&](int lanes, int rows) {
    if (rows > 1 && rows >= 2 * size.rows) return;
    out.push_back(with_keys(size, device, lanes, rows, !device.cpu_type()));
  };
  for (int rows : {32, 16, 8, 4, 2, 1}) {
    if (subgroups && rows * columns_of_lane(size.columns, kLanes) <= 256) add(kLanes, rows);
  }
  for (int rows : {4, 2, 1}) {
    if (rows == 1 || (device.cpu_type() && rows * size.columns <= 256)) add(1, rows);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const AttentionTile& a, const AttentionTile& b) { return a.cost < b.cost; });
  return out;
}

namespace {

/// With workarounds::kSlowLoads one kernel is up to 2.5 times as fast as separate ones, but not
/// where a lane holds many columns and there are few rows to share what is loaded, nor for 16 rows
/// of several heads. Measured for 8 to 512 rows and keys of sizes 32 to 128 in 1 to 12 heads.
bool separate_wins_with_slow_loads(const AttentionSize& size) {
  const double elements = size.depth + size.columns;
  const double all_rows = size.batch * size.rows;
  const bool wide = elements > 160 && all_rows >= 24 && all_rows < 1024;
  const bool low = elements >= 128 && size.batch >= 8 && size.rows < 24;
  return size.rows >= 12 && size.keys >= 12 && (wide || low);
}

}  // namespace

double separate_cost(const AttentionSize& size, const TargetFacts& device) {
  if (!has_cpu_subgroups(device)) return kInfinity;
  if (device.slow_loads()) {
    constexpr double kUsual = 0.8;  // of the time of one kernel
    return separate_wins_with_slow_loads(size) ? kUsual * attention_tiles(size, device).front().cost
                                               : kInfinity;
  }
  // Fitted to what Mesa 25 takes for 16 to 128 keys; larger GEMMs are faster than this. Keys and
  // values are loaded for up to 8 rows at once.
  constexpr double kSoftmax = 6, kLaunches = 32000;
  const double multiply_add = 0.22 + 0.22 / std::clamp(size.rows, 1.0, 8.0);
  const double scores = size.batch * size.rows * size.keys;
  const double per_score =
      multiply_add * (size.depth + size.columns) + kSoftmax + size.score_flops / kLanes;
  const double units = size.batch * std::ceil(size.rows / 8) * std::ceil(size.columns / 64.0);
  return kLaunches + scores * per_score * std::max(1.0, kEnoughUnits / units);
}

Status write_attention(Attention& attention, const AttentionTile& tile, Val row, Val column_tile) {
  return Writer(attention, tile).write(row, column_tile);
}

}  // namespace reprise::shaders
