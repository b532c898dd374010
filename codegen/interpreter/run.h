// The state of an interpreted launch, and the functions that execute instructions.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/interpreter/interpreter.h"
#include "codegen/interpreter/memory.h"
#include "codegen/kernel/ir/scalar_eval.h"

namespace reprise::kernel {

class Interpreter {
 public:
  Interpreter(const Kernel& k, const PartialLaunch& launch, const InterpretOptions& options);

  Result<PartialOutcome> run();

 private:
  /// A decoded instruction, so that nothing is looked up when it is executed.
  struct Step {
    RowFunction function = nullptr;  // called with `rows`; if null, `execute` is called
    void (Interpreter::*execute)(const Step& s, const Active& active) = nullptr;
    WordRows rows;
    const Inst* inst = nullptr;
    int32_t id = 0;
    Row out;
    std::array<Row, 4> in;
    ScalarFn scalar = nullptr;
    bool counted = false;  // whether only invocations whose stores count execute it
    size_t width = 0;      // positions of a row for which it is executed
    size_t runs = 1;       // calls of `function`, one stride apart
  };
  using Execute = void (Interpreter::*)(const Step& s, const Active& active);

  // --- Preparation
  void allocate();
  void allocate_words();
  void decode();
  /// `uses` is the number of uses of each instruction.
  void decode_block(size_t index, const std::vector<uint32_t>& uses);
  std::optional<Step> step_of(int32_t id);
  static Execute execute_of(Op op);
  void set_width(Step& s) const;
  /// Whether some invocations need not execute all instructions.
  bool is_partial() const;
  /// Assigns positions in rows to all invocations. Those whose stores count come first; in kernels
  /// that exchange lanes, their whole subgroups do.
  void order_invocations(size_t workgroups);
  size_t words(Type t) const { return size_t{t.lanes} * stride_; }
  Type type(Val v) const { return k_.insts[static_cast<size_t>(v.id)].type; }
  Row row(Val v) const { return values_[static_cast<size_t>(v.id)]; }

  // --- Reports

  std::string where(int32_t id, uint32_t invocation) const;
  void violate(int32_t id, uint32_t invocation, const std::string& what) {
    if (violation_.ok()) violation_ = internal_error(where(id, invocation) + what);
    failed_ = true;
  }

  // --- Execution
  void workgroups();
  void block(int32_t index, const Active& active);
  Active subset(const std::vector<uint32_t>& list) const {
    const auto end = std::lower_bound(list.begin(), list.end(), static_cast<uint32_t>(counted_));
    return {list, list.size() == all_.size(), static_cast<size_t>(end - list.begin())};
  }
  uint32_t builtin_value(Builtin b, size_t c, uint32_t n) const;
  void scalar(const Step& s, const Active& active);
  static bool in_range(uint64_t bits, uint64_t result, Ty from, Ty to);
  void convert(const Step& s, const Active& active);
  void bitcast(const Step& s, const Active& active);
  void compose(const Step& s, const Active& active);
  void set_error(const Step& s, const Active& active);
  void item_param(const Step& s, const Active& active);
  void select_item(const Step& s, const Active& active);

  // --- Memory

  /// An access to `lanes` elements of an array of `count`, from an index that must be a multiple of
  /// `align`.
  struct Access {
    Val index;
    uint64_t lanes, count;
    uint32_t align;
    const std::string& array;
  };
  /// Whether all indices are in range and aligned. Reports the first that is not.
  bool indices_fit(const Step& s, const Access& access, const Active& active);
  void buffer_access(const Step& s, const Active& active);
  void local_access(const Step& s, const Active& active);
  void local_element(const Step& s, size_t index, const Active& active);
  void shared_access(const Step& s, const Active& active);
  void barrier(const Step& s, const Active& active);

  // --- Matrices
  void matrix(const Step& s, const Active& active);

  /// `n` is the first invocation of the subgroup.
  void matrix_access(const Step& s, uint32_t n);

  // --- Subgroups
  void subgroup(const Step& s, const Active& active);
  void reduce(const Step& s, size_t l, std::span<const uint32_t> lanes);
  void shuffle(const Step& s, size_t l, std::span<const uint32_t> lanes);

  // --- Control flow
  void branch(const Step& s, const Active& active);
  void loop(const Step& s, const Active& active);
  void uniform_loop(const Step& s, const Active& active);

  const Kernel& k_;
  const PartialLaunch& launch_;
  const InterpretOptions& options_;
  Memory& memory_;
  uint32_t size_;  // invocations of a workgroup
  uint32_t subgroup_size_;
  uint32_t together_;  // the most workgroups in lockstep
  size_t stride_;      // words between lanes
  bool partial_;       // is_partial()
  MatrixMemory matrices_;
  std::vector<uint32_t> all_;             // positions of the invocations in lockstep
  std::vector<uint32_t> numbers_;         // of the invocation at each position
  size_t counted_ = 0;                    // the first positions are those whose stores count
  std::vector<std::vector<Step>> steps_;  // of each block
  std::vector<Row> values_;               // of each instruction
  std::vector<bool> everywhere_;          // by instruction: all execute it; empty: all instructions
  std::vector<bool> needed_;              // by instruction, if partial_: someone executes it
  std::vector<uint32_t> u32_;
  std::vector<uint64_t> u64_;
  /// A local array. The lanes of its elements follow one another.
  struct Local {
    std::vector<uint32_t> u32;
    std::vector<uint64_t> u64;
    Row cells;
    std::vector<uint8_t> filled;   // by element: every invocation has written it
    std::vector<uint8_t> written;  // by element and invocation, for elements that are not filled
  };
  std::vector<Local> locals_;
  std::vector<std::vector<uint64_t>> shared_;  // by shared array: one workgroup after the other
  std::vector<std::vector<Touch>> shared_touches_;
  std::vector<uint32_t> epochs_;  // of each workgroup
  std::vector<std::array<uint32_t, 3>> groups_;
  size_t item_ = 0;           // that SelectItem selected
  uint32_t group_index_ = 0;  // of the first workgroup in lockstep
  uint64_t instructions_ = 0;
  ErrorCode error_ = ErrorCode::None;
  Status violation_;
  bool failed_ = false;
};

}  // namespace reprise::kernel
