// RNN, GRU, LSTM, and RecurrentSteps, which computes one of them from the projections of its inputs
// and W. States and gates are in double; outputs are rounded at the end of each step.
#include <algorithm>

#include "runtime/host/nn/recurrent.h"
#include "runtime/host/packed_matrix.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

constexpr size_t kOmitted = ~size_t{0};

/// The positions of the inputs of a call.
struct Inputs {
  size_t x, w, r, bias, lengths, h, c, peephole;
};
constexpr Inputs kLayer{0, 1, 2, 3, 4, 5, 6, 7};
constexpr Inputs kSteps{0, kOmitted, 1, 2, 3, 4, 5, 6};

bool has_products(const Inputs& at) {
  return at.w == kOmitted;
}

struct Problem {
  RecurrentCell cell = RecurrentCell::Rnn;
  int64_t steps = 0, batch = 0, inputs = 0, hidden = 0, directions = 1, gates = 1;
  bool reverse = false;  // of the only direction
  bool batch_major = false, linear_before_reset = false, input_forget = false;
  double clip = 0;                      // 0: none
  std::vector<Activation> activations;  // per direction: 1 (RNN), 2 (GRU) or 3 (LSTM)
  const HostTensor* x = nullptr;
  std::vector<double> bias, h, c;
  std::vector<double> peephole;  // empty if there is none
  Dims lengths;
};

Status check_tensor(const Call& c, size_t i, std::string_view role, const Dims& dims) {
  RP_TRY(require_same_dtype(c, 0, i));
  if (input(c, i).dims() == dims) return {};
  return invalid_input(describe_input(c, i, role) + ": must be " + dims_str(dims));
}

/// An optional tensor with exactly these dims, as doubles; zeros if it is absent.
Result<std::vector<double>> read_tensor(const Call& c, size_t i, std::string_view role,
                                        const Dims& dims) {
  if (!has_input(c, i)) return allocate_scratch(dims);
  RP_TRY(check_tensor(c, i, role, dims));
  return load_all(input(c, i));
}

/// Reads states as [directions, batch, hidden], whether or not they are given batch-major.
Result<std::vector<double>> read_state(const Call& call, const Problem& p, size_t i,
                                       std::string_view role) {
  if (!p.batch_major) {
    return read_tensor(call, i, role, {p.directions, p.batch, p.hidden});
  }
  RP_ASSIGN(const auto raw, read_tensor(call, i, role, {p.batch, p.directions, p.hidden}));
  std::vector<double> out(raw.size());
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t d = 0; d < p.directions; ++d) {
      std::copy_n(raw.begin() + (b * p.directions + d) * p.hidden, p.hidden,
                  out.begin() + (d * p.batch + b) * p.hidden);
    }
  }
  return out;
}

/// The biases of W and R. Projections of the inputs have those of W.
Result<std::vector<double>> read_bias(const Call& call, const Inputs& at, const Problem& p) {
  const int64_t rows = product(Dims{p.gates, p.hidden});
  if (!has_products(at))
    return read_tensor(call, at.bias, "B", {p.directions, product(Dims{2, rows})});
  RP_ASSIGN(const auto of_r, read_tensor(call, at.bias, "the bias", {p.directions, rows}));
  RP_ASSIGN(auto both, allocate_scratch(Dims{p.directions, 2, rows}));
  for (int64_t d = 0; d < p.directions; ++d)
    std::copy_n(of_r.begin() + d * rows, rows, both.begin() + (2 * d + 1) * rows);
  return both;
}

Status read_direction(const Call& call, Problem& p) {
  const std::string direction = call.attrs.get_string("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return invalid_model("attribute 'direction' is '" + direction + "'");
  }
  p.directions = direction == "bidirectional" ? 2 : 1;
  p.reverse = direction == "reverse";
  return {};
}

Status read_lengths(const Call& call, const Inputs& at, Problem& p) {
  if (!has_input(call, at.lengths)) {
    // Without steps or states the batch may have any size.
    if (p.steps > 0 && p.hidden > 0) p.lengths.assign(static_cast<size_t>(p.batch), p.steps);
    return {};
  }
  RP_ASSIGN(p.lengths, tensor_ints(input(call, at.lengths),
                                   describe_input(call, at.lengths, "sequence_lens")));
  if (static_cast<int64_t>(p.lengths.size()) != p.batch) {
    return invalid_input(describe_input(call, at.lengths, "sequence_lens") +
                         ": needs one length per row");
  }
  for (int64_t n : p.lengths) {
    if (n < 0 || n > p.steps) {
      return invalid_input("sequence length " + std::to_string(n) + " is outside 0 to " +
                           std::to_string(p.steps));
    }
  }
  return {};
}

Result<Problem> read_problem(const Call& call, RecurrentCell cell, const Inputs& at) {
  RP_TRY(require_float(call, at.x, "X"));
  RP_TRY(require_rank(call, at.x, "X", 3, 3));
  RP_TRY(require_rank(call, at.r, "R", 3, 3));
  Problem p;
  p.cell = cell;
  p.gates = gates_of(cell);
  p.batch_major = call.attrs.get_int("layout", 0) != 0;
  const Dims& x = input(call, at.x).dims();
  p.steps = x[p.batch_major ? 1 : 0];
  p.batch = x[p.batch_major ? 0 : 1];
  p.inputs = x[2];
  p.hidden = input(call, at.r).dims()[2];
  if (call.attrs.get_int("hidden_size", p.hidden) != p.hidden) {
    return invalid_model("attribute 'hidden_size' differs from R's " + std::to_string(p.hidden));
  }
  RP_TRY(read_direction(call, p));
  p.clip = static_cast<double>(call.attrs.get_float("clip", 0));
  p.linear_before_reset = call.attrs.get_int("linear_before_reset", 0) != 0;
  p.input_forget = call.attrs.get_int("input_forget", 0) != 0;
  RP_ASSIGN(p.activations, read_activations(call.attrs, cell, p.directions));
  p.x = &input(call, at.x);
  const int64_t rows = product(Dims{p.gates, p.hidden});
  if (has_products(at)) {
    RP_TRY(check_tensor(call, at.x, "X", {p.steps, p.batch, product(Dims{p.directions, rows})}));
  } else {
    RP_TRY(check_tensor(call, at.w, "W", {p.directions, rows, p.inputs}));
  }
  RP_TRY(check_tensor(call, at.r, "R", {p.directions, rows, p.hidden}));
  RP_ASSIGN(p.bias, read_bias(call, at, p));
  RP_ASSIGN(p.h, read_state(call, p, at.h, "initial_h"));
  RP_TRY(read_lengths(call, at, p));
  if (cell == RecurrentCell::Lstm) {
    RP_ASSIGN(p.c, read_state(call, p, at.c, "initial_c"));
    if (has_input(call, at.peephole)) {
      RP_ASSIGN(p.peephole,
                read_tensor(call, at.peephole, "P", {p.directions, product(Dims{3, p.hidden})}));
    }
  }
  return p;
}

/// W and R of each direction. There is no W where the inputs are projections.
struct PackedWeights : Prepared {
  std::vector<PackedMatrix> w, r;
};

/// The tensors must be [1 or 2, rows, columns].
std::shared_ptr<const PackedWeights> pack_weights(const Call& call, const Inputs& at) {
  auto state = std::make_shared<PackedWeights>();
  for (const size_t i : {at.w, at.r}) {
    if (i == kOmitted) continue;
    const HostTensor& t = input(call, i);
    const Dims& d = t.dims();
    for (int64_t k = 0; k < d[0]; ++k)
      (i == at.w ? state->w : state->r).emplace_back(t, k * d[1] * d[2], d[2], d[1]);
  }
  return state;
}

/// Nothing if W or R is not constant, or is not what the kernel will accept, or has no elements:
/// the other dims may then have any size.
PrepareResult prepare_weights(const Call& call, const Inputs& at) {
  for (const size_t i : {at.w, at.r}) {
    if (i == kOmitted) continue;
    if (!has_input(call, i) || !require_float(call, i, "").ok() || input(call, i).rank() != 3 ||
        input(call, i).dims()[0] > 2 || input(call, i).count() == 0)
      return std::shared_ptr<const Prepared>();
  }
  return PrepareResult(pack_weights(call, at));
}
PrepareResult prepare_layer(const Call& call) {
  return prepare_weights(call, kLayer);
}
PrepareResult prepare_steps(const Call& call) {
  return prepare_weights(call, kSteps);
}

/// Computes one direction. The projections of all inputs by W do not depend on the states, so they
/// are computed for many steps at once.
class Runner {
 public:
  Runner(const Problem& p, const PackedWeights& weights, int64_t direction)
      : p_(p),
        direction_(direction),
        backwards_(p.reverse || direction == 1),
        rows_(p.gates * p.hidden),
        w_(weights.w.empty() ? nullptr : &weights.w[static_cast<size_t>(direction)]),
        r_(weights.r[static_cast<size_t>(direction)]),
        bias_(p.bias.data() + direction * 2 * rows_),
        peephole_(p.peephole.empty() ? nullptr : p.peephole.data() + direction * 3 * p.hidden),
        f_(p.activations.data() + direction * functions_of(p.cell)) {}

  /// Advances the states to the final ones, and writes those of each step to y.
  Status run(std::vector<double>& states_h, std::vector<double>& states_c, HostTensor& y);

 private:
  // About 16 MB of projections.
  static constexpr int64_t kProducts = int64_t{1} << 21;

  struct Matrix {
    double* values;
    int64_t rows, stride;
  };
  static void add_bias(const Matrix& m, PackedMatrix::Columns columns, const double* bias) {
    for (int64_t i = 0; i < m.rows; ++i) {
      double* row = m.values + i * m.stride;
      for (int64_t k = columns.begin; k < columns.end; ++k) row[k] += bias[k];
    }
  }
  void multiply_inputs(int64_t first, int64_t count);
  void multiply_states(const double* h, PackedMatrix::Columns columns);
  /// The position in the sequence of the step that is computed as number s.
  int64_t time(int64_t b, int64_t s) const { return backwards_ ? at(p_.lengths, b) - 1 - s : s; }
  bool is_active(int64_t b, int64_t s) const { return s < at(p_.lengths, b); }

  double clipped(double v) const { return p_.clip > 0 ? std::clamp(v, -p_.clip, p_.clip) : v; }
  /// The gates of one row of the batch: W x + b and R h + b.
  struct Gates {
    const double* from_x;
    double* from_h;
  };
  double gate(const Gates& g, int64_t index, int64_t k, double extra = 0) const {
    const int64_t i = index * p_.hidden + k;
    return clipped(g.from_x[i] + g.from_h[i] + extra);
  }
  Gates gates(int64_t b, int64_t row) {
    return {from_x_.data() + row * rows_, from_h_.data() + b * rows_};
  }
  void reset_gru(const Gates& g, const double* h, double* reset) const;
  void finish(const Gates& g, double* h, double* c) const;
  void finish_gru(const Gates& g, double* h) const;
  void finish_lstm(const Gates& g, double* h, double* c) const;

  const Problem& p_;
  const int64_t direction_;
  const bool backwards_;
  const int64_t rows_;
  const PackedMatrix* const w_;  // null if the inputs are projections
  const PackedMatrix& r_;
  const double* bias_;
  const double* peephole_;  // null if there is none
  const Activation* f_;
  std::vector<double> x_;       // [steps, batch, inputs]
  std::vector<double> from_x_;  // [steps, batch, rows]
  std::vector<double> from_h_;  // [batch, rows]
  std::vector<double> reset_;   // [batch, hidden]
};

/// from_x_ = W x + b for steps [first, first + count). Rows whose sequence has ended are of zeros.
void Runner::multiply_inputs(int64_t first, int64_t count) {
  const int64_t columns = w_ == nullptr ? rows_ : p_.inputs;  // of the direction
  const int64_t offset = w_ == nullptr ? direction_ * rows_ : 0;
  std::vector<double>& loaded = w_ == nullptr ? from_x_ : x_;
  std::fill(loaded.begin(), loaded.end(), 0.0);
  for (int64_t s = 0; s < count; ++s) {
    for (int64_t b = 0; b < p_.batch; ++b) {
      if (!is_active(b, first + s)) continue;
      const int64_t t = time(b, first + s);
      const int64_t row = p_.batch_major ? b * p_.steps + t : t * p_.batch + b;
      load(*p_.x, row * p_.inputs + offset, 1, columns,
           loaded.data() + (s * p_.batch + b) * columns);
    }
  }
  if (w_ == nullptr) return;
  const int64_t rows = count * p_.batch;
  w_->multiply({x_.data(), rows, p_.inputs}, {0, rows_}, {from_x_.data(), rows_});
  add_bias({from_x_.data(), rows, rows_}, {0, rows_}, bias_);
}

/// `columns` of from_h_ = R h + b.
void Runner::multiply_states(const double* h, PackedMatrix::Columns columns) {
  r_.multiply({h, p_.batch, p_.hidden}, columns, {from_h_.data(), rows_});
  add_bias({from_h_.data(), p_.batch, rows_}, columns, bias_ + rows_);
}

/// Gates z, r, h.
void Runner::reset_gru(const Gates& g, const double* h, double* reset) const {
  for (int64_t k = 0; k < p_.hidden; ++k) {
    const double r = f_[0](gate(g, 1, k));
    if (p_.linear_before_reset) {
      g.from_h[2 * p_.hidden + k] *= r;
    } else {
      reset[k] = r * h[k];
    }
  }
}

void Runner::finish_gru(const Gates& g, double* h) const {
  for (int64_t k = 0; k < p_.hidden; ++k) {
    const double z = f_[0](gate(g, 0, k));
    h[k] = (1 - z) * f_[1](gate(g, 2, k)) + z * h[k];
  }
}

/// Gates i, o, f, c; peepholes i, o, f. Without peepholes an infinite cell is not multiplied by 0.
void Runner::finish_lstm(const Gates& g, double* h, double* c) const {
  const int64_t n = p_.hidden;
  const auto seen = [&](int64_t which, int64_t k) {
    return peephole_ == nullptr ? 0 : peephole_[which * n + k] * c[k];
  };
  for (int64_t k = 0; k < n; ++k) {
    const double i = f_[0](gate(g, 0, k, seen(0, k)));
    const double f = p_.input_forget ? 1 - i : f_[0](gate(g, 2, k, seen(2, k)));
    c[k] = f * c[k] + i * f_[1](gate(g, 3, k));
    h[k] = f_[0](gate(g, 1, k, seen(1, k))) * f_[2](c[k]);
  }
}

void Runner::finish(const Gates& g, double* h, double* c) const {
  switch (p_.cell) {
    case RecurrentCell::Rnn:
      for (int64_t k = 0; k < p_.hidden; ++k) h[k] = f_[0](gate(g, 0, k));
      break;
    case RecurrentCell::Gru:
      finish_gru(g, h);
      break;
    case RecurrentCell::Lstm:
      finish_lstm(g, h, c);
      break;
  }
}

Status Runner::run(std::vector<double>& states_h, std::vector<double>& states_c, HostTensor& y) {
  const int64_t n = p_.hidden;
  const int64_t longest = p_.lengths.empty() ? 0 : *std::ranges::max_element(p_.lengths);
  if (n == 0 || longest == 0) return {};  // the other dims may have any size
  double* const h = states_h.data() + direction_ * p_.batch * n;
  double* const c = states_c.data() + (states_c.empty() ? 0 : direction_ * p_.batch * n);
  const int64_t per_step = product(Dims{p_.batch, std::max({rows_, p_.inputs, int64_t{1}})});
  const int64_t chunk = std::clamp<int64_t>(kProducts / std::max<int64_t>(per_step, 1), 1,
                                            std::max<int64_t>(p_.steps, 1));
  RP_ASSIGN(x_, allocate_scratch(Dims{chunk, p_.batch, p_.inputs}));
  RP_ASSIGN(from_x_, allocate_scratch(Dims{chunk, p_.batch, rows_}));
  RP_ASSIGN(from_h_, allocate_scratch(Dims{p_.batch, rows_}));
  RP_ASSIGN(reset_, allocate_scratch(Dims{p_.batch, n}));
  const bool late_product = p_.cell == RecurrentCell::Gru && !p_.linear_before_reset;
  for (int64_t s = 0; s < longest; ++s) {
    const int64_t in_chunk = s % chunk;
    if (in_chunk == 0) multiply_inputs(s, std::min(chunk, longest - s));
    multiply_states(h, {0, late_product ? 2 * n : rows_});
    if (p_.cell == RecurrentCell::Gru) {
      for (int64_t b = 0; b < p_.batch; ++b) {
        if (is_active(b, s))
          reset_gru(gates(b, in_chunk * p_.batch + b), h + b * n, reset_.data() + b * n);
      }
    }
    if (late_product) multiply_states(reset_.data(), {2 * n, rows_});
    for (int64_t b = 0; b < p_.batch; ++b) {
      if (!is_active(b, s)) continue;
      finish(gates(b, in_chunk * p_.batch + b), h + b * n, c + (states_c.empty() ? 0 : b * n));
      const int64_t t = time(b, s);
      const int64_t out = p_.batch_major ? (b * p_.steps + t) * p_.directions + direction_
                                         : (t * p_.directions + direction_) * p_.batch + b;
      store(y, out * n, n, h + b * n);
    }
  }
  return {};
}

Result<HostTensor> final_state(const Problem& p, DType dtype, const std::vector<double>& v) {
  if (!p.batch_major) return store_all(dtype, {p.directions, p.batch, p.hidden}, v);
  RP_ASSIGN(auto t, allocate(dtype, {p.batch, p.directions, p.hidden}));
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t d = 0; d < p.directions; ++d) {
      store(t, (b * p.directions + d) * p.hidden, p.hidden,
            v.data() + (d * p.batch + b) * p.hidden);
    }
  }
  return t;
}

KernelResult compute(const Call& call, RecurrentCell cell, const Inputs& at) {
  RP_ASSIGN(Problem p, read_problem(call, cell, at));
  const DType t = input(call, 0).dtype();
  RP_ASSIGN(auto y, allocate(t, p.batch_major ? Dims{p.batch, p.steps, p.directions, p.hidden}
                                              : Dims{p.steps, p.directions, p.batch, p.hidden}));
  const auto weights = call.prepared ? std::static_pointer_cast<const PackedWeights>(call.prepared)
                                     : pack_weights(call, at);
  for (int64_t d = 0; d < p.directions; ++d) RP_TRY(Runner(p, *weights, d).run(p.h, p.c, y));
  Tensors out;
  out.push_back(std::move(y));
  if (call.output_count > 1) {
    RP_ASSIGN(auto h, final_state(p, t, p.h));
    out.push_back(std::move(h));
  }
  if (call.output_count > 2) {
    RP_ASSIGN(auto c, final_state(p, t, p.c));
    out.push_back(std::move(c));
  }
  return out;
}

template <RecurrentCell cell>
KernelResult layer(const Call& call) {
  constexpr bool lstm = cell == RecurrentCell::Lstm;
  RP_TRY(check_arity(call, 3, lstm ? 8 : 6, lstm ? 3 : 2));
  return compute(call, cell, kLayer);
}

KernelResult steps(const Call& call) {
  RP_TRY(check_arity(call, 2, 7, 3));
  const int64_t cell = call.attrs.get_int("cell", -1);
  if (cell < 0 || cell > static_cast<int64_t>(RecurrentCell::Lstm))
    return invalid_model("attribute 'cell' must be 0, 1 or 2");
  return compute(call, static_cast<RecurrentCell>(cell), kSteps);
}

}  // namespace

Table recurrent_table() {
  static constexpr Entry kTable[] = {{"RNN", layer<RecurrentCell::Rnn>, prepare_layer},
                                     {"GRU", layer<RecurrentCell::Gru>, prepare_layer},
                                     {"LSTM", layer<RecurrentCell::Lstm>, prepare_layer},
                                     {"RecurrentSteps", steps, prepare_steps}};
  return kTable;
}

}  // namespace reprise::host
