#include "apps/reprise/measure.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "runtime/base/timing.h"
#include "runtime/platform/path.h"

namespace reprise::app {

namespace {

/// Takes back the rows that the last run has appended to states that grow, so that runs are equal.
Status drop_rows(Session& session) {
  if (std::ranges::none_of(session.io().states, &plan::StateSlot::grows)) return {};
  return session.truncate_states("", 0);
}

Status timed_runs(Session& session, const InputSet& inputs, const MeasureOptions& options,
                  Measurement& m) {
  const std::vector<Binding> bindings = inputs.bindings();
  std::vector<double> total, submit, slices;
  const double start = now_ms();
  for (int i = -options.warmup; i < options.runs; ++i) {
    RunStats stats;
    RP_TRY(drop_rows(session));
    const double before = now_ms();
    RP_TRY(session.run(bindings, {}, &stats).status());
    m.plan = stats.plan;
    if (i < 0) continue;
    total.push_back(now_ms() - before);
    submit.push_back(stats.host_submit_us);
    slices.push_back(stats.longest_slice_us);
    if (i >= 2 && now_ms() - start > options.max_seconds * 1000) break;
  }
  m.runs = static_cast<int>(total.size());
  m.median_ms = median(total);
  m.p10_ms = percentile(total, 0.1);
  m.p90_ms = percentile(total, 0.9);
  m.host_submit_us = median(submit);
  m.longest_slice_us = median(slices);
  return {};
}

/// The bodies of If, Loop and Scan that the device runs.
std::vector<const package::DeviceBody*> bodies_of(const Model& model, const Session& session) {
  std::vector<const package::DeviceBody*> out;
  for (const package::Variant& v : model.package->variants) {
    if (v.name != session.variant()) continue;
    for (const package::DeviceBody& body : v.bodies) out.push_back(&body);
  }
  return out;
}

/// The launches of a plan, whose times follow those that are there already.
void add_launches(const plan::Plan& plan, const std::string& body,
                  const std::vector<std::vector<double>>& times, const std::vector<double>& first,
                  Measurement& m) {
  for (const plan::Step& step : plan.steps) {
    const auto* launch = std::get_if<plan::Launch>(&step.what);
    if (launch == nullptr || m.launches.size() >= times.size()) continue;
    const plan::KernelCode& kernel = plan.kernels[static_cast<size_t>(launch->kernel)];
    const size_t at = m.launches.size();
    m.launches.push_back({kernel.name, launch->schedule, body, launch->nodes, median(times[at]),
                          at < first.size() ? first[at] : 0});
  }
}

/// Measures kernel times with device timestamps, in a separate session because they slow runs down:
/// launches do not overlap then.
Status device_times(const Model& model, const OpenedDevice& device, const InputSet& inputs,
                    const CommonOptions& common, Measurement& m) {
  RP_ASSIGN(std::unique_ptr<Session> session, make_session(model, device, common, true));
  constexpr int kRuns = 9;  // beside the first, in which some drivers compile
  std::vector<double> sums, totals, first;
  std::vector<std::vector<double>> by_launch;
  for (int i = 0; i <= kRuns; ++i) {
    RunStats stats;
    RP_TRY(drop_rows(*session));
    const double before = now_ms();
    RP_TRY(session->run(inputs.bindings(), {}, &stats).status());
    const double total = now_ms() - before;
    if (i == 0) {
      first = stats.kernel_us;
      continue;
    }
    totals.push_back(total);
    sums.push_back(std::accumulate(stats.kernel_us.begin(), stats.kernel_us.end(), 0.0) / 1000);
    by_launch.resize(stats.kernel_us.size());
    for (size_t n = 0; n < stats.kernel_us.size(); ++n) by_launch[n].push_back(stats.kernel_us[n]);
  }
  m.device_ms = median(sums);
  m.timed_run_ms = median(totals);
  add_launches(session->plan(m.plan), {}, by_launch, first, m);
  for (const package::DeviceBody* body : bodies_of(model, *session))
    add_launches(body->plan, body->name, by_launch, first, m);
  return {};
}

}  // namespace

void add_measure(CLI::App& command, MeasureOptions& o) {
  command.add_option("--runs", o.runs, "Measured runs")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command.add_option("--warmup", o.warmup, "Runs after the first that are not measured")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  command.add_option("--max-seconds", o.max_seconds, "Stop measuring a model after this time")
      ->check(at_least_zero())
      ->capture_default_str();
  command.add_flag("--reference,!--no-reference", o.reference,
                   "Compare with the host reference (default), or do not");
  command.add_flag("--device-times,!--no-device-times", o.device_times,
                   "Measure kernels with device timestamps, in runs of their own in which they do "
                   "not overlap (default), or do not");
  command.add_flag(
      "--launches", o.launches,
      "List each model's launches, slowest first; 'first us' is the first run, in which some "
      "drivers compile");
}

Comparison compare_outputs(const Model& model, const std::vector<HostTensor>& actual,
                           const std::vector<HostTensor>& expected) {
  Comparison all;
  for (size_t i = 0; i < actual.size() && i < expected.size(); ++i) {
    const Tolerance t = tolerance_in(model.computes_in(), Rule::Model, expected[i].dtype());
    const Comparison c = compare(actual[i], expected[i], t);
    all.max_error = std::max(all.max_error, c.max_error);
    all.max_relative = std::max(all.max_relative, c.max_relative);
    if (!c.ok && all.ok) {
      all.ok = false;
      all.reason = "output '" + model.package->io.outputs[i].name + "': " + c.reason;
    }
  }
  return all;
}

Result<std::vector<HostTensor>> reference_outputs(const Model& model, const InputSet& inputs,
                                                  const CommonOptions& options) {
  RP_ASSIGN(std::unique_ptr<Session> session, make_reference(model, options));
  return run_from_start(*session, inputs);
}

Result<Measurement> measure(const Model& model, const OpenedDevice& device, const InputSet& inputs,
                            const CommonOptions& common, const MeasureOptions& options,
                            const std::vector<HostTensor>* expected) {
  Measurement m;
  m.model = model.path;
  m.device = device.info.id;
  m.mode = common.mode;
  m.compile_ms = model.compile_ms;
  const double start = now_ms();
  RP_ASSIGN(std::unique_ptr<Session> session, make_session(model, device, common));
  const double loaded = now_ms();
  m.load_ms = model.read_ms + loaded - start;
  RP_ASSIGN(std::vector<HostTensor> outputs, run_session(*session, inputs));
  m.first_run_ms = now_ms() - loaded;
  RP_TRY(timed_runs(*session, inputs, options, m));
  const StepCounts counts = count_steps(session->plan(m.plan));
  m.kernels = counts.kernels;
  m.dispatches = counts.launches;
  m.host_calls = counts.host_calls;
  for (const package::DeviceBody* body : bodies_of(model, *session)) {
    const StepCounts own = count_steps(body->plan);
    m.kernels += own.kernels;
    m.dispatches += own.launches;
    m.host_calls += own.host_calls;
  }
  m.device_bytes = session->stats().device_bytes;
  session.reset();
  if (expected) {
    const Comparison c = compare_outputs(model, outputs, *expected);
    m.max_error = c.max_error;
    m.max_relative = c.max_relative;
    m.ok = c.ok;
    m.reason = c.reason;
  }
  if (options.device_times && device.device && m.dispatches > 0) {
    RP_TRY(device_times(model, device, inputs, common, m));
  }
  return m;
}

Json measurement_json(const Measurement& m) {
  Json launches = Json::array();
  for (const LaunchTime& l : m.launches) {
    launches.push_back({{"kernel", l.kernel},
                        {"schedule", l.schedule},
                        {"body", l.body.empty() ? Json() : Json(l.body)},
                        {"nodes", l.nodes},
                        {"us", l.us},
                        {"first_us", l.first_us}});
  }
  return {{"model", m.model},
          {"device", m.device},
          {"mode", m.mode},
          {"kernels", m.kernels},
          {"dispatches", m.dispatches},
          {"host_calls", m.host_calls},
          {"compile_ms", m.compile_ms},
          {"load_ms", m.load_ms},
          {"first_run_ms", m.first_run_ms},
          {"median_ms", m.median_ms},
          {"p10_ms", m.p10_ms},
          {"p90_ms", m.p90_ms},
          {"device_ms", m.device_ms < 0 ? Json() : number(m.device_ms)},
          {"timed_run_ms", m.timed_run_ms < 0 ? Json() : number(m.timed_run_ms)},
          {"launches", std::move(launches)},
          {"host_submit_us", m.host_submit_us},
          {"longest_slice_us", m.longest_slice_us > 0 ? number(m.longest_slice_us) : Json()},
          {"max_error", m.max_error < 0 ? Json() : number(m.max_error)},
          {"max_relative_error", m.max_relative < 0 ? Json() : number(m.max_relative)},
          {"ok", m.ok},
          {"device_bytes", m.device_bytes},
          {"runs", m.runs}};
}

Table measurement_table() {
  return Table({"model", "device", "kernels", "dispatches", "compile ms", "load ms", "first ms",
                "median ms", "p10", "p90", "device ms", "submit us", "max error", "memory"});
}

void add_row(Table& table, const Measurement& m) {
  const std::filesystem::path path = utf8_path(m.model);
  const bool named_by_folder = path.filename() == "model.onnx" && path.has_parent_path();
  const std::string name = utf8_text(
      named_by_folder ? std::filesystem::absolute(path).parent_path().filename() : path.filename());
  table.add({name, m.device, std::to_string(m.kernels), std::to_string(m.dispatches),
             format_number(m.compile_ms), format_number(m.load_ms), format_number(m.first_run_ms),
             format_number(m.median_ms), format_number(m.p10_ms), format_number(m.p90_ms),
             format_number(m.device_ms), format_number(m.host_submit_us),
             format_number(m.max_error), format_bytes(static_cast<int64_t>(m.device_bytes))});
}

Table launch_table(const Measurement& m) {
  std::vector<LaunchTime> sorted = m.launches;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const LaunchTime& a, const LaunchTime& b) { return a.us > b.us; });
  Table table({"us", "share", "first us", "kernel", "schedule", "nodes"});
  for (const LaunchTime& l : sorted) {
    std::string nodes = join_some(l.nodes, " ", kMostNodes);
    if (!l.body.empty()) nodes += " (" + l.body + ")";
    table.add({format_number(l.us), format_number(l.us / m.device_ms / 10) + " %",
               format_number(l.first_us), l.kernel, l.schedule, nodes});
  }
  return table;
}

}  // namespace reprise::app
