#include "shaders/block_operands.h"

namespace reprise::shaders {

BlockOperands::BlockOperands(const TileWork& work, int shared, BlockLayout a, BlockLayout b,
                             bool pairs)
    : w_(work),
      builder_(work.gemm.builder()),
      shared_(shared),
      element_{kernel::compute_type(builder_.shared_type(shared)), 1},
      pairs_(pairs),
      a_{a, true},
      b_{b, work.gemm.b_along_k()} {
  find_a();
  find_b();
}

/// How many neighbours of `count` vectors, of which a line of memory has `per_line`, an invocation
/// loads.
int BlockOperands::pair_size(int count, int per_line) const {
  const int invocations = static_cast<int>(w_.tile.workgroup);
  return pairs_ && per_line % 2 == 0 && count % (2 * invocations) == 0 ? 2 : 1;
}

/// Splits `count` pairs of vectors, or single ones, over the invocations. Calls fn once for each
/// pair of an invocation, with its number.
void BlockOperands::divide(int count, int pair, const std::function<void(Value)>& fn) {
  const Value local = local_index(builder_);
  const int invocations = static_cast<int>(w_.tile.workgroup);
  for (int first = 0; first < count / pair; first += invocations) fn(local + first);
}

BlockOperands::Vector BlockOperands::vector(const BlockLayout& layout, Value k, Value i,
                                            Value first_k) {
  Vector v;
  v.k = k;
  v.offset = i * layout.across + layout.base + first_k * layout.along;
  for (int n = 0; n < 4; ++n)
    v.loaded.push_back(builder_.local("loaded" + std::to_string(locals_++), element_));
  return v;
}

void BlockOperands::find_a() {
  const int quads = w_.tile.step / 4;
  const int count = w_.tile.rows * quads;
  const bool along = w_.gemm.a_along_k();
  const int pair = along && w_.gemm.whole_k_blocks() ? pair_size(count, quads) : 1;
  divide(count, pair, [&](Value n) {
    const Value first = along ? n % (quads / pair) : n / w_.tile.rows;
    const Value r = along ? n / (quads / pair) : n % w_.tile.rows;
    for (int p = 0; p < pair; ++p) {
      const Value quad = first * pair + p;
      Index row = w_.gemm.row(w_.origin.row + r);
      a_.vectors.push_back(vector(a_.layout, quad, r, quad * 4));
      a_.vectors.back().row = std::move(row);
    }
  });
}

void BlockOperands::find_b() {
  const auto add = [&](Column column, Vector v) {
    v.column = std::move(column);
    b_.vectors.push_back(std::move(v));
  };
  const Value tile = w_.origin.column_tile;
  if (b_.along_k) {
    const int quads = w_.tile.step / 4;
    const int count = w_.tile.columns * quads;
    const int pair = w_.gemm.whole_k_blocks() ? pair_size(count, quads) : 1;
    divide(count, pair, [&](Value n) {
      const Value first = n % (quads / pair), c = n / (quads / pair);
      for (int p = 0; p < pair; ++p) {
        const Value quad = first * pair + p;
        Column column = w_.gemm.column(tile * w_.tile.columns + c);
        add(std::move(column), vector(b_.layout, quad, c, quad * 4));
      }
    });
    return;
  }
  const int width = w_.tile.columns / 4;
  const int count = width * w_.tile.step;
  const int pair = w_.gemm.whole_columns() ? pair_size(count, width) : 1;
  divide(count, pair, [&](Value n) {
    const Value first = n % (width / pair), k = n / (width / pair);
    for (int p = 0; p < pair; ++p) {
      const Value v = first * pair + p;
      Column column = w_.gemm.column(tile * width + v);
      add(std::move(column), vector(b_.layout, k, v * 4, k));
    }
  });
}

/// The step that an iteration loads after step i, if that needs no branch: all steps are whole, or
/// K is known to have a whole one. The last iteration then loads a step again.
std::optional<Value> BlockOperands::next_step(Value i) {
  if (w_.gemm.whole_k_blocks()) return min(i + 1, w_.gemm.k_block_count() - 1);
  const auto k = builder_.as_const(w_.gemm.extent().k);
  if (!k || *k < w_.tile.step) return std::nullopt;
  const auto whole = static_cast<int64_t>(*k / w_.tile.step);
  return min(i, Value(builder_, builder_.i32(whole - 1)) - w_.gemm.first_k_block());
}

Status BlockOperands::loop(int size, const std::function<Status(Value at)>& multiply) {
  const Value last = w_.gemm.k_block_count() - 1;
  const bool whole = w_.gemm.whole_k_blocks();
  const auto first = [&]() -> Status {
    // A step that may not be whole is the last one; it comes first, and what follows it is whole.
    RP_TRY(load(whole ? Value(builder_, builder_.i32(0)) : last, whole));
    store(builder_.i32(0));
    return {};
  };
  return w_.gemm.k_blocks(first, [&](Value i) -> Status {
    builder_.barrier();
    const Value current = i % 2, other = (1 - current) * size;
    if (const auto next = next_step(i)) {
      RP_TRY(load(*next, true));
      RP_TRY(multiply(current * size));
      store(other);
      return {};
    }
    Status status;
    builder_.if_then(i < last, [&] { status = load(i, true); });
    RP_TRY(std::move(status));
    RP_TRY(multiply(current * size));
    builder_.if_then(i < last, [&] { store(other); });
    return {};
  });
}

Status BlockOperands::load(Value i, bool whole) {
  const Value block = w_.gemm.first_k_block() + i;
  for (const Operand* operand : {&a_, &b_}) {
    const int per_step = operand->along_k ? w_.tile.step / 4 : w_.tile.step;
    for (const Vector& v : operand->vectors) {
      const Value k = block * per_step + v.k;
      Result<Values> x = operand == &a_ ? w_.gemm.load_a_block(v.row, k, whole)
                                        : w_.gemm.load_b_block(v.column, k, whole);
      RP_ASSIGN(const Values four, std::move(x));
      for (size_t n = 0; n < 4; ++n)
        builder_.local_store(v.loaded[n], builder_.convert(four[n], element_.ty, true));
    }
  }
  return {};
}

void BlockOperands::store(Value offset) {
  for (const Operand* operand : {&a_, &b_}) {
    for (const Vector& v : operand->vectors) store_vector(*operand, offset + v.offset, v.loaded);
  }
}

void BlockOperands::store_vector(const Operand& operand, Value at, const std::vector<int>& loaded) {
  const auto element = [&](size_t i) { return builder_.local_load(loaded[i]); };
  const int between = operand.along_k ? operand.layout.along : operand.layout.across;
  if (between == 1) {
    const Val four = builder_.compose({element(0), element(1), element(2), element(3)});
    builder_.shared_store(shared_, at, four);
    return;
  }
  for (int i = 0; i < 4; ++i)
    builder_.shared_store(shared_, at + i * between, element(static_cast<size_t>(i)));
}

}  // namespace reprise::shaders
