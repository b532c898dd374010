#include "runtime/platform/library.h"

namespace reprise::platform {

Library Library::open_first(std::span<const std::string> names) {
  Library out;
  for (const std::string& name : names) {
    Library next = open(name);
    if (next) return next;
    if (out.error_.empty()) out.error_ = next.error_;
  }
  return out;
}

}  // namespace reprise::platform
