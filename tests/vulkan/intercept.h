// A device's function table with every call counted, and one of them made to fail on request.
// Counting happens where the driver is called, so tests compare plans with what really happened.
#pragma once

#include <atomic>
#include <cstdint>

#include "backends/vulkan/driver.h"

namespace reprise::test {

/// Shared by all intercepted functions; one hooked device at a time.
struct Calls {
  std::atomic<uint64_t> all = 0, submits = 0, dispatches = 0, barriers = 0, copies = 0;
  std::atomic<uint64_t> created = 0, destroyed = 0;  // objects and memory
  std::atomic<int64_t> fail_after = -1;              // this many fallible calls succeed; -1: all do
  std::atomic<int> error = VK_ERROR_OUT_OF_HOST_MEMORY;
  std::atomic<bool> failed = false;

  void reset();
  /// Whether the present call is the one to fail.
  bool fails();
};
Calls& calls();

/// Replaces what the backend uses in the table.
void intercept(VolkDeviceTable& table);

/// Gives a driver device memory that the host cannot see, as discrete GPUs have it and software
/// drivers have not: sessions then stage their tensors.
void hide_device_memory(vulkan::Driver& driver);

/// What an application lends that owns a driver's device.
BorrowedVulkan lend(const vulkan::Driver& owner);

/// A pipeline cache that holds data, as GPUs' drivers do and software drivers do not: its bytes are
/// those it was created with, plus one for each pipeline.
void mock_pipeline_cache(VolkDeviceTable& table, const VkPhysicalDeviceProperties& properties);
/// Bytes that the last device's cache was created with.
uint64_t initial_cache_bytes();

}  // namespace reprise::test
