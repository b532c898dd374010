// The branch of an If whose types do not fit.
#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

KernelResult invalid_branch(const Call& c) {
  return invalid_input(c.attrs.get_string("message", "this branch is invalid"));
}

constexpr Entry kInvalidBranchTable[] = {{"InvalidBranch", invalid_branch}};

}  // namespace

Table invalid_branch_table() {
  return kInvalidBranchTable;
}

}  // namespace reprise::host
