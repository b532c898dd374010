#include "shaders/attention_blocks.h"

#include <algorithm>
#include <cmath>

#include "codegen/target/device_costs.h"
#include "shaders/contraction.h"
#include "shaders/online_softmax.h"
#include "shaders/shared_blocks.h"

namespace reprise::shaders {

namespace {

constexpr int kBlockRows = SharedBlocks::kRows, kKeys = SharedBlocks::kOthers;
constexpr int kBlockOwn = SharedBlocks::kOwn, kBlockSharers = SharedBlocks::kSharers;
constexpr int kBlockWorkgroup = SharedBlocks::kWorkgroup;

class BlocksWriter {
 public:
  explicit BlocksWriter(const AttentionWork& w)
      : w_(w),
        t_(w.tile),
        b_(w.attention.builder()),
        blocks_(
            b_, w.result,
            {t_.depth, t_.chunk, t_.columns, w.origin.row, w.origin.column_tile * (t_.columns / 4)},
            [&](Value at) { return w.attention.row(at); },
            [&](Value vec) { return w.attention.column(vec); }),
        largest_(b_, "largest", kernel::kF32, kBlockOwn, 1, -kInfinity),
        total_(b_, "total", kernel::kF32, kBlockOwn, 1, 0),
        scores_(b_, "score", kernel::vec(kernel::kF32, 4), kBlockOwn, 1, std::nullopt),
        out_(b_, "out", kernel::vec(kernel::kF32, 4), kBlockOwn, blocks_.vecs(), 0) {
    for (int r = 0; r < kBlockOwn; ++r)
      rows_.push_back(w_.attention.row(w_.origin.row + (blocks_.own_rows() + r)));
  }

  Status write() {
    Attention& of = w_.attention;
    RP_TRY(of.blocks(kKeys, [&](Value first) -> Status {
      for (int r = 0; r < kBlockOwn; ++r) scores_.store(r, 0, zeros());
      RP_TRY(blocks_.add_products(
          scores_, [&](const Index& row, Value quad) { return of.query_at(row, of.quad(quad)); },
          [&](Value key, Value quad) {
            return of.key_at(of.key(first + key, kKeys), of.quad(quad));
          }));
      RP_TRY(scores_to_weights(first));
      return blocks_.add_values(
          out_, [&](Value key, const Index& column) { return value(first + key, column); });
    }));
    return store();
  }

 private:
  Value zeros() { return b_.constant(kernel::vec(kernel::kF32, 4), 0); }
  Value first_vec() { return w_.origin.column_tile * (t_.columns / 4); }
  bool whole() const { return w_.attention.whole_blocks(kKeys); }

  /// Four columns of a key's value. One past the last key is 0, as a weight of 0 does not hide an
  /// infinite value.
  Result<Values> value(Value number, const Index& column) {
    RP_ASSIGN(Values four, w_.attention.value(w_.attention.key(number, kKeys), column));
    if (whole()) return four;
    const Val inside = number < w_.attention.key_count();
    for (Val& x : four) x = b_.select(inside, x, b_.f32(0));
    return four;
  }

  Status scores_to_weights(Value first_key) {
    std::vector<Index> keys;
    std::vector<Value> numbers;
    for (int k = 0; k < kBlockOwn; ++k) {
      numbers.push_back(first_key + (blocks_.own_others() + k));
      keys.push_back(w_.attention.key(numbers.back(), kKeys));
    }
    std::vector<std::vector<Value>> scores(kBlockOwn);  // [row][key]
    Values most;
    for (size_t r = 0; r < kBlockOwn; ++r) {
      Value largest;
      for (size_t k = 0; k < kBlockOwn; ++k) {
        const Value dot = b_.extract(scores_.load(static_cast<int>(r)), static_cast<int>(k));
        RP_ASSIGN(const Val score, w_.attention.score(rows_[r], keys[k], dot));
        Value x{b_, score};
        if (!whole()) x = b_.select(numbers[k] < w_.attention.key_count(), x, b_.f32(-kInfinity));
        scores[r].push_back(x);
        largest = largest ? larger(b_, largest, x) : x;
      }
      most.push_back(largest);
    }
    const Value rows = blocks_.over_sharers(
        most, [&](const Value& a, const Value& b) { return larger(b_, a, b); });
    std::vector<Values> weights(kBlockOwn);  // [key][row]
    for (size_t r = 0; r < kBlockOwn; ++r) {
      const int row = static_cast<int>(r);
      const Value before = largest_.load(row);
      const Value now = larger(b_, before, b_.extract(rows, row));
      const Value base = softmax_base(b_, now);
      const Value scale = exponential(b_, before - base);
      Value total = total_.load(row) * scale;
      for (size_t k = 0; k < kBlockOwn; ++k) {
        const Value weight = exponential(b_, scores[r][k] - base);
        total = total + weight;
        weights[k].push_back(weight);
      }
      total_.store(row, 0, total);
      largest_.store(row, 0, now);
      for (int v = 0; v < out_.columns(); ++v)
        out_.store(row, v, out_.load(row, v) * b_.splat(scale, 4));
    }
    blocks_.store_weights(weights);
    return {};
  }

  /// The total of the weights of an invocation's rows.
  std::vector<Value> totals() {
    Values own;
    for (int r = 0; r < kBlockOwn; ++r) own.push_back(total_.load(r));
    const Value sum =
        blocks_.over_sharers(own, [](const Value& a, const Value& b) { return a + b; });
    std::vector<Value> out;
    out.reserve(kBlockOwn);
    for (int r = 0; r < kBlockOwn; ++r) out.push_back(b_.extract(sum, r));
    return out;
  }

  Status store() {
    const std::vector<Value> total = totals();
    for (int r = 0; w_.attention.has_log_sums() && r < kBlockOwn; ++r) {
      RP_TRY(w_.attention.store_log_sum(
          w_.origin.row + blocks_.own_rows() + r, b_.eq(first_vec() + blocks_.sharer(), b_.i32(0)),
          softmax_base(b_, largest_.load(r)), total[static_cast<size_t>(r)]));
    }
    for (int v = 0; v < out_.columns(); ++v) {
      const Value vec = first_vec() + (blocks_.sharer() + v * kBlockSharers);
      const auto four = [&](int r) {
        const Value sums = out_.load(r, v);
        const auto part = [&](int c) {
          return w_.attention.normalized(b_.extract(sums, c), total[static_cast<size_t>(r)]);
        };
        return b_.compose({part(0), part(1), part(2), part(3)});
      };
      const Value row = w_.origin.row + blocks_.own_rows();
      RP_TRY(w_.result.guard_columns(vec, [&] {
        return w_.result.guard_row(
            row, [&] { return store_rows(w_.result, row, kBlockOwn, vec, four); });
      }));
    }
    return {};
  }

  const AttentionWork& w_;
  const AttentionTile& t_;
  kernel::Builder& b_;
  SharedBlocks blocks_;
  LocalGrid largest_, total_, scores_, out_;
  std::vector<Index> rows_;
};

}  // namespace

bool fits_attention_blocks(const AttentionSize& size) {
  return size.known_depth > 0 && size.known_depth % 4 == 0;
}

AttentionTile attention_blocks(const AttentionSize& size, int columns) {
  AttentionTile t;
  t.rows = kBlockRows;
  t.keys = kKeys;
  t.unit = Unit::Workgroup;
  t.workgroup = kBlockWorkgroup;
  t.chunk = SharedBlocks::chunk_of(size.known_depth);
  t.depth = size.known_depth;
  t.columns = SharedBlocks::columns_of(columns);
  t.per_invocation = t.columns / kBlockSharers;
  t.fma = true;
  return t;
}

double attention_blocks_time(const AttentionSize& size, const AttentionTile& t) {
  const GpuCosts& gpu = kGpuCosts;
  const double workgroups = size.batch * std::ceil(size.rows / kBlockRows) *
                            std::ceil(static_cast<double>(size.columns) / t.columns);
  const double chunks = size.depth / t.chunk;
  const double parts = static_cast<double>(kKeys) / SharedBlocks::values_of(t.columns);
  const double loads =
      (size.depth * (kBlockRows + kKeys * size.key_loads) + t.columns * kKeys * size.value_loads) /
      4 / kBlockWorkgroup;
  const double shared_loads = 2 * size.depth + kKeys * (1 + t.per_invocation / 4.0);
  const double multiply_adds = kBlockOwn * (kBlockOwn * size.depth + kKeys * t.per_invocation);
  const double softmax = kBlockOwn * (kBlockOwn * (10 + size.score_flops) + t.per_invocation);
  const double waits = chunks + parts + 1;  // times that a block waits for memory
  const double work = gpu.load * loads + gpu.shared_load * shared_loads + multiply_adds + softmax +
                      2 * gpu.barrier * waits;
  const double blocks = std::ceil(size.keys / kKeys);
  return gpu_time(workgroups, kBlockWorkgroup, blocks * waits + gpu.ends, work / waits);
}

Status write_attention_blocks(const AttentionWork& work) {
  return BlocksWriter(work).write();
}

}  // namespace reprise::shaders
