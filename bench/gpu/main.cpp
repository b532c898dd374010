// reprise_gpubench: compares Reprise on CUDA and Vulkan with NVIDIA's libraries on a GPU, in one
// process and in turn.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>

#include "apps/common/devices.h"
#include "apps/common/status.h"
#include "bench/gpu/peers.h"
#include "bench/gpu/report.h"
#include "bench/gpu/tune.h"
#include "runtime/base/timing.h"
#include "runtime/platform/parallel.h"

namespace reprise::bench::gpu {
namespace {

struct Options {
  std::string device = "cuda:0", vulkan = "auto", models = "../shared/models", filter, json;
  std::vector<std::string> groups;
  std::string compile_only;  // for this architecture
  double time_limit = 0;
  bool quick = false, list = false, tune = false;
  MeasureOptions measure;
};

/// The devices to measure.
struct Devices {
  std::shared_ptr<Device> cuda, vulkan;
  std::string no_vulkan;  // if there is no Vulkan device: why
};

/// The id of the same GPU as a Vulkan device; empty, with the reason in `why`, if there is none.
std::string find_vulkan(const DeviceInfo& gpu, std::string& why) {
  const std::vector<DeviceInfo> all = list_devices();
  why = "no Vulkan device has the UUID of " + gpu.name;
  for (const DeviceInfo& d : all) {
    if (d.facts.api != Api::Vulkan || std::memcmp(d.uuid, gpu.uuid, sizeof d.uuid) != 0) continue;
    if (d.usable) return d.id;
    why = d.id + ": " + d.reason;
  }
  return {};
}

Result<Devices> open_devices(const Options& o) {
  const BackendOptions options = app::default_backend_options();
  Devices out;
  RP_ASSIGN(const OpenedDevice cuda, app::open_named_device(o.device, options));
  if (!cuda.device || cuda.info.facts.api != Api::Cuda)
    return Status(Code::Usage, "--device must be a CUDA device, such as cuda:0");
  out.cuda = cuda.device;
  if (o.vulkan == "off") {
    out.no_vulkan = "--vulkan off";
    return out;
  }
  std::string id = o.vulkan;
  if (id == "auto") id = find_vulkan(cuda.info, out.no_vulkan);
  if (id.empty()) return out;
  RP_ASSIGN(const OpenedDevice vulkan, app::open_named_device(id, options));
  if (!vulkan.device || vulkan.info.facts.api != Api::Vulkan)
    return Status(Code::Usage, "--vulkan must be a Vulkan device, auto or off");
  out.vulkan = vulkan.device;
  return out;
}

/// Every case, or of those to tune the most telling ones, unless a filter names others.
std::vector<Case> cases_of(const Options& o) {
  const Sizes sizes{o.quick, o.models};
  return o.tune && o.filter.empty() ? tuned_cases(sizes) : all_cases(sizes);
}

bool wanted(const Case& c, const Options& o) {
  const bool named = (c.name + " " + dtype_name(c.dtype)).find(o.filter) != std::string::npos;
  return named && (o.groups.empty() || std::ranges::find(o.groups, c.group) != o.groups.end());
}

Result<Tensors> values_of(const Case& c) {
  if (c.load) return c.load();
  Tensors values;
  values.reserve(c.operands.size());
  for (const Operand& operand : c.operands) values.push_back(made_up(operand));
  return values;
}

Json device_json(const DeviceInfo& d) {
  return {{"id", d.id}, {"name", d.name}, {"driver", d.driver}, {"api", d.api}};
}

class Bench {
 public:
  Bench(const Options& options, Devices devices, std::string command)
      : o_(options), devices_(std::move(devices)), command_(std::move(command)) {}

  Result<int> run() {
    const DeviceInfo& gpu = devices_.cuda->info();
    const std::string ordinal = gpu.id.substr(gpu.id.find(':') + 1);
    RP_ASSIGN(context_, PeerContext::open(std::atoi(ordinal.c_str())));
    peers_ = Peers::open(context_);
    describe();
    print_heading();
    const double end = now_ms() + o_.time_limit * 1000;
    for (Case& c : all_cases({o_.quick, o_.models})) {
      if (!wanted(c, o_)) continue;
      if (o_.time_limit > 0 && now_ms() > end) {
        document_["stopped"] = "the time limit was reached before '" + c.name + "'";
        std::printf("stopped: the time limit was reached\n");
        break;
      }
      RP_TRY(one(c));
    }
    RP_TRY(write());
    return wrong_ ? app::kDiffers : app::kDone;
  }

 private:
  void describe() {
    document_ = {{"command", command_}, {"device", device_json(devices_.cuda->info())}};
    document_["memory"] = context_->memory;
    if (devices_.vulkan) document_["vulkan"] = device_json(devices_.vulkan->info());
    document_["peers"] = peers_.versions;
    auto missing = peers_.missing;
    if (!devices_.vulkan) missing["reprise vulkan"] = devices_.no_vulkan;
    document_["missing"] = missing;
    document_["cases"] = Json::array();
    const DeviceInfo& gpu = devices_.cuda->info();
    std::printf("%s\n%s: %s, %s, %s\n", command_.c_str(), gpu.id.c_str(), gpu.name.c_str(),
                gpu.driver.c_str(), gpu.api.c_str());
    for (const auto& [name, version] : peers_.versions)
      std::printf("%s %s\n", name.c_str(), version.c_str());
    for (const auto& [name, why] : missing)
      std::printf("without %s: %s\n", name.c_str(), why.c_str());
    std::printf("\n");
  }

  Status one(Case& c) {
    std::vector<Measured> rows;
    if (c.skip.empty()) rows = measured(c);
    print_case(c, rows);
    for (const Measured& m : rows)
      wrong_ |= m.name.starts_with("reprise") && (m.status == "wrong" || m.status == "failed");
    document_["cases"].push_back(case_json(c, rows));
    return write();
  }

  std::vector<Measured> measured(Case& c) {
    Result<Tensors> loaded = values_of(c);
    if (!loaded.ok()) {
      c.skip = loaded.status().message();
      return {};
    }
    const Tensors values = std::move(*loaded);
    const Result<std::vector<Entry>> entries =
        o_.tune ? candidates(c, values) : contenders(c, values);
    if (!entries.ok()) c.skip = entries.status().message();
    if (!entries.ok() || entries->empty()) return {};
    return measure(c, values, *entries, context_->memory, o_.measure);
  }

  Result<std::vector<Entry>> contenders(const Case& c, const Tensors& values) {
    std::vector<Entry> entries;
    for (const std::shared_ptr<Device>& device : {devices_.cuda, devices_.vulkan}) {
      if (!device) continue;
      for (const Form& form : forms_for(device->info().facts, nvidia_)) {
        const auto make = [&c, &values, device, form] {
          return our_contender(c, values, device, options_of(device->info(), form));
        };
        entries.push_back({form.who, c.dtype, make, c.unfit ? c.unfit(device->info().facts) : ""});
      }
    }
    for (Entry& e : peers_of(c, values, peers_)) entries.push_back(std::move(e));
    return entries;
  }

  Result<std::vector<Entry>> candidates(Case& c, const Tensors& values) {
    std::vector<Entry> entries;
    for (const std::shared_ptr<Device>& device : {devices_.cuda, devices_.vulkan}) {
      if (!device) continue;
      for (const Form& form : forms_for(device->info().facts, nvidia_)) {
        RP_ASSIGN(std::vector<Entry> more, candidates_of(c, values, device, form));
        for (Entry& e : more) entries.push_back(std::move(e));
      }
    }
    if (entries.empty()) c.skip = "it has no kernel, or several, with a choice of schedules";
    return entries;
  }

  Status write() const { return o_.json.empty() ? Status() : write_atomically(document_, o_.json); }

  const Options& o_;
  Devices devices_;
  std::string command_;
  std::shared_ptr<const PeerContext> context_;
  Peers peers_;
  Json document_;
  bool wrong_ = false;
  const bool nvidia_ = check_nvidia_driver().ok();
};

Result<int> list_cases(const Options& o) {
  for (const Case& c : cases_of(o)) {
    std::printf("%s %s%s%s\n", c.name.c_str(), dtype_name(c.dtype).c_str(),
                c.skip.empty() ? "" : ": ", c.skip.c_str());
  }
  return app::kDone;
}

/// Fills the cache of images, so that the measured program compiles nothing.
Result<int> compile_only(const Options& o) {
  RP_ASSIGN(const DeviceInfo device, described_device(o.compile_only));
  std::vector<Case> cases = cases_of(o);
  std::erase_if(cases, [&](const Case& c) {
    const bool fits = c.skip.empty() && (!c.unfit || c.unfit(device.facts).empty());
    return !wanted(c, o) || !fits;
  });
  std::mutex mutex;
  Status failed;
  // Most of the time goes into constants, not into kernels, so cases are compiled side by side.
  RP_TRY(in_parallel(cases.size(), {}, "cases are compiled", [&](size_t i) {
    const Case& c = cases[i];
    Result<Tensors> values = values_of(c);
    const Status compiled =
        values.ok() ? compile_case(c, *values, device, o.tune) : values.status();
    const std::lock_guard lock(mutex);
    if (!compiled.ok() && failed.ok()) failed = compiled.with_context(c.name);
    if (!compiled.ok()) return;
    std::printf("compiled %s %s\n", c.name.c_str(), dtype_name(c.dtype).c_str());
    std::fflush(stdout);
  }));
  RP_TRY(failed);
  return app::kDone;
}

void add_options(CLI::App& app, Options& o) {
  app.add_option("--device", o.device, "The GPU: cuda[:N]")->capture_default_str();
  app.add_option("--vulkan", o.vulkan,
                 "auto (the same GPU through Vulkan, if it is listed), off, or vulkan:N")
      ->capture_default_str();
  app.add_option("--models", o.models, "Folder of model cases")->capture_default_str();
  app.add_option("--filter", o.filter, "Cases whose name and dtype contain it: 'matmul 4096 fp16'");
  app.add_option(
         "--group", o.groups,
         "Cases of these groups: copy, pointwise, matmul, softmax, attention, model, replay, "
         "conv, constants")
      ->delimiter(',');
  app.add_flag("--quick", o.quick, "Small sizes, fewer cases");
  app.add_flag(
      "--tune", o.tune,
      "Measure each schedule that the compiler could choose, and no peers: of twelve cases, "
      "or of those that --filter names");
  app.add_option("--compile-only", o.compile_only,
                 "Measure nothing: compile the cases for an architecture (sm_90) into the cache of "
                 "CUDA kernels; needs no GPU");
  app.add_option("--runs", o.measure.runs, "Maximum number of rounds of a case")
      ->check(CLI::Range(3, 10000))
      ->capture_default_str();
  app.add_option("--seconds", o.measure.seconds, "Time limit for the rounds of a case, at least 3")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--time-limit", o.time_limit, "Start no case after these seconds; 0: no limit");
  app.add_option("--json", o.json, "Write results to a file, again after each case");
  app.add_flag("--list", o.list, "List the cases and measure nothing; needs no GPU");
  app.footer(
      "Inputs and outputs stay in device memory. In each round all contenders run once, the order\n"
      "rotates; 'wall ms' is the median of a whole run from its call until the host knows that it\n"
      "ended. 'device ms' comes from runs with timestamps: kernels' sum for us, from first to "
      "last\n"
      "for peers. 'error' is the largest, as a fraction of the largest value; who exceeds fp32\n"
      "1e-4, fp16 (and TF32) 1e-2, bf16 2e-2 is wrong and not timed. cuBLAS and cuDNN are used\n"
      "where they are found. REPRISE_NVRTC names the library that compiles kernels.\n"
      "Exit status: 0 done, 1 a result of ours was wrong or failed, 2 usage, 4 no such device.\n"
      "Example: reprise_gpubench --device cuda:0 --filter matmul --json matmul.json");
}

int parse_and_run(int argc, char** argv) {
  Options o;
  CLI::App app{"Measures Reprise on a GPU, on CUDA and on Vulkan, beside cuBLAS and cuDNN."};
  add_options(app, o);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? app::kDone : app::kUsage;
  }
  std::string command;
  for (int i = 0; i < argc; ++i) command += (i ? " " : "") + std::string(argv[i]);
  const auto run = [&]() -> Result<int> {
    if (o.list) return list_cases(o);
    if (!o.compile_only.empty()) return compile_only(o);
    RP_ASSIGN(Devices devices, open_devices(o));
    return Bench(o, std::move(devices), command).run();
  };
  const Result<int> status = run();
  return status.ok() ? *status : app::report(status.status());
}

}  // namespace
}  // namespace reprise::bench::gpu

int main(int argc, char** argv) {
  return reprise::app::guarded_main(reprise::bench::gpu::parse_and_run, argc, argv);
}
