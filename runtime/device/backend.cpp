#include "runtime/device/backend.h"

namespace reprise {

Result<std::unique_ptr<DeviceBuffer>> Device::allocate_in_budget(uint64_t bytes, MemoryUse use) {
  if (!budget_->take(bytes)) {
    return Status(Code::OutOfMemory,
                  std::to_string(bytes) + " bytes exceed the memory budget of " + info().id + ": " +
                      std::to_string(budget_->used()) + " of " + std::to_string(budget_->most()) +
                      " bytes are in use; free a session or a buffer, or raise the budget");
  }
  MemoryShare share(budget_, bytes);
  RP_ASSIGN(std::unique_ptr<DeviceBuffer> made, allocate(bytes, use));
  made->share_ = std::move(share);
  return made;
}

Result<std::unique_ptr<DeviceBuffer>> Device::allocate_or_free_idle(uint64_t bytes, MemoryUse use) {
  const uint64_t freed_before = idle_.times_freed();
  auto made = allocate_in_budget(bytes, use);
  if (made.ok() || made.status().code() != Code::OutOfMemory) return made;
  idle_.free_all();
  if (idle_.times_freed() == freed_before) return made;
  auto again = allocate_in_budget(bytes, use);
  return again.ok() ? std::move(again) : std::move(made);
}

Status write_views(const Device& device, const plan::KernelCode& kernel,
                   std::span<std::byte> block) {
  for (size_t i = 0; i < kernel.views.size(); ++i) {
    const plan::BoundView view = plan::bind_view(kernel.views[i], kernel.n_buffers, block);
    if (view.is_empty()) continue;
    const auto to =
        block.subspan(plan::BlockLayout::view_offset(kernel.n_buffers, kernel.n_scalars, i));
    RP_TRY(device.write_view(view, to.first<plan::BlockLayout::kViewBytes>()));
  }
  return {};
}

}  // namespace reprise
