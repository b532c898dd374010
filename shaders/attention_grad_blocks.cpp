#include "shaders/attention_grad_blocks.h"

#include <cmath>

#include "codegen/target/device_costs.h"
#include "shaders/contraction.h"
#include "shaders/shared_blocks.h"

namespace reprise::shaders {

namespace {

constexpr int kGradRows = SharedBlocks::kRows, kOthers = SharedBlocks::kOthers;
constexpr int kGradOwn = SharedBlocks::kOwn, kGradSharers = SharedBlocks::kSharers;
constexpr int kGradWorkgroup = SharedBlocks::kWorkgroup;
constexpr int kGradFactors = 2;
/// The most sums of an invocation, which has 255 registers.
constexpr int kMaxSums = 128;

class GradBlocksWriter {
 public:
  explicit GradBlocksWriter(const AttentionGradWork& w)
      : w_(w),
        t_(w.tile),
        b_(w.grad.builder()),
        blocks_(
            b_, *w.results[0],
            {t_.depth, t_.chunk, t_.columns, w.origin.row, w.origin.column_tile * (t_.columns / 4)},
            [&](Value at) { return w.grad.row(at); },
            [&](Value vec) { return w.grad.column(vec); }) {
    const kernel::Type four = kernel::vec(kernel::kF32, 4);
    for (int f = 0; f < kGradFactors; ++f)
      products_.emplace_back(b_, f == 0 ? "pull" : "weight", four, kGradOwn, 1, std::nullopt);
    for (size_t i = 0; i < w.results.size(); ++i)
      sums_.emplace_back(b_, i == 0 ? "sum" : "second_sum", four, kGradOwn, blocks_.vecs(), 0);
    for (int r = 0; r < kGradOwn; ++r)
      rows_.push_back(w_.grad.row(w_.origin.row + (blocks_.own_rows() + r)));
  }

  Status write() {
    RP_TRY(w_.grad.blocks(w_.origin.row, kGradRows, kOthers, [&](Value first) -> Status {
      for (int f = 0; f < kGradFactors; ++f) RP_TRY(multiply(f, first));
      RP_TRY(products_to_weights(first));
      for (size_t i = 0; i < sums_.size(); ++i) RP_TRY(add(i, first));
      return {};
    }));
    for (size_t i = 0; i < sums_.size(); ++i) RP_TRY(store(i));
    return {};
  }

 private:
  bool whole() const { return w_.grad.whole_blocks(kOthers); }
  Val exists(Value number) { return number < w_.grad.other_count(); }

  Status multiply(int factor, Value first) {
    AttentionGrad& of = w_.grad;
    LocalGrid& products = products_[static_cast<size_t>(factor)];
    for (int r = 0; r < kGradOwn; ++r)
      products.store(r, 0, b_.constant(kernel::vec(kernel::kF32, 4), 0));
    return blocks_.add_products(
        products,
        [&](const Index& row, Value quad) { return of.row_at(factor, row, of.quad(quad)); },
        [&](Value other, Value quad) {
          return of.other_at(factor, of.other(first + other, kOthers), of.quad(quad));
        });
  }

  /// Replaces the products of the invocation's pairs by their pulls and weights, which are 0 past
  /// the end.
  Status products_to_weights(Value first) {
    std::vector<Value> numbers;
    std::vector<Index> others;
    for (int k = 0; k < kGradOwn; ++k) {
      numbers.push_back(first + (blocks_.own_others() + k));
      others.push_back(w_.grad.other(numbers.back(), kOthers));
    }
    for (int r = 0; r < kGradOwn; ++r) {
      const Value scores = products_[0].load(r), shares = products_[1].load(r);
      Values pulls, weights;
      for (int k = 0; k < kGradOwn; ++k) {
        const auto at = static_cast<size_t>(k);
        RP_ASSIGN(AttentionGrad::Weights w,
                  w_.grad.weights(rows_[static_cast<size_t>(r)], others[at], b_.extract(scores, k),
                                  b_.extract(shares, k)));
        if (!whole()) {
          w.pull = b_.select(exists(numbers[at]), w.pull, b_.f32(0));
          w.weight = b_.select(exists(numbers[at]), w.weight, b_.f32(0));
        }
        pulls.push_back(w.pull);
        weights.push_back(w.weight);
      }
      products_[0].store(r, 0, b_.compose(pulls));
      products_[1].store(r, 0, b_.compose(weights));
    }
    return {};
  }

  Status add(size_t result, Value first) {
    std::vector<Values> weights(kGradOwn);  // [other][row]
    for (int k = 0; k < kGradOwn; ++k) {
      for (int r = 0; r < kGradOwn; ++r)
        weights[static_cast<size_t>(k)].push_back(b_.extract(products_[result].load(r), k));
    }
    if (result > 0) b_.barrier();  // the weights of the result before have been multiplied
    blocks_.store_weights(weights);
    return blocks_.add_values(
        sums_[result], [&](Value other, const Index& column) -> Result<Values> {
          const Value number = first + other;
          RP_ASSIGN(Values four, w_.grad.columns_at(static_cast<int>(result),
                                                    w_.grad.other(number, kOthers), column));
          if (whole()) return four;
          for (Val& x : four) x = b_.select(exists(number), x, b_.f32(0));
          return four;
        });
  }

  Status store(size_t result) {
    ResultTile& to = *w_.results[result];
    const Value row = w_.origin.row + blocks_.own_rows();
    for (int v = 0; v < blocks_.vecs(); ++v) {
      const Value vec =
          w_.origin.column_tile * (t_.columns / 4) + (blocks_.sharer() + v * kGradSharers);
      const auto four = [&](int r) {
        const Value sums = sums_[result].load(r, v);
        const auto part = [&](int c) {
          return w_.grad.finished(static_cast<int>(result), b_.extract(sums, c));
        };
        return b_.compose({part(0), part(1), part(2), part(3)});
      };
      RP_TRY(to.guard_columns(vec, [&] {
        return to.guard_row(row, [&] { return store_rows(to, row, kGradOwn, vec, four); });
      }));
    }
    return {};
  }

  const AttentionGradWork& w_;
  const AttentionGradTile& t_;
  kernel::Builder& b_;
  SharedBlocks blocks_;
  std::vector<LocalGrid> products_, sums_;
  std::vector<Index> rows_;
};

}  // namespace

bool fits_attention_grad_blocks(const AttentionGradSize& size) {
  return size.head % 4 == 0;
}

AttentionGradTile attention_grad_blocks(const AttentionGradSize& size) {
  const int most = kMaxSums / kGradOwn / size.results() * kGradSharers;
  const int parts = (size.head + most - 1) / most;
  AttentionGradTile t;
  t.rows = kGradRows;
  t.others = kOthers;
  t.unit = Unit::Workgroup;
  t.workgroup = kGradWorkgroup;
  t.chunk = SharedBlocks::chunk_of(size.head);
  t.depth = size.head;
  t.columns = SharedBlocks::columns_of((size.head + parts - 1) / parts);
  t.per_invocation = t.columns / kGradSharers;
  t.fma = true;
  return t;
}

double attention_grad_blocks_time(const AttentionGradSize& size, const AttentionGradTile& t) {
  const GpuCosts& gpu = kGpuCosts;
  const double workgroups = size.batch * std::ceil(size.rows / kGradRows) *
                            std::ceil(static_cast<double>(size.head) / t.columns);
  const double chunks = kGradFactors * size.head / static_cast<double>(t.chunk);
  const double parts =
      size.results() * static_cast<double>(kOthers) / SharedBlocks::values_of(t.columns);
  const double columns = t.columns * size.results(), own = t.per_invocation * size.results();
  const double loads = (kGradFactors * size.head * (kGradRows + kOthers) + columns * kOthers) *
                       size.loads / 4 / kGradWorkgroup;
  const double shared_loads = kGradFactors * 2 * size.head + kOthers * (size.results() + own / 4.0);
  const double multiply_adds = kGradOwn * (kGradFactors * kGradOwn * size.head + kOthers * own);
  const double weights = kGradOwn * kGradOwn * (12 + size.score_flops);
  const double waits = chunks + parts + 1;  // times that a block waits for memory
  const double work = gpu.load * loads + gpu.shared_load * shared_loads + multiply_adds + weights +
                      2 * gpu.barrier * waits;
  const double blocks = std::ceil(size.others / kOthers);
  return gpu_time(workgroups, kGradWorkgroup, blocks * waits + gpu.ends, work / waits);
}

Status write_attention_grad_blocks(const AttentionGradWork& work) {
  return GradBlocksWriter(work).write();
}

}  // namespace reprise::shaders
