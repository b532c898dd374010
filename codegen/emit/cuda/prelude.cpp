#include "codegen/emit/cuda/cuda.h"

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

// What only PTX can do without headers, and the same for a host compiler.
constexpr const char* kBodies = R"(
#define RP_FN static RP_INLINE
#if defined(__CUDACC__)
#define RP_INLINE __device__ __forceinline__
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
RP_FN float rp_rsqrt(float v) { return rsqrtf(v); }
RP_FN double rp_rsqrt(double v) { return rsqrt(v); }
#else
#define RP_INLINE inline
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
RP_FN float rp_rsqrt(float v) { return 1.0f / sqrtf(v); }
RP_FN double rp_rsqrt(double v) { return 1.0 / sqrt(v); }
#endif
RP_FN float rp_to_float(rp_bf16 v) { return rp_float((unsigned)v.bits << 16); }
RP_FN rp_bf16 rp_to_bf16(float v) {
  const unsigned bits = rp_bits(v);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const unsigned rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  rp_bf16 r = {(unsigned short)(nan ? (bits >> 16 | 0x40u) : rounded)};
  return r;
}
)";

// The functions that scalar_ops.def names. F16 is computed in F32 and rounded once.
constexpr const char* kFunctions = R"(
RP_FN rp_f16 operator+(rp_f16 a, rp_f16 b) { return rp_to_f16(rp_to_float(a) + rp_to_float(b)); }
RP_FN rp_f16 operator-(rp_f16 a, rp_f16 b) { return rp_to_f16(rp_to_float(a) - rp_to_float(b)); }
RP_FN rp_f16 operator*(rp_f16 a, rp_f16 b) { return rp_to_f16(rp_to_float(a) * rp_to_float(b)); }
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
RP_FLOAT_2(rp_fmin, fmin)
RP_FLOAT_2(rp_fmax, fmax)
RP_FN float rp_fma(float a, float b, float c) { return fmaf(a, b, c); }
RP_FN double rp_fma(double a, double b, double c) { return fma(a, b, c); }
RP_FN rp_f16 rp_fma(rp_f16 a, rp_f16 b, rp_f16 c) {
  return rp_to_f16(fmaf(rp_to_float(a), rp_to_float(b), rp_to_float(c)));
}
)";

constexpr const char* kConversions = R"(
template <typename To, typename From> RP_FN To rp_bitcast(From v) {
  union { From from; To to; } u;
  u.from = v;
  return u.to;
}
)";

// A subgroup is a warp of 32; `active` are the lanes that take part, and all of them get here.
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
struct rp_sum { template <typename T> static RP_INLINE T of(T a, T b) { return a + b; } };
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

}  // namespace

std::string cuda_prelude() {
  return std::string("// Reprise kernels: types and functions without headers.") + kTypes +
         kBodies + kFunctions + kConversions + kSubgroup;
}

}  // namespace reprise::emit
