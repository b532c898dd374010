// Kernel template: attention for all devices. `lanes` invocations share `rows` rows of queries:
//   lanes = 1: an invocation loads everything that it needs. Runs on any device.
//   lanes = 8: a subgroup of a CPU-type device. A query is loaded by one lane and broadcast; each
//              lane has its own keys and columns of values, and receives the weights of the other
//              lanes' keys by shuffles with a constant lane.
// With team > 1, which is for GPUs and few rows, the invocations of a workgroup share one row. Each
// visits keys of its own and has all columns of the tile; at the end their results are combined in
// shared memory. Tiles with shared blocks of operands have a template of their own
// (attention_blocks.h).
//
//   for each block of lanes * team * keys keys:
//     scores[row][key] = q[row] . k[key], over the head size in steps
//     weights = exp(score - largest so far); earlier sums are scaled to the new largest score
//     out[row][column] += weights[row][key] * v[key][column]
//   store out / total of the weights
//
// Scores, sums and results are private variables (at most 256 results per invocation).
// Multiply-adds go row by row over all positions of a step, so that accumulators stay in registers
// (see subgroup_tile.h).
#include "shaders/attention.h"

#include <algorithm>
#include <cmath>

#include "codegen/target/device_costs.h"
#include "shaders/attention_blocks.h"
#include "shaders/attention_matrices.h"
#include "shaders/contraction.h"
#include "shaders/online_softmax.h"
#include "shaders/workgroup_sum.h"

namespace reprise::shaders {

namespace {

/// Columns that a team combines at once.
constexpr int kTeamColumns = 8;

/// Writes one tile. Members are the variables of the kernel: for each row its largest score, the
/// total of its weights, its weighted values, and the scores (then weights) of a block.
class AttentionWriter {
 public:
  explicit AttentionWriter(const AttentionWork& w)
      : w_(w),
        t_(w.tile),
        b_(w.attention.builder()),
        block_(t_.lanes * t_.team * t_.keys),
        lane_(t_.lanes > 1 ? lane_of(b_) : b_.i32(0)),
        first_key_(t_.team > 1 ? local_index(b_) : lane_),
        first_vec_(w.origin.column_tile * (t_.columns / 4) + lane_ * vecs()),
        largest_(b_, "largest", kernel::kF32, t_.rows, 1, -kInfinity),
        total_(b_, "total", kernel::kF32, t_.rows, 1, 0),
        out_(b_, "out", kernel::kF32, t_.rows, t_.per_invocation, 0),
        scores_(b_, "score", kernel::kF32, t_.rows, t_.keys, std::nullopt) {
    for (int r = 0; r < t_.rows; ++r) rows_.push_back(w_.attention.row(w_.origin.row + r));
    if (shared()) {
      const Value own = min(lane_, std::min(t_.rows, t_.lanes) - 1);
      for (int r = 0; r < t_.rows; r += t_.lanes)
        queries_.push_back(w_.attention.row(w_.origin.row + r + own));
    } else {
      queries_ = rows_;
    }
    for (int v = 0; v < vecs(); ++v) columns_.push_back(w_.attention.column(first_vec_ + v));
  }

  Status write() {
    RP_TRY(w_.attention.blocks(block_, [&](Value first) -> Status {
      // Neighbouring invocations have neighbouring keys.
      Keys keys;
      for (int k = 0; k < t_.keys; ++k)
        add_key(keys, first + k * (t_.lanes * t_.team) + first_key_);
      for (int r = 0; r < t_.rows; ++r) {
        for (int k = 0; k < t_.keys; ++k) scores_.store(r, k, b_.f32(0));
      }
      RP_TRY(w_.attention.k_loop([&](const KStep& step) { return add_products(keys, step); }));
      for (int r = 0; r < t_.rows; ++r) RP_TRY(scores_to_weights(r, keys));
      return shared() ? add_values_of_lanes(first) : add_own_values(keys);
    }));
    return t_.team > 1 ? store_of_team() : store();
  }

 private:
  /// Keys of an invocation. A number may lie past the end; its index is that of the last key then.
  struct Keys {
    std::vector<Value> numbers;
    std::vector<Index> at;
  };

  bool shared() const { return t_.lanes > 1; }
  int vecs() const { return t_.per_invocation / 4; }
  void add_key(Keys& keys, Value number) {
    keys.numbers.push_back(number);
    keys.at.push_back(w_.attention.key(number, block_));
  }
  Val exists(const Keys& keys, size_t k) { return keys.numbers[k] < w_.attention.key_count(); }

  /// Element d of the query of row r, from the lane that loaded it.
  Val of_row(const std::vector<Values>& values, int r, int d) {
    const auto at = static_cast<size_t>(d);
    if (!shared()) return values[static_cast<size_t>(r)][at];
    return broadcast(b_, values[static_cast<size_t>(r / t_.lanes)][at], r % t_.lanes);
  }

  /// Adds the products of queries and keys at the positions of a step to the scores.
  Status add_products(const Keys& keys, const KStep& step) {
    std::vector<Values> xs, ys;
    for (const Index& query : queries_) {
      RP_ASSIGN(Values x, w_.attention.query_at(query, step));
      xs.push_back(std::move(x));
    }
    for (const Index& key : keys.at) {
      RP_ASSIGN(Values y, w_.attention.key_at(key, step));
      ys.push_back(std::move(y));
    }
    std::vector<Val> x(static_cast<size_t>(step.depth()));
    for (int r = 0; r < t_.rows; ++r) {
      for (int d = 0; d < step.depth(); ++d) x[static_cast<size_t>(d)] = of_row(xs, r, d);
      for (int k = 0; k < t_.keys; ++k) {
        const Values& y = ys[static_cast<size_t>(k)];
        Value total = scores_.load(r, k);
        for (size_t d = 0; d < x.size(); ++d) total = multiply_add(b_, x[d], y[d], total, t_.fma);
        scores_.store(r, k, total);
      }
    }
    return {};
  }

  /// Replaces the scores of row r by weights, relative to its largest score so far.
  Status scores_to_weights(int r, const Keys& keys) {
    std::vector<Value> scores;
    Value largest;
    for (int k = 0; k < t_.keys; ++k) {
      const auto at = static_cast<size_t>(k);
      RP_ASSIGN(const Val score,
                w_.attention.score(rows_[static_cast<size_t>(r)], keys.at[at], scores_.load(r, k)));
      Value x{b_, score};
      if (!w_.attention.whole_blocks(block_))
        x = b_.select(exists(keys, at), x, b_.f32(-kInfinity));
      scores.push_back(x);
      largest = largest ? larger(b_, largest, x) : x;
    }
    const Value before = largest_.load(r);
    Value now = larger(b_, before, largest);
    for (int l = 0; shared() && l < t_.lanes; ++l) now = larger(b_, now, broadcast(b_, largest, l));
    const Value base = softmax_base(b_, now);
    const Value scale = exponential(b_, before - base);
    Value total = total_.load(r) * scale;
    for (int k = 0; k < t_.keys; ++k) {
      const Value weight = exponential(b_, scores[static_cast<size_t>(k)] - base);
      scores_.store(r, k, weight);
      total = total + weight;
    }
    total_.store(r, 0, total);
    largest_.store(r, 0, now);
    for (int c = 0; c < t_.per_invocation; ++c) out_.store(r, c, out_.load(r, c) * scale);
    return {};
  }

  /// values[key][column] for the invocation's columns. Keys past the end read the last key's value;
  /// it is replaced by 0, as a weight of 0 does not hide an infinite value.
  Result<std::vector<Values>> load_values(const Keys& keys, int block) {
    const bool whole = w_.attention.whole_blocks(block);
    std::vector<Values> out;
    for (size_t k = 0; k < keys.at.size(); ++k) {
      Values row;
      for (const Index& column : columns_) {
        RP_ASSIGN(const Values four, w_.attention.value(keys.at[k], column));
        row.insert(row.end(), four.begin(), four.end());
      }
      if (!whole) {
        const Val inside = exists(keys, k);
        for (Val& x : row) x = b_.select(inside, x, b_.f32(0));
      }
      out.push_back(std::move(row));
    }
    return out;
  }

  void add_values(int r, const std::vector<Val>& weights, const std::vector<Values>& values) {
    for (int c = 0; c < t_.per_invocation; ++c) {
      Value total = out_.load(r, c);
      for (size_t k = 0; k < weights.size(); ++k)
        total = multiply_add(b_, weights[k], values[k][static_cast<size_t>(c)], total, t_.fma);
      out_.store(r, c, total);
    }
  }

  Status add_own_values(const Keys& keys) {
    RP_ASSIGN(const std::vector<Values> values, load_values(keys, block_));
    for (int r = 0; r < t_.rows; ++r) {
      std::vector<Val> weights;
      weights.reserve(static_cast<size_t>(t_.keys));
      for (int k = 0; k < t_.keys; ++k) weights.push_back(scores_.load(r, k));
      add_values(r, weights, values);
    }
    return {};
  }

  /// Each step adds the values of one key of every lane. Selects choose that key's weight, because
  /// indexing an array would be a gather.
  Status add_values_of_lanes(Value first) {
    const Value steps = (w_.attention.key_count() - first + (t_.lanes - 1)) / t_.lanes;
    return w_.result.loop(min(steps, t_.keys), t_.keys, [&](Value step) -> Status {
      Keys keys;
      for (int l = 0; l < t_.lanes; ++l) add_key(keys, first + step * t_.lanes + l);
      RP_ASSIGN(const std::vector<Values> values, load_values(keys, t_.lanes));
      for (int r = 0; r < t_.rows; ++r) {
        Value own = scores_.load(r, t_.keys - 1);
        for (int k = t_.keys - 1; k-- > 0;)
          own = b_.select(b_.eq(step, b_.i32(k)), scores_.load(r, k), own);
        std::vector<Val> weights;
        weights.reserve(static_cast<size_t>(t_.lanes));
        for (int l = 0; l < t_.lanes; ++l) weights.push_back(broadcast(b_, own, l));
        add_values(r, weights, values);
      }
      return {};
    });
  }

  /// Combines the results of the invocations that share the row, and stores them.
  Status store_of_team() {
    WorkgroupSum team(b_, t_.team, kTeamColumns);
    const auto sum = [](const Value& a, const Value& b) { return a + b; };
    team.combine(
        1, [&](int) { return largest_.load(0); },
        [&](const Value& a, const Value& b) { return larger(b_, a, b); });
    const Value largest = team.result(b_.i32(0));
    const Value base = softmax_base(b_, largest);
    const Value scale = exponential(b_, largest_.load(0) - base);
    team.combine(
        1, [&](int) { return total_.load(0) * scale; }, sum);
    const Value total = team.result(b_.i32(0));
    const int row = b_.shared("row", kernel::Ty::F32, static_cast<uint32_t>(t_.per_invocation));
    const Value local = local_index(b_);
    for (int c = 0; c < t_.per_invocation; c += kTeamColumns) {
      const int count = std::min(kTeamColumns, t_.per_invocation - c);
      team.combine(
          count, [&](int i) { return out_.load(0, c + i) * scale; }, sum);
      b_.if_then(local < b_.i32(count),
                 [&] { b_.shared_store(row, local + c, team.result(local)); });
    }
    b_.barrier();
    if (w_.attention.has_log_sums()) {
      const Val first = b_.logical_and(b_.eq(local, b_.i32(0)), b_.eq(first_vec_, b_.i32(0)));
      RP_TRY(w_.attention.store_log_sum(w_.origin.row, first, base, total));
    }
    (void)w_.attention.key_count();  // normalized() reads it, and what a branch computes ends there
    Status status;
    b_.if_then(local < b_.i32(vecs()), [&] {
      const Value vec = first_vec_ + local;
      const Value sums{b_, b_.shared_load(row, local * 4, 4)};
      const auto part = [&](int c) { return w_.attention.normalized(b_.extract(sums, c), total); };
      status = w_.result.guard_columns(vec, [&] {
        return w_.result.store(w_.origin.row, vec,
                               b_.compose({part(0), part(1), part(2), part(3)}));
      });
    });
    return status;
  }

  Status store() {
    std::vector<Value> totals;
    for (int r = 0; r < t_.rows; ++r) {
      const Value own = total_.load(r);
      Value total = shared() ? broadcast(b_, own, 0) : own;
      for (int l = 1; l < t_.lanes; ++l) total = total + broadcast(b_, own, l);
      totals.push_back(total);
    }
    const Value row = w_.origin.row;
    for (int r = 0; w_.attention.has_log_sums() && r < t_.rows; ++r) {
      RP_TRY(w_.attention.store_log_sum(row + r, b_.eq(first_vec_, b_.i32(0)),
                                        softmax_base(b_, largest_.load(r)),
                                        totals[static_cast<size_t>(r)]));
    }
    const Value end = min(w_.result.row_count() - row, t_.rows);
    for (int v = 0; v < vecs(); ++v) {
      const Value vec = first_vec_ + v;
      const auto four = [&](int r) {
        const auto part = [&](int c) {
          return w_.attention.normalized(out_.load(r, 4 * v + c), totals[static_cast<size_t>(r)]);
        };
        return b_.compose({part(0), part(1), part(2), part(3)});
      };
      RP_TRY(w_.result.guard_columns(
          vec, [&] { return store_chunk(w_.result, row, vec, end, t_.rows, four); }));
    }
    return {};
  }

  const AttentionWork& w_;
  const AttentionTile& t_;
  kernel::Builder& b_;
  const int block_;  // keys that a block has
  Value lane_;       // 0 if no subgroup shares rows
  Value first_key_;  // the invocation's first key in a block
  Value first_vec_;  // the invocation's first vector of columns
  LocalGrid largest_, total_, out_, scores_;
  std::vector<Index> rows_, queries_, columns_;
};

constexpr int kLanes = kCpuLanes;

int columns_of_lane(int columns, int lanes) {
  return (columns + 4 * lanes - 1) / (4 * lanes) * 4;
}

/// The most columns of an invocation on GPUs, which have 255 registers. Other invocations compute
/// the further columns, and compute the same scores again.
constexpr int kMaxGpuColumns = 128;
/// The most values of a block of keys on GPUs: unrolled code loads all of them before it uses one.
constexpr int kMaxGpuValues = 512;

AttentionTile tile_of(const AttentionSize& size, const TargetFacts& device, int lanes, int rows,
                      int keys) {
  AttentionTile t;
  t.lanes = lanes;
  t.rows = rows;
  t.keys = keys;
  const int parts = device.cpu_type() ? 1 : (size.columns + kMaxGpuColumns - 1) / kMaxGpuColumns;
  t.per_invocation = columns_of_lane((size.columns + parts - 1) / parts, lanes);
  t.columns = t.per_invocation * lanes;
  if (lanes > 1) {
    t.unit = Unit::Subgroup;
    t.subgroup_size = kLanes;
  }
  return t;
}

/// The cost of all blocks of all units of work, in multiply-adds of a register.
double cost_of(const AttentionSize& size, const TargetFacts& device, const AttentionTile& t) {
  const bool shared = t.lanes > 1;
  const CpuCosts& cpu = cpu_costs(device);
  const AttentionCosts& price = cpu.attention;
  const double gather = shared ? cpu.vector_load : price.gather;
  const double keys = t.keys, rows = t.rows, columns = t.per_invocation, steps = size.depth / 4;
  const double visited = keys * t.lanes;  // keys of a block
  const double blocks = std::ceil(size.keys / visited);
  // With shared rows, the last block visits only as many values as there are keys, rounded up to
  // whole steps.
  const double valued = shared ? std::ceil(size.keys / t.lanes) * t.lanes : blocks * visited;
  const double query_loads = shared ? std::ceil(rows / t.lanes) : rows;
  const double multiply_adds = steps * (gather * (query_loads + keys * size.key_loads) +
                                        rows * keys * (4 + price.accumulator));
  const double softmax = rows * (keys * (price.exp + 4 + size.score_flops) + price.exp + columns +
                                 (shared ? 2 * t.lanes : 0));
  const double step = shared ? t.lanes : keys;  // values of one step
  const double per_key =
      gather * columns / 4 * size.value_loads + rows * columns * (1 + price.accumulator / step);
  double shuffles = 0;
  if (shared) shuffles = cpu.broadcast * rows * (blocks * 4 * steps + valued);
  double units = size.batch * std::ceil(size.rows / rows) *
                 std::ceil(static_cast<double>(size.columns) / t.columns);
  if (!shared) units /= kLanes;
  double cost = units * (blocks * (multiply_adds + softmax) + valued * per_key + shuffles);
  if (units < cpu.min_units) cost *= cpu.min_units / units;
  // The time to compile the unrolled code. It counts less than for a GEMM (subgroup_tile.cpp), as
  // the layers of a model share the kernel.
  const double written = rows * (4 * keys + columns * step + 10 * keys);
  return cost + price.unrolled_square * written * written + price.unrolled * written;
}

/// The tile with this number of rows whose number of keys is the cheapest.
AttentionTile with_keys(const AttentionSize& size, const TargetFacts& device, int lanes, int rows) {
  AttentionTile best;
  for (int keys = 1; keys <= 8; ++keys) {
    AttentionTile t = tile_of(size, device, lanes, rows, keys);
    t.workgroup = lanes > 1 ? kLanes : 16;
    t.cost = cost_of(size, device, t);
    if (keys == 1 || t.cost < best.cost) best = t;
  }
  return best;
}

/// Estimated time of a tile whose invocations load everything that they need.
double gpu_time_of(const AttentionSize& size, const AttentionTile& t) {
  const GpuCosts& gpu = kGpuCosts;
  const double parts = std::ceil(static_cast<double>(size.columns) / t.columns);
  const double units = size.batch * size.rows * parts;
  const double workgroups = t.team > 1 ? units : std::ceil(units / t.workgroup);
  const double quads = size.depth / 4;
  const double loads =
      quads * (1 + t.keys * size.key_loads) + t.keys * (t.per_invocation / 4.0) * size.value_loads;
  const double multiply_adds =
      t.keys * (size.depth + t.per_invocation + 10 + size.score_flops) + t.per_invocation;
  // A step of the head waits for its loads; the values are loaded at once.
  const double waits = quads + 1;
  const double blocks = std::ceil(size.keys / (t.keys * t.team));
  double time = gpu_time(workgroups, t.workgroup, blocks * waits + gpu.ends,
                         (gpu.load * loads + multiply_adds) / waits);
  if (t.team > 1) {
    const double rounds = std::ceil(std::log2(t.team) / 3) + 1;
    time += gpu_time(workgroups, t.workgroup, 1, 0) / gpu.latency * gpu.barrier * rounds *
            (t.per_invocation / static_cast<double>(kTeamColumns) + 2);
  }
  return time;
}

/// The invocations that share a row on GPUs: no more than there are keys.
int team_of(const AttentionSize& size, const TargetFacts& device) {
  constexpr int kLeastTeam = 32;
  const int most_team = size.columns > 64 ? 256 : 512;  // as registers are shared
  constexpr uint32_t kBaseline = 128;                   // invocations of a workgroup on any device
  constexpr int kBaselineBytes = 16384;
  const int most = static_cast<int>(std::max(device.workgroup_invocations(), kBaseline));
  const int room = std::max(static_cast<int>(device.shared_bytes()), kBaselineBytes);
  const auto fits = [&](int team) {
    return team <= std::min(most, most_team) && team <= size.keys &&
           4 * (WorkgroupSum::floats(team, kTeamColumns) + size.columns) <= room;
  };
  int team = kLeastTeam;
  while (fits(2 * team)) team *= 2;
  return team;
}

void add_gpu_tiles(std::vector<AttentionTile>& out, const AttentionSize& size,
                   const TargetFacts& device) {
  AttentionTile one;
  for (int keys = 1; keys <= 8; ++keys) {
    AttentionTile t = tile_of(size, device, 1, 1, keys);
    if (keys > 1 && keys * size.columns > kMaxGpuValues) break;
    t.workgroup = 64;
    t.fma = true;
    t.cost = gpu_time_of(size, t);
    if (keys == 1 || t.cost < one.cost) one = t;
  }
  out.push_back(one);
  AttentionTile team = tile_of(size, device, 1, 1, 1);
  team.team = team_of(size, device);
  team.unit = Unit::Workgroup;
  team.workgroup = static_cast<uint32_t>(team.team);
  team.fma = true;
  team.cost = gpu_time_of(size, team);
  out.push_back(team);
  add_attention_matrices(out, size, device);
  if (!fits_attention_blocks(size)) return;
  AttentionTile blocks = attention_blocks(size, one.columns);
  blocks.cost = attention_blocks_time(size, blocks);
  out.push_back(blocks);
}

}  // namespace

std::string AttentionTile::describe() const {
  const std::string keys_at_once = std::to_string(lanes * team * keys);
  if (matrix) return "attention, matrices " + std::to_string(rows) + "x" + keys_at_once;
  if (chunk > 0) return "attention, shared blocks " + std::to_string(rows) + "x" + keys_at_once;
  if (team > 1) return "attention, a row per workgroup, 1x" + keys_at_once;
  return std::string("attention") + (lanes > 1 ? ", by subgroups, " : " ") + std::to_string(rows) +
         "x" + keys_at_once;
}

std::vector<AttentionTile> attention_tiles(const AttentionSize& size, const TargetFacts& device) {
  std::vector<AttentionTile> out;
  const bool subgroups = has_cpu_subgroups(device);
  const auto add = [&](int lanes, int rows) {
    if (rows > 1 && rows >= 2 * size.rows) return;
    out.push_back(with_keys(size, device, lanes, rows));
  };
  for (int rows : {32, 16, 8, 4, 2, 1}) {
    if (subgroups && rows * columns_of_lane(size.columns, kLanes) <= 256) add(kLanes, rows);
  }
  for (int rows : {4, 2, 1}) {
    if (device.cpu_type() && (rows == 1 || rows * size.columns <= 256)) add(1, rows);
  }
  if (!device.cpu_type()) add_gpu_tiles(out, size, device);
  std::stable_sort(out.begin(), out.end(),
                   [](const AttentionTile& a, const AttentionTile& b) { return a.cost < b.cost; });
  return out;
}

Status write_attention(const AttentionWork& work) {
  if (work.tile.matrix) return write_attention_matrices(work);
  return work.tile.chunk > 0 ? write_attention_blocks(work) : AttentionWriter(work).write();
}

}  // namespace reprise::shaders
