#include "shaders/shared_blocks.h"

namespace reprise::shaders {

using kernel::Ty;

namespace {

constexpr int kBlockPad = 4;  // floats between lines, for banks
constexpr int kRowLine = SharedBlocks::kRows + kBlockPad,
              kOtherLine = SharedBlocks::kOthers + kBlockPad;
constexpr int kBlockChunk = 16;  // most positions of the head at once
constexpr int kBlock =
    kBlockChunk * (kRowLine + kOtherLine);  // floats; also holds maxima, and values
constexpr int kBlockUnrolled = 4;
static_assert(4 * (kBlock + SharedBlocks::kOthers * kRowLine) <= 16384);
static_assert(SharedBlocks::kSharers * kRowLine <= kBlock);

}  // namespace

int SharedBlocks::chunk_of(int depth) {
  for (const int chunk : {kBlockChunk, 8}) {
    if (depth % chunk == 0) return chunk;
  }
  return 4;
}

int SharedBlocks::columns_of(int columns) {
  constexpr int kStep = 4 * kSharers;
  return (columns + kStep - 1) / kStep * kStep;
}

int SharedBlocks::values_of(int columns) {
  for (const int values : {16, 8}) {
    if (values * (columns + kBlockPad) <= kBlock) return values;
  }
  return 4;
}

SharedBlocks::SharedBlocks(kernel::Builder& b, ResultTile& result, Shape shape, const Find& row,
                           const Find& column)
    : b_(b),
      result_(result),
      shape_(shape),
      local_(local_index(b)),
      own_rows_(local_ / kSharers * kOwn),
      sharer_(local_ % kSharers),
      block_(b.shared("block", Ty::F32, kBlock)),
      weights_(b.shared("weights", Ty::F32, kOthers * kRowLine)) {
  const int quads = shape_.chunk / 4, width = shape_.columns / 4;
  divide(kRows * quads, [&](Value n, Val) -> Status {
    rows_.push_back(row(shape_.first_row + n / quads));
    return {};
  });
  divide(width * values_of(shape_.columns), [&](Value n, Val) -> Status {
    columns_.push_back(column(shape_.first_vec + n % width));
    return {};
  });
}

/// Splits `count` vectors over the invocations. Calls fn for each of an invocation's, with its
/// number and, if not every invocation has one, whether this one does.
void SharedBlocks::divide(int count, const std::function<Status(Value n, Val has)>& fn) {
  for (int first = 0; first < count; first += kWorkgroup) {
    const bool all = first + kWorkgroup <= count;
    const Value n = local_ + first;
    const Status s = fn(all ? n : min(n, count - 1), all ? Val{} : n < b_.i32(count));
    if (status_.ok()) status_ = s;
  }
}

void SharedBlocks::where(Val has, const std::function<void()>& store) {
  if (has) {
    b_.if_then(has, store);
  } else {
    store();
  }
}

/// Stores four positions of a row (or another one) as a column of a block, so that neighbours of a
/// line are rows (or others).
void SharedBlocks::store_column(Value at, int line, const Values& four, Val has) {
  where(has, [&] {
    for (int i = 0; i < 4; ++i)
      b_.shared_store(block_, at + i * line, four[static_cast<size_t>(i)]);
  });
}

Status SharedBlocks::load_chunk(Value chunk, const LoadRow& load_row, const LoadOther& load_other) {
  const int quads = shape_.chunk / 4;
  size_t next = 0;
  divide(kRows * quads, [&](Value n, Val has) -> Status {
    RP_ASSIGN(const Values four, load_row(rows_[next++], chunk * quads + n % quads));
    store_column(n % quads * (4 * kRowLine) + n / quads, kRowLine, four, has);
    return {};
  });
  divide(kOthers * quads, [&](Value n, Val has) -> Status {
    RP_ASSIGN(const Values four, load_other(n / quads, chunk * quads + n % quads));
    store_column(n % quads * (4 * kOtherLine) + n / quads + shape_.chunk * kRowLine, kOtherLine,
                 four, has);
    return {};
  });
  return status_;
}

/// Adds to sums(row, vector) the products of four rows, at line `a` of `left`, and of the vectors
/// of four columns at `right`.
void SharedBlocks::multiply(LocalGrid& sums, int left, Value a, int right, Value b, int stride) {
  const Value xs{b_, b_.shared_load(left, a, 4)};
  for (int v = 0; v < sums.columns(); ++v) {
    const Value y{b_, b_.shared_load(right, b + v * stride, 4)};
    for (int r = 0; r < kOwn; ++r)
      sums.store(r, v, b_.fma(b_.splat(b_.extract(xs, r), 4), y, sums.load(r, v)));
  }
}

Status SharedBlocks::add_products(LocalGrid& sums, const LoadRow& load_row,
                                  const LoadOther& load_other) {
  const int chunks = shape_.depth / shape_.chunk;
  return result_.loop(b_.i32(chunks), chunks, [&](Value chunk) -> Status {
    b_.barrier();
    RP_TRY(load_chunk(chunk, load_row, load_other));
    b_.barrier();
    const int loops = shape_.chunk / kBlockUnrolled;
    return result_.loop(b_.i32(loops), loops, [&](Value i) -> Status {
      for (int n = 0; n < kBlockUnrolled; ++n) {
        const Value d = i * kBlockUnrolled + n;
        multiply(sums, block_, d * kRowLine + own_rows_, block_,
                 d * kOtherLine + sharer_ * kOwn + shape_.chunk * kRowLine, 0);
      }
      return {};
    });
  });
}

void SharedBlocks::store_weights(const std::vector<Values>& weights) {
  for (int k = 0; k < kOwn; ++k) {
    b_.shared_store(weights_, (sharer_ * kOwn + k) * kRowLine + own_rows_,
                    b_.compose(weights[static_cast<size_t>(k)]));
  }
}

Status SharedBlocks::load_part(Value part, const LoadValue& load) {
  const int width = shape_.columns / 4, line = shape_.columns + kBlockPad;
  const int values = values_of(shape_.columns);
  size_t next = 0;
  divide(width * values, [&](Value n, Val has) -> Status {
    RP_ASSIGN(const Values four, load(part * values + n / width, columns_[next++]));
    where(has,
          [&] { b_.shared_store(block_, n / width * line + n % width * 4, b_.compose(four)); });
    return {};
  });
  return status_;
}

Status SharedBlocks::add_values(LocalGrid& sums, const LoadValue& load) {
  const int values = values_of(shape_.columns), parts = kOthers / values;
  const int line = shape_.columns + kBlockPad;
  return result_.loop(b_.i32(parts), parts, [&](Value part) -> Status {
    b_.barrier();
    RP_TRY(load_part(part, load));
    b_.barrier();
    const int loops = values / kBlockUnrolled;
    return result_.loop(b_.i32(loops), loops, [&](Value i) -> Status {
      for (int n = 0; n < kBlockUnrolled; ++n) {
        const Value other = i * kBlockUnrolled + n;
        multiply(sums, weights_, (part * values + other) * kRowLine + own_rows_, block_,
                 other * line + sharer_ * 4, 4 * kSharers);
      }
      return {};
    });
  });
}

Value SharedBlocks::over_sharers(const Values& own, const Combine& both) {
  b_.barrier();  // what the block held has been multiplied
  b_.shared_store(block_, sharer_ * kRowLine + own_rows_, b_.compose(own));
  b_.barrier();
  Value all{b_, b_.shared_load(block_, own_rows_, 4)};
  for (int s = 1; s < kSharers; ++s)
    all = both(all, Value{b_, b_.shared_load(block_, own_rows_ + s * kRowLine, 4)});
  return all;
}

}  // namespace reprise::shaders
