#include "apps/common/launch_bytes.h"

#include <map>

namespace reprise::app {

int64_t bytes_moved(const plan::Plan& p, const plan::Launch& launch, bool written) {
  int64_t total = 0;
  std::map<plan::BufferId, bool> seen;
  for (size_t i = 0; i < launch.buffers.size(); ++i) {
    if (launch.writes[i] != written || seen[launch.buffers[i]]) continue;
    seen[launch.buffers[i]] = true;
    const plan::Buffer& b = p.buffers[launch.buffers[i]];
    const Expr count = element_count(b.shape);
    if (!count.is_const()) return -1;
    total += count.value() * static_cast<int64_t>(size_of(b.dtype));
  }
  return total;
}

}  // namespace reprise::app
