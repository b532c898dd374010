#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>

#include "apps/common/replays.h"
#include "apps/reprise/input_plans.h"
#include "apps/reprise/measure.h"

namespace reprise::app {

namespace {

struct VerifyOptions {
  CommonOptions common;
  InputOptions inputs;
  std::string model;
  std::optional<double> tolerance;  // a fraction of the output's largest value
  int runs = 1;
};

Tolerance allowed(const VerifyOptions& o, const Model& model, DType dtype) {
  if (o.tolerance && is_float(dtype)) return {0, 0, *o.tolerance};
  return tolerance_in(model.computes_in(), Rule::Model, dtype);
}

/// Quotes a word for a shell if that is needed.
std::string shell_quoted(const std::string& word) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::strchr("_@%+=:,./-", c) != nullptr;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// The command that finds the cause, with the same model, inputs and options.
std::string bisect_line(const VerifyOptions& o, const OpenedDevice& device) {
  const CommonOptions& c = o.common;
  std::string line = "reprise bisect " + shell_quoted(o.model) + " --device " + device.info.id;
  const auto add = [&](const char* option, const std::string& value) {
    line += std::string(" ") + option + " " + shell_quoted(value);
  };
  for (const std::string& file : o.inputs.files) add("--input", file);
  if (!o.inputs.data_dir.empty()) add("--data", o.inputs.data_dir);
  if (o.inputs.seed != 0) add("--seed", std::to_string(o.inputs.seed));
  for (const std::string& shape : c.shapes) add("--shape", shape);
  for (const std::string& range : c.ranges) add("--range", range);
  for (const std::string& plan : c.plans) add("--plan", plan);
  for (const std::string& pass : c.disabled_passes) add("--disable-pass", pass);
  for (const std::string& option : c.pass_options) add("--pass-option", option);
  if (c.precision != "fp32") add("--precision", c.precision);
  if (c.mode == "default") add("--mode", c.mode);
  if (c.isolate_tensors) line += " --isolate-tensors";
  return line;
}

Result<int> run_verify(const VerifyOptions& o) {
  const Output out(o.common.json);
  RP_ASSIGN(OpenedDevice device, open_selected(o.common, {o.model}));
  InputSet inputs;
  std::vector<HostTensor> expected, actual;
  Model model;
  std::unique_ptr<Session> session;
  const auto run_once = [&](InputPlans::Loaded& loaded) -> Status {
    RP_ASSIGN(inputs, collect_inputs(loaded.model, o.common, o.inputs, true));
    RP_ASSIGN(expected, reference_outputs(loaded.model, inputs, loaded.options));
    RP_ASSIGN(actual, run_from_start(*loaded.session, inputs));
    model = loaded.model;
    session = std::move(loaded.session);
    return {};
  };
  InputPlans plans(o.model, o.common, device);
  RP_TRY(plans.run(given_inputs(o.model, o.common, o.inputs, true), run_once));
  RP_ASSIGN(const std::vector<Replays> replays, replay(*session, inputs, o.runs, actual));
  Table table({"output", "max error", "relative", "verdict"});
  Json list = Json::array();
  bool all_ok = true, stable = true;
  for (size_t i = 0; i < actual.size(); ++i) {
    const Tolerance t = allowed(o, model, expected[i].dtype());
    const Comparison c = compare(actual[i], expected[i], t);
    const std::string& name = session->result_name(i);
    const Replays& r = replays[i];
    all_ok = all_ok && c.ok;
    stable = stable && r.differing == 0;
    std::string verdict = c.ok ? "ok" : "differs: " + c.reason;
    if (r.differing > 0) {
      verdict += (c.ok ? ", but differs between runs: " : "; differs between runs: ") +
                 std::to_string(r.differing) + " of " + std::to_string(o.runs) +
                 " differ from the first; " + r.difference;
    }
    table.add({name, format_number(c.max_error), format_number(c.max_relative), verdict});
    list.push_back({{"name", name},
                    {"max_error", number(c.max_error)},
                    {"max_relative_error", number(c.max_relative)},
                    {"tolerance", number(t.of_max)},
                    {"ok", c.ok},
                    {"reason", c.reason},
                    {"runs_differing", r.differing},
                    {"difference", r.difference}});
  }
  const std::string precision = precision_name(model.precision());
  out.text("device " + device.info.id + " in " + precision + " against the host reference\n");
  out.table(table);
  if (o.runs > 1 && stable)
    out.text("all " + std::to_string(o.runs) + " runs gave the same bits\n");
  RP_TRY(out.json({{"model", o.model},
                   {"device", device.info.id},
                   {"precision", precision},
                   {"ok", all_ok && stable},
                   {"runs", o.runs},
                   {"outputs", std::move(list)}}));
  if (!all_ok) note(o.model + ": the device's result differs from the host's");
  if (!stable) note(o.model + ": the device's result differs between runs");
  if (all_ok && stable) return kDone;
  note("to find the kernel, the operators and the cause, run:\n  " + bisect_line(o, device));
  return kDiffers;
}

}  // namespace

void register_verify(CLI::App& root, int& status) {
  auto o = std::make_shared<VerifyOptions>();
  CLI::App* command = root.add_subcommand("verify", "Compare a device with the host reference");
  command->add_option("MODEL", o->model, "An .onnx or a compiled .rpk")->required();
  command
      ->add_option("--tolerance", o->tolerance,
                   "Largest error as a fraction of the output's largest value, for floats")
      ->check(at_least_zero());
  command
      ->add_option("--runs", o->runs,
                   "Number of runs with the same inputs, which must all give the same bits")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  add_inputs(*command, o->inputs);
  add_common(*command, o->common);
  command->footer(
      "Tolerances are fractions of the output's largest value: fp32 1e-4, fp16 1e-2, bf16 2e-2,\n"
      "by the output's type or --precision, whichever is larger; integers, bools and strings must\n"
      "be equal. The reference computes in the precision of the ONNX file; for a package it uses\n"
      "the package's weights.\n"
      "Examples: reprise verify bert.onnx --device vulkan:1\n"
      "          reprise verify bert.onnx --runs 100\n"
      "          reprise verify bert.onnx --precision fp16");
  command->callback([o, &status] {
    Result<int> r = run_verify(*o);
    status = r.ok() ? *r : report(r.status());
  });
}

}  // namespace reprise::app
