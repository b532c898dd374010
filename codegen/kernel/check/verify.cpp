// Verifies structure, types, visibility, ranges, claims about constants, and uniform barriers.
#include <algorithm>

#include "codegen/kernel/check/verify_early.h"
#include "codegen/kernel/check/verify_elements.h"
#include "codegen/kernel/check/verify_roles.h"
#include "codegen/kernel/check/verify_uniformity.h"
#include "codegen/kernel/ir/kernel.h"
#include "codegen/kernel/ir/scalar_eval.h"
#include "runtime/base/driver_workarounds.h"

namespace reprise::kernel {
namespace {

constexpr uint64_t kMostGroups = 7;             // of unfinished copies
constexpr size_t kMaxDepth = kMaxNestedBlocks;  // workarounds::kDeepNesting
constexpr int kSwizzledPart = 16;               // bytes, whose place a swizzle changes

bool is_identifier(const std::string& s) {
  if (s.empty() || (s[0] >= '0' && s[0] <= '9')) return false;
  return std::all_of(s.begin(), s.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

class Verifier {
 public:
  explicit Verifier(const Kernel& k)
      : k_(k),
        roles_(k),
        placed_(k.insts.size()),
        visible_(k.insts.size()),
        entered_(k.blocks.size()) {}

  Status run() {
    RP_TRY(interface());
    if (k_.blocks.empty()) return error("it has no body");
    return block(0, 0);
  }

 private:
  Status error(const std::string& problem) const {
    return internal_error("kernel '" + k_.name + "': " + problem);
  }
  Status error(int32_t id, const std::string& problem) const {
    return error("%" + std::to_string(id) + ": " + problem);
  }

  Status interface() const {
    const bool lower = !k_.name.empty() && !(k_.name[0] >= 'A' && k_.name[0] <= 'Z');
    if (!is_identifier(k_.name) || !lower) return error("the name is not an identifier");
    uint64_t size = 1;
    for (uint32_t n : k_.workgroup) {
      if (n == 0 || n > 1024) return error("a workgroup dimension is " + std::to_string(n));
      size *= n;
    }
    if (size > 1024) return error("the workgroup has " + std::to_string(size) + " invocations");
    if (!repeats(k_.buffers) || !repeats(k_.scalars)) return error("its items differ");
    for (const BufferParam& b : k_.buffers) {
      if (!is_identifier(b.name) || class_of(compute_type(b.storage)) == 0 ||
          b.storage == Ty::Bool) {
        return error("buffer '" + b.name + "' of " + std::string(name_of(b.storage)));
      }
      const auto element = static_cast<uint32_t>(byte_size(b.storage));
      if (b.align % element != 0 || (b.align & (b.align - 1)) != 0 || b.align == 0) {
        return error("buffer '" + b.name + "' has alignment " + std::to_string(b.align));
      }
    }
    for (const ScalarParam& s : k_.scalars) {
      if (!is_identifier(s.name) || (s.type != Ty::I32 && s.type != Ty::U32 && s.type != Ty::F32)) {
        return error("scalar '" + s.name + "' of " + std::string(name_of(s.type)));
      }
    }
    for (const LocalVar& l : k_.locals) {
      if (!is_identifier(l.name) || !compute(l.type) || l.count == 0) {
        return error("local '" + l.name + "' of " + str(l.type));
      }
    }
    for (const uint32_t n :
         k_.units ? std::vector{k_.units->end, k_.units->groups} : std::vector<uint32_t>())
      if (n >= k_.scalars.size() || k_.scalars[n].type != Ty::I32 || k_.items != 1)
        return error("its units have no bounds");
    RP_TRY(matrices());
    if (const std::string problem = roles_.interface(); !problem.empty()) return error(problem);
    for (const SharedArray& s : k_.shared) {
      const bool number = s.type == Ty::BF16 || (class_of(s.type) & kNumber) != 0;
      if (!is_identifier(s.name) || !number || s.count == 0) {
        return error("shared array '" + s.name + "' of " + std::string(name_of(s.type)));
      }
    }
    return {};
  }

  /// Whether the parameters are those of the first item, once for each item.
  template <typename Parameter>
  bool repeats(const std::vector<Parameter>& all) const {
    if (k_.items == 0 || all.size() % k_.items != 0) return false;
    const size_t each = all.size() / k_.items;
    return std::equal(all.begin() + static_cast<ptrdiff_t>(each), all.end(), all.begin());
  }

  /// Matrices must have one shape, and whole subgroups of a required size must hold them.
  Status matrices() const {
    if (k_.matrices.empty()) return {};
    const bool whole = k_.required_subgroup_size != 0 &&
                       k_.workgroup[0] % k_.required_subgroup_size == 0 && k_.workgroup[1] == 1 &&
                       k_.workgroup[2] == 1;
    if (!whole) return error("its matrices need whole subgroups of a required size");
    const MmaConfig config = requirements(k_).matrix;
    const auto first = std::ranges::find_if(
        k_.matrices, [](const MatrixVar& m) { return m.use != MatrixUse::Sum; });
    const bool known =
        first != k_.matrices.end() && (first->type == Ty::BF16 || first->type == Ty::F32);
    const Ty operand = known ? first->type : Ty::F16;
    for (const MatrixVar& m : k_.matrices) {
      if (m.scope != k_.matrices[0].scope) return error("matrix '" + m.name + "' of another scope");
      const bool is_sum = m.use == MatrixUse::Sum;
      if (m.scope == MmaScope::Team) {
        if (!is_identifier(m.name) || !(RoleRules::is_sum(m) || is_left_of_team(m)))
          return error("matrix '" + m.name + "' of a team");
        continue;
      }
      const uint32_t rows = m.use == MatrixUse::Right ? config.k : config.m;
      const uint32_t columns = m.use == MatrixUse::Left ? config.k : config.n;
      if (!is_identifier(m.name) || m.type != (is_sum ? Ty::F32 : operand) || m.rows == 0 ||
          m.columns == 0 || m.rows != rows || m.columns != columns) {
        return error("matrix '" + m.name + "' of " + std::string(name_of(m.type)) + " " +
                     std::to_string(m.rows) + "x" + std::to_string(m.columns));
      }
    }
    return {};
  }

  static bool compute(Type t) {
    return class_of(t.ty) != 0 && (t.lanes == 1 || t.lanes == 2 || t.lanes == 4);
  }

  /// Whether an instruction that moves vectors may have values of this type.
  static bool movable(Type t) {
    return class_of(t.ty) != 0 && (compute(t) || t.lanes == 8 || t.lanes == 16);
  }

  const Inst& inst(Val v) const { return k_.insts[static_cast<size_t>(v.id)]; }
  Type type(Val v) const { return inst(v).type; }
  static bool index_type(Type t) { return t == kI32 || t == kU32; }

  Status block(int32_t index, size_t depth) {
    if (index < 0 || static_cast<size_t>(index) >= k_.blocks.size()) {
      return error("no block " + std::to_string(index));
    }
    if (depth > kMaxDepth) return error("blocks nest too deeply");
    if (entered_[static_cast<size_t>(index)]) {
      return error("block " + std::to_string(index) + " is used twice");
    }
    entered_[static_cast<size_t>(index)] = true;
    std::vector<int32_t> mine;
    for (int32_t id : k_.blocks[static_cast<size_t>(index)].insts) {
      if (id < 0 || static_cast<size_t>(id) >= k_.insts.size()) {
        return error("no instruction " + std::to_string(id));
      }
      if (placed_[static_cast<size_t>(id)]) return error(id, "is placed twice");
      placed_[static_cast<size_t>(id)] = true;
      RP_TRY(instruction(id, depth));
      if (k_.insts[static_cast<size_t>(id)].op == Op::For) continue;
      visible_[static_cast<size_t>(id)] = true;
      mine.push_back(id);
    }
    for (int32_t id : mine) visible_[static_cast<size_t>(id)] = false;
    return {};
  }

  Status instruction(int32_t id, size_t depth) {
    const Inst& i = k_.insts[static_cast<size_t>(id)];
    for (Val v : i.args) {
      if (v.id < 0 || static_cast<size_t>(v.id) >= k_.insts.size() ||
          !visible_[static_cast<size_t>(v.id)]) {
        return error(id, "operand %" + std::to_string(v.id) + " is not visible here");
      }
      if (type(v).ty == Ty::Void) return error(id, "an operand has no value");
    }
    const std::string problem = shape(i);
    if (!problem.empty()) return error(id, problem);
    RP_TRY(placed_well(id));
    if (i.op == Op::SelectItem && depth != 0) return error(id, "is in a nested block");
    selected_ = selected_ || i.op == Op::SelectItem;
    if (i.op == Op::For) {
      visible_[static_cast<size_t>(id)] = true;
      ++loops_;
    }
    for (size_t b = 0; b < i.blocks.size(); ++b) {
      if (i.op == Op::Roles) role_ = static_cast<int>(b);
      RP_TRY(block(i.blocks[b], depth + 1));
    }
    if (i.op == Op::Roles) {
      role_ = kNoRole;
      divided_ = true;
    }
    if (i.op == Op::For) {
      visible_[static_cast<size_t>(id)] = false;
      --loops_;
    }
    return {};
  }

  /// Whether roles may, or must, have an instruction where it is.
  Status placed_well(int32_t id) const {
    const Inst& i = k_.insts[static_cast<size_t>(id)];
    if (divided_ && !is_value(i.op)) return error(id, "follows the roles");
    if (i.op == Op::Roles && (role_ != kNoRole || loops_ != 0))
      return error(id, "divides a role, or is in a loop");
    const std::string problem =
        roles_.place(i, role_ == kNoRole ? nullptr : &k_.roles[static_cast<size_t>(role_)]);
    return problem.empty() ? Status() : error(id, problem);
  }

  /// The fault of one instruction; empty if there is none.
  std::string shape(const Inst& i) const {
    const bool has_blocks = i.op == Op::If || i.op == Op::For || i.op == Op::Roles;
    if (!has_blocks && !i.blocks.empty()) return "has blocks";
    switch (i.op) {
      case Op::Const:
        return constant(i);
      case Op::Param:
        return param(i);
      case Op::Builtin:
        return builtin(i);
      case Op::Scalar:
        return scalar(i);
      case Op::Convert:
        return convert(i);
      case Op::Bitcast:
        return bitcast(i);
      case Op::Compose:
        return compose(i);
      case Op::Extract:
        return extract(i);
      case Op::Load:
      case Op::Store:
        return buffer_access(i);
      case Op::LocalLoad:
      case Op::LocalStore:
        return local_access(i);
      case Op::SharedLoad:
      case Op::SharedStore:
        return shared_access(i);
      case Op::AsyncCopy:
        return async_copy(i);
      case Op::CopyCommit:
      case Op::CopyWait:
        return copy_group(i);
      case Op::Barrier:
        return barrier(i);
      case Op::Subgroup:
        return subgroup(i);
      case Op::SelectItem:
        return select_item(i);
      case Op::AwaitLaunches:
        return i.args.empty() && i.type == Type{} ? "" : "malformed await_launches";
      case Op::SetError:
        return set_error(i);
      case Op::NoError:
        return no_error(i);
      case Op::If:
        return branch(i);
      case Op::For:
        return loop(i);
      default:
        return matrix(i);
    }
  }

  /// Of instructions for matrices, and for parts of a workgroup.
  std::string matrix(const Inst& i) const {
    switch (i.op) {
      case Op::MatrixZero:
        return i.args.empty() && i.imm < k_.matrices.size() ? "" : "malformed matrix_zero";
      case Op::MatrixLoad:
      case Op::MatrixStore:
        return matrix_access(i);
      case Op::MatrixMulAdd:
        return matrix_product(i);
      case Op::MatrixGet:
      case Op::MatrixSet:
      case Op::MatrixConvert:
        return element_fault(k_, i);
      default:
        return roles_.shape(i);
    }
  }

  static std::string barrier(const Inst& i) {
    const bool known = i.imm <= static_cast<uint64_t>(BarrierScope::Cluster);
    return i.args.empty() && i.type == Type{} && known ? "" : "malformed barrier";
  }

  std::string branch(const Inst& i) const {
    if (i.args.size() != 1 || type(i.args[0]) != kBool) return "the condition is not a bool";
    const size_t blocks = i.blocks.size();
    return blocks == 1 || blocks == 2 ? "" : "an if has one or two blocks";
  }

  static std::string constant(const Inst& i) {
    if (!i.args.empty() || !compute(i.type)) return "malformed constant";
    return mask_bits(i.imm, i.type.ty) == i.imm ? "" : "the constant has bits beyond its type";
  }

  std::string convert(const Inst& i) const {
    if (i.args.size() != 1 || !compute(i.type)) return "malformed conversion";
    return type(i.args[0]).lanes == i.type.lanes ? "" : "the lanes differ";
  }

  std::string param(const Inst& i) const {
    const size_t n = i.args.size();
    if (i.imm >= k_.item_scalars()) return "no such parameter";
    if (n != (k_.items == 1 ? 0U : 1U) || (n == 1 && type(i.args[0]) != kI32))
      return "the item of a parameter";
    return i.type == Type{k_.scalars[i.imm].type, 1} ? "" : "the parameter has another type";
  }

  std::string extract(const Inst& i) const {
    if (i.args.size() != 1 || i.imm >= type(i.args[0]).lanes) return "no such lane";
    const Type from = type(i.args[0]);
    if (i.type != vec(from, is_long(from) ? kPartLanes : 1)) return "the lane has another type";
    return i.imm % i.type.lanes == 0 ? "" : "no part begins there";
  }

  std::string set_error(const Inst& i) const {
    if (i.args.size() != 1 || type(i.args[0]) != kBool) return "the condition is not a bool";
    const bool known = i.imm >= 1 && i.imm <= static_cast<uint64_t>(ErrorCode::DivisionByZero);
    return known ? "" : "unknown error code";
  }

  std::string no_error(const Inst& i) const {
    if (!i.args.empty() || i.type != kBool) return "malformed no_error";
    const bool sets =
        std::ranges::any_of(k_.insts, [](const Inst& o) { return o.op == Op::SetError; });
    return sets ? "a kernel that records errors asks for those of earlier launches" : "";
  }

  std::string select_item(const Inst& i) const {
    if (i.args.size() != 1 || i.type != Type{} || type(i.args[0]) != kI32)
      return "malformed selection";
    if (k_.items == 1) return "there is one item";
    return selected_ ? "an item is selected already" : "";
  }

  std::string builtin(const Inst& i) const {
    if (!i.args.empty() || i.type != kU32) return "malformed builtin";
    const uint64_t which = i.imm & 0xffU;
    const uint64_t component = i.imm >> 8U;
    if (which > static_cast<uint64_t>(Builtin::ClusterRank)) return "unknown builtin";
    const auto b = static_cast<Builtin>(which);
    const bool vector =
        b == Builtin::GlobalId || b == Builtin::LocalId || b == Builtin::WorkgroupId;
    return component < (vector ? 3U : 1U) ? "" : "no such component";
  }

  std::string scalar(const Inst& i) const {
    if (i.imm >= static_cast<uint64_t>(scalar_op_count())) return "unknown scalar operation";
    const ScalarRow& r = row(static_cast<ScalarOp>(i.imm));
    const auto fault = [&](const std::string& what) { return std::string(r.name) + what; };
    if (i.args.size() != static_cast<size_t>(r.arity)) return fault(": wrong number of operands");
    const Type t = type(i.args.back());
    if ((class_of(t.ty) & r.operands) == 0 || is_long(t)) return fault(" does not take " + str(t));
    for (size_t a = 0; a < i.args.size(); ++a) {
      const bool condition = r.op == ScalarOp::Where && a == 0;
      if (type(i.args[a]) != (condition ? vec(kBool, t.lanes) : t)) {
        return fault(": operand types differ");
      }
    }
    const Type result = r.result == ResultKind::Boolean ? vec(kBool, t.lanes) : t;
    return i.type == result ? "" : fault(" gives " + str(result) + ", not " + str(i.type));
  }

  std::string bitcast(const Inst& i) const {
    if (i.args.size() != 1 || !compute(i.type)) return "malformed bitcast";
    const Type from = type(i.args[0]);
    const bool numbers =
        ((class_of(from.ty) & class_of(i.type.ty)) & kBoolean) == 0 && !is_long(from);
    const bool same = byte_size(from.ty) * from.lanes == byte_size(i.type.ty) * i.type.lanes;
    return numbers && same ? "" : "bitcast from " + str(from) + " to " + str(i.type);
  }

  std::string compose(const Inst& i) const {
    const Type each = vec(i.type, is_long(i.type) ? kPartLanes : 1);
    if (i.args.size() * each.lanes != i.type.lanes || i.type.lanes == 1 || !movable(i.type)) {
      return "wrong number of lanes";
    }
    for (Val v : i.args) {
      if (type(v) != each) return "a lane has another type";
    }
    return "";
  }

  /// The fault of an index. A constant one is checked against its alignment claim.
  std::string aligned_index(Val index, uint32_t align) const {
    if (!index_type(type(index))) return "the index is " + str(type(index));
    if (align == 0) return "the alignment is 0";
    const Inst& i = inst(index);
    if (i.op != Op::Const) return "";
    const int64_t value = integer_of(i.imm, i.type.ty);
    if (value < 0) return "the index is " + std::to_string(value);
    return value % align == 0 ? ""
                              : "index " + std::to_string(value) + " is not a multiple of " +
                                    std::to_string(align);
  }

  std::string buffer_access(const Inst& i) const {
    const bool load = i.op == Op::Load;
    const bool masked = !load && i.args.size() == 3;
    if (i.args.size() != (load ? 1U : masked ? 3U : 2U)) return "wrong number of operands";
    if (i.imm >= k_.item_buffers()) return "no such buffer";
    if ((k_.items != 1) != selected_) return "no item is selected";
    const BufferParam& b = k_.buffers[i.imm];
    if (masked && (b.storage != Ty::U32 || type(i.args[1]) != kU32 || type(i.args[2]) != kU32)) {
      return "a masked store takes a u32 buffer, value and mask";
    }
    const Type t = load ? i.type : type(i.args[1]);
    if (!load && i.type != Type{}) return "a store has no value";
    if (!movable(t) || t.ty != compute_type(b.storage)) {
      return "buffer '" + b.name + "' of " + std::string(name_of(b.storage)) + " accessed as " +
             str(t);
    }
    if (load && b.access == Access::Write) return "loads from write-only buffer '" + b.name + "'";
    if (!load && b.access == Access::Read) return "stores to read-only buffer '" + b.name + "'";
    if (too_long(t, b.storage)) return "buffer '" + b.name + "' accessed as " + str(t);
    if (i.align % t.lanes != 0) return "the lanes are not proven aligned";
    if (t.lanes * byte_size(b.storage) > static_cast<int>(b.align)) {
      return "buffer '" + b.name + "' is aligned to " + std::to_string(b.align) +
             " bytes, less than " + str(t) + " needs";
    }
    return aligned_index(i.args[0], i.align);
  }

  static bool too_long(Type t, Ty stored) {
    return is_long(t) && t.lanes * byte_size(stored) > kMostAccessBytes;
  }

  std::string local_access(const Inst& i) const {
    const size_t values = i.op == Op::LocalStore ? 1 : 0;
    if (i.imm >= k_.locals.size()) return "no such local";
    const LocalVar& l = k_.locals[i.imm];
    const bool indexed = i.args.size() == values + 1;
    if (!indexed && i.args.size() != values) return "wrong number of operands";
    if (indexed != (l.count > 1)) {
      return "local '" + l.name + "' " + (indexed ? "is not an array" : "needs an index");
    }
    const Type t = values == 0 ? i.type : type(i.args[0]);
    if (t != l.type || (values == 1 && i.type != Type{}))
      return "local '" + l.name + "': types differ";
    if (!indexed) return "";
    const Inst& index = inst(i.args[values]);
    if (index.op == Op::Const && integer_of(index.imm, index.type.ty) >= l.count) {
      return "index beyond local '" + l.name + "'";
    }
    return aligned_index(i.args[values], 1);
  }

  std::string shared_access(const Inst& i) const {
    const bool load = i.op == Op::SharedLoad;
    if (i.args.size() != (load ? 1U : 2U) && !is_remote(i)) return "wrong number of operands";
    if (i.imm >= k_.shared.size()) return "no such shared array";
    const SharedArray& s = k_.shared[i.imm];
    if (is_remote(i) && (byte_size(s.type) != 4 || i.type.lanes > kMostLanes))
      return "reads '" + s.name + "' of another workgroup, whose elements are not of 32 bits";
    const Type t = load ? i.type : type(i.args[1]);
    // Only whole parts of its lines are stored.
    if (s.swizzle != Swizzle::None && (load || t.lanes * byte_size(s.type) != kSwizzledPart))
      return "shared array '" + s.name + "' is swizzled";
    if (t.ty != compute_type(s.type) || !movable(t) || too_long(t, s.type))
      return "shared array '" + s.name + "': types differ";
    if (!load && i.type != Type{}) return "a store has no value";
    const Inst& index = inst(i.args[0]);
    if (index.op == Op::Const && integer_of(index.imm, index.type.ty) + t.lanes > s.count) {
      return "index beyond shared array '" + s.name + "'";
    }
    return aligned_index(i.args[0], t.lanes);
  }

  static std::string copy_group(const Inst& i) {
    const bool plain = i.args.empty() && i.type == Type{};
    if (i.op == Op::CopyCommit) return plain ? "" : "malformed copy_commit";
    return plain && i.imm <= kMostGroups ? "" : "malformed copy_wait";
  }

  std::string async_copy(const Inst& i) const {
    const CopyAccess a = CopyAccess::of(i.imm);
    if (i.args.size() != 3 || i.type != Type{} || type(i.args[2]) != kI32) return "malformed copy";
    if (a.buffer >= k_.item_buffers()) return "no such buffer";
    if (a.shared >= k_.shared.size()) return "no such shared array";
    if ((k_.items != 1) != selected_) return "no item is selected";
    const BufferParam& b = k_.buffers[a.buffer];
    const int bytes = a.lanes * byte_size(b.storage);
    if (b.access != Access::Read) return "copies from buffer '" + b.name + "', which is written";
    if (b.storage != k_.shared[a.shared].type) return "buffer '" + b.name + "': types differ";
    if (bytes != 4 && bytes != 8 && bytes != 16) {
      return "copies " + std::to_string(bytes) + " bytes of buffer '" + b.name +
             "', not 4, 8 or 16";
    }
    if (bytes > static_cast<int>(b.align)) {
      return "buffer '" + b.name + "' is aligned to " + std::to_string(b.align) +
             " bytes, less than a copy needs";
    }
    if (i.align == 0 || i.align % a.lanes != 0) return "the elements are not proven aligned";
    const std::string from = aligned_index(i.args[0], i.align);
    return from.empty() ? aligned_index(i.args[1], i.align) : from;
  }

  std::string matrix_access(const Inst& i) const {
    const MatrixAccess a = MatrixAccess::of(i.imm);
    if (i.args.size() != 1 || i.type != Type{}) return "malformed access of a matrix";
    if (a.matrix >= k_.matrices.size()) return "no such matrix";
    if (a.shared >= k_.shared.size()) return "no such shared array";
    const MatrixVar& m = k_.matrices[a.matrix];
    if (k_.shared[a.shared].swizzle != Swizzle::None)
      return "shared array '" + k_.shared[a.shared].name + "' is swizzled";
    if (m.scope == MmaScope::Team && i.op == Op::MatrixLoad) return "the sums of a team are stored";
    if (i.op == Op::MatrixStore && m.use != MatrixUse::Sum) return "only sums are stored";
    const Ty array = k_.shared[a.shared].type;
    if (i.op == Op::MatrixLoad ? m.type != array : !stores_sum_to(array))
      return "matrix '" + m.name + "': types differ";
    if (a.stride < (a.by_columns ? m.rows : m.columns)) {
      return "matrix '" + m.name + "': lines overlap with a stride of " + std::to_string(a.stride);
    }
    if (i.align == 0 || a.stride % i.align != 0) {
      return "matrix '" + m.name + "': the stride is no multiple of " + std::to_string(i.align);
    }
    return aligned_index(i.args[0], i.align);
  }

  std::string matrix_product(const Inst& i) const {
    const MatrixOperands p = MatrixOperands::of(i.imm);
    if (!i.args.empty()) return "malformed multiplication of matrices";
    const size_t count = k_.matrices.size();
    if (p.sum >= count || p.left >= count || p.right >= count) return "no such matrix";
    const MatrixVar& sum = k_.matrices[p.sum];
    const MatrixVar& left = k_.matrices[p.left];
    const MatrixVar& right = k_.matrices[p.right];
    const bool uses = sum.scope != MmaScope::Team && sum.use == MatrixUse::Sum &&
                      left.use == MatrixUse::Left && right.use == MatrixUse::Right;
    return uses ? "" : "a matrix has another use";
  }

  std::string subgroup(const Inst& i) const {
    if (i.imm > static_cast<uint64_t>(SubgroupOp::Broadcast)) return "unknown subgroup operation";
    const auto op = static_cast<SubgroupOp>(i.imm);
    const bool lane =
        op == SubgroupOp::Shuffle || op == SubgroupOp::ShuffleXor || op == SubgroupOp::Broadcast;
    if (i.args.size() != (lane ? 2U : 1U)) return "wrong number of operands";
    if (type(i.args[0]) != i.type || (class_of(i.type.ty) & kNumber) == 0 || is_long(i.type))
      return "types differ";
    if (!lane) return "";
    if (!index_type(type(i.args[1]))) return "the lane is " + str(type(i.args[1]));
    const bool constant = inst(i.args[1]).op == Op::Const;
    return constant || op != SubgroupOp::Broadcast ? ""
                                                   : "the lane of a broadcast is not a constant";
  }

  std::string loop(const Inst& i) const {
    if (i.args.size() != 3 || i.blocks.size() != 1 || i.type != kI32) return "malformed loop";
    for (Val v : i.args) {
      if (type(v) != kI32) return "a bound is " + str(type(v));
    }
    const Inst& step = inst(i.args[2]);
    const bool not_positive = step.op == Op::Const && integer_of(step.imm, Ty::I32) <= 0;
    return not_positive ? "the step is not positive" : "";
  }

  static constexpr int kNoRole = -1;
  const Kernel& k_;
  RoleRules roles_;
  std::vector<bool> placed_, visible_, entered_;
  int role_ = kNoRole;     // whose block this is
  int loops_ = 0;          // around this block
  bool divided_ = false;   // the roles have ended
  bool selected_ = false;  // an instruction has selected an item
};

}  // namespace

Status verify_structure(const Kernel& k) {
  return Verifier(k).run();
}

Status verify(const Kernel& k) {
  RP_TRY(verify_structure(k));
  RP_TRY(verify_early(k));
  return verify_uniformity(k);
}

}  // namespace reprise::kernel
