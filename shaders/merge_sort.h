// Kernel templates that sort lines by merging. The first launch sorts runs of neighbouring
// elements. Each further launch merges pairs of neighbouring runs, until one run is the whole line.
// If only the first elements of the sorted line are wanted, no run keeps more of them.
//
// An element is a key and its position in the line. Keys ascend; elements with equal keys stay in
// the order of their positions. The invocations that merge two runs divide the result evenly: each
// finds by binary search where its part begins in both runs (Green, McColl and Bader, "GPU Merge
// Path", ICS 2012).
#pragma once

#include <array>
#include <functional>

#include "codegen/kernel/build/builder.h"

namespace reprise::shaders {

using kernel::Val;
using kernel::Value;

inline constexpr int kSortedRun = 8;       // elements that an invocation sorts
inline constexpr int kMergedElements = 8;  // elements of the result that an invocation merges

/// An integer that orders the elements: less for elements that come first. Floats are F32 or F64,
/// whose keys are I64. NaN counts as the largest number, and zeros of either sign are equal.
Value sort_key(kernel::Builder& b, Val element, bool descending);

/// Two buffers with the keys and the positions of elements.
struct SortBuffers {
  int keys = -1, positions = -1;
};

/// Up to kSortedRun elements of a line, with ascending positions.
struct UnsortedRun {
  std::array<Value, kSortedRun> keys, positions;
  Value count;  // how many there are; further ones are ignored
};
/// Sorts a run and stores its first `kept` elements at index `at`.
void sort_run(kernel::Builder& b, const UnsortedRun& run, const SortBuffers& to, Value at,
              Value kept);

/// A sorted run in memory. If it is empty, `begin` must still be the index of an element.
struct SortedRun {
  Value begin;  // index of its first element
  Value count;
};

/// An invocation's part of the merge of two runs, of which the left one comes first in the line.
struct MergePart {
  SortBuffers from, to;
  SortedRun left, right;
  Value first;  // the number of the part's first element in the result
  Value count;  // elements of the result that are kept; the part has none beyond
  Value at;     // where the result begins
  Value steps;  // halvings of the left run until nothing is left
};
/// Calls the body with 0, 1, ... up to `count`, which is at most `most`.
using SortLoop =
    std::function<Status(Value count, int64_t most, const std::function<Status(Value)>& body)>;
Status merge_part(kernel::Builder& b, const MergePart& part, const SortLoop& loop);

}  // namespace reprise::shaders
