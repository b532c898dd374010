// A recording in parts, so that no submission keeps the device for long.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/backend.h"
#include "runtime/base/timing.h"

namespace reprise {

/// Executes recordings one after the other. Each is submitted by the call of poll() or wait() that
/// finds the one before it ended, so other users of the device have their turn in between. No part
/// follows one that failed or exceeded the time limit, which each part has for itself. The run
/// cannot signal: work that waits for a signal in the same queue would hold up later parts.
class PartedRecording final : public Recording {
 public:
  /// The commands of `desc` in parts; a part begins at each of the `cuts`, which are indices of
  /// commands in ascending order.
  static Result<std::unique_ptr<PartedRecording>> create(Device& device, const RecordingDesc& desc,
                                                         std::span<const size_t> cuts);
  /// If the flag, which may be null, is set, no further part is submitted, and the run fails with
  /// Code::Cancelled.
  void set_cancelled(const CancelFlag* flag) { cancelled_ = flag; }
  /// How many submissions followed those of the last call of submit().
  uint64_t more_submissions() const { return more_submissions_; }

  using Recording::submit;
  Status submit(const SubmitSync& sync, uint64_t timeout_ns) override;
  Status wait(uint64_t timeout_ns) override;
  Result<bool> poll(uint64_t timeout_ns) override;
  uint64_t ran_ns() const override { return ran_ns_; }
  uint64_t submissions() const override { return parts_[0]->submissions(); }
  /// No other thread can wait for the end, because this one submits the parts.
  bool watch(uint64_t) override { return true; }
  Result<bool> ended() override { return parts_[current_]->ended(); }
  void limit_copy(size_t copy, uint64_t bytes) override;
  Status set_pixels(std::span<const PixelCopy> before, std::span<const PixelCopy> after) override;
  Result<std::vector<double>> dispatch_ns() override;
  /// The same, by part.
  Result<std::vector<std::vector<double>>> part_ns();
  uint64_t times_recorded() const override;

 private:
  PartedRecording() = default;
  Result<bool> advance();

  std::vector<std::unique_ptr<Recording>> parts_;
  std::vector<size_t> copies_;  // per part
  const CancelFlag* cancelled_ = nullptr;
  size_t current_ = 0;
  uint64_t more_submissions_ = 0, ran_ns_ = 0, timeout_ns_ = 0;
  bool going_ = false;  // the current part was submitted, and what follows it will be
};

/// The cuts that make submissions of about `most_ns`. `ns` are the times of the dispatches, or
/// empty: then each of them is a part. A dispatch that takes longer is a part of its own.
std::vector<size_t> cuts_for(std::span<const Command> commands, std::span<const double> ns,
                             uint64_t most_ns);

}  // namespace reprise
