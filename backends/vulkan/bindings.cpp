#include "backends/vulkan/bindings.h"

#include <algorithm>
#include <cstring>

#include "backends/vulkan/memory.h"
#include "backends/vulkan/recording.h"
#include "runtime/base/bytes.h"
#include "runtime/plan/block_layout.h"

namespace reprise::vulkan {
namespace {

using plan::BlockLayout;

// Descriptors begin at multiples of this, which is the largest alignment that Vulkan permits
// devices to require.
constexpr uint32_t kOffsetAlignment = 256;

VkDescriptorSetLayoutBinding binding_of(uint32_t number, VkDescriptorType type) {
  return {number, type, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
}

Result<OwnedSetLayout> make_set_layout(const std::shared_ptr<Driver>& driver,
                                       const std::vector<uint32_t>& storage) {
  std::vector<VkDescriptorSetLayoutBinding> bindings{
      binding_of(BlockLayout::kBlockBinding, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER)};
  for (const uint32_t number : storage)
    bindings.push_back(binding_of(number, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER));
  std::vector<VkDescriptorBindingFlags> flags(bindings.size(),
                                              VK_DESCRIPTOR_BINDING_UPDATE_AFTER_BIND_BIT);
  flags[0] = 0;  // the place of a block never changes
  VkDescriptorSetLayoutBindingFlagsCreateInfo flags_info{};
  flags_info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_BINDING_FLAGS_CREATE_INFO;
  flags_info.bindingCount = static_cast<uint32_t>(flags.size());
  flags_info.pBindingFlags = flags.data();
  VkDescriptorSetLayoutCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
  info.bindingCount = static_cast<uint32_t>(bindings.size());
  info.pBindings = bindings.data();
  if (driver->physical.update_after_bind) {
    info.pNext = &flags_info;
    info.flags = VK_DESCRIPTOR_SET_LAYOUT_CREATE_UPDATE_AFTER_BIND_POOL_BIT;
  }
  VkDescriptorSetLayout layout = VK_NULL_HANDLE;
  RP_TRY(
      driver->check(driver->vk.vkCreateDescriptorSetLayout(driver->device, &info, nullptr, &layout),
                    "vkCreateDescriptorSetLayout"));
  return OwnedSetLayout(driver, layout);
}

}  // namespace

Result<std::shared_ptr<const BindingLayout>> BindingLayouts::of(
    const std::shared_ptr<Driver>& driver, const std::vector<uint32_t>& storage) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const BindingLayout>& known = known_[storage];
  if (known) return known;
  auto made = std::make_shared<BindingLayout>();
  made->storage = storage;
  RP_ASSIGN(made->set, make_set_layout(driver, storage));
  const VkDescriptorSetLayout set = made->set.get();
  VkPipelineLayoutCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  info.setLayoutCount = 1;
  info.pSetLayouts = &set;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  RP_TRY(driver->check(driver->vk.vkCreatePipelineLayout(driver->device, &info, nullptr, &layout),
                       "vkCreatePipelineLayout"));
  made->pipeline = {driver, layout};
  known = std::move(made);
  return known;
}

BoundMemory::BoundMemory(std::shared_ptr<Driver> driver, const RecordingDesc& desc)
    : driver_(std::move(driver)), blocks_(desc.blocks), version_(desc.bindings_version) {
  size_t bindings = 0;
  for (const Command& c : desc.commands) {
    if (!c.is_dispatch()) continue;
    const auto& kernel = static_cast<const VulkanKernel&>(*c.kernel);
    Dispatch& d = dispatches_.emplace_back();
    d.layout = kernel.layout();
    d.block = c.block_offset;
    d.block_bytes = kernel.block_bytes();
    d.first = bindings;
    bindings += d.layout->storage.size();
  }
  memory_.resize(bindings);
  keys_.assign(bindings, 0);
  sizes_.assign(bindings, 0);
}

VkBuffer BoundMemory::blocks() const {
  return static_cast<const VulkanBuffer*>(blocks_)->handle();
}

uint64_t BoundMemory::address_of(const Dispatch& d, size_t binding) const {
  const uint32_t number = d.layout->storage[binding];
  const uint32_t at = number == BlockLayout::kErrorBinding
                          ? BlockLayout::kErrorAddress
                          : BlockLayout::buffer_offset(number - BlockLayout::buffer_binding(0));
  uint64_t address = 0;
  std::memcpy(&address, static_cast<const std::byte*>(blocks_->mapped()) + d.block + at,
              sizeof(address));
  return address;
}

Status BoundMemory::read(bool& changed) {
  changed = false;
  if (dispatches_.empty() || (read_once_ && version_ && *version_ == seen_)) return {};
  for (Dispatch& d : dispatches_) {
    RP_TRY(read(d));
    changed = changed || d.changed;
  }
  read_once_ = true;
  if (version_) seen_ = *version_;
  return {};
}

Status BoundMemory::read(Dispatch& d) {
  const size_t n = d.layout->storage.size();
  d.changed = !read_once_;
  if (!blocks_ || !blocks_->mapped() || d.block > blocks_->size() ||
      d.block_bytes > blocks_->size() - d.block)
    return {Code::Usage, "a parameter block is outside of its buffer, or not in mapped memory"};
  const uint64_t largest = driver_->physical.properties.limits.maxStorageBufferRange;
  bool near = false;
  for (size_t i = 0; i < n; ++i) {
    // Another offset in memory that is bound from its beginning changes nothing.
    const uint64_t address = address_of(d, i), bound = keys_[d.first + i];
    if (!d.changed && address >> 32U == bound >> 32U && sizes_[d.first + i] <= largest) continue;
    uint64_t& size = sizes_[d.first + i];
    const auto place = driver_->addresses.find(address);
    size = place ? place->bytes : 0;
    d.changed = d.changed || size > largest || address >> 32U != bound >> 32U;
  }
  for (size_t i = 0; i < n; ++i) near = near || sizes_[d.first + i] > largest;
  if (!d.changed) return {};
  for (size_t i = 0; i < n; ++i) RP_TRY(bind(d, i, address_of(d, i), near));
  store_bytes(static_cast<std::byte*>(blocks_->mapped()) + d.block + BlockLayout::kWindow,
              near ? ~(kOffsetAlignment - 1) : 0U);
  return {};
}

Status BoundMemory::bind(const Dispatch& d, size_t binding, uint64_t address, bool near) {
  VkDescriptorBufferInfo& info = memory_[d.first + binding];
  if (address == 0) {  // of a dispatch without workgroups, which accesses nothing
    info = {blocks(), 0, VK_WHOLE_SIZE};
    keys_[d.first + binding] = 0;
    return {};
  }
  const auto place = driver_->addresses.find(address);
  if (!place) {
    return {Code::Usage, "a parameter block names memory that is not on " +
                             driver_->physical.info.id + " or was freed"};
  }
  // The error word is where its binding begins.
  const bool at_place = near || d.layout->storage[binding] == BlockLayout::kErrorBinding;
  const uint64_t begin = at_place ? place->offset / kOffsetAlignment * kOffsetAlignment : 0;
  const uint64_t most = driver_->physical.properties.limits.maxStorageBufferRange;
  info = {place->buffer, begin, std::min(place->bytes - begin, most / 4 * 4)};
  if (info.range == 0) info.offset = 0, info.range = std::min(place->bytes, most / 4 * 4);
  keys_[d.first + binding] = address - place->offset + begin;
  return {};
}

Result<DescriptorSets> DescriptorSets::create(const std::shared_ptr<Driver>& driver,
                                              const BoundMemory& bound) {
  DescriptorSets s(driver);
  const auto& dispatches = bound.dispatches();
  if (dispatches.empty()) return s;
  const auto count = static_cast<uint32_t>(dispatches.size());
  const VkDescriptorPoolSize sizes[] = {
      {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, count},
      {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
       std::max<uint32_t>(1, static_cast<uint32_t>(bound.memory().size()))}};
  VkDescriptorPoolCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
  if (driver->physical.update_after_bind)
    info.flags = VK_DESCRIPTOR_POOL_CREATE_UPDATE_AFTER_BIND_BIT;
  info.maxSets = count;
  info.poolSizeCount = 2;
  info.pPoolSizes = sizes;
  VkDescriptorPool pool = VK_NULL_HANDLE;
  RP_TRY(driver->check(driver->vk.vkCreateDescriptorPool(driver->device, &info, nullptr, &pool),
                       "vkCreateDescriptorPool"));
  s.pool_ = {driver, pool};
  std::vector<VkDescriptorSetLayout> layouts;
  layouts.reserve(count);
  for (const auto& d : dispatches) layouts.push_back(d.layout->set.get());
  VkDescriptorSetAllocateInfo allocate{};
  allocate.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
  allocate.descriptorPool = pool;
  allocate.descriptorSetCount = count;
  allocate.pSetLayouts = layouts.data();
  s.sets_.resize(count);
  RP_TRY(
      driver->check(driver->vk.vkAllocateDescriptorSets(driver->device, &allocate, s.sets_.data()),
                    "vkAllocateDescriptorSets"));
  s.blocks_.resize(count);
  s.writes_.reserve(count + bound.memory().size());
  return s;
}

void DescriptorSets::write(const BoundMemory& bound, bool only_changed) {
  writes_.clear();
  VkWriteDescriptorSet w{};
  w.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
  w.descriptorCount = 1;
  for (size_t i = 0; i < sets_.size(); ++i) {
    const BoundMemory::Dispatch& d = bound.dispatches()[i];
    if (only_changed && !d.changed) continue;
    w.dstSet = sets_[i];
    if (!only_changed) {
      blocks_[i] = {bound.blocks(), d.block, d.block_bytes};
      w.dstBinding = BlockLayout::kBlockBinding;
      w.descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER;
      w.pBufferInfo = &blocks_[i];
      writes_.push_back(w);
    }
    w.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    for (size_t b = 0; b < d.layout->storage.size(); ++b) {
      w.dstBinding = d.layout->storage[b];
      w.pBufferInfo = &bound.memory()[d.first + b];
      writes_.push_back(w);
    }
  }
  if (writes_.empty()) return;
  driver_->vk.vkUpdateDescriptorSets(driver_->device, static_cast<uint32_t>(writes_.size()),
                                     writes_.data(), 0, nullptr);
}

}  // namespace reprise::vulkan
