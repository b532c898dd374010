// RNN, GRU and LSTM. States and gates are in double; outputs are rounded at the end of each step.
#include <algorithm>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

enum class Cell : uint8_t { Rnn, Gru, Lstm };

struct Activation {
  double (*f)(double x, double alpha, double beta) = nullptr;
  double alpha = 0, beta = 0;
  double operator()(double x) const { return f(x, alpha, beta); }
};

struct NamedActivation {
  std::string_view name;
  double (*f)(double, double, double);
  float alpha, beta;
};

constexpr NamedActivation kActivations[] = {
    {"Sigmoid", [](double x, double, double) { return 1 / (1 + std::exp(-x)); }, 0, 0},
    {"Tanh", [](double x, double, double) { return std::tanh(x); }, 0, 0},
    {"Relu", [](double x, double, double) { return x < 0 ? 0.0 : x; }, 0, 0},
    {"Affine", [](double x, double a, double b) { return a * x + b; }, 1, 0},
    {"LeakyRelu", [](double x, double a, double) { return x < 0 ? a * x : x; }, 0.01F, 0},
    {"ThresholdedRelu", [](double x, double a, double) { return x > a ? x : 0.0; }, 1, 0},
    {"ScaledTanh", [](double x, double a, double b) { return a * std::tanh(b * x); }, 1, 1},
    {"HardSigmoid", [](double x, double a, double b) { return std::clamp(a * x + b, 0.0, 1.0); },
     0.2F, 0.5F},
    {"Elu", [](double x, double a, double) { return x < 0 ? a * std::expm1(x) : x; }, 1, 0},
    {"Softsign", [](double x, double, double) { return x / (1 + std::fabs(x)); }, 0, 0},
    {"Softplus", [](double x, double, double) { return std::log1p(std::exp(x)); }, 0, 0},
};

struct Problem {
  Cell cell = Cell::Rnn;
  int64_t steps = 0, batch = 0, inputs = 0, hidden = 0, directions = 1, gates = 1;
  bool reverse = false;  // of the only direction
  bool batch_major = false, linear_before_reset = false, input_forget = false;
  double clip = 0;                      // 0: none
  std::vector<Activation> activations;  // per direction: 1 (RNN), 2 (GRU) or 3 (LSTM)
  std::vector<double> x, w, r, bias, peephole, h, c;
  Dims lengths;
};

Result<std::vector<Activation>> read_activations(const Call& call, const Problem& p) {
  static constexpr std::string_view kDefaults[3][3] = {
      {"Tanh"}, {"Sigmoid", "Tanh"}, {"Sigmoid", "Tanh", "Tanh"}};
  const auto kind = static_cast<size_t>(p.cell);
  const size_t each = kind + 1;
  std::vector<std::string> names;
  for (int64_t d = 0; d < p.directions; ++d) {
    for (size_t i = 0; i < each; ++i) names.emplace_back(kDefaults[kind][i]);
  }
  if (const auto* given = call.attrs.get<std::vector<std::string>>("activations")) {
    if (given->size() != names.size()) {
      return invalid_model("attribute 'activations' needs " + std::to_string(names.size()) +
                           " names");
    }
    names = *given;
  }
  const auto* alpha = call.attrs.get<std::vector<float>>("activation_alpha");
  const auto* beta = call.attrs.get<std::vector<float>>("activation_beta");
  std::vector<Activation> out;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto* row = std::find_if(std::begin(kActivations), std::end(kActivations),
                                   [&](const NamedActivation& a) { return a.name == names[i]; });
    if (row == std::end(kActivations)) {
      return unsupported("activation '" + names[i] + "' is not known");
    }
    const float a = alpha != nullptr && i < alpha->size() ? (*alpha)[i] : row->alpha;
    const float b = beta != nullptr && i < beta->size() ? (*beta)[i] : row->beta;
    out.push_back({row->f, static_cast<double>(a), static_cast<double>(b)});
  }
  return out;
}

/// An optional tensor with exactly these dims, as doubles; zeros if it is absent.
Result<std::vector<double>> read_tensor(const Call& c, size_t i, std::string_view role,
                                        const Dims& dims) {
  if (!has_input(c, i)) return allocate_scratch(dims);
  RP_TRY(require_same_dtype(c, 0, i));
  if (input(c, i).dims() != dims) {
    return invalid_input(describe_input(c, i, role) + ": must be " + dims_str(dims));
  }
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

Result<Problem> read_problem(const Call& call, Cell cell) {
  RP_TRY(require_float(call, 0, "X"));
  RP_TRY(require_rank(call, 0, "X", 3, 3));
  RP_TRY(require_rank(call, 2, "R", 3, 3));
  Problem p;
  p.cell = cell;
  p.gates = cell == Cell::Rnn ? 1 : cell == Cell::Gru ? 3 : 4;
  p.batch_major = call.attrs.get_int("layout", 0) != 0;
  const Dims& x = input(call, 0).dims();
  p.steps = x[p.batch_major ? 1 : 0];
  p.batch = x[p.batch_major ? 0 : 1];
  p.inputs = x[2];
  p.hidden = input(call, 2).dims()[2];
  if (call.attrs.get_int("hidden_size", p.hidden) != p.hidden) {
    return invalid_model("attribute 'hidden_size' differs from R's " + std::to_string(p.hidden));
  }
  const std::string direction = call.attrs.get_string("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return invalid_model("attribute 'direction' is '" + direction + "'");
  }
  p.directions = direction == "bidirectional" ? 2 : 1;
  p.reverse = direction == "reverse";
  p.clip = static_cast<double>(call.attrs.get_float("clip", 0));
  p.linear_before_reset = call.attrs.get_int("linear_before_reset", 0) != 0;
  p.input_forget = call.attrs.get_int("input_forget", 0) != 0;
  RP_ASSIGN(p.activations, read_activations(call, p));
  RP_ASSIGN(p.x, load_all(input(call, 0)));
  const int64_t rows = product(Dims{p.gates, p.hidden});
  RP_ASSIGN(p.w, read_tensor(call, 1, "W", {p.directions, rows, p.inputs}));
  RP_ASSIGN(p.r, read_tensor(call, 2, "R", {p.directions, rows, p.hidden}));
  RP_ASSIGN(p.bias, read_tensor(call, 3, "B", {p.directions, product(Dims{2, rows})}));
  p.lengths.assign(static_cast<size_t>(p.batch), p.steps);
  if (has_input(call, 4)) {
    RP_ASSIGN(p.lengths, tensor_ints(input(call, 4), "input 4 (sequence_lens)"));
  }
  if (static_cast<int64_t>(p.lengths.size()) != p.batch) {
    return invalid_input(describe_input(call, 4, "sequence_lens") + ": needs one length per row");
  }
  for (int64_t n : p.lengths) {
    if (n < 0 || n > p.steps) {
      return invalid_input("sequence length " + std::to_string(n) + " is outside 0 to " +
                           std::to_string(p.steps));
    }
  }
  RP_ASSIGN(p.h, read_state(call, p, 5, "initial_h"));
  if (cell == Cell::Lstm) {
    RP_ASSIGN(p.c, read_state(call, p, 6, "initial_c"));
    RP_ASSIGN(p.peephole, read_tensor(call, 7, "P", {p.directions, product(Dims{3, p.hidden})}));
  }
  return p;
}

/// The weights and activations of one direction, and scratch memory for one row of the batch.
class Runner {
 public:
  Runner(const Problem& p, int64_t direction)
      : p_(p),
        rows_(p.gates * p.hidden),
        w_(p.w.data() + direction * rows_ * p.inputs),
        r_(p.r.data() + direction * rows_ * p.hidden),
        bias_(p.bias.data() + direction * 2 * rows_),
        peephole_(p.peephole.data() + (p.peephole.empty() ? 0 : direction * 3 * p.hidden)),
        f_(p.activations.data() + direction * (static_cast<int64_t>(p.cell) + 1)),
        from_x_(static_cast<size_t>(rows_)),
        from_h_(static_cast<size_t>(rows_)),
        reset_(static_cast<size_t>(p.hidden)) {}

  /// Advances the state h (and c) by one input.
  void step(const double* x, double* h, double* c) {
    multiply_input(x, {0, rows_});
    multiply_state(h, {0, rows_});
    switch (p_.cell) {
      case Cell::Rnn:
        for (int64_t k = 0; k < p_.hidden; ++k) h[k] = f_[0](gate(0, k));
        break;
      case Cell::Gru:
        step_gru(h);
        break;
      case Cell::Lstm:
        step_lstm(h, c);
        break;
    }
  }

 private:
  struct Rows {
    int64_t begin, end;
  };
  /// `rows` of from_x_ = W x + b.
  void multiply_input(const double* x, Rows rows) {
    multiply({w_, p_.inputs, bias_}, x, rows, from_x_);
  }
  /// `rows` of from_h_ = R h + b.
  void multiply_state(const double* h, Rows rows) {
    multiply({r_, p_.hidden, bias_ + rows_}, h, rows, from_h_);
  }
  struct Linear {
    const double* weights;
    int64_t columns;
    const double* bias;
  };
  static void multiply(const Linear& m, const double* v, Rows rows, std::vector<double>& out) {
    for (int64_t k = rows.begin; k < rows.end; ++k) {
      double sum = m.bias[k];
      for (int64_t i = 0; i < m.columns; ++i) sum += m.weights[k * m.columns + i] * v[i];
      out[static_cast<size_t>(k)] = sum;
    }
  }
  double clipped(double v) const { return p_.clip > 0 ? std::clamp(v, -p_.clip, p_.clip) : v; }
  double gate(int64_t g, int64_t k, double extra = 0) const {
    const auto i = static_cast<size_t>(g * p_.hidden + k);
    return clipped(from_x_[i] + from_h_[i] + extra);
  }
  /// Gates z, r, h.
  void step_gru(double* h) {
    const int64_t n = p_.hidden;
    if (!p_.linear_before_reset) {
      for (int64_t k = 0; k < n; ++k) reset_[static_cast<size_t>(k)] = f_[0](gate(1, k)) * h[k];
      multiply_state(reset_.data(), {2 * n, 3 * n});
    } else {
      for (int64_t k = 0; k < n; ++k) {
        from_h_[static_cast<size_t>(2 * n + k)] *= f_[0](gate(1, k));
      }
    }
    for (int64_t k = 0; k < n; ++k) {
      const double z = f_[0](gate(0, k));
      h[k] = (1 - z) * f_[1](gate(2, k)) + z * h[k];
    }
  }
  /// Gates i, o, f, c; peepholes i, o, f.
  void step_lstm(double* h, double* c) {
    const int64_t n = p_.hidden;
    for (int64_t k = 0; k < n; ++k) {
      const double i = f_[0](gate(0, k, peephole_[k] * c[k]));
      const double f = p_.input_forget ? 1 - i : f_[0](gate(2, k, peephole_[2 * n + k] * c[k]));
      c[k] = f * c[k] + i * f_[1](gate(3, k));
      h[k] = f_[0](gate(1, k, peephole_[n + k] * c[k])) * f_[2](c[k]);
    }
  }

  const Problem& p_;
  int64_t rows_;
  const double *w_, *r_, *bias_, *peephole_;
  const Activation* f_;
  std::vector<double> from_x_, from_h_, reset_;
};

/// Runs every sequence. The states become the final ones, and y gets the states of all steps.
void run(Problem& p, HostTensor& y) {
  for (int64_t d = 0; d < p.directions; ++d) {
    Runner runner(p, d);
    const bool backwards = p.reverse || d == 1;
    for (int64_t b = 0; b < p.batch; ++b) {
      double* h = p.h.data() + (d * p.batch + b) * p.hidden;
      double* c = p.c.data() + (p.c.empty() ? 0 : (d * p.batch + b) * p.hidden);
      const int64_t length = at(p.lengths, b);
      for (int64_t s = 0; s < length; ++s) {
        const int64_t t = backwards ? length - 1 - s : s;
        const int64_t row = p.batch_major ? b * p.steps + t : t * p.batch + b;
        runner.step(p.x.data() + row * p.inputs, h, c);
        const int64_t out = p.batch_major ? (b * p.steps + t) * p.directions + d
                                          : (t * p.directions + d) * p.batch + b;
        store(y, out * p.hidden, p.hidden, h);
      }
    }
  }
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

KernelResult recurrent(const Call& call) {
  const Cell cell = call.op == "RNN" ? Cell::Rnn : call.op == "GRU" ? Cell::Gru : Cell::Lstm;
  const bool lstm = cell == Cell::Lstm;
  RP_TRY(check_arity(call, 3, lstm ? 8 : 6, lstm ? 3 : 2));
  RP_ASSIGN(Problem p, read_problem(call, cell));
  const DType t = input(call, 0).dtype();
  RP_ASSIGN(auto y, allocate(t, p.batch_major ? Dims{p.batch, p.steps, p.directions, p.hidden}
                                              : Dims{p.steps, p.directions, p.batch, p.hidden}));
  run(p, y);
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

constexpr Entry kTable[] = {{"RNN", recurrent}, {"GRU", recurrent}, {"LSTM", recurrent}};

}  // namespace

Table recurrent_table() {
  return kTable;
}

}  // namespace reprise::host
