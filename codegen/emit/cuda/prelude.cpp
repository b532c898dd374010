#include "codegen/emit/cuda/cuda.h"
#include "codegen/emit/cuda/teams.h"

namespace reprise::emit {
namespace {

// Types: vectors of compute types (rp_f32x4) and of storage types, with the alignment of one
// access.
constexpr const char* kTypes = R"(
struct rp_f16 { unsigned short bits; };
struct rp_bf16 { unsigned short bits; };
#define RP_VECTORS(name, type, bytes2, bytes4) \
  struct __align__(bytes2) name##x2 { type x, y; }; \
  struct __align__(bytes4) name##x4 { type x, y, z, w; };
RP_VECTORS(rp_bool, bool, 2, 4)
RP_VECTORS(rp_i8, signed char, 2, 4)
RP_VECTORS(rp_u8, unsigned char, 2, 4)
RP_VECTORS(rp_i16, short, 4, 8)
RP_VECTORS(rp_u16, unsigned short, 4, 8)
RP_VECTORS(rp_i32, int, 8, 16)
RP_VECTORS(rp_u32, unsigned, 8, 16)
RP_VECTORS(rp_i64, long long, 16, 16)
RP_VECTORS(rp_u64, unsigned long long, 16, 16)
RP_VECTORS(rp_f16, rp_f16, 4, 8)
RP_VECTORS(rp_bf16, rp_bf16, 4, 8)
RP_VECTORS(rp_f32, float, 8, 16)
RP_VECTORS(rp_f64, double, 16, 16)
)";

// Functions that need PTX when there are no headers, and their equivalents for a host compiler.
constexpr const char* kBodies = R"(
#if defined(__CUDACC__)
#define RP_INLINE __device__ __forceinline__
#define RP_FN RP_INLINE
RP_FN unsigned rp_bits(float v) { return __float_as_uint(v); }
RP_FN float rp_float(unsigned bits) { return __uint_as_float(bits); }
RP_FN unsigned long long rp_bits(double v) { return (unsigned long long)__double_as_longlong(v); }
RP_FN double rp_double(unsigned long long bits) { return __longlong_as_double((long long)bits); }
RP_FN float rp_to_float(rp_f16 v) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v.bits));
  return r;
}
RP_FN rp_f16 rp_to_f16(float v) {
  rp_f16 r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(v));
  return r;
}
// At most 2 units in the last place, where a division rounds correctly.
RP_FN float rp_div(float a, float b) {
  float r;
  asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
RP_FN float rp_rsqrt(float v) { return rsqrtf(v); }
RP_FN double rp_rsqrt(double v) { return rsqrt(v); }
#else
#define RP_INLINE inline
#define RP_FN static RP_INLINE
RP_FN unsigned rp_bits(float v) { unsigned r; __builtin_memcpy(&r, &v, 4); return r; }
RP_FN float rp_float(unsigned bits) { float r; __builtin_memcpy(&r, &bits, 4); return r; }
RP_FN unsigned long long rp_bits(double v) { unsigned long long r; __builtin_memcpy(&r, &v, 8); return r; }
RP_FN double rp_double(unsigned long long bits) { double r; __builtin_memcpy(&r, &bits, 8); return r; }
RP_FN float rp_to_float(rp_f16 v) {
  const unsigned sign = (v.bits & 0x8000u) << 16;
  const unsigned magnitude = v.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return rp_float(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  const float scaled = rp_float(magnitude << 13) * 0x1p112f;
  return rp_float(sign | rp_bits(scaled));
}
RP_FN rp_f16 rp_to_f16(float v) {
  const unsigned sign = rp_bits(v) >> 16 & 0x8000u;
  const unsigned magnitude = rp_bits(v) & 0x7fffffffu;
  unsigned r;
  if (magnitude > 0x7f800000u) {
    r = 0x7e00u;
  } else if (magnitude >= 0x477ff000u) {
    r = 0x7c00u;
  } else if (magnitude < 0x38800000u) {
    r = rp_bits(rp_float(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    r = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13;
  }
  rp_f16 h = {(unsigned short)(sign | r)};
  return h;
}
RP_FN float rp_div(float a, float b) { return a / b; }
RP_FN float rp_rsqrt(float v) { return 1.0f / sqrtf(v); }
RP_FN double rp_rsqrt(double v) { return 1.0 / sqrt(v); }
#endif
RP_FN float rp_to_float(rp_bf16 v) { return rp_float((unsigned)v.bits << 16); }
RP_FN rp_bf16 rp_to_bf16(float v) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
  rp_bf16 r;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.bits) : "f"(v));
  return r;
#else
  const unsigned bits = rp_bits(v);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const unsigned rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  rp_bf16 r = {(unsigned short)(nan ? (bits >> 16 | 0x40u) : rounded)};
  return r;
#endif
}
// Of a value of bf16.
RP_FN rp_bf16 rp_exact_bf16(float v) {
  rp_bf16 r = {(unsigned short)(rp_bits(v) >> 16)};
  return r;
}
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
RP_FN float rp_min(float a, float b) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
RP_FN float rp_max(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
#else
RP_FN float rp_min(float a, float b) {
  if (a != a || b != b) return a != a ? a : b;
  return b < a || (a == b && rp_bits(b) >> 31) ? b : a;
}
RP_FN float rp_max(float a, float b) {
  if (a != a || b != b) return a != a ? a : b;
  return b > a || (a == b && rp_bits(a) >> 31) ? b : a;
}
#endif
RP_FN double rp_div(double a, double b) { return a / b; }
RP_FN float rp_relu(float v) { return rp_max(v, 0.0f); }
RP_FN float rp_round_bf16(float v) { return rp_to_float(rp_to_bf16(v)); }
)";

// The functions that scalar_ops.def names. F16 is computed in F32 and rounded once, or natively if
// the result is the same: F32 has enough digits that sums and products are rounded correctly.
constexpr const char* kFunctions = R"(
#if defined(__CUDACC__)
#define RP_F16_NATIVE(op, instruction) \
  RP_FN rp_f16 operator op(rp_f16 a, rp_f16 b) { \
    rp_f16 r; \
    asm(instruction " %0, %1, %2;" : "=h"(r.bits) : "h"(a.bits), "h"(b.bits)); \
    return r; \
  }
#else
#define RP_F16_NATIVE(op, instruction) \
  RP_FN rp_f16 operator op(rp_f16 a, rp_f16 b) { return rp_to_f16(rp_to_float(a) op rp_to_float(b)); }
#endif
RP_F16_NATIVE(+, "add.rn.f16")
RP_F16_NATIVE(-, "sub.rn.f16")
RP_F16_NATIVE(*, "mul.rn.f16")
RP_FN rp_f16 operator/(rp_f16 a, rp_f16 b) { return rp_to_f16(rp_to_float(a) / rp_to_float(b)); }
RP_FN rp_f16 operator-(rp_f16 a) { rp_f16 r = {(unsigned short)(a.bits ^ 0x8000u)}; return r; }
RP_FN bool operator==(rp_f16 a, rp_f16 b) { return rp_to_float(a) == rp_to_float(b); }
RP_FN bool operator!=(rp_f16 a, rp_f16 b) { return rp_to_float(a) != rp_to_float(b); }
RP_FN bool operator<(rp_f16 a, rp_f16 b) { return rp_to_float(a) < rp_to_float(b); }
RP_FN bool operator<=(rp_f16 a, rp_f16 b) { return rp_to_float(a) <= rp_to_float(b); }
RP_FN bool operator>(rp_f16 a, rp_f16 b) { return rp_to_float(a) > rp_to_float(b); }
RP_FN bool operator>=(rp_f16 a, rp_f16 b) { return rp_to_float(a) >= rp_to_float(b); }
#define RP_F16_1(name) \
  RP_FN rp_f16 name(rp_f16 a) { return rp_to_f16(name(rp_to_float(a))); }
#define RP_F16_2(name) \
  RP_FN rp_f16 name(rp_f16 a, rp_f16 b) { return rp_to_f16(name(rp_to_float(a), rp_to_float(b))); }
#define RP_FLOAT_1(name, function) \
  RP_FN float name(float a) { return function##f(a); } \
  RP_FN double name(double a) { return function(a); } \
  RP_F16_1(name)
#define RP_FLOAT_2(name, function) \
  RP_FN float name(float a, float b) { return function##f(a, b); } \
  RP_FN double name(double a, double b) { return function(a, b); } \
  RP_F16_2(name)
// Integers wrap, which signed ones do not in C.
#define RP_WRAPPING(type) \
  RP_FN type rp_abs(type a) { return a < 0 ? (type)(0 - (unsigned type)a) : a; } \
  RP_FN type rp_add(type a, type b) { return (type)((unsigned type)a + (unsigned type)b); }
RP_WRAPPING(int)
RP_WRAPPING(long long)
template <typename T> RP_FN T rp_add(T a, T b) { return a + b; }
RP_FLOAT_1(rp_fabs, fabs)
RP_FLOAT_1(rp_floor, floor)
RP_FLOAT_1(rp_ceil, ceil)
RP_FLOAT_1(rp_rint, rint)
RP_FLOAT_1(rp_trunc, trunc)
RP_FLOAT_1(rp_sqrt, sqrt)
RP_FLOAT_1(rp_exp, exp)
RP_FLOAT_1(rp_exp2, exp2)
RP_FLOAT_1(rp_log, log)
RP_FLOAT_1(rp_log2, log2)
RP_F16_1(rp_rsqrt)
RP_F16_2(rp_div)
RP_FLOAT_2(rp_fmin, fmin)
RP_FLOAT_2(rp_fmax, fmax)
RP_FN float rp_fma(float a, float b, float c) { return fmaf(a, b, c); }
RP_FN double rp_fma(double a, double b, double c) { return fma(a, b, c); }
RP_FN rp_f16 rp_fma(rp_f16 a, rp_f16 b, rp_f16 c) {
#if defined(__CUDACC__)
  rp_f16 r;
  asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(r.bits) : "h"(a.bits), "h"(b.bits), "h"(c.bits));
  return r;
#else
  return rp_to_f16(fmaf(rp_to_float(a), rp_to_float(b), rp_to_float(c)));
#endif
}
)";

constexpr const char* kConversions = R"(
template <typename To, typename From> RP_FN To rp_bitcast(From v) {
  union { From from; To to; } u;
  u.from = v;
  return u.to;
}
// Elements of any type as words, which one instruction moves.
template <typename Words> RP_FN Words rp_load_words(const void* from) {
#if defined(__CUDACC__)
  return *(const Words*)from;
#else
  Words w;
  __builtin_memcpy(&w, from, sizeof w);
  return w;
#endif
}
template <typename Words> RP_FN void rp_store_words(void* to, Words w) {
#if defined(__CUDACC__)
  *(Words*)to = w;
#else
  __builtin_memcpy(to, &w, sizeof w);
#endif
}
)";

// A subgroup is a warp of 32. `active` is the mask of participating lanes, all of which must
// execute the call.
constexpr const char* kSubgroup = R"(
#define RP_SHUFFLES(type) \
  RP_FN type rp_shuffle(unsigned active, type v, unsigned lane) { return __shfl_sync(active, v, (int)lane); } \
  RP_FN type rp_shuffle_xor(unsigned active, type v, unsigned mask) { return __shfl_xor_sync(active, v, (int)mask); }
RP_SHUFFLES(int)
RP_SHUFFLES(unsigned)
RP_SHUFFLES(long long)
RP_SHUFFLES(unsigned long long)
RP_SHUFFLES(float)
RP_SHUFFLES(double)
RP_FN rp_f16 rp_shuffle(unsigned active, rp_f16 v, unsigned lane) {
  rp_f16 r = {(unsigned short)rp_shuffle(active, (unsigned)v.bits, lane)};
  return r;
}
RP_FN rp_f16 rp_shuffle_xor(unsigned active, rp_f16 v, unsigned mask) {
  rp_f16 r = {(unsigned short)rp_shuffle_xor(active, (unsigned)v.bits, mask)};
  return r;
}
struct rp_sum { template <typename T> static RP_INLINE T of(T a, T b) { return rp_add(a, b); } };
struct rp_smaller { template <typename T> static RP_INLINE T of(T a, T b) { return a < b ? a : b; } };
struct rp_larger { template <typename T> static RP_INLINE T of(T a, T b) { return a > b ? a : b; } };
template <typename F, typename T> RP_FN T rp_reduce(unsigned active, T v) {
  if (active == 0xffffffffu) {
    for (unsigned m = 16; m != 0; m >>= 1) v = F::of(v, rp_shuffle_xor(active, v, m));
    return v;
  }
  T r = rp_shuffle(active, v, (unsigned)__ffs((int)active) - 1u);
  for (unsigned rest = active & (active - 1u); rest != 0; rest &= rest - 1u) {
    r = F::of(r, rp_shuffle(active, v, (unsigned)__ffs((int)rest) - 1u));
  }
  return r;
}
)";

// Copies from global to shared memory that the invocation does not wait for. The last elements,
// from `count` on, become 0.
constexpr const char* kCopies = R"(
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
template <int lanes, typename T> RP_FN void rp_async_copy(T* array, unsigned to, const T* from, int count) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(array) + (unsigned)sizeof(T) * to;
  const unsigned bytes = (unsigned)(count * (int)sizeof(T));
  if (lanes * sizeof(T) == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(at), "l"(from), "r"(bytes) : "memory");
  } else if (lanes * sizeof(T) == 8) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" :: "r"(at), "l"(from), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(at), "l"(from), "r"(bytes) : "memory");
  }
}
RP_FN void rp_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int unfinished> RP_FN void rp_copy_wait() {
  asm volatile("cp.async.wait_group %0;" :: "n"(unfinished) : "memory");
}
#else
template <int lanes, typename T> RP_FN void rp_async_copy(T* array, unsigned to, const T* from, int count) {
  for (int i = 0; i < lanes; ++i) array[to + i] = i < count ? from[i] : T{};
}
RP_FN void rp_copy_commit() {}
template <int unfinished> RP_FN void rp_copy_wait() {}
#endif
)";

// Launches that overlap. The next one in a graph may begin once all workgroups have said so; what
// it accesses before it has awaited this one, it does not share with it.
constexpr const char* kLaunches = R"(
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
RP_FN void rp_let_next_begin() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
RP_FN void rp_await_launches() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#else
RP_FN void rp_let_next_begin() {}
RP_FN void rp_await_launches() {}
#endif
)";

// Shared memory that a launch gives a kernel.
constexpr const char* kDynamicShared = R"(
#if defined(__CUDACC__)
#define RP_DYNAMIC_SHARED(name, bytes) extern __shared__ __align__(1024) unsigned char name[];
#else
#define RP_DYNAMIC_SHARED(name, bytes) __shared__ __align__(16) unsigned char name[bytes];
#endif
)";

// Matrices of a warp: 16x16 times 16x16, both of F16 or of BF16, added to 16x16 of F32. Lane
// 4 * g + t holds the elements that mma.m16n8k16 assigns to it; right and sum are split into two
// halves of 8 columns.
constexpr const char* kMatrices = R"(
template <typename T> struct rp_matrix_left { unsigned r[4]; };
template <typename T> struct rp_matrix_right { unsigned r[4]; };
struct rp_matrix_sum { float r[8]; };
template <typename T> RP_FN unsigned rp_pair(const T* at, unsigned next) {
  return at[0].bits | (unsigned)at[next].bits << 16;
}
template <typename T> RP_FN void rp_matrix_zero(T& m) {
  for (auto& v : m.r) v = 0;
}
template <typename T>
RP_FN void rp_matrix_load(rp_matrix_left<T>& m, const T* at, unsigned row, unsigned column) {
  const unsigned g = (threadIdx.x & 31u) >> 2, t = 2u * (threadIdx.x & 3u);
  for (unsigned i = 0; i < 4; ++i)
    m.r[i] = rp_pair(at + (g + 8u * (i & 1u)) * row + (t + 8u * (i >> 1)) * column, column);
}
template <typename T>
RP_FN void rp_matrix_load(rp_matrix_right<T>& m, const T* at, unsigned row, unsigned column) {
  const unsigned g = (threadIdx.x & 31u) >> 2, t = 2u * (threadIdx.x & 3u);
  for (unsigned i = 0; i < 4; ++i)
    m.r[i] = rp_pair(at + (t + 8u * (i & 1u)) * row + (g + 8u * (i >> 1)) * column, row);
}
// The same where lines of 8 elements are aligned to 16 bytes in shared memory. The index is apart from
// the array, so that addresses are computed in 32 bits, and constants become parts of instructions.
// rp_blocks loads four blocks of 8x8: block i from down * (i & 1) + right * (i >> 1).
#if defined(__CUDACC__)
template <bool kTransposed, typename T>
RP_FN void rp_blocks(unsigned* r, const T* array, unsigned at, unsigned line, unsigned down, unsigned right) {
  const unsigned lane = threadIdx.x & 31u;
  const unsigned from = (unsigned)__cvta_generic_to_shared(array) + (unsigned)sizeof(T) *
      (at + (lane & 7u) * line + (lane >> 3 & 1u) * down + (lane >> 4) * right);
  if (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
  }
}
template <typename T>
RP_FN void rp_matrix_load_lines(rp_matrix_left<T>& m, const T* array, unsigned at, unsigned row, unsigned column) {
  if (column == 1u) return rp_blocks<false>(m.r, array, at, row, 8u * row, 8u);
  rp_blocks<true>(m.r, array, at, column, 8u, 8u * column);
}
template <typename T>
RP_FN void rp_matrix_load_lines(rp_matrix_right<T>& m, const T* array, unsigned at, unsigned row, unsigned column) {
  if (column == 1u) return rp_blocks<true>(m.r, array, at, row, 8u * row, 8u);
  rp_blocks<false>(m.r, array, at, column, 8u, 8u * column);
}
#else
template <typename M, typename T>
RP_FN void rp_matrix_load_lines(M& m, const T* array, unsigned at, unsigned row, unsigned column) {
  rp_matrix_load(m, array + at, row, column);
}
#endif
RP_FN unsigned rp_matrix_place(unsigned i, unsigned row, unsigned column) {
  const unsigned g = (threadIdx.x & 31u) >> 2, t = 2u * (threadIdx.x & 3u);
  return (g + 4u * (i & 2u)) * row + (t + (i & 1u) + 2u * (i & 4u)) * column;
}
RP_FN void rp_matrix_load(rp_matrix_sum& m, const float* at, unsigned row, unsigned column) {
  for (unsigned i = 0; i < 8; ++i) m.r[i] = at[rp_matrix_place(i, row, column)];
}
RP_FN void rp_matrix_store(const rp_matrix_sum& m, float* at, unsigned row, unsigned column) {
  for (unsigned i = 0; i < 8; ++i) at[rp_matrix_place(i, row, column)] = m.r[i];
}
// The same where rows begin at multiples of 8 bytes.
RP_FN void rp_matrix_store_pairs(const rp_matrix_sum& m, float* at, unsigned row, unsigned column) {
  for (unsigned i = 0; i < 8; i += 2)
    rp_store_words(at + rp_matrix_place(i, row, column), rp_f32x2{m.r[i], m.r[i + 1]});
}
// Elements of sums, rounded to nearest even. Neighbours in a row are in neighbouring registers.
#if defined(__CUDACC__)
#define RP_ROUND_PAIR(type, name) \
  RP_FN unsigned rp_round_pair(type, float low, float high) { \
    unsigned r; \
    asm("cvt.rn." name "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); \
    return r; \
  }
#else
#define RP_ROUND_PAIR(type, name) \
  RP_FN unsigned rp_round_pair(type, float low, float high) { \
    return rp_rounded(low, type{}).bits | (unsigned)rp_rounded(high, type{}).bits << 16; \
  }
#endif
RP_FN rp_f16 rp_rounded(float v, rp_f16) { return rp_to_f16(v); }
RP_FN rp_bf16 rp_rounded(float v, rp_bf16) { return rp_to_bf16(v); }
RP_ROUND_PAIR(rp_f16, "f16")
RP_ROUND_PAIR(rp_bf16, "bf16")
// 16 columns from `first` on lie in the registers of a sum as in those of a left operand.
template <unsigned first, typename T, typename S>
RP_FN void rp_matrix_convert(rp_matrix_left<T>& left, const S& sum) {
  for (unsigned i = 0; i < 4; ++i)
    left.r[i] = rp_round_pair(T{}, sum.r[first / 2u + 2u * i], sum.r[first / 2u + 2u * i + 1u]);
}
RP_FN unsigned rp_first_row(const rp_matrix_sum&) { return (threadIdx.x & 31u) >> 2; }
template <typename S, typename T>
RP_FN void rp_matrix_round(const S& m, T* at, unsigned row, unsigned column) {
  const unsigned first = rp_first_row(m), next = 2u * (threadIdx.x & 3u);
  for (unsigned i = 0; i < sizeof(m.r) / 4u; ++i)
    at[(first + 4u * (i & 2u)) * row + (next + (i & 1u) + 2u * (i & ~3u)) * column] = rp_rounded(m.r[i], T{});
}
// The same where rows are contiguous and pairs of elements aligned.
template <typename S, typename T>
RP_FN void rp_matrix_round_pairs(const S& m, T* at, unsigned row, unsigned) {
  T* const first = at + rp_first_row(m) * row + 2u * (threadIdx.x & 3u);
  for (unsigned i = 0; i < sizeof(m.r) / 4u; i += 2u)
    rp_store_words(first + 4u * (i & 2u) * row + 2u * (i & ~3u), rp_round_pair(T{}, m.r[i], m.r[i + 1u]));
}
#if defined(__CUDACC__)
#define RP_MATRIX_MUL_ADD(type, name) \
  RP_FN void rp_matrix_mul_add(rp_matrix_sum& sum, const rp_matrix_left<type>& a, const rp_matrix_right<type>& b) { \
    _Pragma("unroll") for (int h = 0; h < 2; ++h) { \
      float* c = sum.r + 4 * h; \
      asm volatile( \
          "mma.sync.aligned.m16n8k16.row.col.f32." name "." name ".f32 " \
          "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) \
          : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[2 * h]), "r"(b.r[2 * h + 1])); \
    } \
  }
RP_MATRIX_MUL_ADD(rp_f16, "f16")
RP_MATRIX_MUL_ADD(rp_bf16, "bf16")
#else
template <typename T> RP_FN float rp_half_of(unsigned pair, unsigned upper) {
  T v = {(unsigned short)(upper != 0u ? pair >> 16 : pair)};
  return rp_to_float(v);
}
template <typename T>
RP_FN void rp_matrix_mul_add(rp_matrix_sum& sum, const rp_matrix_left<T>& a, const rp_matrix_right<T>& b) {
  const unsigned lane = threadIdx.x & 31u, g = lane >> 2, t = 2u * (lane & 3u);
  for (unsigned k = 0; k < 16; ++k) {
    const unsigned holder = (k & 7u) >> 1, late = k >> 3;
    float left[2], right[4];
    for (unsigned n = 0; n < 2; ++n)
      left[n] = rp_half_of<T>(rp_shuffle(0xffffffffu, a.r[n + 2u * late], 4u * g + holder), k & 1u);
    for (unsigned n = 0; n < 4; ++n)
      right[n] = rp_half_of<T>(
          rp_shuffle(0xffffffffu, b.r[late + (n & 2u)], 4u * (t + (n & 1u)) + holder), k & 1u);
    for (unsigned i = 0; i < 8; ++i)
      sum.r[i] += left[i >> 1 & 1u] * right[(i & 1u) + (i >> 1 & 2u)];
  }
}
#endif
)";

// Matrices of F32, 16x8 times 8x16: each element is split into two of TF32. The words of the higher
// parts come first.
constexpr const char* kSplitMatrices = R"(
template <> struct rp_matrix_left<float> { unsigned r[8]; };
template <> struct rp_matrix_right<float> { unsigned r[8]; };
RP_FN void rp_split(unsigned* r, unsigned v) {
  r[0] = (v + 0x1000u) & 0xffffe000u;
  r[4] = rp_bits(rp_float(v) - rp_float(r[0])) & 0xffffe000u;
}
RP_FN void rp_matrix_load(rp_matrix_left<float>& m, const float* at, unsigned row, unsigned column) {
  const unsigned g = (threadIdx.x & 31u) >> 2, t = threadIdx.x & 3u;
  for (unsigned i = 0; i < 4; ++i)
    rp_split(m.r + i, rp_bits(at[(g + 8u * (i & 1u)) * row + (t + 4u * (i >> 1)) * column]));
}
RP_FN void rp_matrix_load(rp_matrix_right<float>& m, const float* at, unsigned row, unsigned column) {
  const unsigned g = (threadIdx.x & 31u) >> 2, t = threadIdx.x & 3u;
  for (unsigned i = 0; i < 4; ++i)
    rp_split(m.r + i, rp_bits(at[(t + 4u * (i & 1u)) * row + (g + 8u * (i >> 1)) * column]));
}
#if defined(__CUDACC__)
// Lines along the depth have the elements of lanes as blocks of 8x4.
RP_FN void rp_matrix_load_lines(rp_matrix_left<float>& m, const float* array, unsigned at, unsigned row, unsigned column) {
  if (column != 1u) return rp_matrix_load(m, array + at, row, column);
  unsigned v[4];
  rp_blocks<false>(v, array, at, row, 8u * row, 4u);
  for (unsigned i = 0; i < 4; ++i) rp_split(m.r + i, v[i]);
}
RP_FN void rp_matrix_load_lines(rp_matrix_right<float>& m, const float* array, unsigned at, unsigned row, unsigned column) {
  if (row != 1u) return rp_matrix_load(m, array + at, row, column);
  unsigned v[4];
  rp_blocks<false>(v, array, at, column, 4u, 8u * column);
  for (unsigned i = 0; i < 4; ++i) rp_split(m.r + i, v[i]);
}
RP_FN void rp_add_tf32(float* c, const unsigned* a, const unsigned* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
RP_FN void rp_matrix_mul_add(rp_matrix_sum& sum, const rp_matrix_left<float>& a, const rp_matrix_right<float>& b) {
  float part[8] = {};
  _Pragma("unroll") for (int h = 0; h < 2; ++h) rp_add_tf32(part + 4 * h, a.r + 4, b.r + 2 * h);
  _Pragma("unroll") for (int h = 0; h < 2; ++h) rp_add_tf32(part + 4 * h, a.r, b.r + 2 * h + 4);
  _Pragma("unroll") for (int h = 0; h < 2; ++h) rp_add_tf32(part + 4 * h, a.r, b.r + 2 * h);
  for (int i = 0; i < 8; ++i) sum.r[i] += part[i];
}
#else
RP_FN void rp_matrix_mul_add(rp_matrix_sum& sum, const rp_matrix_left<float>& a, const rp_matrix_right<float>& b) {
  const unsigned lane = threadIdx.x & 31u, g = lane >> 2, t = 2u * (lane & 3u);
  float part[8] = {};
  for (unsigned n = 0; n < 24; ++n) {
    const unsigned k = n & 7u, holder = k & 3u, late = k >> 2;
    const unsigned low_a = n < 8u ? 4u : 0u, low_b = n >> 3 == 1u ? 4u : 0u;
    float left[2], right[4];
    for (unsigned i = 0; i < 2; ++i)
      left[i] = rp_float(rp_shuffle(0xffffffffu, a.r[i + 2u * late + low_a], 4u * g + holder));
    for (unsigned i = 0; i < 4; ++i)
      right[i] = rp_float(
          rp_shuffle(0xffffffffu, b.r[late + (i & 2u) + low_b], 4u * (t + (i & 1u)) + holder));
    for (unsigned i = 0; i < 8; ++i)
      part[i] += left[i >> 1 & 1u] * right[(i & 1u) + (i >> 1 & 2u)];
  }
  for (unsigned i = 0; i < 8; ++i) sum.r[i] += part[i];
}
#endif
)";

}  // namespace

std::string cuda_prelude() {
  std::string text = "// Reprise kernels: types and functions without headers.";
  for (const char* part : {kTypes, kBodies, kFunctions, kConversions, kSubgroup, kLaunches,
                           kDynamicShared, kCopies, kMatrices, kSplitMatrices})
    text += part;
  return text + team_prelude();
}

}  // namespace reprise::emit
