#include "shaders/block_operands.h"

namespace reprise::shaders {

using kernel::ScalarOp;
using kernel::Ty;

bool matrix_b_along_k(Gemm& gemm) {
  if (gemm.b_along_k()) return true;
  const std::optional<PlainOperand> plain = gemm.b().plain;
  return plain && plain->divisor % 4 != 0;
}

void OperandVectors::locate() {
  if (side_ == Side::B && along_k_ && !gemm_.b_along_k()) elements_ = gemm_.b().plain;
}

OperandVectors::Line OperandVectors::line(Value number) {
  if (side_ == Side::A) return {gemm_.row(number)};
  return {{}, elements_ ? Column{number, {}} : gemm_.column(number)};
}

Values OperandVectors::load_elements(Value column, Value quad, bool whole) {
  const GemmExtent extent = gemm_.extent();
  const Value at = elements_->first + min(column, extent.n - 1) * elements_->across;
  Values four;
  for (int i = 0; i < 4; ++i) {
    const Value k = quad * 4 + i;
    const Value from = at + (whole ? k : min(k, extent.k - 1)) * elements_->along;
    const Val x = b_.convert(b_.load(elements_->buffer, from), Ty::F32);
    four.push_back(whole ? x : Val{b_.select(k < extent.k, x, b_.f32(0))});
  }
  return four;
}

Result<Values> OperandVectors::load_numbers(const Line& line, Value k, bool whole) {
  if (side_ == Side::A) return gemm_.load_a_block(line.row, k, whole);
  if (elements_) return load_elements(line.column.vec, k, whole);
  return gemm_.load_b_block(line.column, k, whole);
}

Result<Values> OperandVectors::load(const Line& line, Value k, bool whole, Ty type) {
  RP_ASSIGN(Values four, load_numbers(line, k, whole));
  const bool rounds = side_ == Side::B && gemm_.rounds_b();
  for (Val& x : four) {
    if (rounds && type == Ty::BF16) x = b_.scalar_op(ScalarOp::RoundBF16, {x});
    x = b_.convert(x, kernel::compute_type(type), !rounds);
  }
  return four;
}

BlockOperands::BlockOperands(const TileWork& work, int shared, const std::optional<BlockLayout>& a,
                             const std::optional<BlockLayout>& b, bool pairs)
    : w_(work),
      builder_(work.gemm.builder()),
      shared_(shared),
      element_{kernel::compute_type(builder_.shared_type(shared)), 1},
      pairs_(pairs) {
  using Side = OperandVectors::Side;
  if (a) {
    a_.emplace(Operand{*a, {w_.gemm, Side::A, true}});
    find_a();
  }
  if (b) {
    b_.emplace(Operand{*b, {w_.gemm, Side::B, w_.gemm.b_along_k() || b->along == 1}});
    b_->source.locate();
    find_b();
  }
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

/// The vector of a line, with number i in the tile, whose k within the step is given.
BlockOperands::Vector BlockOperands::vector(const Operand& operand, OperandVectors::Line line,
                                            Value k, Value i) {
  const BlockLayout& layout = operand.layout;
  const Value first_k = operand.source.along_k() ? k * 4 : k;
  Vector v{std::move(line), k, i * layout.across + layout.base + first_k * layout.along};
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
    for (int p = 0; p < pair; ++p)
      a_->vectors.push_back(vector(*a_, a_->source.line(w_.origin.row + r), first * pair + p, r));
  });
}

void BlockOperands::find_b() {
  const Value tile = w_.origin.column_tile;
  if (b_->source.along_k()) {
    const int quads = w_.tile.step / 4;
    const int count = w_.tile.columns * quads;
    const int pair = w_.gemm.whole_k_blocks() ? pair_size(count, quads) : 1;
    divide(count, pair, [&](Value n) {
      const Value first = n % (quads / pair), c = n / (quads / pair);
      for (int p = 0; p < pair; ++p)
        b_->vectors.push_back(
            vector(*b_, b_->source.line(tile * w_.tile.columns + c), first * pair + p, c));
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
      b_->vectors.push_back(vector(*b_, b_->source.line(tile * width + v), k, v * 4));
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

Status BlockOperands::begin() {
  // A step that may not be whole is the last one; it comes first, and what follows it is whole.
  const bool whole = w_.gemm.whole_k_blocks();
  RP_TRY(load(whole ? Value(builder_, builder_.i32(0)) : w_.gemm.k_block_count() - 1, whole));
  store(builder_.i32(0));
  return {};
}

Status BlockOperands::advance(Value i, Value other, const std::function<Status()>& multiply) {
  if (const auto next = next_step(i)) {
    RP_TRY(load(*next, true));
    RP_TRY(multiply());
    store(other);
    return {};
  }
  const Value last = w_.gemm.k_block_count() - 1;
  Status status;
  builder_.if_then(i < last, [&] { status = load(i, true); });
  RP_TRY(std::move(status));
  RP_TRY(multiply());
  builder_.if_then(i < last, [&] { store(other); });
  return {};
}

Status BlockOperands::loop(int size, const std::function<Status(Value at)>& multiply) {
  return w_.gemm.k_blocks([this] { return begin(); },
                          [&](Value i) -> Status {
                            builder_.barrier();
                            const Value current = i % 2;
                            return advance(i, (1 - current) * size,
                                           [&] { return multiply(current * size); });
                          });
}

Status BlockOperands::load(Value i, bool whole) {
  const Value block = w_.gemm.first_k_block() + i;
  for (auto* operand : {&a_, &b_}) {
    if (!*operand) continue;
    OperandVectors& source = (*operand)->source;
    const int per_step = source.along_k() ? w_.tile.step / 4 : w_.tile.step;
    for (const Vector& v : (*operand)->vectors) {
      RP_ASSIGN(const Values four,
                source.load(v.line, block * per_step + v.k, whole, builder_.shared_type(shared_)));
      for (size_t n = 0; n < 4; ++n) builder_.local_store(v.loaded[n], four[n]);
    }
  }
  return {};
}

void BlockOperands::store(Value offset) {
  for (const auto* operand : {&a_, &b_}) {
    if (!*operand) continue;
    for (const Vector& v : (*operand)->vectors)
      store_vector(**operand, offset + v.offset, v.loaded);
  }
}

void BlockOperands::store_vector(const Operand& operand, Value at, const std::vector<int>& loaded) {
  const auto element = [&](size_t i) { return builder_.local_load(loaded[i]); };
  const int between = operand.source.along_k() ? operand.layout.along : operand.layout.across;
  if (between == 1) {
    const Val four = builder_.compose({element(0), element(1), element(2), element(3)});
    builder_.shared_store(shared_, at, four);
    return;
  }
  for (int i = 0; i < 4; ++i)
    builder_.shared_store(shared_, at + i * between, element(static_cast<size_t>(i)));
}

}  // namespace reprise::shaders
