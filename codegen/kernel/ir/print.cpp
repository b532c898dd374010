// Prints a kernel as deterministic text, for dumps and golden tests.
#include <charconv>
#include <cmath>

#include "codegen/kernel/ir/kernel.h"
#include "codegen/kernel/ir/scalar_eval.h"

namespace reprise::kernel {
namespace {

const char* name_of(Builtin b) {
  switch (b) {
    case Builtin::GlobalId:
      return "global_id";
    case Builtin::LocalId:
      return "local_id";
    case Builtin::LocalIndex:
      return "local_index";
    case Builtin::WorkgroupId:
      return "workgroup_id";
    case Builtin::SubgroupLane:
      return "subgroup_lane";
    case Builtin::SubgroupSize:
      return "subgroup_size";
    case Builtin::SubgroupIndex:
      return "subgroup_index";
    case Builtin::ClusterRank:
      return "cluster_rank";
    case Builtin::TeamIndex:
      return "team_index";
  }
  return "invalid";
}

const char* name_of(SubgroupOp op) {
  switch (op) {
    case SubgroupOp::Add:
      return "add";
    case SubgroupOp::Max:
      return "max";
    case SubgroupOp::Min:
      return "min";
    case SubgroupOp::Shuffle:
      return "shuffle";
    case SubgroupOp::ShuffleXor:
      return "shuffle_xor";
    case SubgroupOp::Broadcast:
      return "broadcast";
  }
  return "invalid";
}

const char* name_of(Access a) {
  switch (a) {
    case Access::Read:
      return "read";
    case Access::Write:
      return "write";
    case Access::ReadWrite:
      return "read_write";
  }
  return "invalid";
}

const char* name_of(BarrierScope s) {
  switch (s) {
    case BarrierScope::Workgroup:
      return "";
    case BarrierScope::Team:
      return " of team";
    case BarrierScope::Cluster:
      return " of cluster";
  }
  return "?";
}

const char* name_of(MatrixUse u) {
  switch (u) {
    case MatrixUse::Left:
      return "left";
    case MatrixUse::Right:
      return "right";
    case MatrixUse::Sum:
      return "sum";
  }
  return "invalid";
}

const char* name_of(Swizzle s) {
  switch (s) {
    case Swizzle::None:
      return "none";
    case Swizzle::B32:
      return "32";
    case Swizzle::B64:
      return "64";
    case Swizzle::B128:
      return "128";
  }
  return "invalid";
}

const char* name_of(ErrorCode c) {
  switch (c) {
    case ErrorCode::None:
      return "none";
    case ErrorCode::IndexOutOfRange:
      return "index_out_of_range";
    case ErrorCode::IntegerOverflow:
      return "integer_overflow";
    case ErrorCode::DivisionByZero:
      return "division_by_zero";
  }
  return "invalid";
}

/// The shortest text that parses to the same number.
template <typename T>
std::string shortest(T v) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  return {buffer, end};
}

std::string number(uint64_t bits, Ty t) {
  switch (class_of(t)) {
    case kBoolean:
      return bits != 0 ? "true" : "false";
    case kFloat: {
      const double v = number_of(bits, t);
      if (std::isnan(v)) return "nan";
      return t == Ty::F64 ? shortest(v) : shortest(static_cast<float>(v));
    }
    case kUnsigned:
      return std::to_string(bits);
    default:
      return std::to_string(integer_of(bits, t));
  }
}

const char* scope_of(const MatrixVar& m) {
  switch (m.scope) {
    case MmaScope::Subgroup:
      break;
    case MmaScope::Team:
      return " of a team";
    case MmaScope::Workgroup:
      return " of a workgroup";
  }
  return "";
}

class Printer {
 public:
  explicit Printer(const Kernel& k) : k_(k) {}
  std::string text() {
    header();
    out_ += "{\n";
    if (!k_.blocks.empty()) block(0, 1);
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  void header() {
    out_ += "kernel " + k_.name + " workgroup(" + std::to_string(k_.workgroup[0]) + ", " +
            std::to_string(k_.workgroup[1]) + ", " + std::to_string(k_.workgroup[2]) + ")";
    if (k_.required_subgroup_size != 0) {
      out_ += " subgroup(" + std::to_string(k_.required_subgroup_size) + ")";
    }
    if (k_.cluster != 1) out_ += " cluster(" + std::to_string(k_.cluster) + ")";
    if (k_.items != 1) out_ += " items(" + std::to_string(k_.items) + ")";
    out_ += "\n";
    // Those of the first item stand for all.
    for (const BufferParam& b : std::span(k_.buffers).first(k_.item_buffers())) {
      out_ += "  buffer " + b.name + ": " + std::string(kernel::name_of(b.storage)) + " " +
              name_of(b.access) + " align " + std::to_string(b.align) + "\n";
    }
    for (const ScalarParam& s : std::span(k_.scalars).first(k_.item_scalars())) {
      out_ += "  scalar " + s.name + ": " + std::string(kernel::name_of(s.type)) + "\n";
    }
    for (const LocalVar& l : k_.locals) {
      out_ += "  local " + l.name + ": " + str(l.type);
      if (l.count != 1) out_ += "[" + std::to_string(l.count) + "]";
      out_ += "\n";
    }
    for (const SharedArray& s : k_.shared) {
      out_ += "  shared " + s.name + ": " + std::string(kernel::name_of(s.type)) + "[" +
              std::to_string(s.count) + "]";
      if (s.swizzle != Swizzle::None) out_ += std::string(" swizzle ") + name_of(s.swizzle);
      out_ += "\n";
    }
    for (const MatrixVar& m : k_.matrices) {
      out_ += "  matrix " + m.name + ": " + name_of(m.use) + " " +
              std::string(kernel::name_of(m.type)) + " " + std::to_string(m.rows) + "x" +
              std::to_string(m.columns) + scope_of(m) + "\n";
    }
    for (const View& v : k_.views) view(v);
    for (const Signal& s : k_.signals) {
      out_ += "  signal " + s.name + "[" + std::to_string(s.count) + "] of " +
              std::to_string(s.arrivals) + "\n";
    }
    if (k_.units) {
      const auto name = [&](uint32_t i) {
        return i < k_.scalars.size() ? "$" + k_.scalars[i].name : "invalid";
      };
      out_ += "  units below " + name(k_.units->end) + " by " + name(k_.units->groups) + "\n";
    }
    for (const Role& r : k_.roles) {
      out_ += "  role " + r.name + ": teams " + std::to_string(r.teams) + ", subgroups " +
              std::to_string(r.subgroups);
      if (r.registers != 0) out_ += ", registers " + std::to_string(r.registers);
      out_ += "\n";
    }
  }

  /// "view a: x[$first] box 64x128 of $n0 x $n1 by $s1 swizzle 128".
  void view(const View& v) {
    const auto scalar = [&](uint32_t i) {
      return i < k_.scalars.size() ? "$" + k_.scalars[i].name : "invalid";
    };
    const TensorView& t = v.tensor;
    out_ += "  view " + v.name + ": " +
            (t.buffer < k_.buffers.size() ? k_.buffers[t.buffer].name : "invalid") + "[" +
            scalar(t.first) + "] box";
    for (size_t d = 0; d < t.box.size(); ++d) out_ += (d ? "x" : " ") + std::to_string(t.box[d]);
    out_ += " of";
    for (size_t d = 0; d < t.dims.size(); ++d) out_ += (d ? " x " : " ") + scalar(t.dims[d]);
    for (const uint32_t s : t.strides) out_ += " by " + scalar(s);
    if (t.swizzle != Swizzle::None) out_ += std::string(" swizzle ") + name_of(t.swizzle);
    out_ += "\n";
  }

  /// Constants, parameters and builtins are printed where they are used.
  std::string operand(Val v) const {
    if (v.id < 0 || static_cast<size_t>(v.id) >= k_.insts.size()) return "invalid";
    const Inst& i = k_.insts[static_cast<size_t>(v.id)];
    switch (i.op) {
      case Op::Const:
        return number(i.imm, i.type.ty) + ":" + str(i.type);
      case Op::Param: {
        const std::string item = i.args.empty() ? "" : "[" + operand(i.args[0]) + "]";
        return i.imm < k_.scalars.size() ? "$" + k_.scalars[i.imm].name + item : "invalid";
      }
      case Op::Builtin: {
        const auto b = static_cast<Builtin>(i.imm & 0xffU);
        std::string s = name_of(b);
        if (b == Builtin::GlobalId || b == Builtin::LocalId || b == Builtin::WorkgroupId) {
          s += std::string(".") + "xyz?"[std::min<uint64_t>(i.imm >> 8U, 3)];
        }
        return s;
      }
      default:
        return "%" + std::to_string(v.id);
    }
  }

  std::string operands(const Inst& i, size_t first = 0) const {
    std::string s;
    for (size_t n = first; n < i.args.size(); ++n)
      s += (n > first ? ", " : "") + operand(i.args[n]);
    return s;
  }

  std::string access(const std::string& name, const std::string& index, const Inst& i) const {
    std::string s = name + "[" + index + "]";
    if (i.align != 1) s += " align " + std::to_string(i.align);
    return s;
  }
  std::string buffer(const Inst& i) const {
    return i.imm < k_.buffers.size() ? k_.buffers[i.imm].name : "invalid";
  }
  std::string local(const Inst& i, size_t index) const {
    std::string s = i.imm < k_.locals.size() ? k_.locals[i.imm].name : "invalid";
    if (i.args.size() > index) s += "[" + operand(i.args[index]) + "]";
    return s;
  }
  std::string shared(const Inst& i) const {
    return i.imm < k_.shared.size() ? k_.shared[i.imm].name : "invalid";
  }

  std::string matrix(size_t index) const {
    return index < k_.matrices.size() ? k_.matrices[index].name : "invalid";
  }
  std::string matrix_access(const Inst& i) const {
    const MatrixAccess a = MatrixAccess::of(i.imm);
    const std::string array = a.shared < k_.shared.size() ? k_.shared[a.shared].name : "invalid";
    return matrix(a.matrix) + ", " + array + "[" + operand(i.args[0]) + "] " +
           (a.by_columns ? "columns" : "rows") + " by " + std::to_string(a.stride) +
           (i.align == 1 ? "" : " align " + std::to_string(i.align));
  }
  std::string async_copy(const Inst& i) const {
    const CopyAccess a = CopyAccess::of(i.imm);
    const std::string array = a.shared < k_.shared.size() ? k_.shared[a.shared].name : "invalid";
    const std::string buffer = a.buffer < k_.buffers.size() ? k_.buffers[a.buffer].name : "invalid";
    return "async_copy " + array + "[" + operand(i.args[1]) + "], " + buffer + "[" +
           operand(i.args[0]) + "], " + std::to_string(a.lanes) + " elements, of which exist " +
           operand(i.args[2]);
  }
  std::string array(size_t index) const {
    return index < k_.shared.size() ? k_.shared[index].name : "invalid";
  }
  std::string signal(size_t index, Val at) const {
    return (index < k_.signals.size() ? k_.signals[index].name : "invalid") + "[" + operand(at) +
           "]";
  }
  /// " of workgroups 0 1".
  static std::string ranks(uint32_t mask) {
    std::string s = mask == 0 ? "" : " of workgroups";
    for (uint32_t r = 0; mask >> r != 0; ++r)
      if ((mask >> r & 1U) != 0) s += " " + std::to_string(r);
    return s;
  }
  /// " of workgroup %3", if the instruction accesses another's shared memory.
  std::string rank(const Inst& i) const {
    return is_remote(i) ? " of workgroup " + operand(i.args[kRemoteRank]) : "";
  }
  std::string box_copy(const Inst& i) const {
    const BoxAccess a = BoxAccess::of(i.imm);
    const std::string view = a.view < k_.views.size() ? k_.views[a.view].name : "invalid";
    return "box_copy " + array(a.shared) + "[" + operand(i.args[0]) + "], " + view + " at " +
           operand(i.args[2]) + ", signals " + signal(a.signal, i.args[1]) + ranks(a.ranks);
  }
  std::string box_store(const Inst& i) const {
    const BoxAccess a = BoxAccess::of(i.imm);
    const std::string view = a.view < k_.views.size() ? k_.views[a.view].name : "invalid";
    return "box_store " + view + " at " + operand(i.args[1]) + ", " + array(a.shared) + "[" +
           operand(i.args[0]) + "]";
  }
  std::string team_operand(const TeamOperand& o, Val index) const {
    std::string s = array(o.shared) + "[" + operand(index) + "] lines along ";
    return s + (o.along_k ? "k" : "the other by " + std::to_string(o.group));
  }
  std::string team_product(const Inst& i) const {
    const TeamOperands p = TeamOperands::of(i.imm);
    std::string s = matrix(p.sum);
    for (uint32_t n = 1; n < p.count; ++n) s += " " + matrix(p.sum + n);
    const std::string left = p.held ? matrix(p.left.shared) : team_operand(p.left, i.args[0]);
    return s + ", " + left + ", " + team_operand(p.right, i.args.back());
  }
  std::string matrix_product(const Inst& i) const {
    const MatrixOperands p = MatrixOperands::of(i.imm);
    return matrix(p.sum) + ", " + matrix(p.left) + ", " + matrix(p.right);
  }

  std::string held(const Inst& i) const {
    const HeldElement e = HeldElement::of(i.imm);
    return matrix(e.matrix) + "." + std::to_string(e.slot);
  }
  std::string conversion(const Inst& i) const {
    const MatrixConversion c = MatrixConversion::of(i.imm);
    return matrix(c.left) + ", " + matrix(c.sum) + " from column " + std::to_string(c.column);
  }

  std::string body_of(const Inst& i) const {
    switch (i.op) {
      case Op::Const:
      case Op::Param:
      case Op::Builtin:
      case Op::If:
      case Op::For:
      case Op::Roles:
        return "";
      case Op::Scalar:
        return std::string(row(static_cast<ScalarOp>(i.imm)).name) + " " + operands(i);
      case Op::Convert:
        return std::string(i.imm != 0 ? "convert_in_range " : "convert ") + operands(i);
      case Op::Bitcast:
        return "bitcast " + operands(i);
      case Op::Compose:
        return "compose " + operands(i);
      case Op::Extract:
        return "extract " + operands(i) + ", " + std::to_string(i.imm);
      case Op::Load:
        return "load " + access(buffer(i), operand(i.args[0]), i);
      case Op::Store:
        return "store " + access(buffer(i), operand(i.args[0]), i) + ", " + operand(i.args[1]) +
               (i.args.size() == 3 ? " bits " + operand(i.args[2]) : "");
      case Op::LocalLoad:
        return "local_load " + local(i, 0);
      case Op::LocalStore:
        return "local_store " + local(i, 1) + ", " + operand(i.args[0]);
      case Op::SharedLoad:
        return "shared_load " + access(shared(i), operand(i.args[0]), i) + rank(i);
      case Op::SharedStore:
        return "shared_store " + access(shared(i), operand(i.args[0]), i) + ", " +
               operand(i.args[1]);
      case Op::AsyncCopy:
        return async_copy(i);
      case Op::CopyCommit:
        return "copy_commit";
      case Op::CopyWait:
        return "copy_wait " + std::to_string(i.imm);
      case Op::MatrixZero:
        return "matrix_zero " + matrix(i.imm);
      case Op::MatrixLoad:
        return "matrix_load " + matrix_access(i);
      case Op::MatrixStore:
        return "matrix_store " + matrix_access(i);
      case Op::MatrixMulAdd:
        return "matrix_mul_add " + matrix_product(i);
      case Op::Subgroup:
        return std::string("subgroup_") + name_of(static_cast<SubgroupOp>(i.imm)) + " " +
               operands(i);
      case Op::SetError:
        return std::string("set_error ") + name_of(static_cast<ErrorCode>(i.imm)) + " if " +
               operands(i);
      case Op::NoError:
        return "no_error";
      default:
        return body_of_role(i);
    }
  }

  /// Of instructions for launches, for parts of a workgroup, and for elements of matrices.
  std::string body_of_role(const Inst& i) const {
    switch (i.op) {
      case Op::SelectItem:
        return "select_item " + operands(i);
      case Op::AwaitLaunches:
        return "await_launches";
      case Op::Barrier:
        return std::string("barrier") + name_of(static_cast<BarrierScope>(i.imm));
      case Op::BoxCopy:
        return box_copy(i);
      case Op::BoxStore:
        return box_store(i);
      case Op::BoxDrain:
        return "box_drain " + std::to_string(i.imm);
      case Op::Arrive:
        return "arrive " + signal(i.imm, i.args[0]) + rank(i);
      case Op::Await:
        return "await " + signal(i.imm, i.args[0]) + " parity " + operand(i.args[1]);
      case Op::MatrixGet:
        return "matrix_get " + held(i);
      case Op::MatrixSet:
        return "matrix_set " + held(i) + ", " + operands(i);
      case Op::MatrixConvert:
        return "matrix_convert " + conversion(i);
      case Op::TeamMulAdd:
        return "team_mul_add " + team_product(i);
      case Op::MatrixCommit:
        return "matrix_commit";
      case Op::MatrixAwait:
        return "matrix_await " + std::to_string(i.imm);
      default:
        return "";
    }
  }

  void block(int32_t index, size_t depth) {
    if (index < 0 || static_cast<size_t>(index) >= k_.blocks.size() || depth > 200) return;
    for (int32_t id : k_.blocks[static_cast<size_t>(index)].insts) {
      if (id >= 0 && static_cast<size_t>(id) < k_.insts.size()) instruction(id, depth);
    }
  }

  void instruction(int32_t id, size_t depth) {
    const Inst& i = k_.insts[static_cast<size_t>(id)];
    if (i.op == Op::Const || i.op == Op::Param || i.op == Op::Builtin) return;
    const std::string indent(depth * 2, ' ');
    const std::string name = "%" + std::to_string(id);
    if (i.op == Op::If) {
      out_ += indent + "if " + operands(i) + " {\n";
      if (!i.blocks.empty()) block(i.blocks[0], depth + 1);
      if (i.blocks.size() > 1) {
        out_ += indent + "} else {\n";
        block(i.blocks[1], depth + 1);
      }
      out_ += indent + "}\n";
      return;
    }
    if (i.op == Op::For) {
      out_ += indent + "for " + name + " in " + operands(i) + " {\n";
      if (!i.blocks.empty()) block(i.blocks[0], depth + 1);
      out_ += indent + "}\n";
      return;
    }
    if (i.op == Op::Roles) {
      for (size_t r = 0; r < i.blocks.size(); ++r) {
        out_ += indent + "role " + (r < k_.roles.size() ? k_.roles[r].name : "invalid") + " {\n";
        block(i.blocks[r], depth + 1);
        out_ += indent + "}\n";
      }
      return;
    }
    out_ += indent;
    if (i.type.ty != Ty::Void) out_ += name + ": " + str(i.type) + " = ";
    out_ += body_of(i) + "\n";
  }

  const Kernel& k_;
  std::string out_;
};

}  // namespace

std::string print(const Kernel& k) {
  return Printer(k).text();
}

}  // namespace reprise::kernel
