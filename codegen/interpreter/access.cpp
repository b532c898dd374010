// Executes accesses to memory, matrices and other lanes of a subgroup, and checks each of them.
#include <algorithm>
#include <bit>
#include <cmath>

#include "codegen/interpreter/native_error.h"
#include "codegen/interpreter/run.h"

namespace reprise::kernel {

// --- Memory

std::optional<uint32_t> Interpreter::largest_index(const Step& s, const Access& access,
                                                   const Active& active) {
  const uint32_t* index = row(access.index).u32;
  // As an unsigned number, a negative index is a large one.
  const uint64_t past = type(access.index).ty == Ty::I32 ? uint64_t{1} << 31U : uint64_t{1} << 32U;
  WordRange range;
  if (active.whole) {
    range = range_of({index, active.list.size()});
  } else {
    for (const uint32_t n : active.list)
      range = {std::max(range.largest, index[n]), range.bits | index[n]};
  }
  bool fit = range.largest < past && range.largest + access.lanes <= access.count;
  if (fit && std::has_single_bit(access.align)) {
    fit = (range.bits & (access.align - 1)) == 0;
  } else if (fit) {
    fit = find(active, [&](uint32_t n) { return index[n] % access.align != 0; }) == kNoInvocation;
  }
  if (fit) return range.largest;
  const auto value = [&](uint32_t n) { return integer_of(index[n], type(access.index).ty); };
  const auto inside = [&](uint32_t n) {
    return value(n) >= 0 && static_cast<uint64_t>(value(n)) + access.lanes <= access.count;
  };
  const uint32_t n =
      find(active, [&](uint32_t m) { return !inside(m) || value(m) % access.align != 0; });
  violate(s.id, n,
          "accesses " + access.array + "[" + std::to_string(value(n)) + "], " +
              (inside(n) ? "claimed a multiple of " + std::to_string(access.align)
                         : std::to_string(access.lanes) + " elements, of " +
                               std::to_string(access.count)));
  return std::nullopt;
}

void Interpreter::buffer_access(const Step& s, const Active& active) {
  const Inst& i = *s.inst;
  const bool load = i.op == Op::Load;
  const size_t buffer = item_ * k_.item_buffers() + i.imm;
  const std::string& name = k_.buffers[buffer].name;
  if (!may_access(s, active.list[0])) return;
  MemoryRow row = memory_row(s, buffer, active);
  row.lanes = load ? i.type.lanes : type(i.args[1]).lanes;
  const auto largest =
      largest_index(s, {i.args[0], row.lanes, memory_.elements(buffer), i.align, name}, active);
  if (!largest) return;
  row.largest = *largest;
  row.index = s.in[0].u32;
  row.value = load ? s.out : s.in[1];
  if (load && !used_.empty() && !used_[static_cast<size_t>(s.id)]) row.value = {};
  if (!load && row.value.is_null()) {  // what the kernel stores is not wanted
    zeros_.resize(row.lanes * stride_);
    row.value.u64 = zeros_.data();
  }
  row.mask = i.args.size() == 3 ? s.in[2].u32 : nullptr;
  if (s.loop >= 0) row.iterations = values_[static_cast<size_t>(s.loop)].u32;
  const std::optional<Race> race = load ? memory_.load(row) : memory_.store(row);
  if (!race) return;
  violate(s.id, race->invocation,
          "races with another invocation on " + name + "[" + std::to_string(race->element) + "]");
}

void Interpreter::local_access(const Step& s, const Active& active) {
  const Inst& i = *s.inst;
  const size_t argument = i.op == Op::LocalLoad ? 0 : 1;
  if (i.args.size() <= argument) return local_element(s, 0, active);
  const LocalVar& local = k_.locals[i.imm];
  if (!indices_fit(s, {i.args[argument], 1, local.count, 1, local.name}, active)) return;
  const uint32_t* index = s.in[argument].u32;
  const uint32_t first = index[active.list[0]];
  if (find(active, [&](uint32_t n) { return index[n] != first; }) == kNoInvocation)
    return local_element(s, first, active);
  for (const uint32_t n : active.list) {
    local_element(s, index[n], {{&n, 1}, false, 1});
    if (failed_) return;
  }
}

/// Each active invocation accesses the element with this index of its own local.
void Interpreter::local_element(const Step& s, size_t index, const Active& active) {
  const bool load = s.inst->op == Op::LocalLoad;
  Local& local = locals_[s.inst->imm];
  const Type t = k_.locals[s.inst->imm].type;
  uint8_t* written = local.written.data() + index * stride_;
  if (load && local.filled[index] == 0) {
    const uint32_t reader = find(active, [&](uint32_t n) { return written[n] == 0; });
    if (reader != kNoInvocation) {
      const std::string& name = k_.locals[s.inst->imm].name;
      return violate(s.id, reader, "reads local '" + name + "' before it is written");
    }
  }
  const Row cells = local.cells.from(index * words(t));
  const Row to = load ? s.out : cells;
  const Row from = load ? cells : s.in[0];
  const bool shared = to.u32 == from.u32 && to.u64 == from.u64;
  for (size_t at = 0; at < words(t) && !shared; at += stride_) {
    if (active.whole && to.u32 != nullptr) {
      std::copy_n(from.u32 + at, active.list.size(), to.u32 + at);
    } else if (active.whole) {
      std::copy_n(from.u64 + at, active.list.size(), to.u64 + at);
    } else {
      for (const uint32_t n : active.list) to.set(at + n, from.get(at + n));
    }
  }
  if (load) return;
  if (active.whole) {
    local.filled[index] = 1;
  } else {
    for (const uint32_t n : active.list) written[n] = 1;
  }
}

void Interpreter::shared_access(const Step& s, const Active& active) {
  const Inst& i = *s.inst;
  const bool load = i.op == Op::SharedLoad;
  const SharedArray& array = k_.shared[i.imm];
  const uint32_t lanes = load ? i.type.lanes : type(i.args[1]).lanes;
  if (!indices_fit(s, {i.args[0], lanes, array.count, lanes, array.name}, active)) return;
  if (!load && array.type == Ty::BF16 && !are_bf16(s, lanes, active)) return;
  if (roles_) return clocked_shared_access(s, active.list);
  // Nobody needs the values of those who load for the checks alone.
  const bool all_move = s.who != Who::Checked || used_in_checks_[static_cast<size_t>(s.id)];
  auto rest = active.list;
  size_t moves = all_move ? rest.size() : active.counted;
  for (const Part& part : parts_of(s.who)) {
    const size_t end = part.begin + part.count;
    const size_t count =
        active.whole ? std::min(part.count, rest.size())
                     : static_cast<size_t>(std::ranges::lower_bound(rest, end) - rest.begin());
    const auto same = rest.first(count);
    rest = rest.subspan(count);
    const bool checked = !partial_ || (part.variant == 0 && launch_.check_shared);
    if (checked && !(load ? may_read_shared(s, same, lanes) : may_write_shared(s, same, lanes)))
      return;
    const size_t moved = std::min(moves, count);
    move_shared(s, same.first(moved), lanes);
    moves -= moved;
  }
}

bool Interpreter::are_bf16(const Step& s, uint32_t lanes, const Active& active) {
  const uint32_t n = find(active, [&](uint32_t m) {
    for (uint32_t l = 0; l < lanes; ++l) {
      const uint32_t bits = s.in[1].u32[l * stride_ + m];
      const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
      if ((bits & 0xffffU) != 0 && !is_nan) return true;
    }
    return false;
  });
  if (n != kNoInvocation)
    violate(s.id, n, "stores to " + k_.shared[s.inst->imm].name + " what is no value of BF16");
  return n == kNoInvocation;
}

bool Interpreter::may_read_shared(const Step& s, std::span<const uint32_t> positions,
                                  uint32_t lanes) {
  switch (lanes) {
    case 1:
      return may_read_shared<1>(s, positions);
    case 2:
      return may_read_shared<2>(s, positions);
    case 4:
      return may_read_shared<4>(s, positions);
    default:
      return may_read_shared<8>(s, positions);
  }
}

template <uint32_t lanes>
bool Interpreter::may_read_shared(const Step& s, std::span<const uint32_t> positions) {
  const uint64_t count = k_.shared[s.inst->imm].count;
  const uint32_t* const indices = s.in[0].u32;
  uint32_t* const many = read_by_many_[s.inst->imm].data();
  for (const uint32_t n : positions) {
    const uint32_t group = group_of_[n];
    const size_t at = group * count + indices[n];
    uint32_t differs = 0;
    for (uint32_t l = 0; l < lanes; ++l) differs |= many[at + l] ^ epochs_[group];
    // After several reads, further ones change nothing.
    if (differs != 0 && !note_reads(s, n, {many + at, lanes})) return false;
  }
  return true;
}

bool Interpreter::note_reads(const Step& s, uint32_t n, std::span<uint32_t> many) {
  const uint32_t epoch = epochs_[group_of_[n]];
  const auto at = many.data() - read_by_many_[s.inst->imm].data();
  Touch* const touches = shared_touches_[s.inst->imm].data() + at;
  for (uint32_t l = 0; l < many.size(); ++l) {
    Touch& touch = touches[l];
    if (!touch.written) {
      violate(s.id, n, "reads " + shared_name(s, n, l) + " before it is written");
      return false;
    }
    if (!touch.read(n + 1, epoch)) {
      violate(s.id, n, "races with another invocation on " + shared_name(s, n, l));
      return false;
    }
    if (touch.is_read_by_many(epoch)) many[l] = epoch;
  }
  return true;
}

bool Interpreter::may_write_shared(const Step& s, std::span<const uint32_t> positions,
                                   uint32_t lanes) {
  const uint64_t count = k_.shared[s.inst->imm].count;
  Touch* const touches = shared_touches_[s.inst->imm].data();
  for (const uint32_t n : positions) {
    const size_t at = group_of_[n] * count + s.in[0].u32[n];
    for (uint32_t l = 0; l < lanes; ++l) {
      if (touches[at + l].write(n + 1, epochs_[group_of_[n]])) continue;
      violate(s.id, n, "races with another invocation on " + shared_name(s, n, l));
      return false;
    }
  }
  return true;
}

MemoryRow Interpreter::memory_row(const Step& s, size_t buffer, const Active& active) const {
  MemoryRow row;
  row.buffer = buffer;
  row.active = active;
  row.first = group_index_ * size_ + 1;
  row.numbers = numbers_.data();
  row.variants = variant_of_.data();
  row.stride = stride_;
  row.instruction = s.id;
  return row;
}

std::string Interpreter::shared_name(const Step& s, uint32_t n, uint32_t lane) const {
  return k_.shared[s.inst->imm].name + "[" + std::to_string(s.in[0].u32[n] + lane) + "]";
}

void Interpreter::move_shared(const Step& s, std::span<const uint32_t> positions, uint32_t lanes) {
  const Row cells = shared_[s.inst->imm].row;
  const Row value = s.inst->op == Op::SharedLoad ? s.out : s.in[1];
  const auto move = [&]<uint32_t n>() {
    if (cells.u32 != nullptr) return move_words<n>(s, positions, cells.u32, value.u32);
    move_words<n>(s, positions, cells.u64, value.u64);
  };
  switch (lanes) {
    case 1:
      return move.operator()<1>();
    case 2:
      return move.operator()<2>();
    case 4:
      return move.operator()<4>();
    default:
      return move.operator()<8>();
  }
}

template <uint32_t lanes, typename Word>
void Interpreter::move_words(const Step& s, std::span<const uint32_t> positions, Word* cells,
                             Word* values) {
  const uint64_t count = k_.shared[s.inst->imm].count;
  const uint32_t* const indices = s.in[0].u32;
  const uint32_t* const groups = group_of_.data();
  const size_t stride = stride_;
  const auto each_lane = [&](const auto& move) {
    for (const uint32_t n : positions) {
      Word* const at = cells + groups[n] * count + indices[n];
      for (uint32_t l = 0; l < lanes; ++l) move(at[l], values[l * stride + n]);
    }
  };
  if (s.inst->op == Op::SharedLoad) {
    each_lane([](const Word& cell, Word& v) { v = cell; });
  } else {
    each_lane([](Word& cell, const Word& v) { cell = v; });
  }
}

void Interpreter::barrier(const Step& s, const Active& active) {
  if (s.inst->imm == static_cast<uint64_t>(BarrierScope::Team)) return team_barrier(s, active);
  std::vector<uint32_t> reach(together_ * copies_);
  for (const uint32_t n : active.list) ++reach[group_of_[n]];
  for (size_t group = 0; group < reach.size(); ++group) {
    if (reach[group] != 0 && reach[group] != size_) {
      const uint32_t one = find(active, [&](uint32_t n) { return group_of_[n] == group; });
      return violate(s.id, one,
                     "waits at a barrier that only " + std::to_string(reach[group]) + " of " +
                         std::to_string(size_) + " invocations reach");
    }
    if (reach[group] != 0) ++epochs_[group];
  }
  if (roles_) roles_->clocks.meet(first_subgroup(rank_), size_ / subgroup_size_);
}

// --- Asynchronous copies

void Interpreter::async_copy(const Step& s, const Active& active) {
  const CopyAccess a = CopyAccess::of(s.inst->imm);
  const SharedArray& array = k_.shared[a.shared];
  if (!may_access(s, active.list[0])) return;
  if (!indices_fit(s, {s.inst->args[1], a.lanes, array.count, s.inst->align, array.name}, active))
    return;
  std::vector<uint32_t> element(stride_), value(stride_);
  for (const uint32_t n : active.list) {
    if (!failed_) begin_copy(s, n, element, value);
  }
}

void Interpreter::begin_copy(const Step& s, uint32_t n, std::span<uint32_t> element,
                             std::span<uint32_t> value) {
  const CopyAccess a = CopyAccess::of(s.inst->imm);
  const size_t buffer = item_ * k_.item_buffers() + a.buffer;
  const BufferParam& from = k_.buffers[buffer];
  const auto exist = static_cast<int32_t>(s.in[2].u32[n]);
  const Active one{{&n, 1}, false, 1};
  if (exist < 0 || exist > a.lanes) {
    return violate(
        s.id, n,
        "copies " + std::to_string(exist) + " of " + std::to_string(a.lanes) + " elements");
  }
  const auto count = static_cast<uint32_t>(exist);
  const Access access{s.inst->args[0], count, memory_.elements(buffer), s.inst->align, from.name};
  if (count > 0 && !indices_fit(s, access, one)) return;
  Copy copy{a.shared, group_of_[n] * size_t{k_.shared[a.shared].count} + s.in[1].u32[n],
            std::vector<uint64_t>(a.lanes), copies_in_flight_[n].groups, s.id};
  for (uint32_t l = 0; l < count; ++l) {
    element[n] = s.in[0].u32[n] + l;
    MemoryRow row = memory_row(s, buffer, one);
    row.largest = element[n];
    row.index = element.data();
    row.value.u32 = value.data();
    if (const auto race = memory_.load(row)) {
      return violate(s.id, n,
                     "races with another invocation on " + from.name + "[" +
                         std::to_string(race->element) + "]");
    }
    copy.values[l] = value[n];
  }
  for (uint32_t l = 0; l < a.lanes; ++l) {
    Touch& touch = shared_touches_[a.shared][copy.at + l];
    if (touch.begin(copier(n), epochs_[group_of_[n]])) continue;
    return violate(s.id, n,
                   "races with another invocation on " + k_.shared[a.shared].name + "[" +
                       std::to_string(s.in[1].u32[n] + l) + "]");
  }
  copies_in_flight_[n].unfinished.push_back(std::move(copy));
}

void Interpreter::expect_no_copies() {
  for (const uint32_t n : all_) {
    const std::vector<Copy>& unfinished = copies_in_flight_[n].unfinished;
    if (!unfinished.empty())
      return violate(unfinished[0].instruction, n, "never waits for this copy");
  }
}

void Interpreter::copy_commit(const Step& /*s*/, const Active& active) {
  for (const uint32_t n : active.list) ++copies_in_flight_[n].groups;
}

/// Copies land as late as they may.
void Interpreter::copy_wait(const Step& s, const Active& active) {
  for (const uint32_t n : active.list) {
    Copies& copies = copies_in_flight_[n];
    const auto finished = [&](const Copy& c) { return c.group + s.inst->imm < copies.groups; };
    for (const Copy& c : copies.unfinished) {
      if (finished(c) && !failed_) land(s, n, c);
    }
    std::erase_if(copies.unfinished, finished);
  }
}

void Interpreter::land(const Step& s, uint32_t n, const Copy& copy) {
  const SharedArray& array = k_.shared[copy.shared];
  for (size_t l = 0; l < copy.values.size(); ++l) {
    Touch& touch = shared_touches_[copy.shared][copy.at + l];
    if (!touch.land(copier(n), n + 1, epochs_[group_of_[n]])) {
      return violate(s.id, n,
                     "waits for a copy to " + array.name + "[" +
                         std::to_string(copy.at % array.count + l) +
                         "], which was accessed meanwhile");
    }
    shared_[copy.shared].row.set(copy.at + l, copy.values[l]);
  }
}

// --- Matrices

void Interpreter::matrix(const Step& s, const Active& all) {
  const Inst& i = *s.inst;
  if (k_.matrices[matrix_of(i)].scope == MmaScope::Team) return team_matrix(s, all);
  const std::span<const uint32_t> active = all.list;
  const uint32_t holders = holders_of(k_.matrices[matrix_of(i)]);
  for (size_t first = 0; first < active.size() && !failed_; first += holders) {
    const uint32_t n = active[first];
    const size_t last = first + holders - 1;
    const bool whole = n % holders == 0 && last < active.size() && active[last] == n + holders - 1;
    if (!whole) {
      return violate(s.id, n,
                     holders == subgroup_size_
                         ? "uses a matrix that only some of its subgroup use"
                         : "uses a matrix that only some of its workgroup use");
    }
    if (i.op == Op::MatrixMulAdd) {
      if (!matrices_.multiply(MatrixOperands::of(i.imm), n / subgroup_size_, options_at(n)))
        violate(s.id, n, "multiplies a matrix before it is written");
    } else if (i.op == Op::MatrixConvert) {
      convert_matrix(s, n);
    } else if (i.op == Op::MatrixZero) {
      const MatrixVar& m = k_.matrices[i.imm];
      matrices_.of(i.imm, n / subgroup_size_).assign(size_t{m.rows} * m.columns, 0.0);
    } else {
      matrix_access(s, n);
    }
  }
}

void Interpreter::matrix_access(const Step& s, uint32_t n) {
  const Inst& i = *s.inst;
  const MatrixAccess a = MatrixAccess::of(i.imm);
  const MatrixVar& m = k_.matrices[a.matrix];
  const SharedArray& array = k_.shared[a.shared];
  std::vector<double>& values = matrices_.of(a.matrix, n / subgroup_size_);
  const bool load = i.op == Op::MatrixLoad;
  const uint64_t lines = a.by_columns ? m.columns : m.rows;
  const uint64_t span = (lines - 1) * a.stride + (a.by_columns ? m.rows : m.columns);
  for (uint32_t l = n; l < n + holders_of(m); ++l) {
    if (s.in[0].u32[l] != s.in[0].u32[n])
      return violate(s.id, l, "has another index of a matrix than others that hold it");
  }
  if (!indices_fit(s, {i.args[0], span, array.count, i.align, array.name}, {{&n, 1}, false, 1}))
    return;
  const uint32_t index = s.in[0].u32[n];
  const uint32_t group = group_of_[n];
  if (load) {
    values.resize(size_t{m.rows} * m.columns);
  } else if (values.empty()) {
    return violate(s.id, n, "stores matrix " + m.name + " before it is written");
  }
  // The device decides which invocation accesses an element, so the subgroup or workgroup counts as
  // an invocation of its own.
  const uint32_t invocation = static_cast<uint32_t>(all_.size()) + 1 + n / subgroup_size_;
  for (uint32_t r = 0; r < m.rows; ++r) {
    for (uint32_t c = 0; c < m.columns; ++c) {
      const uint64_t at = index + (a.by_columns ? c * a.stride + r : r * a.stride + c);
      double& value = values[r * m.columns + c];
      Touch& touch = shared_touches_[a.shared][size_t{group} * array.count + at];
      const auto element = [&] { return array.name + "[" + std::to_string(at) + "]"; };
      if (load && !touch.written)
        return violate(s.id, n, "reads " + element() + " before it is written");
      if (!(load ? touch.read(invocation, epochs_[group])
                 : touch.write(invocation, epochs_[group])))
        return violate(s.id, n, "races with another invocation on " + element());
      const size_t cell = size_t{group} * array.count + at;
      if (load) {
        value = number_of(shared_[a.shared].row.get(cell), compute_type(array.type));
      } else {
        shared_[a.shared].row.set(cell,
                                  bits_of(rounded(value, array.type), compute_type(array.type)));
      }
    }
  }
}

// --- Subgroups

/// A shuffle whose operand is the same constant for all lanes. False if it is not of that kind, or
/// if not all invocations are active.
bool Interpreter::constant_shuffle(const Step& s, const Active& active) {
  if (s.inst->args.size() != 2 || s.in[0].u32 == nullptr || !active.whole) return false;
  const Inst& operand = k_.insts[static_cast<size_t>(s.inst->args[1].id)];
  const bool exclusive = static_cast<SubgroupOp>(s.inst->imm) == SubgroupOp::ShuffleXor;
  const size_t size = subgroup_size_;
  const bool valid =
      operand.op == Op::Const && operand.imm < size && active.list.size() % size == 0;
  if (!valid || (exclusive && !std::has_single_bit(size))) return false;
  const size_t by = operand.imm;
  for (size_t l = 0; l < s.inst->type.lanes; ++l) {
    const uint32_t* in = s.in[0].u32 + l * stride_;
    uint32_t* out = s.out.u32 + l * stride_;
    for (size_t first = 0; first < active.list.size(); first += size) {
      if (exclusive) {
        for (size_t n = 0; n < size; ++n) out[first + n] = in[first + (n ^ by)];
      } else {
        std::fill_n(out + first, size, in[first + by]);
      }
    }
  }
  return true;
}

void Interpreter::subgroup(const Step& s, const Active& active) {
  if (constant_shuffle(s, active)) return;
  // Workgroups that are executed together consist of whole subgroups.
  for (size_t first = 0; first < active.list.size();) {
    const uint32_t end = (active.list[first] / subgroup_size_ + 1) * subgroup_size_;
    size_t last = first;
    while (last < active.list.size() && active.list[last] < end) ++last;
    const std::span<const uint32_t> lanes = active.list.subspan(first, last - first);
    for (size_t l = 0; l < s.inst->type.lanes && !failed_; ++l) {
      if (s.inst->args.size() == 1) {
        reduce(s, l, lanes);
      } else {
        shuffle(s, l, lanes);
      }
    }
    first = last;
  }
}

void Interpreter::reduce(const Step& s, size_t l, std::span<const uint32_t> lanes) {
  const Ty t = s.inst->type.ty;
  const auto op = static_cast<SubgroupOp>(s.inst->imm);
  const ScalarFn combine = scalar_function(op == SubgroupOp::Add   ? ScalarOp::Add
                                           : op == SubgroupOp::Max ? ScalarOp::MaxNum
                                                                   : ScalarOp::MinNum,
                                           t);
  const Row in = s.in[0].from(l * stride_);
  uint64_t total = in.get(lanes[0]);
  double magnitude = 0;
  for (const uint32_t n : lanes.subspan(1)) {
    const uint64_t operands[2] = {total, in.get(n)};
    total = combine(operands);
    magnitude += std::fabs(number_of(in.get(n), t));
  }
  const InterpretOptions& options = options_at(lanes[0]);
  if (op == SubgroupOp::Add && options.native_error != NativeError::None && class_of(t) == kFloat) {
    const double error = reordering_error(magnitude, t, total, options);
    total = bits_of(number_of(total, t) + error, t);
  }
  for (const uint32_t n : lanes) s.out.set(l * stride_ + n, total);
}

void Interpreter::shuffle(const Step& s, size_t l, std::span<const uint32_t> lanes) {
  const uint32_t first = lanes[0] / subgroup_size_ * subgroup_size_;
  const bool exclusive = static_cast<SubgroupOp>(s.inst->imm) == SubgroupOp::ShuffleXor;
  const bool whole = lanes.size() == subgroup_size_;
  const Row in = s.in[0].from(l * stride_);
  const Row out = s.out.from(l * stride_);
  if (whole && in.u32 != nullptr) {
    const uint32_t* by = s.in[1].u32 + first;
    uint32_t largest = 0;
    for (uint32_t n = 0; n < subgroup_size_; ++n)
      largest = std::max(largest, exclusive ? n ^ by[n] : by[n]);
    if (largest < subgroup_size_) {
      for (uint32_t n = 0; n < subgroup_size_; ++n)
        out.u32[first + n] = in.u32[first + (exclusive ? n ^ by[n] : by[n])];
      return;
    }
  }
  for (const uint32_t n : lanes) {
    const uint32_t by = s.in[1].u32[n];
    const uint32_t from = exclusive ? (n - first) ^ by : by;
    const bool active = from < subgroup_size_ &&
                        (whole || std::binary_search(lanes.begin(), lanes.end(), first + from));
    if (!active) {
      return violate(
          s.id, n,
          "reads subgroup lane " + std::to_string(from) + ", which is inactive or does not exist");
    }
    out.set(n, in.get(first + from));
  }
}

}  // namespace reprise::kernel
