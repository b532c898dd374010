#include "codegen/emit/spirv/spirv.h"

#include <algorithm>
#include <set>

#include "codegen/emit/access.h"
#include "codegen/emit/spirv/emitter.h"

namespace reprise::emit {

using kernel::Op;

Result<Words> SpirvEmitter::run() {
  if (options_.version < 0x00010300 || options_.version > 0x00010600) {
    return unsupported("SPIR-V emitter: version must be 1.3 to 1.6");
  }
  if (k_.items != 1 && options_.descriptors)
    return unsupported("SPIR-V emitter: kernels of several items need buffer addresses");
  if (kernel::requirements(k_).matrix_elements)
    return unsupported("SPIR-V emitter: kernel " + k_.name +
                       " names elements of matrices, or rounds them; only CUDA says which "
                       "invocation holds which; choose another schedule");
  const bool splits = std::ranges::any_of(k_.matrices, [](const kernel::MatrixVar& m) {
    return m.use != kernel::MatrixUse::Sum && m.type == Ty::F32;
  });
  if (splits)
    return unsupported("SPIR-V emitter: kernel " + k_.name +
                       " multiplies matrices of F32, which only CUDA offers");
  m_.capability(spv::CapabilityShader);
  if (!options_.descriptors) m_.use_physical_addresses();
  declare_matrix_model();
  survey();
  declare_parameters();
  declare_memory();
  const Id void_type = m_.void_type();
  const Id signature = m_.function_type(void_type);
  const Id entry = m_.new_id();
  m_.name(entry, k_.name);
  m_.code(spv::OpFunction, {void_type, entry, spv::FunctionControlMaskNone, signature});
  label(m_.new_id());
  for (const kernel::LocalVar& l : k_.locals) {
    const Id t = l.count == 1 ? type(l.type) : m_.array_type(type(l.type), l.count);
    const Id pointer = m_.pointer_type(spv::StorageClassFunction, t);
    locals_.push_back(m_.value(spv::OpVariable, pointer, {spv::StorageClassFunction}));
    m_.name(locals_.back(), l.name);
  }
  declare_matrices();
  load_parameters();
  RP_TRY(block(0));
  m_.code(spv::OpReturn, {});
  m_.code(spv::OpFunctionEnd, {});
  return m_.assemble(entry, k_.workgroup);
}

/// Whether the instruction computes with F16. A storage type may only be loaded, converted and
/// stored.
bool SpirvEmitter::computes_half(const Inst& i) const {
  if (i.op == Op::Load || i.op == Op::Store) return false;
  if (i.op == Op::Convert && is_float(i.type.ty) && is_float(arg_type(i, 0).ty)) return false;
  for (size_t n = 0; n < i.args.size(); ++n) {
    if (arg_type(i, n).ty == Ty::F16) return true;
  }
  return i.type.ty == Ty::F16;
}

/// Whether the kernel converts to or from F16, and no buffer has elements of 16 bits.
bool SpirvEmitter::only_converts_halves() const {
  bool converts = false, accesses = false;
  for_each_inst(k_, 0, [&](const Inst& i) {
    converts |= i.op == Op::Convert && (i.type.ty == Ty::F16 || arg_type(i, 0).ty == Ty::F16);
    accesses |= (i.op == Op::Load || i.op == Op::Store) &&
                kernel::byte_size(k_.buffers[i.imm].storage) == 2;
  });
  return converts && !accesses;
}

/// Finds what the kernel uses, and the longest and shortest access to each buffer and shared array.
void SpirvEmitter::survey() {
  buffers_.assign(k_.buffers.size(), {});
  shared_.assign(k_.shared.size(), {});
  scalar_used_.assign(k_.scalars.size(), false);
  const auto touch = [](Memory& m, kernel::Type t) {
    m.used = true;
    m.width = std::max<uint32_t>(m.width, t.lanes);
    m.least = std::min<uint32_t>(m.least, t.lanes);
  };
  bool half_arithmetic = false, single = false, wide = false, rounds_halves = false;
  for (const auto& l : k_.locals) half_arithmetic = half_arithmetic || l.type.ty == Ty::F16;
  for (const auto& s : k_.shared) half_arithmetic = half_arithmetic || s.type == Ty::F16;
  for_each_inst(k_, 0, [&](const Inst& i) {
    if (i.op == Op::Load) touch(buffers_[i.imm], i.type);
    if (i.op == Op::Store) touch(buffers_[i.imm], arg_type(i, 1));
    if (i.op == Op::Store && i.args.size() == 3) buffers_[i.imm].scalar = true;
    if (i.op == Op::SharedLoad) touch(shared_[i.imm], i.type);
    if (i.op == Op::SharedStore) touch(shared_[i.imm], arg_type(i, 1));
    if (i.op == Op::MatrixLoad || i.op == Op::MatrixStore) {
      Memory& array = shared_[kernel::MatrixAccess::of(i.imm).shared];
      array.used = true;
      array.most = std::min(array.most, i.align & (0U - i.align));
    }
    if (i.op == Op::Param) scalar_used_[i.imm] = true;
    uses_error_ = uses_error_ || i.op == Op::SetError || i.op == Op::NoError;
    half_arithmetic = half_arithmetic || computes_half(i);
    single = single || i.type.ty == Ty::F32;
    wide = wide || i.type.ty == Ty::F64;
    rounds_halves = rounds_halves || kernel::rounds_to_half(k_, i);
  });
  // Buffers begin at multiples of 16 bytes in their bindings.
  for (size_t n = 0; n < buffers_.size() && options_.descriptors; ++n) {
    const auto element = static_cast<uint32_t>(kernel::byte_size(k_.buffers[n].storage));
    buffers_[n].scalar = buffers_[n].scalar || buffers_[n].width * element > kBindingAlignment;
  }
  for (std::vector<Memory>* memory : {&buffers_, &shared_}) {
    for (Memory& m : *memory) {
      m.width = m.scalar ? 1 : std::min(m.width, m.most);
    }
  }
  // Without 16-bit storage, conversions alone need the capability, too.
  if (half_arithmetic || only_converts_halves()) {
    m_.capability(spv::CapabilityFloat16);
    m_.preserve_special_values(16);
  }
  if (single) m_.preserve_special_values(32);
  // Some devices have one mode for halves and for the floats of other widths.
  if (rounds_halves) m_.round_exactly(16);
  if (rounds_halves) m_.round_exactly(32);
  if (rounds_halves && wide) m_.round_exactly(64);
}

/// Declares the shared arrays.
void SpirvEmitter::declare_memory() {
  for (size_t n = 0; n < k_.shared.size(); ++n) {
    const kernel::SharedArray& s = k_.shared[n];
    const uint32_t width = shared_[n].width;
    const uint32_t count = (s.count + width - 1) / width;
    const Id array = m_.array_type(shared_type(s.type, width), count);
    shared_[n].base =
        m_.global(m_.pointer_type(spv::StorageClassWorkgroup, array), spv::StorageClassWorkgroup);
    m_.name(shared_[n].base, s.name);
  }
}

void SpirvEmitter::label(Id id) {
  m_.code(spv::OpLabel, {id});
  current_label_ = id;
}

Status SpirvEmitter::block(int32_t index) {
  for (const int32_t n : k_.blocks[static_cast<size_t>(index)].insts) RP_TRY(inst(n));
  return {};
}

void SpirvEmitter::barrier() {
  const Id workgroup = m_.constant_u32(spv::ScopeWorkgroup);
  uint32_t meaning =
      spv::MemorySemanticsAcquireReleaseMask | spv::MemorySemanticsWorkgroupMemoryMask;
  if (m_.vulkan_memory_model())
    meaning |= spv::MemorySemanticsMakeAvailableMask | spv::MemorySemanticsMakeVisibleMask;
  m_.code(spv::OpControlBarrier, {workgroup, workgroup, m_.constant_u32(meaning)});
}

Status SpirvEmitter::inst(int32_t index) {
  const Inst& i = k_.insts[static_cast<size_t>(index)];
  if (is_value(i.op)) {
    RP_ASSIGN(ids_[static_cast<size_t>(index)], value(i));
    return {};
  }
  switch (i.op) {
    case Op::Store:
      store(i);
      return {};
    case Op::LocalStore:
      m_.code(spv::OpStore, {local_pointer(i, 1, arg_type(i, 0)), arg(i, 0)});
      return {};
    case Op::SharedStore:
      shared_store(i);
      return {};
    case Op::Barrier:
      barrier();
      return {};
    case Op::AsyncCopy:
    case Op::CopyCommit:
    case Op::CopyWait:
    case Op::Roles:
    case Op::BoxCopy:
    case Op::BoxStore:
    case Op::BoxDrain:
    case Op::Arrive:
    case Op::Await:
    case Op::TeamMulAdd:
    case Op::MatrixCommit:
    case Op::MatrixAwait:
    case Op::AwaitLaunches:
      return unsupported(
          "SPIR-V emitter: kernel " + k_.name +
          " copies asynchronously, has roles or begins early, which only CUDA offers");
    case Op::MatrixZero:
    case Op::MatrixLoad:
    case Op::MatrixStore:
    case Op::MatrixMulAdd:
      matrix(i);
      return {};
    case Op::SelectItem:
      load_addresses(arg(i, 0));
      return {};
    case Op::SetError:
      set_error(i);
      return {};
    case Op::If:
      return if_(i);
    case Op::For:
      return for_(index);
    default:
      break;
  }
  return internal_error("SPIR-V emitter: unknown instruction in kernel " + k_.name);
}

Result<Id> SpirvEmitter::value(const Inst& i) {
  if (kernel::is_long(i.type)) {
    return internal_error("SPIR-V emitter: kernel " + k_.name + ": legalize() must split " +
                          kernel::str(i.type));
  }
  switch (i.op) {
    case Op::Const:
      return constant(i.type, i.imm);
    case Op::Param:
      return i.args.empty() ? scalars_[i.imm] : scalar_parameter(i.imm, arg(i, 0));
    case Op::Builtin:
      return builtin(i);
    case Op::Scalar:
      return scalar(i);
    case Op::Convert:
      return convert(i);
    case Op::Bitcast:
      if (arg_type(i, 0) == i.type) return arg(i, 0);
      return m_.value(spv::OpBitcast, type(i.type), {arg(i, 0)});
    case Op::Compose: {
      std::vector<Id> lanes;
      for (size_t n = 0; n < i.args.size(); ++n) lanes.push_back(arg(i, n));
      return m_.value(spv::OpCompositeConstruct, type(i.type), lanes);
    }
    case Op::Extract:
      return m_.value(spv::OpCompositeExtract, type(i.type),
                      {arg(i, 0), static_cast<uint32_t>(i.imm)});
    case Op::Load:
      return load(i);
    case Op::LocalLoad:
      return m_.value(spv::OpLoad, type(i.type), {local_pointer(i, 0, i.type)});
    case Op::SharedLoad:
      return shared_load(i);
    case Op::Subgroup:
      return subgroup(i);
    case Op::NoError:
      return no_error();
    default:
      break;
  }
  return internal_error("SPIR-V emitter: a statement has no value in kernel " + k_.name);
}

Status SpirvEmitter::if_(const Inst& i) {
  const Id then = m_.new_id();
  const Id merge = m_.new_id();
  const bool has_else = i.blocks.size() > 1;
  const Id otherwise = has_else ? m_.new_id() : merge;
  m_.code(spv::OpSelectionMerge, {merge, spv::SelectionControlMaskNone});
  m_.code(spv::OpBranchConditional, {arg(i, 0), then, otherwise});
  label(then);
  RP_TRY(block(i.blocks[0]));
  branch(merge);
  if (has_else) {
    label(otherwise);
    RP_TRY(block(i.blocks[1]));
    branch(merge);
  }
  label(merge);
  return {};
}

/// Whether the loop converts values that depend only on its counter to floats, which become
/// constants when a driver unrolls the loop (workarounds::kUnrolledCounters).
bool SpirvEmitter::counts_in_floats(int32_t loop) const {
  std::set<const Inst*> counted{&k_.insts[static_cast<size_t>(loop)]};
  bool found = false;
  for_each_inst(k_, k_.insts[static_cast<size_t>(loop)].blocks[0], [&](const Inst& i) {
    const bool counts = std::any_of(i.args.begin(), i.args.end(), [&](kernel::Val a) {
      return counted.count(&k_.insts[static_cast<size_t>(a.id)]) != 0;
    });
    if (!counts || (i.op != Op::Scalar && i.op != Op::Convert)) return;
    counted.insert(&i);
    found = found || (i.op == Op::Convert && is_float(i.type.ty));
  });
  return found;
}

/// Whether the copies that a driver makes of a loop's body would be long, and no local array needs
/// them to stay in registers.
bool SpirvEmitter::is_long(int32_t loop) const {
  constexpr int64_t kMaxCopied = 64;  // instructions
  const auto constant = [&](kernel::Val a) {
    const Inst& from = k_.insts[static_cast<size_t>(a.id)];
    return from.op == Op::Const ? static_cast<int64_t>(static_cast<int32_t>(from.imm)) : -1;
  };
  const Inst& i = k_.insts[static_cast<size_t>(loop)];
  const int64_t start = constant(i.args[0]), end = constant(i.args[1]), step = constant(i.args[2]);
  if (start < 0 || end < 0 || step <= 0) return false;
  int64_t insts = 0;
  bool chooses = false;  // an element of a local array
  for_each_inst(k_, i.blocks[0], [&](const Inst& in) {
    ++insts;
    if (in.op != Op::LocalLoad && in.op != Op::LocalStore) return;
    const size_t place = in.op == Op::LocalLoad ? 0 : 1;
    chooses |= in.args.size() > place && constant(in.args[place]) < 0;
  });
  return !chooses && (end - start + step - 1) / step * insts > kMaxCopied;
}

Status SpirvEmitter::for_(int32_t index) {
  const Inst& i = k_.insts[static_cast<size_t>(index)];
  const Id header = m_.new_id(), body = m_.new_id(), next = m_.new_id(), merge = m_.new_id();
  const Id stepped = m_.new_id();
  const Id i32 = type(Ty::I32, 1);
  const Id before = current_label_;
  branch(header);
  label(header);
  const Id variable = m_.value(spv::OpPhi, i32, {arg(i, 0), before, stepped, next});
  ids_[static_cast<size_t>(index)] = variable;
  const Id more = m_.value(spv::OpSLessThan, m_.bool_type(), {variable, arg(i, 1)});
  const uint32_t control = counts_in_floats(index) || (options_.keeps_loops && is_long(index))
                               ? spv::LoopControlDontUnrollMask
                               : spv::LoopControlMaskNone;
  m_.code(spv::OpLoopMerge, {merge, next, control});
  m_.code(spv::OpBranchConditional, {more, body, merge});
  label(body);
  RP_TRY(block(i.blocks[0]));
  branch(next);
  label(next);
  m_.code(spv::OpIAdd, {i32, stepped, variable, arg(i, 2)});
  branch(header);
  label(merge);
  return {};
}

Result<std::vector<uint32_t>> spirv(const kernel::Kernel& k, const SpirvOptions& options) {
  RP_TRY(kernel::verify(k));
  return SpirvEmitter(k, options).run();
}

}  // namespace reprise::emit
