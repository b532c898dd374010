#include "codegen/kernel/build/batch.h"

#include <algorithm>
#include <bit>

#include "codegen/kernel/build/rebuild.h"

namespace reprise::kernel {

namespace {

struct BuiltinUse {
  Builtin builtin;
  uint64_t component;
};

BuiltinUse use_of(const Inst& i) {
  return {static_cast<Builtin>(i.imm & 0xffU), i.imm >> 8U};
}

template <typename Parameter>
void repeat(std::vector<Parameter>& parameters, uint32_t items) {
  const size_t each = parameters.size();
  parameters.reserve(each * items);
  for (size_t i = each; i < each * items; ++i) parameters.push_back(parameters[i - each]);
}

/// A kernel without instructions, with the parameters of all items.
Kernel interface_of(const Kernel& k, uint32_t items) {
  Kernel out = k;
  out.insts.clear();
  out.blocks.clear();
  out.name += "_batch";
  out.items = items;
  out.scalars.push_back({"first", Ty::I32});
  repeat(out.buffers, items);
  repeat(out.scalars, items);
  return out;
}

class Batcher final : public Rebuilder {
 public:
  Batcher(const Kernel& from, const Kernel& interface)
      : Rebuilder(from, Builder::like(interface)), items_(interface.items) {
    select();
  }

 private:
  /// Finds the last item whose first workgroup is not after this one, by bisection, and selects it.
  void select() {
    const Value group = to_.convert(to_.builtin(Builtin::WorkgroupId), Ty::I32);
    const Value last = to_.i32(items_ - 1);
    Value item = to_.i32(0);
    for (uint32_t step = std::bit_ceil(items_) / 2; step > 0; step /= 2) {
      const Value later = to_.min(to_.add(item, to_.i32(step)), last);
      item = to_.select(to_.le(first_of(later), group), later, item);
    }
    to_.select_item(item);
    item_ = item;
    group_ = to_.sub(group, first_of(item));
  }

  Value first_of(Val item) { return to_.param(static_cast<int>(from_.scalars.size()), item); }

  Val rewrite(const Inst& i, std::span<const Val> args) override {
    if (i.op == Op::Param) return to_.param(static_cast<int>(i.imm), item_);
    if (i.op != Op::Builtin) return copy(i, args);
    const auto [builtin, component] = use_of(i);
    if (component != 0) return copy(i, args);
    if (builtin == Builtin::WorkgroupId) return to_.convert(group_, Ty::U32);
    if (builtin != Builtin::GlobalId) return copy(i, args);
    const Val local = to_.convert(to_.builtin(Builtin::LocalId), Ty::I32);
    const Val size = to_.i32(from_.workgroup[0]);
    return to_.convert(to_.add(to_.mul(group_, size), local), Ty::U32);
  }

  uint32_t items_;
  Val item_, group_;
};

}  // namespace

bool can_batch(const Kernel& k) {
  return k.items == 1 && k.views.empty() && !k.units &&
         std::ranges::none_of(k.insts, [](const Inst& i) {
           if (i.op == Op::SetError) return true;
           if (i.op != Op::Builtin) return false;
           const auto [builtin, component] = use_of(i);
           return builtin == Builtin::WorkgroupId && component != 0;
         });
}

Result<Kernel> batch(const Kernel& k, uint32_t items) {
  const Kernel interface = interface_of(k, items);
  RP_ASSIGN(Kernel out, Batcher(k, interface).run());
  remove_dead(out);
  return out;
}

}  // namespace reprise::kernel
