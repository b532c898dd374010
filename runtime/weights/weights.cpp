#include "runtime/weights/weights.h"

#include <algorithm>
#include <cstring>

#include "runtime/plan/bind.h"

namespace reprise {
namespace {

constexpr int64_t kMaxTile = 4096;

std::string subject(const plan::Weight& w) {
  return "weight '" + w.name + "'";
}

/// Packs rows of matrices [k, n], the first of which is row `first` of all matrices. What is beyond
/// the n-th column becomes zero.
template <typename T>
void pack_rows(const plan::Weight& w, int64_t first, std::span<const T> rows, T* out) {
  const int64_t tile = w.tile_n, tiles = (w.n + tile - 1) / tile;
  const auto count = static_cast<int64_t>(rows.size()) / w.n;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t matrix = (first + i) / w.k, k = (first + i) % w.k;
    const T* const row = rows.data() + i * w.n;
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t valid = std::min(tile, w.n - t * tile);
      T* const to = out + ((matrix * tiles + t) * w.k + k) * tile;
      std::copy_n(row + t * tile, valid, to);
      std::fill(to + valid, to + tile, T{});
    }
  }
}

/// Packs columns of matrices [k, n] that are stored transposed: each piece of k elements is one.
/// Those of a tile are written together, in the order of memory.
template <typename T>
void pack_columns(const plan::Weight& w, int64_t first, std::span<const T> columns, T* out) {
  const int64_t tile = w.tile_n, tiles = (w.n + tile - 1) / tile;
  const auto count = static_cast<int64_t>(columns.size()) / w.k;
  for (int64_t i = 0; i < count;) {
    const int64_t matrix = (first + i) / w.n, n = (first + i) % w.n;
    const int64_t begin = n % tile, together = std::min({count - i, w.n - n, tile - begin});
    const int64_t end = n + together == w.n ? tile : begin + together;
    const T* const from = columns.data() + i * w.k;
    T* const to = out + (matrix * tiles + n / tile) * w.k * tile;
    for (int64_t k = 0; k < w.k; ++k) {
      for (int64_t j = begin; j < begin + together; ++j)
        to[k * tile + j] = from[(j - begin) * w.k + k];
      for (int64_t j = begin + together; j < end; ++j) to[k * tile + j] = T{};
    }
    i += together;
  }
}

template <typename T>
void pack_tiles(const plan::Weight& w, uint64_t offset, std::span<const std::byte> piece,
                std::byte* out) {
  const std::span elements(reinterpret_cast<const T*>(piece.data()), piece.size() / sizeof(T));
  const auto first = static_cast<int64_t>(offset / sizeof(T)) / (w.transposed ? w.k : w.n);
  auto* const to = reinterpret_cast<T*>(out);
  if (w.transposed) {
    pack_columns<T>(w, first, elements, to);
  } else {
    pack_rows<T>(w, first, elements, to);
  }
}

/// Packs eight rows from k on of four columns from n on, of which `code` returns the elements.
template <typename Code>
void pack_octet(const plan::Weight& w, int64_t matrix, int64_t k, int64_t n, const Code& code,
                std::byte* out) {
  const int64_t tile = w.tile_n, tiles = (w.n + tile - 1) / tile, octets = (w.k + 7) / 8;
  const int64_t first = ((matrix * tiles + n / tile) * octets + k / 8) * tile + n % tile;
  for (int64_t i = 0; i < 4; ++i) {
    uint32_t word = 0;
    for (int64_t j = 0; j < 8; ++j) {
      const int64_t at_k = k + 2 * i + j / 4, at_n = n + j % 4;
      if (at_k < w.k && at_n < w.n) word |= (code(at_k, at_n) & 15U) << (4 * j);
    }
    std::memcpy(out + (first + i) * 4, &word, sizeof word);
  }
}

/// Packs whole matrices, or so many rows that they are multiples of eight or the last ones of a
/// matrix; if they are stored transposed, columns in multiples of four.
void pack_nibbles(const plan::Weight& w, uint64_t offset, std::span<const std::byte> piece,
                  std::byte* out) {
  const int64_t length = w.transposed ? w.k : w.n, lines = w.transposed ? w.n : w.k;
  const int64_t padded = (w.n + w.tile_n - 1) / w.tile_n * w.tile_n;
  const int64_t begin = static_cast<int64_t>(offset) / length;
  const int64_t end = begin + static_cast<int64_t>(piece.size()) / length;
  for (int64_t at = begin; at < end;) {
    const int64_t matrix = at / lines, line = at % lines;
    const int64_t together = std::min(int64_t{w.transposed ? 4 : 8}, lines - line);
    const std::byte* const from = piece.data() + (at - begin) * length;
    const auto code = [&](int64_t k, int64_t n) {
      const int64_t place = w.transposed ? (n - line) * length + k : (k - line) * length + n;
      return std::to_integer<uint32_t>(from[place]);
    };
    const bool last = line + together == lines;
    const int64_t first_n = w.transposed ? line : 0;
    const int64_t end_n = w.transposed && !last ? line + 4 : padded;
    const int64_t first_k = w.transposed ? 0 : line, end_k = w.transposed ? w.k : line + together;
    for (int64_t n = first_n; n < end_n; n += 4) {
      for (int64_t k = first_k; k < end_k; k += 8) pack_octet(w, matrix, k, n, code, out);
    }
    at += together;
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

uint64_t WeightPacker::unit(const plan::Weight& w, const HostTensor& raw) {
  const auto row = static_cast<uint64_t>(w.transposed ? w.k : w.n) * size_of(raw.dtype());
  switch (w.packing) {
    case plan::Weight::Packing::Raw:
      return size_of(raw.dtype());
    case plan::Weight::Packing::Tiles:
      return row;
    case plan::Weight::Packing::Nibbles: {
      const int64_t lines = w.transposed ? w.n : w.k, together = w.transposed ? 4 : 8;
      const bool cut = w.batch == 1 || lines % together == 0;
      return static_cast<uint64_t>(cut ? together : lines) * row;
    }
  }
  return package::weight_bytes(raw);
}

void WeightPacker::add(uint64_t offset, std::span<const std::byte> piece,
                       std::span<std::byte> out) const {
  switch (w_.packing) {
    case plan::Weight::Packing::Raw:
      std::ranges::copy(piece, out.begin() + static_cast<std::ptrdiff_t>(offset));
      return;
    case plan::Weight::Packing::Nibbles:
      return pack_nibbles(w_, offset, piece, out.data());
    case plan::Weight::Packing::Tiles:
      break;
  }
  switch (element_) {
    case 1:
      return pack_tiles<uint8_t>(w_, offset, piece, out.data());
    case 2:
      return pack_tiles<uint16_t>(w_, offset, piece, out.data());
    case 4:
      return pack_tiles<uint32_t>(w_, offset, piece, out.data());
    default:
      return pack_tiles<uint64_t>(w_, offset, piece, out.data());
  }
}

Status pack_weight(const plan::Weight& w, const HostTensor& raw, std::span<std::byte> out) {
  RP_TRY(check_recipe(w, raw));
  WeightPacker(w, raw).add(0, raw.bytes(), out);
  return {};
}

}  // namespace reprise
