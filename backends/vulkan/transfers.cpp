#include "backends/vulkan/transfers.h"

#include <algorithm>

#include "backends/vulkan/memory.h"

namespace reprise::vulkan {
namespace {

uint64_t bytes_of(std::span<const Command> copies) {
  uint64_t bytes = 0;
  for (const Command& c : copies) bytes += c.bytes;
  return bytes;
}

/// Whether a copy is between memory of the host and of the device, and both are this library's.
bool is_between(const DeviceBuffer& host, const DeviceBuffer& device) {
  return host.mapped() && !device.mapped() && is_shared(host) && is_shared(device);
}

bool is_upload(const Command& c) {
  return c.kind == Command::Kind::Copy && is_between(*c.src, *c.dst);
}

bool is_download(const Command& c) {
  return c.kind == Command::Kind::Copy && is_between(*c.dst, *c.src);
}

bool is_launch(const Command& c) {
  return c.kind == Command::Kind::Dispatch || c.kind == Command::Kind::DispatchIndirect;
}

}  // namespace

Status TransferBuffer::begin(std::shared_ptr<Driver> driver) {
  driver_ = std::move(driver);
  Driver& d = *driver_;
  VkCommandPoolCreateInfo pool_info{};
  pool_info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool_info.queueFamilyIndex = d.physical.queues.transfer;
  VkCommandPool pool = VK_NULL_HANDLE;
  RP_TRY(d.check(d.vk.vkCreateCommandPool(d.device, &pool_info, nullptr, &pool),
                 "vkCreateCommandPool"));
  pool_ = {driver_, pool};
  VkCommandBufferAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = pool;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  RP_TRY(d.check(d.vk.vkAllocateCommandBuffers(d.device, &info, &commands_),
                 "vkAllocateCommandBuffers"));
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  return d.check(d.vk.vkBeginCommandBuffer(commands_, &begin), "vkBeginCommandBuffer");
}

void TransferBuffer::see_everything() {
  VkMemoryBarrier memory{};
  memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  memory.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
  memory.dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  driver_->vk.vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                                   VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &memory, 0, nullptr, 0,
                                   nullptr);
  ++driver_->counters.barriers;
}

void TransferBuffer::copy(std::span<const Command> copies) {
  for (const Command& c : copies) {
    const VkBufferCopy region{c.src_offset, c.dst_offset, c.bytes};
    driver_->vk.vkCmdCopyBuffer(commands_, static_cast<const VulkanBuffer*>(c.src)->handle(),
                                static_cast<const VulkanBuffer*>(c.dst)->handle(), 1, &region);
    ++driver_->counters.copies;
  }
}

void TransferBuffer::show_to_host() {
  VkMemoryBarrier memory{};
  memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  memory.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
  memory.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  driver_->vk.vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_TRANSFER_BIT,
                                   VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &memory, 0, nullptr, 0,
                                   nullptr);
  ++driver_->counters.barriers;
}

Status TransferBuffer::end() {
  return driver_->check(driver_->vk.vkEndCommandBuffer(commands_), "vkEndCommandBuffer");
}

// The barriers between the copies and the kernels go with the copies, because the semaphore orders
// them. The last barrier stays: it shows what kernels wrote to the host.
Status OverlappedCopies::take(std::vector<Command>& commands) {
  if (!driver_->overlaps_copies() || std::ranges::none_of(commands, is_launch)) return {};
  const auto barrier = [&](size_t i) { return commands[i].kind == Command::Kind::Barrier; };
  const auto end_of_up = std::ranges::find_if_not(commands, is_upload);
  const auto up = static_cast<size_t>(end_of_up - commands.begin());
  size_t end = commands.size();
  while (end > 0 && !is_download(commands[end - 1]) && !is_launch(commands[end - 1])) --end;
  size_t begin = end;
  while (begin > 0 && is_download(commands[begin - 1])) --begin;
  const std::span<const Command> all = commands;
  const auto uploads = all.first(up), downloads = all.subspan(begin, end - begin);
  const uint64_t least = driver_->least_overlapped_bytes;
  const bool take_up = bytes_of(uploads) >= least;
  const bool take_down = driver_->download_queue && bytes_of(downloads) >= least;
  if (!take_up && !take_down) return {};
  if (take_up) RP_TRY(record_up(uploads));
  if (take_down) RP_TRY(record_down(downloads));
  RP_ASSIGN(const VkSemaphore semaphore, driver_->make_timeline());
  semaphore_ = {driver_, semaphore};
  if (take_down) {
    if (begin > 0 && barrier(begin - 1)) --begin;
    commands.erase(commands.begin() + static_cast<std::ptrdiff_t>(begin),
                   commands.begin() + static_cast<std::ptrdiff_t>(end));
  }
  if (take_up) {
    const size_t to = barrier(up) ? up + 1 : up;
    commands.erase(commands.begin(), commands.begin() + static_cast<std::ptrdiff_t>(to));
  }
  return {};
}

Status OverlappedCopies::record_up(std::span<const Command> copies) {
  RP_TRY(up_.begin(driver_));
  up_.copy(copies);
  return up_.end();
}

Status OverlappedCopies::record_down(std::span<const Command> copies) {
  RP_TRY(down_.begin(driver_));
  down_.copy(copies);
  down_.show_to_host();
  return down_.end();
}

std::span<const Batch> OverlappedCopies::batches(std::span<const VkCommandBuffer> compute) {
  size_t n = 0;
  first_ = last_;
  const auto add = [&](VkQueue queue, std::span<const VkCommandBuffer> commands) {
    const uint64_t before = first_ + n;
    batches_[n] = {queue, commands, semaphore_.get(), n == 0 ? 0 : before, before + 1};
    ++n;
  };
  if (up_.handle()) add(driver_->upload_queue, {&up_.handle(), 1});
  add(driver_->queue, compute);
  if (down_.handle()) add(driver_->download_queue, {&down_.handle(), 1});
  if (empty()) batches_[0].signal = 0;
  last_ = first_ + n;
  return std::span(batches_).first(n);
}

}  // namespace reprise::vulkan
