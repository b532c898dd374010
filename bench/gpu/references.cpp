#include "bench/gpu/references.h"

#include <algorithm>
#include <cmath>

#include "tests/support/onnx_writer.h"

namespace reprise::bench::gpu {
namespace {

/// Some numbers of [0, count), spread evenly, including the first and the last.
std::vector<int64_t> some(int64_t count, int64_t wanted) {
  std::vector<int64_t> out;
  out.reserve(static_cast<size_t>(std::min(count, wanted)));
  if (count <= wanted) {
    for (int64_t i = 0; i < count; ++i) out.push_back(i);
    return out;
  }
  for (int64_t i = 0; i + 1 < wanted; ++i) out.push_back(i * (count / wanted) + i % 7);
  out.push_back(count - 1);
  return out;
}

double conv_at(const ConvOp& op, const HostTensor& x, const HostTensor& w, int64_t index) {
  const int64_t column = index % op.out(), row = index / op.out() % op.out();
  const int64_t filter = index / (op.out() * op.out());
  double sum = 0;
  for (int64_t c = 0; c < op.channels; ++c) {
    for (int64_t i = 0; i < op.kernel; ++i) {
      for (int64_t j = 0; j < op.kernel; ++j) {
        const int64_t y = row * op.stride - op.pad + i, z = column * op.stride - op.pad + j;
        if (y < 0 || z < 0 || y >= op.size || z >= op.size) continue;
        const int64_t weight = ((filter * op.channels + c) * op.kernel + i) * op.kernel + j;
        sum += value_at(x, (c * op.size + y) * op.size + z) * value_at(w, weight);
      }
    }
  }
  return sum;
}

double sigmoid(double v) {
  return 1 / (1 + std::exp(-v));
}

/// Replaces each element v by exp(v - max) and returns the sum.
double exponentials(std::vector<double>& v) {
  const double top = *std::max_element(v.begin(), v.end());
  double sum = 0;
  for (double& x : v) sum += x = std::exp(x - top);
  return sum;
}

}  // namespace

Samples sampled(int64_t count, int64_t wanted, const std::function<double(int64_t)>& value) {
  Samples out;
  for (const int64_t i : some(count, wanted)) out.push_back({0, i, value(i)});
  return out;
}

Samples copied(const HostTensor& x) {
  return sampled(x.count(), 4096, [&](int64_t i) { return value_at(x, i); });
}

Samples gemm_samples(const GemmOp& op, const HostTensor& x, const HostTensor& w) {
  return sampled(op.m * op.n, 512, [&](int64_t at) {
    double sum = 0;
    for (int64_t i = 0; i < op.k; ++i)
      sum += value_at(x, at / op.n * op.k + i) * value_at(w, i * op.n + at % op.n);
    return sum;
  });
}

Samples softmax_samples(const SoftmaxOp& op, const HostTensor& x) {
  Samples out;
  for (const int64_t row : some(op.rows, 16)) {
    std::vector<double> v(static_cast<size_t>(op.columns));
    for (int64_t i = 0; i < op.columns; ++i)
      v[static_cast<size_t>(i)] = value_at(x, row * op.columns + i);
    const double sum = exponentials(v);
    for (const int64_t i : some(op.columns, 64))
      out.push_back({0, row * op.columns + i, v[static_cast<size_t>(i)] / sum});
  }
  return out;
}

Samples conv_samples(const ConvOp& op, const HostTensor& x, const HostTensor& w) {
  return sampled(op.filters * op.out() * op.out(), 512,
                 [&](int64_t i) { return conv_at(op, x, w, i); });
}

Samples attention_samples(const AttentionSize& op, const Tensors& qkv) {
  Samples out;
  for (const int64_t row : some(op.heads * op.rows, 24)) {
    const int64_t head = row / op.rows;
    std::vector<double> p(static_cast<size_t>(op.keys));
    for (int64_t key = 0; key < op.keys; ++key) {
      double dot = 0;
      for (int64_t i = 0; i < op.size; ++i) {
        dot += value_at(qkv[0], row * op.size + i) *
               value_at(qkv[1], (head * op.keys + key) * op.size + i);
      }
      p[static_cast<size_t>(key)] = dot / std::sqrt(static_cast<double>(op.size));
    }
    const double sum = exponentials(p);
    for (int64_t i = 0; i < op.size; ++i) {
      double y = 0;
      for (int64_t key = 0; key < op.keys; ++key) {
        y += p[static_cast<size_t>(key)] * value_at(qkv[2], (head * op.keys + key) * op.size + i);
      }
      out.push_back({0, row * op.size + i, y / sum});
    }
  }
  return out;
}

Samples pointwise_samples(int64_t columns, const HostTensor& x) {
  const HostTensor scale = test::float_tensor({columns}, 0.5F, 1.0F);
  const HostTensor bias = test::float_tensor({columns}, 0.1F);
  return sampled(x.count(), 4096, [&](int64_t i) {
    double v = value_at(x, i) * value_at(scale, i % columns) + value_at(bias, i % columns);
    for (int repeat = 0; repeat < 3; ++repeat) {
      v = std::sin(v) + std::cos(v) * std::tanh(v);
      v = v * sigmoid(v) + std::max(v, 0.0);
      v = v / (std::abs(v) + 1);
    }
    return v;
  });
}

Samples replay_samples(size_t launches, const HostTensor& x) {
  return sampled(x.count(), 64,
                 [&](int64_t i) { return value_at(x, i) + static_cast<double>(launches); });
}

Samples whole(const Tensors& outputs) {
  Samples out;
  for (size_t o = 0; o < outputs.size(); ++o) {
    for (int64_t i = 0; i < outputs[o].count(); ++i) out.push_back({o, i, value_at(outputs[o], i)});
  }
  return out;
}

}  // namespace reprise::bench::gpu
