// A recording in parts, so that no submission keeps the device for long.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/base/timing.h"
#include "runtime/device/backend.h"
#include "runtime/device/slices.h"

namespace reprise {

/// Executes recordings one after the other. Each is submitted by the call of poll() or wait() that
/// finds the one before it ended, so other users of the device have their turn in between. No part
/// follows one that failed or exceeded the time limit, which each part has for itself. The run
/// cannot signal: work that waits for a signal in the same queue would hold up later parts.
class PartedRecording final : public Recording {
 public:
  /// The commands of `slices` in parts, with everything else from `desc`.
  static Result<std::unique_ptr<PartedRecording>> create(Device& device, const RecordingDesc& desc,
                                                         Slices slices);
  /// If the flag, which may be null, is set, no further part is submitted, and the run fails with
  /// Code::Cancelled.
  void set_cancelled(const CancelFlag* flag) { cancelled_ = flag; }
  /// What the parts had that were submitted since the last call of submit().
  struct Counts {
    uint64_t dispatches = 0, barriers = 0;
  };
  Counts submitted() const;
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
  /// The times of the launches, each of all its pieces.
  Result<std::vector<double>> dispatch_ns() override;
  /// The times of the dispatches, by part.
  Result<std::vector<std::vector<double>>> part_ns();
  const Slices& slices() const { return slices_; }
  uint64_t times_recorded() const override;

 private:
  PartedRecording() = default;
  Result<bool> advance();

  Slices slices_;
  std::vector<std::unique_ptr<Recording>> parts_;
  std::vector<size_t> copies_;  // per part
  std::vector<Counts> counts_;  // likewise
  const CancelFlag* cancelled_ = nullptr;
  size_t current_ = 0, submitted_ = 0;
  uint64_t more_submissions_ = 0, ran_ns_ = 0, timeout_ns_ = 0;
  bool going_ = false;  // the current part was submitted, and what follows it will be
};

}  // namespace reprise
