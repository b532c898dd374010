#include "codegen/lower/fuse/index_tests.h"

#include <utility>

#include "codegen/lower/group/group_key.h"
#include "codegen/lower/index_test.h"

namespace reprise::lower {

Status IndexTests::test(const Group& group) {
  if (!enabled_) return test_indices(g_, group);
  std::string key = key_of(g_, group).bytes;
  if (passed_.contains(key)) return {};
  RP_TRY(test_indices(g_, group));
  passed_.insert(std::move(key));
  return {};
}

}  // namespace reprise::lower
