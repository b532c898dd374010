// A SPIR-V module under construction: its sections, and types and constants without duplicates.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <spirv/unified1/spirv.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::emit {

using Words = std::vector<uint32_t>;
using Id = uint32_t;

class SpirvModule {
 public:
  explicit SpirvModule(uint32_t version) : version_(version) {}

  Id new_id() { return next_++; }
  uint32_t version() const { return version_; }

  void capability(spv::Capability c) { capabilities_.insert(c); }
  void use_vulkan_memory_model();
  void use_physical_addresses();
  /// Forbids drivers from assuming that floats of this width are never NaN, infinite or -0.
  void preserve_special_values(uint32_t width);
  /// Floats of this width keep subnormal numbers, and are rounded to nearest even.
  void round_exactly(uint32_t width);
  bool vulkan_memory_model() const { return memory_model_ == spv::MemoryModelVulkan; }
  /// Declares an extension, unless the module's version is at least `core`, in which it became
  /// core.
  void extension(std::string_view name, uint32_t core);
  /// The id of the GLSL.std.450 import.
  Id glsl();

  // Types and constants. Equal ones share an id.
  Id void_type() { return unique(spv::OpTypeVoid, 0, {}); }
  Id bool_type() { return unique(spv::OpTypeBool, 0, {}); }
  Id int_type(uint32_t width, bool is_signed);
  Id float_type(uint32_t width) { return unique(spv::OpTypeFloat, 0, {width}); }
  Id float_type(uint32_t width, uint32_t encoding) {
    return unique(spv::OpTypeFloat, 0, {width, encoding});
  }
  Id vector_type(Id component, uint32_t lanes);
  Id pointer_type(spv::StorageClass storage, Id type);
  /// A pointer type that is declared ahead of its definition.
  Id forward_pointer(spv::StorageClass storage);
  void define_pointer(Id id, spv::StorageClass storage, Id type);
  Id array_type(Id element, uint32_t count);
  /// A cooperative matrix of a subgroup or a workgroup.
  Id matrix_type(Id element, spv::Scope scope, uint32_t rows, uint32_t columns, uint32_t use);
  Id function_type(Id result) { return unique(spv::OpTypeFunction, 0, {result}); }
  /// An array without a length, decorated with the stride. Equal ones share an id.
  Id runtime_array(Id element, uint32_t stride);
  /// A new struct with each call, as equal ones may be decorated differently.
  Id struct_type(std::span<const Id> members);
  Id constant(Id type, std::span<const uint32_t> bits);
  Id constant_u32(uint32_t v) { return constant(int_type(32, false), std::span(&v, 1)); }
  Id constant_bool(bool v);
  Id constant_composite(Id type, std::span<const Id> members);
  Id global(Id pointer_type, spv::StorageClass storage);

  void name(Id id, std::string_view text);
  void member_name(Id type, uint32_t member, std::string_view text);
  void decorate(Id id, spv::Decoration d, std::initializer_list<uint32_t> operands = {});
  void decorate_member(Id type, uint32_t member, spv::Decoration d,
                       std::initializer_list<uint32_t> operands = {});

  // Function bodies.
  void code(spv::Op op, std::span<const uint32_t> operands);
  void code(spv::Op op, std::initializer_list<uint32_t> operands) {
    code(op, std::span(operands.begin(), operands.size()));
  }
  /// An instruction with a result type and a result.
  Id value(spv::Op op, Id type, std::span<const uint32_t> operands);
  Id value(spv::Op op, Id type, std::initializer_list<uint32_t> operands) {
    return value(op, type, std::span(operands.begin(), operands.size()));
  }

  /// The words of the module, with one compute entry point "main".
  Words assemble(Id entry, std::span<const uint32_t> local_size) const;

 private:
  Id unique(spv::Op op, Id type, std::initializer_list<uint32_t> operands) {
    return unique(op, type, std::span(operands.begin(), operands.size()));
  }
  Id unique(spv::Op op, Id type, std::span<const uint32_t> operands);

  uint32_t version_;
  Id next_ = 1;
  Id glsl_ = 0;
  spv::MemoryModel memory_model_ = spv::MemoryModelGLSL450;
  spv::AddressingModel addressing_ = spv::AddressingModelLogical;
  std::set<spv::Capability> capabilities_;
  std::set<std::string> extensions_;
  void float_mode(spv::ExecutionMode mode, spv::Capability needs, uint32_t width);
  std::set<std::pair<spv::ExecutionMode, uint32_t>> float_modes_;  // with widths of floats
  struct WordsHash {
    size_t operator()(const Words& words) const;
  };
  std::unordered_map<Words, Id, WordsHash> unique_;  // by opcode, type and operands
  Words key_;                                        // of the last search, to reuse its memory
  std::set<Id> strided_;
  std::vector<Id> inputs_, other_globals_;
  Words names_, decorations_, globals_, code_;
};

}  // namespace reprise::emit
