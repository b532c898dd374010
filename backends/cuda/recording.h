// Commands as an executable graph with explicit nodes, which each run launches once. A recording
// for a single submission is a sequence of launches into a stream instead.
//
// No barriers are needed: only nodes that no edge orders (Command::after) run concurrently, a
// node's writes are visible to the nodes after it, and the end of a graph makes all writes visible
// to the host and to later submissions.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "backends/cuda/driver.h"
#include "backends/cuda/kernels.h"
#include "runtime/device/backend.h"

namespace reprise::cuda {

class CudaRecording final : public Recording {
 public:
  static Result<std::unique_ptr<CudaRecording>> create(std::shared_ptr<Driver> driver,
                                                       const RecordingDesc& desc);
  /// Waits for a run that is still in flight, because its memory must stay valid until it ends. A
  /// run that does not end in time is given up (BackendOptions::patience_ns).
  ~CudaRecording() override;
  using Recording::submit;
  Status submit(const SubmitSync& sync, uint64_t timeout_ns) override;
  Status wait(uint64_t timeout_ns) override;
  Result<bool> poll(uint64_t timeout_ns) override;
  bool watch(uint64_t ns) override;
  Result<bool> ended() override;
  Result<std::vector<double>> dispatch_ns() override;
  uint64_t ran_ns() const override { return ran_ns_; }
  void limit_copy(size_t copy, uint64_t bytes) override;

 private:
  using Grid = std::array<uint32_t, 3>;
  static bool is_empty(const Grid& grid) { return grid[0] == 0 || grid[1] == 0 || grid[2] == 0; }
  struct Launch {
    const CudaKernel* kernel = nullptr;
    uint64_t block = 0;     // offset of the parameter block
    uint64_t indirect = 0;  // offset of the grid if it is not fixed
    bool fixed = true;
    Grid grid{1, 1, 1};  // fixed: of every run; otherwise: of the graph's node
    bool early = false;
    CUgraphNode node = nullptr;
    bool enabled = true;    // in the graph; false if the launch has no workgroups
    bool outdated = false;  // the graph's node has other bytes than `sent_`, or another grid
  };

  struct Copy {
    size_t command = 0;
    CUgraphNode node = nullptr;
    uint64_t bytes = 0, wanted = 0;  // of the graph's node, and of the next run
    bool enabled = true;             // in the graph; false if the copy has no bytes
  };

  explicit CudaRecording(std::shared_ptr<Driver> driver)
      : driver_(std::move(driver)), run_(driver_->runs, [this] {
          const CUresult r = driver_->fn().cuEventQuery(done_.get());
          return r == CUDA_SUCCESS || is_sticky(r);
        }) {}
  Status check(const RecordingDesc& desc) const;
  Status make_objects(const RecordingDesc& desc);
  Status make_launches(const RecordingDesc& desc);
  Status make_events();
  Status build_graph();
  Status with_full_edges();
  void forget_edges();
  bool any_empty() const;
  Status new_graph();
  Status add_nodes();
  Status add_kernel(Launch& launch, size_t index, const std::vector<CUgraphNode>& after,
                    CUgraphNode& end);
  Status add_early_edges(CUgraphNode node, const std::vector<CUgraphNode>& after);
  Status add_copy(size_t command, const std::vector<CUgraphNode>& after, CUgraphNode& node);
  Status instantiate();
  Status rebuild();
  Status update();
  Status update_launches();
  Status update_nodes();
  Status update_copies();
  Status update_launch(Launch& launch, bool& refused);
  Status enable(Launch& launch, bool on);
  Status submit_once();
  Status launch_once(const Launch& launch, size_t index);
  Status mark_end(const Status& failure);
  Status over(CUresult r);
  Status hung();

  Grid grid_of(const Launch& launch) const;
  void* block_of(const Launch& launch) const;
  CUDA_KERNEL_NODE_PARAMS params_of(const Launch& launch, const Grid& grid, void** block) const;

  std::shared_ptr<Driver> driver_;
  // As recorded. Without edges once the graph is built, unless another one may be needed.
  std::vector<Command> commands_;
  std::vector<Launch> launches_;
  std::vector<Copy> copies_;
  const std::byte* blocks_ = nullptr;
  std::vector<std::byte> sent_;  // the blocks of the last update of the graph's nodes
  bool in_step_ = true;          // that update completed; false: nodes may have older blocks
  OwnedStream own_stream_;
  CUstream stream_ = nullptr;
  OwnedEvent done_;
  std::vector<OwnedEvent> stamps_;  // two events per launch
  OwnedGraph graph_;
  OwnedGraphExec exec_;
  std::chrono::steady_clock::duration last_run_{};  // since the wait began; 0: not known
  bool once_ = false, timestamps_ = false;
  bool overlaps_ = false;      // launches of the graph may begin early
  bool fixed_copies_ = false;  // the driver refused to change a copy
  uint64_t ran_ns_ = 0;
  bool pending_ = false, dead_ = false, finished_ = false;
  SubmittedRun run_;  // last, so that it is destroyed before the event that it queries
};

}  // namespace reprise::cuda
