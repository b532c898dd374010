#include "codegen/kernel/build/builder.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "codegen/kernel/ir/scalar_eval.h"

namespace reprise::kernel {

Builder::Builder(std::string name) {
  k_.name = std::move(name);
  k_.blocks.emplace_back();
  open_.emplace_back();
  depth_.push_back(0);
}

Builder Builder::like(const Kernel& k) {
  Builder b(k.name);
  b.k_.items = k.items;
  b.k_.workgroup = k.workgroup;
  b.k_.cluster = k.cluster;
  b.k_.buffers = k.buffers;
  b.k_.scalars = k.scalars;
  b.k_.locals = k.locals;
  b.k_.shared = k.shared;
  b.k_.matrices = k.matrices;
  b.k_.views = k.views;
  b.k_.signals = k.signals;
  b.k_.roles = k.roles;
  b.k_.units = k.units;
  b.k_.required_subgroup_size = k.required_subgroup_size;
  const size_t expected = k.insts.size() * 5 / 4;  // rewrites expand some instructions
  b.k_.insts.reserve(expected);
  b.block_of_.reserve(expected);
  b.next_shared_.reserve(expected);
  b.rehash(std::bit_ceil(std::max<size_t>(k.insts.size(), 64)));
  return b;
}

// --- Interface

void Builder::set_workgroup(uint32_t x, uint32_t y, uint32_t z) {
  k_.workgroup = {x, y, z};
}

void Builder::set_cluster(uint32_t workgroups) {
  k_.cluster = workgroups;
}

int Builder::buffer(std::string name, Ty storage, Access access, uint32_t align) {
  k_.buffers.push_back({std::move(name), storage, access, align});
  return static_cast<int>(k_.buffers.size()) - 1;
}

int Builder::scalar(std::string name, Ty type) {
  k_.scalars.push_back({std::move(name), type});
  return static_cast<int>(k_.scalars.size()) - 1;
}

int Builder::local(std::string name, Type type, uint32_t count) {
  k_.locals.push_back({std::move(name), type, count});
  return static_cast<int>(k_.locals.size()) - 1;
}

int Builder::shared(std::string name, Ty type, uint32_t count, Swizzle swizzle) {
  k_.shared.push_back({std::move(name), type, count, swizzle});
  return static_cast<int>(k_.shared.size()) - 1;
}

int Builder::matrix(std::string name, MatrixUse use, Ty type, uint32_t rows, uint32_t columns,
                    MmaScope scope) {
  k_.matrices.push_back({std::move(name), use, type, rows, columns, scope});
  return static_cast<int>(k_.matrices.size()) - 1;
}

int Builder::view(std::string name, TensorView tensor) {
  k_.views.push_back({std::move(name), std::move(tensor)});
  return static_cast<int>(k_.views.size()) - 1;
}

int Builder::signal(std::string name, uint32_t count, uint32_t arrivals) {
  k_.signals.push_back({std::move(name), count, arrivals});
  return static_cast<int>(k_.signals.size()) - 1;
}

void Builder::role(Role role) {
  k_.roles.push_back(std::move(role));
}

void Builder::set_units(Val end, Val groups) {
  if (!usable(end, "set_units") || !usable(groups, "set_units")) return;
  if (inst(end).op != Op::Param || inst(groups).op != Op::Param) {
    fail("set_units", "a bound is no parameter");
    return;
  }
  k_.units = {static_cast<uint32_t>(inst(end).imm), static_cast<uint32_t>(inst(groups).imm)};
}

void Builder::require_subgroup_size(uint32_t lanes) {
  k_.required_subgroup_size = lanes;
}

// --- Checks

bool Builder::fail(const char* operation, const std::string& problem) {
  if (error_.empty()) error_ = std::string(operation) + ": " + problem;
  return false;
}

bool Builder::report_unusable(Val v, const char* operation) {
  if (!error_.empty()) return false;
  if (v.id < 0 || static_cast<size_t>(v.id) >= k_.insts.size())
    return fail(operation, "an operand is not a value");
  if (type(v).ty == Ty::Void) return fail(operation, "an operand has no value");
  return fail(operation,
              "operand %" + std::to_string(v.id) + " was made in a block that is closed");
}

bool Builder::integer_index(Val v, const char* operation) {
  if (!usable(v, operation)) return false;
  if (type(v) == kI32 || type(v) == kU32) return true;
  return fail(operation, "the index is " + str(type(v)) + ", not i32 or u32");
}

bool Builder::check_access(const BufferParam& b, Val index, int lanes, uint32_t align,
                           const char* op) {
  if (!integer_index(index, op)) return false;
  const bool is_short = lanes == 1 || lanes == 2 || lanes == 4;
  const bool fits = lanes * byte_size(b.storage) <= kMostAccessBytes;
  if (!is_short && (!fits || (lanes != 8 && lanes != 16)))
    return fail(op, std::to_string(lanes) + " lanes");
  if (align == 0 || align % static_cast<uint32_t>(lanes) != 0) {
    return fail(op, "buffer '" + b.name + "': " + std::to_string(lanes) +
                        " lanes need an index that is proven a multiple of them, not of " +
                        std::to_string(align));
  }
  return true;
}

// --- Placing instructions

Val Builder::place(const Inst& inst, size_t scope) {
  const auto id = static_cast<int32_t>(k_.insts.size());
  const bool head =
      inst.args.empty() && (inst.op == Op::Const || inst.op == Op::Param || inst.op == Op::Builtin);
  k_.insts.push_back(inst);
  block_of_.push_back(head ? 0 : open_[scope].block);
  if (head) {
    head_.push_back(id);
  } else {
    k_.blocks[static_cast<size_t>(open_[scope].block)].insts.push_back(id);
  }
  return Val{id};
}

Val Builder::emit(const Inst& inst) {
  return error_.empty() ? place(inst, open_.size() - 1) : Val{};
}

/// A division must not be hoisted to where its divisor may be zero.
static bool may_move(const Inst& inst) {
  if (inst.op != Op::Scalar) return is_pure(inst.op);
  const auto op = static_cast<ScalarOp>(inst.imm);
  return op != ScalarOp::IDiv && op != ScalarOp::IRem;
}

static bool commutes(const Inst& inst) {
  if (inst.op != Op::Scalar) return false;
  switch (static_cast<ScalarOp>(inst.imm)) {
    case ScalarOp::Add:
    case ScalarOp::Mul:
    case ScalarOp::And:
    case ScalarOp::Or:
    case ScalarOp::Xor:
    case ScalarOp::BitAnd:
    case ScalarOp::BitOr:
    case ScalarOp::BitXor:
    case ScalarOp::Equal:
    case ScalarOp::NotEqual:
      return true;
    default:
      return false;
  }
}

/// A hash of what a pure instruction computes; the order of operands that commute does not matter.
static uint64_t hash_of(const Inst& i) {
  uint64_t h =
      static_cast<uint64_t>(i.op) * 31 + static_cast<uint64_t>(i.type.ty) * 7 + i.type.lanes;
  const auto mix = [&h](uint64_t v) { h = (h ^ v) * 0x9e3779b97f4a7c15U + (h >> 29U); };
  mix(i.imm);
  mix(i.align);
  if (commutes(i)) {
    mix(static_cast<uint64_t>(std::min(i.args[0].id, i.args[1].id)));
    mix(static_cast<uint64_t>(std::max(i.args[0].id, i.args[1].id)));
  } else {
    for (const Val v : i.args) mix(static_cast<uint64_t>(v.id));
  }
  return h ^ (h >> 32U);
}

/// Whether two pure instructions compute the same value.
static bool computes_same(const Inst& a, const Inst& b) {
  if (a.op != b.op || a.type != b.type || a.imm != b.imm || a.align != b.align) return false;
  return a.args == b.args || (commutes(a) && a.args[0] == b.args[1] && a.args[1] == b.args[0]);
}

int32_t& Builder::first_shared(const Inst& inst) {
  return first_shared_[hash_of(inst) & (first_shared_.size() - 1)];
}

void Builder::share(int32_t id, size_t scope) {
  if (++shared_count_ > first_shared_.size()) rehash(2 * first_shared_.size());
  next_shared_.resize(k_.insts.size(), -1);
  int32_t& first = first_shared(k_.insts[static_cast<size_t>(id)]);
  next_shared_[static_cast<size_t>(id)] = std::exchange(first, id);
  open_[scope].shared.push_back(id);
}

void Builder::end_sharing(int32_t id) {
  int32_t* at = &first_shared(k_.insts[static_cast<size_t>(id)]);
  while (*at != id) at = &next_shared_[static_cast<size_t>(*at)];
  *at = next_shared_[static_cast<size_t>(id)];
  --shared_count_;
}

/// `size`: a power of two.
void Builder::rehash(size_t size) {
  first_shared_.assign(size, -1);
  for (const Scope& s : open_) {
    for (const int32_t id : s.shared) {
      int32_t& first = first_shared(k_.insts[static_cast<size_t>(id)]);
      next_shared_[static_cast<size_t>(id)] = std::exchange(first, id);
    }
  }
}

Val Builder::emit_shared(const Inst& inst, bool hoist) {
  if (!error_.empty()) return {};
  for (int32_t id = first_shared(inst); id >= 0; id = next_shared_[static_cast<size_t>(id)])
    if (computes_same(k_.insts[static_cast<size_t>(id)], inst)) return Val{id};
  size_t scope = open_.size() - 1;
  if (inst.args.empty() && is_pure(inst.op)) {
    scope = 0;
  } else if (hoist) {
    size_t lowest = 0;
    for (Val v : inst.args) {
      const int32_t depth = depth_of(v);
      lowest = depth < 0 ? scope : std::max(lowest, static_cast<size_t>(depth));
    }
    while (scope > lowest && open_[scope].loop) --scope;
  }
  const Val v = place(inst, scope);
  share(v.id, scope);
  return v;
}

Val Builder::emit_pure(const Inst& inst) {
  if (!error_.empty()) return {};
  if (const auto v = simplify(inst)) return *v;
  const bool hoist = may_move(inst);
  return emit_shared(inst, hoist);
}

// --- Values

Value Builder::constant_bits(Type t, uint64_t bits) {
  if (class_of(t.ty) == 0) {
    fail("constant", "of type " + str(t));
    return {};
  }
  return bound(emit_shared({Op::Const, t, mask_bits(bits, t.ty), {}, {}, 1}, true));
}

Value Builder::constant(Type t, double v) {
  return constant_bits(t, bits_of(v, t.ty));
}

Value Builder::i32(int64_t v) {
  if (v < std::numeric_limits<int32_t>::min() || v > std::numeric_limits<int32_t>::max()) {
    fail("i32", std::to_string(v) + " does not fit");
  }
  return constant_bits(kI32, static_cast<uint64_t>(v));
}

Value Builder::u32(uint64_t v) {
  if (v > std::numeric_limits<uint32_t>::max()) fail("u32", std::to_string(v) + " does not fit");
  return constant_bits(kU32, v);
}

Value Builder::i64(int64_t v) {
  return constant_bits(kI64, static_cast<uint64_t>(v));
}

Value Builder::f32(float v) {
  return constant(kF32, static_cast<double>(v));
}

Value Builder::boolean(bool v) {
  return constant_bits(kBool, v ? 1 : 0);
}

Value Builder::param(int scalar, Val item) {
  if (scalar < 0 || static_cast<size_t>(scalar) >= k_.item_scalars()) {
    fail("param", "no scalar " + std::to_string(scalar));
    return {};
  }
  const auto i = static_cast<size_t>(scalar);
  Inst inst{Op::Param, {k_.scalars[i].type, 1}, i, {}, {}, 1};
  if (item) {
    if (!usable(item, "param")) return {};
    inst.args.push_back(item);
  }
  return bound(emit_shared(inst, true));
}

Value Builder::builtin(Builtin b, int component) {
  const auto imm = static_cast<uint64_t>(b) | static_cast<uint64_t>(component) << 8U;
  return bound(emit_shared({Op::Builtin, kU32, imm, {}, {}, 1}, true));
}

bool Builder::check_scalar_op(const ScalarRow& r, std::span<const Val> args) {
  const char* name = r.name.data();  // a literal
  if (static_cast<int>(args.size()) != r.arity) {
    return fail(
        name, "takes " + std::to_string(r.arity) + " operands, not " + std::to_string(args.size()));
  }
  if (!usable(args, name)) return false;
  const Type t = type(args.back());
  if ((class_of(t.ty) & r.operands) == 0) return fail(name, "does not take " + str(t));
  for (size_t i = 0; i < args.size(); ++i) {
    const bool condition = r.op == ScalarOp::Where && i == 0;
    const Type want = condition ? vec(kBool, t.lanes) : t;
    if (type(args[i]) == want) continue;
    return fail(
        name, "operand " + std::to_string(i) + " is " + str(type(args[i])) + ", not " + str(want));
  }
  return true;
}

Value Builder::scalar_op(ScalarOp op, std::initializer_list<Val> args) {
  return scalar_op(op, std::span<const Val>(args.begin(), args.size()));
}

Value Builder::scalar_op(ScalarOp op, std::span<const Val> args) {
  const ScalarRow& r = row(op);
  if (!check_scalar_op(r, args)) return {};
  Type t = type(args.back());
  if (r.result == ResultKind::Boolean) t.ty = Ty::Bool;
  Inst inst{Op::Scalar, t, static_cast<uint64_t>(op), args, {}, 1};
  // Put constants on the right, so that identities and reuse need to match one form only.
  if (commutes(inst) && const_bits(inst.args[0])) std::swap(inst.args[0], inst.args[1]);
  return bound(emit_pure(inst));
}

Value Builder::convert(Val v, Ty to, bool in_range) {
  if (!usable(v, "convert")) return {};
  if (class_of(to) == 0) {
    fail("convert", "to " + std::string(name_of(to)));
    return {};
  }
  if (type(v).ty == to) return bound(v);
  return bound(emit_pure({Op::Convert, {to, type(v).lanes}, in_range ? 1U : 0U, {v}, {}, 1}));
}

Value Builder::bitcast(Val v, Type to) {
  if (!usable(v, "bitcast")) return {};
  const Type from = type(v);
  const bool numbers = (class_of(from.ty) & kNumber) != 0 && (class_of(to.ty) & kNumber) != 0;
  if (!numbers || byte_size(from.ty) * from.lanes != byte_size(to.ty) * to.lanes) {
    fail("bitcast", "from " + str(from) + " to " + str(to));
    return {};
  }
  return bound(emit_pure({Op::Bitcast, to, 0, {v}, {}, 1}));
}

Value Builder::compose(std::span<const Val> lanes) {
  if (lanes.size() == 1) return bound(lanes[0]);
  if (!usable(lanes, "compose")) return {};
  if (lanes.size() != 2 && lanes.size() != 4) {
    fail("compose", std::to_string(lanes.size()) + " lanes");
    return {};
  }
  const Type t = type(lanes[0]);
  for (Val v : lanes) {
    if (type(v) == t && (t.lanes == 1 || t.lanes == kPartLanes)) continue;
    fail("compose", "of " + str(t) + " and " + str(type(v)));
    return {};
  }
  const Type all = vec(t, t.lanes * static_cast<int>(lanes.size()));
  return bound(emit_pure({Op::Compose, all, 0, lanes, {}, 1}));
}

Value Builder::compose(std::initializer_list<Val> lanes) {
  return compose(std::span<const Val>(lanes.begin(), lanes.size()));
}

Value Builder::splat(Val v, int lanes) {
  const std::array all{v, v, v, v};
  if (lanes < 1 || lanes > 4) {
    fail("splat", std::to_string(lanes) + " lanes");
    return {};
  }
  return compose(std::span(all).first(static_cast<size_t>(lanes)));
}

Value Builder::extract(Val v, int lane) {
  if (!usable(v, "extract")) return {};
  if (lane < 0 || lane >= type(v).lanes) {
    fail("extract", "lane " + std::to_string(lane) + " of " + str(type(v)));
    return {};
  }
  if (type(v).lanes == 1) return bound(v);
  if (is_long(type(v))) return extract(part(v, lane / kPartLanes), lane % kPartLanes);
  return bound(emit_pure({Op::Extract, vec(type(v), 1), static_cast<uint64_t>(lane), {v}, {}, 1}));
}

Value Builder::part(Val v, int n) {
  if (!usable(v, "part")) return {};
  const Type from = type(v);
  if (!is_long(from) || n < 0 || n >= from.lanes / kPartLanes) {
    fail("part", std::to_string(n) + " of " + str(from));
    return {};
  }
  const auto lane = static_cast<uint64_t>(n) * kPartLanes;
  return bound(emit_pure({Op::Extract, vec(from, kPartLanes), lane, {v}, {}, 1}));
}

std::optional<int64_t> Builder::as_const(Val v) const {
  const auto bits = const_bits(v);
  if (!bits || (class_of(type(v).ty) & (kInt | kBoolean)) == 0) return std::nullopt;
  return integer_of(*bits, type(v).ty);
}

std::optional<double> Builder::as_const_float(Val v) const {
  const auto bits = const_bits(v);
  if (!bits || class_of(type(v).ty) != kFloat) return std::nullopt;
  return number_of(*bits, type(v).ty);
}

}  // namespace reprise::kernel
