// Combines scalar loads of neighbouring elements into vector loads. On a CPU-type device the cost
// is that of the number of loads, not of their bytes.
#include <map>
#include <numeric>

#include "codegen/kernel/build/rebuild.h"

namespace reprise::kernel {

namespace {

constexpr int64_t kLanes = 4;
constexpr int64_t kDivisorOfZero = 1 << 20;

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
      : Rebuilder(k, Builder::like(k)), divisors_(k.insts.size(), 0), merged_(k.insts.size()) {
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

  /// A power of two that divides an I32 value.
  int64_t divisor(Val v) {
    int64_t& known = divisors_[static_cast<size_t>(v.id)];
    if (known == 0) {
      known = 1;  // of a value that depends on itself
      known = find_divisor(at(v));
    }
    return known;
  }

  int64_t find_divisor(const Inst& i) {
    if (i.type != kI32) return 1;
    if (i.op == Op::Const) {
      const auto value = static_cast<int32_t>(i.imm);
      return value == 0 ? kDivisorOfZero : std::gcd(kDivisorOfZero, int64_t{value});
    }
    if (i.op != Op::Scalar) return 1;
    const auto both = [&](size_t a, size_t b) {
      return std::gcd(divisor(i.args[a]), divisor(i.args[b]));
    };
    switch (static_cast<ScalarOp>(i.imm)) {
      case ScalarOp::Mul:
        return std::min(kDivisorOfZero, divisor(i.args[0]) * divisor(i.args[1]));
      case ScalarOp::Add:
      case ScalarOp::Sub:
      case ScalarOp::Min:
      case ScalarOp::Max:
      case ScalarOp::Rem:
        return both(0, 1);
      case ScalarOp::Where:
        return both(1, 2);
      default:
        return 1;
    }
  }

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
    return at(base).op != Op::Const && divisor(base) % kLanes == 0;
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

  std::vector<int64_t> divisors_;  // 0: not known yet
  std::vector<Place> merged_;      // by instruction; base < 0: remains scalar
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
