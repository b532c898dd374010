#include "shaders/copied_operand.h"

#include <utility>

#include "codegen/target/device_costs.h"

namespace reprise::shaders {

double copy_work(double count, int elements, int bytes) {
  constexpr double kIssue = 8;  // the part of a copy's price that its bytes do not change
  constexpr int kMost = 16;
  const double price = kIssue + (kGpuCosts.copy - kIssue) * bytes / kMost;
  return price * count / elements;
}

StageRing::StageRing(kernel::Builder& b, int stages, int size)
    : b_(b),
      stages_(stages),
      size_(size),
      oldest_(b.local("oldest", kernel::kI32)),
      newest_(b.local("newest", kernel::kI32)) {}

void StageRing::fill(const std::function<void(int number, Value place)>& copy) {
  for (int i = 0; i < ahead(); ++i) copy(i, {b_, b_.i32(int64_t{i} * size_)});
  b_.local_store(oldest_, b_.i32(0));
  b_.local_store(newest_, b_.i32(int64_t{ahead()} * size_));
}

StageRing::Places StageRing::await() {
  b_.copy_wait(static_cast<uint32_t>(ahead() - 1));
  b_.barrier();
  return {b_.local_load(oldest_), b_.local_load(newest_)};
}

void StageRing::advance(const Places& places) {
  b_.local_store(newest_, places.oldest);
  const Value next = places.oldest + size_;
  b_.local_store(oldest_, b_.select(next < b_.i32(int64_t{stages_} * size_), next, b_.i32(0)));
}

CopiedOperand::CopiedOperand(kernel::Builder& b, const Stage& stage, const Operand& operand,
                             const Side& side)
    : b_(b),
      stage_(stage),
      along_k_(stage.layout.along == 1),
      copied_(elements_of_copy(operand, stage.type)) {
  if (operand.packed) {
    // [N / columns][K][columns], with zeros past the last column.
    buffer_ = operand.packed->buffer;
    distance_ = b_.i32(side.elements);
    const Value tile = side.tile * side.elements * stage_.depth;
    add(side.elements, [&](Value element) { return std::pair(tile + element, Val{}); });
    return;
  }
  const PlainOperand& plain = *operand.plain;
  buffer_ = plain.buffer;
  distance_ = plain.along;
  add(side.elements, [&](Value element) {
    const Value at = side.first + element;
    const Value from = along_k_ ? min(at, side.count - 1) : at;
    return std::pair(plain.first + from * plain.across, along_k_ ? Val{} : below(at, side.count));
  });
}

void CopiedOperand::copy(Value first_k, Value end, Value stage) {
  const auto depth = b_.as_const(stage_.depth);
  const bool exact = depth && *depth % stage_.step == 0;  // all of the step is below `end`, or none
  const Value distance = first_k * distance_;
  for (const Chunk& c : chunks_) {
    const Value k = exact ? first_k : first_k + c.k;
    const Val all = b_.i32(copied_);
    const Val exist = along_k_ && !exact
                          ? below(k, end)
                          : Val{b_.select(k < end, c.exist ? c.exist : all, b_.i32(0))};
    b_.async_copy(buffer_, c.from + distance, stage_.shared, stage + c.to, copied_, exist);
  }
}

void CopiedOperand::copy_whole(Value first_k, Val exists, Value stage) {
  const Value distance = first_k * distance_;
  const Val all = b_.i32(copied_), none = b_.i32(0);
  for (const Chunk& c : chunks_)
    b_.async_copy(buffer_, c.from + distance, stage_.shared, stage + c.to, copied_,
                  b_.select(exists, c.exist ? c.exist : all, none));
}

/// How many of the elements of a copy from `at` on lie before `end`.
Val CopiedOperand::below(Value at, Value end) {
  // All of them or none, which costs less.
  const auto last = b_.as_const(end);
  const auto depth = b_.as_const(stage_.depth);
  const bool whole = along_k_ ? depth && *depth % copied_ == 0 : last && *last % copied_ == 0;
  if (whole) return b_.select(at < end, b_.i32(copied_), b_.i32(0));
  return b_.max(b_.min(end - at, b_.i32(copied_)), b_.i32(0));
}

/// Splits the chunks over the invocations. `place` gives the index of an element at k = 0, and
/// Chunk::exist.
void CopiedOperand::add(int elements, const Place& place) {
  const Value local = local_index(b_);
  const int invocations = static_cast<int>(stage_.workgroup);
  const int width = (along_k_ ? stage_.step : elements) / copied_;
  for (int first = 0; first < elements * stage_.step / copied_; first += invocations) {
    // The chunks of an invocation have one place in their lines, if these divide evenly.
    const bool even = invocations % width == 0;
    const Value n = even ? local : local + first;
    const Value line = n / width + (even ? first / width : 0), chunk = n % width * copied_;
    const Value element = along_k_ ? line : chunk, k = along_k_ ? chunk : line;
    const auto [from, exist] = place(element);
    const Value to = element * stage_.layout.across + k * stage_.layout.along + stage_.layout.base;
    chunks_.push_back({from + k * distance_, k, to, exist});
  }
}

}  // namespace reprise::shaders
