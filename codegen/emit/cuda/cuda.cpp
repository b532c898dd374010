#include "codegen/emit/cuda/cuda.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "codegen/emit/access.h"
#include "codegen/emit/cuda/emitter.h"
#include "codegen/emit/cuda/teams.h"
#include "codegen/kernel/ir/shared_memory.h"

namespace reprise::emit {

using kernel::Access;
using kernel::CopyAccess;
using kernel::MatrixUse;
using kernel::Op;

namespace {

// The operations that the prelude supports.
constexpr MmaConfig kOperations[] = {
    {16, 16, 16, kHalfMma}, {16, 16, 16, kBfloatMma}, {16, 16, 8, kSplitMma}};

std::string pointer_type(const kernel::BufferParam& b) {
  const std::string element = cuda_type({b.storage, 1});
  return (b.access == Access::Read ? "const " : "") + element + "*";
}

/// Declares a local copy of a member of a struct.
std::string copy_of(const std::string& type, const std::string& name, const std::string& from) {
  return type + " " + name + " = " + from + "." + name + ";";
}

const char* barrier(kernel::BarrierScope scope) {
  switch (scope) {
    case kernel::BarrierScope::Workgroup:
      return "__syncthreads();";
    case kernel::BarrierScope::Team:
      return "rp_team_barrier();";
    case kernel::BarrierScope::Cluster:
      return "rp_cluster_barrier();";
  }
  return "";
}

}  // namespace

Result<std::string> CudaEmitter::run() {
  RP_TRY(check());
  block_struct();
  const uint32_t threads = k_.workgroup[0] * k_.workgroup[1] * k_.workgroup[2];
  const size_t function = out_.size();
  // Roles divide the registers of a multiprocessor, which are then those of one workgroup.
  const std::string bounds = std::to_string(threads) + (k_.roles.empty() ? "" : ", 1");
  const std::string cluster =
      k_.cluster == 1 ? "" : "__cluster_dims__(" + std::to_string(k_.cluster) + ", 1, 1) ";
  out_ += "extern \"C\" __global__ void __launch_bounds__(" + bounds + ") " + cluster + entry_ +
          "(const __grid_constant__ " + entry_ + "_block block) {\n";
  if (kernel::requirements(k_).early) line("rp_let_next_begin();");
  declarations();
  begin_signals();
  find_fenced_signals();
  overlaps_ = std::ranges::any_of(
      k_.insts, [](const Inst& i) { return i.op == Op::MatrixAwait && i.imm != 0; });
  RP_TRY(block(0));
  out_ += "}\n";
  out_.insert(function, before_);
  return std::move(out_);
}

Status CudaEmitter::check() const {
  const std::string where = "CUDA emitter: kernel " + k_.name + ": ";
  bool subgroups = k_.required_subgroup_size != 0;
  for_each_inst(k_, 0, [&](const Inst& i) { subgroups = subgroups || i.op == Op::Subgroup; });
  if (k_.required_subgroup_size != 0 && k_.required_subgroup_size != kWarp) {
    return unsupported(where + "it requires subgroups of " +
                       std::to_string(k_.required_subgroup_size) +
                       ", CUDA has 32; choose another schedule");
  }
  const MmaConfig matrix = kernel::requirements(k_).matrix;
  if (matrix && matrix.scope != MmaScope::Team && !contains(kOperations, matrix)) {
    return unsupported(where + "its matrices are of " + matrix.str() + ", CUDA has " +
                       kOperations[0].str() + ", " + kOperations[1].str() + " and " +
                       kOperations[2].str() + "; choose another schedule");
  }
  const uint32_t threads = k_.workgroup[0] * k_.workgroup[1] * k_.workgroup[2];
  if (subgroups && threads % kWarp != 0) {
    return unsupported(where + "subgroup operations in a workgroup of " + std::to_string(threads) +
                       " invocations; CUDA needs a multiple of 32");
  }
  return {};
}

void CudaEmitter::line(std::string_view text) {
  out_.append(2 * depth_, ' ');
  out_ += text;
  out_ += '\n';
}

/// Writes the struct of the parameter block, laid out as plan::BlockLayout.
void CudaEmitter::block_struct() {
  const auto buffers = [&] {
    for (size_t n = 0; n < k_.item_buffers(); ++n) {
      const kernel::BufferParam& b = k_.buffers[n];
      line(pointer_type(b) + " " + cuda_name('b', n, b.name) + ";");
    }
  };
  const auto scalars = [&] {
    for (size_t n = 0; n < k_.item_scalars(); ++n) {
      line(cuda_type({k_.scalars[n].type, 1}) + " " + cuda_name('s', n, k_.scalars[n].name) + ";");
    }
  };
  out_ += "struct " + entry_ + "_block {\n";
  line("unsigned* error;");
  line("unsigned launch_id, zero;");
  const std::string items = "[" + std::to_string(k_.items) + "];";
  for (const auto& [name, members] :
       {std::pair<const char*, std::function<void()>>{"buffers", buffers}, {"scalars", scalars}}) {
    if (k_.items > 1) line("struct {");
    members();
    if (k_.items > 1) line(std::string("} ") + name + items);
  }
  for (size_t n = 0; n < k_.views.size(); ++n)
    line("rp_tensor_map " + cuda_name('t', n, k_.views[n].name) + ";");
  out_ += "};\n";
}

/// Declares the entries of the kernel's tables that it uses. Unused ones would cause warnings.
void CudaEmitter::declarations() {
  std::set<uint64_t> buffers, scalars, shared, locals, matrices;
  for_each_inst(k_, 0, [&](const Inst& i) {
    if (i.op == Op::Load || i.op == Op::Store) buffers.insert(i.imm);
    if (i.op == Op::AsyncCopy) {
      buffers.insert(CopyAccess::of(i.imm).buffer);
      shared.insert(CopyAccess::of(i.imm).shared);
    }
    if (i.op == Op::Param && i.args.empty()) scalars.insert(i.imm);
    if (i.op == Op::LocalLoad || i.op == Op::LocalStore) locals.insert(i.imm);
    if (i.op == Op::SharedLoad || i.op == Op::SharedStore) shared.insert(i.imm);
    if (i.op == Op::MatrixZero || i.op == Op::MatrixGet || i.op == Op::MatrixSet)
      matrices.insert(kernel::matrix_of(i));
    if (i.op == Op::MatrixLoad || i.op == Op::MatrixStore) {
      const auto a = kernel::MatrixAccess::of(i.imm);
      shared.insert(a.shared);
      matrices.insert(a.matrix);
    }
    if (i.op == Op::MatrixConvert) {
      const auto c = kernel::MatrixConversion::of(i.imm);
      matrices.insert({c.left, c.sum});
    }
    if (i.op == Op::MatrixMulAdd) {
      const auto p = kernel::MatrixOperands::of(i.imm);
      matrices.insert({p.sum, p.left, p.right});
    }
    if (i.op == Op::BoxCopy || i.op == Op::BoxStore)
      shared.insert(kernel::BoxAccess::of(i.imm).shared);
    if (i.op == Op::TeamMulAdd) {
      const auto p = kernel::TeamOperands::of(i.imm);
      (p.held ? matrices : shared).insert(p.left.shared);
      shared.insert(p.right.shared);
      for (uint64_t n = 0; n < p.count; ++n) matrices.insert(p.sum + n);
    }
  });
  if (k_.items == 1) buffer_pointers(buffers, "block");
  for (const uint64_t n : scalars) {
    const kernel::ScalarParam& s = k_.scalars[n];
    line(copy_of("const " + cuda_type({s.type, 1}), cuda_name('s', n, s.name), "block"));
  }
  shared_arrays(shared);
  for (const uint64_t n : locals) {
    const kernel::LocalVar& l = k_.locals[n];
    const std::string count = l.count == 1 ? "" : "[" + std::to_string(l.count) + "]";
    line(cuda_type(l.type) + " " + cuda_name('l', n, l.name) + count + ";");
  }
  for (const uint64_t n : matrices) {
    const kernel::MatrixVar& m = k_.matrices[n];
    const std::string of = "<" + cuda_type({m.type, 1}) + ">";
    const std::string columns = std::to_string(m.columns);
    const bool team_sum = m.scope == MmaScope::Team && m.use == MatrixUse::Sum;
    const std::string type = team_sum                    ? "rp_team_sum<" + columns + ">"
                             : m.use == MatrixUse::Left  ? "rp_matrix_left" + of
                             : m.use == MatrixUse::Right ? "rp_matrix_right" + of
                                                         : "rp_matrix_sum";
    line(type + " " + matrix_name(n) + ";");
  }
}

/// Declares these shared arrays, or their places in what a launch gives the kernel.
void CudaEmitter::shared_arrays(const std::set<uint64_t>& used) {
  const uint32_t dynamic = dynamic_shared_bytes(kernel::requirements(k_).shared_bytes);
  if (dynamic != 0) line("RP_DYNAMIC_SHARED(rp_shared, " + std::to_string(dynamic) + ")");
  const kernel::SharedLayout layout = kernel::shared_layout(k_);
  const auto declare = [&](uint64_t n) {
    const kernel::SharedArray& s = k_.shared[n];
    const std::string type = cuda_type({s.type, 1}), name = shared_name(n);
    const char* alignment = s.swizzle != kernel::Swizzle::None ? "1024"
                            : k_.views.empty()                 ? "16"
                                                               : "128";
    if (dynamic == 0)
      line(std::string("__shared__ __align__(") + alignment + ") " + type + " " + name + "[" +
           std::to_string(s.count) + "];");
    if (dynamic != 0)
      line(type + "* const " + name + " = (" + type + "*)(rp_shared + " +
           std::to_string(layout.arrays[n]) + ");");
  };
  for (const uint64_t n : used) declare(n);
}

/// Of all products of teams, and left operands that these hold.
void CudaEmitter::hold_matrices() {
  std::set<size_t> all;
  for_each_inst(k_, 0, [&](const Inst& i) {
    if (i.op != Op::TeamMulAdd) return;
    const auto p = kernel::TeamOperands::of(i.imm);
    for (size_t n = 0; n < p.count; ++n) all.insert(p.sum + n);
    if (p.held) all.insert(p.left.shared);
  });
  for (const size_t n : all) line("rp_hold(" + matrix_name(n) + ");");
  held_ = std::move(all);
}

/// Of a team, before an instruction uses it: products of others may be unfinished, so the wait for
/// its own has not held it.
void CudaEmitter::hold(size_t matrix) {
  if (overlaps_ && k_.matrices[matrix].scope == MmaScope::Team && held_.insert(matrix).second)
    line("rp_hold(" + matrix_name(matrix) + ");");
}

/// Declares local copies of the pointers to these buffers, which are members of `from`.
void CudaEmitter::buffer_pointers(const std::set<uint64_t>& buffers, const std::string& from) {
  for (const uint64_t n : buffers) {
    const kernel::BufferParam& b = k_.buffers[n];
    line(copy_of(pointer_type(b) + " const", cuda_name('b', n, b.name), from));
  }
}

void CudaEmitter::select_item(const Inst& i) {
  std::set<uint64_t> buffers;
  for_each_inst(k_, 0, [&](const Inst& n) {
    if (n.op == Op::Load || n.op == Op::Store) buffers.insert(n.imm);
    if (n.op == Op::AsyncCopy) buffers.insert(CopyAccess::of(n.imm).buffer);
  });
  buffer_pointers(buffers, "block.buffers[" + arg(i, 0) + "]");
}

void CudaEmitter::define(int32_t index, const std::string& expression) {
  const kernel::Type t = k_.insts[static_cast<size_t>(index)].type;
  line("const " + cuda_type(t) + " v" + std::to_string(index) + " = " + expression + ";");
}

void CudaEmitter::define_lanes(int32_t index, const std::vector<std::string>& lanes) {
  define(index, lanes.size() == 1 ? lanes[0] : cuda_braces(lanes));
}

Status CudaEmitter::block(int32_t index) {
  held_.clear();
  for (const int32_t n : k_.blocks[static_cast<size_t>(index)].insts) {
    // Registers of sums that other instructions wrote must be visible to the first multiplication
    // of a group.
    const Op op = k_.insts[static_cast<size_t>(n)].op;
    if (op == Op::TeamMulAdd && !multiplying_) {
      hold_matrices();
      line("rp_team_fence();");
    }
    if (!is_value(op)) multiplying_ = op == Op::TeamMulAdd;
    if (fences_.contains(n)) line("rp_async_fence();");
    if (op == Op::TeamMulAdd || op == Op::MatrixAwait) held_.clear();
    RP_TRY(inst(n));
  }
  multiplying_ = false;
  held_.clear();
  return {};
}

Status CudaEmitter::inst(int32_t index) {
  const Inst& i = k_.insts[static_cast<size_t>(index)];
  // Operands name these in place.
  if (i.op == Op::Const || (i.op == Op::Param && i.args.empty())) return {};
  if (is_value(i.op)) return value(index);
  switch (i.op) {
    case Op::Store:
      store(i);
      return {};
    case Op::LocalStore:
      line(local(i, 1) + " = " + arg(i, 0) + ";");
      return {};
    case Op::SharedStore:
      store(i, shared_name(i.imm), k_.shared[i.imm].type, cuda_narrow_exact);
      return {};
    case Op::AsyncCopy:
      async_copy(i);
      return {};
    case Op::CopyCommit:
      line("rp_copy_commit();");
      return {};
    case Op::CopyWait:
      line("rp_copy_wait<" + std::to_string(i.imm) + ">();");
      return {};
    case Op::Barrier:
      line(barrier(static_cast<kernel::BarrierScope>(i.imm)));
      return {};
    case Op::MatrixZero:
    case Op::MatrixLoad:
    case Op::MatrixStore:
    case Op::MatrixMulAdd:
    case Op::MatrixSet:
    case Op::MatrixConvert:
      matrix(i);
      return {};
    case Op::SelectItem:
      select_item(i);
      return {};
    case Op::AwaitLaunches:
      line("rp_await_launches();");
      return {};
    case Op::SetError:
      line("if (" + arg(i, 0) + ") atomicMax(block.error, block.launch_id << 8 | " +
           std::to_string(i.imm) + "u);");
      return {};
    case Op::If:
      return if_(index);
    case Op::For:
      return for_(index);
    default:
      return inst_of_role(i);
  }
}

/// Declares the result of an instruction.
Status CudaEmitter::value(int32_t index) {
  const Inst& i = k_.insts[static_cast<size_t>(index)];
  if (kernel::is_long(i.type)) {
    long_vector(index);
    return {};
  }
  std::vector<std::string> lanes;
  switch (i.op) {
    case Op::Param:
      define(index,
             "block.scalars[" + arg(i, 0) + "]." + cuda_name('s', i.imm, k_.scalars[i.imm].name));
      return {};
    case Op::Builtin:
      define(index, builtin(i));
      return {};
    case Op::Scalar: {
      RP_ASSIGN(lanes, scalar(i));
      break;
    }
    case Op::Convert: {
      RP_ASSIGN(lanes, convert(i));
      break;
    }
    case Op::NoError:
      define(index, "*block.error == 0u");
      return {};
    case Op::Bitcast:
      define(index, "rp_bitcast<" + cuda_type(i.type) + ">(" + arg(i, 0) + ")");
      return {};
    case Op::Compose:
      for (size_t n = 0; n < i.args.size(); ++n) lanes.push_back(arg(i, n));
      break;
    case Op::Extract:
      define(index, i.type.lanes == 1 ? arg_lane(i, 0, static_cast<int>(i.imm))
                                      : part_name(i.args[0].id, static_cast<int>(i.imm)));
      return {};
    case Op::Load:
      load(index, cuda_name('b', i.imm, k_.buffers[i.imm].name), k_.buffers[i.imm].storage);
      return {};
    case Op::LocalLoad:
      define(index, local(i, 0));
      return {};
    case Op::SharedLoad:
      if (kernel::is_remote(i)) return remote_load(index);
      load(index, shared_name(i.imm), k_.shared[i.imm].type);
      return {};
    case Op::MatrixGet:
      hold(kernel::matrix_of(i));
      define(index, held_element(i));
      return {};
    case Op::Subgroup:
      for (int n = 0; n < i.type.lanes; ++n) lanes.push_back(subgroup(i, n));
      break;
    default:
      return internal_error("CUDA emitter: a statement has no value in kernel " + k_.name);
  }
  define_lanes(index, lanes);
  return {};
}

/// Whether the lanes of a warp may diverge at the instruction, whose blocks have subgroup
/// operations.
bool CudaEmitter::splits_subgroups(const Inst& i) const {
  bool varies = false;
  for (const kernel::Val v : i.args) {
    const Op op = k_.insts[static_cast<size_t>(v.id)].op;
    varies = varies || (op != Op::Const && op != Op::Param);
  }
  bool inside = false;
  for (const int32_t b : i.blocks) {
    for_each_inst(k_, b, [&](const Inst& n) { inside = inside || n.op == Op::Subgroup; });
  }
  return varies && inside;
}

Status CudaEmitter::if_(int32_t index) {
  const Inst& i = k_.insts[static_cast<size_t>(index)];
  const std::string outer = active_;
  const bool splits = splits_subgroups(i);
  const std::string lanes = "a" + std::to_string(index);
  if (splits)
    line("const unsigned " + lanes + " = __ballot_sync(" + outer + ", " + arg(i, 0) + ");");
  line("if (" + arg(i, 0) + ") {");
  ++depth_;
  if (splits) active_ = lanes;
  RP_TRY(block(i.blocks[0]));
  --depth_;
  if (i.blocks.size() > 1) {
    line("} else {");
    ++depth_;
    if (splits) active_ = "(" + outer + " & ~" + lanes + ")";
    RP_TRY(block(i.blocks[1]));
    --depth_;
  }
  active_ = outer;
  line("}");
  return {};
}

Status CudaEmitter::for_(int32_t index) {
  const Inst& i = k_.insts[static_cast<size_t>(index)];
  const std::string outer = active_;
  const std::string v = "v" + std::to_string(index);
  const std::string lanes = "a" + std::to_string(index);
  const bool splits = splits_subgroups(i);
  std::string more = v + " < " + arg(i, 1);
  if (splits) {
    // The active lanes of an iteration are those of the previous one that continue.
    line("unsigned " + lanes + " = " + outer + ";");
    more = "(" + lanes + " = __ballot_sync(" + lanes + ", " + more + ")), " + more;
    active_ = lanes;
  }
  line("for (int " + v + " = " + arg(i, 0) + "; " + more + "; " + v + " += " + arg(i, 2) + ") {");
  ++depth_;
  RP_TRY(block(i.blocks[0]));
  --depth_;
  active_ = outer;
  line("}");
  return {};
}

// --- Long vectors, of which each part is a variable

std::string CudaEmitter::part_name(int32_t index, int lane) {
  return "v" + std::to_string(index) + "_" + std::to_string(lane / kernel::kPartLanes);
}

/// Declares the parts of a long vector.
void CudaEmitter::long_vector(int32_t index) {
  const Inst& i = k_.insts[static_cast<size_t>(index)];
  const Type part = kernel::vec(i.type, kernel::kPartLanes);
  const auto define_part = [&](int lane, const std::string& value) {
    line("const " + cuda_type(part) + " " + part_name(index, lane) + " = " + value + ";");
  };
  if (i.op == Op::Compose) {
    for (size_t n = 0; n < i.args.size(); ++n)
      define_part(static_cast<int>(n) * kernel::kPartLanes, arg(i, n));
    return;
  }
  const Ty storage = stored_type(i);
  const int per_lane = kernel::byte_size(storage);
  const std::string words = cuda_type({Ty::U32, static_cast<uint8_t>(i.type.lanes * per_lane / 4)});
  const std::string raw = "r" + std::to_string(index);
  line("const " + words + " " + raw + " = rp_load_words<" + words + ">(" + address(i) + ");");
  const auto define = [&](int lane) {
    const auto word = [&](int n) { return raw + std::string(cuda_lane(lane * per_lane / 4 + n)); };
    const std::string bits = per_lane == 1 ? word(0) : "rp_u32x2{" + word(0) + ", " + word(1) + "}";
    const std::string elements = cuda_type({storage, kernel::kPartLanes});
    const std::string value = "rp_bitcast<" + elements + ">(" + bits + ")";
    if (storage == i.type.ty) return define_part(lane, value);
    const std::string narrow = raw + "_" + std::to_string(lane / kernel::kPartLanes);
    line("const " + elements + " " + narrow + " = " + value + ";");
    std::vector<std::string> lanes(kernel::kPartLanes);
    for (int l = 0; l < kernel::kPartLanes; ++l)
      lanes[static_cast<size_t>(l)] = cuda_widen(narrow + std::string(cuda_lane(l)), storage);
    define_part(lane, cuda_braces(lanes));
  };
  for (int lane = 0; lane < i.type.lanes; lane += kernel::kPartLanes) define(lane);
}

void CudaEmitter::store_long(const Inst& i,
                             std::string (*narrow)(const std::string& v, Ty storage)) {
  const Ty storage = stored_type(i);
  const Type from = arg_type(i, 1);
  const int words = kernel::byte_size(storage);  // of a part
  const std::string type = cuda_type({Ty::U32, static_cast<uint8_t>(words)});
  std::vector<std::string> all;
  line("{");
  const auto part = [&](int lane) {
    const std::string name = "w" + std::to_string(lane / kernel::kPartLanes);
    const std::string from_name = part_name(i.args[1].id, lane);
    std::vector<std::string> lanes(kernel::kPartLanes);
    for (int l = 0; l < kernel::kPartLanes; ++l)
      lanes[static_cast<size_t>(l)] = narrow(from_name + std::string(cuda_lane(l)), storage);
    line("  const " + type + " " + name + " = rp_bitcast<" + type + ">(" +
         cuda_type({storage, kernel::kPartLanes}) + cuda_braces(lanes) + ");");
    all.push_back(words == 1 ? name : name + std::string(cuda_lane(0)));
    for (int n = 1; n < words; ++n) all.push_back(name + std::string(cuda_lane(n)));
  };
  for (int lane = 0; lane < from.lanes; lane += kernel::kPartLanes) part(lane);
  line("  rp_store_words(" + address(i) + ", " +
       cuda_type({Ty::U32, static_cast<uint8_t>(all.size())}) + cuda_braces(all) + ");");
  line("}");
}

/// The type of the elements in the buffer or shared array that an instruction accesses.
kernel::Ty CudaEmitter::stored_type(const Inst& i) const {
  const bool shared = i.op == Op::SharedLoad || i.op == Op::SharedStore;
  return shared ? k_.shared[i.imm].type : k_.buffers[i.imm].storage;
}

/// Where it accesses them.
std::string CudaEmitter::address(const Inst& i) const {
  const bool shared = i.op == Op::SharedLoad || i.op == Op::SharedStore;
  const std::string at =
      (shared ? shared_name(i.imm) : cuda_name('b', i.imm, k_.buffers[i.imm].name)) + " + " +
      arg(i, 0);
  const uint32_t span = shared ? span_of(k_.shared[i.imm].swizzle) : 0;
  return span == 0 ? at : "rp_swizzled<" + std::to_string(span - 16) + "u>(" + at + ")";
}

/// Declares the value of instruction `index`, which loads elements of an array.
void CudaEmitter::load(int32_t index, const std::string& name, Ty storage) {
  const Inst& i = k_.insts[static_cast<size_t>(index)];
  const uint32_t lanes = i.type.lanes;
  std::vector<std::string> parts;
  if (lanes == 1) {
    define(index, cuda_widen(name + "[" + arg(i, 0) + "]", storage));
  } else {
    const std::string vector = cuda_type({storage, i.type.lanes});
    const std::string whole = "*(const " + vector + "*)(" + name + " + " + arg(i, 0) + ")";
    if (storage == i.type.ty) return define(index, whole);
    const std::string raw = "r" + std::to_string(index);
    line("const " + vector + " " + raw + " = " + whole + ";");
    for (const char* lane : {".x", ".y", ".z", ".w"}) {
      if (parts.size() < lanes) parts.push_back(cuda_widen(raw + lane, storage));
    }
    define_lanes(index, parts);
  }
}

void CudaEmitter::store(const Inst& i) {
  const kernel::BufferParam& b = k_.buffers[i.imm];
  const std::string name = cuda_name('b', i.imm, b.name);
  if (i.args.size() == 3) {
    const std::string at = name + " + " + arg(i, 0);
    line("atomicAnd(" + at + ", ~" + arg(i, 2) + ");");
    line("atomicOr(" + at + ", " + arg(i, 1) + " & " + arg(i, 2) + ");");
  } else {
    store(i, name, b.storage, cuda_narrow);
  }
}

/// Stores elements of an array, each as `narrow` makes it of a value.
void CudaEmitter::store(const Inst& i, const std::string& name, Ty storage,
                        std::string (*narrow)(const std::string& v, Ty storage)) {
  const kernel::Type from = arg_type(i, 1);
  if (kernel::is_long(from)) return store_long(i, narrow);
  if (from.lanes == 1) {
    line(name + "[" + arg(i, 0) + "] = " + narrow(arg_lane(i, 1, 0), storage) + ";");
    return;
  }
  const std::string vector = cuda_type({storage, from.lanes});
  std::vector<std::string> parts;
  parts.reserve(from.lanes);
  for (int n = 0; n < from.lanes; ++n) parts.push_back(narrow(arg_lane(i, 1, n), storage));
  const bool same = storage == from.ty;
  line("*(" + vector + "*)(" + address(i) +
       ") = " + (same ? arg(i, 1) : vector + cuda_braces(parts)) + ";");
}

void CudaEmitter::async_copy(const Inst& i) {
  const CopyAccess a = CopyAccess::of(i.imm);
  line("rp_async_copy<" + std::to_string(a.lanes) + ">(" + shared_name(a.shared) + ", (unsigned)" +
       arg(i, 1) + ", " + cuda_name('b', a.buffer, k_.buffers[a.buffer].name) + " + " + arg(i, 0) +
       ", " + arg(i, 2) + ");");
}

std::string CudaEmitter::shared_name(size_t n) const {
  return cuda_name('m', n, k_.shared[n].name);
}

std::string CudaEmitter::matrix_name(size_t n) const {
  return cuda_name('x', n, k_.matrices[n].name);
}

std::string CudaEmitter::held_element(const Inst& i) const {
  const auto e = kernel::HeldElement::of(i.imm);
  return matrix_name(e.matrix) + ".r[" + std::to_string(e.slot) + "]";
}

void CudaEmitter::matrix(const Inst& i) {
  if (i.op != Op::MatrixZero) hold(kernel::matrix_of(i));
  if (i.op == Op::MatrixSet) return line(held_element(i) + " = " + arg(i, 0) + ";");
  if (i.op == Op::MatrixConvert) {
    const auto c = kernel::MatrixConversion::of(i.imm);
    return line("rp_matrix_convert<" + std::to_string(c.column) + ">(" + matrix_name(c.left) +
                ", " + matrix_name(c.sum) + ");");
  }
  if (i.op == Op::MatrixZero) return line("rp_matrix_zero(" + matrix_name(i.imm) + ");");
  if (i.op == Op::MatrixMulAdd) {
    const auto p = kernel::MatrixOperands::of(i.imm);
    return line("rp_matrix_mul_add(" + matrix_name(p.sum) + ", " + matrix_name(p.left) + ", " +
                matrix_name(p.right) + ");");
  }
  const auto a = kernel::MatrixAccess::of(i.imm);
  // Operands are loaded by lines of 16 bytes if these are aligned.
  const kernel::MatrixVar& m = k_.matrices[a.matrix];
  const uint32_t bytes = i.align * static_cast<uint32_t>(kernel::byte_size(m.type));
  const bool lines = i.op == Op::MatrixLoad && m.use != MatrixUse::Sum && bytes % 16 == 0;
  const bool store = i.op == Op::MatrixStore;
  const bool rounds = store && k_.shared[a.shared].type != Ty::F32;
  const bool pairs = store && !a.by_columns && i.align % 2 == 0;
  const char* function = pairs && rounds ? "rp_matrix_round_pairs("
                         : rounds        ? "rp_matrix_round("
                         : pairs         ? "rp_matrix_store_pairs("
                         : lines         ? "rp_matrix_load_lines("
                         : store         ? "rp_matrix_store("
                                         : "rp_matrix_load(";
  const std::string stride = std::to_string(a.stride);
  line(function + matrix_name(a.matrix) + ", " + shared_name(a.shared) +
       (lines ? ", (unsigned)" : " + ") + arg(i, 0) + ", " +
       (a.by_columns ? "1, " + stride : stride + ", 1") + ");");
}

Result<std::string> cuda(const kernel::Kernel& k) {
  RP_TRY(kernel::verify(k));
  return CudaEmitter(k).run();
}

}  // namespace reprise::emit
