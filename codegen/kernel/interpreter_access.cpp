// What invocations exchange: memory, matrices and subgroups, with every access checked.
#include <algorithm>
#include <cmath>

#include "codegen/kernel/interpreter_run.h"
#include "codegen/kernel/native_error.h"

namespace reprise::kernel {

// --- Memory

std::optional<uint64_t> Interpreter::index_of(int32_t id, uint32_t n, const Access& access) {
  const int64_t v = integer_of(lane(access.index)[n], type(access.index).ty);
  const bool inside = v >= 0 && static_cast<uint64_t>(v) + access.lanes <= access.count;
  if (inside && v % access.align == 0) return static_cast<uint64_t>(v);
  violate(id, n,
          "accesses " + access.array + "[" + std::to_string(v) + "], " +
              (inside ? "claimed a multiple of " + std::to_string(access.align)
                      : std::to_string(access.lanes) + " elements, of " +
                            std::to_string(access.count)));
  return std::nullopt;
}

void Interpreter::buffer_access(int32_t id, const Inst& i, const Active& active) {
  const bool load = i.op == Op::Load;
  const std::string& name = k_.buffers[i.imm].name;
  const size_t lanes = load ? i.type.lanes : type(i.args[1]).lanes;
  for (uint32_t n : active) {
    const auto index = index_of(id, n, {i.args[0], lanes, memory_.elements(i.imm), i.align, name});
    if (!index) return;
    for (size_t l = 0; l < lanes; ++l) {
      const bool alone =
          load ? memory_.load(i.imm, *index + l, invocation_id(n), lane(id, l)[n])
          : i.args.size() == 3
              ? memory_.store_bits(i.imm, *index, invocation_id(n), lane(i.args[1])[n],
                                   lane(i.args[2])[n])
              : memory_.store(i.imm, *index + l, invocation_id(n), lane(i.args[1], l)[n]);
      if (alone) continue;
      return violate(
          id, n,
          "races with another invocation on " + name + "[" + std::to_string(*index + l) + "]");
    }
  }
}

void Interpreter::local_access(int32_t id, const Inst& i, const Active& active) {
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
      std::optional<uint64_t> index = 0;
      if (indexed) index = index_of(id, n, {i.args[index_arg], 1, local.count, 1, local.name});
      if (!index) return;
      uint8_t& known = written[*index * size_ + n];
      uint64_t& cell = cells[(*index * local.type.lanes + l) * size_ + n];
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

void Interpreter::shared_access(int32_t id, const Inst& i, const Active& active) {
  const bool load = i.op == Op::SharedLoad;
  const SharedArray& array = k_.shared[i.imm];
  const size_t lanes = load ? i.type.lanes : type(i.args[1]).lanes;
  for (uint32_t n : active) {
    const auto index =
        index_of(id, n, {i.args[0], lanes, array.count, static_cast<uint32_t>(lanes), array.name});
    if (!index) return;
    for (size_t l = 0; l < lanes; ++l) {
      Touch& touch = shared_touches_[i.imm][*index + l];
      const auto element = [&] { return array.name + "[" + std::to_string(*index + l) + "]"; };
      if (load && !touch.written)
        return violate(id, n, "reads " + element() + " before it is written");
      const bool alone = load ? touch.read(n + 1, epoch_) : touch.write(n + 1, epoch_);
      if (!alone) return violate(id, n, "races with another invocation on " + element());
      uint64_t& cell = shared_[i.imm][*index + l];
      if (load) {
        lane(id, l)[n] = cell;
      } else {
        cell = lane(i.args[1], l)[n];
      }
    }
  }
}

void Interpreter::barrier(int32_t id, const Active& active) {
  if (active.size() != size_) {
    violate(id, active[0],
            "waits at a barrier that only " + std::to_string(active.size()) + " of " +
                std::to_string(size_) + " invocations reach");
  }
  ++epoch_;
}

// --- Matrices

void Interpreter::matrix(int32_t id, const Inst& i, const Active& active) {
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

void Interpreter::matrix_access(int32_t id, const Inst& i, uint32_t n) {
  const MatrixAccess a = MatrixAccess::of(i.imm);
  const MatrixVar& m = k_.matrices[a.matrix];
  const SharedArray& array = k_.shared[a.shared];
  std::vector<double>& values = matrices_.of(a.matrix, n / subgroup_size_);
  const bool load = i.op == Op::MatrixLoad;
  const uint64_t lines = a.by_columns ? m.columns : m.rows;
  const uint64_t span = (lines - 1) * a.stride + (a.by_columns ? m.rows : m.columns);
  for (uint32_t l = n; l < n + subgroup_size_; ++l) {
    if (lane(i.args[0])[l] != lane(i.args[0])[n])
      return violate(id, l, "has another index of a matrix than others of its subgroup");
  }
  const auto index = index_of(id, n, {i.args[0], span, array.count, 1, array.name});
  if (!index) return;
  if (load) {
    values.resize(size_t{m.rows} * m.columns);
  } else if (values.empty()) {
    return violate(id, n, "stores matrix " + m.name + " before it is written");
  }
  // Any invocation of the subgroup may touch any element: as one of their own.
  const uint32_t invocation = size_ + 1 + n / subgroup_size_;
  for (uint32_t r = 0; r < m.rows; ++r) {
    for (uint32_t c = 0; c < m.columns; ++c) {
      const uint64_t at = *index + (a.by_columns ? c * a.stride + r : r * a.stride + c);
      double& value = values[r * m.columns + c];
      Touch& touch = shared_touches_[a.shared][at];
      const auto element = [&] { return array.name + "[" + std::to_string(at) + "]"; };
      if (load && !touch.written)
        return violate(id, n, "reads " + element() + " before it is written");
      if (!(load ? touch.read(invocation, epoch_) : touch.write(invocation, epoch_)))
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

void Interpreter::subgroup(int32_t id, const Inst& i, const Active& active) {
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

void Interpreter::reduce(int32_t id, const Inst& i, size_t l, std::span<const uint32_t> lanes) {
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

void Interpreter::shuffle(int32_t id, const Inst& i, size_t l, std::span<const uint32_t> lanes) {
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
      return violate(
          id, n,
          "reads subgroup lane " + std::to_string(from) + ", which is inactive or does not exist");
    }
    lane(id, l)[n] = in[first + from];
  }
}

}  // namespace reprise::kernel
