#include "codegen/kernel/ir/share.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "runtime/base/varint.h"

namespace reprise::kernel {

namespace {

constexpr int32_t kSmallTripCount = 8;  // drivers unroll such loops

/// A constant operand that may become a parameter, with the bits of a lane.
struct Operand {
  int32_t inst = 0;
  size_t arg = 0;
  Type type;
  int32_t bits = 0;
};

bool only_scales_or_bounds(ScalarOp op) {
  switch (op) {
    case ScalarOp::Add:
    case ScalarOp::Sub:
    case ScalarOp::Mul:
    case ScalarOp::Min:
    case ScalarOp::Max:
    case ScalarOp::Less:
    case ScalarOp::LessOrEqual:
    case ScalarOp::Greater:
    case ScalarOp::GreaterOrEqual:
    case ScalarOp::InRange:
      return true;
    default:
      return false;
  }
}

bool may_be_parameter(const Inst& user, size_t arg, const Inst& constant) {
  if (constant.type == kI32 && user.op == Op::For)
    return arg == 1 && static_cast<int32_t>(constant.imm) > kSmallTripCount;
  if (user.op != Op::Scalar) return false;
  if (constant.type.ty == Ty::F32) return true;
  return constant.type == kI32 && only_scales_or_bounds(static_cast<ScalarOp>(user.imm));
}

/// A kernel as bytes, and those of its constants that may become parameters, in order of use.
class Structure {
 public:
  /// If `exact`, the bytes include all constants; else all but those that may become parameters.
  Structure(const Kernel& k, bool exact)
      : k_(k), exact_(exact), number_(k.insts.size(), 0), bytes_(k.insts.size() * 16 + kMostBytes) {
    interface();
    block(0);
  }
  std::string take_bytes() { return bytes_.take(); }
  std::vector<Operand> take_operands() { return std::move(operands_); }

 private:
  using Bytes = VarintWriter<std::string>;
  static constexpr size_t kMostArguments = 4;
  /// Of an instruction: four bytes, its numbers, and up to three numbers for each argument.
  static constexpr size_t kMostBytes = 4 + (2 + 3 * kMostArguments) * Bytes::kMaxBytes;

  void add(uint64_t v) { bytes_.number(v); }
  void add(const std::string& name) {
    if (!exact_) return;
    add(name.size());
    bytes_.raw(name);
  }
  void add(Type t) {
    add(static_cast<uint64_t>(t.ty));
    add(t.lanes);
  }

  void interface() {
    add(k_.items);
    for (const uint32_t w : k_.workgroup) add(w);
    add(k_.cluster);
    add(k_.buffers.size());
    for (const BufferParam& b : k_.buffers) {
      add(static_cast<uint64_t>(b.storage));
      add(static_cast<uint64_t>(b.access));
      add(b.align);
      add(b.name);
    }
    add(k_.scalars.size());
    for (const ScalarParam& s : k_.scalars) {
      add(static_cast<uint64_t>(s.type));
      add(s.name);
    }
    add(k_.locals.size());
    for (const LocalVar& l : k_.locals) {
      add(l.type);
      add(l.count);
      add(l.name);
    }
    add(k_.shared.size());
    for (const SharedArray& s : k_.shared) {
      add(static_cast<uint64_t>(s.type));
      add(s.count);
      add(static_cast<uint64_t>(s.swizzle));
      add(s.name);
    }
    add(k_.matrices.size());
    for (const MatrixVar& m : k_.matrices) {
      add(static_cast<uint64_t>(m.use));
      add(static_cast<uint64_t>(m.type));
      add(m.rows);
      add(m.columns);
      add(static_cast<uint64_t>(m.scope));
      add(m.name);
    }
    views_and_roles();
    add(k_.units ? 1 : 0);
    if (k_.units) {
      add(k_.units->end);
      add(k_.units->groups);
    }
    add(k_.required_subgroup_size);
  }

  void views_and_roles() {
    add(k_.views.size());
    for (const View& v : k_.views) {
      const TensorView& t = v.tensor;
      add(t.buffer);
      add(t.element_bytes);
      add(static_cast<uint64_t>(t.swizzle));
      add(t.first);
      for (const auto* list : {&t.box, &t.dims, &t.strides}) {
        add(list->size());
        for (const uint32_t n : *list) add(n);
      }
      add(v.name);
    }
    add(k_.signals.size());
    for (const Signal& s : k_.signals) {
      add(s.count);
      add(s.arrivals);
      add(s.name);
    }
    add(k_.roles.size());
    for (const Role& r : k_.roles) {
      add(r.teams);
      add(r.subgroups);
      add(r.registers);
      add(r.name);
    }
  }

  /// Writes the instructions of a block, and a byte that is not an operation.
  void block(int32_t index) {
    constexpr uint64_t kEnd = 127;
    for (const int32_t id : k_.blocks[static_cast<size_t>(index)].insts) instruction(id);
    add(kEnd);
  }

  void instruction(int32_t id) {
    const Inst& i = k_.insts[static_cast<size_t>(id)];
    if (i.op == Op::Const) return;  // argument() writes it
    number_[static_cast<size_t>(id)] = next_++;
    char* at = bytes_.room(kMostBytes);
    *at++ = static_cast<char>(i.op);
    *at++ = static_cast<char>(i.type.ty);
    *at++ = static_cast<char>(i.type.lanes);
    *at++ = static_cast<char>(i.args.size() * kMostArguments + i.blocks.size());
    at = Bytes::put(at, i.imm);
    at = Bytes::put(at, i.align);
    for (size_t a = 0; a < i.args.size(); ++a) at = argument(id, i, a, at);
    bytes_.end_at(at);
    for (const int32_t b : i.blocks) block(b);
  }

  /// Writes twice the number of an instruction; or for a constant an odd number, its type, and its
  /// bits unless it may become a parameter.
  char* argument(int32_t id, const Inst& user, size_t a, char* at) {
    const Inst& i = k_.insts[static_cast<size_t>(user.args[a].id)];
    if (i.op != Op::Const)
      return Bytes::put(at, uint64_t{number_[static_cast<size_t>(user.args[a].id)]} * 2);
    const bool open = !exact_ && may_be_parameter(user, a, i);
    *at++ = open ? 3 : 1;
    *at++ = static_cast<char>(i.type.ty);
    *at++ = static_cast<char>(i.type.lanes);
    if (!open) return Bytes::put(at, i.imm);
    operands_.push_back({id, a, i.type, static_cast<int32_t>(i.imm)});
    return at;
  }

  const Kernel& k_;
  bool exact_;
  std::vector<uint32_t> number_;
  uint32_t next_ = 0;
  Bytes bytes_;
  std::vector<Operand> operands_;
};

/// Kernels that are merged.
struct Family {
  std::vector<size_t> members;
  std::vector<std::vector<Operand>> operands;  // parallel to members
};

/// Adds instructions at the start of a kernel's body.
class Head {
 public:
  explicit Head(Kernel& k) : k_(k) {}

  Val add(Op op, Type type, uint64_t imm, const InlineList<Val, 4>& args) {
    Inst i;
    i.op = op;
    i.type = type;
    i.imm = imm;
    i.args = args;
    const auto id = static_cast<int32_t>(k_.insts.size());
    k_.insts.push_back(i);
    insts_.push_back(id);
    return {id};
  }

  /// Adds a scalar parameter that holds the bits of a value of this type.
  Val parameter(Type type) {
    Val v = add(Op::Param, kI32, k_.scalars.size(), {});
    k_.scalars.push_back({"c" + std::to_string(k_.scalars.size()), Ty::I32});
    if (type.ty != Ty::I32) v = add(Op::Bitcast, {type.ty, 1}, 0, {v});
    if (type.lanes == 1) return v;
    InlineList<Val, 4> lanes;
    for (int l = 0; l < type.lanes; ++l) lanes.push_back(v);
    return add(Op::Compose, type, 0, lanes);
  }

  void finish() {
    std::vector<int32_t>& body = k_.blocks[0].insts;
    body.insert(body.begin(), insts_.begin(), insts_.end());
  }

 private:
  Kernel& k_;
  std::vector<int32_t> insts_;
};

/// Adds the merged kernel of a family: its first member, with the constants in which members differ
/// as parameters. Adds the uses of all members.
Status keep_one(std::vector<Kernel>& all, const Family& family, SharedKernels& out) {
  Kernel k = std::move(all[family.members[0]]);
  Head head(k);
  // Parameters by their type and their bits in all members.
  std::map<std::tuple<Ty, uint8_t, std::vector<int32_t>>, Val> parameters;
  std::vector<SharedUse> uses(family.members.size(), {out.kernels.size(), {}});
  for (size_t p = 0; p < family.operands[0].size(); ++p) {
    const Operand& use = family.operands[0][p];
    std::vector<int32_t> bits;
    for (const auto& operands : family.operands) bits.push_back(operands[p].bits);
    if (std::all_of(bits.begin(), bits.end(), [&](int32_t v) { return v == bits[0]; })) continue;
    const auto [it, added] = parameters.try_emplace({use.type.ty, use.type.lanes, bits});
    if (added) {
      it->second = head.parameter(use.type);
      for (size_t m = 0; m < uses.size(); ++m) uses[m].scalars.push_back(bits[m]);
    }
    k.insts[static_cast<size_t>(use.inst)].args[use.arg] = it->second;
  }
  if (!parameters.empty()) {
    head.finish();
    simplify(k);
    RP_TRY(verify_in_debug(k).with_context("kernel '" + k.name + "', shared"));
  }
  for (size_t m = 0; m < uses.size(); ++m) out.uses[family.members[m]] = std::move(uses[m]);
  out.kernels.push_back(std::move(k));
  return {};
}

}  // namespace

std::string structure(const Kernel& k) {
  return Structure(k, true).take_bytes();
}

Result<SharedKernels> share(std::vector<Kernel> all) {
  std::vector<Family> families;
  std::unordered_map<std::string, size_t> by_shape;
  for (size_t i = 0; i < all.size(); ++i) {
    Structure shape(all[i], false);
    const auto [it, added] = by_shape.try_emplace(shape.take_bytes(), families.size());
    if (added) families.emplace_back();
    Family& family = families[it->second];
    family.members.push_back(i);
    family.operands.push_back(shape.take_operands());
  }
  SharedKernels out;
  out.uses.resize(all.size());
  for (const Family& family : families) RP_TRY(keep_one(all, family, out));
  return out;
}

}  // namespace reprise::kernel
