// Writes what a device needs for a run: parameter blocks and recordings.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "runtime/run/run_state.h"

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

Status RunContext::write_segment(size_t index, const std::vector<int64_t>& symbols) {
  SegmentState& state = segments_[index];
  if (state.written && state.written_for == symbols) return {};
  state.written = false;
  for (const auto& level : s_.segments[index].levels) {
    for (const uint32_t step : level)
      RP_TRY(plan::write_sizes(*s_.plan, step, s_.table, symbols, s_.base.limits, blocks()));
  }
  state.written_for = symbols;
  state.written = true;
  return {};
}

Command RunContext::launch_command(uint32_t step) const {
  const auto& launch = std::get<plan::Launch>(s_.plan->steps[step].what);
  Command c;
  c.kernel = s_.kernels[launch.kernel].get();
  c.block_offset = s_.table.block[step];
  if (s_.table.indirect[step] != plan::kNone) {
    c.kind = Command::Kind::DispatchIndirect;
    c.indirect_offset = s_.table.indirect[step];
  } else {
    c.grid = s_.fixed_grids[step];
  }
  return c;
}

// Whether this segment's recording copies the input or output.
bool RunContext::staged_by(size_t index, size_t i, bool input) const {
  if (input) return inputs_[i].staged && s_.first_recorded == index;
  return outputs_[i].staged &&
         static_cast<size_t>(s_.use(s_.of_output[i].buffer).last_segment) == index;
}

void RunContext::find_staged(size_t index, Staged& staged) const {
  staged.in.clear();
  staged.out.clear();
  staged.copies.clear();
  for (uint32_t i = 0; i < inputs_.size(); ++i)
    if (staged_by(index, i, true)) staged.in.push_back(i);
  for (uint32_t i = 0; i < outputs_.size(); ++i)
    if (staged_by(index, i, false)) staged.out.push_back(i);
  for (const uint32_t i : staged.in) staged.copies.push_back(staging_copy(i, true));
  for (const uint32_t i : staged.out) staged.copies.push_back(staging_copy(i, false));
}

Command RunContext::staging_copy(uint32_t i, bool input) const {
  const HostBound& s = input ? inputs_[i] : outputs_[i];
  Command c;
  c.kind = Command::Kind::Copy;
  c.src = input ? s.staging.get() : s.device.get();
  c.dst = input ? s.device.get() : s.staging.get();
  c.bytes = s_.base.options.replay ? s.device->size() : staged_bytes(i, input);
  return c;
}

// The bytes that the input or output has in this run.
uint64_t RunContext::staged_bytes(uint32_t i, bool input) const {
  if (!input) return bytes_[s_.of_output[i].buffer];
  uint64_t bytes = 0;
  for (const plan::BufferId id : s_.of_input[i]) bytes = std::max(bytes, bytes_[id]);
  return bytes;
}

// Which tensors may share memory follows from the plan, so an order is valid for the lifetime of
// the session.
const std::vector<plan::OrderNode>& RunContext::order_of(size_t index, std::vector<uint32_t> in,
                                                         std::vector<uint32_t> out) {
  using Kind = plan::ArenaReuse::Kind;
  Order& order = segments_[index].order;
  if (!order.nodes.empty() && order.in == in && order.out == out) return order.nodes;
  const plan::Segment& segment = s_.segments[index];
  plan::ArenaReuse reuse{Kind::AnyPlacement, &placement_, &bytes_};
  if (s_.fixed_placement) reuse.kind = Kind::Placed;
  if (s_.base.options.isolate_tensors) reuse.kind = Kind::None;
  order.nodes = s_.base.device->takes_edges()
                    ? plan::segment_order(*s_.plan, segment, in, out, reuse)
                    : plan::segment_nodes(segment, in, out);
  order.in = std::move(in);
  order.out = std::move(out);
  return order.nodes;
}

// Appends commands with edges or, for devices that do not take edges, with barriers between levels.
void RunContext::append_commands(const std::vector<plan::OrderNode>& order, RecordingDesc& desc,
                                 Recorded& counts) const {
  using Kind = plan::OrderNode::Kind;
  std::vector<uint32_t> position;  // of each node's command
  const bool barriers = !s_.base.device->takes_edges();
  std::optional<uint32_t> level;
  bool copies_out = false;
  for (const plan::OrderNode& node : order) {
    const bool launch = node.kind == Kind::Launch, out = node.kind == Kind::CopyOut;
    const bool next_level = launch && level != s_.plan->steps[node.index].level;
    if (barriers && (next_level || (out && !copies_out)) && !desc.commands.empty()) {
      desc.commands.push_back(of_kind(Command::Kind::Barrier));
      ++counts.barriers;
    }
    if (launch) level = s_.plan->steps[node.index].level;
    copies_out = copies_out || out;
    counts.dispatches += launch ? 1 : 0;
    Command c = launch                    ? launch_command(node.index)
                : node.kind == Kind::Join ? of_kind(Command::Kind::Join)
                                          : staging_copy(node.index, !out);
    for (const uint32_t a : node.after) c.after.push_back(position[a]);
    position.push_back(static_cast<uint32_t>(desc.commands.size()));
    desc.commands.push_back(std::move(c));
  }
  if (!barriers) return;
  desc.commands.push_back(of_kind(Command::Kind::HostBarrier));
  ++counts.barriers;
}

Status RunContext::record_segment(size_t index) {
  Recorded& r = segments_[index].recorded;
  find_staged(index, staged_);
  if (r.recording && s_.base.options.replay && same_copies(staged_.copies, r.staged.copies) &&
      !segments_[index].parts.cut_again) {
    limit_copies(r);
    return {};
  }
  RecordingDesc desc;
  desc.blocks = blocks_.get();
  desc.bindings_version = &bindings_version_;
  desc.timestamps = s_.base.options.timestamps;
  desc.once = !s_.base.options.replay;
  r = {};
  // A body reads what an earlier submission wrote, which may still be running.
  if (s_.only_recorded && !s_.base.device->takes_edges()) {
    desc.commands.push_back(of_kind(Command::Kind::Barrier));
    ++r.barriers;
  }
  append_commands(order_of(index, staged_.in, staged_.out), desc, r);
  if (s_.base.options.replay) segments_[index].order = {};
  r.staged = staged_;
  if (s_.base.options.slice_ns != 0) {
    RP_TRY(record_parts(index, std::move(desc)));
  } else {
    RP_ASSIGN(r.recording, s_.base.device->record(std::move(desc)));
  }
  ++s_.base.totals.recordings;
  limit_copies(r);
  return {};
}

/// What the run writes to a command buffer of the application. The commands are those of the last
/// such run, unless other inputs and outputs are staged now.
const RecordingDesc& RunContext::foreign_recording() {
  find_staged(0, staged_);
  RecordingDesc& desc = foreign_.desc;
  if (desc.commands.empty() || !same_copies(staged_.copies, foreign_.copies)) {
    desc.commands.clear();
    desc.blocks = blocks_.get();
    desc.bindings_version = &bindings_version_;
    Recorded counts;
    append_commands(order_of(0, staged_.in, staged_.out), desc, counts);
    foreign_.copies = staged_.copies;
  }
  desc.to_tensors = pixels_in_;
  desc.from_tensors.clear();
  for (const auto& [segment, copy] : pixels_out_) desc.from_tensors.push_back(copy);
  return desc;
}

// The memory of inputs and outputs has the size of the largest run so far. Recordings that cannot
// limit a copy copy all of it.
void RunContext::limit_copies(Recorded& r) const {
  size_t copy = 0;
  for (const uint32_t i : r.staged.in) r.recording->limit_copy(copy++, staged_bytes(i, true));
  for (const uint32_t i : r.staged.out) r.recording->limit_copy(copy++, staged_bytes(i, false));
}

// Without timestamps, nothing tells how long a launch takes.
Status RunContext::record_parts(size_t index, RecordingDesc desc) {
  Parts& parts = segments_[index].parts;
  Recorded& r = segments_[index].recorded;
  parts.cut_again = false;
  const Slices slices = slices_of(std::move(desc.commands), parts.launch_ns,
                                  s_.base.options.slice_ns, s_.base.device->cuts_launches());
  const bool asked = std::exchange(desc.timestamps, true);
  auto made = PartedRecording::create(*s_.base.device, desc, slices);
  if (made.status().code() == Code::Unsupported && !asked) {
    desc.timestamps = false;
    made = PartedRecording::create(*s_.base.device, desc, slices);
  }
  RP_TRY(made.status());
  r.parted = made->get();
  r.recording = *std::move(made);
  return {};
}

/// Decides after a run whether the next one has other parts. Another user of the device may have
/// held up a launch, so what counts is an average over the last runs. Returns the times of the
/// launches in this run.
Result<std::vector<double>> RunContext::measure_parts(size_t index, Run& run) {
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
      first || are_too_long(recording.slices(), parts.launch_ns, s_.base.options.slice_ns);
  return launches;
}

}  // namespace reprise
