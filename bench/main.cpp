// reprise_bench: measures the gains of fusion, schedules and replay, each against a baseline in the
// same process.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/common/devices.h"
#include "apps/common/status.h"
#include "bench/attention.h"
#include "bench/bandwidth.h"
#include "bench/baselines.h"
#include "bench/harness.h"
#include "bench/models.h"

namespace reprise::bench {
namespace {

using Json = nlohmann::ordered_json;

Status pointwise(const Request& r) {
  const std::string model = pointwise_model(1024, 4096);
  RP_ASSIGN(auto fused, r.compile(model));
  RP_ASSIGN(auto unfused, r.compile(model, {"fusion"}));
  RP_ASSIGN(const auto t, time_packages({fused, unfused}, r.device, r.runs));
  const auto launches = [](const Timing& x) { return std::to_string(x.launches) + " launches"; };
  r.line({"pointwise 1024x4096, " + launches(t[0]), "without fusion, " + launches(t[1]),
          t[0].median_ms, t[1].median_ms, "ms", t[1].median_ms / t[0].median_ms, 3});
  return {};
}

/// Compares the bandwidth of gelu, with bytes counted once when read and written, with a copy.
Status gelu(const Request& r) {
  constexpr int64_t kCount = int64_t{4} << 20;
  RP_ASSIGN(auto model, r.compile(gelu_model(kCount)));
  RP_ASSIGN(const ChainSpec spec, copy(kCount, r.device->info().facts));
  RP_ASSIGN(auto baseline, chain_package(spec, r.device->info()));
  RP_ASSIGN(const auto t, time_packages({model, baseline}, r.device, r.runs));
  const auto gbs = [](const Timing& x) { return 8e-6 * kCount / x.median_ms; };
  r.line({"gelu(x*a+b), 4M floats", "copy", gbs(t[0]), gbs(t[1]), "GB/s", gbs(t[0]) / gbs(t[1]),
          0.35});
  return {};
}

Status matmul(const Request& r) {
  constexpr int64_t kSize = 512;
  RP_ASSIGN(auto model, r.compile(matmul_model(kSize)));
  ChainSpec naive;
  RP_ASSIGN(naive.kernel, naive_matmul_kernel(kSize));
  naive.inputs = {{kSize, kSize}, {kSize, kSize}};
  naive.output = {kSize, kSize};
  naive.grid = {kSize / 8, kSize / 8, 1};
  RP_ASSIGN(auto baseline, chain_package(naive, r.device->info()));
  RP_ASSIGN(const auto t, time_packages({model, baseline}, r.device, r.runs));
  const auto gflops = [](const Timing& x) { return 2e-6 * kSize * kSize * kSize / x.median_ms; };
  r.line({"matmul 512^3", "one output per invocation", gflops(t[0]), gflops(t[1]), "GF/s",
          gflops(t[0]) / gflops(t[1]), 15});
  return {};
}

/// Compares the host time of a run of 1,000 launches with that of 10.
Status replay(const Request& r) {
  const auto chain_of = [&r](size_t launches) -> Result<PackagePtr> {
    ChainSpec chain;
    RP_ASSIGN(chain.kernel, tiny_kernel());
    chain.inputs = {{64}};
    chain.output = {64};
    chain.launches = launches;
    return chain_package(chain, r.device->info());
  };
  RP_ASSIGN(const PackagePtr large, chain_of(1000));
  RP_ASSIGN(const PackagePtr small, chain_of(10));
  // A thread that has waited long has cold caches. With a pause before each run, both have.
  RP_ASSIGN(const auto t,
            time_packages({large, small}, r.device, r.runs, std::chrono::milliseconds(2)));
  r.line({"submit of 1,000 launches", "of 10 launches", t[0].submit_us, t[1].submit_us, "us",
          t[1].submit_us / t[0].submit_us, 0.5});
  return {};
}

Json row_json(const Row& r) {
  return {{"name", r.name},           {"baseline", r.baseline}, {"value", r.value},
          {"baseline_value", r.base}, {"unit", r.unit},         {"ratio", r.ratio},
          {"wanted", r.wanted}};
}

struct Scenario {
  const char* name;
  Status (*measure)(const Request&);
};
constexpr Scenario kScenarios[] = {{"pointwise", pointwise}, {"gelu", gelu},
                                   {"matmul", matmul},       {"replay", replay},
                                   {"bandwidth", bandwidth}, {"attention", attention}};

std::vector<std::string> scenario_names() {
  std::vector<std::string> out;
  for (const Scenario& s : kScenarios) out.emplace_back(s.name);
  return out;
}

struct Options {
  std::string device = "vulkan";
  std::string json;
  std::string only, filter;
  int runs = 30;
};

Status write_json(const Json& document, const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  out << document.dump(2) << "\n";
  out.close();
  return out ? Status() : app::file_error("cannot write", path);
}

Result<int> run(const Options& o, const std::string& command) {
  RP_ASSIGN(OpenedDevice device, app::open_named_device(o.device, app::default_backend_options()));
  if (!device.device) return Status(Code::Usage, "--device must be a Vulkan or CUDA device");
  std::printf("%s\n%s: %s\n\n%-34s %10s %6s  %-30s %10s %7s %7s\n", command.c_str(),
              device.info.id.c_str(), device.info.name.c_str(), "", "result", "", "against",
              "result", "ratio", "wanted");
  Json rows = Json::array();
  int status = app::kDone;
  const auto line = [&](const Row& row) {
    std::printf("%-34s %10.2f %-6s  %-30s %10.2f %7.2f %7.2f\n", row.name.c_str(), row.value,
                row.unit.c_str(), row.baseline.c_str(), row.base, row.ratio, row.wanted);
    std::fflush(stdout);
    rows.push_back(row_json(row));
  };
  for (const Scenario& s : kScenarios) {
    if (!o.only.empty() && o.only != s.name) continue;
    const Status measured = s.measure({device.device, o.runs, o.filter, line});
    if (!measured.ok()) status = app::report(measured.with_context(s.name));
  }
  if (!o.json.empty()) {
    RP_TRY(
        write_json({{"command", command}, {"device", device.info.name}, {"rows", rows}}, o.json));
  }
  return status;
}

int parse_and_run(int argc, char** argv) {
  Options o;
  CLI::App app{"Measures the gains of fusion, schedules and replay."};
  app.add_option("--device", o.device, "A Vulkan or CUDA device: vulkan[:N], cuda[:N]")
      ->capture_default_str();
  app.add_option("--runs", o.runs, "Measured runs")
      ->check(CLI::Range(3, 10000))
      ->capture_default_str();
  app.add_option("--only", o.only, "A part of the measurements")
      ->check(CLI::IsMember(scenario_names()));
  app.add_option("--filter", o.filter,
                 "For bandwidth and attention: only lines whose name contains it");
  app.add_option("--json", o.json, "Write results as JSON to a file");
  app.footer(
      "Inputs and outputs stay on the device; times are medians of whole runs; of attention, the "
      "best.\n"
      "Example: build/bin/reprise_bench --device vulkan:0 --json bench.json");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : app::kUsage;
  }
  std::string command;
  for (int i = 0; i < argc; ++i) command += (i ? " " : "") + std::string(argv[i]);
  Result<int> status = run(o, command);
  return status.ok() ? *status : app::report(status.status());
}

}  // namespace
}  // namespace reprise::bench

int main(int argc, char** argv) {
  return reprise::app::guarded_main(reprise::bench::parse_and_run, argc, argv);
}
