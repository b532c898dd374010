// The part of the CUDA emitter for roles, their signals and boxes, and for other workgroups of a
// cluster.
#include "codegen/emit/access.h"
#include "codegen/emit/cuda/emitter.h"
#include "codegen/emit/cuda/teams.h"
#include "codegen/kernel/ir/shared_memory.h"

namespace reprise::emit {

using kernel::Op;

namespace {

constexpr uint32_t kRegisters = 65536;  // of a multiprocessor

}  // namespace

/// Declares the signals, and lets one invocation begin their first phases.
void CudaEmitter::begin_signals() {
  // Others of a cluster may access shared memory only once its workgroup runs.
  const char* const barrier = k_.cluster == 1 ? "__syncthreads();" : "rp_cluster_barrier();";
  if (k_.signals.empty() && k_.cluster != 1) line(barrier);
  if (k_.signals.empty()) return;
  std::string begin;
  const bool dynamic = dynamic_shared_bytes(kernel::requirements(k_).shared_bytes) != 0;
  const kernel::SharedLayout layout = kernel::shared_layout(k_);
  for (size_t n = 0; n < k_.signals.size(); ++n) {
    const kernel::Signal& s = k_.signals[n];
    const std::string name = cuda_name('g', n, s.name);
    if (dynamic) {
      line("rp_signal* const " + name + " = (rp_signal*)(rp_shared + " +
           std::to_string(layout.signals[n]) + ");");
    } else {
      line("__shared__ rp_signal " + name + "[" + std::to_string(s.count) + "];");
    }
    begin += "rp_begin_signals(" + name + ", " + std::to_string(s.count) + "u, " +
             std::to_string(s.arrivals) + "u); ";
  }
  line("if (threadIdx.x == 0u) { " + begin + "rp_publish_signals(); }");
  line(barrier);
}

/// Signals at which workgroups arrive for each other, if invocations read what other workgroups
/// store or copy to: they order such accesses.
void CudaEmitter::find_fenced_signals() {
  std::set<uint64_t> common;  // arrays that other workgroups copy to
  for_each_inst(k_, 0, [&](const Inst& i) {
    const auto a = kernel::BoxAccess::of(i.imm);
    if (i.op == Op::BoxCopy && a.ranks != 0) common.insert(a.shared);
  });
  bool reads = false;
  for_each_inst(k_, 0, [&](const Inst& i) {
    reads = reads || (i.op == Op::SharedLoad && (kernel::is_remote(i) || common.contains(i.imm)));
    if (i.op == Op::Arrive && kernel::is_remote(i)) fenced_.insert(i.imm);
  });
  if (!reads) fenced_.clear();
}

void CudaEmitter::arrive(const Inst& i) {
  const std::string at = signal(i.imm, i, 0);
  if (!kernel::is_remote(i)) {
    line("rp_arrive(" + at + ");");
    return;
  }
  const char* const function = fenced_.contains(i.imm) ? "rp_arrive_fenced(" : "rp_arrive_at(";
  line(function + at + ", (unsigned)" + arg(i, kernel::kRemoteRank) + ");");
}

/// Declares the value of instruction `index`, which loads elements of another workgroup.
Status CudaEmitter::remote_load(int32_t index) {
  const Inst& i = k_.insts[static_cast<size_t>(index)];
  const std::string words = cuda_type({Ty::U32, i.type.lanes});
  define(index, "rp_bitcast<" + cuda_type(i.type) + ">(rp_load_of<" + words + ">(" +
                    shared_name(i.imm) + " + " + arg(i, 0) + ", (unsigned)" +
                    arg(i, kernel::kRemoteRank) + "))");
  return {};
}

/// Each role takes its share of the registers and runs its block.
Status CudaEmitter::roles(const Inst& i) {
  const uint32_t all = k_.workgroup[0];
  const uint32_t given = kRegisters / all / 8 * 8;
  uint32_t first = 0;
  for (size_t r = 0; r < k_.roles.size(); ++r) {
    const kernel::Role& role = k_.roles[r];
    const uint32_t end = first + role.teams * kernel::kTeamSubgroups * kWarp;
    const uint32_t running = first + role.subgroups * kWarp;
    line((r == 0 ? "if (threadIdx.x < " : "else if (threadIdx.x < ") + std::to_string(end) +
         "u) {");
    ++depth_;
    if (role.registers != 0)
      line(std::string(role.registers > given ? "rp_more_registers<" : "rp_fewer_registers<") +
           std::to_string(role.registers) + ">();");
    if (running != end) line("if (threadIdx.x < " + std::to_string(running) + "u) {");
    RP_TRY(block(i.blocks[r]));
    if (running != end) line("}");
    --depth_;
    line("}");
    first = end;
  }
  return {};
}

std::string CudaEmitter::signal(size_t n, const Inst& i, size_t index_arg) const {
  return cuda_name('g', n, k_.signals[n].name) + " + " + arg(i, index_arg);
}

/// The arguments that name a box: the place in shared memory and the tensor.
std::string CudaEmitter::box(const Inst& i) const {
  const auto a = kernel::BoxAccess::of(i.imm);
  return shared_name(a.shared) + " + " + arg(i, 0) + ", &block." +
         cuda_name('t', a.view, k_.views[a.view].name);
}

std::string CudaEmitter::coordinates(const Inst& i, size_t n) const {
  const size_t rank = k_.views[kernel::BoxAccess::of(i.imm).view].tensor.rank();
  std::string out;
  for (size_t d = 0; d < rank; ++d) out += ", " + arg_lane(i, n, static_cast<int>(d));
  return out;
}

void CudaEmitter::box_copy(const Inst& i) {
  const auto a = kernel::BoxAccess::of(i.imm);
  const std::string ranks = a.ranks == 0 ? "" : ", " + std::to_string(a.ranks) + "u";
  line((a.ranks == 0 ? "rp_box_copy(" : "rp_box_spread(") + box(i) + ", " + signal(a.signal, i, 1) +
       ", " + std::to_string(k_.views[a.view].tensor.box_bytes()) + "u" + ranks +
       coordinates(i, 2) + ");");
}

void CudaEmitter::team_product(const Inst& i) {
  const auto p = kernel::TeamOperands::of(i.imm);
  const TeamProduct product{k_.matrices[p.sum].columns,
                            p.count,
                            k_.shared[p.right.shared].type,
                            p.left.along_k,
                            p.right.along_k,
                            p.held};
  const std::string name = entry_ + "_" + product.name();
  if (products_.insert(name).second) before_ += product.function(name);
  std::string call = name + "(";
  for (size_t n = 0; n < p.count; ++n) call += matrix_name(p.sum + n) + ", ";
  const auto operand = [&](const kernel::TeamOperand& o, size_t n) {
    return "rp_operand(" + shared_name(o.shared) + " + " + arg(i, n) + ", " +
           std::to_string(o.group) + "u)";
  };
  line(call + (p.held ? matrix_name(p.left.shared) : operand(p.left, 0)) + ", " +
       operand(p.right, i.args.size() - 1) + ");");
}

Status CudaEmitter::inst_of_role(const Inst& i) {
  switch (i.op) {
    case Op::Roles:
      return roles(i);
    case Op::BoxCopy:
      box_copy(i);
      return {};
    case Op::BoxStore:
      line("rp_box_store(" + box(i) + coordinates(i, 1) + ");");
      return {};
    case Op::BoxDrain:
      line("rp_box_drain<" + std::to_string(i.imm) + ">();");
      return {};
    case Op::Arrive:
      arrive(i);
      return {};
    case Op::Await:
      line((fenced_.contains(i.imm) ? "rp_await_fenced(" : "rp_await(") + signal(i.imm, i, 0) +
           ", (unsigned)" + arg(i, 1) + ");");
      return {};
    case Op::TeamMulAdd:
      team_product(i);
      return {};
    case Op::MatrixCommit:
      line("rp_team_commit();");
      return {};
    case Op::MatrixAwait:
      line("rp_team_await<" + std::to_string(i.imm) + ">();");
      if (i.imm == 0) hold_matrices();
      return {};
    default:
      return internal_error("CUDA emitter: unknown instruction in kernel " + k_.name);
  }
}

}  // namespace reprise::emit
