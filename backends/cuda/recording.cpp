// The graph of a recording: one node for each launch and copy, with the edges of the commands.
// Parameter blocks are kernel parameters, so a node keeps the bytes that it was given. Each run
// compares them with the session's blocks and updates the nodes whose bytes or grids differ. A copy
// moves the bytes of the run, up to the recorded size.
#include "backends/cuda/recording.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/facts/cuda_arch.h"

namespace reprise::cuda {
namespace {

bool inside(uint64_t offset, uint64_t bytes, uint64_t size) {
  return offset <= size && bytes <= size - offset;
}

// Whether a new executable graph may succeed after an update failed with this error.
bool wants_new_graph(CUresult r) {
  return r == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE || r == CUDA_ERROR_NOT_SUPPORTED ||
         r == CUDA_ERROR_INVALID_VALUE;
}

CUDA_MEMCPY3D copy_params(const Command& c, uint64_t bytes) {
  CUDA_MEMCPY3D p{};
  const bool from_host = c.src->mapped() != nullptr, to_host = c.dst->mapped() != nullptr;
  p.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  p.dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  if (from_host) p.srcHost = static_cast<const std::byte*>(c.src->mapped()) + c.src_offset;
  if (!from_host) p.srcDevice = c.src->address() + c.src_offset;
  if (to_host) p.dstHost = static_cast<std::byte*>(c.dst->mapped()) + c.dst_offset;
  if (!to_host) p.dstDevice = c.dst->address() + c.dst_offset;
  p.WidthInBytes = bytes;  // one row, because pitches are limited to 2 GiB
  p.Height = p.Depth = 1;
  return p;
}

}  // namespace

// Checks that parameter blocks and copies stay inside their buffers: kernels rely on the offsets,
// and the host reads the blocks.
Status CudaRecording::check(const RecordingDesc& desc) const {
  const uint64_t size = desc.blocks ? desc.blocks->size() : 0;
  for (const Command& c : desc.commands) {
    if (c.is_dispatch()) {
      const uint64_t bytes = static_cast<const CudaKernel*>(c.kernel)->block_bytes();
      const bool grid = c.kind == Command::Kind::Dispatch || inside(c.indirect_offset, 12, size);
      if (!desc.blocks || !desc.blocks->mapped() || !inside(c.block_offset, bytes, size) || !grid)
        return internal_error("a launch's parameter block is outside its buffer");
    }
    if (c.kind == Command::Kind::Copy && (!inside(c.src_offset, c.bytes, c.src->size()) ||
                                          !inside(c.dst_offset, c.bytes, c.dst->size())))
      return internal_error("a copy leaves its buffers");
  }
  return {};
}

Status CudaRecording::make_launches(const RecordingDesc& desc) {
  if (desc.blocks) blocks_ = static_cast<const std::byte*>(desc.blocks->mapped());
  for (const Command& c : desc.commands) {
    if (!c.is_dispatch()) continue;
    Launch launch;
    launch.kernel = static_cast<const CudaKernel*>(c.kernel);
    launch.block = c.block_offset;
    launch.fixed = c.kind == Command::Kind::Dispatch;
    launch.indirect = c.indirect_offset;
    if (launch.fixed) launch.grid = c.grid;
    launch.early = c.early;
    overlaps_ = overlaps_ || c.early;
    launches_.push_back(launch);
  }
  if (!launches_.empty()) sent_.assign(blocks_, blocks_ + desc.blocks->size());
  return {};
}

Status CudaRecording::make_events() {
  const Table& fn = driver_->fn();
  CUevent event = nullptr;
  RP_TRY(driver_->check(fn.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
  done_ = {driver_, event};
  for (size_t i = 0; timestamps_ && i < 2 * launches_.size(); ++i) {
    RP_TRY(driver_->check(fn.cuEventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate"));
    stamps_.emplace_back(driver_, event);
  }
  return {};
}

Status CudaRecording::make_objects(const RecordingDesc& desc) {
  commands_ = desc.commands;
  once_ = desc.once;
  timestamps_ = desc.timestamps;
  stream_ = driver_->borrowed_stream;
  if (!stream_) {  // a stream for this recording, so that recordings can overlap
    RP_TRY(driver_->check(driver_->fn().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING),
                          "cuStreamCreate"));
    own_stream_ = {driver_, stream_};
  }
  RP_TRY(make_launches(desc));
  overlaps_ = overlaps_ && !timestamps_ && driver_->fn().cuGraphAddDependencies_v2 &&
              CudaArch::begins_early(driver_->info.facts.cuda_arch);
  return make_events();
}

CUDA_KERNEL_NODE_PARAMS CudaRecording::params_of(const Launch& launch, const Grid& grid,
                                                 void** block) const {
  const auto& group = launch.kernel->workgroup();
  CUDA_KERNEL_NODE_PARAMS p{};
  p.func = launch.kernel->function();
  p.gridDimX = grid[0];
  p.gridDimY = grid[1];
  p.gridDimZ = grid[2];
  p.blockDimX = group[0];
  p.blockDimY = group[1];
  p.blockDimZ = group[2];
  p.sharedMemBytes = launch.kernel->dynamic_shared_bytes();
  p.kernelParams = block;
  return p;
}

Status CudaRecording::add_kernel(Launch& launch, size_t index,
                                 const std::vector<CUgraphNode>& after, CUgraphNode& end) {
  const Table& fn = driver_->fn();
  const CUgraph graph = graph_.get();
  std::vector<CUgraphNode> before = after;
  CUgraphNode node = nullptr;
  if (timestamps_) {
    RP_TRY(driver_->check(fn.cuGraphAddEventRecordNode(&node, graph, before.data(), before.size(),
                                                       stamps_[2 * index].get()),
                          "cuGraphAddEventRecordNode"));
    before = {node};
  }
  Grid grid = grid_of(launch);
  launch.outdated = is_empty(grid);
  if (launch.outdated) grid = {1, 1, 1};  // a node must not be empty; it will be disabled
  if (!launch.fixed) launch.grid = grid;
  void* block = block_of(launch);
  const CUDA_KERNEL_NODE_PARAMS params = params_of(launch, grid, &block);
  const bool early = overlaps_ && launch.early && !before.empty();
  RP_TRY(driver_->check(fn.cuGraphAddKernelNode_v2(&launch.node, graph, before.data(),
                                                   early ? 0 : before.size(), &params),
                        "cuGraphAddKernelNode"));
  end = launch.node;
  if (early) RP_TRY(add_early_edges(end, before));
  if (!timestamps_) return {};
  return driver_->check(
      fn.cuGraphAddEventRecordNode(&end, graph, &launch.node, 1, stamps_[2 * index + 1].get()),
      "cuGraphAddEventRecordNode");
}

// The kernel awaits what these edges mean, so it may begin once all workgroups of the nodes before
// it have. A driver that refuses them is not asked again.
Status CudaRecording::add_early_edges(CUgraphNode node, const std::vector<CUgraphNode>& after) {
  const std::vector<CUgraphNode> to(after.size(), node);
  const std::vector<CUgraphEdgeData> data(
      after.size(), {CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                     0,
                     static_cast<unsigned char>(CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC),
                     {}});
  const CUresult r = driver_->fn().cuGraphAddDependencies_v2(graph_.get(), after.data(), to.data(),
                                                             data.data(), after.size());
  if (wants_new_graph(r)) overlaps_ = false;
  return driver_->check(r, "cuGraphAddDependencies");
}

void CudaRecording::limit_copy(size_t copy, uint64_t bytes) {
  if (copy < copies_.size() && !fixed_copies_)
    copies_[copy].wanted = std::min(bytes, commands_[copies_[copy].command].bytes);
}

Status CudaRecording::add_copy(size_t command, const std::vector<CUgraphNode>& after,
                               CUgraphNode& node) {
  const Table& fn = driver_->fn();
  const Command& c = commands_[command];
  if (c.bytes == 0) {  // an empty node, only for the order
    copies_.push_back({command});
    return driver_->check(fn.cuGraphAddEmptyNode(&node, graph_.get(), after.data(), after.size()),
                          "cuGraphAddEmptyNode");
  }
  const CUDA_MEMCPY3D p = copy_params(c, c.bytes);
  RP_TRY(driver_->check(fn.cuGraphAddMemcpyNode(&node, graph_.get(), after.data(), after.size(), &p,
                                                driver_->context),
                        "cuGraphAddMemcpyNode"));
  copies_.push_back({command, node, c.bytes, c.bytes});
  return {};
}

// Timed launches form a chain, so that each interval measures one kernel alone.
Status CudaRecording::add_nodes() {
  std::vector<CUgraphNode> nodes(commands_.size(), nullptr);  // the last node of each command
  std::vector<CUgraphNode> after;
  CUgraphNode last = nullptr;
  size_t launch = 0;
  for (size_t i = 0; i < commands_.size(); ++i) {
    const Command& c = commands_[i];
    after.clear();
    for (const uint32_t a : c.after) {
      if (a >= i || !nodes[a])
        return internal_error("a command waits for one that is not before it");
      if (!timestamps_) after.push_back(nodes[a]);
    }
    if (timestamps_ && last) after.push_back(last);
    switch (c.kind) {
      case Command::Kind::Dispatch:
      case Command::Kind::DispatchIndirect:
        RP_TRY(add_kernel(launches_[launch], launch, after, nodes[i]));
        ++launch;
        break;
      case Command::Kind::Copy:
        RP_TRY(add_copy(i, after, nodes[i]));
        break;
      case Command::Kind::Join:
        RP_TRY(driver_->check(
            driver_->fn().cuGraphAddEmptyNode(&nodes[i], graph_.get(), after.data(), after.size()),
            "cuGraphAddEmptyNode"));
        break;
      case Command::Kind::Barrier:
      case Command::Kind::HostBarrier:
        break;
    }
    if (nodes[i]) last = nodes[i];
  }
  return {};
}

Status CudaRecording::enable(Launch& launch, bool on) {
  if (launch.enabled == on) return {};
  RP_TRY(driver_->check(driver_->fn().cuGraphNodeSetEnabled(exec_.get(), launch.node, on ? 1U : 0U),
                        "cuGraphNodeSetEnabled"));
  launch.enabled = on;
  return {};
}

// If this fails there is no executable graph, and the next submission tries again.
Status CudaRecording::instantiate() {
  const Table& fn = driver_->fn();
  exec_ = {};
  CUgraphExec exec = nullptr;
  const CUresult r = fn.cuGraphInstantiateWithFlags(&exec, graph_.get(), 0);
  if (overlaps_ && wants_new_graph(r)) return with_full_edges();
  RP_TRY(driver_->check(r, "cuGraphInstantiateWithFlags"));
  exec_ = {driver_, exec};
  for (Launch& launch : launches_) launch.enabled = true;
  for (Copy& copy : copies_) {
    copy.bytes = commands_[copy.command].bytes;
    copy.enabled = true;
    if (fixed_copies_) copy.wanted = copy.bytes;
  }
  for (Launch& launch : launches_) {
    Status disabled = is_empty(grid_of(launch)) ? enable(launch, false) : Status();
    if (disabled.ok()) continue;
    exec_ = {};
    return disabled;
  }
  return {};
}

bool CudaRecording::any_empty() const {
  return std::any_of(launches_.begin(), launches_.end(),
                     [&](const Launch& launch) { return is_empty(grid_of(launch)); });
}

Status CudaRecording::new_graph() {
  CUgraph graph = nullptr;
  RP_TRY(driver_->check(driver_->fn().cuGraphCreate(&graph, 0), "cuGraphCreate"));
  graph_ = {driver_, graph};
  return add_nodes();
}

void CudaRecording::forget_edges() {
  for (Command& c : commands_) c.after = {};
}

Status CudaRecording::build_graph() {
  overlaps_ = overlaps_ && !any_empty();
  const bool early = overlaps_;
  const Status made = new_graph();
  if (early && !overlaps_) {  // the driver refused an edge
    RP_TRY(with_full_edges());
  } else {
    RP_TRY(made);
    if (!overlaps_) forget_edges();
    RP_TRY(instantiate());
  }
  return driver_->check(driver_->fn().cuGraphUpload(exec_.get(), stream_), "cuGraphUpload");
}

// A disabled node awaits nothing, so one after it would not follow those before it. The recording
// does without early launches from the first run in which one has no workgroups, or if the driver
// refuses them. If that graph cannot be made, the next submission tries again.
Status CudaRecording::with_full_edges() {
  overlaps_ = false;
  exec_ = {};
  const std::vector<Copy> copies = std::exchange(copies_, {});
  Status made = new_graph();
  if (!made.ok()) {
    graph_ = {};
    copies_ = copies;
    return made;
  }
  forget_edges();
  for (size_t n = 0; n < copies.size(); ++n) copies_[n].wanted = copies[n].wanted;
  return instantiate();
}

// Makes a new executable graph from the source graph, with the blocks and grids of this run.
Status CudaRecording::rebuild() {
  exec_ = {};
  for (Launch& launch : launches_) {
    const Grid grid = grid_of(launch);
    launch.outdated = is_empty(grid);
    if (launch.outdated) continue;
    if (!launch.fixed) launch.grid = grid;
    void* block = block_of(launch);
    const CUDA_KERNEL_NODE_PARAMS params = params_of(launch, grid, &block);
    RP_TRY(driver_->check(driver_->fn().cuGraphKernelNodeSetParams_v2(launch.node, &params),
                          "cuGraphKernelNodeSetParams"));
  }
  return instantiate();
}

Status CudaRecording::update_launch(Launch& launch, bool& refused) {
  const Grid grid = grid_of(launch);
  void* block = block_of(launch);
  const uint64_t bytes = launch.kernel->block_bytes();
  launch.outdated = launch.outdated || grid != launch.grid ||
                    std::memcmp(sent_.data() + launch.block, block, bytes) != 0;
  if (is_empty(grid)) return enable(launch, false);
  if (launch.outdated) {
    const CUDA_KERNEL_NODE_PARAMS params = params_of(launch, grid, &block);
    const CUresult r =
        driver_->fn().cuGraphExecKernelNodeSetParams_v2(exec_.get(), launch.node, &params);
    refused = wants_new_graph(r);
    if (refused) return {};
    RP_TRY(driver_->check(r, "cuGraphExecKernelNodeSetParams"));
    launch.outdated = false;
    if (!launch.fixed) launch.grid = grid;
    std::memcpy(sent_.data() + launch.block, block, bytes);
  }
  return enable(launch, true);
}

Status CudaRecording::update_nodes() {
  bool refused = false;
  for (Launch& launch : launches_) {
    RP_TRY(update_launch(launch, refused));
    if (refused) return rebuild();
  }
  return {};
}

// If the driver refuses an update, a new graph copies the recorded sizes.
Status CudaRecording::update_copies() {
  const Table& fn = driver_->fn();
  for (Copy& copy : copies_) {
    if (copy.bytes == copy.wanted) continue;
    const bool on = copy.wanted != 0;
    CUresult r = CUDA_SUCCESS;
    const char* call = "cuGraphExecMemcpyNodeSetParams";
    if (on) {
      const CUDA_MEMCPY3D p = copy_params(commands_[copy.command], copy.wanted);
      r = fn.cuGraphExecMemcpyNodeSetParams(exec_.get(), copy.node, &p, driver_->context);
    }
    if (r == CUDA_SUCCESS && on != copy.enabled) {
      call = "cuGraphNodeSetEnabled";
      r = fn.cuGraphNodeSetEnabled(exec_.get(), copy.node, on ? 1U : 0U);
    }
    if (wants_new_graph(r)) {
      fixed_copies_ = true;
      return rebuild();
    }
    RP_TRY(driver_->check(r, call));
    copy.bytes = copy.wanted;
    copy.enabled = on;
  }
  return {};
}

Status CudaRecording::update() {
  RP_TRY(update_launches());
  return update_copies();
}

Status CudaRecording::update_launches() {
  const size_t bytes = sent_.size();
  if (exec_.get() && in_step_ && (bytes == 0 || std::memcmp(sent_.data(), blocks_, bytes) == 0))
    return {};
  in_step_ = false;
  if (!graph_.get() || (overlaps_ && any_empty())) RP_TRY(with_full_edges());
  RP_TRY(exec_.get() ? update_nodes() : rebuild());
  if (bytes > 0)
    std::memcpy(sent_.data(), blocks_, bytes);  // includes grids and the blocks of disabled nodes
  in_step_ = true;
  return {};
}

Result<std::unique_ptr<CudaRecording>> CudaRecording::create(std::shared_ptr<Driver> driver,
                                                             const RecordingDesc& desc) {
  RP_TRY(driver->alive());
  RP_CUDA_SCOPE(*driver);
  std::unique_ptr<CudaRecording> r(new CudaRecording(std::move(driver)));
  RP_TRY(r->check(desc));
  RP_TRY(r->make_objects(desc));
  if (!r->once_) RP_TRY(r->build_graph());
  AtomicCounters& counters = r->driver_->counters;
  ++counters.recordings;
  counters.dispatches += r->launches_.size();
  for (const Command& c : desc.commands)
    if (c.kind == Command::Kind::Copy) ++counters.copies;
  return r;
}

// A run whose event reports an error counts as ended.
CudaRecording::~CudaRecording() {
  if (!pending_ || driver_->runs.given_up()) return;
  const ReleaseScope scope(*driver_);
  if (!scope.entered()) return;
  const auto ask = [&](uint64_t ns) {
    return driver_->wait_for(done_.get(), ns) != CUDA_ERROR_NOT_READY;
  };
  if (driver_->runs.wait_for_end(run_, ask) != RunQueue::Outcome::Over)
    driver_->give_up(driver_->runs.grace_ns(run_));
}

CudaRecording::Grid CudaRecording::grid_of(const Launch& launch) const {
  if (launch.fixed) return launch.grid;
  Grid grid;
  std::memcpy(grid.data(), blocks_ + launch.indirect, sizeof(grid));
  return grid;
}

void* CudaRecording::block_of(const Launch& launch) const {
  return const_cast<std::byte*>(blocks_) + launch.block;  // the driver only reads it
}

// A failed submission may have left work in flight, whose memory must stay valid. wait() waits for
// this event and fails without one.
Status CudaRecording::mark_end(const Status& failure) {
  for (int attempt = 0; attempt < 2 && !pending_; ++attempt)
    pending_ = driver_->fn().cuEventRecord(done_.get(), stream_) == CUDA_SUCCESS;
  dead_ = !pending_;
  if (pending_) run_.submitted();
  return failure;
}

Status CudaRecording::launch_once(const Launch& launch, size_t index) {
  const Table& fn = driver_->fn();
  const auto stamp = [&](size_t which) -> Status {
    if (!timestamps_) return {};
    return driver_->check(fn.cuEventRecord(stamps_[2 * index + which].get(), stream_),
                          "cuEventRecord");
  };
  RP_TRY(stamp(0));
  const Grid grid = grid_of(launch);
  if (!is_empty(grid)) {
    const auto& group = launch.kernel->workgroup();
    void* block = block_of(launch);
    RP_TRY(driver_->check(
        fn.cuLaunchKernel(launch.kernel->function(), grid[0], grid[1], grid[2], group[0], group[1],
                          group[2], launch.kernel->dynamic_shared_bytes(), stream_, &block,
                          nullptr),
        "cuLaunchKernel"));
  }
  return stamp(1);
}

// Submits the commands in the order of the list; a stream keeps that order.
Status CudaRecording::submit_once() {
  size_t launch = 0;
  for (const Command& c : commands_) {
    switch (c.kind) {
      case Command::Kind::Dispatch:
      case Command::Kind::DispatchIndirect:
        RP_TRY(launch_once(launches_[launch], launch));
        ++launch;
        break;
      case Command::Kind::Copy:
        if (c.bytes == 0) break;
        RP_TRY(driver_->check(
            driver_->fn().cuMemcpyAsync(c.dst->address() + c.dst_offset,
                                        c.src->address() + c.src_offset, c.bytes, stream_),
            "cuMemcpyAsync"));
        break;
      case Command::Kind::Barrier:
      case Command::Kind::HostBarrier:
      case Command::Kind::Join:
        break;
    }
  }
  return {};
}

Status CudaRecording::submit(const SubmitSync& sync, uint64_t timeout_ns) {
  if (!sync.empty())
    return unsupported("a CUDA device has no semaphores: runs follow the stream that it was lent");
  RP_TRY(driver_->alive());  // first, because its error says more than that this recording failed
  if (dead_ || pending_) {
    return {Code::Device, dead_ ? "this recording failed earlier; create another session"
                                : "this recording is still in flight"};
  }
  RP_CUDA_SCOPE(*driver_);
  finished_ = false;
  if (once_) {
    const Status launched = submit_once();
    if (!launched.ok()) return mark_end(launched);
  } else {
    RP_TRY(update());
    RP_TRY(driver_->check(driver_->fn().cuGraphLaunch(exec_.get(), stream_), "cuGraphLaunch"));
  }
  ++driver_->counters.submits;
  const Status recorded =
      driver_->check(driver_->fn().cuEventRecord(done_.get(), stream_), "cuEventRecord");
  if (!recorded.ok()) return mark_end(recorded);
  pending_ = true;
  run_.submitted(timeout_ns);
  return {};
}

Status CudaRecording::over(CUresult r) {
  run_.over();
  if (r == CUDA_SUCCESS) {
    pending_ = false;
    finished_ = true;
    return {};
  }
  dead_ = true;
  return driver_->check(r, "the run (cuEventQuery)");
}

// Gives up the run, because it or one before it hangs.
Status CudaRecording::hung() {
  dead_ = true;
  driver_->give_up(driver_->runs.grace_ns(run_));
  return driver_->alive();
}

Status CudaRecording::wait(uint64_t timeout_ns) {
  if (!pending_ && dead_)
    return {Code::Device, "it is unknown when the run of this recording ends"};
  if (!pending_) return {};
  RP_CUDA_SCOPE(*driver_);
  CUresult r = CUDA_ERROR_NOT_READY;
  const auto ask = [&](uint64_t ns) {
    r = driver_->wait_for(done_.get(), ns, &last_run_);
    return r != CUDA_ERROR_NOT_READY;
  };
  switch (driver_->runs.wait(run_, timeout_ns, ask)) {
    case RunQueue::Outcome::Over:
      ran_ns_ = driver_->runs.ran_ns(run_);
      return over(r);
    case RunQueue::Outcome::Hung:
      return hung();
    case RunQueue::Outcome::TimedOut:
      break;
  }
  return timeout_error(driver_->info, timeout_ns);
}

Result<bool> CudaRecording::poll(uint64_t timeout_ns) {
  if (!pending_ && dead_)
    return Status(Code::Device, "it is unknown when the run of this recording ends");
  if (!pending_) return true;
  RP_CUDA_SCOPE(*driver_);
  CUresult r = CUDA_ERROR_NOT_READY;
  const auto ask = [&](uint64_t ns) {
    r = driver_->wait_for(done_.get(), ns, &last_run_);
    return r != CUDA_ERROR_NOT_READY;
  };
  const auto outcome = driver_->runs.poll(run_, timeout_ns, ask);
  if (!outcome) return false;
  if (*outcome == RunQueue::Outcome::Hung) return hung();
  if (*outcome == RunQueue::Outcome::TimedOut) return timeout_error(driver_->info, timeout_ns);
  ran_ns_ = driver_->runs.ran_ns(run_);
  RP_TRY(over(r));
  return true;
}

bool CudaRecording::watch(uint64_t ns) {
  const ReleaseScope scope(*driver_);
  if (!scope.entered()) return !driver_->alive().ok();
  return driver_->runs.watch(run_, ns, [this](uint64_t most) {
    return driver_->wait_for(done_.get(), most) != CUDA_ERROR_NOT_READY;
  });
}

Result<bool> CudaRecording::ended() {
  RP_TRY(driver_->alive());
  if (dead_) return Status(Code::Device, "this recording failed earlier; create another session");
  if (!pending_) return true;
  RP_CUDA_SCOPE(*driver_);
  const CUresult r = driver_->fn().cuEventQuery(done_.get());
  if (r == CUDA_ERROR_NOT_READY && driver_->runs.hung(run_)) return hung();
  if (r == CUDA_ERROR_NOT_READY) return false;
  RP_TRY(over(r));
  return true;
}

Result<std::vector<double>> CudaRecording::dispatch_ns() {
  std::vector<double> ns;
  if (!timestamps_ || !finished_) return ns;
  RP_CUDA_SCOPE(*driver_);
  for (size_t i = 0; i + 1 < stamps_.size(); i += 2) {
    float ms = 0;
    RP_TRY(driver_->check(
        driver_->fn().cuEventElapsedTime(&ms, stamps_[i].get(), stamps_[i + 1].get()),
        "cuEventElapsedTime"));
    ns.push_back(static_cast<double>(ms) * 1e6);
  }
  return ns;
}

}  // namespace reprise::cuda
