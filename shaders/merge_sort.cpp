#include "shaders/merge_sort.h"

#include <limits>
#include <utility>

namespace reprise::shaders {

using kernel::Builder;
using kernel::ScalarOp;
using kernel::Ty;

Value sort_key(Builder& b, Val element, bool descending) {
  Value key(b, element);
  const Ty type = b.type(element).ty;
  if (type == Ty::U32) {
    const Value bits = b.bitcast(element, kernel::kI32);
    key = b.scalar_op(ScalarOp::BitXor, {bits, b.i32(std::numeric_limits<int32_t>::min())});
  } else if (type == Ty::F32 || type == Ty::F64) {
    const bool wide = type == Ty::F64;
    const kernel::Type integer{wide ? Ty::I64 : Ty::I32, 1};
    const auto number = [&](uint64_t bits) { return b.constant_bits(integer, bits); };
    const uint64_t largest =
        wide ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int32_t>::max();
    const Value bits = b.bitcast(element, integer);
    const Value magnitude = b.scalar_op(ScalarOp::BitAnd, {bits, number(largest)});
    const Value infinity = number(wide ? 0x7ff0000000000000 : 0x7f800000);
    key = b.select(b.lt(bits, number(0)), b.sub(number(0), magnitude), magnitude);
    key = b.select(b.lt(infinity, magnitude), number(largest), key);
  }
  return descending ? b.scalar_op(ScalarOp::BitNot, {key}) : key;
}

namespace {

struct Element {
  Value key, position;
};

/// Puts the element that comes first into `a`.
void compare_exchange(Builder& b, Element& a, Element& other) {
  const Value equal = b.eq(a.key, other.key);
  const Value swap = b.select(equal, other.position < a.position, other.key < a.key);
  const auto exchange = [&](Value& x, Value& y) {
    const Value first = b.select(swap, y, x);
    y = b.select(swap, x, y);
    x = first;
  };
  exchange(a.key, other.key);
  exchange(a.position, other.position);
}

/// Batcher's odd-even merge sort of eight elements (Knuth, The Art of Computer Programming 3,
/// 5.3.4).
constexpr std::array<std::pair<int, int>, 19> kNetwork{{{0, 1},
                                                        {2, 3},
                                                        {4, 5},
                                                        {6, 7},
                                                        {0, 2},
                                                        {1, 3},
                                                        {4, 6},
                                                        {5, 7},
                                                        {1, 2},
                                                        {5, 6},
                                                        {0, 4},
                                                        {1, 5},
                                                        {2, 6},
                                                        {3, 7},
                                                        {2, 4},
                                                        {3, 5},
                                                        {1, 2},
                                                        {3, 4},
                                                        {5, 6}}};

}  // namespace

void sort_run(Builder& b, const UnsortedRun& run, const SortBuffers& to, Value at, Value kept) {
  // Elements that do not exist come last: their keys and positions are greater than all others.
  const kernel::Type type = b.type(run.keys[0]);
  const int64_t largest = type.ty == Ty::I64 ? std::numeric_limits<int64_t>::max()
                                             : std::numeric_limits<int32_t>::max();
  std::array<Element, kSortedRun> elements;
  for (int i = 0; i < kSortedRun; ++i) {
    const Value last = type.ty == Ty::I64 ? b.i64(largest) : b.i32(largest);
    const auto n = static_cast<size_t>(i);
    const Value exists = b.i32(i) < run.count;
    elements[n] = {b.select(exists, run.keys[n], last),
                   b.select(exists, run.positions[n], b.i32(std::numeric_limits<int32_t>::max()))};
  }
  for (const auto& [i, j] : kNetwork)
    compare_exchange(b, elements[static_cast<size_t>(i)], elements[static_cast<size_t>(j)]);
  for (int i = 0; i < kSortedRun; ++i) {
    const Element& e = elements[static_cast<size_t>(i)];
    b.if_then(b.i32(i) < kept, [&] {
      b.store(to.keys, at + i, e.key);
      b.store(to.positions, at + i, e.position);
    });
  }
}

namespace {

/// The key of element i of a run, or of its nearest element if it has no such element.
Value key_of(Builder& b, const SortBuffers& from, const SortedRun& run, Value i) {
  const Value nearest = b.max(min(i, run.count - 1), b.i32(0));
  return b.load(from.keys, run.begin + nearest);
}

/// How many elements of the left run are among the first part.first of the result.
Status find_split(Builder& b, const MergePart& part, const SortLoop& loop, int low) {
  constexpr int64_t kMostSteps = 32;  // halve any range of 32-bit numbers to nothing
  const int high = b.local("high", kernel::kI32);
  b.local_store(low, b.max(part.first - part.right.count, b.i32(0)));
  b.local_store(high, min(part.first, part.left.count));
  return loop(part.steps, kMostSteps, [&](Value) {
    const Value begin(b, b.local_load(low)), end(b, b.local_load(high));
    const Value middle = (begin + end) / 2;
    const Value left = key_of(b, part.from, part.left, middle);
    const Value right = key_of(b, part.from, part.right, part.first - 1 - middle);
    const Value left_first = b.le(left, right);
    const Value searching = begin < end;
    b.local_store(low, b.select(b.logical_and(searching, left_first), middle + 1, begin));
    b.local_store(high, b.select(b.logical_and(searching, b.logical_not(left_first)), middle, end));
    return Status();
  });
}

}  // namespace

Status merge_part(Builder& b, const MergePart& part, const SortLoop& loop) {
  const int taken = b.local("taken", kernel::kI32);  // elements of the left run
  RP_TRY(find_split(b, part, loop, taken));
  return loop(b.i32(kMergedElements), kMergedElements, [&](Value n) {
    const Value at = part.first + n;
    const Value i(b, b.local_load(taken));
    const Value j = at - i;
    const Value left = key_of(b, part.from, part.left, i);
    const Value right = key_of(b, part.from, part.right, j);
    const Value none_right = b.le(part.right.count, j);
    const Value take_left =
        b.logical_and(i < part.left.count, b.logical_or(none_right, b.le(left, right)));
    b.if_then(at < part.count, [&] {
      const Value from = b.select(take_left, part.left.begin + i, part.right.begin + j);
      b.store(part.to.keys, part.at + at, b.select(take_left, left, right));
      b.store(part.to.positions, part.at + at, b.load(part.from.positions, from));
    });
    b.local_store(taken, b.select(take_left, i + 1, i));
    return Status();
  });
}

}  // namespace reprise::shaders
