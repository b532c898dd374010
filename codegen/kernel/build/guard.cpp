#include "codegen/kernel/build/guard.h"

#include <algorithm>
#include <utility>

#include "codegen/kernel/build/rebuild.h"

namespace reprise::kernel {

void guard(Kernel& k) {
  const auto add = [&k](Inst inst) {
    k.insts.push_back(inst);
    return static_cast<int32_t>(k.insts.size() - 1);
  };
  const auto body = static_cast<int32_t>(k.blocks.size());
  k.blocks.push_back(std::exchange(k.blocks[0], {}));
  const int32_t no_error = add({Op::NoError, kBool, 0, {}, {}, 1});
  const int32_t branch = add({Op::If, {}, 0, {Val{no_error}}, {body}, 1});
  k.blocks[0].insts = {no_error, branch};
  remove_dead(k);
}

bool records_errors(const Kernel& k) {
  return std::ranges::any_of(k.insts, [](const Inst& i) { return i.op == Op::SetError; });
}

bool may_record_errors(const Kernel& k, const LegalizeFor& target) {
  return records_errors(k) || !relevant(target, k).int64;
}

}  // namespace reprise::kernel
