// Writes what a device needs for a run: parameter blocks and recordings, which later runs replay.
#pragma once

#include <memory>
#include <vector>

#include "runtime/device/parted_recording.h"
#include "runtime/run/io_memory.h"

namespace reprise {

class Recorder {
 public:
  /// The copies of a segment between the model's inputs or outputs and their staging memory.
  struct Staged {
    std::vector<uint32_t> in, out;  // indices of inputs and outputs
    std::vector<Command> copies;
  };
  struct Recorded {
    std::unique_ptr<Recording> recording;
    PartedRecording* parted = nullptr;  // `recording`, if runs are cut in slices
    Staged staged;
    uint64_t io_generation = 0;  // IoMemory::generation()
    bool copies_pixels = false;
    uint64_t pixels_of = 0;  // the binding whose images it copies
    uint64_t barriers = 0, dispatches = 0;
  };

  /// The arguments must outlive the object.
  Recorder(SharedPlan& shared, RunMemory& memory, const IoMemory& io)
      : shared_(shared), memory_(memory), io_(io), segments_(shared.segments.size()) {}

  /// Makes the recording of a segment ready to be submitted for this run.
  Status prepare(size_t segment, const CurrentRun& run);
  const Recorded& recorded(size_t segment) const { return segments_[segment].recorded; }
  /// Writes the first segment to a command buffer of the application.
  Status record_into(void* command_buffer, const CurrentRun& run);
  /// Decides after a run whether the next one has other parts. Returns the times of the segment's
  /// launches in this run. Only for recordings that are cut in slices.
  Result<std::vector<double>> measure_parts(size_t segment, CurrentRun& run);

 private:
  /// The commands of a segment for these staged inputs and outputs, kept for sessions that record
  /// again on each run.
  struct Order {
    std::vector<uint32_t> in, out;
    std::vector<plan::OrderNode> nodes;
  };
  /// How a segment is cut in slices.
  struct Parts {
    std::vector<double> launch_ns;  // measured, by which it is cut; empty: not measured
    uint64_t runs = 0;
    bool cut_again = false;  // before the next run
  };
  /// The state that a segment was prepared in.
  struct SegmentState {
    Parts parts;
    bool written = false;              // its parameter blocks are written ...
    std::vector<int64_t> written_for;  // ... for these symbols
    uint64_t views_of = 0;             // and the views for these bindings; 0: not written
    Recorded recorded;
    Order order;
  };
  /// What a command buffer of the application has.
  struct Foreign {
    RecordingDesc desc;
    std::vector<Command> copies;  // that its commands have
  };

  Status write_segment(size_t index, const std::vector<int64_t>& symbols);
  Status write_views(size_t index);
  Status record_segment(size_t index);
  Status record_parts(size_t index, RecordingDesc desc);
  Status set_pixels(size_t index, uint64_t binding);
  const RecordingDesc& foreign_recording();
  void find_staged(size_t index, Staged& staged) const;
  bool staged_by(size_t index, size_t i, bool input) const;
  Command staging_copy(uint32_t i, bool input) const;
  uint64_t staged_bytes(uint32_t i, bool input) const;
  void limit_copies(Recorded& r) const;
  bool is_current(const Recorded& r) const;
  const std::vector<plan::OrderNode>& order_of(size_t index, std::vector<uint32_t> in,
                                               std::vector<uint32_t> out);
  Command launch_command(uint32_t step) const;
  void append_commands(const std::vector<plan::OrderNode>& order, RecordingDesc& desc,
                       Recorded& counts) const;

  SharedPlan& shared_;
  RunMemory& memory_;
  const IoMemory& io_;
  Staged staged_;                        // of the current segment
  std::vector<PixelCopy> pixels_after_;  // of the current segment
  std::vector<SegmentState> segments_;
  std::shared_ptr<void> recorded_uses_;  // Device::record_into, for the last run that did it
  Foreign foreign_;                      // what that run recorded
};

}  // namespace reprise
