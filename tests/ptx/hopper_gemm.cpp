#include "tests/ptx/hopper_gemm.h"

#include <cstring>
#include <random>

#include "runtime/base/dtype.h"
#include "tests/ptx/hopper.h"
#include "tests/ptx/ptx_text.h"

namespace reprise::test {
namespace {

constexpr int kTileRows = 128, kTileColumns = 64, kTileDepth = 64, kStages = 3;

constexpr const char* kHopperFunctions = R"(
#define RP_FN __device__ __forceinline__
typedef unsigned long long u64;
struct __align__(128) tensor_map { u64 words[16]; };
struct block_t { tensor_map a, b, c; int tiles, tiles_n, k_blocks; };
RP_FN unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
RP_FN void make(unsigned bar, unsigned n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(n) : "memory");
}
RP_FN void expect(unsigned bar, unsigned n) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(n) : "memory");
}
RP_FN void arrive(unsigned bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(bar) : "memory");
}
RP_FN void await(unsigned bar, unsigned parity) {
  asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra D; bra W; D: }"
               :: "r"(bar), "r"(parity) : "memory");
}
RP_FN void load(unsigned to, const tensor_map* map, unsigned bar, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
               :: "r"(to), "l"(map), "r"(bar), "r"(x), "r"(y) : "memory");
}
RP_FN void store(const tensor_map* map, unsigned from, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"
               :: "l"(map), "r"(from), "r"(x), "r"(y) : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
RP_FN void team_barrier(unsigned id) { asm volatile("bar.sync %0, 128;" :: "r"(id) : "memory"); }
RP_FN u64 descriptor(unsigned address) {
  return ((u64)(address >> 4) & 0x3fff) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
}
RP_FN void put(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
)";

constexpr const char* kHopperKernel = R"(
extern "C" __global__ void __launch_bounds__(384, 1) gemm(const __grid_constant__ block_t block) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const unsigned a0 = at(smem), b0 = a0 + S * BM * BK * 2, c0 = b0 + S * BN * BK * 2;
  const unsigned full = c0 + BM * BN * 2, empty = full + 8 * S;
  const int team = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    for (int i = 0; i < S; ++i) {
      make(full + 8 * i, 1);
      make(empty + 8 * i, 2);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  int s = 0;
  unsigned parity = 0;
  if (team == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x != 256) return;
    for (int t = blockIdx.x; t < block.tiles; t += gridDim.x) {
      const int y = t / block.tiles_n * BM, x = t % block.tiles_n * BN;
      for (int k = 0; k < block.k_blocks; ++k) {
        await(empty + 8 * s, parity ^ 1);
        expect(full + 8 * s, (BM + BN) * BK * 2);
        load(a0 + s * BM * BK * 2, &block.a, full + 8 * s, k * BK, y);
        if (TRANSPOSED) load(b0 + s * BN * BK * 2, &block.b, full + 8 * s, x, k * BK);
        else load(b0 + s * BN * BK * 2, &block.b, full + 8 * s, k * BK, x);
        if (++s == S) { s = 0; parity ^= 1; }
      }
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  const int lane = threadIdx.x & 31, warp = (threadIdx.x >> 5) & 3;
  const unsigned mine = c0 + team * 64 * BN * 2;
  float sums[BN / 2];
  for (int t = blockIdx.x; t < block.tiles; t += gridDim.x) {
    for (int k = 0; k < block.k_blocks; ++k) {
      await(full + 8 * s, parity);
      const unsigned a = a0 + s * BM * BK * 2 + team * 64 * BK * 2, b = b0 + s * BN * BK * 2;
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int kk = 0; kk < BK / 16; ++kk)
        multiply(sums, descriptor(a + kk * 32), descriptor(b + kk * (TRANSPOSED ? 2048 : 32)), (k | kk) != 0);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      if (threadIdx.x % 128 == 0) arrive(empty + 8 * s);
      if (++s == S) { s = 0; parity ^= 1; }
    }
    if (threadIdx.x % 128 == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    team_barrier(1 + team);
    const int row = warp * 16 + lane % 16;
#pragma unroll
    for (int j = 0; j < BN / 16; ++j) {
      unsigned v[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) v[i] = pack(sums[8 * j + 2 * i], sums[8 * j + 2 * i + 1]);
      put(mine + row * 128 + ((2 * j + lane / 16) ^ (row % 8)) * 16, v[0], v[1], v[2], v[3]);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    team_barrier(1 + team);
    if (threadIdx.x % 128 == 0)
      store(&block.c, mine, t % block.tiles_n * BN, t / block.tiles_n * BM + team * 64);
  }
  if (threadIdx.x % 128 == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
)";

/// "multiply" and "pack" for the factors' type.
std::string product_function(const HopperGemm& g) {
  const std::string type = g.brain ? "bf16" : "f16";
  std::string registers, operands;
  constexpr int kSums = kTileColumns / 2;
  for (int n = 0; n < kSums; ++n) {
    registers += (n == 0 ? "%" : ", %") + std::to_string(n);
    operands += std::string(n == 0 ? "" : ", ") + "\"+f\"(d[" + std::to_string(n) + "])";
  }
  const auto at = [](int n) { return "%" + std::to_string(kSums + n); };
  return "RP_FN void multiply(float (&d)[" + std::to_string(kSums) +
         "], u64 a, u64 b, int keep) {\n  asm volatile(\"{ .reg .pred p; setp.ne.b32 p, " + at(2) +
         ", 0; wgmma.mma_async.sync.aligned.m64n" + std::to_string(kTileColumns) + "k16.f32." +
         type + "." + type + " {" + registers + "}, " + at(0) + ", " + at(1) + ", p, 1, 1, 0, " +
         (g.transposed ? "1" : "0") + "; }\" : " + operands +
         " : \"l\"(a), \"l\"(b), \"r\"(keep));\n}\n"
         "RP_FN unsigned pack(float low, float high) {\n  unsigned v;\n  asm(\"cvt.rn." +
         type + "x2.f32 %0, %2, %1;\" : \"=r\"(v) : \"f\"(low), \"f\"(high));\n  return v;\n}\n";
}

uint16_t as_factor(int v, bool brain) {
  return brain ? float_to_bf16(static_cast<float>(v)) : float_to_f16(static_cast<float>(v));
}
float from_factor(uint16_t bits, bool brain) {
  return brain ? bf16_to_float(bits) : f16_to_float(bits);
}

BoxedTensor boxed_matrix(int rows, int columns, uint32_t box_rows) {
  return {cuda::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
          {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows)},
          {64, box_rows},
          {1, 1},
          3};
}

/// Small ones, by row and column.
class IntegerMatrix {
 public:
  IntegerMatrix(int rows, int columns, std::mt19937& rng) : columns_(static_cast<size_t>(columns)) {
    values_.resize(columns_ * static_cast<size_t>(rows));
    for (int& x : values_) x = static_cast<int>(rng() % 5) - 2;
  }
  int at(int y, int x) const {
    return values_[static_cast<size_t>(y) * columns_ + static_cast<size_t>(x)];
  }

 private:
  size_t columns_;
  std::vector<int> values_;
};

size_t byte_of(const BoxedTensor& t, int y, int x) {
  return static_cast<size_t>(y) * t.strides()[1] + static_cast<size_t>(x) * 2;
}

void put_factor(std::vector<std::byte>& to, const BoxedTensor& t, int y, int x, uint16_t bits) {
  std::memcpy(&to[byte_of(t, y, x)], &bits, 2);
}

struct HopperParameters {  // as block_t, which is aligned to 128 bytes
  TensorMap a, b, c;
  int tiles, tiles_n, k_blocks;
  int unused[29];
};
static_assert(sizeof(HopperParameters) == 512);

}  // namespace

Result<std::string> hopper_gemm_ptx(const HopperGemm& g) {
  const auto constant = [](const char* name, int value) {
    return "#define " + std::string(name) + " " + std::to_string(value) + "\n";
  };
  return ptx_for("compute_90a", constant("BM", kTileRows) + constant("BN", kTileColumns) +
                                    constant("BK", kTileDepth) + constant("S", kStages) +
                                    constant("TRANSPOSED", g.transposed ? 1 : 0) +
                                    kHopperFunctions + product_function(g) + kHopperKernel);
}

std::string run_hopper_gemm(const HopperGemm& g, const std::string& ptx) {
  const auto program = ptx::parse(ptx);
  if (!program.ok()) return program.status().message();
  std::mt19937 rng(static_cast<unsigned>(g.seed));
  const IntegerMatrix a(g.m, g.k, rng), b(g.n, g.k, rng);
  const BoxedTensor as = boxed_matrix(g.m, g.k, kTileRows), cs = boxed_matrix(g.m, g.n, 64);
  const BoxedTensor bs =
      g.transposed ? boxed_matrix(g.k, g.n, kTileDepth) : boxed_matrix(g.n, g.k, kTileColumns);
  std::vector<std::byte> left(as.bytes()), right(bs.bytes()), out(cs.bytes(), std::byte{0x7E});
  for (int k = 0; k < g.k; ++k) {
    for (int y = 0; y < g.m; ++y) put_factor(left, as, y, k, as_factor(a.at(y, k), g.brain));
    for (int x = 0; x < g.n; ++x)
      put_factor(right, bs, g.transposed ? k : x, g.transposed ? x : k,
                 as_factor(b.at(x, k), g.brain));
  }
  const std::vector<ptx::Buffer> buffers{
      {uint64_t{1} << 36, left}, {uint64_t{2} << 36, right}, {uint64_t{3} << 36, out}};
  const auto count = [](int size, int tile) { return (size + tile - 1) / tile; };
  const HopperParameters params{as.map(buffers[0].address),
                                bs.map(buffers[1].address),
                                cs.map(buffers[2].address),
                                count(g.m, kTileRows) * count(g.n, kTileColumns),
                                count(g.n, kTileColumns),
                                count(g.k, kTileDepth),
                                {}};
  const uint32_t shared =
      kStages * (kTileRows + kTileColumns) * kTileDepth * 2 + kTileRows * kTileColumns * 2 + 1024;
  const Status s = ptx::run(*program,
                            {"gemm",
                             {static_cast<uint32_t>(g.groups), 1, 1},
                             {384, 1, 1},
                             shared,
                             std::as_bytes(std::span(&params, 1)),
                             buffers},
                            g.options);
  if (!s.ok()) return s.message();
  for (int y = 0; y < g.m; ++y) {
    for (int x = 0; x < g.n; ++x) {
      int sum = 0;
      for (int k = 0; k < g.k; ++k) sum += a.at(y, k) * b.at(x, k);
      uint16_t bits = 0;
      std::memcpy(&bits, &out[byte_of(cs, y, x)], 2);
      if (from_factor(bits, g.brain) != from_factor(as_factor(sum, g.brain), g.brain))
        return "another sum in row " + std::to_string(y) + ", column " + std::to_string(x);
    }
  }
  return "";
}

}  // namespace reprise::test
