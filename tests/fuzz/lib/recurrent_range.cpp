#include "tests/fuzz/lib/recurrent_range.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/host/nn/recurrent.h"
#include "tests/support/tensors.h"

namespace reprise::fuzz {

namespace {

constexpr double kLargest = std::numeric_limits<float>::max();
constexpr double kSmallestNormal = std::numeric_limits<float>::min();

/// A number in double, and whether fp32 may have any other in its place.
struct Ranged {
  double value = 0;
  bool open = false;
};

Ranged ranged(double v, bool open) {
  return {v, open || (std::isfinite(v) && std::fabs(v) > kLargest)};
}
Ranged operator+(Ranged a, Ranged b) {
  return ranged(a.value + b.value, a.open || b.open);
}
Ranged operator-(Ranged a, Ranged b) {
  return ranged(a.value - b.value, a.open || b.open);
}
Ranged operator*(Ranged a, Ranged b) {
  const auto vanishes = [](double v) { return v != 0 && std::fabs(v) < kSmallestNormal; };
  const bool meets =
      (std::isinf(a.value) && vanishes(b.value)) || (std::isinf(b.value) && vanishes(a.value));
  return ranged(a.value * b.value, a.open || b.open || meets);
}

/// A sum that kernels may add up in any order.
class Sum {
 public:
  void add(Ranged term) {
    sum_ = sum_ + term;
    if (std::isfinite(term.value)) magnitude_ += std::fabs(term.value);
  }
  Ranged get() const { return {sum_.value, sum_.open || magnitude_ > kLargest}; }

 private:
  Ranged sum_;
  double magnitude_ = 0;
};

class Steps {
 public:
  static Result<Steps> of(const host::Call& call) {
    Steps s(call);
    RP_ASSIGN(s.f_, host::read_activations(call.attrs, s.cell_, s.directions_));
    return s;
  }

  std::vector<std::vector<bool>> run() {
    const auto states = static_cast<size_t>(directions_ * batch_ * hidden_);
    std::vector<std::vector<bool>> open{std::vector<bool>(static_cast<size_t>(steps_) * states),
                                        std::vector<bool>(states), std::vector<bool>(states)};
    for (int64_t d = 0; d < directions_; ++d) {
      for (int64_t b = 0; b < batch_; ++b) run_row(d, b, open);
    }
    return open;
  }

 private:
  using Row = std::vector<Ranged>;

  explicit Steps(const host::Call& call)
      : call_(call),
        cell_(static_cast<RecurrentCell>(call.attrs.get_int("cell", 0))),
        steps_(call.inputs[kX]->dims()[0]),
        batch_(call.inputs[kX]->dims()[1]),
        directions_(call.inputs[kR]->dims()[0]),
        hidden_(call.inputs[kR]->dims()[2]),
        gates_(gates_of(cell_)),
        clip_(static_cast<double>(call.attrs.get_float("clip", 0))),
        late_reset_(call.attrs.get_int("linear_before_reset", 0) != 0),
        input_forget_(call.attrs.get_int("input_forget", 0) != 0),
        reverse_(call.attrs.get_string("direction", "forward") == "reverse") {}

  bool has(size_t i) const { return i < call_.inputs.size() && call_.inputs[i] != nullptr; }
  /// Element i of an optional input.
  Ranged number(size_t input, int64_t i) const {
    return {has(input) ? test::number(*call_.inputs[input], i) : 0, false};
  }
  Ranged activated(int64_t function, Ranged x) const {
    const host::Activation& f =
        f_[static_cast<size_t>(direction_ * functions_of(cell_) + function)];
    return ranged(f(clip_ > 0 ? std::clamp(x.value, -clip_, clip_) : x.value), x.open);
  }
  Ranged projection(int64_t gate, int64_t k) const {
    return number(kX, ((time_ * batch_ + row_) * directions_ + direction_) * gates_ * hidden_ +
                          gate * hidden_ + k);
  }
  /// R h + b of a gate, and the projection of the input if it is part of the same sum.
  Ranged product(int64_t gate, int64_t k, const Row& h, bool projected = true) const {
    const int64_t at = (direction_ * gates_ + gate) * hidden_ + k;
    Sum sum;
    if (projected) sum.add(projection(gate, k));
    sum.add(number(kBias, at));
    for (int64_t j = 0; j < hidden_; ++j)
      sum.add(number(kR, at * hidden_ + j) * h[static_cast<size_t>(j)]);
    return sum.get();
  }
  Ranged seen(int64_t which, int64_t k, Ranged c) const {
    if (!has(kPeepholes)) return {};
    return number(kPeepholes, (direction_ * 3 + which) * hidden_ + k) * c;
  }

  void step_gru(Row& h) const {
    const Ranged one{1, false};
    Row reset = h, next = h;
    for (int64_t k = 0; k < hidden_; ++k) {
      Ranged& r = reset[static_cast<size_t>(k)];
      r = activated(0, product(1, k, h));
      if (!late_reset_) r = r * h[static_cast<size_t>(k)];
    }
    for (int64_t k = 0; k < hidden_; ++k) {
      const auto i = static_cast<size_t>(k);
      const Ranged z = activated(0, product(0, k, h));
      const Ranged sum = late_reset_ ? projection(2, k) + reset[i] * product(2, k, h, false)
                                     : product(2, k, reset);
      next[i] = (one - z) * activated(1, sum) + z * h[i];
    }
    h = next;
  }

  void step_lstm(Row& h, Row& c) const {
    const Ranged one{1, false};
    Row next = h;
    for (int64_t k = 0; k < hidden_; ++k) {
      Ranged& cell = c[static_cast<size_t>(k)];
      const Ranged in = activated(0, product(0, k, h) + seen(0, k, cell));
      const Ranged forget =
          input_forget_ ? one - in : activated(0, product(2, k, h) + seen(2, k, cell));
      cell = forget * cell + in * activated(1, product(3, k, h));
      next[static_cast<size_t>(k)] =
          activated(0, product(1, k, h) + seen(1, k, cell)) * activated(2, cell);
    }
    h = next;
  }

  void step(Row& h, Row& c) const {
    if (cell_ == RecurrentCell::Gru) return step_gru(h);
    if (cell_ == RecurrentCell::Lstm) return step_lstm(h, c);
    Row next;
    for (int64_t k = 0; k < hidden_; ++k) next.push_back(activated(0, product(0, k, h)));
    h = next;
  }

  /// One row of the batch in one direction.
  void run_row(int64_t direction, int64_t row, std::vector<std::vector<bool>>& open) {
    direction_ = direction;
    row_ = row;
    const int64_t first = (direction * batch_ + row) * hidden_;
    Row h, c;
    for (int64_t k = 0; k < hidden_; ++k) {
      h.push_back(number(kH, first + k));
      c.push_back(number(kC, first + k));
    }
    const auto length = has(kLengths) ? static_cast<int64_t>(number(kLengths, row).value) : steps_;
    const auto mark = [&](std::vector<bool>& in, int64_t at, const Row& from) {
      for (int64_t k = 0; k < hidden_; ++k)
        in[static_cast<size_t>(at + k)] = from[static_cast<size_t>(k)].open;
    };
    for (int64_t s = 0; s < length; ++s) {
      time_ = reverse_ || direction == 1 ? length - 1 - s : s;
      step(h, c);
      mark(open[0], ((time_ * directions_ + direction) * batch_ + row) * hidden_, h);
    }
    mark(open[1], first, h);
    mark(open[2], first, c);
  }

  const host::Call& call_;
  RecurrentCell cell_;
  int64_t steps_, batch_, directions_, hidden_, gates_;
  double clip_;
  bool late_reset_, input_forget_, reverse_;
  std::vector<host::Activation> f_;
  int64_t direction_ = 0, row_ = 0, time_ = 0;
};

}  // namespace

Result<std::vector<std::vector<bool>>> beyond_fp32(const host::Call& call) {
  RP_ASSIGN(Steps steps, Steps::of(call));
  return steps.run();
}

}  // namespace reprise::fuzz
