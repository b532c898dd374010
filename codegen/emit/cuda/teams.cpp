#include "codegen/emit/cuda/teams.h"

namespace reprise::emit {
namespace {

// A matrix of a team has 64 rows: warp w of the team holds rows 16 w to 16 w + 15. Lane 4 * g + t
// holds of each 8 columns, in rows g and g + 8, columns 2 t and 2 t + 1.
constexpr const char* kSums = R"(
struct __align__(128) rp_tensor_map { unsigned long long words[16]; };
template <int columns> struct rp_team_sum { float r[columns / 2]; };
RP_FN unsigned rp_team_row() { return 16u * (threadIdx.x >> 5 & 3u) + (threadIdx.x >> 2 & 7u); }
template <int columns> RP_FN unsigned rp_first_row(const rp_team_sum<columns>&) { return rp_team_row(); }
template <int columns>
RP_FN void rp_matrix_store(const rp_team_sum<columns>& m, float* at, unsigned row, unsigned column) {
  const unsigned first = rp_team_row(), next = 2u * (threadIdx.x & 3u);
  for (unsigned i = 0; i < columns / 2u; ++i)
    at[(first + 4u * (i & 2u)) * row + (next + (i & 1u) + 2u * (i & ~3u)) * column] = m.r[i];
}
// The same where rows are contiguous and pairs of elements aligned.
template <int columns>
RP_FN void rp_matrix_store_pairs(const rp_team_sum<columns>& m, float* at, unsigned row, unsigned) {
  float* const first = at + rp_team_row() * row + 2u * (threadIdx.x & 3u);
#pragma unroll
  for (unsigned i = 0; i < columns / 2u; i += 2) {
    const rp_f32x2 pair = {m.r[i], m.r[i + 1]};
    *(rp_f32x2*)(first + 4u * (i & 2u) * row + 2u * (i & ~3u)) = pair;
  }
}
)";

constexpr const char* kSignals = R"(
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
typedef unsigned long long rp_signal;
RP_FN unsigned rp_shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
RP_FN void rp_begin_signals(rp_signal* s, unsigned count, unsigned arrivals) {
  for (unsigned i = 0; i < count; ++i)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(rp_shared_address(s + i)), "r"(arrivals) : "memory");
}
RP_FN void rp_publish_signals() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
RP_FN void rp_arrive(rp_signal* s) {
  __syncwarp();
  if ((threadIdx.x & 31u) == 0u)
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(rp_shared_address(s)) : "memory");
}
RP_FN void rp_await(rp_signal* s, unsigned parity) {
  const unsigned at = rp_shared_address(s);
  unsigned passed;
  do {
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(passed) : "r"(at), "r"(parity) : "memory");
  } while (passed == 0u);
}
// What belongs to another workgroup of the cluster. Signals that order only boxes and products, which
// are over before a subgroup arrives, need no fence of the cluster, which would wait for all memory.
RP_FN unsigned rp_cluster_rank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
RP_FN unsigned rp_address_at(const void* p, unsigned rank) {
  unsigned at;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(rp_shared_address(p)), "r"(rank));
  return at;
}
RP_FN void rp_cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Of roles, some of whose warps may have ended.
RP_FN void rp_arrive_at(rp_signal* s, unsigned rank) {
  __syncwarp();
  if ((threadIdx.x & 31u) == 0u)
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" :: "r"(rp_address_at(s, rank)) : "memory");
}
RP_FN void rp_arrive_fenced(rp_signal* s, unsigned rank) {
  __syncwarp();
  if ((threadIdx.x & 31u) == 0u)
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(rp_address_at(s, rank)) : "memory");
}
RP_FN void rp_await_fenced(rp_signal* s, unsigned parity) {
  const unsigned at = rp_shared_address(s);
  unsigned passed;
  do {
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(passed) : "r"(at), "r"(parity) : "memory");
  } while (passed == 0u);
}
RP_FN void rp_load_at(unsigned& v, unsigned at) {
  asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
}
RP_FN void rp_load_at(rp_u32x2& v, unsigned at) {
  asm volatile("ld.shared::cluster.v2.b32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(at) : "memory");
}
RP_FN void rp_load_at(rp_u32x4& v, unsigned at) {
  asm volatile("ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at) : "memory");
}
template <typename T> RP_FN T rp_load_of(const void* p, unsigned rank) {
  T v;
  rp_load_at(v, rp_address_at(p, rank));
  return v;
}
// The signal counts the bytes of a box before they can land.
RP_FN bool rp_begin_box(rp_signal* s, unsigned bytes) {
  if ((threadIdx.x & 31u) != 0u) return false;
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(rp_shared_address(s)), "r"(bytes) : "memory");
  return true;
}
#define RP_BOX_COPY(rank, places) \
  "cp.async.bulk.tensor." rank ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {" places "}], [%2];" \
  :: "r"(rp_shared_address(to)), "l"(map), "r"(rp_shared_address(s))
RP_FN void rp_box_copy(void* to, const rp_tensor_map* map, rp_signal* s, unsigned bytes, int x) {
  if (rp_begin_box(s, bytes)) asm volatile(RP_BOX_COPY("1d", "%3"), "r"(x) : "memory");
}
RP_FN void rp_box_copy(void* to, const rp_tensor_map* map, rp_signal* s, unsigned bytes, int x, int y) {
  if (rp_begin_box(s, bytes)) asm volatile(RP_BOX_COPY("2d", "%3, %4"), "r"(x), "r"(y) : "memory");
}
RP_FN void rp_box_copy(void* to, const rp_tensor_map* map, rp_signal* s, unsigned bytes, int x, int y, int z) {
  if (rp_begin_box(s, bytes)) asm volatile(RP_BOX_COPY("3d", "%3, %4, %5"), "r"(x), "r"(y), "r"(z) : "memory");
}
RP_FN void rp_box_copy(void* to, const rp_tensor_map* map, rp_signal* s, unsigned bytes, int x, int y, int z, int w) {
  if (rp_begin_box(s, bytes)) asm volatile(RP_BOX_COPY("4d", "%3, %4, %5, %6"), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
// The same to several workgroups of the cluster: the box lands at the same place of each, and counts
// at the signal there.
RP_FN bool rp_begin_boxes(rp_signal* s, unsigned bytes, unsigned ranks) {
  if ((threadIdx.x & 31u) != 0u) return false;
#pragma unroll
  for (unsigned rank = 0; rank < 8u; ++rank)
    if ((ranks >> rank & 1u) != 0u)
      asm volatile("mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%0], %1;"
                   :: "r"(rp_address_at(s, rank)), "r"(bytes) : "memory");
  return true;
}
#define RP_BOX_SPREAD(rank, places) \
  "cp.async.bulk.tensor." rank ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster " \
  "[%0], [%1, {" places "}], [%2], %3;" \
  :: "r"(rp_shared_address(to)), "l"(map), "r"(rp_shared_address(s)), "h"((unsigned short)ranks)
RP_FN void rp_box_spread(void* to, const rp_tensor_map* map, rp_signal* s, unsigned bytes, unsigned ranks, int x) {
  if (rp_begin_boxes(s, bytes, ranks)) asm volatile(RP_BOX_SPREAD("1d", "%4"), "r"(x) : "memory");
}
RP_FN void rp_box_spread(void* to, const rp_tensor_map* map, rp_signal* s, unsigned bytes, unsigned ranks, int x, int y) {
  if (rp_begin_boxes(s, bytes, ranks)) asm volatile(RP_BOX_SPREAD("2d", "%4, %5"), "r"(x), "r"(y) : "memory");
}
RP_FN void rp_box_spread(void* to, const rp_tensor_map* map, rp_signal* s, unsigned bytes, unsigned ranks, int x, int y, int z) {
  if (rp_begin_boxes(s, bytes, ranks))
    asm volatile(RP_BOX_SPREAD("3d", "%4, %5, %6"), "r"(x), "r"(y), "r"(z) : "memory");
}
RP_FN void rp_box_spread(void* to, const rp_tensor_map* map, rp_signal* s, unsigned bytes, unsigned ranks, int x, int y, int z, int w) {
  if (rp_begin_boxes(s, bytes, ranks))
    asm volatile(RP_BOX_SPREAD("4d", "%4, %5, %6, %7"), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
// One lane begins the stores of a subgroup, each in a group of its own, and waits for them.
#define RP_BOX_STORE(rank, places) \
  "cp.async.bulk.tensor." rank ".global.shared::cta.tile.bulk_group [%1, {" places "}], [%0];\n" \
  "cp.async.bulk.commit_group;" :: "r"(rp_shared_address(from)), "l"(map)
RP_FN void rp_box_store(const void* from, const rp_tensor_map* map, int x) {
  if ((threadIdx.x & 31u) == 0u) asm volatile(RP_BOX_STORE("1d", "%2"), "r"(x) : "memory");
}
RP_FN void rp_box_store(const void* from, const rp_tensor_map* map, int x, int y) {
  if ((threadIdx.x & 31u) == 0u) asm volatile(RP_BOX_STORE("2d", "%2, %3"), "r"(x), "r"(y) : "memory");
}
RP_FN void rp_box_store(const void* from, const rp_tensor_map* map, int x, int y, int z) {
  if ((threadIdx.x & 31u) == 0u) asm volatile(RP_BOX_STORE("3d", "%2, %3, %4"), "r"(x), "r"(y), "r"(z) : "memory");
}
RP_FN void rp_box_store(const void* from, const rp_tensor_map* map, int x, int y, int z, int w) {
  if ((threadIdx.x & 31u) == 0u)
    asm volatile(RP_BOX_STORE("4d", "%2, %3, %4, %5"), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
template <int unfinished> RP_FN void rp_box_drain() {
  if ((threadIdx.x & 31u) == 0u) asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(unfinished) : "memory");
}
// Before a barrier: what an invocation stored becomes visible to copies and products.
RP_FN void rp_async_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Where a swizzle puts 16 bytes: `parts` are the bits of the address that it changes.
template <unsigned parts, class T> RP_FN T* rp_swizzled(T* at) {
  const unsigned a = rp_shared_address(at);
  return (T*)((char*)at + (int)((a ^ (a >> 3 & parts)) - a));
}
template <int registers> RP_FN void rp_more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(registers));
}
template <int registers> RP_FN void rp_fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(registers));
}
// Keeps the compiler from computing sums, or copying them, on the other side of a fence or a wait.
template <int columns> RP_FN void rp_hold(rp_team_sum<columns>& m) {
#pragma unroll
  for (int i = 0; i < columns / 2; ++i) asm volatile("" : "+f"(m.r[i]) :: "memory");
}
template <typename T> RP_FN void rp_hold(rp_matrix_left<T>& m) {
#pragma unroll
  for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(m.r[i]) :: "memory");
}
// Barrier 0 is that of the workgroup.
RP_FN void rp_team_barrier() { asm volatile("bar.sync %0, 128;" :: "r"(1u + (threadIdx.x >> 7)) : "memory"); }
// The descriptor of an operand: its address, the distance of groups of lines (`group` times 1,024
// bytes), and that of eight lines (1,024 bytes), all in units of 16 bytes; and the swizzle.
RP_FN unsigned long long rp_operand(const void* at, unsigned group) {
  return (unsigned long long)(rp_shared_address(at) >> 4 & 0x3fffu) | (unsigned long long)(64u * group) << 16 |
         64ull << 32 | 1ull << 62;
}
RP_FN void rp_team_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
RP_FN void rp_team_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int unfinished> RP_FN void rp_team_await() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(unfinished) : "memory");
}
#endif
)";

}  // namespace

std::string team_prelude() {
  return std::string(kSums) + kSignals;
}

std::string TeamProduct::name() const {
  return "multiply_" + std::to_string(count) + "x" + std::to_string(columns) +
         (left_held      ? "h"
          : left_along_k ? "k"
                         : "m") +
         (right_along_k ? "k" : "n");
}

std::string TeamProduct::function(const std::string& name) const {
  const std::string element = type == kernel::Ty::BF16 ? "bf16" : "f16";
  const uint32_t each = columns / 2;  // of an invocation
  std::string parameters, places, operands;
  const std::string sum_type = "rp_team_sum<" + std::to_string(columns) + ">& ";
  for (uint32_t n = 0; n < count; ++n) {
    const std::string sum = "s" + std::to_string(n);
    parameters.append(sum_type).append(sum).append(", ");
    for (uint32_t i = 0; i < each; ++i) {
      const char* comma = n + i == 0 ? "" : ", ";
      places.append(comma).append("%").append(std::to_string(n * each + i));
      operands.append(comma).append("\"+f\"(").append(sum);
      operands.append(".r[").append(std::to_string(i)).append("])");
    }
  }
  const uint32_t all = count * each;
  const auto place = [&](uint32_t n) { return "%" + std::to_string(all + n); };
  const auto transposed = [](bool along_k) { return along_k ? ", 0" : ", 1"; };
  const std::string left_type =
      left_held ? "const rp_matrix_left<rp_" + element + ">& " : "unsigned long long ";
  const std::string left =
      left_held ? "{" + place(0) + ", " + place(1) + ", " + place(2) + ", " + place(3) + "}"
                : place(0);
  const std::string right = place(left_held ? 4 : 1);
  const std::string left_operands =
      left_held ? "\"r\"(left.r[0]), \"r\"(left.r[1]), \"r\"(left.r[2]), \"r\"(left.r[3])"
                : "\"l\"(left)";
  return "RP_FN void " + name + "(" + parameters + left_type +
         "left, unsigned long long right) {\n" +
         "  asm volatile(\"{\\n.reg .pred p;\\nsetp.ne.b32 p, 1, 0;\\n\"\n" +
         "    \"wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns * count) + "k16.f32." +
         element + "." + element + " {" + places + "}, " + left + ", " + right + ", p, 1, 1" +
         (left_held ? "" : transposed(left_along_k)) + transposed(right_along_k) +
         ";\\n}\"\n    : " + operands + " : " + left_operands + ", \"l\"(right));\n}\n";
}

}  // namespace reprise::emit
