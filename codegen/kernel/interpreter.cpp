#include "codegen/kernel/interpreter.h"

#include <algorithm>
#include <cmath>

#include "codegen/kernel/interpreter_rows.h"
#include "codegen/kernel/interpreter_run.h"
#include "codegen/kernel/native_error.h"

namespace reprise::kernel {

Result<PartialOutcome> Interpreter::run() {
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

void Interpreter::allocate() {
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

void Interpreter::workgroup() {
  for (auto& w : local_written_) std::fill(w.begin(), w.end(), uint8_t{0});
  for (auto& t : shared_touches_) std::fill(t.begin(), t.end(), Touch{});
  matrices_.clear();
  epoch_ = 0;
  block(0, all_);
  ++group_index_;
}

std::string Interpreter::where(int32_t id, uint32_t invocation) const {
  const uint32_t x = invocation % k_.workgroup[0];
  const uint32_t y = invocation / k_.workgroup[0] % k_.workgroup[1];
  const uint32_t z = invocation / k_.workgroup[0] / k_.workgroup[1];
  const auto id_of = [&](size_t c, uint32_t local) {
    return std::to_string(group_[c] * k_.workgroup[c] + local);
  };
  return "kernel '" + k_.name + "': %" + std::to_string(id) + ": invocation (" + id_of(0, x) +
         ", " + id_of(1, y) + ", " + id_of(2, z) + ") ";
}

// --- Execution

void Interpreter::block(int32_t index, const Active& active) {
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

void Interpreter::execute(int32_t id, const Active& active) {
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

void Interpreter::fill(int32_t id, const Inst& i, const Active& active, uint64_t bits) {
  for (size_t l = 0; l < i.type.lanes; ++l) {
    uint64_t* out = lane(id, l);
    for (uint32_t n : active) out[n] = bits;
  }
}

uint32_t Interpreter::builtin_value(Builtin b, size_t c, uint32_t n) const {
  const std::array<uint32_t, 3> local = {n % k_.workgroup[0], n / k_.workgroup[0] % k_.workgroup[1],
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

void Interpreter::builtin(int32_t id, const Inst& i, const Active& active) {
  uint64_t* out = lane(id, 0);
  for (uint32_t n : active) {
    out[n] = builtin_value(static_cast<Builtin>(i.imm & 0xffU), i.imm >> 8U, n);
  }
}

void Interpreter::scalar(int32_t id, const Inst& i, const Active& active) {
  const auto op = static_cast<ScalarOp>(i.imm);
  const Ty operand = type(i.args.back()).ty;
  const bool inexact =
      op != ScalarOp::Where && ((is_inexact() && (operand == Ty::F32 || operand == Ty::F16)) ||
                                (options_.flush_subnormals && operand == Ty::F32));
  const bool division = op == ScalarOp::IDiv || op == ScalarOp::IRem;
  const ScalarFn function = row_functions_[static_cast<size_t>(id)];
  const size_t arity = i.args.size();
  for (size_t l = 0; l < i.type.lanes; ++l) {
    RowLane row{{}, lane(id, l), active};
    for (size_t a = 0; a < arity; ++a) row.in[a] = lane(i.args[a], l);
    if (execute_fast(op, operand, options_, row)) continue;
    uint64_t* out = row.out;
    for (uint32_t n : active) {
      uint64_t operands[3] = {};
      for (size_t a = 0; a < arity; ++a) operands[a] = row.in[a][n];
      if (division && operands[1] == 0) return violate(id, n, "divides by zero");
      out[n] = inexact ? inexact_result(op, operand, std::span(operands, arity), options_)
                       : function(operands);
    }
  }
}

bool Interpreter::in_range(uint64_t bits, uint64_t result, Ty from, Ty to) {
  const double v = number_of(bits, from);
  if (std::isnan(v)) return class_of(to) == kFloat;
  const double back = number_of(result, to);
  return back == (class_of(to) == kFloat ? v : std::trunc(v));
}

void Interpreter::convert(int32_t id, const Inst& i, const Active& active) {
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

void Interpreter::bitcast(int32_t id, const Inst& i, const Active& active) {
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

// --- Control flow

void Interpreter::branch(const Inst& i, const Active& active) {
  Active yes;
  Active no;
  for (uint32_t n : active) (lane(i.args[0])[n] != 0 ? yes : no).push_back(n);
  block(i.blocks[0], yes);
  if (i.blocks.size() > 1) block(i.blocks[1], no);
}

void Interpreter::loop(int32_t id, const Inst& i, const Active& active) {
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
