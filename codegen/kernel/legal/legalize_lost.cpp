// Tracks 64-bit integers that do not fit 32 bits to where they are used.
#include <algorithm>

#include "codegen/kernel/legal/legalize.h"

namespace reprise::kernel {

namespace {

bool is_minimum(ScalarOp op) {
  return op == ScalarOp::Min || op == ScalarOp::MinNum;
}

bool is_maximum(ScalarOp op) {
  return op == ScalarOp::Max || op == ScalarOp::MaxNum;
}

/// Whether a row compares its operands.
bool compares(ScalarOp op) {
  return row(op).result == ResultKind::Boolean;
}

}  // namespace

void LostValues::add_locals() {
  for (const LocalVar& l : from_.locals) {
    const Type boolean{Ty::Bool, l.type.lanes};
    locals_.push_back(is_int64(l.type.ty) ? b_.local(l.name + "_lost", boolean, l.count) : -1);
  }
}

bool LostValues::any_lost(const Inst& i) {
  return std::any_of(i.args.begin(), i.args.end(),
                     [this](Val v) { return static_cast<bool>(of(v).where); });
}

Val LostValues::or_false(Val where, int lanes) {
  return where ? where : b_.constant_bits(vec(kBool, lanes), 0);
}

Val LostValues::either(Val a, Val b) {
  return !a ? b : !b ? a : b_.logical_or(a, b);
}

Val LostValues::both(Val a, Val b) {
  return a && b ? b_.logical_and(a, b) : Val{};
}

void LostValues::report(const LostLanes& lost) {
  if (!lost.where) return;
  Val any = b_.extract(lost.where, 0);
  for (int lane = 1; lane < b_.type(lost.where).lanes; ++lane)
    any = b_.logical_or(any, b_.extract(lost.where, lane));
  b_.set_error(any, ErrorCode::IntegerOverflow);
}

void LostValues::report_operands(const Inst& i) {
  const bool reads = i.op == Op::Load || i.op == Op::LocalLoad || i.op == Op::SharedLoad;
  if (is_pure(i.op) && !reads) return;
  for (size_t n = 0; n < i.args.size(); ++n) {
    const bool followed = i.op == Op::LocalStore && n == 0 && locals_[i.imm] >= 0;
    if (!followed) report(of(i.args[n]));
  }
}

void LostValues::store_local(const Inst& i, std::span<const Val> args) {
  const int flag = locals_[i.imm];
  if (flag < 0) return;
  const Val where = or_false(of(i.args[0]).where, from_.locals[i.imm].type.lanes);
  b_.local_store(flag, where, args.size() > 1 ? args[1] : Val{});
}

Val LostValues::ordered(const Inst& i, std::span<const Val> args) {
  if (i.op != Op::Scalar || args.size() != 2 || !any_lost(i)) return {};
  const auto op = static_cast<ScalarOp>(i.imm);
  const Type t = from_.insts[static_cast<size_t>(i.args[0].id)].type;
  const bool picks = is_minimum(op) || is_maximum(op);
  if (!is_int64(t.ty) || (!picks && !compares(op))) return {};
  Val nearest[2];
  for (size_t n = 0; n < 2; ++n) {
    const LostLanes& lost = of(i.args[n]);
    if (lost.where && !lost.nearest) return {};
    nearest[n] = lost.where ? lost.nearest() : args[n];
  }
  const LostLanes &left = of(i.args[0]), &right = of(i.args[1]);
  const Val r = b_.scalar_op(op, nearest);
  LostLanes lost;
  lost.unknown = either(left.unknown, right.unknown);
  if (picks) {
    // The result is lost if the chosen operand is, or either of two that look equal.
    const size_t first = is_minimum(op) ? 0 : 1;
    const Val to_left = b_.le(nearest[first], nearest[1 - first]);
    const Val to_right = b_.le(nearest[1 - first], nearest[first]);
    lost.where = either(both(left.where, to_left), both(right.where, to_right));
    lost.nearest = [r] { return r; };
  } else if (op != ScalarOp::InRange || right.where) {
    // Nearest values that differ have the order of the 64-bit integers, so only equal ones are
    // lost.
    lost.where = both(either(left.where, right.where), b_.eq(nearest[0], nearest[1]));
  }
  lost.where = either(lost.where, lost.unknown);
  lost_[id_of(i)] = std::move(lost);
  return r;
}

Val LostValues::choice(Val condition, Val a, Val b, int lanes) {
  return a || b ? b_.select(condition, or_false(a, lanes), or_false(b, lanes)) : Val{};
}

LostLanes LostValues::of_choice(const Inst& i, std::span<const Val> args) {
  const LostLanes a = of(i.args[1]), b = of(i.args[2]);
  const Val condition = of(i.args[0]).where;
  LostLanes lost;
  lost.where = either(choice(args[0], a.where, b.where, i.type.lanes), condition);
  lost.unknown = either(choice(args[0], a.unknown, b.unknown, i.type.lanes), condition);
  if ((a.where && !a.nearest) || (b.where && !b.nearest)) return lost;
  lost.nearest = [this, a, b, c = args[0], x = args[1], y = args[2]] {
    return b_.select(c, a.where ? a.nearest() : x, b.where ? b.nearest() : y);
  };
  return lost;
}

/// The lost lanes of And and Or, whose result one operand that is not lost may decide.
Val LostValues::of_logic(const Inst& i, std::span<const Val> args) {
  const Val a = of(i.args[0]).where, b = of(i.args[1]).where;
  const bool conjunction = static_cast<ScalarOp>(i.imm) == ScalarOp::And;
  const auto open = [&](Val v) { return conjunction ? v : b_.logical_not(v); };
  const Val first = a ? both(a, either(b, open(args[1]))) : Val{};
  const Val second = b ? both(b, open(args[0])) : Val{};
  return either(first, second);
}

LostLanes LostValues::of_lanes(std::span<const LostLanes> parts, std::span<const Val> values) {
  std::vector<Val> where, unknown;
  bool any = false, any_unknown = false, known = true;
  const int part_lanes = b_.type(values[0]).lanes;
  for (const LostLanes& part : parts) {
    where.push_back(or_false(part.where, part_lanes));
    unknown.push_back(or_false(part.unknown, part_lanes));
    any |= static_cast<bool>(part.where);
    any_unknown |= static_cast<bool>(part.unknown);
    known &= !part.where || part.nearest != nullptr;
  }
  if (!any) return {};
  LostLanes lost;
  lost.where = b_.compose(where);
  if (!known) return lost;
  if (any_unknown) lost.unknown = b_.compose(unknown);
  lost.nearest = [this, all = std::vector<LostLanes>(parts.begin(), parts.end()),
                  own = std::vector<Val>(values.begin(), values.end())] {
    std::vector<Val> lanes;
    for (size_t l = 0; l < all.size(); ++l)
      lanes.push_back(all[l].where ? all[l].nearest() : own[l]);
    return b_.compose(lanes);
  };
  return lost;
}

LostLanes LostValues::of_lane(const Inst& i) {
  const LostLanes& all = of(i.args[0]);
  const auto lanes = [this, lane = static_cast<int>(i.imm), part = i.type.lanes > 1](Val v) {
    return part ? b_.part(v, lane / kPartLanes) : b_.extract(v, lane);
  };
  LostLanes lost;
  lost.where = lanes(all.where);
  if (all.unknown) lost.unknown = lanes(all.unknown);
  if (all.nearest != nullptr) {
    lost.nearest = [lanes, nearest = all.nearest] { return lanes(nearest()); };
  }
  return lost;
}

void LostValues::made(const Inst& i, std::span<const Val> args, LostLanes own) {
  LostLanes& lost = lost_[id_of(i)];
  if (i.op == Op::LocalLoad) {
    const int flag = locals_[i.imm];
    if (flag >= 0) lost.where = b_.local_load(flag, args.empty() ? Val{} : args[0]);
    return;
  }
  if (!is_pure(i.op) || i.op == Op::Load || !any_lost(i)) {
    lost = std::move(own);
    return;
  }
  const auto op = static_cast<ScalarOp>(i.imm);
  if (i.op == Op::Scalar && op == ScalarOp::Where) {
    lost = of_choice(i, args);
  } else if (i.op == Op::Scalar && (op == ScalarOp::And || op == ScalarOp::Or)) {
    lost.where = of_logic(i, args);
  } else if (i.op == Op::Compose) {
    std::vector<LostLanes> parts;
    for (Val v : i.args) parts.push_back(of(v));
    lost = of_lanes(parts, args);
  } else if (i.op == Op::Extract) {
    lost = of_lane(i);
  } else {
    lost = std::move(own);
    for (Val v : i.args) {
      lost.where = either(lost.where, of(v).where);
      lost.unknown = either(lost.unknown, of(v).where);
    }
  }
}

}  // namespace reprise::kernel
