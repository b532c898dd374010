#include "codegen/kernel/interpreter.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "codegen/kernel/interpreter_memory.h"
#include "codegen/kernel/interpreter_rows.h"
#include "codegen/kernel/native_error.h"
#include "codegen/kernel/scalar_eval.h"

namespace reprise::kernel {
namespace {

using Active = std::vector<uint32_t>;  // local indices of the invocations that execute, ascending

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

  Result<PartialOutcome> run() {
    allocate();
    all_.resize(size_);
    for (uint32_t i = 0; i < size_; ++i) all_[i] = i;
    const auto& grid = launch_.grid;
    const bool whole = launch_.workgroups.empty();
    const size_t n = whole ? size_t{grid[0]} * grid[1] * grid[2] : launch_.workgroups.size();
    size_t done = 0;
    for (; done < n && instructions_ < launch_.enough; ++done) {
      const auto i = static_cast<uint32_t>(done);
      group_ = whole ? std::array{i % grid[0], i / grid[0] % grid[1], i / grid[0] / grid[1]}
                     : launch_.workgroups[done];
      workgroup();
      if (!violation_.ok()) return violation_;
    }
    return PartialOutcome{error_, done, instructions_};
  }

 private:
  // --- Values: per instruction, lane-major, one word per invocation.

  void allocate() {
    size_t words = 0;
    for (const Inst& i : k_.insts) {
      base_.push_back(words);
      if (i.type.ty != Ty::Void) words += size_t{i.type.lanes} * size_;
    }
    words_.resize(words);
    for (size_t id = 0; id < k_.insts.size(); ++id) {
      const Inst& i = k_.insts[id];
      if (i.op != Op::Scalar) continue;
      row_functions_[id] = scalar_function(static_cast<ScalarOp>(i.imm), type(i.args.back()).ty);
    }
    for (const LocalVar& l : k_.locals) {
      locals_.emplace_back(size_t{l.count} * l.type.lanes * size_);
      local_written_.emplace_back(size_t{l.count} * size_);
    }
    for (const SharedArray& s : k_.shared) {
      shared_.emplace_back(s.count);
      shared_touches_.emplace_back(s.count);
    }
  }

  void workgroup() {
    for (auto& w : local_written_) std::fill(w.begin(), w.end(), uint8_t{0});
    for (auto& t : shared_touches_) std::fill(t.begin(), t.end(), Touch{});
    matrices_.clear();
    epoch_ = 0;
    block(0, all_);
    ++group_index_;
  }

  Type type(Val v) const { return k_.insts[static_cast<size_t>(v.id)].type; }
  uint64_t* lane(int32_t id, size_t l) {
    return words_.data() + base_[static_cast<size_t>(id)] + l * size_;
  }
  const uint64_t* lane(Val v, size_t l = 0) { return lane(v.id, l); }

  // --- Reports

  std::string where(int32_t id, uint32_t invocation) const {
    const uint32_t x = invocation % k_.workgroup[0];
    const uint32_t y = invocation / k_.workgroup[0] % k_.workgroup[1];
    const uint32_t z = invocation / k_.workgroup[0] / k_.workgroup[1];
    const auto id_of = [&](size_t c, uint32_t local) {
      return std::to_string(group_[c] * k_.workgroup[c] + local);
    };
    return "kernel '" + k_.name + "': %" + std::to_string(id) + ": invocation (" + id_of(0, x) +
           ", " + id_of(1, y) + ", " + id_of(2, z) + ") ";
  }
  void violate(int32_t id, uint32_t invocation, const std::string& what) {
    if (violation_.ok()) violation_ = internal_error(where(id, invocation) + what);
  }
  uint32_t who(uint32_t invocation) const { return group_index_ * size_ + invocation + 1; }

  // --- Execution

  void block(int32_t index, const Active& active) {
    if (active.empty()) return;
    for (int32_t id : k_.blocks[static_cast<size_t>(index)].insts) {
      if (!violation_.ok()) return;
      instructions_ += active.size();
      execute(id, active);
    }
    if (instructions_ < launch_.limit || !violation_.ok()) return;
    violation_ = unsupported("kernel '" + k_.name + "' executes more than " +
                             std::to_string(launch_.limit) + " instructions");
  }

  void execute(int32_t id, const Active& active) {
    const Inst& i = k_.insts[static_cast<size_t>(id)];
    switch (i.op) {
      case Op::Const:
        return fill(id, i, active, i.imm);
      case Op::Param:
        return fill(id, i, active, launch_.scalars[i.imm]);
      case Op::Builtin:
        return builtin(id, i, active);
      case Op::Scalar:
        return scalar(id, i, active);
      case Op::Convert:
        return convert(id, i, active);
      case Op::Bitcast:
        return bitcast(id, i, active);
      case Op::Compose:
        for (size_t l = 0; l < i.args.size(); ++l) copy(id, l, i.args[l], 0, active);
        return;
      case Op::Extract:
        return copy(id, 0, i.args[0], i.imm, active);
      case Op::Load:
      case Op::Store:
        return buffer_access(id, i, active);
      case Op::LocalLoad:
      case Op::LocalStore:
        return local_access(id, i, active);
      case Op::SharedLoad:
      case Op::SharedStore:
        return shared_access(id, i, active);
      case Op::Barrier:
        return barrier(id, active);
      case Op::MatrixZero:
      case Op::MatrixLoad:
      case Op::MatrixStore:
      case Op::MatrixMulAdd:
        return matrix(id, i, active);
      case Op::Subgroup:
        return subgroup(id, i, active);
      case Op::SetError:
        for (uint32_t n : active) {
          if (lane(i.args[0])[n] != 0) error_ = std::max(error_, static_cast<ErrorCode>(i.imm));
        }
        return;
      case Op::If:
        return branch(i, active);
      case Op::For:
        return loop(id, i, active);
    }
  }

  void fill(int32_t id, const Inst& i, const Active& active, uint64_t bits) {
    for (size_t l = 0; l < i.type.lanes; ++l) {
      uint64_t* out = lane(id, l);
      for (uint32_t n : active) out[n] = bits;
    }
  }

  void copy(int32_t id, size_t to, Val from, size_t from_lane, const Active& active) {
    uint64_t* out = lane(id, to);
    const uint64_t* in = lane(from, from_lane);
    for (uint32_t n : active) out[n] = in[n];
  }

  uint32_t builtin_value(Builtin b, size_t c, uint32_t n) const {
    const std::array<uint32_t, 3> local = {n % k_.workgroup[0],
                                           n / k_.workgroup[0] % k_.workgroup[1],
                                           n / k_.workgroup[0] / k_.workgroup[1]};
    switch (b) {
      case Builtin::GlobalId:
        return group_[c] * k_.workgroup[c] + local[c];
      case Builtin::LocalId:
        return local[c];
      case Builtin::LocalIndex:
        return n;
      case Builtin::WorkgroupId:
        return group_[c];
      case Builtin::NumWorkgroups:
        return launch_.grid[c];
      case Builtin::SubgroupLane:
        return n % subgroup_size_;
      case Builtin::SubgroupSize:
        return subgroup_size_;
      case Builtin::SubgroupIndex:
        return n / subgroup_size_;
    }
    return 0;
  }

  void builtin(int32_t id, const Inst& i, const Active& active) {
    uint64_t* out = lane(id, 0);
    for (uint32_t n : active) {
      out[n] = builtin_value(static_cast<Builtin>(i.imm & 0xffU), i.imm >> 8U, n);
    }
  }

  bool is_inexact() const { return options_.native_error != NativeError::None; }

  void scalar(int32_t id, const Inst& i, const Active& active) {
    const auto op = static_cast<ScalarOp>(i.imm);
    const Ty operand = type(i.args.back()).ty;
    const bool inexact =
        op != ScalarOp::Where && ((is_inexact() && (operand == Ty::F32 || operand == Ty::F16)) ||
                                  (options_.flush_subnormals && operand == Ty::F32));
    const bool contracted = k_.contraction == Contraction::AllowFma;
    const bool division = op == ScalarOp::IDiv || op == ScalarOp::IRem;
    const ScalarFn function = row_functions_[static_cast<size_t>(id)];
    const size_t arity = i.args.size();
    for (size_t l = 0; l < i.type.lanes; ++l) {
      RowLane row{{}, lane(id, l), active};
      for (size_t a = 0; a < arity; ++a) row.in[a] = lane(i.args[a], l);
      if (execute_fast(op, operand, contracted, options_, row)) continue;
      uint64_t* out = row.out;
      for (uint32_t n : active) {
        uint64_t operands[3] = {};
        for (size_t a = 0; a < arity; ++a) operands[a] = row.in[a][n];
        if (division && operands[1] == 0) return violate(id, n, "divides by zero");
        out[n] = inexact
                     ? inexact_result(op, operand, std::span(operands, arity), contracted, options_)
                     : function(operands);
      }
    }
  }

  static bool in_range(uint64_t bits, uint64_t result, Ty from, Ty to) {
    const double v = number_of(bits, from);
    if (std::isnan(v)) return class_of(to) == kFloat;
    const double back = number_of(result, to);
    return back == (class_of(to) == kFloat ? v : std::trunc(v));
  }

  void convert(int32_t id, const Inst& i, const Active& active) {
    const Ty from = type(i.args[0]).ty;
    const bool rounds = is_inexact() && i.type.ty == Ty::F16 && from == Ty::F32 && i.imm == 0;
    for (size_t l = 0; l < i.type.lanes; ++l) {
      const uint64_t* in = lane(i.args[0], l);
      uint64_t* out = lane(id, l);
      for (uint32_t n : active) {
        out[n] = rounds ? inexact_f16(in[n], from, options_) : convert_bits(in[n], from, i.type.ty);
        const bool checked = i.imm != 0 && class_of(from) == kFloat && from != i.type.ty;
        if (checked && !in_range(in[n], out[n], from, i.type.ty)) {
          return violate(id, n, "converts a value that is not in the range it claims");
        }
      }
    }
  }

  void bitcast(int32_t id, const Inst& i, const Active& active) {
    const Type from = type(i.args[0]);
    const auto in_size = static_cast<size_t>(byte_size(from.ty));
    const auto out_size = static_cast<size_t>(byte_size(i.type.ty));
    for (uint32_t n : active) {
      uint8_t bytes[32] = {};
      for (size_t l = 0; l < from.lanes; ++l) {
        for (size_t b = 0; b < in_size; ++b) {
          bytes[l * in_size + b] = static_cast<uint8_t>(lane(i.args[0], l)[n] >> (8 * b));
        }
      }
      for (size_t l = 0; l < i.type.lanes; ++l) {
        uint64_t bits = 0;
        for (size_t b = 0; b < out_size; ++b) {
          bits |= static_cast<uint64_t>(bytes[l * out_size + b]) << (8 * b);
        }
        lane(id, l)[n] = bits;
      }
    }
  }

  // --- Memory

  /// The index of an access, or nothing after reporting one that is out of range or misaligned.
  bool index_of(int32_t id, Val index, uint32_t n, uint64_t lanes, uint64_t count, uint32_t align,
                const std::string& name, uint64_t& out) {
    const int64_t v = integer_of(lane(index)[n], type(index).ty);
    if (v < 0 || static_cast<uint64_t>(v) + lanes > count) {
      violate(id, n,
              "accesses " + name + "[" + std::to_string(v) + "], " + std::to_string(lanes) +
                  " elements, of " + std::to_string(count));
      return false;
    }
    out = static_cast<uint64_t>(v);
    if (out % align == 0) return true;
    violate(id, n,
            "accesses " + name + "[" + std::to_string(v) + "], claimed a multiple of " +
                std::to_string(align));
    return false;
  }

  void buffer_access(int32_t id, const Inst& i, const Active& active) {
    const bool load = i.op == Op::Load;
    const std::string& name = k_.buffers[i.imm].name;
    const size_t lanes = load ? i.type.lanes : type(i.args[1]).lanes;
    for (uint32_t n : active) {
      uint64_t index = 0;
      if (!index_of(id, i.args[0], n, lanes, memory_.elements(i.imm), i.align, name, index)) return;
      for (size_t l = 0; l < lanes; ++l) {
        const bool alone =
            load ? memory_.load(i.imm, index + l, who(n), lane(id, l)[n])
            : i.args.size() == 3
                ? memory_.store_bits(i.imm, index, who(n), lane(i.args[1])[n], lane(i.args[2])[n])
                : memory_.store(i.imm, index + l, who(n), lane(i.args[1], l)[n]);
        if (alone) continue;
        return violate(
            id, n,
            "races with another invocation on " + name + "[" + std::to_string(index + l) + "]");
      }
    }
  }

  void local_access(int32_t id, const Inst& i, const Active& active) {
    const bool load = i.op == Op::LocalLoad;
    const LocalVar& local = k_.locals[i.imm];
    const size_t index_arg = load ? 0 : 1;
    const bool indexed = i.args.size() > index_arg;
    uint8_t* written = local_written_[i.imm].data();
    uint64_t* cells = locals_[i.imm].data();
    for (size_t l = 0; l < local.type.lanes; ++l) {
      uint64_t* out = load ? lane(id, l) : nullptr;
      const uint64_t* in = load ? nullptr : lane(i.args[0], l);
      for (uint32_t n : active) {
        uint64_t index = 0;
        if (indexed && !index_of(id, i.args[index_arg], n, 1, local.count, 1, local.name, index)) {
          return;
        }
        uint8_t& known = written[index * size_ + n];
        uint64_t& cell = cells[(index * local.type.lanes + l) * size_ + n];
        if (load) {
          if (known == 0)
            return violate(id, n, "reads local '" + local.name + "' before it is written");
          out[n] = cell;
        } else {
          cell = in[n];
          known = 1;
        }
      }
    }
  }

  void shared_access(int32_t id, const Inst& i, const Active& active) {
    const bool load = i.op == Op::SharedLoad;
    const SharedArray& array = k_.shared[i.imm];
    const size_t lanes = load ? i.type.lanes : type(i.args[1]).lanes;
    for (uint32_t n : active) {
      uint64_t index = 0;
      if (!index_of(id, i.args[0], n, lanes, array.count, static_cast<uint32_t>(lanes), array.name,
                    index)) {
        return;
      }
      for (size_t l = 0; l < lanes; ++l) {
        Touch& touch = shared_touches_[i.imm][index + l];
        const auto element = [&] { return array.name + "[" + std::to_string(index + l) + "]"; };
        if (load && !touch.written)
          return violate(id, n, "reads " + element() + " before it is written");
        const bool alone = load ? touch.read(n + 1, epoch_) : touch.write(n + 1, epoch_);
        if (!alone) return violate(id, n, "races with another invocation on " + element());
        uint64_t& cell = shared_[i.imm][index + l];
        if (load) {
          lane(id, l)[n] = cell;
        } else {
          cell = lane(i.args[1], l)[n];
        }
      }
    }
  }

  void barrier(int32_t id, const Active& active) {
    if (active.size() != size_) {
      violate(id, active[0],
              "waits at a barrier that only " + std::to_string(active.size()) + " of " +
                  std::to_string(size_) + " invocations reach");
    }
    ++epoch_;
  }

  // --- Matrices

  void matrix(int32_t id, const Inst& i, const Active& active) {
    for (size_t first = 0; first < active.size() && violation_.ok(); first += subgroup_size_) {
      const uint32_t n = active[first];
      const size_t last = first + subgroup_size_ - 1;
      const bool whole =
          n % subgroup_size_ == 0 && last < active.size() && active[last] == n + subgroup_size_ - 1;
      if (!whole) return violate(id, n, "uses a matrix that only some of its subgroup use");
      if (i.op == Op::MatrixMulAdd) {
        if (!matrices_.multiply(MatrixProduct::of(i.imm), n / subgroup_size_, options_))
          violate(id, n, "multiplies a matrix before it is written");
      } else if (i.op == Op::MatrixZero) {
        const MatrixVar& m = k_.matrices[i.imm];
        matrices_.of(i.imm, n / subgroup_size_).assign(size_t{m.rows} * m.columns, 0.0);
      } else {
        matrix_access(id, i, n);
      }
    }
  }

  /// `n`: the subgroup's first invocation.
  void matrix_access(int32_t id, const Inst& i, uint32_t n) {
    const MatrixAccess a = MatrixAccess::of(i.imm);
    const MatrixVar& m = k_.matrices[a.matrix];
    const SharedArray& array = k_.shared[a.shared];
    std::vector<double>& values = matrices_.of(a.matrix, n / subgroup_size_);
    const bool load = i.op == Op::MatrixLoad;
    const uint64_t lines = a.by_columns ? m.columns : m.rows;
    const uint64_t span = (lines - 1) * a.stride + (a.by_columns ? m.rows : m.columns);
    uint64_t index = 0;
    for (uint32_t l = n; l < n + subgroup_size_; ++l) {
      if (lane(i.args[0])[l] != lane(i.args[0])[n])
        return violate(id, l, "has another index of a matrix than others of its subgroup");
    }
    if (!index_of(id, i.args[0], n, span, array.count, 1, array.name, index)) return;
    if (load) {
      values.resize(size_t{m.rows} * m.columns);
    } else if (values.empty()) {
      return violate(id, n, "stores matrix " + m.name + " before it is written");
    }
    // Any invocation of the subgroup may touch any element: as one of their own.
    const uint32_t who = size_ + 1 + n / subgroup_size_;
    for (uint32_t r = 0; r < m.rows; ++r) {
      for (uint32_t c = 0; c < m.columns; ++c) {
        const uint64_t at = index + (a.by_columns ? c * a.stride + r : r * a.stride + c);
        double& value = values[r * m.columns + c];
        Touch& touch = shared_touches_[a.shared][at];
        const auto element = [&] { return array.name + "[" + std::to_string(at) + "]"; };
        if (load && !touch.written)
          return violate(id, n, "reads " + element() + " before it is written");
        if (!(load ? touch.read(who, epoch_) : touch.write(who, epoch_)))
          return violate(id, n, "races with another invocation on " + element());
        uint64_t& cell = shared_[a.shared][at];
        if (load) {
          value = number_of(cell, array.type);
        } else {
          cell = bits_of(value, array.type);
        }
      }
    }
  }

  // --- Subgroups

  void subgroup(int32_t id, const Inst& i, const Active& active) {
    for (size_t first = 0; first < active.size();) {
      const uint32_t group = active[first] / subgroup_size_;
      size_t last = first;
      while (last < active.size() && active[last] / subgroup_size_ == group) ++last;
      const std::span<const uint32_t> lanes(active.data() + first, last - first);
      for (size_t l = 0; l < i.type.lanes; ++l) {
        if (i.args.size() == 1) {
          reduce(id, i, l, lanes);
        } else {
          shuffle(id, i, l, lanes);
        }
      }
      first = last;
    }
  }

  void reduce(int32_t id, const Inst& i, size_t l, std::span<const uint32_t> lanes) {
    const auto op = static_cast<SubgroupOp>(i.imm);
    const ScalarFn combine = scalar_function(op == SubgroupOp::Add   ? ScalarOp::Add
                                             : op == SubgroupOp::Max ? ScalarOp::MaxNum
                                                                     : ScalarOp::MinNum,
                                             i.type.ty);
    const uint64_t* in = lane(i.args[0], l);
    uint64_t total = in[lanes[0]];
    double magnitude = 0;
    for (size_t n = 1; n < lanes.size(); ++n) {
      const uint64_t operands[2] = {total, in[lanes[n]]};
      total = combine(operands);
      magnitude += std::fabs(number_of(in[lanes[n]], i.type.ty));
    }
    if (op == SubgroupOp::Add && is_inexact() && class_of(i.type.ty) == kFloat) {
      const double error = reordering_error(magnitude, i.type.ty, total, options_);
      total = bits_of(number_of(total, i.type.ty) + error, i.type.ty);
    }
    for (uint32_t n : lanes) lane(id, l)[n] = total;
  }

  void shuffle(int32_t id, const Inst& i, size_t l, std::span<const uint32_t> lanes) {
    const uint64_t* in = lane(i.args[0], l);
    const uint64_t* by = lane(i.args[1]);
    const uint32_t first = lanes[0] / subgroup_size_ * subgroup_size_;
    for (uint32_t n : lanes) {
      const bool exclusive = static_cast<SubgroupOp>(i.imm) == SubgroupOp::ShuffleXor;
      const uint64_t from = exclusive ? (n - first) ^ by[n] : by[n];
      const bool active =
          from < subgroup_size_ &&
          std::binary_search(lanes.begin(), lanes.end(), first + static_cast<uint32_t>(from));
      if (!active) {
        return violate(id, n,
                       "reads subgroup lane " + std::to_string(from) +
                           ", which is inactive or does not exist");
      }
      lane(id, l)[n] = in[first + from];
    }
  }

  // --- Control flow

  void branch(const Inst& i, const Active& active) {
    Active yes;
    Active no;
    for (uint32_t n : active) (lane(i.args[0])[n] != 0 ? yes : no).push_back(n);
    block(i.blocks[0], yes);
    if (i.blocks.size() > 1) block(i.blocks[1], no);
  }

  void loop(int32_t id, const Inst& i, const Active& active) {
    const auto value = [&](size_t arg, uint32_t n) {
      return integer_of(lane(i.args[arg])[n], Ty::I32);
    };
    Active running = active;
    for (uint32_t n : running) {
      if (value(2, n) <= 0) return violate(id, n, "loops with a step that is not positive");
      lane(id, 0)[n] = lane(i.args[0])[n];
    }
    while (violation_.ok()) {
      std::erase_if(running,
                    [&](uint32_t n) { return integer_of(lane(id, 0)[n], Ty::I32) >= value(1, n); });
      if (running.empty()) return;
      block(i.blocks[0], running);
      // Stop rather than wrap around beyond the largest end.
      std::erase_if(running, [&](uint32_t n) {
        return integer_of(lane(id, 0)[n], Ty::I32) + value(2, n) >= value(1, n);
      });
      for (uint32_t n : running) {
        lane(id, 0)[n] = mask_bits(lane(id, 0)[n] + lane(i.args[2])[n], Ty::I32);
      }
    }
  }

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

}  // namespace

Result<Outcome> interpret(const Kernel& k, const Launch& launch, const InterpretOptions& options) {
  if (launch.buffers.size() != k.buffers.size()) {
    return Status(Code::Usage,
                  "kernel '" + k.name + "' takes " + std::to_string(k.buffers.size()) + " buffers");
  }
  RP_TRY(verify_structure(k));
  BufferMemory memory(k, launch.buffers);
  PartialLaunch whole;
  whole.grid = launch.grid;
  whole.scalars = launch.scalars;
  whole.memory = &memory;
  RP_ASSIGN(const PartialOutcome outcome, interpret_some(k, whole, options));
  return Outcome{outcome.error};
}

Result<PartialOutcome> interpret_some(const Kernel& k, const PartialLaunch& launch,
                                      const InterpretOptions& options) {
  RP_TRY(verify_structure(k));
  const std::string name = "kernel '" + k.name + "'";
  if (launch.scalars.size() != k.scalars.size())
    return Status(Code::Usage, name + " takes " + std::to_string(k.scalars.size()) + " scalars");
  for (const auto& w : launch.workgroups) {
    if (w[0] >= launch.grid[0] || w[1] >= launch.grid[1] || w[2] >= launch.grid[2])
      return Status(Code::Usage, name + ": a workgroup is outside the grid");
  }
  uint64_t invocations = uint64_t{k.workgroup[0]} * k.workgroup[1] * k.workgroup[2];
  for (uint32_t n : launch.grid) {
    if (n > 65535) return Status(Code::Usage, name + ": the grid has more than 65535 workgroups");
    if (launch.workgroups.empty()) invocations *= n;
  }
  if (invocations >= Touch::kMany) return Status(Code::Usage, name + ": the grid is too large");
  if (options.subgroup_size == 0) return Status(Code::Usage, name + ": subgroup size 0");
  return Interpreter(k, launch, options).run();
}

}  // namespace reprise::kernel
