#include <algorithm>
#include <filesystem>

#include "apps/bisect/bisect.h"
#include "apps/bisect/onnxruntime.h"
#include "apps/bisect/package_graph.h"
#include "apps/common/files.h"
#include "apps/reprise/command.h"
#include "apps/reprise/table.h"
#include "codegen/compile/host_plan.h"
#include "codegen/onnx/importer.h"
#include "runtime/platform/path.h"
#include "runtime/run/state_memory.h"

namespace reprise::app {

namespace {

struct BisectCommand {
  CommonOptions common;
  InputOptions inputs;
  std::string model;
  std::string reference = "host";
  std::string out_dir;
  int runs = 10;
  double reduce_seconds = 120;
};

std::string plural(size_t n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

std::string some(const std::vector<std::string>& names) {
  return join_some(names, ", ", 12);
}

std::string distinct(std::vector<std::string> operators) {
  std::sort(operators.begin(), operators.end());
  operators.erase(std::unique(operators.begin(), operators.end()), operators.end());
  return join(operators, ", ");
}

std::string out_dir_of(const BisectCommand& o) {
  if (!o.out_dir.empty()) return o.out_dir;
  const std::filesystem::path path = utf8_path(o.model);
  const std::string stem = utf8_text(path.stem());
  const std::string folder = utf8_text(path.parent_path().filename());
  return "bisect-" + (stem == "model" && !folder.empty() ? folder : stem);
}

void print_kernel(const Output& out, const BisectReport& r) {
  out.text("\nfirst kernel that is wrong for right inputs: " + r.kernel + " (launch " +
           std::to_string(r.launch) + " of " + std::to_string(r.launches) + ")\n");
  if (!r.body.empty()) out.text("  in             " + r.body + "\n");
  out.text("  schedule       " + r.schedule + " (variant " + r.variant + ")\n");
  out.text("  nodes          " + some(r.nodes) + "\n");
  if (!r.scratch_kernels.empty())
    out.text("  or one of      " + some(r.scratch_kernels) +
             ", which fill scratch memory for it\n");
  if (!r.wrong.ok) {
    out.text("  wrong          " + r.wrong.reason + "; " +
             plural(static_cast<size_t>(r.wrong.differing), "element") + ", max error " +
             format_number(r.wrong.max_error) + "\n");
  }
  out.text("  deterministic  " +
           std::string(r.deterministic
                           ? "yes, the same bits in " + plural(static_cast<size_t>(r.runs), "run")
                           : "no, " + std::to_string(r.runs_differing) + " of " +
                                 std::to_string(r.runs) + " runs differ from the first") +
           "\n");
  if (!r.interpreter.empty()) out.text("  interpreter    " + r.interpreter + "\n");
}

void print_report(const Output& out, const BisectCommand& o, const OpenedDevice& device,
                  const BisectReport& r) {
  out.text(o.model + " on " + device.info.id + " (" + device.info.name + ", " + device.info.driver +
           ") against the " + o.reference + " reference\n");
  if (!r.differs) {
    out.text("no difference: every output is within the tolerance, and " +
             plural(static_cast<size_t>(o.runs), "run") + " gave the same bits\n");
    return;
  }
  out.text("output " + (r.whole.ok ? "differs between runs" : r.whole.reason) + "; max error " +
           format_number(r.whole.max_error) + "\n");
  if (r.in_host) {
    out.text("\nthe host reference differs from " + o.reference + "\n  node           " +
             some(r.nodes) + "\n");
  } else if (r.in_graph) {
    out.text(r.cause == "precision"
                 ? "\nthe graph gives different results in this precision, on the host as well\n"
                 : "\nthe graph itself is wrong, before any kernel is made\n");
    if (!r.kernel.empty())
      out.text("  kernel         " + r.kernel + " computes the graph as it is\n");
    out.text("  nodes          " + some(r.nodes) + "\n");
  } else if (r.kernel.empty()) {
    out.text("\nno kernel is wrong for right inputs" +
             (r.body.empty() ? "" : ", but " + r.body + " is") + "\n");
  } else {
    print_kernel(out, r);
  }
  out.text("\ncause: " + r.cause + "\n  " + r.explanation + ".\n");
  if (!r.experiments.empty()) {
    Table table({"tried", "result"});
    for (const Experiment& e : r.experiments) table.add({e.what, e.result});
    out.text("\n");
    out.table(table);
  }
}

void print_reduced(const Output& out, const BisectCommand& o, const OpenedDevice& device,
                   const BisectReport& r, const std::string& dir) {
  if (!r.reduced) {
    out.text(
        "\nno part of the model differs when it is compiled by itself, so there is no reduced "
        "model\n");
    return;
  }
  out.text("\nsmallest part that still differs: " + plural(r.reduced->nodes.size(), "node") + " (" +
           distinct(r.reduced->operators) + "): " + some(r.reduced->nodes) + "\n");
  out.text("  written to " + dir + ", with its inputs and expected outputs\n");
  const std::string model = utf8_text(utf8_path(dir) / "model.onnx");
  out.text("  reprise verify " + model + " --device " + device.info.id +
           (o.common.precision == "fp32" ? "" : " --precision " + o.common.precision) + "\n");
}

void print_advice(const Output& out, const BisectReport& r, const OpenedDevice& device,
                  const std::string& dir) {
  if (r.cause == "rounding")
    return out.text("\nthis is not a fault: accept the difference (--tolerance of `verify`)\n");
  if (r.cause == "precision")
    return out.text("\nthis is not a fault: choose a --precision with more digits\n");
  out.text("\nreport this with the text above" +
           (r.reduced ? " and the folder " + dir : std::string()) + ": to the makers of " +
           (r.cause == "driver" ? "the driver (" + device.info.driver + "), and to us"
                                : std::string("Reprise")) +
           "\n");
  // Prefers the setting that avoids the cause over one that helps by chance.
  const Experiment* best = nullptr;
  for (const Experiment& e : r.experiments) {
    if (!e.right() || (e.kind != Experiment::Kind::Pass && e.kind != Experiment::Kind::Session))
      continue;
    if (best == nullptr || r.cause == "pass " + e.name) best = &e;
  }
  if (best != nullptr) out.text("until it is fixed, results are right " + best->what + "\n");
}

Json experiments_json(const BisectReport& r) {
  Json out = Json::array();
  for (const Experiment& e : r.experiments)
    out.push_back({{"tried", e.what}, {"result", e.result}});
  return out;
}

Json report_json(const BisectCommand& o, const OpenedDevice& device, const BisectReport& r,
                 const std::string& dir) {
  const auto text = [](const std::string& s) { return s.empty() ? Json() : Json(s); };
  return {{"model", o.model},
          {"device", device.info.id},
          {"device_name", device.info.name},
          {"driver", device.info.driver},
          {"reference", o.reference},
          {"differs", r.differs},
          {"output", r.whole.reason},
          {"kernel", text(r.kernel)},
          {"scratch_kernels", r.scratch_kernels},
          {"body", text(r.body)},
          {"launch", r.launch},
          {"launches", r.launches},
          {"schedule", text(r.schedule)},
          {"variant", r.variant},
          {"nodes", r.reduced ? r.reduced->nodes : r.nodes},
          {"kernel_nodes", r.nodes},
          {"operators", r.reduced ? r.reduced->operators : r.operators},
          {"cause", text(r.cause)},
          {"explanation", r.explanation},
          {"interpreter", text(r.interpreter)},
          {"deterministic", r.deterministic},
          {"runs", r.runs},
          {"runs_differing", r.runs_differing},
          {"max_error", number(r.wrong.max_error)},
          {"reason", r.wrong.reason},
          {"experiments", experiments_json(r)},
          {"reduced", r.reduced ? Json(dir) : Json()}};
}

/// The imported graph with its inputs.
struct Loaded {
  std::unique_ptr<graph::Graph> graph;
  InputSet inputs;
  std::shared_ptr<const package::Package> package;  // of a compiled model
};

/// Checks the kernels of a package if its model is right when it is compiled again.
Status check_own_kernels(const Loaded& loaded, const OpenedDevice& device) {
  RP_ASSIGN(Sample sample, make_sample(loaded.graph->clone(), loaded.inputs));
  Setting setting;
  setting.device = device;
  setting.compile.precision = loaded.package->explanation.precision;
  const Trial t = try_package(sample, loaded.package, setting);
  RP_TRY(t.status);
  if (t.differs || !t.stable)
    note("the package's own kernels do differ, though: " + t.worst.reason +
         "; compile the model again with this version");
  return {};
}

Result<Loaded> load(const BisectCommand& o) {
  Loaded out;
  onnx::ImportOptions import;
  RP_ASSIGN(import.shapes, parse_shapes(o.common.shapes));
  RP_ASSIGN(import.ranges, parse_ranges(o.common.ranges));
  RP_ASSIGN(const std::vector<StateOption> options, parse_states(o.common.states));
  std::map<std::string, std::optional<HostTensor>> states;
  for (const StateOption& s : options) states[s.input] = {};
  import.states = &states;
  Model model;
  model.path = o.model;
  if (o.model.ends_with(".rpk")) {
    RP_ASSIGN(out.package, package::read(o.model));
    model.package = out.package;
    RP_TRY(check_package_options(model, o.common));
    RP_ASSIGN(out.graph, graph_of(*out.package));
    note("'" + o.model + "' is compiled again from the host plan that it contains");
  } else {
    RP_ASSIGN(out.graph, onnx::import_file(o.model, import));
    for (const std::string& text : out.graph->notes) note(text);
  }
  auto package = std::make_shared<package::Package>();
  package->io = make_interface(*out.graph);
  model.package = std::move(package);
  RP_ASSIGN(out.inputs, collect_inputs(model, o.common, o.inputs, true));
  if (out.package) {
    for (const plan::StateSlot& s : out.package->io.states) {
      RP_ASSIGN(states[s.name], initial_state(*out.package, s));
    }
  }
  // States begin with their initial values unless --input gives others.
  for (size_t i = 0; i < out.graph->inputs.size(); ++i) {
    const std::string& name = out.graph->value(out.graph->inputs[i]).name;
    const auto initial = states.find(name);
    const bool given = std::ranges::any_of(
        o.inputs.files, [&](const std::string& f) { return f.starts_with(name + "="); });
    if (initial != states.end() && initial->second && !given)
      out.inputs.tensors[i] = *initial->second;
  }
  return out;
}

std::vector<std::string> other_devices(const OpenedDevice& device) {
  std::vector<std::string> out;
  for (const DeviceInfo& d : list_devices()) {
    if (d.usable && d.id != "host" && d.id != device.info.id) out.push_back(d.id);
  }
  return out;
}

Status check_options(const BisectCommand& o, const OpenedDevice& device) {
  if (!device.device)
    return {Code::Usage,
            "bisect compares a device with the host, so --device host has nothing to "
            "compare; `reprise devices` lists others"};
  if (o.common.mode.starts_with("max-autotune"))
    return {Code::Usage,
            "bisect tries every schedule by itself; use --mode default or "
            "reduce-overhead"};
  return {};
}

/// Code::Usage if the reduced model and its data would replace the model or its inputs.
Status check_out_dir(const BisectCommand& o) {
  const std::filesystem::path dir = utf8_path(out_dir_of(o));
  if (!is_same_file(utf8_text(dir / "model.onnx"), o.model) &&
      !is_same_file(utf8_text(dir / "test_data_set_0"), o.inputs.data_dir))
    return {};
  return {Code::Usage, "--output-dir: the reduced model and its data would replace those in '" +
                           utf8_text(dir) + "'; name another folder"};
}

Result<int> run_bisect(const BisectCommand& o) {
  RP_TRY(check_out_dir(o));
  const Output out(o.common.json);
  RP_ASSIGN(OpenedDevice device, open_selected(o.common, {o.model}));
  RP_TRY(check_options(o, device));
  RP_ASSIGN(const Loaded loaded, load(o));
  BisectOptions options;
  RP_ASSIGN(options.compile, o.common.compile_options());
  options.compile.shapes.clear();  // the importer has applied them and the ranges
  options.compile.ranges.clear();
  options.compile.plans = {PlanChoice::Kind::None, {}};  // its kernels are those of one plan
  options.compile.targets = targets_for(device);
  compile_for(device.info, options.compile);
  options.session.replay = o.common.mode != "default";
  options.session.isolate_tensors = o.common.isolate_tensors;
  options.device = device;
  options.runs = o.runs;
  options.reduce_seconds = o.reduce_seconds;
  options.other_devices = other_devices(device);
  options.open = [&](const std::string& id) {
    CommonOptions other = o.common;
    other.device = id;
    return open_selected(other, {o.model});
  };
  ProgressLine progress;
  options.progress = [&](const std::string& line) {
    if (o.common.verbose) {
      note(line);
    } else {
      progress.show(line);
    }
  };
  if (loaded.package) options.compile.precision = loaded.package->explanation.precision;
  if (o.reference == "onnxruntime") options.reference = run_onnxruntime;
  const Result<BisectReport> bisected = bisect(*loaded.graph, loaded.inputs, options);
  progress.clear();
  if (!bisected.ok()) return loaded.inputs.explain(bisected.status());
  const BisectReport& report = *bisected;
  const std::string dir = out_dir_of(o);
  if (report.reduced) RP_TRY(write_case(*report.reduced, dir));
  print_report(out, o, device, report);
  if (!report.differs && loaded.package) RP_TRY(check_own_kernels(loaded, device));
  if (report.differs && !report.in_host) {
    print_reduced(out, o, device, report, dir);
    print_advice(out, report, device, dir);
  }
  RP_TRY(out.json(report_json(o, device, report, dir)));
  return report.differs ? kDiffers : kDone;
}

}  // namespace

void register_bisect(CLI::App& root, int& status) {
  auto o = std::make_shared<BisectCommand>();
  CLI::App* command =
      root.add_subcommand("bisect", "Name the kernel, operators and pass that make a result wrong");
  command->add_option("MODEL", o->model, "An .onnx or a compiled .rpk")->required();
  command
      ->add_option("-o,--output-dir", o->out_dir,
                   "Folder for the reduced model and its data; default: bisect-MODEL")
      ->check(no_stream());
  command
      ->add_option("--reference", o->reference,
                   "The reference: host, or onnxruntime (imported by the python3 that is found on "
                   "the PATH)")
      ->check(CLI::IsMember({"host", "onnxruntime"}))
      ->capture_default_str();
  command->add_option("--runs", o->runs, "Runs that tell whether a kernel is deterministic")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command
      ->add_option("--reduce-seconds", o->reduce_seconds, "Stop reducing the model after this time")
      ->check(at_least_zero())
      ->capture_default_str();
  add_inputs(*command, o->inputs);
  add_common(*command, o->common);
  command->footer(
      "Every kernel of the model's plan runs alone, with inputs that the host has computed, until\n"
      "one is wrong by more than rounding can explain. Its nodes are then left out one by one as\n"
      "long as the rest still differs. The rest is compiled with passes off, with other\n"
      "schedules and on other devices. The interpreter executes its kernel, which distinguishes a\n"
      "fault of the compiler from one of the driver. If no kernel of the model is wrong, each "
      "call\n"
      "of a body of If, Loop and Scan is checked like a model, with right inputs. The host "
      "compares\n"
      "the graph after each pass with the imported one, to find a wrong pass. The reduced model "
      "is\n"
      "an .onnx with its data, which every command accepts. The exit status is 0 if nothing\n"
      "differs, and else 1.\n"
      "Examples: reprise bisect yolo.onnx --device vulkan:0 --data test_data_set_0\n"
      "          reprise bisect bert.onnx -o report --json report.json");
  command->callback([o, &status] {
    Result<int> r = run_bisect(*o);
    status = r.ok() ? *r : report(r.status());
  });
}

}  // namespace reprise::app
