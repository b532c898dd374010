#include "tests/cuda_shim/shim.h"

namespace reprise::test {

// A kernel's invocation gets its index as a parameter, so that the loop over a workgroup can be
// compiled as any other loop; functions of the prelude read it from the shim. The shim's address
// stays in a register where the compiler can reserve one: worker threads each have their own.
// The functions of an address checker are the library's own, whatever the process has.
const char* shim_text() {
  return R"(#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include <math.h>
struct ShimIndex { unsigned x, y, z; };
struct Shim {
  ShimIndex thread, group, group_size, grid_size;
  void* fibers;
  void (*barrier)(Shim*);
  unsigned long (*shuffle)(Shim*, unsigned active, unsigned long in, unsigned lane, bool is_xor);
  unsigned (*ballot)(Shim*, unsigned active, bool in);
  void** (*meet)(Shim*, void* in);
  unsigned long stack, stack_bytes, block, block_bytes;
  void* checker;
  void (*access)(Shim*, unsigned long address, unsigned long bytes, unsigned kind);
  unsigned awaited, unaware;
};
#if defined(__x86_64__) && !defined(__clang__)
register Shim* reprise_shim asm("r15");
#elif defined(__aarch64__) && !defined(__clang__)
register Shim* reprise_shim asm("x28");
#else
static thread_local Shim* reprise_shim;
#endif
struct ShimThreadX { operator unsigned() const { return reprise_shim->thread.x; } };
struct ShimThreadY { operator unsigned() const { return reprise_shim->thread.y; } };
struct ShimThreadZ { operator unsigned() const { return reprise_shim->thread.z; } };
static const struct { ShimThreadX x; ShimThreadY y; ShimThreadZ z; } threadIdx = {};
#define blockIdx (reprise_shim->group)
#define blockDim (reprise_shim->group_size)
#define gridDim (reprise_shim->grid_size)
#define __global__ inline __attribute__((always_inline))
#define __device__
#define __grid_constant__ ShimIndex threadIdx, const
#if defined(RP_SHIM_ONE_THREAD)
#define __shared__ static
#else
#define __shared__ static thread_local
#endif
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(n)
#define __syncthreads() (reprise_shim->barrier(reprise_shim))
#define __ballot_sync(active, in) (reprise_shim->ballot(reprise_shim, active, in))
#define __ffs __builtin_ffs
template <typename T> static T shim_shuffle(unsigned active, T v, int lane, bool is_xor) {
  unsigned long bits = 0;
  __builtin_memcpy(&bits, &v, sizeof v);
  bits = reprise_shim->shuffle(reprise_shim, active, bits, (unsigned)lane, is_xor);
  __builtin_memcpy(&v, &bits, sizeof v);
  return v;
}
template <typename T> static T __shfl_sync(unsigned active, T v, int lane) {
  return shim_shuffle(active, v, lane, false);
}
template <typename T> static T __shfl_xor_sync(unsigned active, T v, int mask) {
  return shim_shuffle(active, v, mask, true);
}
#if defined(RP_SHIM_CHECKED)
#define RP_UNCHECKED __attribute__((noinline, no_sanitize_address))
extern "C" __attribute__((visibility("hidden"))) char __ehdr_start[], _end[];
RP_UNCHECKED static void shim_access(unsigned long at, unsigned long bytes, unsigned kind) {
  Shim* const s = reprise_shim;
  if (at - s->stack < s->stack_bytes || at - s->block < s->block_bytes) return;
  if (at - (unsigned long)s < sizeof(Shim)) return;
  if (at - (unsigned long)__ehdr_start < (unsigned long)(_end - __ehdr_start)) return;
  s->access(s, at, bytes, kind);
}
#define RP_CHECKS(bytes) \
  extern "C" RP_UNCHECKED void __asan_load##bytes##_noabort(unsigned long at) { shim_access(at, bytes, 0); } \
  extern "C" RP_UNCHECKED void __asan_store##bytes##_noabort(unsigned long at) { shim_access(at, bytes, 1); }
RP_CHECKS(1)
RP_CHECKS(2)
RP_CHECKS(4)
RP_CHECKS(8)
RP_CHECKS(16)
extern "C" RP_UNCHECKED void __asan_loadN_noabort(unsigned long at, unsigned long bytes) { shim_access(at, bytes, 0); }
extern "C" RP_UNCHECKED void __asan_storeN_noabort(unsigned long at, unsigned long bytes) { shim_access(at, bytes, 1); }
extern "C" RP_UNCHECKED void __asan_handle_no_return() {}
#else
#define RP_UNCHECKED inline
#define shim_access(at, bytes, kind)
#endif
RP_UNCHECKED static unsigned atomicAnd(unsigned* at, unsigned v) {
  shim_access((unsigned long)at, 4, 2);
  return __atomic_fetch_and(at, v, __ATOMIC_RELAXED);
}
RP_UNCHECKED static unsigned atomicOr(unsigned* at, unsigned v) {
  shim_access((unsigned long)at, 4, 2);
  return __atomic_fetch_or(at, v, __ATOMIC_RELAXED);
}
RP_UNCHECKED static unsigned atomicMax(unsigned* at, unsigned v) {
  shim_access((unsigned long)at, 4, 2);
  unsigned before = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (before < v && !__atomic_compare_exchange_n(at, &before, v, true, __ATOMIC_RELAXED,
                                                    __ATOMIC_RELAXED)) {
  }
  return before;
}
)";
}

const char* shim_hooks_text() {
  return R"(
static inline void shim_await_launches() { reprise_shim->awaited = 1; }
#define rp_await_launches shim_await_launches
)";
}

// The product of a warp's matrices, by the first lane for all: the same sums in the same order as
// the prelude makes with 96 exchanges.
const char* shim_fast_text() {
  return R"(
struct shim_fragments { const unsigned* left; const unsigned* right; float* sum; };
template <typename T> RP_UNCHECKED static void shim_multiply(shim_fragments** lanes) {
  float left[16][16], right[16][16], sum[16][16];
  for (unsigned n = 0; n < 32; ++n) {
    const unsigned g = n >> 2, t = 2u * (n & 3u);
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned a = lanes[n]->left[i], b = lanes[n]->right[i];
      for (unsigned h = 0; h < 2; ++h) {
        left[g + 8u * (i & 1u)][t + 8u * (i >> 1) + h] = rp_half_of<T>(a, h);
        right[t + 8u * (i & 1u) + h][g + 8u * (i >> 1)] = rp_half_of<T>(b, h);
      }
    }
    for (unsigned i = 0; i < 8; ++i) sum[g + 4u * (i & 2u)][t + (i & 1u) + 2u * (i & 4u)] = lanes[n]->sum[i];
  }
  for (unsigned r = 0; r < 16; ++r)
    for (unsigned k = 0; k < 16; ++k)
      for (unsigned c = 0; c < 16; ++c) sum[r][c] += left[r][k] * right[k][c];
  for (unsigned n = 0; n < 32; ++n) {
    const unsigned g = n >> 2, t = 2u * (n & 3u);
    for (unsigned i = 0; i < 8; ++i) lanes[n]->sum[i] = sum[g + 4u * (i & 2u)][t + (i & 1u) + 2u * (i & 4u)];
  }
}
template <typename T>
static inline void shim_matrix_mul_add(rp_matrix_sum& sum, const rp_matrix_left<T>& a, const rp_matrix_right<T>& b) {
  shim_fragments mine = {a.r, b.r, sum.r};
  void** const lanes = reprise_shim->meet(reprise_shim, &mine);
  if (lanes != nullptr) shim_multiply<T>((shim_fragments**)lanes);
}
RP_UNCHECKED static void shim_multiply_split(shim_fragments** lanes) {
  float left[2][16][8], right[2][8][16], sum[16][16] = {};
  for (unsigned n = 0; n < 32; ++n) {
    const unsigned g = n >> 2, t = n & 3u;
    for (unsigned i = 0; i < 8; ++i) {
      left[i >> 2][g + 8u * (i & 1u)][t + 4u * (i >> 1 & 1u)] = rp_float(lanes[n]->left[i]);
      right[i >> 2][t + 4u * (i & 1u)][g + 8u * (i >> 1 & 1u)] = rp_float(lanes[n]->right[i]);
    }
  }
  for (unsigned r = 0; r < 16; ++r)
    for (unsigned n = 0; n < 24; ++n)
      for (unsigned c = 0; c < 16; ++c) sum[r][c] += left[n < 8][r][n & 7u] * right[n >> 3 == 1][n & 7u][c];
  for (unsigned n = 0; n < 32; ++n) {
    const unsigned g = n >> 2, t = 2u * (n & 3u);
    for (unsigned i = 0; i < 8; ++i) lanes[n]->sum[i] += sum[g + 4u * (i & 2u)][t + (i & 1u) + 2u * (i & 4u)];
  }
}
static inline void shim_matrix_mul_add(rp_matrix_sum& sum, const rp_matrix_left<float>& a, const rp_matrix_right<float>& b) {
  shim_fragments mine = {a.r, b.r, sum.r};
  void** const lanes = reprise_shim->meet(reprise_shim, &mine);
  if (lanes != nullptr) shim_multiply_split((shim_fragments**)lanes);
}
#define rp_matrix_mul_add shim_matrix_mul_add
)";
}

}  // namespace reprise::test
