// The SPIR-V emitter, for one kernel. Split into spirv.cpp (control flow), parameters.cpp (block
// and buffers, by addresses or descriptors), values.cpp (arithmetic), memory.cpp (accesses to
// buffers, locals, shared arrays, error word) and matrix.cpp.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "codegen/emit/spirv/module.h"
#include "codegen/emit/spirv/spirv.h"

namespace reprise::emit {

/// In bytes: how buffers are aligned in their memory, at least.
inline constexpr uint32_t kBindingAlignment = 16;

class SpirvEmitter {
 public:
  SpirvEmitter(const kernel::Kernel& k, const SpirvOptions& options)
      : k_(k), options_(options), m_(options.version), ids_(k.insts.size(), 0) {}
  Result<Words> run();

 private:
  using Inst = kernel::Inst;
  using Ty = kernel::Ty;
  using Type = kernel::Type;

  /// How a buffer or shared array is declared: as an array of vectors as long as the longest
  /// access, so that no pointer is ever cast to another type (workarounds::kPointerCasts).
  struct Memory {
    uint32_t width = 1;                  // lanes of the declared element
    uint32_t least = 4;                  // lanes of the shortest access
    uint32_t most = kernel::kMostLanes;  // of an element; matrices begin at multiples of them
    Id base = 0;                         // pointer to the struct or array
    Id elements = 0;  // the same buffer as an array of scalars, if it has shorter accesses
    // With descriptors: where the buffer begins in its binding, as a u32 in elements of the array.
    Id vectors_before = 0, elements_before = 0;
    bool used = false;
    bool scalar = false;  // declared as scalars, because of masked stores
  };

  // spirv.cpp
  bool computes_half(const Inst& i) const;
  bool only_converts_halves() const;
  void survey();
  void declare_memory();
  Status block(int32_t index);
  void barrier();
  Status inst(int32_t index);
  Result<Id> value(const Inst& i);
  Status if_(const Inst& i);
  bool counts_in_floats(int32_t loop) const;
  bool is_long(int32_t loop) const;
  Status for_(int32_t index);
  void label(Id id);
  void branch(Id to) { m_.code(spv::OpBranch, {to}); }

  // parameters.cpp
  bool is_mixed(size_t buffer) const;
  Id buffer_struct(const kernel::BufferParam& b, uint32_t width);
  Id error_struct();
  struct Member;
  Id struct_of(const std::vector<Member>& members, const std::string& name, bool block);
  void by_item(std::vector<Member>& members, uint32_t begin, uint32_t stride,
               const std::string& name);
  Id block_pointer(const std::vector<Member>& members, const std::string& name);
  std::vector<Member> scalar_members();
  void declare_parameters();
  void declare_addresses();
  void declare_descriptors();
  Id descriptor(spv::StorageClass storage, Id type, uint32_t binding, const std::string& name);
  void load_parameters();
  void load_blocks();
  void load_addresses(Id item);
  void load_offsets();
  Words path_of(size_t group, size_t first, size_t member, Id item);
  Id scalar_parameter(size_t n, Id item);
  Id block_member(Id block, const Words& path, Id type, uint32_t bytes);
  Id error_place();
  Id launch_id();
  /// The storage class of buffers and of the error word.
  spv::StorageClass buffer_class() const {
    return options_.descriptors ? spv::StorageClassStorageBuffer
                                : spv::StorageClassPhysicalStorageBuffer;
  }

  // values.cpp
  Id type(Type t);
  Id make_type(Type t);
  Id type(Ty t, int lanes) { return type(Type{t, static_cast<uint8_t>(lanes)}); }
  Id constant(Type t, uint64_t bits);
  Id number(Type t, double v);
  Id arg(const Inst& i, size_t n) const { return ids_[static_cast<size_t>(i.args[n].id)]; }
  Type arg_type(const Inst& i, size_t n) const {
    return k_.insts[static_cast<size_t>(i.args[n].id)].type;
  }
  Result<Id> scalar(const Inst& i);
  Result<Id> convert(const Inst& i);
  Id convert_ints(Id v, Type from, Ty to);
  Id float_of_int64(Id v, Type to);
  Id is_nan(Id v, uint8_t lanes);
  Id builtin(const Inst& i);
  Result<Id> subgroup(const Inst& i);
  Result<Id> subgroup_reduce(kernel::SubgroupOp op, Id v, Type t);
  Id select(Id cond, Id a, Id b, Type t) { return m_.value(spv::OpSelect, type(t), {cond, a, b}); }

  // memory.cpp
  Id storage_type(Ty t, uint32_t lanes);
  Id widen(Id v, Ty storage, uint8_t lanes);
  Id narrow(Id v, Ty storage, uint8_t lanes);
  Id narrow_bf16(Id v, uint8_t lanes);
  std::vector<Id> element_path(const Inst& i, uint32_t width, uint32_t lanes, uint32_t lane);
  Id load(const Inst& i);
  void store(const Inst& i);
  void store_bits(const Inst& i);
  Id buffer_pointer(const Inst& i, uint32_t lanes, uint32_t lane);
  void after_start_of_binding(const Inst& i, Id before, Id& index);
  Words aligned(uint32_t alignment) const;
  bool uses_64_bits(const Inst& i, uint32_t lanes) const;
  Id type_of_64_bits(uint32_t lanes);
  Id pointer_to_64_bits(const Inst& i, uint32_t lanes);
  Id local_pointer(const Inst& i, size_t index_arg, Type t);
  Id shared_type(Ty t, uint32_t lanes);
  Id shared_pointer(const Inst& i, uint32_t lanes, uint32_t lane);
  Id shared_load(const Inst& i);
  void shared_store(const Inst& i);
  void set_error(const Inst& i);
  Id no_error();
  uint32_t atomic_scope() const;
  void shared_access(Words& operands) const;

  // matrix.cpp
  bool has_matrices() const { return !k_.matrices.empty(); }
  void declare_matrix_model();
  void declare_matrices();
  Id matrix_type(const kernel::MatrixVar& v);
  Id load_matrix(size_t n);
  void matrix(const Inst& i);

  const kernel::Kernel& k_;
  const SpirvOptions& options_;
  SpirvModule m_;
  /// By Ty and lanes; 0: not made yet.
  std::array<std::array<Id, kernel::kMostLanes + 1>, kernel::kTypes> types_{};
  std::vector<Id> ids_;  // by Val
  std::vector<Memory> buffers_, shared_;
  std::vector<bool> scalar_used_;
  std::vector<Id> push_types_;                     // pointers to the block, in its two forms
  std::vector<Id> pointer_types_, element_types_;  // of the buffers' pointers in these forms
  std::vector<Id> scalars_, locals_, matrices_;
  std::map<spv::BuiltIn, Id> builtins_;
  Id error_pointer_type_ = 0, push_ = 0, block_ = 0, element_block_ = 0;
  Id error_ = 0;  // with descriptors: the variable
  Id window_ = 0, current_label_ = 0;
  bool uses_error_ = false;
};

}  // namespace reprise::emit
