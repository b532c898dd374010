// What a launch gives to the workgroups of a cluster, and what they share.
#pragma once

#include <functional>
#include <random>

#include "tests/ptx/machine/counters.h"
#include "tests/ptx/machine/group.h"

namespace reprise::test::ptx {

/// When a copy that has been issued takes place. It is awaited either way.
enum class Completion : uint8_t { Early, Late, Random };

struct Options {
  Completion copies = Completion::Random;
  uint64_t seed = 1;  // of copies, and of the order of warps
  Counters* counters = nullptr;
};

/// barrier.cluster, which awaits all threads that have not ended.
struct ClusterBarrier {
  uint32_t phase = 0;
  std::vector<bool> arrived, ended;  // by warp of the cluster
  View collected, completed;         // of those who came, now and in the phase before
};

/// One cluster at a time; most are one workgroup.
class Cluster {
 public:
  std::span<const std::byte> params;
  std::span<const Buffer> buffers;
  const Program* program = nullptr;
  bool early =
      false;  // griddepcontrol.wait comes before accesses to global memory, and before the end
  std::array<uint32_t, 3> grid{}, size{};  // in workgroups, of a workgroup in threads
  std::array<uint32_t, 3> dims{1, 1, 1};   // in workgroups
  Options options;
  std::mt19937_64 random;
  Status problem;
  uint64_t activity = 0;  // grows with everything that may let a warp go on

  std::vector<std::unique_ptr<Group>> groups;  // by rank
  ClusterBarrier barrier;

  /// The cluster whose first workgroup is `first`.
  void start(std::array<uint32_t, 3> first, uint32_t shared_bytes);
  bool is_one_group() const { return groups.size() == 1; }
  uint16_t new_component() { return components_++; }
  /// A warp comes to the cluster's barrier, or has ended.
  void arrive(const Warp& w, const View& told);
  void leave(const Warp& w);

  // What happens later than it was issued.
  void later(std::function<void()> event);
  bool has_events() const { return !events_.empty(); }
  /// Some of them, at random; or one, which nobody can do without any more.
  void some_events();
  void one_event();

 private:
  void complete_barrier();

  uint16_t components_ = 0;
  std::vector<std::function<void()>> events_;
};

}  // namespace reprise::test::ptx
