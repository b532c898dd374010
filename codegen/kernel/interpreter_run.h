// The state of an interpreted launch and what each instruction does to it.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/kernel/interpreter.h"
#include "codegen/kernel/interpreter_memory.h"
#include "codegen/kernel/scalar_eval.h"

namespace reprise::kernel {

class Interpreter {
 public:
  Interpreter(const Kernel& k, const PartialLaunch& launch, const InterpretOptions& options)
      : k_(k),
        launch_(launch),
        options_(options),
        memory_(*launch.memory),
        size_(k.workgroup[0] * k.workgroup[1] * k.workgroup[2]),
        subgroup_size_(k.required_subgroup_size != 0 ? k.required_subgroup_size
                                                     : options.subgroup_size),
        matrices_(k, size_ / subgroup_size_),
        row_functions_(k.insts.size()) {}

  Result<PartialOutcome> run();

 private:
  using Active = std::vector<uint32_t>;  // local indices of the invocations that execute, ascending

  // --- Values: per instruction, lane-major, one word per invocation.
  void allocate();
  void workgroup();

  Type type(Val v) const { return k_.insts[static_cast<size_t>(v.id)].type; }
  uint64_t* lane(int32_t id, size_t l) {
    return words_.data() + base_[static_cast<size_t>(id)] + l * size_;
  }
  const uint64_t* lane(Val v, size_t l = 0) { return lane(v.id, l); }

  // --- Reports

  std::string where(int32_t id, uint32_t invocation) const;
  void violate(int32_t id, uint32_t invocation, const std::string& what) {
    if (violation_.ok()) violation_ = internal_error(where(id, invocation) + what);
  }
  uint32_t invocation_id(uint32_t invocation) const {
    return group_index_ * size_ + invocation + 1;
  }

  // --- Execution
  void block(int32_t index, const Active& active);
  void execute(int32_t id, const Active& active);
  void fill(int32_t id, const Inst& i, const Active& active, uint64_t bits);
  void copy(int32_t id, size_t to, Val from, size_t from_lane, const Active& active) {
    uint64_t* out = lane(id, to);
    const uint64_t* in = lane(from, from_lane);
    for (uint32_t n : active) out[n] = in[n];
  }

  uint32_t builtin_value(Builtin b, size_t c, uint32_t n) const;
  void builtin(int32_t id, const Inst& i, const Active& active);

  bool is_inexact() const { return options_.native_error != NativeError::None; }
  void scalar(int32_t id, const Inst& i, const Active& active);

  static bool in_range(uint64_t bits, uint64_t result, Ty from, Ty to);
  void convert(int32_t id, const Inst& i, const Active& active);
  void bitcast(int32_t id, const Inst& i, const Active& active);

  // --- Memory

  /// Of `lanes` elements of an array of `count`, from an index that is a multiple of `align` on.
  struct Access {
    Val index;
    uint64_t lanes, count;
    uint32_t align;
    const std::string& array;
  };
  /// The index of invocation n, or nothing after reporting one that is out of range or misaligned.
  std::optional<uint64_t> index_of(int32_t id, uint32_t n, const Access& access);
  void buffer_access(int32_t id, const Inst& i, const Active& active);
  void local_access(int32_t id, const Inst& i, const Active& active);
  void shared_access(int32_t id, const Inst& i, const Active& active);
  void barrier(int32_t id, const Active& active);

  // --- Matrices
  void matrix(int32_t id, const Inst& i, const Active& active);

  /// `n`: the subgroup's first invocation.
  void matrix_access(int32_t id, const Inst& i, uint32_t n);

  // --- Subgroups
  void subgroup(int32_t id, const Inst& i, const Active& active);
  void reduce(int32_t id, const Inst& i, size_t l, std::span<const uint32_t> lanes);
  void shuffle(int32_t id, const Inst& i, size_t l, std::span<const uint32_t> lanes);

  // --- Control flow
  void branch(const Inst& i, const Active& active);
  void loop(int32_t id, const Inst& i, const Active& active);

  const Kernel& k_;
  const PartialLaunch& launch_;
  const InterpretOptions& options_;
  Memory& memory_;
  Active all_;
  uint32_t size_;
  uint32_t subgroup_size_;
  MatrixMemory matrices_;
  std::vector<ScalarFn> row_functions_;
  std::vector<size_t> base_;
  std::vector<uint64_t> words_;
  std::vector<std::vector<uint64_t>> locals_, shared_;
  std::vector<std::vector<uint8_t>> local_written_;
  std::vector<std::vector<Touch>> shared_touches_;
  uint32_t epoch_ = 0;
  std::array<uint32_t, 3> group_{};
  uint32_t group_index_ = 0;
  uint64_t instructions_ = 0;
  ErrorCode error_ = ErrorCode::None;
  Status violation_;
};

}  // namespace reprise::kernel
