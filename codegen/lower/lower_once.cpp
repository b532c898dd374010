#include "codegen/lower/lower_once.h"

#include <algorithm>

#include "codegen/lower/group_key.h"

namespace reprise::lower {

const LowerOnce::Entry* LowerOnce::find(const std::string& key, const Target& target) const {
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(key);
  if (known == entries_.end()) return nullptr;
  const TargetFacts facts = target;
  const auto same = std::ranges::find_if(
      known->second, [&](const Entry& e) { return e.asked.answers_like(facts); });
  return same == known->second.end() ? nullptr : &*same;
}

Result<Lowered> LowerOnce::lower(const Group& group, const Target& target, size_t choice,
                                 LoopForm form) {
  const TargetFacts facts = target;
  if (!enabled_) return lower::lower(g_, group, facts, choice, form);
  const std::shared_ptr<const GroupKey> key =
      group.key ? group.key : std::make_shared<const GroupKey>(key_of(g_, group));
  std::string variation = std::to_string(choice) + (form == LoopForm::Long ? "long#" : "#");
  variation += key->bytes;
  const Entry* equal = find(variation, target);
  if (equal == nullptr) {
    RP_ASSIGN(Lowered lowered, lower::lower(g_, group, facts, choice, form));
    const std::lock_guard lock(mutex_);
    lowered.number = kernels_++;
    entries_[std::move(variation)].push_back({facts, lowered, key});
    return lowered;
  }
  Lowered lowered = equal->lowered;
  for (LoweredBuffer& b : lowered.buffers) {
    const std::vector<graph::ValueId>& values = equal->key->values;
    const auto at = std::find(values.begin(), values.end(), b.value);
    if (at == values.end()) {
      const std::lock_guard lock(mutex_);
      incomplete_keys_.push_back(kernel_name(group));
      return lower::lower(g_, group, facts, choice, form);
    }
    b.value = key->values[static_cast<size_t>(at - values.begin())];
  }
  return lowered;
}

}  // namespace reprise::lower
