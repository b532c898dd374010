#include "apps/reprise/input_plans.h"
#include "apps/reprise/measure.h"

namespace reprise::app {

namespace {

struct BenchOptions {
  CommonOptions common;
  InputOptions inputs;
  MeasureOptions measure;
  std::vector<std::string> models;
};

Result<Measurement> bench_model(const std::string& path, const BenchOptions& o,
                                OpenedDevice& device) {
  Measurement m;
  const auto measure_once = [&](InputPlans::Loaded& loaded) -> Status {
    RP_ASSIGN(InputSet inputs, collect_inputs(loaded.model, o.common, o.inputs, true));
    std::vector<HostTensor> expected;
    if (o.measure.reference) {
      RP_ASSIGN(expected, reference_outputs(loaded.model, inputs, loaded.options));
    }
    RP_ASSIGN(m, measure(loaded.model, device, inputs, o.common, o.measure,
                         o.measure.reference ? &expected : nullptr));
    return {};
  };
  const auto load = [&](const CommonOptions& options) -> Result<InputPlans::Loaded> {
    InputPlans::Loaded out;
    RP_ASSIGN(out.model, load_for(path, options, device));
    return out;
  };
  InputPlans plans(path, o.common, load);
  RP_TRY(plans.run(given_inputs(path, o.common, o.inputs, true), measure_once));
  return m;
}

int run_bench(const BenchOptions& o) {
  const Output out(o.common.json);
  Result<OpenedDevice> device = open_selected(o.common, o.models);
  if (!device.ok()) return report(device.status());
  out.text("device " + device->info.id + ": " + device->info.name + "\nmode " + o.common.mode +
           "\n\n");
  Table table = measurement_table();
  Json list = Json::array();
  int status = kDone;
  ProgressLine progress;
  size_t i = 0;
  for (; i < o.models.size(); ++i) {
    const std::string& path = o.models[i];
    progress.show("[" + std::to_string(i) + "/" + std::to_string(o.models.size()) + "] measuring " +
                  path);
    Result<Measurement> m = bench_model(path, o, *device);
    progress.clear();
    if (!m.ok()) {
      status = report(m.status().with_context(path));
      // A device that failed may be lost, so it is opened again for the next model.
      if (is_device_failure(m.status().code())) {
        CommonOptions same = o.common;
        same.device = device->info.id;
        device->device.reset();
        device = open_selected(same, {});
        if (!device.ok()) break;
      }
      continue;
    }
    if (!m->ok) {
      note(path + ": " + m->reason);
      if (status == kDone) status = kDiffers;
    }
    if (o.measure.launches) {
      out.text(path + "\n");
      out.table(launch_table(*m));
      out.text("\n");
    }
    add_row(table, *m);
    list.push_back(measurement_json(*m));
  }
  if (!table.empty()) out.table(table);
  if (Status s = out.json(list); !s.ok()) status = report(s);
  if (device.ok()) return status;
  note("models not measured: " + std::to_string(o.models.size() - i - 1));
  return report(device.status().with_context("the device cannot be opened again"));
}

}  // namespace

void register_bench(CLI::App& root, int& status) {
  auto o = std::make_shared<BenchOptions>();
  CLI::App* command = root.add_subcommand("bench", "Measure models, and their error");
  command->add_option("MODEL", o->models, "Models: .onnx or .rpk")->required();
  add_inputs(*command, o->inputs);
  add_measure(*command, o->measure);
  add_common(*command, o->common);
  command->footer(
      "Inputs are those of test_data_set_0 beside the model if it exists, otherwise random. The\n"
      "first run is reported separately. Times are of whole runs, with inputs and outputs in\n"
      "host memory. Device ms is the sum of kernel times, from runs of their own: timestamps keep\n"
      "kernels from overlapping, so it can exceed the median. Such a run as a whole takes\n"
      "timed_run_ms (--json). The error is max |a - b| against the host reference; the exit "
      "status\n"
      "is 1 if a model exceeds its tolerance.\n"
      "Example: reprise bench resnet18.onnx bert.onnx --device vulkan --json bench.json");
  command->callback([o, &status] { status = run_bench(*o); });
}

}  // namespace reprise::app
