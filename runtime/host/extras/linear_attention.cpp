// LinearAttention, one step after another, with the state in double.
#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

enum LinearOperand : size_t {
  kLinearQuery,
  kLinearKey,
  kLinearValue,
  kLinearPast,
  kLinearDecay,
  kLinearBeta
};

struct LinearProblem {
  int64_t batch = 0, steps = 0;
  int64_t query_heads = 0, heads = 0;
  int64_t key_size = 0, value_size = 0;
  int64_t decay_width = 0, beta_width = 0;  // last dims; 0: none
  double scale = 1;
  std::vector<double> query, key, value, decay, beta;

  const double* row(const std::vector<double>& v, int64_t b, int64_t t, int64_t width) const {
    return v.data() + (b * steps + t) * width;
  }
};

/// The last dim of a packed operand [B, T, width], and its elements.
Result<int64_t> read_packed(const Call& c, size_t i, std::string_view role, const LinearProblem& p,
                            std::vector<double>& out) {
  RP_TRY(require_float(c, i, role));
  RP_TRY(require_rank(c, i, role, 3, 3));
  const Dims& dims = input(c, i).dims();
  if (dims[0] != p.batch || dims[1] != p.steps) {
    return invalid_input(describe_input(c, i, role) + ": must begin with the dims " +
                         dims_str(Dims{p.batch, p.steps}));
  }
  RP_ASSIGN(out, load_all(input(c, i)));
  return dims[2];
}

/// A rule that decays takes the input decay, and one that corrects takes beta.
Status check_rule(const Call& c) {
  const std::string rule = c.attrs.get_string("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta";
  const bool delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear") {
    return invalid_model("attribute 'update_rule' is '" + rule +
                         "', must be linear, gated, delta or gated_delta");
  }
  if (gated == has_input(c, kLinearDecay) && delta == has_input(c, kLinearBeta)) return {};
  return invalid_model("the inputs decay and beta do not fit the update_rule '" + rule + "'");
}

Status read_gates(const Call& c, LinearProblem& p) {
  if (has_input(c, kLinearDecay)) {
    RP_ASSIGN(p.decay_width, read_packed(c, kLinearDecay, "decay", p, p.decay));
    if (p.decay_width != p.heads && p.decay_width != p.heads * p.key_size)
      return invalid_input(describe_input(c, kLinearDecay, "decay") + ": does not fit the heads");
  }
  if (has_input(c, kLinearBeta)) {
    RP_ASSIGN(p.beta_width, read_packed(c, kLinearBeta, "beta", p, p.beta));
    if (p.beta_width != p.heads && p.beta_width != 1)
      return invalid_input(describe_input(c, kLinearBeta, "beta") + ": does not fit the heads");
  }
  return {};
}

Result<LinearProblem> read_linear(const Call& c) {
  RP_TRY(require_rank(c, kLinearQuery, "query", 3, 3));
  RP_TRY(check_rule(c));
  LinearProblem p;
  p.batch = input(c, kLinearQuery).dims()[0];
  p.steps = input(c, kLinearQuery).dims()[1];
  p.query_heads = c.attrs.get_int("q_num_heads", 0);
  p.heads = c.attrs.get_int("kv_num_heads", 0);
  if (p.query_heads < 1 || p.heads < 1 || p.query_heads % p.heads != 0)
    return invalid_model("q_num_heads must be a positive multiple of kv_num_heads");
  RP_ASSIGN(const int64_t query, read_packed(c, kLinearQuery, "query", p, p.query));
  RP_ASSIGN(const int64_t key, read_packed(c, kLinearKey, "key", p, p.key));
  RP_ASSIGN(const int64_t value, read_packed(c, kLinearValue, "value", p, p.value));
  p.key_size = key / p.heads;
  p.value_size = value / p.heads;
  if (key % p.heads != 0 || value % p.heads != 0 || query != p.key_size * p.query_heads) {
    return invalid_input("query, key and value have " + dims_str(Dims{query, key, value}) +
                         " columns, which do not fit " + std::to_string(p.query_heads) + " and " +
                         std::to_string(p.heads) + " heads");
  }
  RP_TRY(read_gates(c, p));
  p.scale = static_cast<double>(c.attrs.get_float("scale", 0));
  if (p.scale == 0) p.scale = 1 / std::sqrt(static_cast<double>(p.key_size));
  return p;
}

/// Advances the state [d_k, d_v] of one head by a step.
void advance(const LinearProblem& p, int64_t b, int64_t t, int64_t h, double* state) {
  const double* key = p.row(p.key, b, t, p.heads * p.key_size) + h * p.key_size;
  const double* value = p.row(p.value, b, t, p.heads * p.value_size) + h * p.value_size;
  if (p.decay_width != 0) {
    const double* decay = p.row(p.decay, b, t, p.decay_width);
    for (int64_t k = 0; k < p.key_size; ++k) {
      const double factor =
          std::exp(p.decay_width == p.heads ? decay[h] : decay[h * p.key_size + k]);
      for (int64_t v = 0; v < p.value_size; ++v) state[k * p.value_size + v] *= factor;
    }
  }
  for (int64_t v = 0; v < p.value_size; ++v) {
    double added = value[v];
    if (p.beta_width != 0) {
      double held = 0;
      for (int64_t k = 0; k < p.key_size; ++k) held += key[k] * state[k * p.value_size + v];
      added = (added - held) * p.row(p.beta, b, t, p.beta_width)[p.beta_width == 1 ? 0 : h];
    }
    for (int64_t k = 0; k < p.key_size; ++k) state[k * p.value_size + v] += key[k] * added;
  }
}

KernelResult linear_attention(const Call& c) {
  RP_TRY(check_arity(c, 3, 6, 2));
  RP_ASSIGN(const LinearProblem p, read_linear(c));
  const DType t = input(c, kLinearQuery).dtype();
  const Dims state_dims{p.batch, p.heads, p.key_size, p.value_size};
  RP_ASSIGN(std::vector<double> state, allocate_scratch(state_dims));
  if (has_input(c, kLinearPast)) {
    if (input(c, kLinearPast).dims() != state_dims)
      return invalid_input(describe_input(c, kLinearPast, "past_state") + ": must be " +
                           dims_str(state_dims));
    RP_TRY(require_float(c, kLinearPast, "past_state"));
    RP_ASSIGN(state, load_all(input(c, kLinearPast)));
  }
  RP_ASSIGN(auto y, allocate(t, {p.batch, p.steps, p.query_heads * p.value_size}));
  const int64_t group = p.query_heads / p.heads;
  std::vector<double> line(static_cast<size_t>(p.value_size));
  for (int64_t i = 0; i < p.batch * p.steps; ++i) {
    const int64_t b = i / p.steps;
    const int64_t step = i % p.steps;
    for (int64_t h = 0; h < p.heads; ++h)
      advance(p, b, step, h, state.data() + (b * p.heads + h) * p.key_size * p.value_size);
    for (int64_t q = 0; q < p.query_heads; ++q) {
      const double* query = p.row(p.query, b, step, p.query_heads * p.key_size) + q * p.key_size;
      const double* s = state.data() + (b * p.heads + q / group) * p.key_size * p.value_size;
      for (int64_t v = 0; v < p.value_size; ++v) {
        double sum = 0;
        for (int64_t k = 0; k < p.key_size; ++k) sum += query[k] * s[k * p.value_size + v];
        line[static_cast<size_t>(v)] = p.scale * sum;
      }
      store(y, (i * p.query_heads + q) * p.value_size, p.value_size, line.data());
    }
  }
  Tensors out;
  out.push_back(std::move(y));
  if (c.output_count > 1) {
    const DType state_dtype = has_input(c, kLinearPast) ? input(c, kLinearPast).dtype() : t;
    RP_ASSIGN(auto next, store_all(state_dtype, state_dims, state));
    out.push_back(std::move(next));
  }
  return out;
}

}  // namespace

Table linear_attention_table() {
  static constexpr Entry kTable[] = {{"LinearAttention", linear_attention}};
  return kTable;
}

}  // namespace reprise::host
