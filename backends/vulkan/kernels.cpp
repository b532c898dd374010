#include "backends/vulkan/kernels.h"

#include <algorithm>
#include <utility>

#include "backends/vulkan/module_form.h"
#include "backends/vulkan/recording.h"
#include "runtime/package/package.h"
#include "runtime/plan/block_layout.h"
#include "runtime/platform/parallel.h"

namespace reprise::vulkan {
namespace {

constexpr uint32_t kSpirvMagic = 0x07230203;
constexpr size_t kSpirvHeaderWords = 5;

}  // namespace

Kernels::Kernels(std::shared_ptr<Driver> driver, const BackendOptions& options)
    : driver_(std::move(driver)), cache_dir_(options.cache_dir), threads_(options.threads) {}

Status Kernels::prepare() {
  if (!driver_->uses_descriptors()) RP_TRY(make_pipeline_layout());
  return make_cache();
}

Status Kernels::make_pipeline_layout() {
  const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, 2 * sizeof(uint64_t)};
  VkPipelineLayoutCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  info.pushConstantRangeCount = 1;
  info.pPushConstantRanges = &range;
  return driver_->check(driver_->vk.vkCreatePipelineLayout(driver_->device, &info, nullptr,
                                                           &driver_->pipeline_layout),
                        "vkCreatePipelineLayout");
}

CacheKey Kernels::cache_key() const {
  const VkPhysicalDeviceProperties& p = driver_->physical.properties;
  CacheKey key;
  std::copy(std::begin(driver_->physical.info.uuid), std::end(driver_->physical.info.uuid),
            key.device_uuid.begin());
  std::copy(std::begin(p.pipelineCacheUUID), std::end(p.pipelineCacheUUID),
            key.pipeline_cache_uuid.begin());
  key.vendor = p.vendorID;
  key.device = p.deviceID;
  key.driver_version = p.driverVersion;
  return key;
}

Status Kernels::make_cache() {
  std::vector<std::byte> data;
  if (!cache_dir_.empty()) data = load_cache(cache_dir_, cache_key(), driver_->log);
  if (!data.empty()) saved_hash_ = package::hash_bytes(data);
  VkPipelineCacheCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  info.initialDataSize = data.size();
  info.pInitialData = data.data();
  VkPipelineCache cache = VK_NULL_HANDLE;
  RP_TRY(driver_->check(driver_->vk.vkCreatePipelineCache(driver_->device, &info, nullptr, &cache),
                        "vkCreatePipelineCache"));
  cache_ = {driver_, cache};
  return {};
}

void Kernels::save_cache_of_driver() {
  if (cache_dir_.empty()) return;
  // The application may create another session in the call that takes the message.
  std::vector<std::pair<Severity, std::string>> messages;
  write_cache([&](Severity severity, const std::string& message) {
    messages.emplace_back(severity, message);
  });
  for (const auto& [severity, message] : messages)
    if (driver_->log) driver_->log(severity, message);
}

void Kernels::write_cache(const Log& log) {
  const std::lock_guard lock(cache_mutex_);
  size_t n = 0;
  const auto get = driver_->vk.vkGetPipelineCacheData;
  if (get(driver_->device, cache_.get(), &n, nullptr) != VK_SUCCESS || n == 0) return;
  std::vector<std::byte> data(n);
  if (get(driver_->device, cache_.get(), &n, data.data()) != VK_SUCCESS) return;
  data.resize(n);
  const uint64_t hash = package::hash_bytes(data);
  if (hash == saved_hash_) return;
  save_cache(cache_dir_, cache_key(), data, log);
  saved_hash_ = hash;
}

Status Kernels::check_code(const plan::KernelCode& code) const {
  const DeviceFacts& f = driver_->physical.info.facts;
  const std::string subject = "kernel '" + code.name + "'";
  if (code.spirv.size() < kSpirvHeaderWords || code.spirv[0] != kSpirvMagic)
    return invalid_model(subject + " holds no SPIR-V module");
  const uint64_t invocations = uint64_t{code.workgroup[0]} * code.workgroup[1] * code.workgroup[2];
  if (invocations > f.max_workgroup_invocations) {
    return unsupported(subject + " needs workgroups of " + std::to_string(invocations) +
                       " invocations, " + driver_->physical.info.id + " allows " +
                       std::to_string(f.max_workgroup_invocations));
  }
  if (code.shared_bytes > f.max_shared_bytes) {
    return unsupported(subject + " needs " + std::to_string(code.shared_bytes) +
                       " bytes of shared memory, " + driver_->physical.info.id + " has " +
                       std::to_string(f.max_shared_bytes));
  }
  if (code.subgroup_size != 0 && !f.has_subgroups_of(code.subgroup_size)) {
    return unsupported(subject + " needs subgroups of " + std::to_string(code.subgroup_size) +
                       ", " + driver_->physical.info.id + " has " +
                       std::to_string(f.subgroup_size));
  }
  return {};
}

/// The layout of a kernel for this device; null if it uses addresses.
Result<std::shared_ptr<const BindingLayout>> Kernels::layout_of(const plan::KernelCode& code) {
  using plan::BlockLayout;
  const std::string subject = "kernel '" + code.name + "'";
  const ModuleForm form = form_of(code.spirv);
  if (!driver_->uses_descriptors()) {
    if (form.addresses) return std::shared_ptr<const BindingLayout>();
    return unsupported(subject + " is for devices without buffer addresses, which " +
                       driver_->physical.info.id + " has; compile for the target vulkan");
  }
  if (form.addresses) {
    return unsupported(subject + " uses buffer addresses, which " + driver_->physical.info.id +
                       " does not have; compile for the target vulkan-descriptors");
  }
  const VkPhysicalDeviceLimits& limits = driver_->physical.properties.limits;
  if (form.storage.size() > driver_->physical.info.facts.max_storage_buffers) {
    return unsupported(subject + " needs " + std::to_string(form.storage.size()) +
                       " storage buffers, " + driver_->physical.info.id + " allows " +
                       std::to_string(driver_->physical.info.facts.max_storage_buffers));
  }
  const uint32_t block = BlockLayout::size(code.n_buffers, code.n_scalars);
  if (block > limits.maxUniformBufferRange) {
    return unsupported(subject + " has parameters of " + std::to_string(block) + " bytes, " +
                       driver_->physical.info.id + " allows " +
                       std::to_string(limits.maxUniformBufferRange));
  }
  const bool known =
      form.storage.empty() || (form.storage.front() >= BlockLayout::kErrorBinding &&
                               form.storage.back() < BlockLayout::buffer_binding(code.n_buffers));
  if (!known) return invalid_model(subject + " binds memory that it has no parameter for");
  return layouts_.of(driver_, form.storage);
}

Result<std::unique_ptr<VulkanKernel>> Kernels::create_one(const plan::KernelCode& code) {
  RP_TRY(check_code(code));
  RP_ASSIGN(auto layout, layout_of(code));
  RP_ASSIGN(OwnedPipeline pipeline,
            create_pipeline(code, layout ? layout->pipeline.get() : driver_->pipeline_layout));
  return std::make_unique<VulkanKernel>(std::move(pipeline), std::move(layout),
                                        plan::BlockLayout::size(code.n_buffers, code.n_scalars));
}

Result<OwnedPipeline> Kernels::create_pipeline(const plan::KernelCode& code,
                                               VkPipelineLayout layout) {
  Driver& d = *driver_;
  VkShaderModuleCreateInfo module_info{};
  module_info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  const std::vector<uint32_t> words = with_supported_modes(code.spirv, d.physical.float_modes);
  module_info.codeSize = words.size() * sizeof(uint32_t);
  module_info.pCode = words.data();
  VkShaderModule module_handle = VK_NULL_HANDLE;
  RP_TRY(d.check(d.vk.vkCreateShaderModule(d.device, &module_info, nullptr, &module_handle),
                 "vkCreateShaderModule")
             .with_context("kernel '" + code.name + "'"));
  const OwnedShader shader(driver_, module_handle);

  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup{};
  subgroup.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO;
  subgroup.requiredSubgroupSize = code.subgroup_size;
  VkComputePipelineCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  if (code.subgroup_size != 0 && d.physical.info.facts.largest_subgroup_size != 0)
    info.stage.pNext = &subgroup;
  if (info.stage.pNext != nullptr && d.physical.full_subgroups &&
      code.workgroup[0] % code.subgroup_size == 0)
    info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module_handle;
  info.stage.pName = "main";
  info.layout = layout;
  if (code.in_pieces) info.flags = VK_PIPELINE_CREATE_DISPATCH_BASE;
  VkPipeline pipeline = VK_NULL_HANDLE;
  RP_TRY(
      d.check(d.vk.vkCreateComputePipelines(d.device, cache_.get(), 1, &info, nullptr, &pipeline),
              "vkCreateComputePipelines")
          .with_context("kernel '" + code.name + "'"));
  ++d.counters.kernels;
  return OwnedPipeline(driver_, pipeline);
}

Result<std::vector<std::unique_ptr<DeviceKernel>>> Kernels::create(
    std::span<const plan::KernelCode> code) {
  RP_TRY(driver_->alive());
  std::vector<std::unique_ptr<DeviceKernel>> kernels(code.size());
  std::vector<Status> failures(code.size());
  RP_TRY(in_parallel(code.size(), threads_, "kernels were built", [&](size_t i) {
    auto kernel = create_one(code[i]);
    if (kernel.ok()) {
      kernels[i] = std::move(*kernel);
    } else {
      failures[i] = kernel.status();
    }
  }));
  for (const Status& s : failures) RP_TRY(s);
  if (!code.empty()) save_cache_of_driver();
  return kernels;
}

}  // namespace reprise::vulkan
