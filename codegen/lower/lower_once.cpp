#include "codegen/lower/lower_once.h"

#include <algorithm>

#include "codegen/lower/group_key.h"

namespace reprise::lower {

Result<Lowered> LowerOnce::lower(const Group& group, size_t choice, LoopForm form) {
  if (!enabled_) return lower::lower(g_, group, target_, choice, form);
  GroupKey key = key_of(g_, group);
  key.bytes += '#' + std::to_string(choice) + (form == LoopForm::Long ? "long" : "");
  const auto found = entries_.find(key.bytes);
  if (found == entries_.end()) {
    RP_ASSIGN(Lowered lowered, lower::lower(g_, group, target_, choice, form));
    lowered.number = entries_.size();
    entries_.emplace(std::move(key.bytes), Entry{lowered, std::move(key.values)});
    return lowered;
  }
  const Entry& equal = found->second;
  Lowered lowered = equal.lowered;
  for (LoweredBuffer& b : lowered.buffers) {
    const auto at = std::find(equal.values.begin(), equal.values.end(), b.value);
    if (at == equal.values.end()) {
      incomplete_keys_.push_back(kernel_name(group));
      return lower::lower(g_, group, target_, choice, form);
    }
    b.value = key.values[static_cast<size_t>(at - equal.values.begin())];
  }
  return lowered;
}

}  // namespace reprise::lower
