#include "bench/gpu/measure.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/timing.h"

namespace reprise::bench::gpu {
namespace {

struct Entrant {
  Measured row;
  ContenderPtr contender;  // null if it is no longer measured
  std::vector<double> wall, device, submit;

  bool in() const { return contender != nullptr; }
  void out(const char* status, std::string reason) {
    row.status = status;
    row.reason = std::move(reason);
    contender.reset();
  }
};

/// The largest error of the samples; infinite if a value is NaN.
Result<double> error_of(Contender& contender, const Samples& expected) {
  std::vector<HostTensor> outputs;
  double largest = 0, worst = 0;
  for (const Sample& s : expected) {
    while (outputs.size() <= s.output) {
      RP_ASSIGN(HostTensor t, contender.output(outputs.size()));
      outputs.push_back(std::move(t));
    }
    const HostTensor& t = outputs[s.output];
    if (s.index >= t.count()) return invalid_input("the output is too small");
    const double error = std::abs(value_at(t, s.index) - s.value);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    largest = std::max(largest, std::abs(s.value));
  }
  return largest > 0 ? worst / largest : worst;
}

/// Runs once and checks the result.
Status check(Entrant& e, const Entry& entry, const Samples& expected) {
  RP_TRY(e.contender->run());
  RP_ASSIGN(e.row.error, error_of(*e.contender, expected));
  e.row.launches = e.contender->launches();
  const double allowed = tolerance_of(entry.judged_as);
  if (e.row.error <= allowed) return {};
  char text[96];
  std::snprintf(text, sizeof text, "largest error %.3g of the largest value, %.3g is allowed",
                e.row.error, allowed);
  e.out("wrong", text);
  return {};
}

/// Runs `runs` rounds, or fewer, but at least three, if the time is over.
void run_rounds(std::vector<Entrant>& all, int warmup, int runs, double seconds) {
  const double end = now_ms() + seconds * 1000;
  for (int i = -warmup; i < runs && (i < 3 || now_ms() < end); ++i) {
    for (size_t turn = 0; turn < all.size(); ++turn) {
      // The order rotates, so that no contender always follows the same other one.
      Entrant& e = all[(turn + static_cast<size_t>(i + warmup)) % all.size()];
      if (!e.in()) continue;
      const double start = now_ms();
      const Status ran = e.contender->run();
      const double ms = now_ms() - start;
      if (!ran.ok()) {
        e.out("failed", ran.message());
      } else if (i >= 0) {
        e.wall.push_back(ms);
        e.device.push_back(e.contender->device_ms());
        e.submit.push_back(e.contender->submit_us());
      }
    }
  }
}

void measure_wall(std::vector<Entrant>& all, const MeasureOptions& options) {
  run_rounds(all, 5, options.runs, options.seconds);
  for (Entrant& e : all) {
    if (e.wall.empty()) continue;
    e.row.runs = static_cast<int>(e.wall.size());
    e.row.best_ms = *std::min_element(e.wall.begin(), e.wall.end());
    e.row.wall_ms = median(std::move(e.wall));
    e.row.submit_us = median(std::move(e.submit));
    e.wall = e.submit = e.device = {};
  }
}

/// Measures device times in separate runs, because timestamps take time.
void measure_device(std::vector<Entrant>& all, const MeasureOptions& options) {
  for (Entrant& e : all) {
    if (!e.in()) continue;
    const Status ready = e.contender->time_on_device();
    if (!ready.ok()) e.out("failed", ready.message());
  }
  run_rounds(all, 2, std::min(options.runs, 20), options.seconds / 2);
  for (Entrant& e : all) {
    std::erase_if(e.device, [](double ms) { return ms < 0; });
    if (!e.device.empty()) e.row.device_ms = median(std::move(e.device));
  }
}

}  // namespace

uint64_t bytes_needed(const Case& c) {
  uint64_t bytes = 0;
  for (const Operand& o : c.operands) bytes += bytes_of(o);
  for (const auto& dims : c.outputs)
    bytes += static_cast<uint64_t>(count_of(dims)) * size_of(DType::F32);
  return bytes;
}

std::vector<Measured> measure(const Case& c, const Tensors& values,
                              const std::vector<Entry>& entries, uint64_t memory,
                              const MeasureOptions& options) {
  std::vector<Entrant> all(entries.size());
  const uint64_t needed = bytes_needed(c) * entries.size();
  const Samples expected = c.expected(values);
  for (size_t i = 0; i < entries.size(); ++i) {
    all[i].row.name = entries[i].name;
    if (needed > memory / 10 * 9) {
      all[i].out("skipped", std::to_string(needed >> 20) + " MiB are needed for " +
                                std::to_string(entries.size()) + " contenders, the device has " +
                                std::to_string(memory >> 20));
      continue;
    }
    if (!entries[i].unfit.empty()) {
      all[i].out("skipped", entries[i].unfit);
      continue;
    }
    Result<ContenderPtr> made = entries[i].make();
    if (!made.ok()) {
      all[i].out("failed", made.status().message());
      continue;
    }
    all[i].contender = std::move(*made);
    const Status checked = check(all[i], entries[i], expected);
    if (!checked.ok()) all[i].out("failed", checked.message());
  }
  measure_wall(all, options);
  measure_device(all, options);
  std::vector<Measured> rows;
  rows.reserve(all.size());
  for (Entrant& e : all) rows.push_back(std::move(e.row));
  return rows;
}

}  // namespace reprise::bench::gpu
