#include "codegen/interpreter/interpreter.h"

#include <algorithm>
#include <cmath>

#include "codegen/interpreter/native_error.h"
#include "codegen/interpreter/run.h"

namespace reprise::kernel {
namespace {

Status expect_whole_clusters(const Kernel& k, const PartialLaunch& launch) {
  bool whole = launch.grid[0] % k.cluster == 0 && launch.workgroups.size() % k.cluster == 0;
  for (size_t i = 0; whole && i < launch.workgroups.size(); ++i) {
    auto expected = launch.workgroups[i - i % k.cluster];
    whole = expected[0] % k.cluster == 0;
    expected[0] += static_cast<uint32_t>(i % k.cluster);
    whole = whole && launch.workgroups[i] == expected;
  }
  if (whole) return {};
  return {Code::Usage, "kernel '" + k.name + "': the workgroups are no whole clusters of " +
                           std::to_string(k.cluster)};
}

bool is_exact(const InterpretOptions& o) {
  return o.native_error == NativeError::None && !o.flush_subnormals;
}

}  // namespace

Result<PartialOutcome> Interpreter::run() {
  const auto& grid = launch_.grid;
  const bool whole = launch_.workgroups.empty();
  const size_t n = whole ? size_t{grid[0]} * grid[1] * grid[2] : launch_.workgroups.size();
  for (Interpreter* const member : cluster_) member->prepare(std::min<size_t>(n, together_));
  size_t done = 0;
  const auto more = [&] {
    return instructions_ < launch_.enough || (done == 1 && instructions_ <= launch_.cheap);
  };
  while (done < n && more()) {
    for (Interpreter* const member : cluster_) {
      member->group_index_ = static_cast<uint32_t>(done);
      member->groups_.clear();
      for (; done < n && member->groups_.size() < together_; ++done)
        member->groups_.push_back(group_at(done));
    }
    if (k_.roles.empty()) {
      workgroups();
    } else {
      run_cluster();
    }
    for (const Interpreter* const member : cluster_) {
      if (member->failed_) return member->violation_;
      error_ = std::max(error_, member->error_);
    }
  }
  return PartialOutcome{error_, done, instructions_};
}

/// The workgroup of this number in the list.
std::array<uint32_t, 3> Interpreter::group_at(size_t n) const {
  if (!launch_.workgroups.empty()) return launch_.workgroups[n];
  const auto i = static_cast<uint32_t>(n);
  const auto& grid = launch_.grid;
  return {i % grid[0], i / grid[0] % grid[1], i / grid[0] / grid[1]};
}

void Interpreter::workgroups() {
  for (Local& l : locals_) {
    l.filled = l.unneeded;
    std::fill(l.written.begin(), l.written.end(), uint8_t{0});
  }
  for (auto& t : shared_touches_) std::fill(t.begin(), t.end(), Touch{});
  for (auto& epochs : read_by_many_) std::fill(epochs.begin(), epochs.end(), 0U);
  matrices_.clear();
  std::fill(epochs_.begin(), epochs_.end(), 1U);
  if (all_.size() != groups_.size() * size_ * copies_) order_invocations(groups_.size());
  for (size_t id = 0; id < k_.insts.size(); ++id) {
    const Inst& i = k_.insts[id];
    if (i.op != Op::Builtin || !is_needed(id)) continue;
    for (const uint32_t n : all_) {
      values_[id].u32[n] = builtin_value(static_cast<Builtin>(i.imm & 0xffU), i.imm >> 8U, n);
    }
  }
  copies_in_flight_.assign(has_copies_ ? all_.size() : 0, {});
  early_ = begins_early_;
  block(0, {all_, true, counted_, checked_});
  if (has_copies_ && !failed_) expect_no_copies();
}

std::string Interpreter::where(int32_t id, uint32_t invocation) const {
  const std::array<uint32_t, 3>& group = groups_[numbers_[invocation] / size_];
  invocation = numbers_[invocation] % size_;
  const uint32_t x = invocation % k_.workgroup[0];
  const uint32_t y = invocation / k_.workgroup[0] % k_.workgroup[1];
  const uint32_t z = invocation / k_.workgroup[0] / k_.workgroup[1];
  const auto id_of = [&](size_t c, uint32_t local) {
    return std::to_string(group[c] * k_.workgroup[c] + local);
  };
  return "kernel '" + k_.name + "': %" + std::to_string(id) + ": invocation (" + id_of(0, x) +
         ", " + id_of(1, y) + ", " + id_of(2, z) + ") ";
}

// --- Execution

void Interpreter::block(int32_t index, const Active& active) {
  if (active.empty()) return;
  const auto b = static_cast<size_t>(index);
  instructions_ += k_.blocks[b].insts.size() * active.list.size();
  for (const Step& s : steps_[b]) {
    if (s.function != nullptr) {
      s.function(s.rows);
      for (size_t run = 1; run < s.runs; ++run) s.function(s.rows.from(run * stride_));
      continue;
    }
    const Active who = part_of(active, s.who);
    if (who.empty()) continue;
    (this->*s.execute)(s, who);
    if (failed_) return;
  }
  if (instructions_ >= launch_.limit) exceed_limit();
}

void Interpreter::exceed_limit() {
  violation_ = unsupported("kernel '" + k_.name + "' executes more than " +
                           std::to_string(launch_.limit) + " instructions");
  failed_ = true;
}

uint32_t Interpreter::builtin_value(Builtin b, size_t c, uint32_t n) const {
  const std::array<uint32_t, 3>& group = groups_[numbers_[n] / size_];
  n = numbers_[n] % size_;
  const std::array<uint32_t, 3> local = {n % k_.workgroup[0], n / k_.workgroup[0] % k_.workgroup[1],
                                         n / k_.workgroup[0] / k_.workgroup[1]};
  switch (b) {
    case Builtin::GlobalId:
      return group[c] * k_.workgroup[c] + local[c];
    case Builtin::LocalId:
      return local[c];
    case Builtin::LocalIndex:
      return n;
    case Builtin::WorkgroupId:
      return group[c];
    case Builtin::SubgroupLane:
      return n % subgroup_size_;
    case Builtin::SubgroupSize:
      return subgroup_size_;
    case Builtin::SubgroupIndex:
      return n / subgroup_size_;
    case Builtin::TeamIndex:
      return n / subgroup_size_ / kTeamSubgroups;
    case Builtin::ClusterRank:
      return rank_;
  }
  return 0;
}

void Interpreter::scalar(const Step& s, const Active& active) {
  const Inst& i = *s.inst;
  const auto op = static_cast<ScalarOp>(i.imm);
  const Ty operand = type(i.args.back()).ty;
  const bool may_differ =
      op != ScalarOp::Where && (operand == Ty::F32 || operand == Ty::F16) &&
      std::ranges::any_of(own_variants(), [](const InterpretOptions& o) { return !is_exact(o); });
  const bool division = op == ScalarOp::IDiv || op == ScalarOp::IRem;
  const size_t arity = i.args.size();
  for (size_t l = 0; l < i.type.lanes; ++l) {
    const size_t base = l * stride_;
    if (division) {
      const uint32_t divides = find(active, [&](uint32_t n) { return s.in[1].get(base + n) == 0; });
      if (divides != kNoInvocation) return violate(s.id, divides, "divides by zero");
    }
    each(active, [&](uint32_t n) {
      uint64_t operands[3] = {};
      for (size_t a = 0; a < arity; ++a) operands[a] = s.in[a].get(base + n);
      const bool inexact = may_differ && !is_exact(options_at(n));
      s.out.set(base + n,
                inexact ? inexact_result(op, operand, std::span(operands, arity), options_at(n))
                        : s.scalar(operands));
    });
  }
}

bool Interpreter::in_range(uint64_t bits, uint64_t result, Ty from, Ty to) {
  const double v = number_of(bits, from);
  if (std::isnan(v)) return class_of(to) == kFloat;
  const double back = number_of(result, to);
  return back == (class_of(to) == kFloat ? v : std::trunc(v));
}

void Interpreter::convert(const Step& s, const Active& active) {
  const Inst& i = *s.inst;
  const Ty from = type(i.args[0]).ty;
  const bool rounds = i.type.ty == Ty::F16 && from == Ty::F32 && i.imm == 0;
  const bool checked = i.imm != 0 && class_of(from) == kFloat && from != i.type.ty;
  for (size_t l = 0; l < i.type.lanes; ++l) {
    const Row in = s.in[0].from(l * stride_);
    const Row out = s.out.from(l * stride_);
    each(active, [&](uint32_t n) {
      const bool inexact = rounds && options_at(n).native_error != NativeError::None;
      out.set(n, inexact ? inexact_f16(in.get(n), from, options_at(n))
                         : convert_bits(in.get(n), from, i.type.ty));
    });
    if (!checked) continue;
    const uint32_t outside =
        find(active, [&](uint32_t n) { return !in_range(in.get(n), out.get(n), from, i.type.ty); });
    if (outside != kNoInvocation)
      return violate(s.id, outside, "converts a value outside the range that it claims");
  }
}

void Interpreter::bitcast(const Step& s, const Active& active) {
  const Inst& i = *s.inst;
  const Type from = type(i.args[0]);
  const auto in_size = static_cast<size_t>(byte_size(from.ty));
  const auto out_size = static_cast<size_t>(byte_size(i.type.ty));
  each(active, [&](uint32_t n) {
    uint8_t bytes[32] = {};
    for (size_t l = 0; l < from.lanes; ++l) {
      const uint64_t bits = s.in[0].get(l * stride_ + n);
      for (size_t b = 0; b < in_size; ++b)
        bytes[l * in_size + b] = static_cast<uint8_t>(bits >> (8 * b));
    }
    for (size_t l = 0; l < i.type.lanes; ++l) {
      uint64_t bits = 0;
      for (size_t b = 0; b < out_size; ++b)
        bits |= static_cast<uint64_t>(bytes[l * out_size + b]) << (8 * b);
      s.out.set(l * stride_ + n, bits);
    }
  });
}

void Interpreter::compose(const Step& s, const Active& /*active*/) {
  const size_t each = s.inst->type.lanes / s.inst->args.size();
  for (size_t l = 0; l < s.inst->type.lanes; ++l) {
    const Row from = s.in[l / each].from(l % each * stride_);
    if (s.out.u64 != nullptr) {
      std::copy_n(from.u64, s.width, s.out.u64 + l * stride_);
    } else {
      std::copy_n(from.u32, s.width, s.out.u32 + l * stride_);
    }
  }
}

void Interpreter::set_error(const Step& s, const Active& active) {
  const auto code = static_cast<ErrorCode>(s.inst->imm);
  if (!may_access(s, active.list[0])) return;
  const uint32_t one = find(active, [&](uint32_t n) { return s.in[0].u32[n] != 0; });
  if (one != kNoInvocation) error_ = std::max(error_, code);
}

// --- Items

void Interpreter::item_param(const Step& s, const Active& active) {
  const Inst& i = *s.inst;
  const uint32_t outside = find(active, [&](uint32_t n) { return s.in[0].u32[n] >= k_.items; });
  if (outside != kNoInvocation) return violate(s.id, outside, "reads a parameter of no item");
  each(active, [&](uint32_t n) {
    s.out.set(n, launch_.scalars[s.in[0].u32[n] * k_.item_scalars() + i.imm]);
  });
}

void Interpreter::select_item(const Step& s, const Active& active) {
  const uint32_t item = s.in[0].u32[active.list[0]];
  const uint32_t other = find(active, [&](uint32_t n) { return s.in[0].u32[n] != item; });
  if (other != kNoInvocation) return violate(s.id, other, "selects another item than the first");
  if (item >= k_.items) return violate(s.id, active.list[0], "selects no item");
  item_ = item;
}

void Interpreter::await_launches(const Step& s, const Active& active) {
  if (active.list.size() != all_.size())
    return violate(s.id, active.list[0], "awaits earlier launches, which others do not");
  early_ = false;
}

// --- Control flow

void Interpreter::branch(const Step& s, const Active& active) {
  const Inst& i = *s.inst;
  const uint32_t* condition = s.in[0].u32;
  size_t holds = 0;
  each(active, [&](uint32_t n) { holds += condition[n] != 0 ? 1 : 0; });
  if (holds == active.list.size()) return block(i.blocks[0], active);
  if (holds == 0) {
    if (i.blocks.size() > 1) block(i.blocks[1], active);
    return;
  }
  std::vector<uint32_t> yes, no;
  for (const uint32_t n : active.list) (condition[n] != 0 ? yes : no).push_back(n);
  block(i.blocks[0], subset(yes));
  if (i.blocks.size() > 1 && !failed_) block(i.blocks[1], subset(no));
}

void Interpreter::loop(const Step& s, const Active& active) {
  const auto value = [](const Row& row, uint32_t n) {
    return int64_t{static_cast<int32_t>(row.u32[n])};
  };
  const uint32_t stuck = find(active, [&](uint32_t n) { return value(s.in[2], n) <= 0; });
  if (stuck != kNoInvocation) return violate(s.id, stuck, "loops with a step that is not positive");
  const bool differs = find(active, [&](uint32_t n) {
                         const uint32_t m = active.list[0];
                         return value(s.in[0], n) != value(s.in[0], m) ||
                                value(s.in[1], n) != value(s.in[1], m) ||
                                value(s.in[2], n) != value(s.in[2], m);
                       }) != kNoInvocation;
  if (!differs) return uniform_loop(s, active);
  std::vector<uint32_t> running(active.list.begin(), active.list.end());
  for (const uint32_t n : running) s.out.u32[n] = s.in[0].u32[n];
  std::erase_if(running, [&](uint32_t n) { return value(s.out, n) >= value(s.in[1], n); });
  while (!running.empty()) {
    block(s.inst->blocks[0], subset(running));
    if (failed_) return;
    // Stop before the counter would wrap around.
    std::erase_if(running, [&](uint32_t n) {
      return value(s.out, n) + value(s.in[2], n) >= value(s.in[1], n);
    });
    for (const uint32_t n : running) s.out.u32[n] += s.in[2].u32[n];
  }
}

/// A loop whose bounds are the same for all invocations.
void Interpreter::uniform_loop(const Step& s, const Active& active) {
  const auto bound = [&](size_t a) {
    return int64_t{static_cast<int32_t>(s.in[a].u32[active.list[0]])};
  };
  const int64_t end = bound(1);
  const int64_t step = bound(2);
  for (int64_t i = bound(0); i < end && !failed_; i += step) {
    std::fill_n(s.out.u32, stride_, static_cast<uint32_t>(i));
    block(s.inst->blocks[0], active);
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
  return interpret_some(k, launch, {&options, 1});
}

Result<PartialOutcome> interpret_some(const Kernel& k, const PartialLaunch& launch,
                                      std::span<const InterpretOptions> variants) {
  const std::string name = "kernel '" + k.name + "'";
  if (launch.scalars.size() != k.scalars.size())
    return Status(Code::Usage, name + " takes " + std::to_string(k.scalars.size()) + " scalars");
  for (const auto& w : launch.workgroups) {
    if (w[0] >= launch.grid[0] || w[1] >= launch.grid[1] || w[2] >= launch.grid[2])
      return Status(Code::Usage, name + ": a workgroup is outside the grid");
  }
  RP_TRY(expect_whole_clusters(k, launch));
  uint64_t invocations = uint64_t{k.workgroup[0]} * k.workgroup[1] * k.workgroup[2];
  for (uint32_t n : launch.grid) {
    if (n > 65535) return Status(Code::Usage, name + ": the grid has more than 65535 workgroups");
    if (launch.workgroups.empty()) invocations *= n;
  }
  if (invocations >= Touch::kMany) return Status(Code::Usage, name + ": the grid is too large");
  if (variants.empty() || variants.size() > 255)
    return Status(Code::Usage, name + ": " + std::to_string(variants.size()) + " options");
  const uint32_t subgroup_size = variants[0].subgroup_size;
  if (subgroup_size == 0) return Status(Code::Usage, name + ": subgroup size 0");
  const bool combine = Interpreter::can_combine(k, launch, subgroup_size);
  const size_t copies = combine ? variants.size() : 1;
  PartialOutcome all;
  for (size_t first = 0; first < variants.size(); first += copies) {
    RP_ASSIGN(const PartialOutcome one, Interpreter(k, launch, variants, first, copies).run());
    all.error = std::max(all.error, one.error);
    all.workgroups = one.workgroups;
    all.instructions += one.instructions;
  }
  return all;
}

}  // namespace reprise::kernel
