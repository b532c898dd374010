#include "apps/reprise/input_plans.h"
#include "apps/reprise/measure.h"

namespace reprise::app {

namespace {

struct CompareOptions {
  CommonOptions common;
  InputOptions inputs;
  MeasureOptions measure;
  std::string model;
  std::vector<std::string> devices;
};

/// All usable devices. CUDA devices are included only if the model is or can be compiled for them.
std::vector<std::string> measurable_devices(const CompareOptions& o) {
  std::vector<std::string> out;
  for (const DeviceInfo& d : list_devices()) {
    if (!d.usable) continue;
    const std::string refused = refusal(d, {o.model}, o.common.nvrtc);
    if (refused.empty() || d.facts.api == Api::Host) {
      out.push_back(d.id);
    } else {
      note(d.id + " is not measured: " + refused);
    }
  }
  return out;
}

/// Compiles once for all these devices. PTX is left out, because it would be for other devices.
Result<Model> load_model_for_all(const std::string& path, const CommonOptions& common,
                                 const std::vector<std::string>& ids) {
  RP_ASSIGN(CompileOptions compile, common.compile_options());
  compile.cuda_ptx = false;
  for (const DeviceInfo& d : list_devices()) {
    const bool wanted = std::count(ids.begin(), ids.end(), d.id) > 0 ||
                        std::count(ids.begin(), ids.end(), "cuda") > 0;
    if (!d.usable || d.facts.api != Api::Cuda || !wanted) continue;
    compile.targets.push_back("cuda:sm_" + std::to_string(d.facts.cuda_arch));
    compile.cuda_driver = d.driver_version;
  }
  RP_ASSIGN(Model model, load_model(path, compile));
  RP_TRY(check_package_options(model, common));
  return model;
}

/// A model for all devices, with its inputs and the host's outputs.
struct ComparedModel {
  Model model;
  InputSet inputs;
  std::vector<HostTensor> expected;
};

Result<ComparedModel> compared_model(const CompareOptions& o, const std::vector<std::string>& ids) {
  ComparedModel out;
  const auto use = [&](InputPlans::Loaded& loaded) -> Status {
    RP_ASSIGN(out.inputs, collect_inputs(loaded.model, o.common, o.inputs, true));
    RP_ASSIGN(out.expected, reference_outputs(loaded.model, out.inputs, loaded.options));
    out.model = loaded.model;
    return {};
  };
  const auto load = [&](const CommonOptions& options) -> Result<InputPlans::Loaded> {
    InputPlans::Loaded loaded;
    RP_ASSIGN(loaded.model, load_model_for_all(o.model, options, ids));
    return loaded;
  };
  InputPlans plans(o.model, o.common, load);
  RP_TRY(plans.run(given_inputs(o.model, o.common, o.inputs, true), use));
  return out;
}

Result<Measurement> measure_on(const std::string& id, const CompareOptions& o,
                               const ComparedModel& subject) {
  CommonOptions common = o.common;
  common.device = id;
  RP_ASSIGN(OpenedDevice device, open_selected(common, {}));
  return measure(subject.model, device, subject.inputs, o.common, o.measure, &subject.expected);
}

Result<int> run_compare(const CompareOptions& o) {
  const Output out(o.common.json);
  const std::vector<std::string> ids = o.devices.empty() ? measurable_devices(o) : o.devices;
  RP_ASSIGN(const ComparedModel subject, compared_model(o, ids));
  Table table = measurement_table();
  Json list = Json::array();
  int status = kDone;
  ProgressLine progress;
  for (const std::string& id : ids) {
    progress.show("measuring on " + id);
    Result<Measurement> m = measure_on(id, o, subject);
    progress.clear();
    if (!m.ok()) {
      status = report(m.status().with_context(id));
      continue;
    }
    if (!m->ok) {
      note(id + ": " + m->reason);
      if (status == kDone) status = kDiffers;
    }
    add_row(table, *m);
    list.push_back(measurement_json(*m));
  }
  if (!table.empty()) out.table(table);
  RP_TRY(out.json(list));
  return status;
}

}  // namespace

void register_compare(CLI::App& root, int& status) {
  auto o = std::make_shared<CompareOptions>();
  CLI::App* command = root.add_subcommand("compare", "Measure one model on several devices");
  command->add_option("MODEL", o->model, "An .onnx or a compiled .rpk")->required();
  add_common(*command, o->common);
  command->remove_option(command->get_option("--device"));
  command->add_option("--device,--devices", o->devices, "Device names (default: every usable one)")
      ->delimiter(',');
  add_inputs(*command, o->inputs);
  add_measure(*command, o->measure);
  command->footer("Example: reprise compare bert.onnx --devices host,vulkan:0,vulkan:1");
  command->callback([o, &status] {
    Result<int> r = run_compare(*o);
    status = r.ok() ? *r : report(r.status());
  });
}

}  // namespace reprise::app
