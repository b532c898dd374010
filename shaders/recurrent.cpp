#include "shaders/recurrent.h"

#include <algorithm>
#include <cmath>

#include "codegen/target/device_costs.h"
#include "shaders/contraction.h"

namespace reprise::shaders {

using kernel::Ty;
using kernel::Type;

namespace {

/// Writes the kernel of one tile.
class RecurrentWriter {
 public:
  explicit RecurrentWriter(const RecurrentWork& w)
      : r_(w.recurrence),
        size_(w.size),
        t_(w.tile),
        first_row_(w.origin.row),
        b_(w.recurrence.builder()),
        type_(kernel::vec(kernel::kF32, t_.width)),
        states_(b_.shared("states", Ty::F32, count(2 * t_.rows))),
        reset_(size_.resets_states() ? b_.shared("reset", Ty::F32, count(t_.rows)) : -1),
        sums_(b_, "sum", type_, t_.rows, size_.gates(), std::nullopt),
        cells_(b_, "cell", type_, lstm() ? t_.rows : 0, t_.blocks, std::nullopt),
        updates_(b_, "update", type_, size_.resets_states() ? t_.rows : 0, t_.blocks,
                 std::nullopt) {}

  Status write() {
    for (int i = 0; i < t_.rows; ++i) {
      RP_ASSIGN(Sequence s, r_.sequence(first_row_ + i));
      sequences_.push_back(std::move(s));
    }
    const Value local = local_index(b_);
    begin_ = r_.first_step();
    for (int n = 0; n < t_.blocks; ++n)
      blocks_.push_back(r_.units(local + n * static_cast<int64_t>(t_.workgroup)));
    RP_TRY(each([&](int row, int block) { return start(row, block); }));
    b_.barrier();
    RP_TRY(r_.over_steps([&](Value step) {
      const Value from = step % 2 * half();
      return write_step(step, from, b_.i32(half()) - from);
    }));
    return each([&](int row, int block) { return end(row, block); });
  }

 private:
  bool lstm() const { return size_.cell == RecurrentCell::Lstm; }
  uint32_t count(int rows) const { return static_cast<uint32_t>(rows * size_.hidden); }
  int64_t half() const { return int64_t{t_.rows} * size_.hidden; }
  const Sequence& sequence(int row) const { return sequences_[static_cast<size_t>(row)]; }
  const Units& units(int block) const { return blocks_[static_cast<size_t>(block)]; }

  /// Writes code for the units of an invocation that exist.
  Status each_block(const std::function<Status(int block)>& body) {
    for (int n = 0; n < t_.blocks; ++n) RP_TRY(r_.guard(units(n).exists, [&] { return body(n); }));
    return {};
  }
  Status each(const std::function<Status(int row, int block)>& body) {
    return each_block([&](int block) -> Status {
      for (int row = 0; row < t_.rows; ++row) RP_TRY(body(row, block));
      return {};
    });
  }

  /// The place of the units in an array of the states of all rows.
  Value place(int row, int block) {
    return units(block).vec * t_.width + int64_t{row} * size_.hidden;
  }
  Value states(int array, Value from, int row, int block) {
    return b_.shared_load(array, from + place(row, block), t_.width);
  }
  Value one() { return {b_, b_.constant(type_, 1)}; }

  Status start(int row, int block) {
    RP_ASSIGN(const Val h, r_.initial(RecurrentState::H, sequence(row), units(block)));
    b_.shared_store(states_, begin_ % 2 * half() + place(row, block), h);
    if (!lstm()) return {};
    RP_ASSIGN(const Val c, r_.initial(RecurrentState::C, sequence(row), units(block)));
    cells_.store(row, block, c);
    return {};
  }

  Status end(int row, int block) {
    return r_.guard(sequence(row).exists, [&]() -> Status {
      const Value from = r_.end_step() % 2 * half();
      const Value h = states(states_, from, row, block);
      RP_TRY(r_.store_final(RecurrentState::H, sequence(row), units(block), h));
      if (!lstm()) return {};
      return r_.store_final(RecurrentState::C, sequence(row), units(block),
                            cells_.load(row, block));
    });
  }

  /// Reads the states at `from` and writes those at `to`.
  Status write_step(Value step, Value from, Value to) {
    std::vector<Expr> at;
    for (const Sequence& s : sequences_) at.push_back(r_.position(step, s));
    if (size_.resets_states()) {
      RP_TRY(each_block([&](int block) -> Status {
        RP_TRY(add_up(at, block, {0, 2}, states_, from));
        for (int row = 0; row < t_.rows; ++row) {
          updates_.store(row, block, gate(0, row, 0));
          const Value h = states(states_, from, row, block);
          b_.shared_store(reset_, place(row, block), gate(0, row, 1) * h);
        }
        return {};
      }));
      b_.barrier();
    }
    RP_TRY(each_block([&](int block) -> Status {
      if (size_.resets_states()) {
        RP_TRY(add_up(at, block, {2, 3}, reset_, b_.i32(0)));
      } else {
        RP_TRY(add_up(at, block, {0, size_.gates()}, states_, from));
      }
      for (int row = 0; row < t_.rows; ++row)
        RP_TRY(finish(step, at[static_cast<size_t>(row)], from, to, row, block));
      return {};
    }));
    b_.barrier();
    return {};
  }

  struct Gates {
    int begin, end;
  };

  /// Whether the projection of the inputs is not part of the gate's sum: a GRU multiplies the rest
  /// of it by the reset gate first.
  bool adds_projection_later(int gate) const {
    return size_.cell == RecurrentCell::Gru && size_.linear_before_reset && gate == 2;
  }

  /// Sets the sums of the gates, for all rows.
  Status add_up(const std::vector<Expr>& at, int block, Gates gates, int array, Value from) {
    const Units& u = units(block);
    std::vector<RecurrentWeights> weights;
    for (int g = gates.begin; g < gates.end; ++g) {
      weights.push_back(r_.weights_of(g, u));
      RP_ASSIGN(const Val bias, r_.bias(g, u));
      for (int row = 0; row < t_.rows; ++row) {
        Val sum = bias ? bias : b_.constant(type_, 0);
        if (!adds_projection_later(g)) {
          RP_ASSIGN(const Val x, r_.projection(at[static_cast<size_t>(row)], sequence(row), g, u));
          sum = b_.add(sum, x);
        }
        sums_.store(row, g, sum);
      }
    }
    return r_.over_states(t_.unroll, [&](Value k) -> Status {
      const int width = t_.unroll % 4 == 0 ? 4 : 1;
      for (int first = 0; first < t_.unroll; first += width)
        RP_TRY(add_products(weights, gates, array, from, k + first, width));
      return {};
    });
  }

  /// Adds the products of `width` states from k.
  Status add_products(const std::vector<RecurrentWeights>& weights, Gates gates, int array,
                      Value from, Value k, int width) {
    std::vector<Val> h;
    h.reserve(static_cast<size_t>(t_.rows));
    for (int row = 0; row < t_.rows; ++row)
      h.push_back(b_.shared_load(array, from + int64_t{row} * size_.hidden + k, width));
    for (int l = 0; l < width; ++l) {
      for (int g = gates.begin; g < gates.end; ++g) {
        RP_ASSIGN(const Val w, r_.weight(weights[static_cast<size_t>(g - gates.begin)], k + l));
        for (int row = 0; row < t_.rows; ++row) {
          const Val x =
              width == 1 ? h[static_cast<size_t>(row)] : b_.extract(h[static_cast<size_t>(row)], l);
          sums_.store(row, g,
                      multiply_add(b_, b_.splat(x, t_.width), w, sums_.load(row, g), t_.fma));
        }
      }
    }
    return {};
  }

  Value clipped(Value x) {
    if (size_.clip <= 0) return x;
    return {b_, b_.min(b_.max(x, b_.constant(type_, -size_.clip)), b_.constant(type_, size_.clip))};
  }
  /// The function of a gate's sum, to which `more` is added.
  Value gate(int function, int row, int g, Val more = {}) {
    Value sum = sums_.load(row, g);
    if (more) sum = sum + Value{b_, more};
    return r_.activated(function, clipped(sum));
  }

  /// The new states of a row's units, which those of a sequence that has ended keep.
  Status finish(Value step, const Expr& at, Value from, Value to, int row, int block) {
    const Sequence& s = sequence(row);
    const Units& u = units(block);
    const Value before = states(states_, from, row, block);
    Value h;
    switch (size_.cell) {
      case RecurrentCell::Rnn:
        h = gate(0, row, 0);
        break;
      case RecurrentCell::Gru: {
        RP_ASSIGN(h, gru(at, before, row, block));
        break;
      }
      case RecurrentCell::Lstm: {
        RP_ASSIGN(h, lstm_state(step < s.length, row, block));
        break;
      }
    }
    const Val goes_on = b_.splat(step < s.length, t_.width);
    b_.shared_store(states_, to + place(row, block), b_.select(goes_on, h, before));
    const Val stored = b_.select(goes_on, h, b_.constant(type_, 0));
    return r_.guard(s.exists, [&] { return r_.store_step(at, s, u, stored); });
  }

  Result<Value> gru(const Expr& at, Value before, int row, int block) {
    Value update, hidden;
    if (size_.resets_states()) {
      update = updates_.load(row, block);
      hidden = gate(1, row, 2);
    } else {
      update = gate(0, row, 0);
      RP_ASSIGN(const Val x, r_.projection(at, sequence(row), 2, units(block)));
      sums_.store(row, 2, sums_.load(row, 2) * gate(0, row, 1));
      hidden = gate(1, row, 2, x);
    }
    return (one() - update) * hidden + update * before;
  }

  Result<Value> lstm_state(Val goes_on, int row, int block) {
    const Units& u = units(block);
    const Value c = cells_.load(row, block);
    const auto seen = [&](int which, Value cell) -> Result<Val> {
      RP_ASSIGN(const Val weight, r_.peephole(which, u));
      return weight ? b_.mul(weight, cell) : Val{};
    };
    RP_ASSIGN(const Val by_input, seen(0, c));
    const Value input = gate(0, row, 0, by_input);
    Value forget = one() - input;
    if (!size_.input_forget) {
      RP_ASSIGN(const Val by_forget, seen(2, c));
      forget = gate(0, row, 2, by_forget);
    }
    const Value cell = forget * c + input * gate(1, row, 3);
    cells_.store(row, block, b_.select(b_.splat(goes_on, t_.width), cell, c));
    RP_ASSIGN(const Val by_output, seen(1, cell));
    return gate(0, row, 1, by_output) * r_.activated(2, cell);
  }

  Recurrence& r_;
  const RecurrentSize& size_;
  const RecurrentTile& t_;
  Value first_row_, begin_;
  kernel::Builder& b_;
  Type type_;
  int states_, reset_;  // shared arrays
  LocalGrid sums_, cells_, updates_;
  std::vector<Sequence> sequences_;
  std::vector<Units> blocks_;
};

/// The largest divisor of n that is at most `most`, and a multiple of 4 if n is.
int unrolled(int n, int most) {
  const int unit = n % 4 == 0 ? 4 : 1;
  for (int d = std::max(most / unit, 1) * unit; d > unit; d -= unit) {
    if (n % d == 0) return d;
  }
  return unit;
}

/// Shared memory of a tile with so many rows.
uint32_t shared_bytes(const RecurrentSize& size, int rows) {
  return static_cast<uint32_t>((size.resets_states() ? 3 : 2) * rows * size.hidden * 4);
}

double cost_of(const RecurrentSize& size, const TargetFacts& device, const RecurrentTile& t) {
  const double vectors = std::ceil(static_cast<double>(size.hidden) / t.width);
  const double multiply_adds = static_cast<double>(size.gates()) * size.hidden;
  const double workgroups = size.directions * std::ceil(size.batch / t.rows);
  if (!device.cpu_type())
    return gpu_time(workgroups, t.workgroup, size.steps * t.blocks,
                    multiply_adds * (kGpuCosts.load + 4.0 * t.rows));
  const CpuCosts& price = cpu_costs(device);
  return std::max(workgroups, price.cores) * size.steps * vectors * multiply_adds *
         (price.vector_load + 4.0 * t.rows) / kCpuLanes;
}

}  // namespace

std::string RecurrentTile::describe() const {
  return "recurrent, " + std::to_string(rows) + (rows == 1 ? " row" : " rows") +
         " per workgroup of " + std::to_string(workgroup) + " v" + std::to_string(width);
}

std::vector<RecurrentTile> recurrent_tiles(const RecurrentSize& size, const TargetFacts& device) {
  constexpr uint32_t kMostInvocations = 256;
  constexpr int kMaxProducts = 32;  // in the body of the innermost loop
  const uint32_t room = device.shared_bytes();
  std::vector<RecurrentTile> out;
  for (const int rows : {1, 2, 4, 8}) {
    if (rows > 1 && (rows >= 2 * size.batch || shared_bytes(size, rows) > room)) break;
    RecurrentTile t;
    t.rows = rows;
    t.columns = size.hidden;
    t.unit = Unit::Workgroup;
    t.width = size.hidden % 4 == 0 ? 4 : 1;
    const auto vectors = static_cast<uint32_t>(size.hidden / t.width);
    t.workgroup = std::min({vectors, device.workgroup_invocations(), kMostInvocations});
    t.blocks = static_cast<int>((vectors + t.workgroup - 1) / t.workgroup);
    t.unroll = unrolled(size.hidden, kMaxProducts / (size.gates() * rows * t.blocks));
    t.fma = !device.cpu_type();
    t.cost = cost_of(size, device, t);
    out.push_back(t);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const RecurrentTile& a, const RecurrentTile& b) { return a.cost < b.cost; });
  return out;
}

Status write_recurrence(const RecurrentWork& work) {
  return RecurrentWriter(work).write();
}

}  // namespace reprise::shaders
