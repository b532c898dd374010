// Runs that did not end in the time they were given. The device may still use their memory, so that
// it cannot be freed; but a run that hangs never ends, and nobody may wait for it for ever.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>

#include "runtime/backend.h"

namespace reprise {

class OverdueRun;

/// Of one device. Thread-safe.
class Overdue {
 public:
  /// Set before the device is used.
  uint64_t patience_ns = BackendOptions().patience_ns;

  /// Whether a run has timed out and not ended since: asks for each that has.
  bool any();
  /// Whether one was given up: nothing of the device may be freed any more.
  bool given_up() const { return given_up_; }
  void give_up() { given_up_ = true; }
  /// How long the end of a run is waited for when its objects go.
  uint64_t grace_ns(uint64_t timeout_ns) const { return std::max(patience_ns, timeout_ns); }
  /// The longest of all that are overdue.
  uint64_t grace_ns();
  /// An error if one is overdue and does not end while patience lasts: `what` would come after it.
  Status wait_before(const std::string& what, const DeviceInfo& device);

 private:
  friend class OverdueRun;
  std::mutex mutex_;
  OverdueRun* first_ = nullptr;
  std::atomic<bool> some_ = false;
  std::atomic<bool> given_up_ = false;
};

/// One of them, from set() until it has ended or its objects go.
class OverdueRun {
 public:
  OverdueRun() = default;
  OverdueRun(const OverdueRun&) = delete;
  OverdueRun& operator=(const OverdueRun&) = delete;
  ~OverdueRun() { clear(); }
  /// `ended` asks the driver; it is called under a lock until it says so.
  void set(Overdue& all, uint64_t timeout_ns, std::function<bool()> ended);

 private:
  friend class Overdue;
  void clear();
  Overdue* all_ = nullptr;
  bool listed_ = false;  // this and what follows is guarded by the lock of all
  OverdueRun* next_ = nullptr;
  uint64_t timeout_ns_ = 0;
  std::function<bool()> ended_;
};

/// What to do about a device on which a run was given up.
inline constexpr const char* kGivenUpRemedy =
    "what the device may still use is not freed; start the process again";

/// "0.02 s"
std::string seconds_text(uint64_t ns);
/// That a run timed out.
Status timeout_error(const DeviceInfo& device, uint64_t timeout_ns);
/// Why a device cannot be used on which a run was given up.
std::string given_up_text(uint64_t waited_ns);

}  // namespace reprise
