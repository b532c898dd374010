// Invocations of different workgroups are unordered, so an invocation may load from a buffer that
// the kernel stores to only what it stored itself. The check is structural: two indices denote the
// same element if they are the same function of the invocation, the parameters and the counters of
// loops over equal ranges.
#include "codegen/kernel/check/verify_reloads.h"

#include <map>
#include <set>
#include <tuple>

namespace reprise::kernel {
namespace {

class ReloadVerifier {
 public:
  explicit ReloadVerifier(const Kernel& k) : k_(k), forms_(k.insts.size(), -1) {}

  Status run() { return block(0); }

 private:
  bool stored_to(uint64_t buffer) const { return k_.buffers[buffer].access == Access::ReadWrite; }

  Status block(int32_t b) {
    for (int32_t id : k_.blocks[static_cast<size_t>(b)].insts) {
      const Inst& inst = k_.insts[static_cast<size_t>(id)];
      if (inst.op == Op::Load && stored_to(inst.imm) &&
          stored_.count({inst.imm, inst.type.lanes, form(inst.args[0])}) == 0) {
        return internal_error("kernel '" + k_.name + "': %" + std::to_string(id) + " loads '" +
                              k_.buffers[inst.imm].name +
                              "' at an index where the same invocation has not stored it");
      }
      if (inst.op == Op::Store && stored_to(inst.imm)) {
        const Type value = k_.insts[static_cast<size_t>(inst.args[1].id)].type;
        stored_.insert({inst.imm, value.lanes, form(inst.args[0])});
      }
      for (int32_t inner : inst.blocks) RP_TRY(block(inner));
    }
    return {};
  }

  /// A number for the form of v. Values with equal numbers are equal in equal iterations of loops
  /// over the same range.
  int form(Val v) {
    const auto id = static_cast<size_t>(v.id);
    if (forms_[id] >= 0) return forms_[id];
    const Inst& inst = k_.insts[id];
    const bool known =
        is_pure(inst.op) || inst.op == Op::For || (inst.op == Op::Load && !stored_to(inst.imm));
    std::vector<uint64_t> key{static_cast<uint64_t>(inst.op), static_cast<uint64_t>(inst.type.ty),
                              inst.type.lanes, inst.imm};
    if (!known) key.push_back(id);
    for (const Val arg : inst.args) key.push_back(static_cast<uint64_t>(form(arg)));
    forms_[id] = numbers_.emplace(std::move(key), static_cast<int>(numbers_.size())).first->second;
    return forms_[id];
  }

  const Kernel& k_;
  std::vector<int> forms_;  // by instruction; -1: not numbered yet
  std::map<std::vector<uint64_t>, int> numbers_;
  std::set<std::tuple<uint64_t, int, int>> stored_;  // buffer, lanes, form of the index
};

}  // namespace

Status verify_reloads(const Kernel& k) {
  return ReloadVerifier(k).run();
}

}  // namespace reprise::kernel
