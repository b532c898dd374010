// Lowers groups once where they are equal, for all variants that answer what lowering asks alike.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/lower/lower.h"

namespace reprise::lower {

/// Threads may call lower() at once. The graph outlives it and does not change.
class LowerOnce {
 public:
  /// `enabled` false: every group by itself, which must give the same.
  LowerOnce(const graph::Graph& g, bool enabled) : g_(g), enabled_(enabled) {}
  bool enabled() const { return enabled_; }

  /// As lower::lower().
  Result<Lowered> lower(const Group& group, const Target& target, size_t choice = 0,
                        LoopForm form = LoopForm::Short);
  /// Names of kernels that read a value which their group's key lacks: a fault of the key. Such
  /// groups are lowered by themselves. Not while others call lower().
  const std::vector<std::string>& incomplete_keys() const { return incomplete_keys_; }

 private:
  struct Entry {
    TargetFacts asked;  // what lowering asked, with the answers
    Lowered lowered;
    std::shared_ptr<const GroupKey> key;  // of the group that was lowered
  };
  const Entry* find(const std::string& key, const Target& target) const;

  const graph::Graph& g_;
  bool enabled_;
  mutable std::mutex mutex_;
  size_t kernels_ = 0;
  std::vector<std::string> incomplete_keys_;
  /// By the group's key, choice and form. Entries stay where they are.
  std::unordered_map<std::string, std::deque<Entry>> entries_;
};

}  // namespace reprise::lower
