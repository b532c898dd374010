#include <algorithm>
#include <filesystem>
#include <map>

#include "apps/reprise/check_graphs.h"
#include "apps/reprise/command.h"
#include "codegen/graph/graph.h"
#include "runtime/check/check.h"
#include "runtime/platform/path.h"

namespace reprise::app {

namespace {

struct CheckCommand {
  CommonOptions common;
  std::string model;
  unsigned runs = 3;
};

/// A model, or one of the built-in graphs.
struct Subject {
  std::string name;
  std::string path;            // of a model
  const char* text = nullptr;  // of a graph
  bool compiled() const { return path.ends_with(".rpk"); }
};

/// `alone`: compile only the variant for this device; otherwise every variant that it can use.
Result<std::shared_ptr<const package::Package>> package_of(const Subject& s, const CheckCommand& o,
                                                           const OpenedDevice& device, bool alone) {
  if (s.compiled()) return package::read(s.path);
  RP_ASSIGN(CompileOptions compile, o.common.compile_options());
  compile.targets = targets_for(device);
  if (alone) compile_for(device.info, compile);
  compile.probes = true;
  if (s.text == nullptr) {
    RP_ASSIGN(Model model, load_model(s.path, compile));
    return std::shared_ptr<const package::Package>(std::move(model.package));
  }
  RP_ASSIGN(auto graph, graph::parse(s.text));
  RP_ASSIGN(package::Package package, reprise::compile(std::move(graph), compile));
  return std::shared_ptr<const package::Package>(
      std::make_shared<const package::Package>(std::move(package)));
}

bool failed(const KernelCheck& c) {
  return c.verdict != KernelVerdict::Pass && c.verdict != KernelVerdict::Skipped;
}

class Check {
 public:
  Check(const CheckCommand& o, const Output& out) : o_(o), out_(out) {}

  Result<int> run() {
    RP_TRY(choose_devices());
    std::vector<Subject> subjects;
    if (!o_.model.empty()) {
      subjects.push_back({utf8_text(utf8_path(o_.model).filename()), o_.model, nullptr});
    } else {
      for (const CheckGraph& g : check_graphs()) subjects.push_back({g.name, {}, g.text});
    }
    for (const std::string& id : ids_) {
      CommonOptions own = o_.common;
      own.device = id;
      RP_ASSIGN(OpenedDevice device, open_selected(own, {}));
      if (!device.device)
        return Status(Code::Usage, "the host runs no kernels; choose a Vulkan or CUDA device");
      for (const Subject& s : subjects) {
        const Status checked = check(s, device);
        if (checked.ok()) continue;
        // A device error does not affect other models and devices; any other error ends the
        // command.
        if (!is_device_failure(checked.code())) return checked.with_context(s.name);
        add(s, device.info, {"", KernelVerdict::Error, 0, checked.message()}, {});
      }
    }
    return finish();
  }

 private:
  Status choose_devices() {
    if (o_.common.device != "auto") {
      ids_ = {o_.common.device};
      return {};
    }
    for (const DeviceInfo& d : list_devices()) {
      if (!d.usable || d.facts.api == Api::Host) continue;
      const std::string why =
          refusal(d, o_.model.empty() ? std::vector<std::string>{} : std::vector{o_.model},
                  o_.common.nvrtc);
      if (why.empty()) {
        ids_.push_back(d.id);
      } else {
        note(d.id + " is not checked: " + why);
      }
    }
    if (ids_.empty())
      return {Code::Device, "there is no device whose kernels can be checked; see reprise devices"};
    return {};
  }

  Status check(const Subject& s, const OpenedDevice& device) {
    RP_ASSIGN(auto package, package_of(s, o_, device, true));
    const size_t first = next_variant(*package, device.info.facts, 0);
    if (first == package->variants.size())
      return unsupported("no variant fits " + device.info.id + ": " +
                         why_unfit(*package, device.info.facts));
    RP_ASSIGN(const auto checks, run_probes(*package, package->variants[first], device));
    std::string replaced_by;
    if (std::any_of(checks.begin(), checks.end(), failed)) {
      // For CUDA there is only one variant per device.
      if (!s.compiled() && device.info.facts.api == Api::Vulkan) {
        RP_ASSIGN(package, package_of(s, o_, device, false));
      }
      RP_ASSIGN(replaced_by, replacement(*package, device));
    }
    for (const KernelCheck& c : checks) {
      add(s, device.info, c, failed(c) ? replaced_by : std::string());
    }
    return {};
  }

  static size_t next_variant(const package::Package& p, const DeviceFacts& facts, size_t from) {
    while (from < p.variants.size() && !p.variants[from].predicate.mismatch(facts).empty()) ++from;
    return from;
  }

  Result<std::vector<KernelCheck>> run_probes(const package::Package& p, const package::Variant& v,
                                              const OpenedDevice& device) const {
    RP_ASSIGN(std::vector<KernelCheck> all, run_own_probes(p, v, device));
    const auto add = [&](const package::CompiledPlan& other) {
      RP_ASSIGN(const auto checks, run_own_probes(p, other, device));
      all.insert(all.end(), checks.begin(), checks.end());
      return Status();
    };
    for (const package::SizedPlan& plan : v.plans) RP_TRY(add(plan));
    for (const package::DeviceBody& body : v.bodies) RP_TRY(add(body));
    return all;
  }

  Result<std::vector<KernelCheck>> run_own_probes(const package::Package& p,
                                                  const package::CompiledPlan& v,
                                                  const OpenedDevice& device) const {
    RP_ASSIGN(const auto code, package::load_kernels(p, v));
    RP_ASSIGN(const auto kernels, device.device->create_kernels(code));
    CheckOptions options;
    options.runs = o_.runs;
    return check_kernels(*device.device, v, kernels, options);
  }

  /// The first later variant whose kernels pass, or the host.
  Result<std::string> replacement(const package::Package& p, const OpenedDevice& device) const {
    const DeviceFacts& facts = device.info.facts;
    size_t v = next_variant(p, facts, 0);
    for (v = next_variant(p, facts, v + 1); v < p.variants.size();
         v = next_variant(p, facts, v + 1)) {
      const auto checks = run_probes(p, p.variants[v], device);
      if (checks.ok() && std::none_of(checks->begin(), checks->end(), failed))
        return p.variants[v].name;
    }
    return std::string("host");
  }

  void add(const Subject& s, const DeviceInfo& device, const KernelCheck& c,
           const std::string& replaced_by) {
    const std::string status(name_of(c.verdict));
    ++counts_[status];
    wrong_ = wrong_ || failed(c);
    list_.push_back({{"device", device.id},
                     {"driver", device.driver},
                     {"model", s.name},
                     {"kernel", c.kernel},
                     {"status", status},
                     {"max_error", number(c.max_error)},
                     {"reason", c.reason},
                     {"replaced_by", replaced_by}});
    const bool told = c.verdict != KernelVerdict::Pass;
    if (told || o_.common.verbose || !o_.model.empty())
      table_.add({device.id, s.name, c.kernel, status, format_number(c.max_error), replaced_by});
    if (told) reasons_.push_back(device.id + " " + s.name + " " + c.kernel + ": " + c.reason);
  }

  Result<int> finish() {
    if (!table_.empty()) out_.table(table_);
    for (const std::string& line : reasons_) out_.text(line + "\n");
    std::string total;
    for (const auto& [status, n] : counts_)
      total += (total.empty() ? "" : ", ") + std::to_string(n) + " " + status;
    std::string devices;
    for (const std::string& id : ids_) devices += (devices.empty() ? "" : ", ") + id;
    out_.text("kernels on " + devices + ": " + (total.empty() ? "none" : total) + "\n");
    RP_TRY(out_.json(list_));
    if (wrong_) note("a driver gives wrong results; see docs/trust.md for what to do");
    return wrong_ ? kDiffers : kDone;
  }

  const CheckCommand& o_;
  const Output& out_;
  std::vector<std::string> ids_;
  Table table_{{"device", "model", "kernel", "status", "max error", "replaced by"}};
  Json list_ = Json::array();
  std::vector<std::string> reasons_;
  std::map<std::string, size_t> counts_;
  bool wrong_ = false;
};

}  // namespace

void register_check(CLI::App& root, int& status) {
  auto o = std::make_shared<CheckCommand>();
  CLI::App* command =
      root.add_subcommand("check", "Check alone whether the driver compiles each kernel correctly");
  command->add_option("MODEL", o->model,
                      "An .onnx or a compiled .rpk; without it, small graphs of every kind");
  command->add_option("--runs", o->runs, "Runs of each kernel, compared bit by bit")
      ->check(CLI::Range(1U, 1'000'000U))
      ->capture_default_str();
  add_common(*command, o->common);
  command->footer(
      "Every device is checked unless --device names one. Kernels run on seeded inputs; an\n"
      "interpreter computed the expected results when they were compiled. A status is pass, "
      "wrong,\n"
      "varies (runs differ from each other), error, or skipped (the kernel has no probe; the\n"
      "reason is printed). The exit status is 1 if a kernel is wrong, varies or ends with an "
      "error.\n"
      "Examples: reprise check\n"
      "          reprise check model.rpk --device vulkan:0 --runs 100");
  command->callback([o, &status] {
    const Output out(o->common.json);
    Result<int> r = Check(*o, out).run();
    status = r.ok() ? *r : report(r.status());
  });
}

}  // namespace reprise::app
