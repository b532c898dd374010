// The index tests of one graph. Fusion tests the groups of equal layers, and asks for the devices
// of several variants, and for changed copies of the graph, about the same groups.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_set>

#include "codegen/lower/group/group.h"

namespace reprise::lower {

/// test_indices(), once for all groups with equal keys (group_key.h).
class IndexTests {
 public:
  /// If `enabled` is false, every group is tested by itself, with the same result.
  explicit IndexTests(bool enabled = true) : enabled_(enabled) {}
  /// All graphs must have the same symbols and the same guards.
  Status test(const graph::Graph& g, const Group& group);
  /// How many groups, of those with equal keys one, have passed.
  size_t passed() const { return passed_.size(); }

 private:
  bool enabled_;
  /// The keys of groups that passed. Why others failed names their own values.
  std::unordered_set<std::string> passed_;
};

}  // namespace reprise::lower
