#include "runtime/run/recorder.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace reprise {
namespace {

Command of_kind(Command::Kind kind) {
  Command c;
  c.kind = kind;
  return c;
}

bool same_copies(const std::vector<Command>& a, const std::vector<Command>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Command& x, const Command& y) {
    return x.src == y.src && x.dst == y.dst && x.bytes == y.bytes;
  });
}

}  // namespace

Status Recorder::prepare(size_t segment, const CurrentRun& run) {
  RP_TRY(write_segment(segment, run.symbols));
  RP_TRY(record_segment(segment));
  return set_pixels(segment, run.io.binding);
}

Status Recorder::record_into(void* command_buffer, const CurrentRun& run) {
  RP_TRY(write_segment(0, run.symbols));
  RP_ASSIGN(recorded_uses_,
            shared_.session.device->record_into(command_buffer, foreign_recording()));
  ++shared_.session.totals.recordings;
  return {};
}

Status Recorder::write_segment(size_t index, const std::vector<int64_t>& symbols) {
  SegmentState& state = segments_[index];
  if (state.written && state.written_for == symbols) return write_views(index);
  state.written = false;
  state.views_of = 0;
  for (const auto& level : shared_.segments[index].levels) {
    for (const uint32_t step : level)
      RP_TRY(plan::write_sizes(*shared_.plan, step, shared_.table, symbols, shared_.session.limits,
                               memory_.blocks()));
  }
  state.written_for = symbols;
  state.written = true;
  return write_views(index);
}

/// Writes the views of the segment's kernels, unless they are written for these sizes and bindings.
Status Recorder::write_views(size_t index) {
  SegmentState& state = segments_[index];
  const uint64_t bindings = *memory_.bindings_version() + 1;
  if (state.views_of == bindings) return {};
  for (const auto& level : shared_.segments[index].levels) {
    for (const uint32_t step : level) {
      const auto& launch = std::get<plan::Launch>(shared_.plan->steps[step].what);
      const plan::KernelCode& kernel = shared_.plan->kernels[launch.kernel];
      if (kernel.views.empty()) continue;
      const auto block = memory_.blocks().subspan(shared_.table.block[step]);
      RP_TRY(reprise::write_views(*shared_.session.device, kernel, block)
                 .with_context(plan::describe_launch(*shared_.plan, launch)));
    }
  }
  state.views_of = bindings;
  return {};
}

Command Recorder::launch_command(uint32_t step) const {
  const auto& launch = std::get<plan::Launch>(shared_.plan->steps[step].what);
  Command c;
  c.kernel = shared_.kernels[launch.kernel].get();
  c.block_offset = shared_.table.block[step];
  if (shared_.table.indirect[step] != plan::kNone) {
    c.kind = Command::Kind::DispatchIndirect;
    c.indirect_offset = shared_.table.indirect[step];
  } else {
    c.grid = shared_.fixed_grids[step];
  }
  return c;
}

// Whether this segment's recording copies the input or output.
bool Recorder::staged_by(size_t index, size_t i, bool input) const {
  if (input) return io_.inputs()[i].staged && shared_.first_recorded == index;
  return io_.outputs()[i].staged &&
         static_cast<size_t>(shared_.use(shared_.of_output[i].buffer).last_segment) == index;
}

void Recorder::find_staged(size_t index, Staged& staged) const {
  staged.in.clear();
  staged.out.clear();
  staged.copies.clear();
  for (uint32_t i = 0; i < io_.inputs().size(); ++i)
    if (staged_by(index, i, true)) staged.in.push_back(i);
  for (uint32_t i = 0; i < io_.outputs().size(); ++i)
    if (staged_by(index, i, false)) staged.out.push_back(i);
  for (const uint32_t i : staged.in) staged.copies.push_back(staging_copy(i, true));
  for (const uint32_t i : staged.out) staged.copies.push_back(staging_copy(i, false));
}

Command Recorder::staging_copy(uint32_t i, bool input) const {
  const IoMemory::HostBound& s = input ? io_.inputs()[i] : io_.outputs()[i];
  Command c;
  c.kind = Command::Kind::Copy;
  c.src = input ? s.staging.get() : s.device.get();
  c.dst = input ? s.device.get() : s.staging.get();
  c.bytes = shared_.session.options.replay ? s.device->size() : staged_bytes(i, input);
  return c;
}

// The bytes that the input or output has in this run.
uint64_t Recorder::staged_bytes(uint32_t i, bool input) const {
  if (!input) return memory_.bytes(shared_.of_output[i].buffer);
  uint64_t bytes = 0;
  for (const plan::BufferId id : shared_.of_input[i]) bytes = std::max(bytes, memory_.bytes(id));
  return bytes;
}

// Which tensors may share memory follows from the plan, so an order is valid for the lifetime of
// the session.
const std::vector<plan::OrderNode>& Recorder::order_of(size_t index, std::vector<uint32_t> in,
                                                       std::vector<uint32_t> out) {
  using Kind = plan::ArenaReuse::Kind;
  Order& order = segments_[index].order;
  if (!order.nodes.empty() && order.in == in && order.out == out) return order.nodes;
  const plan::Segment& segment = shared_.segments[index];
  plan::ArenaReuse reuse{Kind::AnyPlacement, &memory_.placement(), &memory_.sizes()};
  if (shared_.fixed_placement) reuse.kind = Kind::Placed;
  if (shared_.session.options.isolate_tensors) reuse.kind = Kind::None;
  order.nodes = shared_.session.device->takes_edges()
                    ? plan::segment_order(*shared_.plan, segment, in, out, reuse)
                    : plan::segment_nodes(segment, in, out);
  order.in = std::move(in);
  order.out = std::move(out);
  return order.nodes;
}

// Appends commands with edges or, for devices that do not take edges, with barriers between levels.
void Recorder::append_commands(const std::vector<plan::OrderNode>& order, RecordingDesc& desc,
                               Recorded& counts) const {
  using Kind = plan::OrderNode::Kind;
  std::vector<uint32_t> position;  // of each node's command
  const bool barriers = !shared_.session.device->takes_edges();
  std::optional<uint32_t> level;
  bool copies_out = false;
  for (const plan::OrderNode& node : order) {
    const bool launch = node.kind == Kind::Launch, out = node.kind == Kind::CopyOut;
    const bool next_level = launch && level != shared_.plan->steps[node.index].level;
    if (barriers && (next_level || (out && !copies_out)) && !desc.commands.empty()) {
      desc.commands.push_back(of_kind(Command::Kind::Barrier));
      ++counts.barriers;
    }
    if (launch) level = shared_.plan->steps[node.index].level;
    copies_out = copies_out || out;
    counts.dispatches += launch ? 1 : 0;
    Command c = launch                    ? launch_command(node.index)
                : node.kind == Kind::Join ? of_kind(Command::Kind::Join)
                                          : staging_copy(node.index, !out);
    for (const uint32_t a : node.after) c.after.push_back(position[a]);
    c.early = node.early;
    position.push_back(static_cast<uint32_t>(desc.commands.size()));
    desc.commands.push_back(std::move(c));
  }
  if (!barriers) return;
  desc.commands.push_back(of_kind(Command::Kind::HostBarrier));
  ++counts.barriers;
}

/// Whether the recording can be replayed with the copies that `staged_` has.
bool Recorder::is_current(const Recorded& r) const {
  if (!r.recording || !shared_.session.options.replay) return false;
  const bool moved = r.io_generation != io_.generation() && !r.staged.copies.empty();
  return !moved && same_copies(staged_.copies, r.staged.copies);
}

Status Recorder::record_segment(size_t index) {
  Recorded& r = segments_[index].recorded;
  find_staged(index, staged_);
  if (is_current(r) && !segments_[index].parts.cut_again) {
    limit_copies(r);
    return {};
  }
  RecordingDesc desc;
  desc.blocks = memory_.blocks_buffer();
  desc.bindings_version = memory_.bindings_version();
  desc.timestamps = shared_.session.options.timestamps;
  desc.once = !shared_.session.options.replay;
  r = {};
  // A body reads what an earlier submission wrote, which may still be running.
  if (shared_.only_recorded && !shared_.session.device->takes_edges()) {
    desc.commands.push_back(of_kind(Command::Kind::Barrier));
    ++r.barriers;
  }
  append_commands(order_of(index, staged_.in, staged_.out), desc, r);
  if (shared_.session.options.replay) segments_[index].order = {};
  r.staged = staged_;
  r.io_generation = io_.generation();
  if (shared_.session.options.slice_ns != 0) {
    RP_TRY(record_parts(index, std::move(desc)));
  } else {
    RP_ASSIGN(r.recording, shared_.session.device->record(std::move(desc)));
  }
  ++shared_.session.totals.recordings;
  limit_copies(r);
  return {};
}

/// What the run writes to a command buffer of the application. The commands are those of the last
/// such run, unless other inputs and outputs are staged now.
const RecordingDesc& Recorder::foreign_recording() {
  find_staged(0, staged_);
  RecordingDesc& desc = foreign_.desc;
  if (desc.commands.empty() || !same_copies(staged_.copies, foreign_.copies)) {
    desc.commands.clear();
    desc.blocks = memory_.blocks_buffer();
    desc.bindings_version = memory_.bindings_version();
    Recorded counts;
    append_commands(order_of(0, staged_.in, staged_.out), desc, counts);
    foreign_.copies = staged_.copies;
  }
  desc.to_tensors = io_.pixels_in();
  desc.from_tensors.clear();
  for (const auto& [segment, copy] : io_.pixels_out()) desc.from_tensors.push_back(copy);
  return desc;
}

// The memory of inputs and outputs has the size of the largest run so far. Recordings that cannot
// limit a copy copy all of it.
void Recorder::limit_copies(Recorded& r) const {
  size_t copy = 0;
  for (const uint32_t i : r.staged.in) r.recording->limit_copy(copy++, staged_bytes(i, true));
  for (const uint32_t i : r.staged.out) r.recording->limit_copy(copy++, staged_bytes(i, false));
}

// Gives the recording of a segment its copies. Copies of an earlier binding are dropped even if
// they look the same: the application may have replaced an image by another one with the same
// handle.
Status Recorder::set_pixels(size_t index, uint64_t binding) {
  Recorded& r = segments_[index].recorded;
  pixels_after_.clear();
  for (const auto& [segment, copy] : io_.pixels_out())
    if (segment == index) pixels_after_.push_back(copy);
  std::span<const PixelCopy> before;
  if (index == shared_.first_recorded) before = io_.pixels_in();
  const bool any = !before.empty() || !pixels_after_.empty();
  if (r.copies_pixels && (!any || r.pixels_of != binding)) {
    RP_TRY(r.recording->set_pixels({}, {}));
    r.copies_pixels = false;
  }
  if (!any) return {};
  r.copies_pixels = true;
  r.pixels_of = binding;
  shared_.session.totals.copies += before.size() + pixels_after_.size();
  return r.recording->set_pixels(before, pixels_after_);
}

// Without timestamps, nothing tells how long a launch takes.
Status Recorder::record_parts(size_t index, RecordingDesc desc) {
  Parts& parts = segments_[index].parts;
  Recorded& r = segments_[index].recorded;
  parts.cut_again = false;
  const Slices slices =
      slices_of(std::move(desc.commands), parts.launch_ns, shared_.session.options.slice_ns,
                shared_.session.device->cuts_launches());
  const bool asked = std::exchange(desc.timestamps, true);
  auto made = PartedRecording::create(*shared_.session.device, desc, slices);
  if (made.status().code() == Code::Unsupported && !asked) {
    desc.timestamps = false;
    made = PartedRecording::create(*shared_.session.device, desc, slices);
  }
  RP_TRY(made.status());
  r.parted = made->get();
  r.recording = *std::move(made);
  return {};
}

// Another user of the device may have held up a launch, so what counts is an average over the last
// runs.
Result<std::vector<double>> Recorder::measure_parts(size_t index, CurrentRun& run) {
  constexpr double kWeight = 0.25;  // of the last run
  PartedRecording& recording = *segments_[index].recorded.parted;
  RP_ASSIGN(const auto measured, recording.part_ns());
  std::vector<double> pieces;
  for (const std::vector<double>& ns : measured) {
    pieces.insert(pieces.end(), ns.begin(), ns.end());
    const double sum = std::accumulate(ns.begin(), ns.end(), 0.0);
    run.stats.longest_slice_us = std::max(run.stats.longest_slice_us, sum / 1e3);
  }
  if (pieces.empty()) return pieces;
  std::vector<double> launches = recording.slices().by_launch(pieces);
  Parts& parts = segments_[index].parts;
  // In the first run, the driver may have compiled the kernels.
  if (++parts.runs < 2) return launches;
  const bool first = parts.launch_ns.empty();
  if (first) parts.launch_ns = launches;
  for (size_t i = 0; i < launches.size(); ++i) {
    // Each piece has a cost of its own. If that counted, more pieces would seem to need still more.
    const bool is_cut = recording.slices().pieces[i] > 1;
    double& average = parts.launch_ns[i];
    average =
        is_cut ? std::min(average, launches[i]) : (1 - kWeight) * average + kWeight * launches[i];
  }
  parts.cut_again =
      first || are_too_long(recording.slices(), parts.launch_ns, shared_.session.options.slice_ns);
  return launches;
}

}  // namespace reprise
