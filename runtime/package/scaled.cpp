#include "runtime/package/scaled.h"

#include <bit>
#include <cmath>
#include <limits>

namespace reprise::package {
namespace {

/// For smaller weights the factors would be a large part.
constexpr uint64_t kLeastBytes = 4096;
constexpr size_t kMaxRank = 8;

/// The order of elements: `outer` times all channels, each with `inner` consecutive elements.
struct Channels {
  size_t channels = 1, inner = 1, outer = 1;
  Channels(const std::vector<int64_t>& dims, size_t axis)
      : channels(static_cast<size_t>(dims[axis])) {
    for (size_t i = 0; i < dims.size(); ++i) {
      if (i < axis) outer *= static_cast<size_t>(dims[i]);
      if (i > axis) inner *= static_cast<size_t>(dims[i]);
    }
  }
  template <typename F>
  bool each(size_t channel, const F& f) const {
    for (size_t o = 0; o < outer; ++o) {
      const size_t from = (o * channels + channel) * inner;
      for (size_t i = from; i < from + inner; ++i)
        if (!f(i)) return false;
    }
    return true;
  }
};

/// Whether products with this number do not depend on how a thread treats subnormal numbers.
bool is_plain(float v) {
  return v == 0 || std::isnormal(v);
}

/// The factor by which every element of the channel differs between `from` and `to`, if there is
/// one.
std::optional<float> factor(const Channels& c, size_t channel, const float* from, const float* to) {
  size_t largest = 0;
  bool any = false;
  const bool plain = c.each(channel, [&](size_t i) {
    if (!any || std::abs(from[i]) > std::abs(from[largest])) largest = i;
    any = true;
    return is_plain(from[i]) && is_plain(to[i]);
  });
  if (!plain || !any) return std::nullopt;
  const auto quotient = from[largest] == 0 ? 1.0F
                                           : static_cast<float>(static_cast<double>(to[largest]) /
                                                                static_cast<double>(from[largest]));
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float f : {quotient, std::nextafter(quotient, kInfinity),
                        std::nextafter(quotient, -kInfinity), -quotient}) {
    const bool all = c.each(channel, [&](size_t i) {
      return std::bit_cast<uint32_t>(from[i] * f) == std::bit_cast<uint32_t>(to[i]);
    });
    if (all && is_plain(f)) return f;
  }
  return std::nullopt;
}

std::optional<Scaled> as_scaled(const HostTensor& from, uint32_t base, const HostTensor& to) {
  const auto rank = static_cast<uint32_t>(to.dims().size());
  for (const uint32_t axis : {0U, rank - 1}) {
    const Channels c(to.dims(), axis);
    Scaled out{base, axis, {}};
    for (size_t i = 0; i < c.channels; ++i) {
      const auto f = factor(c, i, from.data<float>(), to.data<float>());
      if (!f) break;
      out.factors.push_back(*f);
    }
    if (out.factors.size() == c.channels) return out;
  }
  return std::nullopt;
}

bool is_candidate(const HostTensor& t) {
  return t.dtype() == DType::F32 && t.bytes().size() >= kLeastBytes && !t.dims().empty() &&
         t.dims().size() <= kMaxRank;
}

}  // namespace

std::vector<std::optional<Scaled>> find_scaled(const Package& p) {
  std::vector<std::optional<Scaled>> out(p.weights.size());
  std::vector<bool> of_host(p.weights.size(), false), taken(p.weights.size(), false);
  for (const plan::Weight& w : p.host_plan.weights)
    of_host[w.segment] = !p.parts.contains(w.segment);  // which has no bytes
  for (size_t i = 0; i < p.weights.size(); ++i) {
    if (of_host[i] || !is_candidate(p.weights[i])) continue;
    for (uint32_t base = 0; base < p.weights.size() && !out[i]; ++base) {
      const HostTensor& from = p.weights[base];
      if (!of_host[base] || taken[base] || from.dtype() != DType::F32 ||
          from.dims() != p.weights[i].dims())
        continue;
      out[i] = as_scaled(from, base, p.weights[i]);
      if (out[i]) taken[base] = true;
    }
  }
  return out;
}

HostTensor scaled_tensor(const HostTensor& base, uint32_t axis, std::span<const float> factors) {
  HostTensor out(DType::F32, base.dims());
  const Channels c(base.dims(), axis);
  const float* from = base.data<float>();
  float* to = out.mutable_data<float>();
  for (size_t run = 0; run < c.outer * c.channels; ++run) {
    const float f = factors[run % c.channels];
    for (size_t i = run * c.inner; i < (run + 1) * c.inner; ++i) to[i] = from[i] * f;
  }
  return out;
}

}  // namespace reprise::package
