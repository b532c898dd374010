#include "codegen/emit/spirv/module.h"

#include "codegen/emit/spirv/cooperative_matrix.h"

namespace reprise::emit {
namespace {

/// An instruction with some operands before those of the span.
void append(Words& out, spv::Op op, std::initializer_list<uint32_t> first,
            std::span<const uint32_t> operands) {
  const size_t words = first.size() + operands.size() + 1;
  out.push_back(static_cast<uint32_t>(words) << spv::WordCountShift | op);
  for (const uint32_t w : first) out.push_back(w);
  for (const uint32_t w : operands) out.push_back(w);
}

void append(Words& out, spv::Op op, std::span<const uint32_t> operands) {
  append(out, op, {}, operands);
}

void append_text(Words& out, std::string_view text) {
  const size_t at = out.size();
  out.resize(at + text.size() / 4 + 1, 0);
  for (size_t i = 0; i < text.size(); ++i) {
    out[at + i / 4] |= static_cast<uint32_t>(static_cast<unsigned char>(text[i])) << (8 * (i % 4));
  }
}

}  // namespace

void SpirvModule::extension(std::string_view name, uint32_t core) {
  if (version_ < core) extensions_.emplace(name);
}

void SpirvModule::use_vulkan_memory_model() {
  memory_model_ = spv::MemoryModelVulkan;
  capability(spv::CapabilityVulkanMemoryModel);
  extension("SPV_KHR_vulkan_memory_model", 0x00010500);
}

void SpirvModule::use_physical_addresses() {
  addressing_ = spv::AddressingModelPhysicalStorageBuffer64;
  capability(spv::CapabilityPhysicalStorageBufferAddresses);
  extension("SPV_KHR_physical_storage_buffer", 0x00010500);
}

void SpirvModule::float_mode(spv::ExecutionMode mode, spv::Capability needs, uint32_t width) {
  float_modes_.emplace(mode, width);
  capability(needs);
  extension("SPV_KHR_float_controls", 0x00010400);
}

void SpirvModule::preserve_special_values(uint32_t width) {
  float_mode(spv::ExecutionModeSignedZeroInfNanPreserve, spv::CapabilitySignedZeroInfNanPreserve,
             width);
}

void SpirvModule::round_exactly(uint32_t width) {
  float_mode(spv::ExecutionModeDenormPreserve, spv::CapabilityDenormPreserve, width);
  float_mode(spv::ExecutionModeRoundingModeRTE, spv::CapabilityRoundingModeRTE, width);
}

Id SpirvModule::glsl() {
  if (glsl_ == 0) glsl_ = new_id();
  return glsl_;
}

size_t SpirvModule::WordsHash::operator()(const Words& words) const {
  uint64_t h = words.size();
  for (const uint32_t w : words) h = (h ^ w) * 0x9e3779b97f4a7c15U ^ h >> 32U;
  return h;
}

Id SpirvModule::unique(spv::Op op, Id type, std::span<const uint32_t> operands) {
  key_.assign({static_cast<uint32_t>(op), type});
  for (const uint32_t w : operands) key_.push_back(w);
  if (const auto known = unique_.find(key_); known != unique_.end()) return known->second;
  const Id id = new_id();
  unique_.emplace(key_, id);
  if (type != 0) {
    append(globals_, op, {type, id}, operands);
  } else {
    append(globals_, op, {id}, operands);
  }
  return id;
}

Id SpirvModule::int_type(uint32_t width, bool is_signed) {
  return unique(spv::OpTypeInt, 0, {width, is_signed ? 1U : 0U});
}

Id SpirvModule::vector_type(Id component, uint32_t lanes) {
  return lanes == 1 ? component : unique(spv::OpTypeVector, 0, {component, lanes});
}

Id SpirvModule::pointer_type(spv::StorageClass storage, Id type) {
  return unique(spv::OpTypePointer, 0, {static_cast<uint32_t>(storage), type});
}

Id SpirvModule::forward_pointer(spv::StorageClass storage) {
  const uint32_t w[] = {new_id(), static_cast<uint32_t>(storage)};
  append(globals_, spv::OpTypeForwardPointer, w);
  return w[0];
}

void SpirvModule::define_pointer(Id id, spv::StorageClass storage, Id type) {
  const uint32_t w[] = {id, static_cast<uint32_t>(storage), type};
  append(globals_, spv::OpTypePointer, w);
  unique_[{spv::OpTypePointer, 0, w[1], w[2]}] = id;
}

Id SpirvModule::array_type(Id element, uint32_t count) {
  return unique(spv::OpTypeArray, 0, {element, constant_u32(count)});
}

Id SpirvModule::matrix_type(Id element, spv::Scope scope, uint32_t rows, uint32_t columns,
                            uint32_t use) {
  return unique(
      matrix::kOpType, 0,
      {element, constant_u32(scope), constant_u32(rows), constant_u32(columns), constant_u32(use)});
}

Id SpirvModule::runtime_array(Id element, uint32_t stride) {
  const Id id = unique(spv::OpTypeRuntimeArray, 0, {element});
  if (strided_.insert(id).second) decorate(id, spv::DecorationArrayStride, {stride});
  return id;
}

Id SpirvModule::struct_type(std::span<const Id> members) {
  const Id id = new_id();
  append(globals_, spv::OpTypeStruct, {id}, members);
  return id;
}

Id SpirvModule::constant(Id type, std::span<const uint32_t> bits) {
  return unique(spv::OpConstant, type, bits);
}

Id SpirvModule::constant_bool(bool v) {
  return unique(v ? spv::OpConstantTrue : spv::OpConstantFalse, bool_type(), {});
}

Id SpirvModule::constant_composite(Id type, std::span<const Id> members) {
  return unique(spv::OpConstantComposite, type, members);
}

Id SpirvModule::global(Id pointer_type, spv::StorageClass storage) {
  const Id id = new_id();
  const uint32_t w[] = {pointer_type, id, static_cast<uint32_t>(storage)};
  append(globals_, spv::OpVariable, w);
  (storage == spv::StorageClassInput ? inputs_ : other_globals_).push_back(id);
  return id;
}

void SpirvModule::name(Id id, std::string_view text) {
  Words w{id};
  append_text(w, text);
  append(names_, spv::OpName, w);
}

void SpirvModule::member_name(Id type, uint32_t member, std::string_view text) {
  Words w{type, member};
  append_text(w, text);
  append(names_, spv::OpMemberName, w);
}

void SpirvModule::decorate(Id id, spv::Decoration d, std::initializer_list<uint32_t> operands) {
  append(decorations_, spv::OpDecorate, {id, static_cast<uint32_t>(d)}, operands);
}

void SpirvModule::decorate_member(Id type, uint32_t member, spv::Decoration d,
                                  std::initializer_list<uint32_t> operands) {
  append(decorations_, spv::OpMemberDecorate, {type, member, static_cast<uint32_t>(d)}, operands);
}

void SpirvModule::code(spv::Op op, std::span<const uint32_t> operands) {
  append(code_, op, operands);
}

Id SpirvModule::value(spv::Op op, Id type, std::span<const uint32_t> operands) {
  const Id id = new_id();
  append(code_, op, {type, id}, operands);
  return id;
}

Words SpirvModule::assemble(Id entry, std::span<const uint32_t> local_size) const {
  constexpr uint32_t kGenerator = 0;
  Words out{spv::MagicNumber, version_, kGenerator, next_, 0};
  for (const spv::Capability c : capabilities_) {
    const uint32_t w[] = {static_cast<uint32_t>(c)};
    append(out, spv::OpCapability, w);
  }
  for (const std::string& e : extensions_) {
    Words w;
    append_text(w, e);
    append(out, spv::OpExtension, w);
  }
  if (glsl_ != 0) {
    Words w{glsl_};
    append_text(w, "GLSL.std.450");
    append(out, spv::OpExtInstImport, w);
  }
  const uint32_t memory[] = {static_cast<uint32_t>(addressing_),
                             static_cast<uint32_t>(memory_model_)};
  append(out, spv::OpMemoryModel, memory);
  Words point{spv::ExecutionModelGLCompute, entry};
  append_text(point, "main");
  point.insert(point.end(), inputs_.begin(), inputs_.end());
  // From SPIR-V 1.4 on, the interface lists all global variables.
  if (version_ >= 0x00010400) {
    point.insert(point.end(), other_globals_.begin(), other_globals_.end());
  }
  append(out, spv::OpEntryPoint, point);
  const uint32_t mode[] = {entry, spv::ExecutionModeLocalSize, local_size[0], local_size[1],
                           local_size[2]};
  append(out, spv::OpExecutionMode, mode);
  for (const auto& [float_mode, width] : float_modes_) {
    const uint32_t words[] = {entry, static_cast<uint32_t>(float_mode), width};
    append(out, spv::OpExecutionMode, words);
  }
  out.reserve(out.size() + names_.size() + decorations_.size() + globals_.size() + code_.size());
  for (const Words* section : {&names_, &decorations_, &globals_, &code_}) {
    out.insert(out.end(), section->begin(), section->end());
  }
  return out;
}

}  // namespace reprise::emit
