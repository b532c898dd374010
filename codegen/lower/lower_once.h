// Lowers groups for one target, equal ones once.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/lower/lower.h"

namespace reprise::lower {

/// Not thread-safe. The graph and the target outlive it, and the graph does not change.
class LowerOnce {
 public:
  /// `enabled` false: every group by itself, which must give the same.
  LowerOnce(const graph::Graph& g, const Target& target, bool enabled)
      : g_(g), target_(target), enabled_(enabled) {}

  /// As lower::lower().
  Result<Lowered> lower(const Group& group, size_t choice = 0, LoopForm form = LoopForm::Short);
  /// Names of kernels that read a value which their group's key lacks: a fault of the key. Such
  /// groups are lowered by themselves.
  const std::vector<std::string>& incomplete_keys() const { return incomplete_keys_; }

 private:
  struct Entry {
    Lowered lowered;
    std::vector<graph::ValueId> values;  // of the group that was lowered, as GroupKey has them
  };

  const graph::Graph& g_;
  const Target& target_;
  bool enabled_;
  std::vector<std::string> incomplete_keys_;
  std::unordered_map<std::string, Entry> entries_;  // by the group's key, choice and form
};

}  // namespace reprise::lower
