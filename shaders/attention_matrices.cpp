#include "shaders/attention_matrices.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "codegen/kernel/build/sum_elements.h"
#include "codegen/target/device_costs.h"
#include "shaders/copied_operand.h"
#include "shaders/matrix_tile.h"
#include "shaders/online_softmax.h"

namespace reprise::shaders {

using kernel::MatrixUse;
using kernel::RowValues;
using kernel::SumElements;
using kernel::Ty;

namespace {

constexpr int kSide = 16;  // of a matrix
constexpr int kSubgroup = 32;
constexpr int kMostHead = 256;
/// fragment_pad() of the elements of attention, which have 16 bits.
constexpr int kFragmentPad = 8;
constexpr int kMostHeldHead = 128;  // of queries that stay in registers

int padded(int n) {
  return (n + kSide - 1) / kSide * kSide;
}

/// Columns of results that go through shared memory at once.
int stored_columns(const AttentionTile& t) {
  return t.columns % (2 * kSide) == 0 ? 2 * kSide : kSide;
}

class MatricesWriter {
 public:
  explicit MatricesWriter(const AttentionWork& w)
      : w_(w),
        t_(w.tile),
        b_(w.attention.builder()),
        elements_(b_, MmaScope::Subgroup),
        type_(t_.matrix.types.a == MmaType::BF16 ? Ty::BF16 : Ty::F16),
        depth_(padded(t_.depth)),
        rows_of_matrices_(t_.rows * kSubgroup / static_cast<int>(t_.workgroup) / kSide),
        query_line_(depth_ + kFragmentPad),
        value_line_(t_.columns + kFragmentPad),
        stage_(t_.keys * (query_line_ + value_line_)),
        largest_(b_, "largest", kernel::kF32, rows_of_matrices_, kernel::HeldPlaces::kRowsHeld,
                 -kInfinity),
        total_(b_, "total", kernel::kF32, rows_of_matrices_, kernel::HeldPlaces::kRowsHeld, 0) {
    queries_ = b_.shared("queries", type_, static_cast<uint32_t>(t_.rows * query_line_));
    stages_ = b_.shared("stages", type_, static_cast<uint32_t>(t_.stages * stage_));
    first_row_ = b_.convert(b_.builtin(kernel::Builtin::SubgroupIndex), Ty::I32) *
                 int64_t{rows_of_matrices_ * kSide};
    declare_matrices();
  }

  Status write() {
    Attention& of = w_.attention;
    for (int r = 0; r < rows_of_matrices_; ++r)
      for (size_t which = 0; which < kernel::HeldPlaces::kRowsHeld; ++which)
        rows_.push_back(of.row(w_.origin.row + row_in_tile(r, which)));
    RP_ASSIGN(CopiedOperand keys, copied(of.keys(), {stages_, 0, query_line_, t_.keys, true}));
    RP_ASSIGN(CopiedOperand values,
              copied(of.values(), {stages_, t_.keys * query_line_, value_line_, t_.keys, false}));
    const Value end = of.key_count();
    StageRing ring(b_, t_.stages, stage_);
    const auto copy = [&](Value first, Value to) {
      keys.copy(first, end, to);
      values.copy(first, end, to);
      b_.copy_commit();
    };
    RP_TRY(begin_queries());
    ring.fill([&](int i, Value to) { copy(b_.i32(i * t_.keys), to); });
    b_.copy_wait(static_cast<uint32_t>(ring.ahead()));
    b_.barrier();
    if (holds_queries())
      for (int d = 0; d < depth_ / kSide; ++d) load_queries(d);
    RP_TRY(of.blocks(t_.keys, [&](Value first) -> Status {
      const StageRing::Places at = ring.await();
      copy(first + ring.ahead() * t_.keys, at.newest);
      multiply_keys(at.oldest);
      RP_TRY(scores_to_weights(first));
      add_values(at.oldest + t_.keys * query_line_);
      ring.advance(at);
      return {};
    }));
    b_.copy_wait(0);
    return store();
  }

 private:
  using Place = SumElements::Place;

  bool holds_queries() const { return depth_ <= kMostHeldHead; }
  bool whole() const { return w_.attention.whole_blocks(t_.keys); }
  Value row_in_tile(int r, size_t which) const {
    return first_row_ + elements_.row(which) + int64_t{r * kSide};
  }
  size_t row_number(int r, size_t which) const {
    return static_cast<size_t>(r) * kernel::HeldPlaces::kRowsHeld + which;
  }

  void declare_matrices() {
    const auto add = [&](std::vector<int>& to, const char* name, int count, MatrixUse use) {
      for (int i = 0; i < count; ++i)
        to.push_back(b_.matrix(name + std::to_string(i), use,
                               use == MatrixUse::Sum ? Ty::F32 : type_, kSide, kSide));
    };
    const int quads = t_.keys / kSide, columns = t_.columns / kSide;
    add(lefts_, "query", rows_of_matrices_ * (holds_queries() ? depth_ / kSide : 1),
        MatrixUse::Left);
    add(weights_, "weight", rows_of_matrices_, MatrixUse::Left);
    add(rights_, "right", std::max(quads, 2), MatrixUse::Right);
    add(scores_, "score", rows_of_matrices_ * quads, MatrixUse::Sum);
    add(out_, "out", rows_of_matrices_ * columns, MatrixUse::Sum);
    for (const int m : out_) b_.matrix_zero(m);
  }
  int left(int r, int d) const {
    const int number = holds_queries() ? r * (depth_ / kSide) + d : r;
    return lefts_[static_cast<size_t>(number)];
  }
  int score(int r, int n) const {
    const int number = r * (t_.keys / kSide) + n;
    return scores_[static_cast<size_t>(number)];
  }
  std::span<const int> out(int r) const {
    const auto columns = static_cast<size_t>(t_.columns / kSide);
    return std::span(out_).subspan(static_cast<size_t>(r) * columns, columns);
  }

  /// Lines of shared memory that hold the heads of so many rows or keys.
  struct Lines {
    int shared, base, line, step;
    bool of_scores;  // an operand of the first product, whose head counts k
  };
  /// To copies, k counts rows or keys, and elements are positions of the head.
  Result<CopiedOperand> copied(Operand operand, const Lines& lines) {
    if (!operand.plain) return internal_error("an operand of the attention cannot be copied");
    PlainOperand& plain = *operand.plain;
    if (lines.of_scores) {
      std::swap(plain.across, plain.along);
      std::swap(plain.contiguous_across, plain.contiguous_along);
    }
    const bool is_queries = lines.shared == queries_;
    const Value count = is_queries ? w_.result.row_count() : w_.attention.key_count();
    const int exact = lines.of_scores ? t_.depth : t_.value_columns;
    return CopiedOperand(
        b_, {lines.shared, type_, {lines.base, 1, lines.line}, count, lines.step, t_.workgroup},
        operand, {padded(exact), {b_, b_.i32(0)}, {b_, b_.i32(exact)}});
  }

  Status begin_queries() {
    RP_ASSIGN(CopiedOperand queries,
              copied(w_.attention.queries(), {queries_, 0, query_line_, t_.rows, true}));
    queries.copy(w_.origin.row, w_.result.row_count(), {b_, b_.i32(0)});
    b_.copy_commit();
    return {};
  }

  void load_queries(int d) {
    for (int r = 0; r < rows_of_matrices_; ++r) {
      const Value at = (first_row_ + int64_t{r * kSide}) * query_line_ + int64_t{d * kSide};
      b_.matrix_load(left(r, d), queries_, at, static_cast<uint32_t>(query_line_), false,
                     kFragmentPad);
    }
  }

  void multiply_keys(Value from) {
    for (const int m : scores_) b_.matrix_zero(m);
    for (int d = 0; d < depth_ / kSide; ++d) {
      if (!holds_queries()) load_queries(d);
      for (int n = 0; n < t_.keys / kSide; ++n) {
        const int right = rights_[static_cast<size_t>(n)];
        b_.matrix_load(right, stages_, from + (n * kSide * query_line_ + d * kSide),
                       static_cast<uint32_t>(query_line_), true, kFragmentPad);
        for (int r = 0; r < rows_of_matrices_; ++r)
          b_.matrix_mul_add(score(r, n), left(r, d), right);
      }
    }
  }

  /// Turns the sums of a block into weights.
  Status scores_to_weights(Value first_key) {
    std::vector<Index> keys;
    std::vector<Val> exist;
    const auto number = [](int n, uint32_t slot) {  // of a column that the invocation holds
      return static_cast<size_t>(n) * 4 + slot / 4 * 2 + slot % 2;
    };
    for (int n = 0; n < t_.keys / kSide; ++n) {
      for (const uint32_t slot : {0U, 1U, 4U, 5U}) {
        const Value key = first_key + (elements_.column(slot) + int64_t{n * kSide});
        keys.push_back(w_.attention.key(key, t_.keys));
        if (!whole()) exist.push_back(key < w_.attention.key_count());
      }
    }
    for (int r = 0; r < rows_of_matrices_; ++r) {
      RowValues most;
      for (int n = 0; n < t_.keys / kSide; ++n) {
        RP_TRY(
            elements_.try_map(score(r, n), [&](const Place& p, const Value& dot) -> Result<Value> {
              const size_t k = number(n, p.slot);
              RP_ASSIGN(const Val score,
                        w_.attention.score(rows_[row_number(r, p.which)], keys[k], dot));
              Value x{b_, score};
              if (!whole()) x = b_.select(exist[k], x, b_.f32(-kInfinity));
              most[p.which] = most[p.which] ? larger(b_, most[p.which], x) : x;
              return x;
            }));
      }
      weigh(r, most);
    }
    return {};
  }

  /// exp(score - largest) of a row of matrices, of whose scores the invocation has these maxima.
  void weigh(int r, const RowValues& most) {
    RowValues base, scale, total;
    for (size_t which = 0; which < most.size(); ++which) {
      const int w = static_cast<int>(which);
      const Value before = largest_.load(r, w);
      const Value now = larger(
          b_, before, elements_.fold_shared(most[which], [&](const Value& x, const Value& y) {
            return larger(b_, x, y);
          }));
      base[which] = softmax_base(b_, now);
      scale[which] = exponential(b_, before - base[which]);
      total[which] = total_.load(r, w) * scale[which];
      largest_.store(r, w, now);
    }
    for (int n = 0; n < t_.keys / kSide; ++n) {
      elements_.map(score(r, n), [&](const Place& p, const Value& x) {
        const Value weight = exponential(b_, x - base[p.which]);
        total[p.which] = total[p.which] + weight;
        return weight;
      });
    }
    for (size_t which = 0; which < total.size(); ++which)
      total_.store(r, static_cast<int>(which), total[which]);
    for (const int m : out(r))
      elements_.map(m, [&](const Place& p, const Value& v) { return v * scale[p.which]; });
  }

  void add_values(Value from) {
    for (int k = 0; k < t_.keys / kSide; ++k) {
      for (int r = 0; r < rows_of_matrices_; ++r)
        b_.matrix_convert(weights_[static_cast<size_t>(r)], score(r, k));
      for (int c = 0; c < t_.columns / kSide; ++c) {
        const int right = rights_[static_cast<size_t>(c % 2)];
        b_.matrix_load(right, stages_, from + (k * kSide * value_line_ + c * kSide),
                       static_cast<uint32_t>(value_line_), false, kFragmentPad);
        for (int r = 0; r < rows_of_matrices_; ++r)
          b_.matrix_mul_add(out(r)[static_cast<size_t>(c)], weights_[static_cast<size_t>(r)],
                            right);
      }
    }
  }

  Status store() {
    const Value lane = lane_of(b_);
    for (int r = 0; r < rows_of_matrices_; ++r) {
      RowValues total;
      for (size_t which = 0; which < total.size(); ++which) {
        const int w = static_cast<int>(which);
        total[which] = elements_.fold_shared(total_.load(r, w),
                                             [](const Value& x, const Value& y) { return x + y; });
        if (!w_.attention.has_log_sums()) continue;
        const Val first = b_.eq(lane % int{kernel::HeldPlaces::kRowSharers}, b_.i32(0));
        RP_TRY(w_.attention.store_log_sum(w_.origin.row + row_in_tile(r, which), first,
                                          softmax_base(b_, largest_.load(r, w)), total[which]));
      }
      for (const int m : out(r)) {
        elements_.map(m, [&](const Place& p, const Value& v) {
          return w_.attention.normalized(v, total[p.which]);
        });
      }
    }
    const int columns = stored_columns(t_), line = columns + kSumPad;
    const int sums = b_.shared("sums", Ty::F32, static_cast<uint32_t>(t_.rows * line));
    for (int first = 0; first < t_.columns; first += columns) {
      if (first > 0) b_.barrier();
      RP_TRY(store_columns(sums, first, columns));
    }
    return {};
  }

  Status store_columns(int sums, int first, int columns) {
    const int line = columns + kSumPad, width = columns / 4;
    for (int r = 0; r < rows_of_matrices_; ++r) {
      for (int c = 0; c < columns; c += kSide) {
        b_.matrix_store(out(r)[static_cast<size_t>((first + c) / kSide)], sums,
                        (first_row_ + int64_t{r * kSide}) * line + int64_t{c},
                        static_cast<uint32_t>(line));
      }
    }
    b_.barrier();
    const int invocations = static_cast<int>(t_.workgroup);
    const int count = t_.rows * width / invocations;
    const Value local = local_index(b_);
    return w_.result.loop(b_.i32(count), count, [&](Value i) {
      const Value n = i * invocations + local;
      const Value row = n / width, quad = n % width, vec = quad + int64_t{first / 4};
      return w_.result.guard_columns(vec, [&] {
        return w_.result.guard_row(w_.origin.row + row, [&] {
          return w_.result.store(w_.origin.row + row, vec,
                                 b_.shared_load(sums, row * line + quad * 4, 4));
        });
      });
    });
  }

  const AttentionWork& w_;
  const AttentionTile& t_;
  kernel::Builder& b_;
  const SumElements elements_;
  const Ty type_;
  const int depth_;                            // of the head of queries and keys, in whole matrices
  const int rows_of_matrices_;                 // of a subgroup
  const int query_line_, value_line_, stage_;  // elements of lines, and of a stage
  LocalGrid largest_, total_;
  int queries_ = -1, stages_ = -1;  // shared arrays
  Value first_row_;                 // of the subgroup in the tile
  std::vector<int> lefts_, weights_, rights_, scores_, out_;
  std::vector<Index> rows_;
};

/// The bytes of shared memory.
int shared_bytes(const AttentionTile& t) {
  const int query_line = padded(t.depth) + kFragmentPad, value_line = t.columns + kFragmentPad;
  return 2 * (t.rows * query_line + t.stages * t.keys * (query_line + value_line)) +
         4 * t.rows * (stored_columns(t) + kSumPad);
}

/// About the registers that hold matrices, and what else an invocation needs.
int registers(const AttentionTile& t) {
  constexpr int kRest = 56;
  const int rows = t.rows * kSubgroup / static_cast<int>(t.workgroup) / kSide;
  const int depth = padded(t.depth);
  return rows * (depth <= kMostHeldHead ? depth / 4 : 4) + rows * (t.columns + t.keys) / 2 +
         t.keys / 4 + kRest;
}

double matrices_time(const AttentionSize& size, const AttentionTile& t) {
  const GpuCosts& gpu = kGpuCosts;
  const double threads = t.workgroup, heads = padded(t.depth) + t.columns;
  const auto copies_of = [](double count, int elements) {
    return copy_work(count, elements, 2 * elements);
  };
  const double copies = copies_of(t.keys * padded(t.depth), size.copied[1]) +
                        copies_of(t.keys * t.columns, size.copied[2]);
  const double loads = t.keys * heads / (kSide * kSide);
  const double multiply_adds = t.rows * t.keys * heads / threads / gpu.matrix_speed;
  constexpr double kRow = 50;  // exchanges of a row's maximum, and what follows from it
  const double softmax =
      (t.rows * t.keys * (12 + size.score_flops) + t.rows * t.columns) / threads +
      kRow * kernel::HeldPlaces::kRowsHeld * t.rows * kSubgroup / kSide / threads;
  const double work =
      copies / threads + gpu.matrix_load * loads + multiply_adds + softmax + gpu.barrier;
  return gpu_time(size.batch * std::ceil(size.rows / t.rows), threads,
                  std::ceil(size.keys / t.keys) + gpu.ends, work, gpu.latency / (t.stages - 1));
}

/// Whether the copies of an operand's lines divide evenly over the invocations.
bool divides(const AttentionTile& t, int lines, int head, int copied) {
  return copied > 0 && lines * padded(head) / copied % static_cast<int>(t.workgroup) == 0;
}

/// Subgroups of a workgroup, rows of matrices of each, and keys of a block.
struct MatricesShape {
  int subgroups, rows, keys;
};
constexpr MatricesShape kShapes[] = {{4, 1, 64}, {8, 1, 64}, {4, 2, 32},
                                     {4, 1, 32}, {4, 1, 16}, {2, 1, 32}};

}  // namespace

void add_attention_matrices(std::vector<AttentionTile>& out, const AttentionSize& size,
                            const TargetFacts& device) {
  constexpr int kMostRegisters = 216;
  if (!size.mma || size.known_depth <= 0 || size.known_depth > kMostHead ||
      size.columns > kMostHead)
    return;
  if (!device.async_copies() || !device.matrix_elements()) return;
  for (const MmaConfig& matrix : device.matrices(*size.mma)) {
    if (matrix != MmaConfig{kSide, kSide, kSide, *size.mma}) continue;
    for (const MatricesShape& shape : kShapes) {
      AttentionTile t;
      t.matrix = matrix;
      t.rows = shape.subgroups * shape.rows * kSide;
      t.keys = shape.keys;
      t.unit = Unit::Workgroup;
      t.subgroup_size = kSubgroup;
      t.workgroup = static_cast<uint32_t>(shape.subgroups * kSubgroup);
      t.stages = 2;
      t.depth = size.known_depth;
      t.value_columns = size.columns;
      t.columns = padded(size.columns);
      t.per_invocation = t.columns;
      const bool even = divides(t, t.rows, t.depth, size.copied[0]) &&
                        divides(t, t.keys, t.depth, size.copied[1]) &&
                        divides(t, t.keys, t.value_columns, size.copied[2]);
      if (!even || registers(t) > kMostRegisters || t.workgroup > device.workgroup_invocations() ||
          shared_bytes(t) > static_cast<int>(device.shared_bytes()))
        continue;
      t.cost = matrices_time(size, t);
      out.push_back(t);
    }
  }
}

Status write_attention_matrices(const AttentionWork& work) {
  return MatricesWriter(work).write();
}

}  // namespace reprise::shaders
