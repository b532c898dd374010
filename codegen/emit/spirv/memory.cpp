#include <bit>

#include "codegen/emit/access.h"
#include "codegen/emit/spirv/cooperative_matrix.h"
#include "codegen/emit/spirv/emitter.h"

namespace reprise::emit {

using kernel::Op;

namespace {

uint32_t size_of(kernel::Ty t) {
  return static_cast<uint32_t>(kernel::byte_size(t));
}

}  // namespace

/// The type of elements in memory. Declares the capability to access it.
Id SpirvEmitter::storage_type(Ty t, uint32_t lanes) {
  if (size_of(t) == 1) {
    m_.capability(spv::CapabilityStorageBuffer8BitAccess);
    m_.extension("SPV_KHR_8bit_storage", 0x00010500);
    return m_.vector_type(m_.int_type(8, t == Ty::I8), lanes);
  }
  if (size_of(t) == 2) {
    m_.capability(spv::CapabilityStorageBuffer16BitAccess);
    const Id scalar = t == Ty::F16 ? m_.float_type(16) : m_.int_type(16, t == Ty::I16);
    return m_.vector_type(scalar, lanes);
  }
  return type(t, static_cast<int>(lanes));
}

/// Converts from the storage type to the compute type.
Id SpirvEmitter::widen(Id v, Ty storage, uint8_t lanes) {
  const Type to{kernel::compute_type(storage), lanes};
  if (to.ty == storage) return v;
  if (storage == Ty::BF16) {
    const Type u32{Ty::U32, lanes};
    const Id bits = m_.value(spv::OpUConvert, type(u32), {v});
    const Id high = m_.value(spv::OpShiftLeftLogical, type(u32), {bits, constant(u32, 16)});
    return m_.value(spv::OpBitcast, type(to), {high});
  }
  return m_.value(to.ty == Ty::I32 ? spv::OpSConvert : spv::OpUConvert, type(to), {v});
}

/// Rounds an F32 to the nearest BF16, ties to even; NaN becomes a quiet NaN of the same sign.
Id SpirvEmitter::narrow_bf16(Id v, uint8_t lanes) {
  const Type t{Ty::U32, lanes};
  const Id u32 = type(t);
  const Id bits = m_.value(spv::OpBitcast, u32, {v});
  const Id high = m_.value(spv::OpShiftRightLogical, u32, {bits, constant(t, 16)});
  const Id odd = m_.value(spv::OpBitwiseAnd, u32, {high, constant(t, 1)});
  const Id bias = m_.value(spv::OpIAdd, u32, {odd, constant(t, 0x7FFF)});
  const Id sum = m_.value(spv::OpIAdd, u32, {bits, bias});
  const Id rounded = m_.value(spv::OpShiftRightLogical, u32, {sum, constant(t, 16)});
  const Id quiet = m_.value(spv::OpBitwiseOr, u32, {high, constant(t, 0x40)});
  return select(is_nan(v, lanes), quiet, rounded, t);
}

/// Converts from the compute type to the storage type.
Id SpirvEmitter::narrow(Id v, Ty storage, uint8_t lanes) {
  const Id out = storage_type(storage, lanes);
  const Ty from = kernel::compute_type(storage);
  if (from == storage) return v;
  if (storage == Ty::BF16) return m_.value(spv::OpUConvert, out, {narrow_bf16(v, lanes)});
  return m_.value(from == Ty::I32 ? spv::OpSConvert : spv::OpUConvert, out, {v});
}

/// The indices of an access chain to lane `lane` of an access of `lanes` elements at args[0], in an
/// array declared as vectors of `width`: one for a whole vector, two for a component.
std::vector<Id> SpirvEmitter::element_path(const Inst& i, uint32_t width, uint32_t lanes,
                                           uint32_t lane) {
  const Inst& index = k_.insts[static_cast<size_t>(i.args[0].id)];
  const Type t = index.type;
  const auto shift = static_cast<uint32_t>(std::countr_zero(width));
  if (index.op == Op::Const) {
    const uint64_t element = index.imm + lane;
    if (lanes == width) return {constant(t, element >> shift)};
    return {constant(t, element >> shift), constant(t, element & (width - 1))};
  }
  Id at = arg(i, 0);
  if (lane != 0) at = m_.value(spv::OpIAdd, type(t), {at, constant(t, lane)});
  if (width == 1) return {at};
  const Id vector = m_.value(spv::OpShiftRightLogical, type(t), {at, constant(t, shift)});
  if (lanes == width) return {vector};
  return {vector, m_.value(spv::OpBitwiseAnd, type(t), {at, constant(t, width - 1)})};
}

bool SpirvEmitter::uses_64_bits(const Inst& i, uint32_t lanes) const {
  return options_.loads_64_bits && !options_.descriptors && (lanes == 2 || lanes == 4) &&
         !buffers_[i.imm].scalar && size_of(k_.buffers[i.imm].storage) == 4 &&
         proven_alignment(k_.buffers[i.imm], i, lanes) >= 4 * lanes;
}

Id SpirvEmitter::buffer_pointer(const Inst& i, uint32_t lanes, uint32_t lane) {
  const Memory& b = buffers_[i.imm];
  const Id element = storage_type(k_.buffers[i.imm].storage, lanes);
  const bool vector = lanes == b.width || b.elements == 0;
  Words operands{vector ? b.base : b.elements, m_.constant_u32(0)};
  std::vector<Id> path = element_path(i, vector ? b.width : 1, lanes, lane);
  if (options_.descriptors)
    after_start_of_binding(i, vector ? b.vectors_before : b.elements_before, path[0]);
  operands.insert(operands.end(), path.begin(), path.end());
  return m_.value(spv::OpAccessChain, m_.pointer_type(buffer_class(), element), operands);
}

/// Counts an index of the access from the start of the buffer's binding.
void SpirvEmitter::after_start_of_binding(const Inst& i, Id before, Id& index) {
  const Type t = arg_type(i, 0);
  const bool is_wide = kernel::byte_size(t.ty) == 8;
  const Id same_width = is_wide ? m_.value(spv::OpUConvert, type(Ty::U64, 1), {before}) : before;
  index = m_.value(spv::OpIAdd, type(t), {index, same_width});
}

/// The memory operands of an access to a buffer. Pointers need to know the alignment.
Words SpirvEmitter::aligned(uint32_t alignment) const {
  if (options_.descriptors) return {};
  return {spv::MemoryAccessAlignedMask, alignment};
}

/// As many bits as `lanes` elements of 32 bits.
Id SpirvEmitter::type_of_64_bits(uint32_t lanes) {
  m_.capability(spv::CapabilityInt64);
  const Id one = m_.int_type(64, false);
  return lanes == 2 ? one : m_.vector_type(one, lanes / 2);
}

/// A cast pointer, which is emitted only for devices with loads of 64 bits.
Id SpirvEmitter::pointer_to_64_bits(const Inst& i, uint32_t lanes) {
  const Id type = m_.pointer_type(spv::StorageClassPhysicalStorageBuffer, type_of_64_bits(lanes));
  const bool whole = lanes == buffers_[i.imm].width;
  return m_.value(spv::OpBitcast, type, {buffer_pointer(i, whole ? lanes : 1, 0)});
}

Id SpirvEmitter::load(const Inst& i) {
  const kernel::BufferParam& b = k_.buffers[i.imm];
  const uint8_t lanes = i.type.lanes;
  const auto read = [&](Id pointer, Id t, uint32_t width) {
    Words operands{pointer};
    for (const uint32_t w : aligned(proven_alignment(b, i, width))) operands.push_back(w);
    return m_.value(spv::OpLoad, t, operands);
  };
  if (uses_64_bits(i, lanes)) {
    return m_.value(spv::OpBitcast, type(i.type),
                    {read(pointer_to_64_bits(i, lanes), type_of_64_bits(lanes), lanes)});
  }
  if (lanes == 1 || lanes == buffers_[i.imm].width) {
    const Id pointer = buffer_pointer(i, lanes, 0);
    return widen(read(pointer, storage_type(b.storage, lanes), lanes), b.storage, lanes);
  }
  std::vector<Id> parts;
  for (uint32_t n = 0; n < lanes; ++n) {
    const Id pointer = buffer_pointer(i, 1, n);
    parts.push_back(widen(read(pointer, storage_type(b.storage, 1), 1), b.storage, 1));
  }
  return m_.value(spv::OpCompositeConstruct, type(i.type), parts);
}

void SpirvEmitter::store(const Inst& i) {
  const kernel::BufferParam& b = k_.buffers[i.imm];
  const Type from = arg_type(i, 1);
  if (i.args.size() == 3) return store_bits(i);
  const auto write = [&](Id pointer, Id v, uint32_t width) {
    Words operands{pointer, v};
    for (const uint32_t w : aligned(proven_alignment(b, i, width))) operands.push_back(w);
    m_.code(spv::OpStore, operands);
  };
  if (uses_64_bits(i, from.lanes)) {
    const Id pointer = pointer_to_64_bits(i, from.lanes);
    const Id bits = m_.value(spv::OpBitcast, type_of_64_bits(from.lanes), {arg(i, 1)});
    write(pointer, bits, from.lanes);
    return;
  }
  if (from.lanes == 1 || from.lanes == buffers_[i.imm].width) {
    const Id pointer = buffer_pointer(i, from.lanes, 0);
    write(pointer, narrow(arg(i, 1), b.storage, from.lanes), from.lanes);
    return;
  }
  for (uint32_t n = 0; n < from.lanes; ++n) {
    const Id v = m_.value(spv::OpCompositeExtract, type(from.ty, 1), {arg(i, 1), n});
    write(buffer_pointer(i, 1, n), narrow(v, b.storage, 1), 1);
  }
}

/// Replaces bits by two atomic operations. No other invocation accesses these bits in between.
void SpirvEmitter::store_bits(const Inst& i) {
  const Id u32 = type(Ty::U32, 1);
  const Id pointer = buffer_pointer(i, 1, 0);
  const Id scope = m_.constant_u32(atomic_scope());
  const Id relaxed = m_.constant_u32(spv::MemorySemanticsMaskNone);
  const Id kept = m_.value(spv::OpNot, u32, {arg(i, 2)});
  m_.value(spv::OpAtomicAnd, u32, {pointer, scope, relaxed, kept});
  const Id bits = m_.value(spv::OpBitwiseAnd, u32, {arg(i, 1), arg(i, 2)});
  m_.value(spv::OpAtomicOr, u32, {pointer, scope, relaxed, bits});
}

/// A scope that includes all invocations of a launch. Device scope is a separate feature in the
/// Vulkan memory model.
uint32_t SpirvEmitter::atomic_scope() const {
  return m_.vulkan_memory_model() ? spv::ScopeQueueFamily : spv::ScopeDevice;
}

/// Marks an access to shared memory as visible to other invocations, as the Vulkan memory model
/// requires.
void SpirvEmitter::shared_access(Words& operands) const {
  if (m_.vulkan_memory_model()) operands.push_back(spv::MemoryAccessNonPrivatePointerMask);
}

Id SpirvEmitter::local_pointer(const Inst& i, size_t index_arg, Type t) {
  const Id variable = locals_[i.imm];
  if (i.args.size() <= index_arg) return variable;
  return m_.value(spv::OpAccessChain, m_.pointer_type(spv::StorageClassFunction, type(t)),
                  {variable, arg(i, index_arg)});
}

/// The type of elements in shared memory.
Id SpirvEmitter::shared_type(Ty t, uint32_t lanes) {
  if (t != Ty::BF16) return type(t, static_cast<int>(lanes));
  m_.capability(matrix::kBfloat16);
  m_.extension(matrix::kBfloat16Extension, UINT32_MAX);
  return m_.vector_type(m_.float_type(16, matrix::kBfloat16Encoding), lanes);
}

Id SpirvEmitter::shared_pointer(const Inst& i, uint32_t lanes, uint32_t lane) {
  const Memory& s = shared_[i.imm];
  const Id element = shared_type(k_.shared[i.imm].type, lanes);
  Words operands{s.base};
  for (const Id step : element_path(i, s.width, lanes, lane)) operands.push_back(step);
  return m_.value(spv::OpAccessChain, m_.pointer_type(spv::StorageClassWorkgroup, element),
                  operands);
}

Id SpirvEmitter::shared_load(const Inst& i) {
  const Ty stored = k_.shared[i.imm].type;
  const auto widened = [&](Id v, Type t) {
    return stored == t.ty ? v : m_.value(spv::OpFConvert, type(t), {v});
  };
  const uint32_t lanes = i.type.lanes;
  if (lanes == 1 || lanes == shared_[i.imm].width) {
    Words operands{shared_pointer(i, lanes, 0)};
    shared_access(operands);
    return widened(m_.value(spv::OpLoad, shared_type(stored, lanes), operands), i.type);
  }
  std::vector<Id> parts;
  for (uint32_t n = 0; n < lanes; ++n) {
    Words operands{shared_pointer(i, 1, n)};
    shared_access(operands);
    const Id v = m_.value(spv::OpLoad, shared_type(stored, 1), operands);
    parts.push_back(widened(v, {i.type.ty, 1}));
  }
  return m_.value(spv::OpCompositeConstruct, type(i.type), parts);
}

void SpirvEmitter::shared_store(const Inst& i) {
  const Type from = arg_type(i, 1);
  const Ty stored = k_.shared[i.imm].type;
  const auto store = [&](uint32_t lanes, uint32_t lane, Id v) {
    if (stored != from.ty) v = m_.value(spv::OpFConvert, shared_type(stored, lanes), {v});
    Words operands{shared_pointer(i, lanes, lane), v};
    shared_access(operands);
    m_.code(spv::OpStore, operands);
  };
  if (from.lanes == 1 || from.lanes == shared_[i.imm].width) {
    return store(from.lanes, 0, arg(i, 1));
  }
  for (uint32_t n = 0; n < from.lanes; ++n) {
    store(1, n, m_.value(spv::OpCompositeExtract, type(from.ty, 1), {arg(i, 1), n}));
  }
}

/// if (condition) atomicMax(*block->error, block->launch_id << 8 | code)
void SpirvEmitter::set_error(const Inst& i) {
  const Id u32 = m_.int_type(32, false);
  const Id then = m_.new_id(), merge = m_.new_id();
  m_.code(spv::OpSelectionMerge, {merge, spv::SelectionControlMaskNone});
  m_.code(spv::OpBranchConditional, {arg(i, 0), then, merge});
  label(then);
  const Id error = error_place();
  const Id high = m_.value(spv::OpShiftLeftLogical, u32, {launch_id(), m_.constant_u32(8)});
  const Id code = m_.constant_u32(static_cast<uint32_t>(i.imm));
  const Id word = m_.value(spv::OpBitwiseOr, u32, {high, code});
  const Id at = m_.value(spv::OpAccessChain, m_.pointer_type(buffer_class(), u32),
                         {error, m_.constant_u32(0)});
  m_.value(
      spv::OpAtomicUMax, u32,
      {at, m_.constant_u32(atomic_scope()), m_.constant_u32(spv::MemorySemanticsMaskNone), word});
  branch(merge);
  label(merge);
}

/// *block->error == 0
Id SpirvEmitter::no_error() {
  const Id u32 = m_.int_type(32, false);
  Words operands{m_.value(spv::OpAccessChain, m_.pointer_type(buffer_class(), u32),
                          {error_place(), m_.constant_u32(0)})};
  for (const uint32_t w : aligned(4)) operands.push_back(w);
  const Id word = m_.value(spv::OpLoad, u32, operands);
  return m_.value(spv::OpIEqual, type(kernel::kBool), {word, m_.constant_u32(0)});
}

}  // namespace reprise::emit
