// Gives any Vulkan device queues for transfers: a second family, which only transfers, or more
// queues of the family that runs kernels. They do not exist:
// what is submitted to them is executed by the device's own queue, but in any order that the
// semaphores allow, and only when the host waits. So a missing semaphore gives wrong results. A
// clock that is simulated tells what would run when on a device that has these queues.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/vulkan/driver.h"
#include "backends/vulkan/instance.h"

namespace reprise::test {

class SecondFamily {
 public:
  enum Queue : uint8_t { Kernels, First, Second };
  /// A submission, with the times at which it began and ended.
  struct Event {
    Queue queue;
    double begin, end;
  };
  /// `queues`: how many the second family has. `seed`: of the order of execution. `one_family`: the
  /// queues are further ones of the first family.
  static void reset(uint32_t queues, uint64_t seed = 1, bool one_family = false);
  /// Hooks for opening a device.
  static void hook_instance(vulkan::InstanceTable& table);
  static void hook_device(VolkDeviceTable& table);
  /// How long a launch takes. The copy of a byte takes 1.
  static void set_launch_time(double time);
  /// While it is set, the queue of kernels executes nothing.
  static void hold_kernels(bool on);
  /// From now on submissions do not wait for semaphores, which is a fault.
  static void ignore_semaphores(bool on);
  /// What was executed since the last call, in the order of submission in each queue.
  static std::vector<Event> events(Queue queue);
  static void forget_events();
};

}  // namespace reprise::test
