#include "codegen/lower/fuse/index_tests.h"

#include <utility>

#include "codegen/lower/group/group_key.h"
#include "codegen/lower/index_test.h"

namespace reprise::lower {

Status IndexTests::test(const graph::Graph& g, const Group& group) {
  if (!enabled_) return test_indices(g, group);
  std::string key = key_of(g, group).bytes;
  if (passed_.contains(key)) return {};
  RP_TRY(test_indices(g, group));
  passed_.insert(std::move(key));
  return {};
}

}  // namespace reprise::lower
