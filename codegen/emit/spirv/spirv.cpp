#include "codegen/emit/spirv/spirv.h"

#include <algorithm>

#include "codegen/emit/access.h"
#include "codegen/emit/spirv/emitter.h"

namespace reprise::emit {

using kernel::Access;
using kernel::BlockLayout;
using kernel::BufferParam;
using kernel::Op;

Result<Words> SpirvEmitter::run() {
  if (options_.version < 0x00010300 || options_.version > 0x00010600) {
    return unsupported("SPIR-V emitter: version must be 1.3 to 1.6");
  }
  m_.capability(spv::CapabilityShader);
  m_.capability(spv::CapabilityPhysicalStorageBufferAddresses);
  m_.extension("SPV_KHR_physical_storage_buffer", 0x00010500);
  declare_matrix_model();
  survey();
  declare_block();
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
  load_params();
  RP_TRY(block(0));
  m_.code(spv::OpReturn, {});
  m_.code(spv::OpFunctionEnd, {});
  return m_.assemble(entry, k_.workgroup);
}

/// Whether F16 is more than a storage type here: that may be loaded, converted and stored.
bool SpirvEmitter::computes_half(const Inst& i) const {
  if (i.op == Op::Load || i.op == Op::Store) return false;
  if (i.op == Op::Convert && is_float(i.type.ty) && is_float(arg_type(i, 0).ty)) return false;
  for (size_t n = 0; n < i.args.size(); ++n) {
    if (arg_type(i, n).ty == Ty::F16) return true;
  }
  return i.type.ty == Ty::F16;
}

/// Finds what the kernel uses, and how wide each buffer and shared array is accessed.
void SpirvEmitter::survey() {
  buffers_.assign(k_.buffers.size(), {});
  shared_.assign(k_.shared.size(), {});
  scalar_used_.assign(k_.scalars.size(), false);
  const auto touch = [](Memory& m, kernel::Type t) {
    m.used = true;
    m.width = std::max<uint32_t>(m.width, t.lanes);
    m.least = std::min<uint32_t>(m.least, t.lanes);
  };
  bool half_arithmetic = false, single = false;
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
      array.used = array.scalar = true;
    }
    if (i.op == Op::Param) scalar_used_[i.imm] = true;
    half_arithmetic = half_arithmetic || computes_half(i);
    single = single || i.type.ty == Ty::F32;
  });
  for (std::vector<Memory>* memory : {&buffers_, &shared_}) {
    for (Memory& m : *memory) {
      if (m.scalar) m.width = 1;
    }
  }
  if (half_arithmetic) {
    m_.capability(spv::CapabilityFloat16);
    m_.preserve_special_values(16);
  }
  if (single) m_.preserve_special_values(32);
}

/// struct { T data[]; }
Id SpirvEmitter::buffer_struct(const BufferParam& b, uint32_t width) {
  const Id element = storage_type(b.storage, width);
  const auto stride = static_cast<uint32_t>(kernel::byte_size(b.storage)) * width;
  const Id members[] = {m_.runtime_array(element, stride)};
  const Id s = m_.struct_type(members);
  m_.decorate(s, spv::DecorationBlock);
  m_.decorate_member(s, 0, spv::DecorationOffset, {0});
  if (b.access == Access::Read) m_.decorate_member(s, 0, spv::DecorationNonWritable);
  if (b.access == Access::Write) m_.decorate_member(s, 0, spv::DecorationNonReadable);
  return s;
}

/// Whether a buffer is accessed as vectors and as elements, each through a pointer of its own.
bool SpirvEmitter::is_mixed(size_t buffer) const {
  return options_.pointer_casts && buffers_[buffer].least < buffers_[buffer].width;
}

/// The type of a pointer to a buffer as an array of vectors of `width`.
Id SpirvEmitter::buffer_type(size_t buffer, uint32_t width) {
  constexpr auto kPhysical = spv::StorageClassPhysicalStorageBuffer;
  const Id s = buffer_struct(k_.buffers[buffer], width);
  if (!is_mixed(buffer)) return m_.pointer_type(kPhysical, s);
  // Forward: else the validator takes a cast of the pointer for one of the narrow types behind it.
  const Id pointer = m_.forward_pointer(kPhysical);
  m_.define_pointer(pointer, kPhysical, s);
  return pointer;
}

/// The parameter block and the push constant that points to it.
void SpirvEmitter::declare_block() {
  constexpr auto kPhysical = spv::StorageClassPhysicalStorageBuffer;
  const BlockLayout layout;
  // Forward: else the validator takes what buffers hold for something that push constants hold.
  const Id block_pointer = m_.forward_pointer(kPhysical);
  const Id u32 = m_.int_type(32, false);
  const Id word[] = {u32};
  const Id error = m_.struct_type(word);
  m_.decorate(error, spv::DecorationBlock);
  m_.decorate_member(error, 0, spv::DecorationOffset, {0});
  m_.name(error, "error_word");
  error_pointer_type_ = m_.pointer_type(kPhysical, error);
  std::vector<Id> members{error_pointer_type_, u32};
  std::vector<uint32_t> offsets{0, 8};
  std::vector<std::string> names{"error", "launch_id"};
  for (size_t n = 0; n < k_.buffers.size(); ++n) {
    members.push_back(buffer_type(n, buffers_[n].width));
    buffer_pointer_types_.push_back(members.back());
    offsets.push_back(layout.buffer_offset(n));
    names.push_back(k_.buffers[n].name);
  }
  for (size_t n = 0; n < k_.scalars.size(); ++n) {
    members.push_back(type(k_.scalars[n].type, 1));
    offsets.push_back(layout.scalar_offset(k_.buffers.size(), n));
    names.push_back(k_.scalars[n].name);
  }
  block_struct_ = m_.struct_type(members);
  m_.decorate(block_struct_, spv::DecorationBlock);
  m_.name(block_struct_, "block");
  for (uint32_t n = 0; n < members.size(); ++n) {
    m_.decorate_member(block_struct_, n, spv::DecorationOffset, {offsets[n]});
    m_.decorate_member(block_struct_, n, spv::DecorationNonWritable);
    m_.member_name(block_struct_, n, names[n]);
  }
  m_.define_pointer(block_pointer, kPhysical, block_struct_);
  const Id push_members[] = {block_pointer};
  const Id push = m_.struct_type(push_members);
  m_.decorate(push, spv::DecorationBlock);
  m_.decorate_member(push, 0, spv::DecorationOffset, {0});
  push_ = m_.global(m_.pointer_type(spv::StorageClassPushConstant, push),
                    spv::StorageClassPushConstant);
  m_.name(push_, "push");
}

/// Shared arrays.
void SpirvEmitter::declare_memory() {
  for (size_t n = 0; n < k_.shared.size(); ++n) {
    const kernel::SharedArray& s = k_.shared[n];
    const uint32_t width = shared_[n].width;
    const uint32_t count = (s.count + width - 1) / width;
    const Id array = m_.array_type(type(s.type, static_cast<int>(width)), count);
    shared_[n].base =
        m_.global(m_.pointer_type(spv::StorageClassWorkgroup, array), spv::StorageClassWorkgroup);
    m_.name(shared_[n].base, s.name);
  }
}

/// Everything that the kernel needs of its block, read once at the start.
void SpirvEmitter::load_params() {
  constexpr auto kPhysical = spv::StorageClassPhysicalStorageBuffer;
  const Id block_pointer = m_.pointer_type(kPhysical, block_struct_);
  const Id at =
      m_.value(spv::OpAccessChain, m_.pointer_type(spv::StorageClassPushConstant, block_pointer),
               {push_, m_.constant_u32(0)});
  block_ = m_.value(spv::OpLoad, block_pointer, {at});
  const auto member = [&](size_t index, Id t, uint32_t bytes) {
    const Id p = m_.value(spv::OpAccessChain, m_.pointer_type(kPhysical, t),
                          {block_, m_.constant_u32(static_cast<uint32_t>(index))});
    return m_.value(spv::OpLoad, t, {p, spv::MemoryAccessAlignedMask, bytes});
  };
  for (size_t n = 0; n < k_.buffers.size(); ++n) {
    if (!buffers_[n].used) continue;
    buffers_[n].base = member(2 + n, buffer_pointer_types_[n], 8);
    m_.name(buffers_[n].base, k_.buffers[n].name);
    // Mesa 22.3.6 takes the first component for every one that is loaded through the pointer that
    // the whole vector was loaded through.
    if (!is_mixed(n)) continue;
    buffers_[n].elements = m_.value(spv::OpBitcast, buffer_type(n, 1), {buffers_[n].base});
  }
  scalars_.assign(k_.scalars.size(), 0);
  for (size_t n = 0; n < k_.scalars.size(); ++n) {
    if (!scalar_used_[n]) continue;
    scalars_[n] = member(2 + k_.buffers.size() + n, type(k_.scalars[n].type, 1), 4);
    m_.name(scalars_[n], k_.scalars[n].name);
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

Status SpirvEmitter::inst(int32_t index) {
  const Inst& i = k_.insts[static_cast<size_t>(index)];
  switch (i.op) {
    case Op::Const:
    case Op::Param:
    case Op::Builtin:
    case Op::Scalar:
    case Op::Convert:
    case Op::Bitcast:
    case Op::Compose:
    case Op::Extract:
    case Op::Load:
    case Op::LocalLoad:
    case Op::SharedLoad:
    case Op::Subgroup: {
      RP_ASSIGN(ids_[static_cast<size_t>(index)], value(i));
      return {};
    }
    case Op::Store:
      store(i);
      return {};
    case Op::LocalStore:
      m_.code(spv::OpStore, {local_pointer(i, 1, arg_type(i, 0)), arg(i, 0)});
      return {};
    case Op::SharedStore:
      shared_store(i);
      return {};
    case Op::Barrier: {
      const Id workgroup = m_.constant_u32(spv::ScopeWorkgroup);
      uint32_t meaning =
          spv::MemorySemanticsAcquireReleaseMask | spv::MemorySemanticsWorkgroupMemoryMask;
      if (m_.vulkan_memory_model())
        meaning |= spv::MemorySemanticsMakeAvailableMask | spv::MemorySemanticsMakeVisibleMask;
      const Id semantics = m_.constant_u32(meaning);
      m_.code(spv::OpControlBarrier, {workgroup, workgroup, semantics});
      return {};
    }
    case Op::MatrixZero:
    case Op::MatrixLoad:
    case Op::MatrixStore:
    case Op::MatrixMulAdd:
      matrix(i);
      return {};
    case Op::SetError:
      set_error(i);
      return {};
    case Op::If:
      return if_(i);
    case Op::For:
      return for_(index);
  }
  return internal_error("SPIR-V emitter: unknown instruction in kernel " + k_.name);
}

Result<Id> SpirvEmitter::value(const Inst& i) {
  switch (i.op) {
    case Op::Const:
      return constant(i.type, i.imm);
    case Op::Param:
      return scalars_[i.imm];
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
    case Op::Store:
    case Op::LocalStore:
    case Op::SharedStore:
    case Op::Barrier:
    case Op::MatrixZero:
    case Op::MatrixLoad:
    case Op::MatrixStore:
    case Op::MatrixMulAdd:
    case Op::SetError:
    case Op::If:
    case Op::For:
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
  const uint32_t control = i.imm != 0 ? spv::LoopControlUnrollMask : spv::LoopControlMaskNone;
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
