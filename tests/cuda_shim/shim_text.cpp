#include "tests/cuda_shim/shim.h"

namespace reprise::test {

const char* shim_text() {
  return R"(#include <math.h>
#include <string.h>
struct ShimIndex { unsigned x, y, z; };
struct Shim {
  ShimIndex thread, group, group_size, grid_size;
  void (*barrier)();
  unsigned long (*shuffle)(unsigned active, unsigned long in, unsigned lane, bool is_xor);
  unsigned (*ballot)(unsigned active, bool in);
};
extern "C" { Shim* reprise_shim; }
#define threadIdx (reprise_shim->thread)
#define blockIdx (reprise_shim->group)
#define blockDim (reprise_shim->group_size)
#define gridDim (reprise_shim->grid_size)
#define __global__
#define __device__
#define __grid_constant__
#define __shared__ static
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(n)
#define __syncthreads() (reprise_shim->barrier())
#define __ballot_sync(active, in) (reprise_shim->ballot(active, in))
#define __ffs __builtin_ffs
template <typename T> static T shim_shuffle(unsigned active, T v, int lane, bool is_xor) {
  unsigned long bits = 0;
  memcpy(&bits, &v, sizeof v);
  bits = reprise_shim->shuffle(active, bits, (unsigned)lane, is_xor);
  memcpy(&v, &bits, sizeof v);
  return v;
}
template <typename T> static T __shfl_sync(unsigned active, T v, int lane) {
  return shim_shuffle(active, v, lane, false);
}
template <typename T> static T __shfl_xor_sync(unsigned active, T v, int mask) {
  return shim_shuffle(active, v, mask, true);
}
static unsigned atomicAnd(unsigned* at, unsigned v) {
  const unsigned before = *at;
  *at = before & v;
  return before;
}
static unsigned atomicOr(unsigned* at, unsigned v) {
  const unsigned before = *at;
  *at = before | v;
  return before;
}
static unsigned atomicMax(unsigned* at, unsigned v) {
  const unsigned before = *at;
  if (v > before) *at = v;
  return before;
}
)";
}

}  // namespace reprise::test
