// reprise_bench: what fusion, schedules and replay are worth, each against a baseline that is
// measured in the same process.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/common/devices.h"
#include "apps/common/status.h"
#include "bench/baselines.h"
#include "bench/harness.h"
#include "bench/models.h"

namespace reprise::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Row {
  std::string name;      // what is measured
  std::string baseline;  // against what
  double value = 0, base = 0;
  std::string unit;
  double ratio = 0;   // better than the baseline by this factor
  double wanted = 0;  // what the project asks for
};

using DevicePtr = std::shared_ptr<Device>;

Result<Row> pointwise(const DevicePtr& device, int runs) {
  const std::string model = pointwise_model(1024, 4096);
  RP_ASSIGN(auto fused, compile_model(model));
  RP_ASSIGN(auto unfused, compile_model(model, {"fusion"}));
  RP_ASSIGN(const Timing fast, time_package(fused, device, runs));
  RP_ASSIGN(const Timing slow, time_package(unfused, device, runs));
  const auto launches = [](const Timing& t) { return std::to_string(t.launches) + " launches"; };
  return Row{"pointwise 1024x4096, " + launches(fast),
             "without fusion, " + launches(slow),
             fast.median_ms,
             slow.median_ms,
             "ms",
             slow.median_ms / fast.median_ms,
             3};
}

/// Bytes read and written once, over the time of a run.
Result<Row> gelu(const DevicePtr& device, int runs) {
  constexpr int64_t kCount = int64_t{4} << 20;
  const DeviceFacts& facts = device->info().facts;
  RP_ASSIGN(auto model, compile_model(gelu_model(kCount)));
  ChainSpec copy;
  RP_ASSIGN(copy.kernel, copy_kernel(kCount, facts));
  copy.inputs = {{kCount}};
  copy.output = {kCount};
  copy.grid = {copy_groups(kCount, facts), 1, 1};
  RP_ASSIGN(auto baseline, chain_package(copy));
  RP_ASSIGN(const Timing ours, time_package(model, device, runs));
  RP_ASSIGN(const Timing base, time_package(baseline, device, runs));
  const auto gbs = [](const Timing& t) { return 8e-6 * kCount / t.median_ms; };
  return Row{"gelu(x*a+b), 4M floats", "copy", gbs(ours), gbs(base), "GB/s",
             gbs(ours) / gbs(base),    0.35};
}

Result<Row> matmul(const DevicePtr& device, int runs) {
  constexpr int64_t kSize = 512;
  RP_ASSIGN(auto model, compile_model(matmul_model(kSize)));
  ChainSpec naive;
  RP_ASSIGN(naive.kernel, naive_matmul_kernel(kSize));
  naive.inputs = {{kSize, kSize}, {kSize, kSize}};
  naive.output = {kSize, kSize};
  naive.grid = {kSize / 8, kSize / 8, 1};
  RP_ASSIGN(auto baseline, chain_package(naive));
  RP_ASSIGN(const Timing ours, time_package(model, device, runs));
  RP_ASSIGN(const Timing base, time_package(baseline, device, std::max(3, runs / 5)));
  const auto gflops = [](const Timing& t) { return 2e-6 * kSize * kSize * kSize / t.median_ms; };
  return Row{"matmul 512^3",
             "one output per invocation",
             gflops(ours),
             gflops(base),
             "GF/s",
             gflops(ours) / gflops(base),
             15};
}

/// Host cost of a run of 1,000 launches, against one of 10.
Result<Row> replay(const DevicePtr& device, int runs) {
  const auto submit = [&](size_t launches) -> Result<double> {
    ChainSpec chain;
    RP_ASSIGN(chain.kernel, tiny_kernel());
    chain.inputs = {{64}};
    chain.output = {64};
    chain.launches = launches;
    RP_ASSIGN(auto package, chain_package(chain));
    // A thread that just waited long comes back to cold caches; after a pause, both do.
    RP_ASSIGN(const Timing t, time_package(package, device, runs, std::chrono::milliseconds(2)));
    return t.submit_us;
  };
  RP_ASSIGN(const double small, submit(10));
  RP_ASSIGN(const double large, submit(1000));
  return Row{"submit of 1,000 launches", "of 10 launches", large, small, "us", small / large, 0.5};
}

Json row_json(const Row& r) {
  return {{"name", r.name},           {"baseline", r.baseline}, {"value", r.value},
          {"baseline_value", r.base}, {"unit", r.unit},         {"ratio", r.ratio},
          {"wanted", r.wanted}};
}

struct Options {
  std::string device = "vulkan";
  std::string json;
  std::string only;
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
  if (!device.device) return Status(Code::Usage, "--device must be a Vulkan device");
  std::printf("%s\n%s: %s\n\n%-34s %10s %6s  %-30s %10s %7s %7s\n", command.c_str(),
              device.info.id.c_str(), device.info.name.c_str(), "", "result", "", "against",
              "result", "ratio", "wanted");
  struct Scenario {
    const char* name;
    Result<Row> (*measure)(const DevicePtr&, int);
  };
  static constexpr Scenario scenarios[] = {
      {"pointwise", pointwise}, {"gelu", gelu}, {"matmul", matmul}, {"replay", replay}};
  Json rows = Json::array();
  int status = app::kDone;
  for (const Scenario& s : scenarios) {
    if (!o.only.empty() && o.only != s.name) continue;
    Result<Row> row = s.measure(device.device, o.runs);
    if (!row.ok()) {
      status = app::report(row.status().with_context(s.name));
      continue;
    }
    std::printf("%-34s %10.2f %-6s  %-30s %10.2f %7.2f %7.2f\n", row->name.c_str(), row->value,
                row->unit.c_str(), row->baseline.c_str(), row->base, row->ratio, row->wanted);
    rows.push_back(row_json(*row));
  }
  if (!o.json.empty()) {
    RP_TRY(
        write_json({{"command", command}, {"device", device.info.name}, {"rows", rows}}, o.json));
  }
  return status;
}

}  // namespace
}  // namespace reprise::bench

int main(int argc, char** argv) {
  reprise::bench::Options o;
  CLI::App app{"Measures what fusion, schedules and replay are worth."};
  app.add_option("--device", o.device, "A Vulkan device: vulkan[:N]")->capture_default_str();
  app.add_option("--runs", o.runs, "Measured runs")
      ->check(CLI::Range(3, 10000))
      ->capture_default_str();
  app.add_option("--only", o.only, "One of: pointwise, gelu, matmul, replay")
      ->check(CLI::IsMember({"pointwise", "gelu", "matmul", "replay"}));
  app.add_option("--json", o.json, "Write results as JSON to a file");
  app.footer(
      "Inputs and outputs stay on the device; times are medians of whole runs.\n"
      "Example: build/bin/reprise_bench --device vulkan:0 --json bench.json");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : reprise::app::kUsage;
  }
  std::string command;
  for (int i = 0; i < argc; ++i) command += (i ? " " : "") + std::string(argv[i]);
  reprise::Result<int> status = reprise::bench::run(o, command);
  return status.ok() ? *status : reprise::app::report(status.status());
}
