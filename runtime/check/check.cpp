#include "runtime/check/check.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/base/align.h"
#include "runtime/base/bytes.h"
#include "runtime/base/number_text.h"
#include "runtime/plan/bind.h"
#include "runtime/plan/block_layout.h"

namespace reprise {
namespace {

constexpr uint64_t kAlignment = 256;
constexpr unsigned kMostRuns = 12;  // if CheckOptions::more_runs_ns allows more runs

/// The bits of one element.
uint64_t bits_at(DType dtype, const std::byte* at) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, size_of(dtype));
  return bits;
}

/// The difference of a result from the expected value, as numbers and for people.
struct Comparison {
  double error = 0, allowed = 0;
  std::string expected, found;  // empty if they agree
};

Comparison compare_floats(double want, double is, double allowed) {
  const bool same = want == is || (std::isnan(want) && std::isnan(is));
  Comparison c{same ? 0 : std::fabs(is - want), allowed, {}, {}};
  if (std::isnan(c.error)) c.error = std::numeric_limits<double>::infinity();
  if (c.error <= allowed) return c;
  c.expected = number_text(want) + " within " + number_text(allowed);
  c.found = number_text(is);
  return c;
}

Comparison compare_integers(int64_t want, int64_t is, bool is_unsigned) {
  Comparison c;
  if (want == is) return c;
  const auto w = static_cast<uint64_t>(want), f = static_cast<uint64_t>(is);
  const bool above = is_unsigned ? f > w : is > want;
  c.error = static_cast<double>(above ? f - w : w - f);
  c.expected = is_unsigned ? std::to_string(w) : std::to_string(want);
  c.found = is_unsigned ? std::to_string(f) : std::to_string(is);
  return c;
}

/// Compares the samples of one buffer: updates the largest error, and reports the first sample that
/// exceeds its tolerance.
void compare(const plan::Probe::Samples& s, DType dtype, const std::string& tensor,
             std::span<const std::byte> bytes, KernelCheck& out) {
  for (size_t i = 0; i < s.at.size(); ++i) {
    const uint64_t bits = bits_at(dtype, bytes.data() + s.at[i] * size_of(dtype));
    const Comparison c =
        is_float(dtype)
            ? compare_floats(s.values[i], plan::real_of(dtype, bits), s.tolerance[i])
            : compare_integers(s.exact[i], plan::integer_of(dtype, bits), dtype == DType::U64);
    out.max_error = std::max(out.max_error, c.error);
    if (c.error <= c.allowed || out.verdict == KernelVerdict::Wrong) continue;
    out.verdict = KernelVerdict::Wrong;
    out.reason = "element " + std::to_string(s.at[i]);
    out.reason.append(" of '").append(tensor).append("' must be ").append(c.expected);
    out.reason.append(", it is ").append(c.found);
  }
}

class Checker {
 public:
  Checker(Device& device, const plan::Plan& plan, const CheckOptions& options)
      : device_(device), plan_(plan), options_(options) {}

  Result<KernelCheck> check(const std::string& name, const plan::Probe* probe,
                            const DeviceKernel& kernel) {
    KernelCheck out;
    out.kernel = name;
    if (probe == nullptr || !probe->skipped.empty()) {
      out.reason = probe ? probe->skipped : "the package was compiled without probes";
      return out;
    }
    out.verdict = KernelVerdict::Pass;
    const auto& launch = std::get<plan::Launch>(plan_.steps[probe->step].what);
    RP_TRY(place(*probe, launch).with_context("memory for checking kernel '" + name + "'"));
    const Status s = run(*probe, launch, kernel, out);
    if (s.ok()) return out;
    out.verdict = KernelVerdict::Error;
    out.reason = s.message();
    return out;
  }

 private:
  /// One buffer of the launch: a range of memory_.
  struct Part {
    size_t parameter = 0;  // the first parameter that it is bound to
    DType dtype = DType::F32;
    uint64_t offset = 0, bytes = 0;
    bool written = false, only_written = false;
    std::vector<std::byte> result;  // of the first run, if the kernel writes the buffer
  };

  Status run(const plan::Probe& probe, const plan::Launch& launch, const DeviceKernel& kernel,
             KernelCheck& out) {
    RP_TRY(write_block(probe, plan_.kernels[launch.kernel]));
    for (const Part& part : parts_) RP_TRY(fill(probe, part));
    RecordingDesc desc;
    desc.blocks = blocks_.get();
    Command dispatch;
    dispatch.kernel = &kernel;
    dispatch.grid = probe.grid;
    desc.commands.push_back(dispatch);
    if (!device_.takes_edges()) {
      Command barrier;
      barrier.kind = Command::Kind::HostBarrier;
      desc.commands.push_back(barrier);
    }
    RP_ASSIGN(const auto recording, device_.record(std::move(desc)));
    const auto start = std::chrono::steady_clock::now();
    const auto goes_on = [&](unsigned r) {
      return r < std::max(options_.runs, 1U) ||
             (r < kMostRuns && std::chrono::steady_clock::now() - start <
                                   std::chrono::nanoseconds(options_.more_runs_ns));
    };
    for (unsigned r = 0; goes_on(r); ++r) {
      for (const Part& part : parts_) {
        if (r > 0 && part.written) RP_TRY(fill(probe, part));
      }
      RP_TRY(launch_once(probe, *recording, out));
      if (out.verdict == KernelVerdict::Pass) RP_TRY(collect(probe, launch, r, out));
      if (out.verdict != KernelVerdict::Pass) return {};
    }
    return {};
  }

  Status launch_once(const plan::Probe& probe, Recording& recording, KernelCheck& out) {
    std::memset(error_->mapped(), 0, error_->size());
    const Status submitted = recording.submit();
    const uint64_t timeout = options_.timeout_ns != 0
                                 ? options_.timeout_ns
                                 : default_timeout_ns(device_.info().facts.kind);
    const Status waited = recording.wait(timeout);
    RP_TRY(submitted);
    RP_TRY(waited);
    uint32_t word = 0;
    std::memcpy(&word, error_->mapped(), sizeof word);
    if (word == 0 || !probe.complete) return {};
    out.verdict = KernelVerdict::Wrong;
    out.reason = "it reports error " + std::to_string(word & 0xffU) + " for valid inputs";
    return {};
  }

  /// Compares the first run with the samples, and later ones with the first, bit by bit.
  Status collect(const plan::Probe& probe, const plan::Launch& launch, unsigned r,
                 KernelCheck& out) {
    std::vector<std::byte> bytes;
    for (Part& part : parts_) {
      if (!part.written || part.bytes == 0) continue;
      bytes.resize(part.bytes);
      RP_TRY(device_.download(*memory_, part.offset, bytes));
      if (r == 0) {
        part.result = bytes;
        continue;
      }
      if (part.result == bytes) continue;
      const auto differs = std::mismatch(bytes.begin(), bytes.end(), part.result.begin()).first;
      const auto at = static_cast<size_t>(differs - bytes.begin()) / size_of(part.dtype);
      out.verdict = KernelVerdict::Varies;
      out.reason = "element " + std::to_string(at) + " of '" + tensor(launch, part.parameter) +
                   "' in run " + std::to_string(r + 1) + " differs from that in run 1";
      for (const plan::Probe::Samples& s : probe.samples) {
        if (of_parameter_[s.buffer] != &part) continue;
        KernelCheck second;
        compare(s, part.dtype, "", bytes, second);
        out.max_error = std::max(out.max_error, second.max_error);
      }
      return {};
    }
    if (r > 0) return {};
    for (const plan::Probe::Samples& s : probe.samples) {
      const Part& part = *of_parameter_[s.buffer];
      compare(s, part.dtype, tensor(launch, s.buffer), part.result, out);
    }
    return {};
  }

  const std::string& tensor(const plan::Launch& launch, size_t parameter) const {
    return plan_.buffers[launch.buffers[parameter]].name;
  }

  /// Makes memory for the buffers. Later kernels reuse it.
  Status place(const plan::Probe& probe, const plan::Launch& launch) {
    parts_.clear();
    parts_.reserve(launch.buffers.size());
    of_parameter_.assign(launch.buffers.size(), nullptr);
    uint64_t end = 0;
    for (size_t i = 0; i < launch.buffers.size(); ++i) {
      const size_t first = plan::first_binding(launch, i);
      if (first == i) {
        const plan::Buffer& b = plan_.buffers[launch.buffers[i]];
        parts_.push_back(
            {i, b.dtype, end, probe.bytes[i], false, plan::is_only_written(launch, i), {}});
        of_parameter_[i] = &parts_.back();
        end += align_up(plan::readable_bytes(probe.bytes[i]), kAlignment);
      }
      of_parameter_[i] = of_parameter_[first];
      of_parameter_[i]->written = of_parameter_[i]->written || launch.writes[i];
    }
    RP_TRY(grow(memory_, end, MemoryUse::Device));
    RP_TRY(grow(error_, 16, MemoryUse::Readback));
    const size_t views = plan_.kernels[launch.kernel].views.size();
    return grow(blocks_,
                plan::BlockLayout::size(launch.buffers.size(), probe.scalars.size(), views),
                MemoryUse::Upload);
  }

  Status grow(std::unique_ptr<DeviceBuffer>& buffer, uint64_t bytes, MemoryUse use) {
    if (buffer && buffer->size() >= bytes) return {};
    buffer.reset();
    RP_ASSIGN(buffer, device_.allocate_or_free_idle(std::max<uint64_t>(bytes, 16), use));
    return {};
  }

  Status write_block(const plan::Probe& probe, const plan::KernelCode& kernel) {
    using Layout = plan::BlockLayout;
    auto* block = static_cast<std::byte*>(blocks_->mapped());
    std::memset(block, 0, blocks_->size());
    store_bytes(block + Layout::kErrorAddress, error_->address());
    for (size_t i = 0; i < of_parameter_.size(); ++i)
      store_bytes(block + Layout::buffer_offset(i), memory_->address() + of_parameter_[i]->offset);
    for (size_t i = 0; i < probe.scalars.size(); ++i)
      store_bytes(block + Layout::scalar_offset(of_parameter_.size(), i), probe.scalars[i]);
    return write_views(device_, kernel, {block, blocks_->size()});
  }

  Status fill(const plan::Probe& probe, const Part& part) {
    if (part.bytes == 0) return {};
    std::vector<std::byte> bytes(part.bytes);
    plan::ProbeFill(plan::kProbeInputs[probe.inputs], part.parameter, part.dtype, part.only_written)
        .write(0, bytes);
    return device_.upload(*memory_, part.offset, bytes);
  }

  Device& device_;
  const plan::Plan& plan_;
  const CheckOptions& options_;
  std::unique_ptr<DeviceBuffer> memory_, blocks_, error_;
  std::vector<Part> parts_;
  std::vector<Part*> of_parameter_;
};

}  // namespace

std::string_view name_of(KernelVerdict v) {
  switch (v) {
    case KernelVerdict::Pass:
      return "pass";
    case KernelVerdict::Wrong:
      return "wrong";
    case KernelVerdict::Varies:
      return "varies";
    case KernelVerdict::Error:
      return "error";
    case KernelVerdict::Skipped:
      return "skipped";
  }
  return "";
}

uint64_t default_timeout_ns(DeviceKind kind) {
  constexpr uint64_t kMinute = 60'000'000'000;
  return kind == DeviceKind::Cpu ? 10 * kMinute : kMinute;
}

Result<std::vector<KernelCheck>> check_kernels(
    Device& device, const package::CompiledPlan& variant,
    std::span<const std::unique_ptr<DeviceKernel>> kernels, const CheckOptions& options) {
  Checker checker(device, variant.plan, options);
  std::vector<KernelCheck> out;
  out.reserve(kernels.size());
  for (size_t k = 0; k < variant.plan.kernels.size(); ++k) {
    const plan::Probe* probe = variant.probes.empty() ? nullptr : &variant.probes[k];
    RP_ASSIGN(KernelCheck one, checker.check(variant.plan.kernels[k].name, probe, *kernels[k]));
    out.push_back(std::move(one));
    const KernelVerdict v = out.back().verdict;
    if (options.stop_at_failure && (is_wrong(v) || v == KernelVerdict::Error)) break;
  }
  return out;
}

}  // namespace reprise
