// Normalisations. Statistics are computed in double from the stored values.
#include <algorithm>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

struct Moments {
  double mean = 0, variance = 0;
};

/// Computes mean and variance in two passes, which avoids cancellation.
Moments moments_of(std::span<const double> v) {
  Moments m;
  for (double x : v) m.mean += x;
  m.mean /= static_cast<double>(v.size());
  for (double x : v) m.variance += (x - m.mean) * (x - m.mean);
  m.variance /= static_cast<double>(v.size());
  return m;
}

double mean_square(std::span<const double> v) {
  double sum = 0;
  for (double x : v) sum += x * x;
  return sum / static_cast<double>(v.size());
}

/// An input with one value per channel.
Result<std::vector<double>> channel_values(const Call& c, size_t i, std::string_view role,
                                           int64_t channels) {
  RP_TRY(require_float(c, i, role));
  if (input(c, i).dims() != Dims{channels}) {
    return invalid_input(describe_input(c, i, role) + ": must have " + std::to_string(channels) +
                         " elements");
  }
  return load_all(input(c, i));
}

/// An input that broadcasts to the shape.
Result<std::vector<double>> expanded_values(const Call& c, size_t i, std::string_view role,
                                            const Dims& to) {
  RP_TRY(require_float(c, i, role));
  const HostTensor& t = input(c, i);
  bool fits = t.dims().size() <= to.size();
  for (size_t d = 0; fits && d < t.dims().size(); ++d) {
    fits = t.dims()[d] == 1 || t.dims()[d] == to[to.size() - t.dims().size() + d];
  }
  if (!fits) {
    return invalid_input(describe_input(c, i, role) + ": does not broadcast to " + dims_str(to));
  }
  RP_ASSIGN(auto v, allocate_scratch(to));
  const Dims strides = broadcast_strides(t.dims(), to);
  size_t k = 0;
  for_each_index<1>(to, {&strides}, {0},
                    [&](const std::array<int64_t, 1>& o) { load(t, o[0], 1, 1, &v[k++]); });
  return v;
}

/// Factors or terms of normalised rows. Those of all rows are the same, unless the input has dims
/// before them.
struct RowValues {
  std::vector<double> values;
  size_t next_row = 0;  // the distance of the values of two rows

  double at(int64_t row, size_t i) const { return values[static_cast<size_t>(row) * next_row + i]; }
};

Result<RowValues> row_values(const Call& c, size_t i, std::string_view role, const Dims& row) {
  const bool leads = input(c, i).dims().size() > row.size();
  RowValues r;
  RP_ASSIGN(r.values, expanded_values(c, i, role, leads ? input(c, 0).dims() : row));
  if (leads) r.next_row = static_cast<size_t>(product(row));
  return r;
}

/// LayerNormalization (with mean and inverse deviation as further outputs) and RMSNormalization.
KernelResult layer_norm(const Call& c) {
  const bool rms = c.op == "RMSNormalization";
  RP_TRY(check_arity(c, 2, rms ? 2 : 3, rms ? 1 : 3));
  RP_TRY(require_float(c, 0, "X"));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(const int64_t axis, normalize_axis(c.attrs.get_int("axis", -1), x.rank()));
  const Dims row(x.dims().begin() + axis, x.dims().end());
  const auto size = static_cast<size_t>(product(row));
  const double epsilon = static_cast<double>(c.attrs.get_float("epsilon", 1e-5F));
  RP_ASSIGN(auto y, allocate(x.dtype(), x.dims()));
  RP_ASSIGN(const DType stash, dtype_from_onnx(c.attrs.get_int("stash_type", 1)));
  Dims stat_dims(x.dims().begin(), x.dims().begin() + axis);
  stat_dims.resize(x.dims().size(), 1);
  RP_ASSIGN(auto mean, allocate(stash, stat_dims));
  RP_ASSIGN(auto inverse, allocate(stash, stat_dims));
  RP_ASSIGN(const auto scale, row_values(c, 1, "Scale", row));
  RowValues bias;
  RP_ASSIGN(bias.values, allocate_scratch(row));
  if (has_input(c, 2)) {
    RP_ASSIGN(bias, row_values(c, 2, "B", row));
  }
  RP_ASSIGN(auto v, allocate_scratch(row));
  for (int64_t r = 0; r < mean.count(); ++r) {  // the mean of no columns is NaN
    load(x, r * static_cast<int64_t>(size), 1, static_cast<int64_t>(size), v.data());
    const Moments m = rms ? Moments{0, mean_square(v)} : moments_of(v);
    const double deviation = 1 / std::sqrt(m.variance + epsilon);
    for (size_t i = 0; i < size; ++i)
      v[i] = (v[i] - m.mean) * deviation * scale.at(r, i) + bias.at(r, i);
    store(y, r * static_cast<int64_t>(size), static_cast<int64_t>(size), v.data());
    store(mean, r, 1, &m.mean);
    store(inverse, r, 1, &deviation);
  }
  Tensors out;
  out.push_back(std::move(y));
  if (c.output_count > 1) out.push_back(std::move(mean));
  if (c.output_count > 2) out.push_back(std::move(inverse));
  return out;
}

/// GroupNormalization, and InstanceNormalization as one group per channel. From version 21 on,
/// scale and bias are per channel; before that, they are per group.
KernelResult group_norm(const Call& c) {
  RP_TRY(check_arity(c, 3, 3));
  RP_TRY(require_float(c, 0, "X"));
  RP_TRY(require_rank(c, 0, "X", 2, std::numeric_limits<int64_t>::max()));
  const HostTensor& x = input(c, 0);
  const int64_t channels = x.dims()[1];
  const bool instance = c.op == "InstanceNormalization";
  const int64_t groups = instance ? channels : c.attrs.get_int("num_groups", 0);
  RP_ASSIGN(auto y, allocate(x.dtype(), x.dims()));
  if (groups < 1 ? channels != 0 || !instance : channels % groups != 0) {
    return invalid_model("attribute 'num_groups' (" + std::to_string(groups) +
                         ") does not divide the channels of " + dims_str(x.dims()));
  }
  const bool per_group = !instance && c.opset != 0 && c.opset < 21;
  const int64_t factors = per_group ? groups : channels;
  RP_ASSIGN(const auto scale, channel_values(c, 1, "scale", factors));
  RP_ASSIGN(const auto bias, channel_values(c, 2, "bias", factors));
  if (y.count() == 0) return one(std::move(y));
  const double epsilon = static_cast<double>(c.attrs.get_float("epsilon", 1e-5F));
  const int64_t inner = product_range(x.dims(), 2, x.rank());
  const int64_t size = channels / groups * inner;
  std::vector<double> v(static_cast<size_t>(size));
  for (int64_t r = 0; r < x.dims()[0] * groups; ++r) {
    load(x, r * size, 1, size, v.data());
    const Moments m = moments_of(v);
    const double deviation = 1 / std::sqrt(m.variance + epsilon);
    for (int64_t i = 0; i < size; ++i) {
      const int64_t group = r % groups;
      const auto k =
          static_cast<size_t>(per_group ? group : group * (channels / groups) + i / inner);
      double& e = v[static_cast<size_t>(i)];
      e = (e - m.mean) * deviation * scale[k] + bias[k];
    }
    store(y, r * size, size, v.data());
  }
  return one(std::move(y));
}

/// Batch statistics of one channel, over the batch and all positions.
Moments channel_moments(const HostTensor& x, int64_t channel, const AxisSplit& s,
                        std::vector<double>& scratch) {
  scratch.resize(static_cast<size_t>(s.outer * s.inner));
  for (int64_t n = 0; n < s.outer; ++n) {
    load(x, (n * s.size + channel) * s.inner, 1, s.inner, scratch.data() + n * s.inner);
  }
  return moments_of(scratch);
}

KernelResult batch_norm(const Call& c) {
  RP_TRY(check_arity(c, 5, 5, 5));
  RP_TRY(require_float(c, 0, "X"));
  RP_TRY(require_rank(c, 0, "X", 1, std::numeric_limits<int64_t>::max()));
  const HostTensor& x = input(c, 0);
  const bool training = c.attrs.get_int("training_mode", 0) != 0;
  if (!training && c.output_count > 1) {
    return unsupported("more than one output needs training_mode");
  }
  const AxisSplit s = x.rank() > 1 ? split_at(x.dims(), 1) : AxisSplit{x.count(), 1, 1};
  RP_ASSIGN(const auto scale, channel_values(c, 1, "scale", s.size));
  RP_ASSIGN(const auto bias, channel_values(c, 2, "B", s.size));
  RP_ASSIGN(auto mean, channel_values(c, 3, "input_mean", s.size));
  RP_ASSIGN(auto variance, channel_values(c, 4, "input_var", s.size));
  const double epsilon = static_cast<double>(c.attrs.get_float("epsilon", 1e-5F));
  const double momentum = static_cast<double>(c.attrs.get_float("momentum", 0.9F));
  RP_ASSIGN(auto y, allocate(x.dtype(), x.dims()));
  std::vector<double> running_mean = mean;
  std::vector<double> running_variance = variance;
  std::vector<double> v;
  for (int64_t ch = 0; ch < s.size && (training || y.count() > 0); ++ch) {
    const auto k = static_cast<size_t>(ch);
    if (training) {
      const Moments m = channel_moments(x, ch, s, v);
      mean[k] = m.mean;
      variance[k] = m.variance;
      running_mean[k] = running_mean[k] * momentum + m.mean * (1 - momentum);
      running_variance[k] = running_variance[k] * momentum + m.variance * (1 - momentum);
    }
    const double factor = scale[k] / std::sqrt(variance[k] + epsilon);
    v.resize(static_cast<size_t>(s.inner));
    for (int64_t n = 0; n < s.outer; ++n) {
      const int64_t start = (n * s.size + ch) * s.inner;
      load(x, start, 1, s.inner, v.data());
      for (double& e : v) e = (e - mean[k]) * factor + bias[k];
      store(y, start, s.inner, v.data());
    }
  }
  Tensors out;
  out.push_back(std::move(y));
  for (size_t i = 1; i < std::min<size_t>(c.output_count, 3); ++i) {
    RP_ASSIGN(auto t, store_all(input(c, 2 + i).dtype(), {s.size},
                                i == 1 ? running_mean : running_variance));
    out.push_back(std::move(t));
  }
  if (c.output_count > 3) return unsupported("saved statistics of old versions are not produced");
  return out;
}

KernelResult local_response_norm(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_TRY(require_float(c, 0, "X"));
  RP_TRY(require_rank(c, 0, "X", 2, std::numeric_limits<int64_t>::max()));
  const HostTensor& x = input(c, 0);
  const int64_t size = c.attrs.get_int("size", 0);
  if (size < 1) return invalid_model("attribute 'size' must be positive");
  const double alpha = static_cast<double>(c.attrs.get_float("alpha", 1e-4F));
  const double beta = static_cast<double>(c.attrs.get_float("beta", 0.75F));
  const double bias = static_cast<double>(c.attrs.get_float("bias", 1));
  RP_ASSIGN(auto y, allocate(x.dtype(), x.dims()));
  if (y.count() == 0) return one(std::move(y));
  const AxisSplit s = split_at(x.dims(), 1);
  const int64_t before = std::min((size - 1) / 2, s.size);
  const int64_t after = std::min(size - 1 - (size - 1) / 2, s.size);
  std::vector<double> v(static_cast<size_t>(s.size));
  for (int64_t i = 0; i < s.outer * s.inner; ++i) {
    const int64_t start = i / s.inner * s.size * s.inner + i % s.inner;
    load(x, start, s.inner, s.size, v.data());
    for (int64_t ch = 0; ch < s.size; ++ch) {
      double sum = 0;
      for (int64_t k = std::max<int64_t>(0, ch - before); k <= std::min(s.size - 1, ch + after);
           ++k) {
        sum += v[static_cast<size_t>(k)] * v[static_cast<size_t>(k)];
      }
      const double e = v[static_cast<size_t>(ch)] /
                       std::pow(bias + alpha / static_cast<double>(size) * sum, beta);
      store(y, start + ch * s.inner, 1, &e);
    }
  }
  return one(std::move(y));
}

KernelResult lp_norm(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_TRY(require_float(c, 0, "input"));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(const int64_t axis, normalize_axis(c.attrs.get_int("axis", -1), x.rank()));
  const int64_t p = c.attrs.get_int("p", 2);
  if (p != 1 && p != 2) return invalid_model("attribute 'p' must be 1 or 2");
  const AxisSplit s = split_at(x.dims(), axis);
  RP_ASSIGN(auto y, allocate(x.dtype(), x.dims()));
  if (y.count() == 0) return one(std::move(y));
  std::vector<double> v(static_cast<size_t>(s.size));
  for (int64_t i = 0; i < s.outer * s.inner; ++i) {
    const int64_t start = i / s.inner * s.size * s.inner + i % s.inner;
    load(x, start, s.inner, s.size, v.data());
    double norm = 0;
    for (double e : v) norm += p == 1 ? std::fabs(e) : e * e;
    // Squares below the range of fp32 are 0, as on devices and in ONNX Runtime.
    if (p == 2) norm = std::fabs(norm) < std::numeric_limits<float>::min() ? 0 : std::sqrt(norm);
    for (int64_t k = 0; k < s.size; ++k) {
      const double e = norm == 0 ? 0 : v[static_cast<size_t>(k)] / norm;
      store(y, start + k * s.inner, 1, &e);
    }
  }
  return one(std::move(y));
}

KernelResult mean_variance_norm(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_TRY(require_float(c, 0, "X"));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(const Dims axes, normalize_axes(c.attrs.get_ints("axes", {0, 2, 3}), x.rank()));
  Dims kept = x.dims();
  for (int64_t a : axes) at(kept, a) = 1;
  const Dims to = broadcast_strides(kept, x.dims());
  RP_ASSIGN(auto v, load_all(x));
  RP_ASSIGN(auto mean, allocate_scratch(kept));
  std::vector<double> variance = mean;
  const Dims own = strides_of(x.dims());
  const double n =
      static_cast<double>(x.count()) / static_cast<double>(std::max<size_t>(1, mean.size()));
  const auto visit = [&](auto f) {
    for_each_index<2>(x.dims(), {&to, &own}, {0, 0}, [&](const std::array<int64_t, 2>& o) {
      f(static_cast<size_t>(o[0]), v[static_cast<size_t>(o[1])]);
    });
  };
  visit([&](size_t k, double& e) { mean[k] += e / n; });
  visit([&](size_t k, double& e) { variance[k] += (e - mean[k]) * (e - mean[k]) / n; });
  visit([&](size_t k, double& e) { e = (e - mean[k]) / (std::sqrt(variance[k]) + 1e-9); });
  RP_ASSIGN(auto y, store_all(x.dtype(), x.dims(), v));
  return one(std::move(y));
}

}  // namespace

Table normalization_table() {
  static constexpr Entry kTable[] = {
      {"LayerNormalization", layer_norm}, {"RMSNormalization", layer_norm},
      {"GroupNormalization", group_norm}, {"InstanceNormalization", group_norm},
      {"BatchNormalization", batch_norm}, {"LRN", local_response_norm},
      {"LpNormalization", lp_norm},       {"MeanVarianceNormalization", mean_variance_norm},
  };
  return kTable;
}

}  // namespace reprise::host
