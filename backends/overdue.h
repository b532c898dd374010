// Runs that did not end in the time they were given. The device may still use their memory, so that
// it cannot be freed; but a run that hangs never ends, and nobody may wait for it for ever.
#pragma once

#include <algorithm>
#include <atomic>

#include "runtime/backend.h"

namespace reprise {

/// Of one device.
class Overdue {
 public:
  /// Set before the device is used.
  uint64_t patience_ns = BackendOptions().patience_ns;

  /// Whether a run has timed out and not ended since.
  bool any() const { return runs_ != 0; }
  /// Whether one was given up: nothing of the device may be freed any more.
  bool given_up() const { return given_up_; }
  void give_up() { given_up_ = true; }
  /// How long its end is waited for when a run's objects go.
  uint64_t grace_ns(uint64_t timeout_ns) const { return std::max(patience_ns, timeout_ns); }

 private:
  friend class OverdueMark;
  std::atomic<uint64_t> runs_ = 0;
  std::atomic<bool> given_up_ = false;
};

/// Whether one recording's run is among them.
class OverdueMark {
 public:
  void set(Overdue& all) {
    if (!set_) ++all.runs_;
    set_ = true;
  }
  /// True if no run is overdue any more, and one was.
  bool clear(Overdue& all) {
    const bool last = set_ && --all.runs_ == 0;
    set_ = false;
    return last;
  }

 private:
  bool set_ = false;
};

/// "0.02 s"
std::string seconds_text(uint64_t ns);
/// That a run timed out.
Status timeout_error(const DeviceInfo& device, uint64_t timeout_ns);
/// Why a device cannot be used on which a run was given up.
std::string given_up_text(uint64_t waited_ns);

}  // namespace reprise
