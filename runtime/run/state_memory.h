// The device memory of a session's states, which outlives runs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/backend.h"
#include "runtime/package/package.h"
#include "runtime/run/row_memory.h"

namespace reprise {

/// A state whose next value is a tensor of its own has two places, which change roles after each
/// run. Any other has one, and launches may update it in place. A state that grows has a RowMemory,
/// behind whose valid rows launches append. Nothing here is thread-safe: the
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

  /// States with the same values, and of those that grow only the first `length` rows, or all if it
  /// is -1. Forks have rows in common until one of them appends.
  Result<StateMemory> fork(int64_t length) const;
  /// Whether a session can use these states instead of `own`, its own ones, which are alike: it may
  /// run another package than that for which they were made.
  Status accept_uses_of(const StateMemory& own);

  bool empty() const { return states_.empty(); }
  uint64_t bytes() const;
  /// Of bytes(), those that forks use, too.
  uint64_t shared_bytes() const;
  /// The rows of the longest state.
  int64_t length() const;
  const Place& current(size_t s) const { return states_[s].places[states_[s].at]; }
  const Place& next(size_t s) const { return states_[s].places[1 - states_[s].at]; }
  /// Whether a state grows: current() is where its rows begin, next() where the run appends.
  bool grows() const { return !lengths_.empty(); }
  /// Of the states, 0 for those that do not grow; empty if none does.
  std::span<const int64_t> lengths();
  /// Changes the rows of states. Code::Usage if one does not grow. If it fails, only some may have
  /// more memory than before.
  Result<std::vector<StateRows>> change(std::span<const size_t> which, RowChange change,
                                        int64_t rows);
  /// Before a run with these symbols of a package: makes memory for the rows that it appends.
  Status begin(const plan::Interface& io, std::span<const int64_t> symbols);

  /// Reads the values of states; an error if a run has damaged them.
  Result<std::vector<HostTensor>> read(std::span<const size_t> which) const;
  /// `values` are parallel to `which`, with the dtypes and dims of the states. If limits or memory
  /// forbid one of them, nothing changes.
  Status write(std::span<const size_t> which, std::span<const HostTensor> values);

  /// Code::Usage if a state has no defined value.
  Status check() const;
  /// A run has ended whose plan gives the state a next value of its own, which becomes the current
  /// one, or rows behind those that it had.
  void advance(size_t s);
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
    std::unique_ptr<RowMemory> rows;  // if it grows
  };
  void add_uses(const plan::Plan& plan);
  void place_rows();
  Status allocate(const plan::Interface& io, bool isolate);

  const plan::Interface* io_ = nullptr;
  Device* device_ = nullptr;
  std::vector<std::unique_ptr<DeviceBuffer>> pools_;
  std::vector<State> states_;
  std::vector<int64_t> lengths_;
  std::vector<int64_t> dims_;  // of the state that begin() looks at
  uint64_t bytes_ = 0;
};

/// Whether states, of which the longest has `of` rows, can be forked at this length.
Status check_fork(const plan::Interface& io, int64_t length, int64_t of);
/// Whether a session can use states that were made for another package.
Status check_same_states(const plan::Interface& states, const plan::Interface& session);
/// The error for functions of states that grow.
Status does_not_grow(const std::string& name);
/// The initial value of a state, whose checksum has been verified. One that grows has no rows.
Result<HostTensor> initial_state(const package::Package& package, const plan::StateSlot& slot);
/// The error for states that a failed run has damaged.
Status damaged_states(const std::string& name);

}  // namespace reprise
