// The state of an interpreted launch, and the functions that execute instructions.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "codegen/interpreter/interpreter.h"
#include "codegen/interpreter/memory.h"
#include "codegen/interpreter/roles.h"
#include "codegen/kernel/ir/scalar_eval.h"

namespace reprise::kernel {

class Interpreter {
 public:
  /// Executes the launch with `copies` of the options, from number `first` on, in lockstep.
  Interpreter(const Kernel& k, const PartialLaunch& launch,
              std::span<const InterpretOptions> variants, size_t first, size_t copies);
  ~Interpreter() = default;
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;
  Interpreter(Interpreter&&) = delete;
  Interpreter& operator=(Interpreter&&) = delete;

  Result<PartialOutcome> run();

  /// Whether executions with several options can be in lockstep: their rows have no gaps.
  static bool can_combine(const Kernel& k, const PartialLaunch& launch, uint32_t subgroup_size);

 private:
  /// Who executes an instruction in a part of a launch.
  enum class Who : uint8_t {
    All,
    Checked,  // who counts, and for its checks all invocations with the first options
    Counted,  // invocations whose stores count
  };

  /// A decoded instruction, so that nothing is looked up when it is executed.
  struct alignas(64) Step {
    RowFunction function = nullptr;  // called with `rows`; if null, `execute` is called
    WordRows rows;
    uint32_t runs = 1;  // calls of `function`, one stride apart
    Who who = Who::All;
    // What follows is used only by `execute`.
    void (Interpreter::*execute)(const Step& s, const Active& active) = nullptr;
    const Inst* inst = nullptr;
    int32_t id = 0;
    int32_t loop = -1;  // the innermost For around it
    Row out;
    std::array<Row, 4> in;
    ScalarFn scalar = nullptr;
    size_t width = 0;  // positions of a row for which it is executed
  };
  using Execute = void (Interpreter::*)(const Step& s, const Active& active);

  /// Positions of a row that have the same options. Their number is a multiple of a chunk.
  struct Part {
    size_t begin = 0, count = 0;
    size_t variant = 0;
  };

  // --- Clusters (cluster.cpp)
  /// Executes the workgroups of this rank in clusters that another one leads.
  Interpreter(Interpreter& lead, uint32_t rank);
  bool any_failed() const;
  void run_cluster();
  /// The number of an invocation's subgroup, and that of a workgroup's first one, in the cluster.
  uint32_t subgroup_of(uint32_t n) const { return first_subgroup(rank_) + n / subgroup_size_; }
  uint32_t first_subgroup(uint32_t rank) const { return rank * (size_ / subgroup_size_); }
  AccessLog& log_of(size_t array) { return roles_->log(rank_, array); }
  /// The rank that an invocation names, if the cluster has it.
  std::optional<uint32_t> rank_of(const Step& s, uint32_t n);
  void note_visit(const Step& s, uint32_t n, uint32_t rank);
  void report_visits();

  // --- Preparation
  void prepare(size_t workgroups);
  void find_needed();
  std::vector<bool> used_by(const std::vector<bool>& users) const;
  bool is_needed(size_t id) const { return needed_.empty() || needed_[id]; }
  void allocate();
  void allocate_words();
  void decode();
  /// `uses` is the number of uses of each instruction.
  void decode_block(size_t index, const std::vector<uint32_t>& uses);
  void share_locals(size_t index, const std::vector<uint32_t>& uses);
  std::optional<Step> step_of(int32_t id);
  static Execute execute_of(Op op);
  static Execute execute_of_role(Op op);
  /// The function that executes rows of an instruction with these options, or null.
  RowFunction function_of(const Inst& i, bool fused, const InterpretOptions& options) const;
  /// Appends the step or, if options need functions of their own, one for each part of its rows.
  void add_steps(Step s, bool fused, std::vector<Step>& steps) const;
  /// Whether some invocations need not execute all instructions.
  bool is_partial() const;
  /// Assigns positions in rows to all invocations. Those whose stores count come first; in kernels
  /// that exchange lanes, their whole subgroups do.
  void order_invocations(size_t workgroups);
  /// Reorders the invocations of one execution. Returns the number of those that count.
  size_t put_counted_first(std::vector<uint32_t>& order) const;
  void place(std::span<const uint32_t> numbers, size_t variant, std::vector<Part>& parts);
  size_t words(Type t) const { return size_t{t.lanes} * stride_; }
  Type type(Val v) const { return k_.insts[static_cast<size_t>(v.id)].type; }
  Row row(Val v) const { return values_[static_cast<size_t>(v.id)]; }
  const InterpretOptions& options_at(uint32_t n) const { return variants_[variant_of_[n]]; }
  std::span<const InterpretOptions> own_variants() const {
    return variants_.subspan(first_variant_, copies_);
  }

  // --- Reports

  std::string where(int32_t id, uint32_t invocation) const;
  void violate(int32_t id, uint32_t invocation, const std::string& what) {
    if (violation_.ok()) violation_ = internal_error(where(id, invocation) + what);
    failed_ = true;
  }

  // --- Execution
  void workgroups();
  std::array<uint32_t, 3> group_at(size_t n) const;
  void block(int32_t index, const Active& active);
  Active subset(const std::vector<uint32_t>& list) const {
    const auto before = [&](size_t position) {
      const auto end = std::lower_bound(list.begin(), list.end(), static_cast<uint32_t>(position));
      return static_cast<size_t>(end - list.begin());
    };
    return {list, list.size() == all_.size(), before(counted_), before(checked_)};
  }
  static Active part_of(const Active& active, Who who) {
    if (who == Who::All) return active;
    return active.first(who == Who::Counted ? active.counted : active.checked);
  }
  Who executed_by(size_t id) const {
    if (everywhere_.empty() || everywhere_[id]) return Who::All;
    return !checked_everywhere_.empty() && checked_everywhere_[id] ? Who::Checked : Who::Counted;
  }
  const std::vector<Part>& parts_of(Who who) const {
    return who == Who::All ? parts_ : who == Who::Checked ? checked_parts_ : counted_parts_;
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
  void await_launches(const Step& s, const Active& active);
  /// Whether a kernel that begins early may access what launches share.
  bool may_access(const Step& s, uint32_t n) {
    if (!early_) return true;
    violate(s.id, n, "accesses memory before it awaits the launches before it");
    return false;
  }

  // --- Memory

  /// An access to `lanes` elements of an array of `count`, from an index that must be a multiple of
  /// `align`.
  struct Access {
    Val index;
    uint64_t lanes, count;
    uint32_t align;
    const std::string& array;
  };
  /// The largest index. If one is not in range or not aligned, reports the first such and returns
  /// nothing.
  std::optional<uint32_t> largest_index(const Step& s, const Access& access, const Active& active);
  bool indices_fit(const Step& s, const Access& access, const Active& active) {
    return largest_index(s, access, active).has_value();
  }
  void buffer_access(const Step& s, const Active& active);
  void local_access(const Step& s, const Active& active);
  void local_element(const Step& s, size_t index, const Active& active);
  void shared_access(const Step& s, const Active& active);
  /// Whether a shared array of BF16 has room for the digits of what is stored to it.
  bool are_bf16(const Step& s, uint32_t lanes, const Active& active);
  // Of invocations whose indices are in range. The first two note the accesses for the detection of
  // races, and report one that is not allowed.
  bool may_read_shared(const Step& s, std::span<const uint32_t> positions, uint32_t lanes);
  template <uint32_t lanes>
  bool may_read_shared(const Step& s, std::span<const uint32_t> positions);
  /// `many`: of the elements that invocation `n` loads.
  bool note_reads(const Step& s, uint32_t n, std::span<uint32_t> many);
  bool may_write_shared(const Step& s, std::span<const uint32_t> positions, uint32_t lanes);
  void move_shared(const Step& s, std::span<const uint32_t> positions, uint32_t lanes);
  template <uint32_t lanes, typename Word>
  void move_words(const Step& s, std::span<const uint32_t> positions, Word* cells, Word* values);
  /// Of an access to a buffer; the caller sets the elements and their values.
  MemoryRow memory_row(const Step& s, size_t buffer, const Active& active) const;
  std::string shared_name(const Step& s, uint32_t n, uint32_t lane) const;
  void barrier(const Step& s, const Active& active);
  /// A copy that an invocation began, and the group that it is in.
  struct Copy {
    size_t shared = 0, at = 0;
    std::vector<uint64_t> values;
    uint32_t group = 0;
    int32_t instruction = 0;
  };
  void async_copy(const Step& s, const Active& active);
  /// `element` and `value` are rows for the loads, one element at a time.
  void begin_copy(const Step& s, uint32_t n, std::span<uint32_t> element,
                  std::span<uint32_t> value);
  void expect_no_copies();
  void copy_commit(const Step& s, const Active& active);
  void copy_wait(const Step& s, const Active& active);
  void land(const Step& s, uint32_t n, const Copy& copy);
  /// The number that stands for the copies of an invocation in Touch.
  uint32_t copier(uint32_t n) const { return static_cast<uint32_t>(2 * all_.size()) + 1 + n; }

  // --- Roles (roles.cpp)
  /// The blocks of a role that is being executed, and where it is in each of them.
  struct RoleTurns {
    struct Frame {
      size_t block = 0, step = 0;
      const Step* loop = nullptr;  // whose body it is
      int64_t at = 0, end = 0, by = 1;
    };
    Interpreter* owner = nullptr;
    std::string name;
    std::vector<uint32_t> list;
    Active active;
    std::vector<Frame> frames;
    const Step* waits = nullptr;  // an Await, or a barrier of the cluster
    bool meets() const { return waits != nullptr && waits->inst->op == Op::Barrier; }
  };
  /// An operand of a TeamMulAdd: its argument, its rows (or columns), and whether it has rows.
  struct TeamSide {
    TeamOperand operand;
    size_t arg = 0;
    uint32_t elements = 0;
    bool rows = false;
  };
  void roles(const Step& s, const Active& active);
  /// Whether an instruction of the block waits for others.
  bool suspends(size_t block) const;
  bool waits_in_turns(const Inst& i) const;
  void take_turns(const std::vector<RoleTurns*>& all);
  bool may_continue(RoleTurns& r);
  static void meet(const std::vector<RoleTurns*>& all);
  void run_turn(RoleTurns& r, uint64_t steps);
  bool enter(const Step& s, RoleTurns& r);
  void count_block(size_t block, const Active& active);
  void exceed_limit();
  /// The counter of a signal that a subgroup names, whose first invocation is n.
  std::optional<uint32_t> counter_of(const Step& s, size_t signal, size_t arg, uint32_t n) {
    return counter_of(s, signal, arg, n, rank_);
  }
  std::optional<uint32_t> counter_of(const Step& s, size_t signal, size_t arg, uint32_t n,
                                     uint32_t rank);
  uint32_t signal_of(uint32_t counter) const;
  bool may_pass(const Step& s, const Active& active);
  void await(const Step& s, const Active& active);
  void arrive(const Step& s, const Active& active);
  void complete_phase(uint32_t counter);
  static void report_deadlock(const std::vector<RoleTurns*>& all);
  std::string where_it_waits(const RoleTurns& r);
  void expect_all_awaited();
  template <typename F>
  static void each_of_box(const TensorView& v, const F& f);
  void box_copy(const Step& s, const Active& active);
  bool may_access_box(const Step& s, uint32_t n);
  void begin_box(const Step& s, uint32_t n);
  bool begin_box_at(const Step& s, uint32_t n, uint32_t rank, const std::vector<uint64_t>& values);
  bool load_box(const Step& s, uint32_t n, std::vector<uint64_t>& values);
  void land_box(size_t which);
  /// The coordinates that the invocation has in this argument.
  std::array<int32_t, 4> box_coordinates(const Step& s, size_t arg, uint32_t n) const;
  /// The index in the view's buffer of an element of a box, unless it lies outside of the view.
  std::optional<int64_t> element_of_box(
      const TensorView& v, const std::array<int32_t, 4>& coordinates,
      const std::array<uint32_t, TensorView::kMostRank>& at) const;
  void box_store(const Step& s, const Active& active);
  void begin_store(const Step& s, uint32_t n);
  void box_drain(const Step& s, const Active& active);
  void finish_store(size_t which);
  template <typename F>
  void each_team(const Step& s, const Active& active, const F& f);
  void team_barrier(const Step& s, const Active& active);
  void matrix_commit(const Step& s, const Active& active);
  void matrix_await(const Step& s, const Active& active);
  void team_mul_add(const Step& s, const Active& active);
  std::vector<double> team_operand(const Step& s, uint32_t n, const TeamSide& side);
  std::vector<double> held_operand(const Step& s, uint32_t n);
  void log_operand(const Step& s, uint32_t n, const TeamSide& side, uint32_t i, uint64_t at);
  static void multiply(std::vector<double>& sum, std::span<const double> left,
                       std::span<const double> right, size_t depth,
                       const InterpretOptions& options);
  bool is_finished(const Step& s, size_t matrix, uint32_t n);
  void team_matrix(const Step& s, const Active& active);
  void store_team_sum(const Step& s, uint32_t n);
  void clocked_shared_access(const Step& s, std::span<const uint32_t> positions);

  // --- Matrices
  void matrix(const Step& s, const Active& active);
  /// How many invocations hold a matrix together, a workgroup or a subgroup.
  uint32_t holders_of(const MatrixVar& m) const {
    return m.scope == MmaScope::Workgroup ? k_.workgroup[0] : subgroup_size_;
  }

  /// `n` is the first invocation of the subgroup.
  void matrix_access(const Step& s, uint32_t n);
  // Elements of matrices (elements.cpp).
  void held_element(const Step& s, const Active& active);
  /// `n` is the first invocation of the subgroup or team.
  void convert_matrix(const Step& s, uint32_t n);

  // --- Subgroups
  void subgroup(const Step& s, const Active& active);
  bool constant_shuffle(const Step& s, const Active& active);
  void reduce(const Step& s, size_t l, std::span<const uint32_t> lanes);
  void shuffle(const Step& s, size_t l, std::span<const uint32_t> lanes);

  // --- Control flow
  void branch(const Step& s, const Active& active);
  void loop(const Step& s, const Active& active);
  void uniform_loop(const Step& s, const Active& active);

  const Kernel& k_;
  const PartialLaunch& launch_;
  std::span<const InterpretOptions> variants_;
  size_t first_variant_, copies_;
  Memory& memory_;
  uint32_t size_;  // invocations of a workgroup
  uint32_t subgroup_size_;
  uint32_t together_;   // the most workgroups in lockstep
  size_t stride_;       // words between lanes
  bool has_copies_;     // asynchronous ones
  bool partial_;        // is_partial()
  bool begins_early_;   // the kernel has an AwaitLaunches
  bool early_ = false;  // launches before this one may still run
  MatrixMemory matrices_;
  std::vector<uint32_t> all_;             // positions of the invocations in lockstep
  std::vector<uint32_t> numbers_;         // of the invocation at each position
  std::vector<uint8_t> variant_of_;       // likewise: the index of its options
  std::vector<uint32_t> group_of_;        // likewise: its workgroup, counted over all executions
  size_t counted_ = 0;                    // the first positions are those whose stores count
  size_t checked_ = 0;                    // so many follow from these and have the first options
  std::vector<Part> parts_;               // of all positions
  std::vector<Part> checked_parts_;       // of the first `checked_`
  std::vector<Part> counted_parts_;       // of those whose stores count
  std::vector<std::vector<Step>> steps_;  // of each block
  std::vector<size_t> last_use_, uses_here_;  // scratch of share_locals()
  std::vector<int32_t> loops_;                // by block: the innermost For around it, or -1
  std::vector<Row> values_;                   // of each instruction
  std::vector<bool> everywhere_;          // by instruction: all execute it; empty: all instructions
  std::vector<bool> checked_everywhere_;  // likewise, and those that Who::Checked executes
  std::vector<bool> needed_;              // by instruction: someone executes it; empty: all
  std::vector<bool> used_;            // by instruction, unless values are wanted: someone uses it
  std::vector<bool> used_in_checks_;  // by instruction: one of checked_everywhere_ uses it
  std::unique_ptr<uint32_t[]> u32_;
  std::unique_ptr<uint64_t[]> u64_;
  std::vector<uint64_t> zeros_;
  /// The elements of an array, with words as values of its type have.
  struct Cells {
    std::vector<uint32_t> u32;
    std::vector<uint64_t> u64;
    Row row;
    void allocate(Ty type, size_t count) {
      if (takes_two_words(type)) {
        u64.resize(count);
        row.u64 = u64.data();
      } else {
        u32.resize(count);
        row.u32 = u32.data();
      }
    }
  };
  /// A local array. The lanes of its elements follow one another.
  struct Local {
    Cells memory;
    Row cells;
    std::vector<uint8_t> unneeded;  // by element: a store to it is not executed
    std::vector<uint8_t> filled;    // by element: every invocation has written it
    std::vector<uint8_t> written;   // by element and invocation, for elements that are not filled
  };
  std::vector<Local> locals_;
  std::vector<Cells> shared_;  // by shared array: one workgroup after the other
  std::vector<std::vector<Touch>> shared_touches_;
  std::vector<std::vector<uint32_t>> read_by_many_;  // likewise: the last epoch in which it was
  std::vector<uint32_t> epochs_;                     // of each workgroup, from 1
  /// The copies of each invocation that have not landed, and the number of its groups.
  struct Copies {
    std::vector<Copy> unfinished;
    uint32_t groups = 0;
  };
  std::vector<Copies> copies_in_flight_;
  std::vector<std::unique_ptr<Interpreter>> others_;  // of the cluster, if this one leads it
  std::vector<Interpreter*> cluster_;                 // by rank, this one among them
  uint32_t rank_ = 0;
  std::optional<RoleState> role_state_;  // of the cluster, if this one leads it
  RoleState* roles_ = nullptr;           // if the kernel has roles
  std::vector<RoleTurns> turns_;         // of this workgroup's roles
  uint32_t boxes_of_launch_ = 0;
  uint32_t& stored_boxes_;
  std::vector<std::array<uint32_t, 3>> groups_;
  size_t item_ = 0;           // that SelectItem selected
  uint32_t group_index_ = 0;  // of the first workgroup in lockstep
  uint64_t instructions_of_launch_ = 0;
  uint64_t& instructions_;
  ErrorCode error_ = ErrorCode::None;
  Status violation_;
  bool failed_ = false;
};

}  // namespace reprise::kernel
