#include "runtime/weights.h"

#include <algorithm>
#include <cstring>

#include "runtime/plan/bind.h"

namespace reprise {
namespace {

constexpr int64_t kMaxTile = 4096;

std::string subject(const plan::Weight& w) {
  return "weight '" + w.name + "'";
}

template <typename T>
void pack_tiles(const plan::Weight& w, const std::byte* raw_bytes, std::byte* out_bytes) {
  const auto* raw = reinterpret_cast<const T*>(raw_bytes);
  auto* out = reinterpret_cast<T*>(out_bytes);
  const int64_t tile = w.tile_n;
  const int64_t row = w.transposed ? 1 : w.n, column = w.transposed ? w.k : 1;
  for (int64_t b = 0; b < w.batch; ++b) {
    const T* matrix = raw + b * w.k * w.n;
    for (int64_t n0 = 0; n0 < w.n; n0 += tile) {
      const int64_t valid = std::min(tile, w.n - n0);
      for (int64_t k = 0; k < w.k; ++k) {
        for (int64_t j = 0; j < valid; ++j) out[j] = matrix[k * row + (n0 + j) * column];
        for (int64_t j = valid; j < tile; ++j) out[j] = T{};
        out += tile;
      }
    }
  }
}

/// The next eight elements of a packed form, from row k on and column n on, as a word.
uint32_t nibbles(const plan::Weight& w, const std::byte* matrix, int64_t k, int64_t n) {
  const int64_t row = w.transposed ? 1 : w.n, column = w.transposed ? w.k : 1;
  uint32_t word = 0;
  for (int i = 0; i < 8; ++i) {
    const int64_t at_k = k + i / 4, at_n = n + i % 4;
    if (at_k >= w.k || at_n >= w.n) continue;
    const auto code = std::to_integer<uint32_t>(matrix[at_k * row + at_n * column]);
    word |= (code & 15U) << (4 * i);
  }
  return word;
}

void pack_nibbles(const plan::Weight& w, const std::byte* raw, std::byte* out) {
  for (int64_t b = 0; b < w.batch; ++b) {
    const std::byte* const matrix = raw + b * w.k * w.n;
    for (int64_t tile = 0; tile < w.n; tile += w.tile_n) {
      for (int64_t k = 0; k < w.k; k += 8) {
        for (int64_t i = 0; i < w.tile_n; ++i) {
          const uint32_t word = nibbles(w, matrix, k + i % 4 * 2, tile + i / 4 * 4);
          std::memcpy(out, &word, sizeof word);
          out += sizeof word;
        }
      }
    }
  }
}

}  // namespace

Result<HostTensor> load_weight(const package::Package& package, const plan::Weight& w) {
  auto raw = package::load_weight(package, w.segment);
  if (!raw.ok()) return raw.status().with_context(subject(w));
  return raw;
}

Status check_recipe(const plan::Weight& w, const HostTensor& raw) {
  if (w.packing == plan::Weight::Packing::Raw) return {};
  const int64_t count = raw.count();
  const bool sane = w.batch > 0 && w.k > 0 && w.n > 0 && w.tile_n > 0 && w.tile_n <= kMaxTile &&
                    w.batch <= count && w.k <= count / w.batch && w.n <= count / w.batch / w.k &&
                    w.batch * w.k * w.n == count && size_of(raw.dtype()) > 0 &&
                    (w.packing == plan::Weight::Packing::Tiles ||
                     (w.tile_n % 4 == 0 && bits_of(raw.dtype()) == 4));
  if (sane) return {};
  return corrupt_package(subject(w) + ": packing [" + std::to_string(w.batch) + "," +
                         std::to_string(w.k) + "," + std::to_string(w.n) + "] in tiles of " +
                         std::to_string(w.tile_n) + " does not fit " +
                         describe(raw.dtype(), raw.dims()));
}

Status check_weight(const package::Package& package, const plan::Plan& plan,
                    const plan::Buffer& buffer) {
  const plan::Weight& w = plan.weights[static_cast<size_t>(buffer.index)];
  if (w.segment >= package.weights.size()) {
    return corrupt_package(subject(w) + ": segment " + std::to_string(w.segment) + " of " +
                           std::to_string(package.weights.size()));
  }
  const HostTensor& raw = package.weights[w.segment];
  RP_ASSIGN(auto dims, plan::eval_dims({}, buffer.shape, {}, buffer.name));
  RP_ASSIGN(const int64_t count, checked_element_count(dims, buffer.dtype));
  if (raw.dtype() == buffer.dtype && raw.count() == count) return {};
  return corrupt_package(subject(w) + " is " + describe(raw.dtype(), raw.dims()) +
                         ", the plan expects " + describe(buffer.dtype, dims));
}

Result<HostTensor> raw_weight(const package::Package& package, const plan::Plan& plan,
                              const plan::Buffer& buffer) {
  RP_TRY(check_weight(package, plan, buffer));
  RP_ASSIGN(const HostTensor raw,
            load_weight(package, plan.weights[static_cast<size_t>(buffer.index)]));
  RP_ASSIGN(auto dims, plan::eval_dims({}, buffer.shape, {}, buffer.name));
  return raw.reshaped(std::move(dims));
}

Status HostWeights::load(const package::Package& package, const plan::Plan& plan) {
  for (const plan::Step& step : plan.steps) {
    const auto* call = std::get_if<plan::HostCall>(&step.what);
    if (!call) continue;
    for (const plan::BufferId b : call->inputs) {
      if (!b.is_none() && plan.buffers[b].kind == plan::BufferKind::Weight)
        RP_TRY(get(package, plan, b).status());
    }
  }
  return {};
}

Result<HostTensor> HostWeights::get(const package::Package& package, const plan::Plan& plan,
                                    plan::BufferId buffer) const {
  const std::lock_guard lock(mutex_);
  known_.resize(plan.buffers.size());
  std::optional<HostTensor>& known = known_[buffer];
  if (!known) {
    RP_ASSIGN(known, raw_weight(package, plan, plan.buffers[buffer]));
  }
  return *known;
}

Status pack_weight(const plan::Weight& w, const HostTensor& raw, std::span<std::byte> out) {
  RP_TRY(check_recipe(w, raw));
  if (w.packing == plan::Weight::Packing::Raw) {
    std::copy_n(raw.bytes().begin(), std::min(out.size(), raw.bytes().size()), out.begin());
    return {};
  }
  if (w.packing == plan::Weight::Packing::Nibbles) {
    pack_nibbles(w, raw.bytes().data(), out.data());
    return {};
  }
  switch (size_of(raw.dtype())) {
    case 1:
      pack_tiles<uint8_t>(w, raw.bytes().data(), out.data());
      return {};
    case 2:
      pack_tiles<uint16_t>(w, raw.bytes().data(), out.data());
      return {};
    case 4:
      pack_tiles<uint32_t>(w, raw.bytes().data(), out.data());
      return {};
    default:
      pack_tiles<uint64_t>(w, raw.bytes().data(), out.data());
      return {};
  }
}

}  // namespace reprise
