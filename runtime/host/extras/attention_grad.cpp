// AttentionGrad: the gradients of attention with respect to queries, keys and values.
#include <algorithm>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

constexpr double kLeastLogit = -std::numeric_limits<double>::infinity();

enum Input : size_t { kGrad, kQuery, kKey, kValue, kLogSum, kShare, kMask };
constexpr std::string_view kRoles[] = {"the gradient", "Q", "K", "V", "log sums", "shares", "mask"};

/// A tensor [batch, heads, length, size] in double.
struct HeadsOf {
  Dims dims;
  std::vector<double> v;

  double* row(int64_t b, int64_t h, int64_t i) { return v.data() + place(b, h, i); }
  const double* row(int64_t b, int64_t h, int64_t i) const { return v.data() + place(b, h, i); }
  int64_t place(int64_t b, int64_t h, int64_t i) const {
    return ((b * dims[1] + h) * dims[2] + i) * dims[3];
  }
};

struct GradProblem {
  HeadsOf grad, query, key, value;
  std::vector<double> log_sums, shares, mask;  // of each row of queries
  Dims mask_strides;
  bool mask_is_bool = false, causal = false;
  double scale = 1;

  int64_t key_head(int64_t h) const { return h / (query.dims[1] / key.dims[1]); }
  /// The score of a query and a key from their product.
  double score(const int64_t (&at)[4], double dot) const;
};

double GradProblem::score(const int64_t (&at)[4], double dot) const {
  if (causal && at[3] > at[2]) return kLeastLogit;
  double s = dot * scale;
  if (mask_strides.empty()) return s;
  int64_t place = 0;
  for (size_t d = 0; d < 4; ++d) place += at[d] * mask_strides[d];
  const double m = mask[static_cast<size_t>(place)];
  if (mask_is_bool ? m == 0 : m == kLeastLogit) return kLeastLogit;
  return mask_is_bool ? s : s + m;
}

Result<HeadsOf> read_heads(const Call& c, Input i) {
  RP_TRY(require_float(c, i, kRoles[i]));
  RP_TRY(require_rank(c, i, kRoles[i], 4, 4));
  RP_ASSIGN(auto v, load_all(input(c, i)));
  return HeadsOf{input(c, i).dims(), std::move(v)};
}

Result<std::vector<double>> read_rows(const Call& c, Input i, const Dims& query) {
  RP_TRY(require_float(c, i, kRoles[i]));
  if (input(c, i).dims() != Dims{query[0], query[1], query[2]})
    return invalid_input(describe_input(c, i, kRoles[i]) + ": needs one for each row of Q");
  return load_all(input(c, i));
}

Status read_mask(const Call& c, GradProblem& p) {
  if (!has_input(c, kMask)) return {};
  const HostTensor& mask = input(c, kMask);
  p.mask_is_bool = mask.dtype() == DType::Bool;
  if (!p.mask_is_bool) RP_TRY(require_float(c, kMask, kRoles[kMask]));
  const Dims& q = p.query.dims;
  const Dims scores{q[0], q[1], q[2], p.key.dims[2]};
  bool fits = mask.rank() <= 4;
  for (int64_t d = 1; fits && d <= mask.rank(); ++d) {
    const int64_t dim = at(mask.dims(), mask.rank() - d);
    fits = dim == 1 || dim == at(scores, 4 - d);
  }
  if (!fits)
    return invalid_input(describe_input(c, kMask, kRoles[kMask]) + ": does not broadcast to " +
                         dims_str(scores));
  p.mask_strides = broadcast_strides(mask.dims(), scores);
  RP_ASSIGN(p.mask, load_all(mask));
  return {};
}

Result<GradProblem> read_gradients(const Call& c) {
  GradProblem p;
  RP_ASSIGN(p.grad, read_heads(c, kGrad));
  RP_ASSIGN(p.query, read_heads(c, kQuery));
  RP_ASSIGN(p.key, read_heads(c, kKey));
  RP_ASSIGN(p.value, read_heads(c, kValue));
  const Dims &q = p.query.dims, &k = p.key.dims, &v = p.value.dims;
  if (k != Dims{q[0], k[1], k[2], q[3]} || v != Dims{q[0], k[1], k[2], v[3]} ||
      p.grad.dims != Dims{q[0], q[1], q[2], v[3]} || k[1] < 1 || q[1] % k[1] != 0)
    return invalid_input("the gradient " + dims_str(p.grad.dims) + ", Q " + dims_str(q) + ", K " +
                         dims_str(k) + " and V " + dims_str(v) +
                         " (batch, heads, length, size) do not fit together");
  RP_ASSIGN(p.log_sums, read_rows(c, kLogSum, q));
  RP_ASSIGN(p.shares, read_rows(c, kShare, q));
  RP_TRY(read_mask(c, p));
  p.causal = c.attrs.get_int("is_causal", 0) != 0;
  p.scale = static_cast<double>(c.attrs.get_float("scale", 1));
  return p;
}

double product_of(const double* a, const double* b, int64_t size) {
  double sum = 0;
  for (int64_t d = 0; d < size; ++d) sum += a[d] * b[d];
  return sum;
}

void add_times(double* sum, double factor, const double* row, int64_t size) {
  for (int64_t d = 0; d < size; ++d) sum[d] += factor * row[d];
}

struct Gradients {
  HeadsOf query, key, value;
};

/// Adds what the query (b, h, i) contributes.
void add_query(const GradProblem& p, int64_t b, int64_t h, int64_t i, Gradients& out) {
  const Dims &q = p.query.dims, &v = p.value.dims;
  const auto row = static_cast<size_t>((b * q[1] + h) * q[2] + i);
  const int64_t of_key = p.key_head(h);
  for (int64_t j = 0; j < v[2]; ++j) {
    const double* key = p.key.row(b, of_key, j);
    const double score = p.score({b, h, i, j}, product_of(p.query.row(b, h, i), key, q[3]));
    const double weight = std::exp(score - p.log_sums[row]);
    const double* grad = p.grad.row(b, h, i);
    const double share = product_of(grad, p.value.row(b, of_key, j), v[3]) - p.shares[row];
    const double pull =
        weight == 0 ? 0 : weight * share * p.scale;  // a hidden value may be infinite
    add_times(out.query.row(b, h, i), pull, key, q[3]);
    add_times(out.key.row(b, of_key, j), pull, p.query.row(b, h, i), q[3]);
    add_times(out.value.row(b, of_key, j), weight, grad, v[3]);
  }
}

KernelResult attention_grad(const Call& c) {
  RP_TRY(check_arity(c, 6, 7, 3));
  RP_ASSIGN(const GradProblem p, read_gradients(c));
  Gradients out;
  for (const auto& [to, from] : {std::pair<HeadsOf*, const HeadsOf*>{&out.query, &p.query},
                                 {&out.key, &p.key},
                                 {&out.value, &p.value}})
    *to = {from->dims, std::vector<double>(from->v.size())};
  const Dims& q = p.query.dims;
  for (int64_t r = 0; r < static_cast<int64_t>(p.log_sums.size()); ++r)
    add_query(p, r / q[2] / q[1], r / q[2] % q[1], r % q[2], out);
  Tensors results;
  const HeadsOf* all[] = {&out.query, &out.key, &out.value};
  for (size_t i = 0; i < 3 && i < c.output_count; ++i) {
    RP_ASSIGN(auto t, store_all(input(c, kQuery + i).dtype(), all[i]->dims, all[i]->v));
    results.push_back(std::move(t));
  }
  return results;
}

}  // namespace

Table gradients_table() {
  static constexpr Entry kTable[] = {{"AttentionGrad", attention_grad}};
  return kTable;
}

}  // namespace reprise::host
