#include "codegen/lower/lower_once.h"

#include <algorithm>

#include "codegen/lower/group/group_key.h"

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

namespace {

/// Replaces values `from` by the values `to` of an equal group; false if one is not in `from`.
bool exchange_values(Lowered& lowered, const std::vector<graph::ValueId>& from,
                     const std::vector<graph::ValueId>& to) {
  const auto exchange = [&](graph::ValueId& v) {
    if (v == graph::kNone) return true;
    const auto at = std::find(from.begin(), from.end(), v);
    if (at == from.end()) return false;
    v = to[static_cast<size_t>(at - from.begin())];
    return true;
  };
  for (ScratchBuffer& s : lowered.scratch) {
    if (!exchange(s.of)) return false;
  }
  for (LoweredLaunch& launch : lowered.launches) {
    for (LoweredBuffer& b : launch.buffers) {
      if (!exchange(b.value)) return false;
    }
  }
  return true;
}

}  // namespace

std::shared_ptr<const GroupKey> LowerOnce::shared_key(const Group& group) const {
  return group.key ? group.key : std::make_shared<const GroupKey>(key_of(g_, group));
}

Result<const LowerOnce::Entry*> LowerOnce::entry_of(const Group& group,
                                                    const std::shared_ptr<const GroupKey>& key,
                                                    const Target& target, size_t choice,
                                                    LoopForm form) {
  const TargetFacts facts = target;
  std::string variation = std::to_string(choice) + (form == LoopForm::Long ? "long#" : "#");
  variation += key->bytes;
  if (const Entry* equal = find(variation, target)) return equal;
  RP_ASSIGN(Lowered lowered, lower::lower(g_, group, facts, choice, form));
  const std::lock_guard lock(mutex_);
  for (LoweredLaunch& launch : lowered.launches) launch.number = kernels_++;
  std::deque<Entry>& entries = entries_[std::move(variation)];
  entries.push_back({facts, std::move(lowered), key});
  return &entries.back();
}

Result<const Lowered*> LowerOnce::kernels_of(const Group& group, const Target& target,
                                             size_t choice, LoopForm form) {
  RP_ASSIGN(const Entry* const entry, entry_of(group, shared_key(group), target, choice, form));
  return &entry->lowered;
}

Result<Lowered> LowerOnce::lower(const Group& group, const Target& target, size_t choice,
                                 LoopForm form) {
  if (!enabled_) return lower::lower(g_, group, target, choice, form);
  const std::shared_ptr<const GroupKey> key = shared_key(group);
  RP_ASSIGN(const Entry* const equal, entry_of(group, key, target, choice, form));
  Lowered lowered = equal->lowered;
  if (equal->key->values == key->values) return lowered;
  if (exchange_values(lowered, equal->key->values, key->values)) return lowered;
  const std::lock_guard lock(mutex_);
  incomplete_keys_.push_back(kernel_name(group));
  return lower::lower(g_, group, target, choice, form);
}

}  // namespace reprise::lower
