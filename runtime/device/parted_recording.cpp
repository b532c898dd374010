#include "runtime/device/parted_recording.h"

#include <algorithm>
#include <utility>

namespace reprise {
namespace {

bool is_barrier(const Command& c) {
  return c.kind == Command::Kind::Barrier || c.kind == Command::Kind::HostBarrier;
}

/// The commands from `begin` on. What they waited for in earlier parts has ended.
RecordingDesc part_of(const RecordingDesc& all, std::span<const Command> commands, size_t begin,
                      bool edges) {
  RecordingDesc part;
  part.blocks = all.blocks;
  part.bindings_version = all.bindings_version;
  part.timestamps = all.timestamps;
  part.once = all.once;
  for (size_t i = begin; i < commands.size(); ++i) {
    Command c = commands[i];
    std::erase_if(c.after, [&](uint32_t a) { return a < begin; });
    for (uint32_t& a : c.after) a -= static_cast<uint32_t>(begin);
    part.commands.push_back(std::move(c));
  }
  // The last barrier of a part also orders it and what follows.
  while (!edges && !part.commands.empty() && is_barrier(part.commands.back()))
    part.commands.pop_back();
  if (!edges) part.commands.emplace_back().kind = Command::Kind::HostBarrier;
  return part;
}

}  // namespace

Result<std::unique_ptr<PartedRecording>> PartedRecording::create(Device& device,
                                                                 const RecordingDesc& desc,
                                                                 Slices slices) {
  std::unique_ptr<PartedRecording> out(new PartedRecording());
  size_t begin = 0;
  for (size_t p = 0; p <= slices.cuts.size(); ++p) {
    const size_t end = p < slices.cuts.size() ? slices.cuts[p] : slices.commands.size();
    const std::span commands = std::span(slices.commands).subspan(0, end);
    RecordingDesc part = part_of(desc, commands, begin, device.takes_edges());
    out->copies_.push_back(static_cast<size_t>(
        std::ranges::count(part.commands, Command::Kind::Copy, &Command::kind)));
    Counts& counts = out->counts_.emplace_back();
    for (const Command& c : part.commands) {
      counts.dispatches += c.is_dispatch() ? 1 : 0;
      counts.barriers += is_barrier(c) ? 1 : 0;
    }
    RP_ASSIGN(auto recorded, device.record(std::move(part)));
    out->parts_.push_back(std::move(recorded));
    begin = end;
  }
  out->slices_ = std::move(slices);
  return out;
}

PartedRecording::Counts PartedRecording::submitted() const {
  Counts sum;
  for (size_t p = 0; p < submitted_; ++p) {
    sum.dispatches += counts_[p].dispatches;
    sum.barriers += counts_[p].barriers;
  }
  return sum;
}

Status PartedRecording::submit(const SubmitSync& sync, uint64_t timeout_ns) {
  if (!sync.signals.empty()) return unsupported("a run in slices cannot signal");
  current_ = submitted_ = 0;
  more_submissions_ = ran_ns_ = 0;
  timeout_ns_ = timeout_ns;
  RP_TRY(parts_[0]->submit(sync, timeout_ns));
  going_ = true;
  submitted_ = 1;
  return {};
}

/// After the end of the current part: submits the next one. False if there is none.
Result<bool> PartedRecording::advance() {
  ran_ns_ += parts_[current_]->ran_ns();
  going_ = false;
  if (current_ + 1 == parts_.size()) return false;
  if (cancelled_ && *cancelled_) return Status(Code::Cancelled, "the run was cancelled");
  ++current_;
  RP_TRY(parts_[current_]->submit({}, timeout_ns_));
  going_ = true;
  ++submitted_;
  more_submissions_ += parts_[current_]->submissions();
  return true;
}

Status PartedRecording::wait(uint64_t timeout_ns) {
  for (bool more = true; more;) {
    const bool going = std::exchange(going_, false);  // no part follows a failure
    RP_TRY(parts_[current_]->wait(timeout_ns));
    if (!going) return {};
    RP_ASSIGN(more, advance());
  }
  return {};
}

Result<bool> PartedRecording::poll(uint64_t timeout_ns) {
  const bool going = std::exchange(going_, false);
  RP_ASSIGN(const bool ended, parts_[current_]->poll(timeout_ns));
  if (!ended) {
    going_ = going;
    return false;
  }
  if (!going) return true;
  RP_ASSIGN(const bool more, advance());
  return !more;
}

void PartedRecording::limit_copy(size_t copy, uint64_t bytes) {
  for (size_t p = 0; p < parts_.size(); ++p) {
    if (copy < copies_[p]) return parts_[p]->limit_copy(copy, bytes);
    copy -= copies_[p];
  }
}

Status PartedRecording::set_pixels(std::span<const PixelCopy> before,
                                   std::span<const PixelCopy> after) {
  if (parts_.size() == 1) return parts_[0]->set_pixels(before, after);
  RP_TRY(parts_.front()->set_pixels(before, {}));
  return parts_.back()->set_pixels({}, after);
}

Result<std::vector<std::vector<double>>> PartedRecording::part_ns() {
  std::vector<std::vector<double>> all;
  for (const auto& part : parts_) {
    RP_ASSIGN(std::vector<double> ns, part->dispatch_ns());
    all.push_back(std::move(ns));
  }
  return all;
}

Result<std::vector<double>> PartedRecording::dispatch_ns() {
  RP_ASSIGN(const auto parts, part_ns());
  std::vector<double> all;
  for (const std::vector<double>& ns : parts) all.insert(all.end(), ns.begin(), ns.end());
  return all.empty() ? all : slices_.by_launch(all);
}

uint64_t PartedRecording::times_recorded() const {
  uint64_t times = 0;
  for (const auto& part : parts_) times += part->times_recorded();
  return times;
}

}  // namespace reprise
