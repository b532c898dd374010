#include <optional>

#include "apps/reprise/measure.h"

namespace reprise::app {

namespace {

struct VerifyOptions {
  CommonOptions common;
  InputOptions inputs;
  std::string model;
  std::optional<double> tolerance;  // a fraction of the output's largest value
};

Tolerance allowed(const VerifyOptions& o, const Model& model, DType dtype) {
  if (o.tolerance && is_float(dtype)) return {0, 0, *o.tolerance};
  return tolerance_in(model.computes_in(), Rule::Model, dtype);
}

Result<int> run_verify(const VerifyOptions& o) {
  const Output out(o.common.json);
  RP_ASSIGN(OpenedDevice device, open_selected(o.common, {o.model}));
  RP_ASSIGN(Model model, load_for(o.model, o.common, device));
  RP_ASSIGN(InputSet inputs, collect_inputs(model, o.common, o.inputs, true));
  RP_ASSIGN(std::vector<HostTensor> expected, reference_outputs(model, inputs, o.common));
  RP_ASSIGN(std::unique_ptr<Session> session, make_session(model, device, o.common));
  RP_ASSIGN(std::vector<HostTensor> actual, session->run(inputs.bindings()));
  Table table({"output", "max error", "relative", "verdict"});
  Json list = Json::array();
  bool all_ok = true;
  for (size_t i = 0; i < actual.size(); ++i) {
    const Tolerance t = allowed(o, model, expected[i].dtype());
    const Comparison c = compare(actual[i], expected[i], t);
    const std::string& name = session->io().outputs[i].name;
    all_ok = all_ok && c.ok;
    table.add({name, format_number(c.max_error), format_number(c.max_relative),
               c.ok ? "ok" : "differs: " + c.reason});
    list.push_back({{"name", name},
                    {"max_error", number(c.max_error)},
                    {"max_relative_error", number(c.max_relative)},
                    {"tolerance", number(t.of_max)},
                    {"ok", c.ok},
                    {"reason", c.reason}});
  }
  const std::string precision = precision_name(model.precision());
  out.text("device " + device.info.id + " in " + precision + " against the host reference\n");
  out.table(table);
  RP_TRY(out.json({{"model", o.model},
                   {"device", device.info.id},
                   {"precision", precision},
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
  command
      ->add_option("--tolerance", o->tolerance,
                   "Largest error as a fraction of the output's largest value, for floats")
      ->check(CLI::NonNegativeNumber);
  add_inputs(*command, o->inputs);
  add_common(*command, o->common);
  command->footer(
      "Tolerances are fractions of the output's largest value: fp32 1e-4, fp16 1e-2, bf16 2e-2, "
      "by\n"
      "the output's type or --precision, whichever is more; integers, bool and strings must be\n"
      "equal. The reference computes in the precision of the ONNX file; that of a package has the\n"
      "package's weights.\n"
      "Examples: reprise verify bert.onnx --device vulkan:1\n"
      "          reprise verify bert.onnx --precision fp16");
  command->callback([o, &status] {
    Result<int> r = run_verify(*o);
    status = r.ok() ? *r : report(r.status());
  });
}

}  // namespace reprise::app
