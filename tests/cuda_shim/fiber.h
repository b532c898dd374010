// Stacks that a thread switches between, without a system call where the processor is known.
// Sanitizers are told of every switch.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace reprise::test {

/// One stack with what runs on it.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next enter() calls `entry(argument)` on the stack, whatever was there before. `entry`
  /// must not return: it ends with finish().
  void start(void (*entry)(void*), void* argument);
  /// From the thread's own stack: runs the fiber until it calls leave() or finish().
  void enter();
  /// From the fiber: goes back to where enter() was called; returns at the next enter().
  void leave();
  /// From the fiber: goes back for the last time.
  [[noreturn]] void finish();
  /// Called by `entry` before anything else.
  void started();
  std::span<const std::byte> stack() const;

 private:
  struct Machine;
  std::unique_ptr<Machine> m_;
};

}  // namespace reprise::test
