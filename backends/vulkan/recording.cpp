#include "backends/vulkan/recording.h"

#include <algorithm>
#include <array>

#include "backends/vulkan/memory.h"

namespace reprise::vulkan {

namespace {

// The takes that a recording keeps. Loops and states alternate between two places, and
// applications between the few buffers of their frames.
constexpr size_t kMostTakes = 8;

/// Writes commands to a command buffer.
class CommandWriter {
 public:
  /// `queries`: a pool with two timestamps for each dispatch, or none.
  /// `sets`: those of the dispatches, or null if kernels use addresses.
  CommandWriter(Driver& driver, VkCommandBuffer commands, VkQueryPool queries, bool copies,
                const DescriptorSets* sets)
      : driver_(driver), commands_(commands), queries_(queries), copies_(copies), sets_(sets) {}

  void write(const RecordingDesc& desc) {
    for (const Command& c : desc.commands) write(desc, c);
  }
  /// The number of timestamps that were written.
  uint32_t stamps() const { return stamps_; }

 private:
  // Timestamps come after all earlier commands, so that a pair measures one dispatch alone.
  void timestamp() {
    if (!queries_) return;
    driver_.vk.vkCmdWriteTimestamp(commands_, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, queries_,
                                   stamps_++);
  }
  void write(const RecordingDesc& desc, const Command& c);
  void dispatch(const RecordingDesc& desc, const Command& c);
  void pass_block(const RecordingDesc& desc, const Command& c);
  void barrier(bool to_host);

  Driver& driver_;
  VkCommandBuffer commands_;
  VkQueryPool queries_;
  const bool copies_;
  const DescriptorSets* sets_;
  VkPipeline bound_ = VK_NULL_HANDLE;
  uint32_t stamps_ = 0;
  size_t dispatches_ = 0;
};

void CommandWriter::pass_block(const RecordingDesc& desc, const Command& c) {
  if (sets_) {
    const auto& layout = static_cast<const VulkanKernel*>(c.kernel)->layout();
    const VkDescriptorSet set = sets_->of(dispatches_);
    driver_.vk.vkCmdBindDescriptorSets(commands_, VK_PIPELINE_BIND_POINT_COMPUTE,
                                       layout->pipeline.get(), 0, 1, &set, 0, nullptr);
    return;
  }
  // Kernels declare the address of the block twice, as pointers to two types.
  const uint64_t block = desc.blocks->address() + c.block_offset;
  const uint64_t push[] = {block, block};
  driver_.vk.vkCmdPushConstants(commands_, driver_.pipeline_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                sizeof(push), push);
}

void CommandWriter::dispatch(const RecordingDesc& desc, const Command& c) {
  const VkPipeline pipeline = static_cast<const VulkanKernel*>(c.kernel)->pipeline();
  if (pipeline != bound_)
    driver_.vk.vkCmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  bound_ = pipeline;
  pass_block(desc, c);
  timestamp();
  if (c.first != std::array<uint32_t, 3>{}) {
    driver_.vk.vkCmdDispatchBase(commands_, c.first[0], c.first[1], c.first[2], c.grid[0],
                                 c.grid[1], c.grid[2]);
  } else if (c.kind == Command::Kind::Dispatch) {
    driver_.vk.vkCmdDispatch(commands_, c.grid[0], c.grid[1], c.grid[2]);
  } else {
    driver_.vk.vkCmdDispatchIndirect(
        commands_, static_cast<const VulkanBuffer*>(desc.blocks)->handle(), c.indirect_offset);
  }
  timestamp();
  ++dispatches_;
  ++driver_.counters.dispatches;
}

// Grids of indirect dispatches need no barrier, because the host writes them before a submission.
void CommandWriter::barrier(bool to_host) {
  VkMemoryBarrier memory{};
  memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  memory.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
  memory.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
  VkPipelineStageFlags from = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, to = from;
  if (copies_) {
    memory.srcAccessMask |= VK_ACCESS_TRANSFER_WRITE_BIT;
    from |= VK_PIPELINE_STAGE_TRANSFER_BIT;
  }
  // The last barrier also covers later submissions, which may use what this one wrote.
  if (copies_ || to_host) {
    memory.dstAccessMask |= VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    to |= VK_PIPELINE_STAGE_TRANSFER_BIT;
  }
  if (to_host) {
    memory.dstAccessMask |= VK_ACCESS_HOST_READ_BIT;
    to |= VK_PIPELINE_STAGE_HOST_BIT;
  }
  driver_.vk.vkCmdPipelineBarrier(commands_, from, to, 0, 1, &memory, 0, nullptr, 0, nullptr);
  ++driver_.counters.barriers;
}

void CommandWriter::write(const RecordingDesc& desc, const Command& c) {
  switch (c.kind) {
    case Command::Kind::Dispatch:
    case Command::Kind::DispatchIndirect:
      dispatch(desc, c);
      break;
    case Command::Kind::Barrier:
      barrier(false);
      break;
    case Command::Kind::HostBarrier:
      barrier(true);
      break;
    case Command::Kind::Join:  // barriers order the commands
      break;
    case Command::Kind::Copy: {
      if (c.bytes == 0) break;
      const VkBufferCopy region{c.src_offset, c.dst_offset, c.bytes};
      driver_.vk.vkCmdCopyBuffer(commands_, static_cast<const VulkanBuffer*>(c.src)->handle(),
                                 static_cast<const VulkanBuffer*>(c.dst)->handle(), 1, &region);
      ++driver_.counters.copies;
      break;
    }
  }
}

bool has_copies(const RecordingDesc& desc) {
  return std::ranges::any_of(desc.commands,
                             [](const Command& c) { return c.kind == Command::Kind::Copy; });
}

}  // namespace

Result<std::shared_ptr<void>> write_to(const std::shared_ptr<Driver>& driver,
                                       VkCommandBuffer commands, const RecordingDesc& desc) {
  RP_TRY(driver->alive());
  std::shared_ptr<DescriptorSets> sets;
  if (driver->uses_descriptors()) {
    BoundMemory bound(driver, desc);
    bool changed = false;
    RP_TRY(bound.read(changed));
    RP_ASSIGN(DescriptorSets made, DescriptorSets::create(driver, bound));
    sets = std::make_shared<DescriptorSets>(std::move(made));
    sets->write(bound, false);
  }
  const auto barrier = [&](VkPipelineStageFlags from, VkAccessFlags written,
                           VkPipelineStageFlags to, VkAccessFlags used) {
    VkMemoryBarrier memory{};
    memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    memory.srcAccessMask = written;
    memory.dstAccessMask = used;
    driver->vk.vkCmdPipelineBarrier(commands, from, to, 0, 1, &memory, 0, nullptr, 0, nullptr);
  };
  const VkPipelineStageFlags ours =
      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  const VkAccessFlags all = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
  barrier(VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT, ours, all);
  write_to_tensors(*driver, commands, desc.to_tensors);
  CommandWriter(*driver, commands, VK_NULL_HANDLE, has_copies(desc), sets.get()).write(desc);
  write_from_tensors(*driver, commands, desc.from_tensors);
  barrier(ours, VK_ACCESS_MEMORY_WRITE_BIT,
          VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT, all);
  ++driver->counters.recordings;
  return std::static_pointer_cast<void>(std::move(sets));
}

Status VulkanRecording::make_objects(const RecordingDesc& desc) {
  const VkDevice device = driver_->device;
  VkCommandPoolCreateInfo pool_info{};
  pool_info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool_info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  pool_info.queueFamilyIndex = driver_->queue_family;
  VkCommandPool pool = VK_NULL_HANDLE;
  RP_TRY(driver_->check(driver_->vk.vkCreateCommandPool(device, &pool_info, nullptr, &pool),
                        "vkCreateCommandPool"));
  pool_ = {driver_, pool};
  if (copies_.empty()) {
    VkFenceCreateInfo fence_info{};
    fence_info.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
    VkFence fence = VK_NULL_HANDLE;
    RP_TRY(driver_->check(driver_->vk.vkCreateFence(device, &fence_info, nullptr, &fence),
                          "vkCreateFence"));
    fence_ = {driver_, fence};
  }
  if (!desc.timestamps || dispatches_ == 0) return {};
  if (driver_->physical.timestamp_bits == 0)
    return unsupported(driver_->physical.info.id + " has no timestamps; run without them");
  VkQueryPoolCreateInfo query_info{};
  query_info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
  query_info.queryType = VK_QUERY_TYPE_TIMESTAMP;
  query_info.queryCount = 2 * dispatches_;
  VkQueryPool queries = VK_NULL_HANDLE;
  RP_TRY(driver_->check(driver_->vk.vkCreateQueryPool(device, &query_info, nullptr, &queries),
                        "vkCreateQueryPool"));
  queries_ = {driver_, queries};
  return {};
}

Result<std::unique_ptr<VulkanRecording>> VulkanRecording::create(std::shared_ptr<Driver> driver,
                                                                 RecordingDesc desc) {
  RP_TRY(driver->alive());
  std::unique_ptr<VulkanRecording> r(new VulkanRecording(std::move(driver)));
  for (const Command& c : desc.commands) {
    if (c.is_dispatch()) ++r->dispatches_;
  }
  RP_TRY(r->copies_.take(desc.commands));
  RP_TRY(r->make_objects(desc));
  Driver& d = *r->driver_;
  if (d.uses_descriptors()) r->bound_.emplace(r->driver_, desc);
  r->desc_ = std::move(desc);
  bool changed = false;
  if (r->bound_) RP_TRY(r->bound_->read(changed));
  RP_TRY(r->write(r->takes_.emplace_back()));
  // Without update-after-bind, other memory needs other sets, and so other commands.
  if (!r->bound_ || d.physical.update_after_bind) r->desc_ = {};
  return r;
}

/// Records the commands, for the memory that bound_ has read.
Status VulkanRecording::write(Take& take) {
  Driver& d = *driver_;
  if (bound_) {
    RP_ASSIGN(take.sets, DescriptorSets::create(driver_, *bound_));
    take.sets->write(*bound_, false);
    take.keys = bound_->keys();
  }
  if (!take.commands) {
    VkCommandBufferAllocateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    info.commandPool = pool_.get();
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = 1;
    RP_TRY(d.check(d.vk.vkAllocateCommandBuffers(d.device, &info, &take.commands),
                   "vkAllocateCommandBuffers"));
  }
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  RP_TRY(d.check(d.vk.vkBeginCommandBuffer(take.commands, &begin), "vkBeginCommandBuffer"));
  const VkQueryPool queries = queries_.get();
  if (queries) d.vk.vkCmdResetQueryPool(take.commands, queries, 0, 2 * dispatches_);
  CommandWriter writer(d, take.commands, queries, has_copies(desc_),
                       take.sets ? &*take.sets : nullptr);
  writer.write(desc_);
  stamps_ = writer.stamps();
  RP_TRY(d.check(d.vk.vkEndCommandBuffer(take.commands), "vkEndCommandBuffer"));
  ++d.counters.recordings;
  ++times_recorded_;
  return {};
}

/// Binds the memory that the parameter blocks name now.
Status VulkanRecording::bind_memory() {
  bool changed = false;
  if (bound_) RP_TRY(bound_->read(changed));
  if (!changed) return {};
  if (!driver_->physical.update_after_bind) return take_for_memory();
  takes_[take_].sets->write(*bound_, true);
  return {};
}

/// Chooses the take for the memory that bound_ has read, or records one. The one that was not used
/// for the longest time makes room.
Status VulkanRecording::take_for_memory() {
  const auto known =
      std::ranges::find_if(takes_, [&](const Take& t) { return t.keys == bound_->keys(); });
  if (known != takes_.end()) {
    take_ = static_cast<size_t>(known - takes_.begin());
    return {};
  }
  if (takes_.size() < kMostTakes) takes_.emplace_back();
  const auto oldest = std::ranges::min_element(takes_, {}, &Take::last_used);
  take_ = static_cast<size_t>(oldest - takes_.begin());
  oldest->keys.clear();
  return write(*oldest);
}

VkResult VulkanRecording::wait_for_device(uint64_t timeout_ns) const {
  if (!copies_.empty()) return copies_.wait(timeout_ns);
  const VkFence fence = fence_.get();
  return driver_->vk.vkWaitForFences(driver_->device, 1, &fence, VK_TRUE, timeout_ns);
}

// Any error but the loss of the device may be temporary, and says nothing of the run.
bool VulkanRecording::has_ended(uint64_t timeout_ns) const {
  const VkResult r = wait_for_device(timeout_ns);
  return r == VK_SUCCESS || r == VK_ERROR_DEVICE_LOST;
}

// A lost device runs nothing. Any other error of the wait may be temporary, so it is tried twice;
// then it is unknown when the run ends.
VulkanRecording::~VulkanRecording() {
  if (!pending_ || driver_->runs.given_up()) return;
  VkResult r = VK_TIMEOUT;
  const auto ask = [&](uint64_t ns) { return (r = wait_for_device(ns)) != VK_TIMEOUT; };
  const auto is_known = [&] {
    return r == VK_SUCCESS || r == VK_ERROR_DEVICE_LOST || r == VK_TIMEOUT;
  };
  driver_->runs.wait_for_end(run_, ask);
  if (!is_known()) driver_->runs.wait_for_end(run_, ask);
  if (r != VK_SUCCESS && r != VK_ERROR_DEVICE_LOST) driver_->give_up(driver_->runs.grace_ns(run_));
}

Status VulkanRecording::submit(const SubmitSync& sync, uint64_t timeout_ns) {
  if (dead_ || pending_) {
    return {Code::Device, dead_ ? "this recording failed earlier; create another session"
                                : "this recording is still in flight"};
  }
  RP_TRY(bind_memory());
  const VkFence fence = fence_.get();
  if (fence)
    RP_TRY(driver_->check(driver_->vk.vkResetFences(driver_->device, 1, &fence), "vkResetFences"));
  std::array<VkCommandBuffer, 3> all{};
  size_t count = 0, submitted = 0;
  for (VkCommandBuffer commands : {pixels_.before(), takes_[take_].commands, pixels_.after()})
    if (commands) all[count++] = commands;
  Status s = driver_->submit(copies_.batches(std::span(all).first(count)), fence, run_, sync,
                             timeout_ns, submitted);
  if (!s.ok()) copies_.submitted(submitted);
  pending_ = submitted > 0;  // wait() waits for a part as well
  if (pending_) takes_[take_].last_used = ++submissions_;
  return s;
}

Status VulkanRecording::set_pixels(std::span<const PixelCopy> before,
                                   std::span<const PixelCopy> after) {
  if (pending_) return {Code::Device, "this recording is still in flight"};
  return pixels_.set(before, after);
}

Status VulkanRecording::over(VkResult r) {
  run_.over();
  if (r == VK_SUCCESS) {
    pending_ = false;
    return {};
  }
  dead_ = true;
  return driver_->check(r, copies_.empty() ? "vkWaitForFences" : "vkWaitSemaphores");
}

// Gives up the run, because it or one before it hangs.
Status VulkanRecording::hung() {
  dead_ = true;
  driver_->give_up(driver_->runs.grace_ns(run_));
  return driver_->alive();
}

Status VulkanRecording::wait(uint64_t timeout_ns) {
  if (!pending_) return {};
  VkResult r = VK_TIMEOUT;
  const auto ask = [&](uint64_t ns) { return (r = wait_for_device(ns)) != VK_TIMEOUT; };
  switch (driver_->runs.wait(run_, timeout_ns, ask)) {
    case RunQueue::Outcome::Over:
      ran_ns_ = driver_->runs.ran_ns(run_);
      return over(r);
    case RunQueue::Outcome::Hung:
      return hung();
    case RunQueue::Outcome::TimedOut:
      break;
  }
  return timeout_error(driver_->physical.info, timeout_ns);
}

Result<bool> VulkanRecording::poll(uint64_t timeout_ns) {
  if (!pending_) return true;
  VkResult r = VK_TIMEOUT;
  const auto ask = [&](uint64_t ns) { return (r = wait_for_device(ns)) != VK_TIMEOUT; };
  const auto outcome = driver_->runs.poll(run_, timeout_ns, ask);
  if (!outcome) return false;
  if (*outcome == RunQueue::Outcome::Hung) return hung();
  if (*outcome == RunQueue::Outcome::TimedOut)
    return timeout_error(driver_->physical.info, timeout_ns);
  ran_ns_ = driver_->runs.ran_ns(run_);
  RP_TRY(over(r));
  return true;
}

bool VulkanRecording::watch(uint64_t ns) {
  return driver_->runs.watch(run_, ns, [this](uint64_t most) { return has_ended(most); });
}

Result<bool> VulkanRecording::ended() {
  if (dead_) return Status(Code::Device, "this recording failed earlier; create another session");
  if (!pending_) return true;
  const VkResult r = wait_for_device(0);
  if (r == VK_TIMEOUT && driver_->runs.hung(run_)) return hung();
  if (r == VK_TIMEOUT) return false;
  RP_TRY(over(r));
  return true;
}

Status VulkanRecording::wait_for_transfer() {
  return wait(UINT64_MAX).with_context("a transfer");
}

Result<std::vector<double>> VulkanRecording::dispatch_ns() {
  std::vector<double> ns;
  if (!queries_.get() || pending_ || dead_) return ns;
  std::vector<uint64_t> stamps(stamps_);
  RP_TRY(driver_->check(
      driver_->vk.vkGetQueryPoolResults(driver_->device, queries_.get(), 0, stamps_,
                                        stamps.size() * sizeof(uint64_t), stamps.data(),
                                        sizeof(uint64_t), VK_QUERY_RESULT_64_BIT),
      "vkGetQueryPoolResults"));
  const uint32_t bits = driver_->physical.timestamp_bits;
  const uint64_t mask = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const double period = static_cast<double>(driver_->physical.properties.limits.timestampPeriod);
  for (size_t i = 0; i + 1 < stamps.size(); i += 2)
    ns.push_back(static_cast<double>((stamps[i + 1] - stamps[i]) & mask) * period);
  return ns;
}

}  // namespace reprise::vulkan
