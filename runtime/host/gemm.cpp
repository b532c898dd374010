#include "runtime/host/gemm.h"

#include <algorithm>

#include "runtime/host/tile_product.h"

namespace reprise::host {

namespace {

constexpr int64_t kTile = 4;          // micro tile of 4 x 4 accumulators, in 16-byte registers
constexpr int64_t kBlockRows = 1024;  // rows whose accumulators are kept at once
constexpr int64_t kPackRows = 64;     // rows of A that are packed at once
constexpr int64_t kBlockColumns = 256;
constexpr int64_t kBlockDepth = 256;

int64_t round_up(int64_t v, int64_t to) {
  return (v + to - 1) / to * to;
}

/// c[4][4] (row stride ldc) += a[ks][4] * b[ks][4].
void add_tile(const double* a, const double* b, int64_t ks, double* c, int64_t ldc) {
  double sums[kTile][kTile];
  multiply_tile<kTile, kTile>({a, 1, kTile}, b, ks, *sums);
  for (int64_t i = 0; i < kTile; ++i) {
    for (int64_t j = 0; j < kTile; ++j) c[i * ldc + j] += sums[i][j];
  }
}

/// Packs a block as tiles of 4: [tile][k][4]. Zeros fill the last tile.
void pack_tiles(const PackBlock& pack, const Block& block, std::vector<double>& out,
                std::vector<double>& scratch) {
  pack(block, scratch.data(), block.count);
  for (int64_t t = 0; t < block.count; t += kTile) {
    double* to = out.data() + t * block.ks;
    const int64_t width = std::min(kTile, block.count - t);
    for (int64_t k = 0; k < block.ks; ++k) {
      const double* from = scratch.data() + k * block.count + t;
      for (int64_t i = 0; i < kTile; ++i) to[k * kTile + i] = i < width ? from[i] : 0.0;
    }
  }
}

}  // namespace

void gemm(int64_t m, int64_t n, int64_t k, const PackBlock& a, const PackBlock& b,
          const StoreRow& store) {
  if (m <= 0 || n <= 0) return;
  const int64_t depth = std::min(kBlockDepth, std::max<int64_t>(k, 1));
  const int64_t columns = std::min(kBlockColumns, round_up(n, kTile));
  const int64_t rows = std::min(kBlockRows, round_up(m, kTile));
  const int64_t pack_rows = std::min(kPackRows, rows);
  std::vector<double> packed_a(static_cast<size_t>(pack_rows * depth));
  std::vector<double> packed_b(static_cast<size_t>(columns * depth));
  std::vector<double> scratch(static_cast<size_t>(std::max(pack_rows, columns) * depth));
  std::vector<double> acc(static_cast<size_t>(rows * columns));
  for (int64_t m1 = 0; m1 < m; m1 += rows) {
    const int64_t m_count = std::min(rows, m - m1);
    for (int64_t n0 = 0; n0 < n; n0 += columns) {
      const int64_t n_count = std::min(columns, n - n0);
      std::fill(acc.begin(), acc.end(), 0.0);
      for (int64_t k0 = 0; k0 < k; k0 += depth) {
        const int64_t ks = std::min(depth, k - k0);
        pack_tiles(b, {n0, n_count, k0, ks}, packed_b, scratch);
        for (int64_t m0 = 0; m0 < m_count; m0 += pack_rows) {
          const int64_t a_count = std::min(pack_rows, m_count - m0);
          pack_tiles(a, {m1 + m0, a_count, k0, ks}, packed_a, scratch);
          for (int64_t j = 0; j < n_count; j += kTile) {
            for (int64_t i = 0; i < a_count; i += kTile) {
              add_tile(packed_a.data() + i * ks, packed_b.data() + j * ks, ks,
                       acc.data() + (m0 + i) * columns + j, columns);
            }
          }
        }
      }
      for (int64_t i = 0; i < m_count; ++i) store(m1 + i, n0, n_count, acc.data() + i * columns);
    }
  }
}

PackBlock pack_strided(const HostTensor& t, int64_t offset, int64_t minor_stride, int64_t k_stride,
                       std::span<const double> zero_points) {
  return [&t, offset, minor_stride, k_stride, zero_points](const Block& block, double* out,
                                                           int64_t out_stride) {
    const auto [begin, count, k0, ks] = block;
    std::array<double, kBlockDepth> line;
    const int64_t base = offset + begin * minor_stride + k0 * k_stride;
    if (k_stride == 1 && minor_stride != 1) {
      for (int64_t i = 0; i < count; ++i) {
        load(t, base + i * minor_stride, 1, ks, line.data());
        for (int64_t k = 0; k < ks; ++k) out[k * out_stride + i] = line[static_cast<size_t>(k)];
      }
    } else {
      for (int64_t k = 0; k < ks; ++k) {
        load(t, base + k * k_stride, minor_stride, count, out + k * out_stride);
      }
    }
    if (zero_points.empty()) return;
    for (int64_t k = 0; k < ks; ++k) {
      for (int64_t i = 0; i < count; ++i) {
        out[k * out_stride + i] -=
            zero_points[zero_points.size() == 1 ? 0 : static_cast<size_t>(begin + i)];
      }
    }
  };
}

}  // namespace reprise::host
