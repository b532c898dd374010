// The device memory of a session's states, which outlives runs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/backend.h"
#include "runtime/package/package.h"

namespace reprise {

/// A state whose next value is a tensor of its own has two places, which change roles after each
/// run. Any other has one, and launches may update it in place. Nothing here is thread-safe: the
/// session lets one run, or one transfer, use its states at a time.
class StateMemory {
 public:
  struct Place {
    DeviceBuffer* buffer = nullptr;
    uint64_t offset = 0;
  };

  StateMemory() = default;
  /// Allocates and writes the initial values. With `isolate`, each place is an allocation of its
  /// own. All plans of the variant can use the states.
  static Result<StateMemory> create(const package::Package& package,
                                    const package::Variant& variant, Device& device, bool isolate);

  bool empty() const { return states_.empty(); }
  uint64_t bytes() const { return bytes_; }
  const Place& current(size_t s) const { return states_[s].places[states_[s].at]; }
  const Place& next(size_t s) const { return states_[s].places[1 - states_[s].at]; }

  /// Reads the values of states; an error if a run has damaged them.
  Result<std::vector<HostTensor>> read(std::span<const size_t> which) const;
  /// `values` are parallel to `which`, with the dtypes and dims of the states.
  Status write(std::span<const size_t> which, std::span<const HostTensor> values);

  /// Code::Usage if a state has no defined value.
  Status check() const;
  /// A run has ended whose plan gives the state a next value of its own, which becomes the current
  /// one.
  void advance(size_t s) { states_[s].at = static_cast<uint8_t>(1 - states_[s].at); }
  /// A run has failed while the device updated states: what it updates in place has no defined
  /// value.
  void fail();

 private:
  struct State {
    Place places[2];
    uint8_t at = 0;
    bool has_next = false;  // in a plan, its next value has a place of its own
    bool in_place = false;  // a launch of a plan updates it
    bool damaged = false;
  };
  void add_uses(const plan::Plan& plan);
  Status allocate(const plan::Interface& io, bool isolate);

  const plan::Interface* io_ = nullptr;
  Device* device_ = nullptr;
  std::vector<std::unique_ptr<DeviceBuffer>> pools_;
  std::vector<State> states_;
  uint64_t bytes_ = 0;
};

/// The initial value of a state, whose checksum has been verified.
Result<HostTensor> initial_state(const package::Package& package, const plan::StateSlot& slot);
/// The error for states that a failed run has damaged.
Status damaged_states(const std::string& name);

}  // namespace reprise
