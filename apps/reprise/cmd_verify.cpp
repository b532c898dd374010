#include "apps/reprise/measure.h"

namespace reprise::app {

namespace {

struct VerifyOptions {
  CommonOptions common;
  InputOptions inputs;
  std::string model;
};

Result<int> run_verify(const VerifyOptions& o) {
  const Output out(o.common.json);
  RP_ASSIGN(OpenedDevice device, open_selected(o.common));
  RP_ASSIGN(Model model, load_for(o.model, o.common, device));
  RP_ASSIGN(InputSet inputs, collect_inputs(model, o.common, o.inputs, true));
  RP_ASSIGN(std::vector<HostTensor> expected, reference_outputs(model, inputs));
  RP_ASSIGN(std::unique_ptr<Session> session, make_session(model, device, o.common));
  RP_ASSIGN(std::vector<HostTensor> actual, session->run(inputs.bindings()));
  Table table({"output", "max error", "relative", "verdict"});
  Json list = Json::array();
  bool all_ok = true;
  for (size_t i = 0; i < actual.size(); ++i) {
    const Tolerance t = tolerance(Rule::Model, expected[i].dtype());
    const Comparison c = compare(actual[i], expected[i], t);
    const std::string& name = session->io().outputs[i].name;
    all_ok = all_ok && c.ok;
    table.add({name, format_number(c.max_error), format_number(c.max_relative),
               c.ok ? "ok" : "differs: " + c.reason});
    list.push_back({{"name", name},
                    {"max_error", number(c.max_error)},
                    {"max_relative_error", number(c.max_relative)},
                    {"ok", c.ok},
                    {"reason", c.reason}});
  }
  out.text("device " + device.info.id + " against the host reference\n");
  out.table(table);
  RP_TRY(out.json({{"model", o.model},
                   {"device", device.info.id},
                   {"ok", all_ok},
                   {"outputs", std::move(list)}}));
  if (!all_ok) note(o.model + ": the device's result differs from the host's");
  return all_ok ? kDone : kDiffers;
}

}  // namespace

void register_verify(CLI::App& root, int& status) {
  auto o = std::make_shared<VerifyOptions>();
  CLI::App* command = root.add_subcommand("verify", "Compare a device with the host reference");
  command->add_option("MODEL", o->model, "An .onnx or a compiled .rpk")->required();
  add_inputs(*command, o->inputs);
  add_common(*command, o->common);
  command->footer(
      "Tolerances are fractions of the output's largest value: fp32 1e-4, fp16 1e-2, bf16 2e-2;\n"
      "integers, bool and strings must be equal.\n"
      "Example: reprise verify bert.onnx --device vulkan:1");
  command->callback([o, &status] {
    Result<int> r = run_verify(*o);
    status = r.ok() ? *r : report(r.status());
  });
}

}  // namespace reprise::app
