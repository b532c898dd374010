// Removes wraps of 8- and 16-bit integers that nothing needs. Such integers live in 32-bit
// registers and are wrapped as soon as they may leave their range. But sums, products and stores
// read only low bits.
#include <bit>

#include "codegen/kernel/build/rebuild.h"

namespace reprise::kernel {

namespace {

constexpr uint32_t kAll = ~uint32_t{0};

bool is_int32(Type t) {
  return t.ty == Ty::I32 || t.ty == Ty::U32;
}

/// All bits up to the highest of these, which a sum or product needs of its operands.
uint32_t and_below(uint32_t bits) {
  return bits == 0 ? 0 : kAll >> static_cast<uint32_t>(std::countl_zero(bits));
}

/// Which bits of its 32-bit integers a kernel reads.
class DemandedBits {
 public:
  explicit DemandedBits(const Kernel& k) : k_(k), read_(k.insts.size(), 0) {
    // In reverse, as instructions come after those that compute their operands.
    for (size_t id = k.insts.size(); id-- > 0;) visit(k.insts[id], read_[id]);
  }

  /// If the instruction is a wrap whose upper bits nothing reads, its operand; else itself.
  Val without_wrap(int32_t id) const {
    const Inst& i = k_.insts[static_cast<size_t>(id)];
    const auto c = constant_operand(i);
    if (!c || !is_int32(i.type)) return {id};
    const uint32_t read = read_[static_cast<size_t>(id)];
    const auto op = static_cast<ScalarOp>(i.imm);
    if (op == ScalarOp::BitAnd) return (read & ~*c) == 0 ? i.args[0] : Val{id};
    if (op != ScalarOp::ShiftRight || *c >= 32 || (read & ~(kAll >> *c)) != 0) return {id};
    const Inst& left = inst(i.args[0]);
    const bool undoes = left.op == Op::Scalar &&
                        static_cast<ScalarOp>(left.imm) == ScalarOp::ShiftLeft &&
                        left.args[1] == i.args[1];
    return undoes ? left.args[0] : Val{id};
  }

 private:
  const Inst& inst(Val v) const { return k_.insts[static_cast<size_t>(v.id)]; }

  /// The second operand of a row of two operands, if it is a constant.
  std::optional<uint32_t> constant_operand(const Inst& i) const {
    if (i.op != Op::Scalar || i.args.size() != 2) return std::nullopt;
    const Inst& second = inst(i.args[1]);
    if (second.op != Op::Const) return std::nullopt;
    return static_cast<uint32_t>(second.imm);
  }

  void reads(Val v, uint32_t bits) { read_[static_cast<size_t>(v.id)] |= bits; }
  void reads_all(const Inst& i) {
    for (Val v : i.args) reads(v, kAll);
  }

  void visit(const Inst& i, uint32_t read) {
    if (i.op == Op::Store) {
      reads_all_but_value(i);
      const int size = byte_size(k_.buffers[i.imm].storage);
      reads(i.args[1], size >= 4 ? kAll : (uint32_t{1} << (8 * size)) - 1);
    } else if (i.op == Op::Compose || i.op == Op::Extract) {
      for (Val v : i.args) reads(v, is_int32(i.type) ? read : kAll);
    } else if (i.op == Op::Convert || i.op == Op::Bitcast) {
      const Type from = inst(i.args[0]).type;
      const bool same = is_int32(from) && is_int32(i.type) && from.lanes == i.type.lanes;
      reads(i.args[0], same ? read : kAll);
    } else if (i.op == Op::Scalar && is_int32(i.type)) {
      visit_row(i, read);
    } else {
      reads_all(i);
    }
  }

  void reads_all_but_value(const Inst& store) {
    reads(store.args[0], kAll);
    if (store.args.size() == 3) reads(store.args[2], kAll);
  }

  void visit_row(const Inst& i, uint32_t read) {
    const auto c = constant_operand(i);
    switch (static_cast<ScalarOp>(i.imm)) {
      case ScalarOp::Add:
      case ScalarOp::Sub:
      case ScalarOp::Mul:
      case ScalarOp::Neg:
        for (Val v : i.args) reads(v, and_below(read));
        return;
      case ScalarOp::BitAnd:
        reads(i.args[0], c ? read & *c : read);
        reads(i.args[1], read);
        return;
      case ScalarOp::BitOr:
      case ScalarOp::BitXor:
      case ScalarOp::BitNot:
        for (Val v : i.args) reads(v, read);
        return;
      case ScalarOp::Where:
        reads(i.args[0], kAll);
        reads(i.args[1], read);
        reads(i.args[2], read);
        return;
      case ScalarOp::ShiftLeft:
        reads(i.args[0], c && *c < 32 ? read >> *c : kAll);
        reads(i.args[1], kAll);
        return;
      case ScalarOp::ShiftRight:
        reads(i.args[0], c && *c < 32 ? shifted_right(i, read, *c) : kAll);
        reads(i.args[1], kAll);
        return;
      default:
        reads_all(i);
    }
  }

  static uint32_t shifted_right(const Inst& i, uint32_t read, uint32_t by) {
    const bool sign = i.type.ty == Ty::I32 && (read & ~(kAll >> by)) != 0;
    return read << by | (sign ? uint32_t{1} << 31U : 0);
  }

  const Kernel& k_;
  std::vector<uint32_t> read_;
};

class DropWraps : public Rebuilder {
 public:
  DropWraps(const Kernel& k, const DemandedBits& demanded)
      : Rebuilder(k, Builder::like(k)), demanded_(demanded) {}

 protected:
  Val rewrite(const Inst& i, std::span<const Val> args) override {
    const auto id = static_cast<int32_t>(&i - from_.insts.data());
    const Val kept = demanded_.without_wrap(id);
    return kept.id == id ? copy(i, args) : mapped(kept);
  }

 private:
  const DemandedBits& demanded_;
};

}  // namespace

Status drop_wraps(Kernel& k) {
  const DemandedBits demanded(k);
  bool any = false;
  for (size_t id = 0; id < k.insts.size() && !any; ++id) {
    const auto n = static_cast<int32_t>(id);
    any = demanded.without_wrap(n).id != n;
  }
  if (!any) return {};
  RP_ASSIGN(Kernel out, DropWraps(k, demanded).run());
  k = std::move(out);
  return {};
}

}  // namespace reprise::kernel
