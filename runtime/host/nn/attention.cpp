// Attention (versions 23 and later) and RotaryEmbedding.
#include <algorithm>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

/// A tensor [batch, heads, length, size] in double.
struct Heads {
  int64_t batch = 0, heads = 0, length = 0, size = 0;
  std::vector<double> v;
  const double* row(int64_t b, int64_t h, int64_t s) const {
    return v.data() + ((b * heads + h) * length + s) * size;
  }
  Dims dims() const { return {batch, heads, length, size}; }
};

/// Reads [batch, heads, length, size], or [batch, length, heads * size] with the number of heads
/// from the attribute.
Result<Heads> read_heads(const Call& c, size_t i, std::string_view role, const char* attr) {
  RP_TRY(require_float(c, i, role));
  RP_TRY(require_rank(c, i, role, 3, 4));
  const HostTensor& t = input(c, i);
  RP_ASSIGN(auto v, load_all(t));
  const Dims& d = t.dims();
  if (t.rank() == 4) return Heads{d[0], d[1], d[2], d[3], std::move(v)};
  const int64_t heads = c.attrs.get_int(attr, 0);
  if (heads < 1 || d[2] % heads != 0) {
    return invalid_model("attribute '" + std::string(attr) + "' (" + std::to_string(heads) +
                         ") does not divide the last dimension of " + describe_input(c, i, role));
  }
  Heads h{d[0], heads, d[1], d[2] / heads, std::vector<double>(v.size())};
  for (int64_t r = 0; r < d[0] * d[1] * heads && h.size > 0; ++r) {
    const int64_t head = r % heads;
    const int64_t s = r / heads % d[1];
    const int64_t b = r / heads / d[1];
    std::copy_n(v.begin() + r * h.size, h.size,
                h.v.begin() + ((b * heads + head) * d[1] + s) * h.size);
  }
  return h;
}

/// The cache followed by the new rows.
Result<Heads> append_heads(const Call& c, size_t past, std::string_view role, const Heads& now) {
  if (!has_input(c, past)) return now;
  RP_ASSIGN(const Heads old, read_heads(c, past, role, ""));
  if (input(c, past).rank() != 4 || old.batch != now.batch || old.heads != now.heads ||
      old.size != now.size) {
    return invalid_input(describe_input(c, past, role) + ": does not fit " + dims_str(now.dims()));
  }
  Heads all{now.batch, now.heads, old.length + now.length, now.size, {}};
  all.v.reserve(old.v.size() + now.v.size());
  for (int64_t r = 0; r < now.batch * now.heads; ++r) {
    const auto* from = old.v.data() + r * old.length * old.size;
    all.v.insert(all.v.end(), from, from + old.length * old.size);
    from = now.v.data() + r * now.length * now.size;
    all.v.insert(all.v.end(), from, from + now.length * now.size);
  }
  return all;
}

/// The bias that is added to the scores, from mask, causality, windows and padding: 0, -inf or a
/// number.
class Bias {
 public:
  static Result<Bias> read(const Call& c, const Heads& q, const Heads& k, int64_t past) {
    Bias b;
    b.causal_ = c.attrs.get_int("is_causal", 0) != 0;
    b.left_ = c.attrs.get_int("left_window_size", -1);
    b.right_ = c.attrs.get_int("right_window_size", -1);
    b.offset_.assign(static_cast<size_t>(q.batch), past);
    if (has_input(c, 6)) {
      RP_ASSIGN(b.valid_, tensor_ints(input(c, 6), "input 6 (nonpad_kv_seqlen)"));
      if (static_cast<int64_t>(b.valid_.size()) != q.batch) {
        return invalid_input(describe_input(c, 6, "nonpad_kv_seqlen") + ": needs one per batch");
      }
      for (size_t i = 0; i < b.valid_.size(); ++i) {
        b.valid_[i] = std::clamp<int64_t>(b.valid_[i], 0, k.length);
        if (!has_input(c, 4)) b.offset_[i] = b.valid_[i] - q.length;
      }
    }
    if (!has_input(c, 3)) return b;
    const HostTensor& mask = input(c, 3);
    b.mask_bool_ = mask.dtype() == DType::Bool;
    if (!b.mask_bool_ && !is_int(mask.dtype())) RP_TRY(require_float(c, 3, "attn_mask"));
    b.mask_columns_ = mask.rank() == 0 ? 0 : mask.dims().back();
    const Dims to{q.batch, q.heads, q.length, b.mask_columns_};
    bool fits = mask.rank() >= 1 && mask.rank() <= 4 && b.mask_columns_ <= k.length;
    for (int64_t d = 1; fits && d <= mask.rank(); ++d) {
      const int64_t dim = at(mask.dims(), mask.rank() - d);
      fits = dim == 1 || dim == at(to, 4 - d);
    }
    if (!fits) {
      return invalid_input(describe_input(c, 3, "attn_mask") + ": does not broadcast to " +
                           dims_str(Dims{q.batch, q.heads, q.length, k.length}));
    }
    b.mask_strides_ = broadcast_strides(mask.dims(), to);
    b.mask_strides_[3] = 1;
    RP_ASSIGN(b.mask_, load_all(mask));
    return b;
  }

  /// Whether a key can be hidden at all.
  bool hides() const {
    return causal_ || left_ >= 0 || right_ >= 0 || !valid_.empty() || !mask_strides_.empty();
  }

  double operator()(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const int64_t position = i + at(offset_, b);
    if (causal_ && j > position) return kMinusInf;
    if (left_ >= 0 && position - j > left_) return kMinusInf;
    if (right_ >= 0 && j - position > right_) return kMinusInf;
    if (!valid_.empty() && j >= at(valid_, b)) return kMinusInf;
    if (mask_strides_.empty()) return 0;
    if (j >= mask_columns_) return kMinusInf;
    const int64_t at_mask = b * mask_strides_[0] + h * mask_strides_[1] + i * mask_strides_[2] + j;
    const double m = mask_[static_cast<size_t>(at_mask)];
    if (mask_bool_) return m != 0 ? 0 : kMinusInf;
    return m;
  }

 private:
  bool causal_ = false, mask_bool_ = false;
  int64_t left_ = -1, right_ = -1, mask_columns_ = 0;
  Dims offset_, valid_, mask_strides_;
  std::vector<double> mask_;
};

/// Computes the probabilities of one row. If all scores are minus infinity, the row is zero if keys
/// can be hidden, and otherwise NaN as in Softmax.
void softmax_row(std::vector<double>& row, bool hides) {
  double top = kMinusInf;
  for (double e : row) top = std::isnan(e) || e > top ? e : top;
  if (hides && top == kMinusInf) {
    std::fill(row.begin(), row.end(), 0.0);
    return;
  }
  double sum = 0;
  for (double& e : row) sum += e = std::exp(e - top);
  for (double& e : row) e /= sum;
}

struct AttentionOptions {
  double scale = 1, softcap = 0;
  int64_t output_mode = 0;  // fourth output: 0 raw, 1 capped, 2 biased scores, 3 probabilities
};

/// Attention over all heads.
class Attention {
 public:
  Attention(const Heads& q, const Heads& k, const Heads& v, const Bias& bias,
            const AttentionOptions& options)
      : q_(q), k_(k), v_(v), bias_(bias), o_(options), row_(static_cast<size_t>(k.length)) {}

  /// Computes head h of batch element b: y [length, v.size] and, if not null, the scores
  /// [length, k.length].
  void head(int64_t b, int64_t h, double* y, double* scores) {
    for (int64_t i = 0; i < q_.length; ++i) {
      double* row_scores = scores == nullptr ? nullptr : scores + i * k_.length;
      score_row(b, h, i, row_scores);
      softmax_row(row_, bias_.hides());
      if (row_scores != nullptr && o_.output_mode == 3) std::ranges::copy(row_, row_scores);
      weigh_values(b, h, y + i * v_.size);
    }
  }

 private:
  int64_t kv_head(int64_t h) const { return h / (q_.heads / k_.heads); }

  /// Stores the biased scores of query i in row_.
  void score_row(int64_t b, int64_t h, int64_t i, double* scores) {
    const double* qr = q_.row(b, h, i);
    for (int64_t j = 0; j < k_.length; ++j) {
      const double* kr = k_.row(b, kv_head(h), j);
      double s = 0;
      for (int64_t d = 0; d < q_.size; ++d) s += qr[d] * kr[d];
      s *= o_.scale;
      if (scores != nullptr && o_.output_mode == 0) scores[j] = s;
      if (o_.softcap > 0) s = o_.softcap * std::tanh(s / o_.softcap);
      if (scores != nullptr && o_.output_mode == 1) scores[j] = s;
      const double extra = bias_(b, h, i, j);
      row_[static_cast<size_t>(j)] = extra == kMinusInf ? extra : s + extra;
    }
    if (scores != nullptr && o_.output_mode == 2) std::ranges::copy(row_, scores);
  }

  /// y = row_ . V
  void weigh_values(int64_t b, int64_t h, double* y) const {
    std::fill_n(y, v_.size, 0.0);
    for (int64_t j = 0; j < k_.length; ++j) {
      const double p = row_[static_cast<size_t>(j)];  // 0 for a hidden key; 0 * inf gives NaN
      const double* vr = v_.row(b, kv_head(h), j);
      for (int64_t d = 0; d < v_.size; ++d) y[d] += p * vr[d];
    }
  }

  const Heads &q_, &k_, &v_;
  const Bias& bias_;
  AttentionOptions o_;
  std::vector<double> row_;
};

Status check_heads(const Heads& q, const Heads& k, const Heads& v) {
  if (q.batch == k.batch && k.batch == v.batch && k.heads == v.heads && k.length == v.length &&
      q.size == k.size && k.heads > 0 && q.heads % k.heads == 0) {
    return {};
  }
  return invalid_input("Q " + dims_str(q.dims()) + ", K " + dims_str(k.dims()) + " and V " +
                       dims_str(v.dims()) + " (batch, heads, length, size) do not fit together");
}

KernelResult attention(const Call& c) {
  RP_TRY(check_arity(c, 3, 7, 4));
  RP_ASSIGN(const Heads q, read_heads(c, 0, "Q", "q_num_heads"));
  RP_ASSIGN(const Heads new_k, read_heads(c, 1, "K", "kv_num_heads"));
  RP_ASSIGN(const Heads new_v, read_heads(c, 2, "V", "kv_num_heads"));
  RP_ASSIGN(const Heads k, append_heads(c, 4, "past_key", new_k));
  RP_ASSIGN(const Heads v, append_heads(c, 5, "past_value", new_v));
  RP_TRY(check_heads(q, k, v));
  RP_ASSIGN(const Bias bias, Bias::read(c, q, k, k.length - new_k.length));
  AttentionOptions o;
  o.scale = c.attrs.has("scale") ? static_cast<double>(c.attrs.get_float("scale", 1))
                                 : 1 / std::sqrt(static_cast<double>(q.size));
  o.softcap = static_cast<double>(c.attrs.get_float("softcap", 0));
  o.output_mode = c.attrs.get_int("qk_matmul_output_mode", 0);
  const DType t = input(c, 0).dtype();
  const bool flat = input(c, 0).rank() == 3;
  RP_ASSIGN(auto y, allocate(t, flat ? Dims{q.batch, q.length, product(Dims{q.heads, v.size})}
                                     : Dims{q.batch, q.heads, q.length, v.size}));
  const Dims score_dims{q.batch, q.heads, q.length, k.length};
  RP_ASSIGN(auto scores, allocate(t, c.output_count > 3 ? score_dims : Dims{0}));
  std::vector<double> head(static_cast<size_t>(q.length * v.size));
  std::vector<double> head_scores(
      static_cast<size_t>(c.output_count > 3 ? q.length * k.length : 0));
  Attention heads(q, k, v, bias, o);
  for (int64_t r = 0; r < q.batch * q.heads && !head.empty(); ++r) {
    heads.head(r / q.heads, r % q.heads, head.data(),
               head_scores.empty() ? nullptr : head_scores.data());
    for (int64_t i = 0; i < q.length; ++i) {
      const int64_t to =
          flat ? (r / q.heads * q.length + i) * q.heads + r % q.heads : r * q.length + i;
      store(y, to * v.size, v.size, head.data() + i * v.size);
    }
    const auto n = static_cast<int64_t>(head_scores.size());
    store(scores, r * n, n, head_scores.data());
  }
  Tensors out;
  out.push_back(std::move(y));
  if (c.output_count > 1) {
    RP_ASSIGN(auto present, store_all(input(c, 1).dtype(), k.dims(), k.v));
    out.push_back(std::move(present));
  }
  if (c.output_count > 2) {
    RP_ASSIGN(auto present, store_all(input(c, 2).dtype(), v.dims(), v.v));
    out.push_back(std::move(present));
  }
  if (c.output_count > 3) out.push_back(std::move(scores));
  return out;
}

/// The row of the cosine and sine caches for each (batch, position).
Result<Dims> cache_rows(const Call& c, int64_t batch, int64_t length, int64_t half) {
  RP_TRY(require_same_dtype(c, 0, 1));
  RP_TRY(require_same_dtype(c, 0, 2));
  const HostTensor& cache = input(c, 1);
  const bool by_position = has_input(c, 3);
  const Dims expected{batch, length, half};
  const bool fits =
      by_position ? cache.rank() == 2 && cache.dims()[1] == half : cache.dims() == expected;
  if (!fits || input(c, 2).dims() != cache.dims()) {
    return invalid_input("cos_cache " + dims_str(cache.dims()) + " and sin_cache " +
                         dims_str(input(c, 2).dims()) + " do not fit " + dims_str(expected));
  }
  Dims rows;
  if (!by_position) {
    for (int64_t i = 0; i < batch * length; ++i) rows.push_back(i);
    return rows;
  }
  if (input(c, 3).dims() != Dims{batch, length}) {
    return invalid_input(describe_input(c, 3, "position_ids") + ": must be " +
                         dims_str(Dims{batch, length}));
  }
  RP_ASSIGN(rows, tensor_ints(input(c, 3), "input 3 (position_ids)"));
  const int64_t size = cache.dims()[0];
  for (int64_t& p : rows) {
    if (p < -size || p >= size) {
      return invalid_input("position " + std::to_string(p) + " is out of range for a cache of " +
                           std::to_string(size));
    }
    if (p < 0) p += size;  // counts from the end, as in Gather
  }
  return rows;
}

KernelResult rotary_embedding(const Call& c) {
  RP_TRY(check_arity(c, 3, 4));
  RP_TRY(require_float(c, 0, "X"));
  RP_TRY(require_rank(c, 0, "X", 3, 4));
  const HostTensor& x = input(c, 0);
  const bool flat =
      x.rank() == 3;  // [batch, length, heads * size], else [batch, heads, length, size]
  const int64_t heads = flat ? c.attrs.get_int("num_heads", 0) : x.dims()[1];
  const int64_t length = x.dims()[flat ? 1 : 2];
  const int64_t last = at(x.dims(), x.rank() - 1);
  if (flat && (heads < 1 || last % heads != 0)) {
    return invalid_model("attribute 'num_heads' (" + std::to_string(heads) +
                         ") does not divide the last dimension of " + dims_str(x.dims()));
  }
  const int64_t size = flat ? last / heads : last;
  int64_t rotated = c.attrs.get_int("rotary_embedding_dim", 0);
  if (rotated == 0) rotated = size;
  if (rotated < 0 || rotated > size || rotated % 2 != 0) {
    return invalid_model("rotates " + std::to_string(rotated) + " of " + std::to_string(size) +
                         " elements: must be even and not more");
  }
  const int64_t half = rotated / 2;
  RP_ASSIGN(const Dims rows, cache_rows(c, x.dims()[0], length, half));
  RP_ASSIGN(const auto cosine, load_all(input(c, 1)));
  RP_ASSIGN(const auto sine, load_all(input(c, 2)));
  const bool interleaved = c.attrs.get_int("interleaved", 0) != 0;
  RP_ASSIGN(auto y, allocate(x.dtype(), x.dims()));
  std::vector<double> v(static_cast<size_t>(size));
  for (int64_t r = 0; size > 0 && r < x.count() / size; ++r) {
    const int64_t b = r / (heads * length);
    const int64_t s = flat ? r / heads % length : r % length;
    load(x, r * size, 1, size, v.data());
    const int64_t cache = at(rows, b * length + s) * half;
    for (int64_t k = 0; k < half; ++k) {
      double& first = v[static_cast<size_t>(interleaved ? 2 * k : k)];
      double& second = v[static_cast<size_t>(interleaved ? 2 * k + 1 : half + k)];
      const double co = cosine[static_cast<size_t>(cache + k)];
      const double si = sine[static_cast<size_t>(cache + k)];
      const double a = first;
      first = co * a - si * second;
      second = si * a + co * second;
    }
    store(y, r * size, size, v.data());
  }
  return one(std::move(y));
}

}  // namespace

Table attention_table() {
  static constexpr Entry kTable[] = {{"Attention", attention},
                                     {"RotaryEmbedding", rotary_embedding}};
  return kTable;
}

}  // namespace reprise::host
