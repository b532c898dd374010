#include "shaders/attention_blocks.h"

#include <algorithm>
#include <cmath>

#include "shaders/contraction.h"
#include "shaders/device_costs.h"
#include "shaders/online_softmax.h"

namespace reprise::shaders {

using kernel::Ty;

namespace {

constexpr int kRows = 64, kKeys = 32;                // of a workgroup's block
constexpr int kOwn = 4;                              // rows, and keys, of an invocation
constexpr int kSharers = kKeys / kOwn;               // invocations with the same rows
constexpr int kWorkgroup = kRows / kOwn * kSharers;  // 128
constexpr int kPad = 4;                              // floats between lines, for banks
constexpr int kRowLine = kRows + kPad, kKeyLine = kKeys + kPad;
constexpr int kChunk = 16;                              // most positions of the head at once
constexpr int kBlock = kChunk * (kRowLine + kKeyLine);  // floats; also holds maxima, and values
constexpr int kUnrolled = 4;
static_assert(4 * (kBlock + kKeys * kRowLine) <= 16384);
static_assert(kSharers * kRowLine <= kBlock);

int chunk_of(int depth) {
  for (const int chunk : {kChunk, 8}) {
    if (depth % chunk == 0) return chunk;
  }
  return 4;
}

/// How many keys' values are in shared memory at once.
int values_of(int columns) {
  return columns > 96 ? 8 : 16;
}

class Writer {
 public:
  explicit Writer(const AttentionWork& w)
      : w_(w),
        t_(w.tile),
        b_(w.attention.builder()),
        local_(local_index(b_)),
        own_rows_(local_ / kSharers * kOwn),
        sharer_(local_ % kSharers),
        block_(b_.shared("block", Ty::F32, kBlock)),
        weights_(b_.shared("weights", Ty::F32, kKeys * kRowLine)),
        largest_(b_, "largest", kernel::kF32, kOwn, 1, -kInfinity),
        total_(b_, "total", kernel::kF32, kOwn, 1, 0),
        scores_(b_, "score", kernel::vec(kernel::kF32, 4), kOwn, 1, std::nullopt),
        out_(b_, "out", kernel::vec(kernel::kF32, 4), kOwn, vecs(), 0) {
    for (int r = 0; r < kOwn; ++r)
      rows_.push_back(w_.attention.row(w_.origin.row + (own_rows_ + r)));
    const int quads = t_.chunk / 4;
    divide(kRows * quads,
           [&](Value n, Val) { queries_.push_back(w_.attention.row(w_.origin.row + n / quads)); });
    divide(t_.columns / 4 * values_of(t_.columns), [&](Value n, Val) {
      columns_.push_back(w_.attention.column(first_vec() + n % (t_.columns / 4)));
    });
  }

  Status write() {
    RP_TRY(w_.attention.blocks(kKeys, [&](Value first) -> Status {
      for (int r = 0; r < kOwn; ++r) scores_.store(r, 0, zeros());
      RP_TRY(add_products(first));
      RP_TRY(scores_to_weights(first));
      return add_values(first);
    }));
    return store();
  }

 private:
  int vecs() const { return t_.per_invocation / 4; }
  Value zeros() { return b_.constant(kernel::vec(kernel::kF32, 4), 0); }
  Value first_vec() { return w_.origin.column_tile * (t_.columns / 4); }
  bool whole() const { return w_.attention.whole_blocks(kKeys); }

  /// Splits `count` vectors over the invocations. Calls fn for each of an invocation's, with its
  /// number and, if not every invocation has one, whether this one does.
  void divide(int count, const std::function<void(Value n, Val has)>& fn) {
    for (int first = 0; first < count; first += kWorkgroup) {
      const bool all = first + kWorkgroup <= count;
      const Value n = local_ + first;
      fn(all ? n : min(n, count - 1), all ? Val{} : n < b_.i32(count));
    }
  }
  void where(Val has, const std::function<void()>& store) {
    if (has) {
      b_.if_then(has, store);
    } else {
      store();
    }
  }

  /// Stores four positions of a row (or key) as a column of a block, so that neighbours of a line
  /// are rows (or keys).
  void store_column(Value at, int line, const Values& four, Val has) {
    where(has, [&] {
      for (int i = 0; i < 4; ++i)
        b_.shared_store(block_, at + i * line, four[static_cast<size_t>(i)]);
    });
  }

  Status load_chunk(Value first_key, Value chunk) {
    const int quads = t_.chunk / 4;
    Status status;
    size_t next = 0;
    divide(kRows * quads, [&](Value n, Val has) {
      const auto four =
          w_.attention.query_at(queries_[next++], w_.attention.quad(chunk * quads + n % quads));
      if (!four.ok()) {
        status = four.status();
      } else {
        store_column(n % quads * (4 * kRowLine) + n / quads, kRowLine, *four, has);
      }
    });
    RP_TRY(status);
    divide(kKeys * quads, [&](Value n, Val has) {
      const Index key = w_.attention.key(first_key + n / quads, kKeys);
      const auto four = w_.attention.key_at(key, w_.attention.quad(chunk * quads + n % quads));
      if (!four.ok()) {
        status = four.status();
      } else {
        store_column(n % quads * (4 * kKeyLine) + n / quads + t_.chunk * kRowLine, kKeyLine, *four,
                     has);
      }
    });
    return status;
  }

  /// Adds to accumulators(row, vector) the products of four rows, at line `a` of `left`, and of the
  /// vectors of four columns at `right`.
  void multiply(LocalGrid& sums, int left, Value a, int right, Value b, int stride) {
    const Value xs{b_, b_.shared_load(left, a, 4)};
    for (int v = 0; v < sums.columns(); ++v) {
      const Value y{b_, b_.shared_load(right, b + v * stride, 4)};
      for (int r = 0; r < kOwn; ++r)
        sums.store(r, v, b_.fma(b_.splat(b_.extract(xs, r), 4), y, sums.load(r, v)));
    }
  }

  Status add_products(Value first_key) {
    const int chunks = w_.tile.depth / t_.chunk;
    return w_.result.loop(b_.i32(chunks), chunks, [&](Value chunk) -> Status {
      b_.barrier();
      RP_TRY(load_chunk(first_key, chunk));
      b_.barrier();
      const int loops = t_.chunk / kUnrolled;
      return w_.result.loop(b_.i32(loops), loops, [&](Value i) -> Status {
        for (int n = 0; n < kUnrolled; ++n) {
          const Value d = i * kUnrolled + n;
          multiply(scores_, block_, d * kRowLine + own_rows_, block_,
                   d * kKeyLine + sharer_ * kOwn + t_.chunk * kRowLine, 0);
        }
        return {};
      });
    });
  }

  Status scores_to_weights(Value first_key) {
    std::vector<Index> keys;
    std::vector<Value> numbers;
    for (int k = 0; k < kOwn; ++k) {
      numbers.push_back(first_key + (sharer_ * kOwn + k));
      keys.push_back(w_.attention.key(numbers.back(), kKeys));
    }
    std::vector<std::vector<Value>> scores(kOwn);  // [row][key]
    Values most;
    for (size_t r = 0; r < kOwn; ++r) {
      Value largest;
      for (size_t k = 0; k < kOwn; ++k) {
        const Value dot = b_.extract(scores_.load(static_cast<int>(r)), static_cast<int>(k));
        RP_ASSIGN(const Val score, w_.attention.score(rows_[r], keys[k], dot));
        Value x{b_, score};
        if (!whole()) x = b_.select(numbers[k] < w_.attention.key_count(), x, b_.f32(-kInfinity));
        scores[r].push_back(x);
        largest = largest ? larger(b_, largest, x) : x;
      }
      most.push_back(largest);
    }
    const Value rows = largest_of_sharers(most);
    std::vector<std::vector<Val>> weights(kOwn);  // [key][row]
    for (size_t r = 0; r < kOwn; ++r) {
      const int row = static_cast<int>(r);
      const Value before = largest_.load(row);
      const Value now = larger(b_, before, b_.extract(rows, row));
      const Value base = softmax_base(b_, now);
      const Value scale = exponential(b_, before - base);
      Value total = total_.load(row) * scale;
      for (size_t k = 0; k < kOwn; ++k) {
        const Value weight = exponential(b_, scores[r][k] - base);
        total = total + weight;
        weights[k].push_back(weight);
      }
      total_.store(row, 0, total);
      largest_.store(row, 0, now);
      for (int v = 0; v < vecs(); ++v) out_.store(row, v, out_.load(row, v) * b_.splat(scale, 4));
    }
    for (int k = 0; k < kOwn; ++k) {
      b_.shared_store(weights_, (sharer_ * kOwn + k) * kRowLine + own_rows_,
                      b_.compose(weights[static_cast<size_t>(k)]));
    }
    return {};
  }

  /// The largest of four values, one for each row, among the invocations that share the rows.
  Value largest_of_sharers(const Values& own) {
    b_.barrier();  // the last chunk has been multiplied
    b_.shared_store(block_, sharer_ * kRowLine + own_rows_, b_.compose(own));
    b_.barrier();
    Value most{b_, b_.shared_load(block_, own_rows_, 4)};
    for (int s = 1; s < kSharers; ++s)
      most = larger(b_, most, b_.shared_load(block_, own_rows_ + s * kRowLine, 4));
    return most;
  }

  Status load_values(Value first_key, Value part) {
    const int width = t_.columns / 4, line = t_.columns + kPad;
    Status status;
    size_t next = 0;
    divide(width * values_of(t_.columns), [&](Value n, Val has) {
      const Value number = first_key + (part * values_of(t_.columns) + n / width);
      auto four = w_.attention.value(w_.attention.key(number, kKeys), columns_[next++]);
      if (!four.ok()) {
        status = four.status();
        return;
      }
      // A weight of 0 does not hide an infinite value past the last key.
      if (!whole()) {
        const Val inside = number < w_.attention.key_count();
        for (Val& x : *four) x = b_.select(inside, x, b_.f32(0));
      }
      where(has,
            [&] { b_.shared_store(block_, n / width * line + n % width * 4, b_.compose(*four)); });
    });
    return status;
  }

  Status add_values(Value first_key) {
    const int keys = values_of(t_.columns), parts = kKeys / keys, line = t_.columns + kPad;
    return w_.result.loop(b_.i32(parts), parts, [&](Value part) -> Status {
      b_.barrier();
      RP_TRY(load_values(first_key, part));
      b_.barrier();
      const int loops = keys / kUnrolled;
      return w_.result.loop(b_.i32(loops), loops, [&](Value i) -> Status {
        for (int n = 0; n < kUnrolled; ++n) {
          const Value key = i * kUnrolled + n;
          multiply(out_, weights_, (part * keys + key) * kRowLine + own_rows_, block_,
                   key * line + sharer_ * 4, 4 * kSharers);
        }
        return {};
      });
    });
  }

  /// The total of the weights of an invocation's rows.
  std::vector<Value> totals() {
    Values own;
    for (int r = 0; r < kOwn; ++r) own.push_back(total_.load(r));
    b_.barrier();  // the last values have been multiplied
    b_.shared_store(block_, sharer_ * kRowLine + own_rows_, b_.compose(own));
    b_.barrier();
    Value sum{b_, b_.shared_load(block_, own_rows_, 4)};
    for (int s = 1; s < kSharers; ++s)
      sum = sum + Value{b_, b_.shared_load(block_, own_rows_ + s * kRowLine, 4)};
    std::vector<Value> out;
    out.reserve(kOwn);
    for (int r = 0; r < kOwn; ++r) out.push_back(b_.extract(sum, r));
    return out;
  }

  Status store() {
    const std::vector<Value> total = totals();
    for (int r = 0; w_.attention.has_log_sums() && r < kOwn; ++r) {
      RP_TRY(w_.attention.store_log_sum(
          w_.origin.row + own_rows_ + r, b_.eq(first_vec() + sharer_, b_.i32(0)),
          softmax_base(b_, largest_.load(r)), total[static_cast<size_t>(r)]));
    }
    for (int v = 0; v < vecs(); ++v) {
      const Value vec = first_vec() + (sharer_ + v * kSharers);
      const auto four = [&](int r) {
        const Value sums = out_.load(r, v);
        const auto part = [&](int c) {
          return w_.attention.normalized(b_.extract(sums, c), total[static_cast<size_t>(r)]);
        };
        return b_.compose({part(0), part(1), part(2), part(3)});
      };
      const Value row = w_.origin.row + own_rows_;
      RP_TRY(w_.result.guard_columns(vec, [&] {
        return w_.result.guard_row(row,
                                   [&] { return store_rows(w_.result, row, kOwn, vec, four); });
      }));
    }
    return {};
  }

  const AttentionWork& w_;
  const AttentionTile& t_;
  kernel::Builder& b_;
  Value local_, own_rows_, sharer_;
  int block_, weights_;  // shared arrays
  LocalGrid largest_, total_, scores_, out_;
  std::vector<Index> rows_, queries_, columns_;
};

}  // namespace

bool fits_attention_blocks(const AttentionSize& size) {
  return size.known_depth > 0 && size.known_depth % 4 == 0;
}

AttentionTile attention_blocks(const AttentionSize& size, int columns) {
  constexpr int kStep = 4 * kSharers;
  AttentionTile t;
  t.rows = kRows;
  t.keys = kKeys;
  t.unit = Unit::Workgroup;
  t.workgroup = kWorkgroup;
  t.chunk = chunk_of(size.known_depth);
  t.depth = size.known_depth;
  t.columns = (columns + kStep - 1) / kStep * kStep;
  t.per_invocation = t.columns / kSharers;
  t.fma = true;
  return t;
}

double attention_blocks_time(const AttentionSize& size, const AttentionTile& t) {
  const GpuCosts& gpu = kGpuCosts;
  const double workgroups = size.batch * std::ceil(size.rows / kRows) *
                            std::ceil(static_cast<double>(size.columns) / t.columns);
  const double chunks = size.depth / t.chunk;
  const double parts = static_cast<double>(kKeys) / values_of(t.columns);
  const double loads =
      (size.depth * (kRows + kKeys * size.key_loads) + t.columns * kKeys * size.value_loads) / 4 /
      kWorkgroup;
  const double shared_loads = 2 * size.depth + kKeys * (1 + t.per_invocation / 4.0);
  const double multiply_adds = kOwn * (kOwn * size.depth + kKeys * t.per_invocation);
  const double softmax = kOwn * (kOwn * (10 + size.score_flops) + t.per_invocation);
  const double waits = chunks + parts + 1;  // times that a block waits for memory
  const double work = gpu.load * loads + gpu.shared_load * shared_loads + multiply_adds + softmax +
                      2 * gpu.barrier * waits;
  const double blocks = std::ceil(size.keys / kKeys);
  return gpu_time(workgroups, kWorkgroup, blocks * waits + gpu.ends, work / waits);
}

Status write_attention_blocks(const AttentionWork& work) {
  return Writer(work).write();
}

}  // namespace reprise::shaders
