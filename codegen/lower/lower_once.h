// Lowers equal groups once, for all variants whose devices answer lowering's questions alike.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/lower/lower.h"

namespace reprise::lower {

/// Threads may call lower() concurrently. The graph must outlive this and must not change.
class LowerOnce {
 public:
  /// If `enabled` is false, every group is lowered by itself, with the same result.
  LowerOnce(const graph::Graph& g, bool enabled) : g_(g), enabled_(enabled) {}
  bool enabled() const { return enabled_; }

  /// See lower::lower(). The kernels of an equal group of the same graph, in whose values its
  /// buffers may be; valid as long as this.
  Result<const Lowered*> kernels_of(const Group& group, const Target& target, size_t choice = 0,
                                    LoopForm form = LoopForm::Short);
  Result<Lowered> lower(const Group& group, const Target& target, size_t choice = 0,
                        LoopForm form = LoopForm::Short);
  /// Names of kernels that read a value which their group's key lacks, which is a fault of the key.
  /// Such groups are lowered by themselves. Do not call this while other threads call lower().
  const std::vector<std::string>& incomplete_keys() const { return incomplete_keys_; }

 private:
  struct Entry {
    TargetFacts asked;  // the questions that lowering asked, with the answers
    Lowered lowered;
    std::shared_ptr<const GroupKey> key;  // of the group that was lowered
  };
  std::shared_ptr<const GroupKey> shared_key(const Group& group) const;
  const Entry* find(const std::string& key, const Target& target) const;
  Result<const Entry*> entry_of(const Group& group, const std::shared_ptr<const GroupKey>& key,
                                const Target& target, size_t choice, LoopForm form);

  const graph::Graph& g_;
  bool enabled_;
  mutable std::mutex mutex_;
  size_t kernels_ = 0;
  std::vector<std::string> incomplete_keys_;
  /// By the group's key, choice and form. A deque, as pointers to entries must stay valid.
  std::unordered_map<std::string, std::deque<Entry>> entries_;
};

}  // namespace reprise::lower
