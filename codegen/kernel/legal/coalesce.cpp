// Combines scalar loads of neighbouring elements into vector loads. On a CPU-type device the cost
// is that of the number of loads, not of their bytes.
#include <map>

#include "codegen/kernel/build/rebuild.h"
#include "codegen/kernel/legal/index_form.h"

namespace reprise::kernel {

namespace {

constexpr int64_t kLanes = 4;

/// The address of a scalar load: base + offset, where the base is a multiple of 4.
struct Place {
  int buffer = 0;
  int32_t base = -1;  // an instruction
  int64_t offset = 0;
  int64_t chunk() const {
    return offset >= 0 ? offset / kLanes : -((kLanes - 1 - offset) / kLanes);
  }
  int64_t lane() const { return offset - chunk() * kLanes; }
};

class Coalescer final : public Rebuilder {
 public:
  explicit Coalescer(const Kernel& k)
      : Rebuilder(k, Builder::like(k)), forms_(k), merged_(k.insts.size()) {
    for (const Block& b : k.blocks) find(b);
  }

  bool any() const { return any_; }

 protected:
  Val rewrite(const Inst& inst, std::span<const Val> args) override {
    const Place& p = merged_[static_cast<size_t>(&inst - from_.insts.data())];
    if (p.base < 0) return copy(inst, args);
    // The builder reuses equal loads, so one vector load remains.
    const Val first = to_.add(mapped(Val{p.base}), to_.i32(p.chunk() * kLanes));
    const Val four = to_.load(p.buffer, first, static_cast<int>(kLanes), kLanes);
    return to_.extract(four, static_cast<int>(p.lane()));
  }

 private:
  const Inst& at(Val v) const { return from_.insts[static_cast<size_t>(v.id)]; }

  /// Whether the load may become a lane of a vector. If so, sets its place.
  bool place(const Inst& load, Place& p) {
    p.buffer = static_cast<int>(load.imm);
    const BufferParam& buffer = from_.buffers[load.imm];
    const bool narrow = byte_size(buffer.storage) <= 4;
    if (load.type.lanes != 1 || buffer.access != Access::Read || !narrow) return false;
    Val base = load.args[0];
    if (at(base).type != kI32) return false;
    const Inst& index = at(base);
    if (index.op == Op::Scalar && static_cast<ScalarOp>(index.imm) == ScalarOp::Add) {
      for (const size_t c : {size_t{0}, size_t{1}}) {
        const Inst& constant = at(index.args[c]);
        if (constant.op != Op::Const) continue;
        p.offset = static_cast<int32_t>(constant.imm);
        base = index.args[1 - c];
        break;
      }
    }
    p.base = base.id;
    return at(base).op != Op::Const && forms_.divisor(base) % kLanes == 0;
  }

  /// Finds the vectors of a block: all of a vector's elements must lie between elements that the
  /// block loads anyway.
  void find(const Block& block) {
    struct Run {
      int64_t first = 0, last = 0;
      std::map<int64_t, std::vector<std::pair<int32_t, Place>>> chunks;
    };
    std::map<std::pair<int, int32_t>, Run> runs;
    for (const int32_t id : block.insts) {
      const Inst& inst = from_.insts[static_cast<size_t>(id)];
      Place p;
      if (inst.op != Op::Load || !place(inst, p)) continue;
      Run& run = runs.try_emplace({p.buffer, p.base}, Run{p.offset, p.offset, {}}).first->second;
      run.first = std::min(run.first, p.offset);
      run.last = std::max(run.last, p.offset);
      run.chunks[p.chunk()].emplace_back(id, p);
    }
    for (const auto& [where, run] : runs) {
      for (const auto& [chunk, loads] : run.chunks) {
        const int64_t begin = chunk * kLanes;
        if (loads.size() < 2 || begin < run.first || begin + kLanes - 1 > run.last) continue;
        for (const auto& [id, p] : loads) merged_[static_cast<size_t>(id)] = p;
        any_ = true;
      }
    }
  }

  IndexForms forms_;
  std::vector<Place> merged_;  // by instruction; base < 0: remains scalar
  bool any_ = false;
};

}  // namespace

Status coalesce_loads(Kernel& k) {
  Coalescer c(k);
  if (!c.any()) return {};
  RP_ASSIGN(k, c.run());
  remove_dead(k);
  return {};
}

}  // namespace reprise::kernel
