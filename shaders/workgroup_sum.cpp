#include "shaders/workgroup_sum.h"

#include <algorithm>

namespace reprise::shaders {

namespace {
constexpr int kRadix = 8;  // values that an invocation combines between two barriers
}  // namespace

WorkgroupSum::WorkgroupSum(kernel::Builder& b, int invocations, int width)
    : b_(b),
      invocations_(invocations),
      width_(width),
      shared_(b.shared("team", kernel::Ty::F32, static_cast<uint32_t>(floats(invocations, width)))),
      local_(local_index(b)) {}

void WorkgroupSum::combine(int count, const std::function<Value(int i)>& value,
                           const Combine& both) {
  // Line i holds the vector of invocation i; a float more than the vector avoids bank conflicts.
  const int line = width_ + 1;
  b_.barrier();  // the results of the last call have been loaded
  for (int i = 0; i < count; ++i) b_.shared_store(shared_, local_ * line + i, value(i));
  // In each round, `radix` neighbouring lines of those that are left become one. An invocation
  // takes one column of them, and no other invocation reads or writes it.
  for (int lines = invocations_, distance = 1; lines > 1;) {
    const int radix = std::min(kRadix, lines);
    const int left = lines / radix;
    const int tasks = left * count;
    b_.barrier();
    for (int first = 0; first < tasks; first += invocations_) {
      const Value task = local_ + first;
      const auto one = [&] {
        const Value at = task / count * (radix * distance * line) + task % count;
        Value total{b_, b_.shared_load(shared_, at)};
        for (int n = 1; n < radix; ++n)
          total = both(total, {b_, b_.shared_load(shared_, at + n * distance * line)});
        b_.shared_store(shared_, at, total);
      };
      if (tasks - first >= invocations_) {
        one();
      } else {
        b_.if_then(task < b_.i32(tasks), one);
      }
    }
    lines = left;
    distance *= radix;
  }
  b_.barrier();
}

Value WorkgroupSum::result(Val i) {
  return {b_, b_.shared_load(shared_, i)};
}

}  // namespace reprise::shaders
