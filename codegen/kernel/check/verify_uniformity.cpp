#include "codegen/kernel/check/verify_uniformity.h"

#include <algorithm>
#include <string>
#include <vector>

namespace reprise::kernel {

namespace {

/// Finds barriers that some invocations of a workgroup might not reach, and matrix operations that
/// some invocations of a subgroup might not reach, or reach with another index. A value is uniform
/// if its operands are. A local is uniform if every store to it has a uniform value and is in
/// uniform control flow. Locals are assumed uniform first, and the analysis iterates to a fixed
/// point.
class Uniformity {
 public:
  enum class Within { Workgroup, Subgroup };
  Uniformity(const Kernel& k, Within within)
      : k_(k), within_(within), varying_(k.insts.size()), varying_local_(k.locals.size()) {}

  Status run() {
    do {
      changed_ = false;
      divergent_ = -1;
      block(0, true);
    } while (changed_);
    if (divergent_ < 0) return {};
    const bool item = k_.insts[static_cast<size_t>(divergent_)].op == Op::SelectItem;
    const std::string what =
        within_ == Within::Subgroup ? "an operation on a matrix that may differ within a subgroup"
        : item                      ? "an item that may differ within a workgroup"
               : "a barrier under control flow that may differ within a workgroup";
    return internal_error("kernel '" + k_.name + "': %" + std::to_string(divergent_) + ": " + what);
  }

 private:
  void block(int32_t index, bool uniform) {
    for (int32_t id : k_.blocks[static_cast<size_t>(index)].insts) instruction(id, uniform);
  }

  void instruction(int32_t id, bool uniform) {
    const Inst& i = k_.insts[static_cast<size_t>(id)];
    bool varying = varies(i);
    if (i.op == Op::LocalStore && (varying || !uniform) && !varying_local_[i.imm]) {
      varying_local_[i.imm] = true;
      changed_ = true;
    }
    if (needs_uniform(i.op) && !(uniform && !varying) && divergent_ < 0) divergent_ = id;
    varying_[static_cast<size_t>(id)] = varying;
    for (int32_t b : i.blocks) block(b, uniform && !varying);
  }

  bool needs_uniform(Op op) const {
    if (within_ == Within::Workgroup) return op == Op::Barrier || op == Op::SelectItem;
    return op == Op::MatrixZero || op == Op::MatrixLoad || op == Op::MatrixStore ||
           op == Op::MatrixMulAdd;
  }

  bool varies(const Inst& i) const {
    const bool operands = std::any_of(i.args.begin(), i.args.end(),
                                      [&](Val v) { return varying_[static_cast<size_t>(v.id)]; });
    if (i.op == Op::Builtin) return varies(static_cast<Builtin>(i.imm & 0xffU));
    if (i.op == Op::Load) return operands || k_.buffers[i.imm].access != Access::Read;
    if (i.op == Op::LocalLoad) return operands || varying_local_[i.imm];
    return operands || i.op == Op::Subgroup;
  }

  bool varies(Builtin b) const {
    const bool is_same = b == Builtin::WorkgroupId || b == Builtin::SubgroupSize ||
                         (b == Builtin::SubgroupIndex && within_ == Within::Subgroup);
    return !is_same;
  }

  const Kernel& k_;
  Within within_;
  std::vector<bool> varying_, varying_local_;
  bool changed_ = false;
  int32_t divergent_ = -1;
};

}  // namespace

Status verify_uniformity(const Kernel& k) {
  RP_TRY(Uniformity(k, Uniformity::Within::Workgroup).run());
  return k.matrices.empty() ? Status() : Uniformity(k, Uniformity::Within::Subgroup).run();
}

}  // namespace reprise::kernel
