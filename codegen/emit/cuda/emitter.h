// The CUDA emitter, for one kernel. Split into cuda.cpp (structure), roles.cpp and expressions.cpp.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/emit/cuda/async_fences.h"
#include "codegen/emit/cuda/cuda.h"
#include "runtime/base/cuda_entry.h"

namespace reprise::emit {

inline constexpr uint32_t kWarp = 32;

class CudaEmitter {
 public:
  explicit CudaEmitter(const kernel::Kernel& k) : k_(k) {}
  Result<std::string> run();

 private:
  using Inst = kernel::Inst;
  using Ty = kernel::Ty;
  using Type = kernel::Type;

  // cuda.cpp
  Status check() const;
  void block_struct();
  void declarations();
  void buffer_pointers(const std::set<uint64_t>& buffers, const std::string& from);
  void shared_arrays(const std::set<uint64_t>& used);
  void select_item(const Inst& i);
  Status block(int32_t index);
  Status inst(int32_t index);
  Status inst_of_role(const Inst& i);
  Status value(int32_t index);
  bool splits_subgroups(const Inst& i) const;
  Status if_(int32_t index);
  Status for_(int32_t index);
  void load(int32_t index, const std::string& name, Ty storage);
  void store(const Inst& i);
  void store(const Inst& i, const std::string& name, Ty storage,
             std::string (*narrow)(const std::string& v, Ty storage));
  static std::string part_name(int32_t index, int lane);
  void long_vector(int32_t index);
  void store_long(const Inst& i, std::string (*narrow)(const std::string& v, Ty storage));
  Ty stored_type(const Inst& i) const;
  std::string address(const Inst& i) const;
  std::string matrix_name(size_t n) const;
  void async_copy(const kernel::Inst& i);
  void begin_signals();
  void hold_matrices();
  void hold(size_t matrix);
  std::string held_element(const Inst& i) const;
  Status roles(const Inst& i);
  void box_copy(const Inst& i);
  void find_fenced_signals();
  void arrive(const Inst& i);
  Status remote_load(int32_t index);
  std::string box(const Inst& i) const;
  std::string coordinates(const Inst& i, size_t n) const;
  void team_product(const Inst& i);
  std::string signal(size_t n, const Inst& i, size_t index_arg) const;
  std::string shared_name(size_t n) const;
  void matrix(const Inst& i);
  void line(std::string_view text);
  /// Declares the value of instruction `index`.
  void define(int32_t index, const std::string& expression);
  /// The same from one expression per lane.
  void define_lanes(int32_t index, const std::vector<std::string>& lanes);

  // expressions.cpp
  /// Operand n, or one lane of it, as it appears in an expression: a name or a literal.
  std::string arg(const Inst& i, size_t n) const;
  std::string arg_lane(const Inst& i, size_t n, int lane) const;
  Type arg_type(const Inst& i, size_t n) const {
    return k_.insts[static_cast<size_t>(i.args[n].id)].type;
  }
  std::string local(const Inst& i, size_t index_arg) const;
  /// One expression per lane.
  Result<std::vector<std::string>> scalar(const Inst& i) const;
  Result<std::vector<std::string>> convert(const Inst& i) const;
  std::string builtin(const Inst& i) const;
  std::string subgroup(const Inst& i, int lane) const;
  std::string local_index() const;

  const kernel::Kernel& k_;
  const std::set<int32_t> fences_ = async_fences(k_);
  const std::string entry_ = cuda_entry(k_.name);
  std::string out_;
  size_t depth_ = 1;
  std::string before_;                  // functions that precede the kernel's
  std::set<std::string> products_;      // names of those that multiply matrices of teams
  bool multiplying_ = false;            // the last statement of the block multiplied such
  std::set<uint64_t> fenced_;           // signals that order accesses between workgroups
  bool overlaps_ = false;               // some products may be unfinished after a wait
  std::set<size_t> held_;               // matrices of teams that the compiler keeps in place
  std::string active_ = "0xffffffffu";  // mask of the warp's lanes that execute the current block
};

/// The C type of a value or of an element in memory.
std::string cuda_type(kernel::Type t);
/// A literal that may be used as an operand.
std::string cuda_literal(kernel::Ty t, uint64_t bits);
/// Converts an expression of compute type `from` to compute type `to`.
std::string cuda_convert(const std::string& v, kernel::Ty from, kernel::Ty to);
/// Convert an element from its storage type to its compute type, and back.
std::string cuda_widen(const std::string& v, kernel::Ty storage);
std::string cuda_narrow(const std::string& v, kernel::Ty storage);
/// The same of a value that the storage type has.
std::string cuda_narrow_exact(const std::string& v, kernel::Ty storage);
/// A unique identifier for entry `index` of one of the kernel's tables: b buffers, s scalars,
/// l locals, m shared arrays, x matrices, t views, g signals. Names may hold any text.
std::string cuda_name(char table, uint64_t index, std::string_view name);
/// ".x" and so on.
std::string_view cuda_lane(int lane);
/// "{a, b}".
std::string cuda_braces(const std::vector<std::string>& lanes);

}  // namespace reprise::emit
