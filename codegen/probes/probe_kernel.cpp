#include "codegen/probes/probe_kernel.h"

#include <algorithm>

#include "codegen/interpreter/native_error.h"

namespace reprise {
namespace {

bool is_float(kernel::Ty t) {
  return kernel::class_of(t) == kernel::kFloat;
}

}  // namespace

bool computes_floats(const kernel::Kernel& k) {
  return !k.matrices.empty() ||
         std::any_of(k.insts.begin(), k.insts.end(), [&](const kernel::Inst& i) {
           const bool computes = i.op == kernel::Op::Scalar || i.op == kernel::Op::Convert ||
                                 i.op == kernel::Op::Subgroup;
           return computes &&
                  (is_float(i.type.ty) || std::any_of(i.args.begin(), i.args.end(), [&](auto a) {
                     return is_float(k.insts[static_cast<size_t>(a.id)].type.ty);
                   }));
         });
}

bool has_native_functions(const kernel::Kernel& k) {
  return std::any_of(k.insts.begin(), k.insts.end(), [](const kernel::Inst& i) {
    return i.op == kernel::Op::Scalar && is_float(i.type.ty) &&
           kernel::is_native(static_cast<kernel::ScalarOp>(i.imm));
  });
}

bool uses_subgroups(const kernel::Kernel& k) {
  using kernel::Builtin;
  return !k.matrices.empty() || std::ranges::any_of(k.insts, [](const kernel::Inst& i) {
    if (i.op == kernel::Op::Subgroup) return true;
    if (i.op != kernel::Op::Builtin) return false;
    const auto builtin = static_cast<Builtin>(i.imm & 0xffU);
    return builtin == Builtin::SubgroupLane || builtin == Builtin::SubgroupIndex ||
           builtin == Builtin::SubgroupSize;
  });
}

}  // namespace reprise
