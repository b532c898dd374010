// Emits the parameters of a kernel, in two forms. With buffer addresses, push constants point to
// the parameter block, which has pointers to buffers. With descriptors, the block is a uniform
// block and each buffer a variable; the block says where in its binding a buffer begins.
#include <bit>

#include "codegen/emit/spirv/emitter.h"

namespace reprise::emit {

using kernel::Access;
using kernel::BlockLayout;
using kernel::BufferParam;

namespace {

constexpr auto kPhysical = spv::StorageClassPhysicalStorageBuffer;

}  // namespace

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

Id SpirvEmitter::error_struct() {
  const Id word[] = {m_.int_type(32, false)};
  const Id error = m_.struct_type(word);
  m_.decorate(error, spv::DecorationBlock);
  m_.decorate_member(error, 0, spv::DecorationOffset, {0});
  m_.name(error, "error_word");
  return error;
}

/// Whether a buffer is accessed both as vectors and as elements, which have separate pointers.
bool SpirvEmitter::is_mixed(size_t buffer) const {
  return buffers_[buffer].least < buffers_[buffer].width;
}

/// A member of a parameter block.
struct SpirvEmitter::Member {
  Id type;
  uint32_t offset;
  std::string name;
};

/// `block`: not the contents of an array.
Id SpirvEmitter::struct_of(const std::vector<Member>& members, const std::string& name,
                           bool block) {
  std::vector<Id> types;
  types.reserve(members.size());
  for (const Member& m : members) types.push_back(m.type);
  const Id out = m_.struct_type(types);
  if (block) m_.decorate(out, spv::DecorationBlock);
  m_.name(out, name);
  for (uint32_t n = 0; n < members.size(); ++n) {
    m_.decorate_member(out, n, spv::DecorationOffset, {members[n].offset});
    m_.decorate_member(out, n, spv::DecorationNonWritable);
    m_.member_name(out, n, members[n].name);
  }
  return out;
}

/// In kernels of several items: replaces the members of an item, the first of which is at `begin`,
/// by an array over the items.
void SpirvEmitter::by_item(std::vector<Member>& members, uint32_t begin, uint32_t stride,
                           const std::string& name) {
  if (k_.items == 1 || members.empty()) return;
  for (Member& m : members) m.offset -= begin;
  const Id array = m_.array_type(struct_of(members, name + "_of_item", false), k_.items);
  m_.decorate(array, spv::DecorationArrayStride, {stride});
  members = {{array, begin, name}};
}

/// The type of a pointer to a parameter block.
Id SpirvEmitter::block_pointer(const std::vector<Member>& members, const std::string& name) {
  // A forward declaration: otherwise the validator treats the contents of buffers as contents of
  // push constants.
  const Id pointer = m_.forward_pointer(kPhysical);
  const Id block = struct_of(members, name, true);
  m_.define_pointer(pointer, kPhysical, block);
  return pointer;
}

std::vector<SpirvEmitter::Member> SpirvEmitter::scalar_members() {
  const BlockLayout layout;
  std::vector<Member> members;
  for (size_t n = 0; n < k_.item_scalars(); ++n) {
    members.push_back({type(k_.scalars[n].type, 1), layout.scalar_offset(k_.buffers.size(), n),
                       k_.scalars[n].name});
  }
  return members;
}

void SpirvEmitter::declare_parameters() {
  if (options_.descriptors) {
    declare_descriptors();
  } else {
    declare_addresses();
  }
}

/// Declares the parameter block and the push constants that point to it.
void SpirvEmitter::declare_addresses() {
  const BlockLayout layout;
  const Id u32 = m_.int_type(32, false);
  error_pointer_type_ = m_.pointer_type(kPhysical, error_struct());
  std::vector<Member> members{{error_pointer_type_, layout.kErrorAddress, "error"},
                              {u32, layout.kLaunchId, "launch_id"}};
  std::vector<Member> pointers, elements;
  const auto pointer_to = [&](size_t buffer, uint32_t width) -> Member {
    const BufferParam& b = k_.buffers[buffer];
    return {m_.pointer_type(kPhysical, buffer_struct(b, width)), layout.buffer_offset(buffer),
            b.name};
  };
  for (size_t n = 0; n < k_.item_buffers(); ++n) {
    pointers.push_back(pointer_to(n, buffers_[n].width));
    if (is_mixed(n)) elements.push_back(pointer_to(n, 1));
  }
  for (const Member& m : pointers) pointer_types_.push_back(m.type);
  for (const Member& m : elements) element_types_.push_back(m.type);
  std::vector<Member> scalars = scalar_members();
  const auto pointer_stride = static_cast<uint32_t>(8 * k_.item_buffers());
  by_item(pointers, layout.buffer_offset(0), pointer_stride, "buffers");
  by_item(elements, layout.buffer_offset(0), pointer_stride, "elements");
  by_item(scalars, layout.scalar_offset(k_.buffers.size(), 0),
          static_cast<uint32_t>(4 * k_.item_scalars()), "scalars");
  for (std::vector<Member>* group : {&pointers, &scalars})
    for (Member& m : *group) members.push_back(std::move(m));
  push_types_ = {block_pointer(members, "block")};
  if (!elements.empty()) push_types_.push_back(block_pointer(elements, "block_of_elements"));
  const Id push = m_.struct_type(push_types_);
  m_.decorate(push, spv::DecorationBlock);
  for (uint32_t n = 0; n < push_types_.size(); ++n)
    m_.decorate_member(push, n, spv::DecorationOffset, {8 * n});
  push_ = m_.global(m_.pointer_type(spv::StorageClassPushConstant, push),
                    spv::StorageClassPushConstant);
  m_.name(push_, "push");
}

/// A variable at a binding of set 0.
Id SpirvEmitter::descriptor(spv::StorageClass storage, Id type, uint32_t binding,
                            const std::string& name) {
  const Id variable = m_.global(m_.pointer_type(storage, type), storage);
  m_.name(variable, name);
  m_.decorate(variable, spv::DecorationDescriptorSet, {0});
  m_.decorate(variable, spv::DecorationBinding, {binding});
  return variable;
}

/// Declares the uniform block, and a storage buffer for each buffer that the kernel accesses. All
/// of them may share memory: two parameters of a launch may be one buffer, and vectors and elements
/// of a buffer are two variables with one binding.
void SpirvEmitter::declare_descriptors() {
  const BlockLayout layout;
  const Id u32 = m_.int_type(32, false);
  std::vector<Member> members{{u32, layout.kErrorAddress, "error"},
                              {u32, layout.kLaunchId, "launch_id"},
                              {u32, layout.kWindow, "window"}};
  for (size_t n = 0; n < k_.buffers.size(); ++n)
    members.push_back({u32, layout.buffer_offset(n), k_.buffers[n].name});
  for (Member& m : scalar_members()) members.push_back(std::move(m));
  block_ = descriptor(spv::StorageClassUniform, struct_of(members, "block", true),
                      layout.kBlockBinding, "parameters");
  const auto storage_buffer = [&](Id type, uint32_t binding, const std::string& name) {
    const Id v = descriptor(spv::StorageClassStorageBuffer, type, binding, name);
    m_.decorate(v, spv::DecorationAliased);
    return v;
  };
  if (uses_error_) error_ = storage_buffer(error_struct(), layout.kErrorBinding, "error");
  for (size_t n = 0; n < k_.buffers.size(); ++n) {
    const BufferParam& b = k_.buffers[n];
    Memory& m = buffers_[n];
    if (!m.used) continue;
    m.base = storage_buffer(buffer_struct(b, m.width), layout.buffer_binding(n), b.name);
    if (!is_mixed(n)) continue;
    m.elements = storage_buffer(buffer_struct(b, 1), layout.buffer_binding(n), b.name);
  }
}

/// Loads all parameters that the kernel uses from its block, once at the start. Those of an item
/// are loaded where it is selected.
void SpirvEmitter::load_parameters() {
  if (options_.descriptors) {
    load_offsets();
  } else {
    load_blocks();
    if (k_.items == 1) load_addresses(0);
  }
  scalars_.assign(k_.scalars.size(), 0);
  for (size_t n = 0; n < k_.item_scalars() && k_.items == 1; ++n) {
    if (!scalar_used_[n]) continue;
    scalars_[n] = scalar_parameter(n, 0);
    m_.name(scalars_[n], k_.scalars[n].name);
  }
}

/// The indices of a member of a block. The buffers and the scalars of a kernel with one item are
/// members of the block from `first` on; those of several items are in its array number `group`.
Words SpirvEmitter::path_of(size_t group, size_t first, size_t member, Id item) {
  const auto number = [&](size_t n) { return m_.constant_u32(static_cast<uint32_t>(n)); };
  if (k_.items == 1) return {number(first + member)};
  return {number(group), item, number(member)};
}

Id SpirvEmitter::scalar_parameter(size_t n, Id item) {
  const size_t header = options_.descriptors ? 3 : 2;  // members before the buffers
  const Words path = path_of(header + 1, header + k_.buffers.size(), n, item);
  return block_member(block_, path, type(k_.scalars[n].type, 1), 4);
}

Id SpirvEmitter::block_member(Id block, const Words& path, Id t, uint32_t bytes) {
  const auto storage = options_.descriptors ? spv::StorageClassUniform : kPhysical;
  Words chain{block};
  chain.insert(chain.end(), path.begin(), path.end());
  const Id p = m_.value(spv::OpAccessChain, m_.pointer_type(storage, t), chain);
  Words operands{p};
  for (const uint32_t w : aligned(bytes)) operands.push_back(w);
  return m_.value(spv::OpLoad, t, operands);
}

void SpirvEmitter::load_blocks() {
  std::vector<Id> blocks;
  for (uint32_t n = 0; n < push_types_.size(); ++n) {
    const Id pointer = m_.pointer_type(spv::StorageClassPushConstant, push_types_[n]);
    const Id at = m_.value(spv::OpAccessChain, pointer, {push_, m_.constant_u32(n)});
    blocks.push_back(m_.value(spv::OpLoad, push_types_[n], {at}));
  }
  block_ = blocks.front();
  element_block_ = blocks.back();
}

/// Loads the pointers to the buffers, of one item if there are several.
void SpirvEmitter::load_addresses(Id item) {
  size_t mixed = 0;
  for (size_t n = 0; n < k_.item_buffers(); ++n) {
    if (!buffers_[n].used) continue;
    buffers_[n].base = block_member(block_, path_of(2, 2, n, item), pointer_types_[n], 8);
    m_.name(buffers_[n].base, k_.buffers[n].name);
    if (!is_mixed(n)) continue;
    buffers_[n].elements =
        block_member(element_block_, path_of(0, 0, mixed, item), element_types_[mixed], 8);
    ++mixed;
  }
}

/// Loads where the buffers begin in their bindings.
void SpirvEmitter::load_offsets() {
  const Id u32 = m_.int_type(32, false);
  window_ = m_.value(spv::OpNot, u32, {block_member(block_, {m_.constant_u32(2)}, u32, 4)});
  const auto shifted = [&](Id bytes, uint32_t size) {
    return m_.value(spv::OpShiftRightLogical, u32,
                    {bytes, m_.constant_u32(static_cast<uint32_t>(std::countr_zero(size)))});
  };
  for (size_t n = 0; n < k_.buffers.size(); ++n) {
    Memory& m = buffers_[n];
    if (!m.used) continue;
    const Id number = m_.constant_u32(static_cast<uint32_t>(3 + n));
    const Id address = block_member(block_, {number}, u32, 4);
    const Id bytes = m_.value(spv::OpBitwiseAnd, u32, {address, window_});
    m_.name(bytes, k_.buffers[n].name + "_begin");
    const auto element = static_cast<uint32_t>(kernel::byte_size(k_.buffers[n].storage));
    m.vectors_before = shifted(bytes, element * m.width);
    if (is_mixed(n)) m.elements_before = shifted(bytes, element);
  }
}

/// A pointer to the struct of the error word, which the binding begins with.
Id SpirvEmitter::error_place() {
  if (options_.descriptors) return error_;
  return block_member(block_, {m_.constant_u32(0)}, error_pointer_type_, 8);
}

Id SpirvEmitter::launch_id() {
  return block_member(block_, {m_.constant_u32(1)}, m_.int_type(32, false), 4);
}

}  // namespace reprise::emit
