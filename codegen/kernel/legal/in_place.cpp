// Of two invocations, neither may access an element that the other stores (semantics.md). A load of
// `from` is therefore harmless if its own invocation stores the same element of `to` afterwards. As
// in verify_reloads.cpp, two indices denote the same element if they are the same function of the
// invocation, the parameters and the counters of loops over equal ranges.
#include "codegen/kernel/legal/in_place.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "codegen/kernel/ir/scalar_eval.h"
#include "runtime/expr/expr.h"

namespace reprise::kernel {

namespace {

bool is_index_op(const Inst& inst) {
  switch (inst.op) {
    case Op::Const:
    case Op::Param:
    case Op::Builtin:
    case Op::Convert:
    case Op::Bitcast:
    case Op::For:
      return true;
    case Op::Scalar: {
      // Others, such as min, may give the index of one element to several invocations.
      static constexpr ScalarOp kExact[] = {ScalarOp::Add, ScalarOp::Sub, ScalarOp::Mul,
                                            ScalarOp::Div, ScalarOp::Rem, ScalarOp::IDiv,
                                            ScalarOp::IRem};
      return std::ranges::find(kExact, static_cast<ScalarOp>(inst.imm)) != std::end(kExact);
    }
    default:
      return false;
  }
}

constexpr int kMostSteps = 8;  // instructions to follow back from a condition

/// The least and the greatest value of an index that is made of the place of the invocation in its
/// workgroup and of constants, none of them negative; nothing where that is not known.
std::optional<Interval> range_of(const Kernel& k, Val v, int steps) {
  const Inst& inst = k.insts[static_cast<size_t>(v.id)];
  const bool is_index = inst.type.ty == Ty::I32 || inst.type.ty == Ty::U32;
  if (!is_index || inst.type.lanes != 1 || steps == 0) return std::nullopt;
  std::optional<Interval> r;
  if (inst.op == Op::Const) {
    const int64_t c = integer_of(inst.imm, inst.type.ty);
    r = {c, c};
  } else if (inst.op == Op::Builtin) {
    if (static_cast<Builtin>(inst.imm & 0xFFU) != Builtin::LocalIndex) return std::nullopt;
    r = {0, int64_t{k.workgroup[0]} * k.workgroup[1] * k.workgroup[2] - 1};
  } else if (inst.op == Op::Convert) {
    r = range_of(k, inst.args[0], steps - 1);
  } else if (inst.op == Op::Scalar && inst.args.size() == 2) {
    const auto op = static_cast<ScalarOp>(inst.imm);
    const bool divides = op == ScalarOp::Div || op == ScalarOp::IDiv;
    if (!divides && op != ScalarOp::Add && op != ScalarOp::Mul) return std::nullopt;
    const auto a = range_of(k, inst.args[0], steps - 1);
    if (!a) return std::nullopt;
    const auto b = range_of(k, inst.args[1], steps - 1);
    if (!b || (divides && b->min == 0)) return std::nullopt;
    r = op == ScalarOp::Add   ? Interval{a->min + b->min, a->max + b->max}
        : op == ScalarOp::Mul ? Interval{a->min * b->min, a->max * b->max}
                              : Interval{a->min / b->max, a->max / b->min};
  }
  const bool fits = r && r->min >= 0 && r->max <= std::numeric_limits<int32_t>::max();
  return fits ? r : std::nullopt;
}

/// Whether no invocation fulfils the condition. Columns beyond the last one are such branches.
bool never_holds(const Kernel& k, Val condition) {
  const Inst& inst = k.insts[static_cast<size_t>(condition.id)];
  if (inst.op != Op::Scalar || static_cast<ScalarOp>(inst.imm) != ScalarOp::Less) return false;
  const auto a = range_of(k, inst.args[0], kMostSteps), b = range_of(k, inst.args[1], kMostSteps);
  return a && b && a->min >= b->max;
}

class InPlaceCheck {
 public:
  InPlaceCheck(const Kernel& k, size_t from, size_t to)
      : k_(k), from_(from), to_(to), forms_(k.insts.size(), -1) {}

  bool run() {
    visit(0);
    const bool exact =
        std::ranges::all_of(loads_, &Use::exact) && std::ranges::all_of(stores_, &Use::exact);
    return !copied_ && exact &&
           std::ranges::all_of(loads_, [this](const Use& l) { return is_own(l); });
  }

 private:
  /// A branch of an If, by the form of its condition, or the body of a For.
  struct Enclosing {
    int32_t inst = -1;
    int condition = -1;  // -1: of a For
    size_t branch = 0;
  };
  struct Use {
    size_t position = 0;  // in the order of the text
    int form = -1;
    uint8_t lanes = 1;
    bool exact = false;
    std::set<int32_t> counters;  // loops whose counters the index depends on
    std::vector<Enclosing> inside;
  };

  void visit(int32_t b) {
    for (const int32_t id : k_.blocks[static_cast<size_t>(b)].insts) {
      const Inst& inst = at(id);
      ++position_;
      copied_ |= inst.op == Op::AsyncCopy && CopyAccess::of(inst.imm).buffer == from_;
      if (inst.op == Op::Load && inst.imm == from_) loads_.push_back(use(inst, inst.type.lanes));
      if (inst.op == Op::Store && inst.imm == to_)
        stores_.push_back(use(inst, at(inst.args[1].id).type.lanes));
      for (size_t i = 0; i < inst.blocks.size(); ++i) {
        if (i == 0 && inst.op == Op::If && never_holds(k_, inst.args[0])) continue;
        inside_.push_back({id, inst.op == Op::If ? form(inst.args[0]) : -1, i});
        visit(inst.blocks[i]);
        inside_.pop_back();
      }
    }
  }

  Use use(const Inst& inst, uint8_t lanes) {
    Use u{position_, form(inst.args[0]), lanes, true, {}, inside_};
    std::set<int32_t> seen;
    depend(inst.args[0], seen, u);
    // A masked store keeps some bits of the element.
    u.exact = u.exact && (inst.op != Op::Store || inst.args.size() == 2);
    return u;
  }

  void depend(Val v, std::set<int32_t>& seen, Use& u) const {
    if (!seen.insert(v.id).second) return;
    const Inst& inst = at(v.id);
    u.exact = u.exact && is_index_op(inst);
    if (inst.op == Op::For) u.counters.insert(v.id);
    for (const Val arg : inst.args) depend(arg, seen, u);
  }

  /// Whether the invocation stores what it loads, in all loops and branches, and only later.
  bool is_own(const Use& load) const {
    bool stored = false;
    for (const Use& store : stores_) {
      if (store.form != load.form || store.lanes != load.lanes) continue;
      if (store.position < load.position || !repeats_elsewhere(load, store)) return false;
      stored = stored || follows(load, store);
    }
    return stored;
  }

  /// Whether each iteration of a loop around both has elements of its own.
  static bool repeats_elsewhere(const Use& load, const Use& store) {
    const size_t depth = std::min(load.inside.size(), store.inside.size());
    for (size_t i = 0; i < depth && load.inside[i].inst == store.inside[i].inst; ++i) {
      const Enclosing& e = load.inside[i];
      if (e.condition < 0 && !load.counters.contains(e.inst)) return false;
    }
    return true;
  }

  /// Whether an invocation that executes the load executes the store.
  static bool follows(const Use& load, const Use& store) {
    return std::ranges::all_of(store.inside, [&](const Enclosing& s) {
      if (s.condition < 0) return store.counters.contains(s.inst);
      return std::ranges::any_of(load.inside, [&](const Enclosing& l) {
        return l.condition == s.condition && l.branch == s.branch;
      });
    });
  }

  /// A number for the form of v, as in verify_reloads.cpp.
  int form(Val v) {
    const auto id = static_cast<size_t>(v.id);
    if (forms_[id] >= 0) return forms_[id];
    const Inst& inst = k_.insts[id];
    std::vector<uint64_t> key{static_cast<uint64_t>(inst.op), static_cast<uint64_t>(inst.type.ty),
                              inst.type.lanes, inst.imm};
    if (!is_pure(inst.op) && inst.op != Op::For) key.push_back(id);
    for (const Val arg : inst.args) key.push_back(static_cast<uint64_t>(form(arg)));
    forms_[id] = numbers_.emplace(std::move(key), static_cast<int>(numbers_.size())).first->second;
    return forms_[id];
  }

  const Inst& at(int32_t id) const { return k_.insts[static_cast<size_t>(id)]; }

  const Kernel& k_;
  const size_t from_, to_;
  std::vector<int> forms_;  // by instruction; -1: not numbered yet
  std::map<std::vector<uint64_t>, int> numbers_;
  std::vector<Enclosing> inside_;
  std::vector<Use> loads_, stores_;
  size_t position_ = 0;
  bool copied_ = false;  // `from` is the source of asynchronous copies
};

}  // namespace

bool updates_in_place(const Kernel& k, size_t from, size_t to) {
  const BufferParam& a = k.buffers[from];
  const BufferParam& b = k.buffers[to];
  if (from == to || a.storage != b.storage) return false;
  if (a.access != Access::Read || b.access != Access::Write) return false;
  // Which invocation reads or writes an element of a box is not known.
  const auto viewed = [&](const View& v) {
    return v.tensor.buffer == from || v.tensor.buffer == to;
  };
  if (std::ranges::any_of(k.views, viewed)) return false;
  return InPlaceCheck(k, from, to).run();
}

void merge_buffers(Kernel& k, size_t from, size_t to) {
  k.buffers[from].access = Access::ReadWrite;
  k.buffers[from].align = std::min(k.buffers[from].align, k.buffers[to].align);
  k.buffers.erase(k.buffers.begin() + static_cast<ptrdiff_t>(to));
  for (View& v : k.views)
    if (v.tensor.buffer > to) --v.tensor.buffer;
  for (Inst& inst : k.insts) {
    if (inst.op == Op::AsyncCopy) {
      CopyAccess a = CopyAccess::of(inst.imm);
      if (a.buffer > to) --a.buffer;
      inst.imm = a.imm();
    }
    if (inst.op != Op::Load && inst.op != Op::Store) continue;
    if (inst.imm == to) inst.imm = from;
    if (inst.imm > to) --inst.imm;
  }
}

}  // namespace reprise::kernel
