#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "apps/common/launch_bytes.h"
#include "apps/reprise/command.h"
#include "apps/reprise/device_times.h"
#include "apps/reprise/dump.h"
#include "apps/reprise/image_slots.h"
#include "apps/reprise/machine_code.h"
#include "apps/reprise/table.h"
#include "codegen/compile/targets.h"
#include "runtime/plan/bind.h"
#include "runtime/platform/path.h"

namespace reprise::app {

namespace {

struct ExplainOptions {
  CommonOptions common;
  std::string model;
  std::string dump;
  std::string targets;  // empty: those for the device
  const device_model::Device* modelled = nullptr;
  bool all = false;
};

struct ChosenPlan {
  const plan::Plan* plan = nullptr;
  std::string variant;
  std::vector<std::string> notes;  // why earlier variants were not chosen
  Api api = Api::Vulkan;
  const package::Variant* compiled = nullptr;  // null for the host
};

/// The first variant that --targets names. No device is needed.
Result<ChosenPlan> plan_of_targets(const package::Package& p, const std::string& targets) {
  RP_ASSIGN(const std::vector<lower::Target> named, parse_targets(split_list(targets)));
  if (named.empty()) return ChosenPlan{&p.host_plan, "host", {}};
  std::string held;
  for (const package::Variant& v : p.variants) {
    const auto is_named = [&](const lower::Target& t) { return t.name == v.name; };
    if (std::any_of(named.begin(), named.end(), is_named))
      return ChosenPlan{&v.plan, v.name, {}, v.predicate.api, &v};
    held += (held.empty() ? "" : ", ") + v.name;
  }
  return Status(Code::Unsupported, "the package has no variant for --targets " + targets +
                                       "; it has " + (held.empty() ? "none" : held));
}

/// The device of --device. Nothing if none is needed, or if auto finds none but the host.
Result<std::optional<DeviceInfo>> find_device(const ExplainOptions& o) {
  const bool automatic = o.common.device == "auto";
  const bool targets = !o.targets.empty() && automatic;
  if (targets || o.common.device == "host") return std::optional<DeviceInfo>();
  Result<OpenedDevice> device = open_selected(o.common, {o.model});
  if (!device.ok() && !automatic) return device.status();
  if (!device.ok() || !device->device) return std::optional<DeviceInfo>();
  return std::optional(device->info);
}

/// The variant that the device uses, or the first one if there is no device.
Result<ChosenPlan> choose_plan(const package::Package& p, const ExplainOptions& o,
                               const std::optional<DeviceInfo>& device) {
  if (!o.targets.empty() && o.common.device == "auto") return plan_of_targets(p, o.targets);
  ChosenPlan chosen;
  chosen.plan = &p.host_plan;
  chosen.variant = "host";
  if (o.common.device == "host") return chosen;
  for (const package::Variant& v : p.variants) {
    const std::string mismatch = device ? v.predicate.mismatch(device->facts) : std::string();
    if (mismatch.empty()) {
      chosen.plan = &v.plan;
      chosen.variant = v.name;
      chosen.api = v.predicate.api;
      chosen.compiled = &v;
      return chosen;
    }
    chosen.notes.push_back(v.name + ": " + mismatch);
  }
  return chosen;
}

/// Adds what the compiler reports about a cubin, if there is one.
void add_usage(Json& to, const plan::KernelCode& k) {
  if (k.usage == plan::KernelCode::Usage{}) return;
  to["registers"] = k.usage.registers;
  to["spill_bytes"] = k.usage.spill_bytes;
  to["shared_bytes"] = k.usage.shared_bytes;
  to["stack_bytes"] = k.usage.stack_bytes;
}

Json machine_code_json(const MachineCode& code) {
  Json out{{"source", code.source},
           {"instructions", code.instructions},
           {"matrix_instructions", code.matrix},
           {"async_copies", code.async_copies},
           {"local_accesses", code.local},
           {"barriers", code.barriers}};
  if (code.loop_matrix == 0) return out;
  out["main_loop"] = {{"instructions", code.loop_instructions},
                      {"matrix_instructions", code.loop_matrix},
                      {"instructions_per_matrix_instruction",
                       static_cast<double>(code.loop_instructions) / code.loop_matrix}};
  return out;
}

/// Every kernel of every variant for CUDA. Those with cubins are rows of the table.
Json kernels_json(const package::Package& p, Table& table, MachineCodeReader& reader) {
  Json out = Json::array();
  const auto add = [&](const std::string& variant, const std::string& body,
                       const package::CompiledPlan& compiled) {
    const bool ptx = compiled.predicate.cuda_arch.starts_with("compute_");
    for (const plan::KernelCode& k : compiled.plan.kernels) {
      if (k.image.empty()) continue;
      const std::optional<MachineCode> code = reader.read(k, ptx);
      if (!ptx) {
        const auto text = [&](uint32_t n) { return code ? std::to_string(n) : "-"; };
        const bool loop = code && code->loop_matrix > 0;
        table.add(
            {variant, k.name, std::to_string(k.usage.registers), format_bytes(k.usage.spill_bytes),
             format_bytes(k.usage.shared_bytes), format_bytes(k.usage.stack_bytes),
             text(code ? code->instructions : 0), text(code ? code->matrix : 0),
             loop ? format_number(static_cast<double>(code->loop_instructions) / code->loop_matrix)
                  : "-"});
      }
      Json row{{"variant", variant}, {"kernel", k.name}};
      if (!body.empty()) row["body"] = body;
      add_usage(row, k);
      if (code) row["machine_code"] = machine_code_json(*code);
      const auto arch = CudaArch::parse(compiled.predicate.cuda_arch);
      const auto occupancy = arch ? occupancy_of(k, arch->number) : std::nullopt;
      if (occupancy) {
        row["resident_workgroups"] = occupancy->workgroups;
        row["occupancy"] = occupancy->warps;
      }
      row["image_bytes"] = k.image.size();
      out.push_back(std::move(row));
    }
  };
  for (const package::Variant& v : p.variants) {
    add(v.name, {}, v);
    for (const package::SizedPlan& plan : v.plans)
      add(v.name, package::describe_sizes(plan.sizes, p.io.symbols), plan);
    for (const package::DeviceBody& body : v.bodies) add(v.name, body.name, body);
  }
  return out;
}

struct Sections {
  Table groups{{"#", "kernel", "schedule", "read", "written", "runners-up", "nodes"}};
  Table host{{"host node", "operator", "reason"}};
  Table control_flow{{"control flow", "operator", "bodies on the device"}};
  Json groups_json = Json::array(), host_json = Json::array(), control_flow_json = Json::array();
};

/// The candidates of a launch, including its own schedule. Null if there is only one, or for a
/// package, which does not store them.
const ScheduleChoice* choice_of(const Model& model, const std::string& variant, size_t launch) {
  for (const ScheduleChoice& c : model.report.schedules) {
    const bool is_of = std::find(c.launches.begin(), c.launches.end(), launch) != c.launches.end();
    if (is_of && c.site.variant == variant) return &c;
  }
  return nullptr;
}

/// The best candidates that were not chosen, with their estimated costs relative to the chosen one.
std::string runners_up(const ScheduleChoice& c) {
  constexpr size_t kShown = 2;
  const std::vector<lower::ScheduleCandidate>& all = c.site.candidates;
  std::string out;
  size_t shown = 0;
  for (size_t i = 0; i < all.size() && shown < kShown; ++i) {
    if (i == c.chosen) continue;
    out += (shown++ > 0 ? "; " : "") + all[i].schedule;
    const double ratio = all[i].cost / all[c.chosen].cost;
    if (std::isfinite(ratio)) out += " " + format_number(ratio) + "x";
  }
  return out;
}

Json candidates_json(const ScheduleChoice* c) {
  Json out = Json::array();
  if (c == nullptr) return out;
  for (size_t i = 0; i < c->site.candidates.size(); ++i) {
    const lower::ScheduleCandidate& s = c->site.candidates[i];
    out.push_back({{"schedule", s.schedule}, {"cost", number(s.cost)}, {"chosen", i == c->chosen}});
  }
  return out;
}

/// `p` is the plan of the variant, or of one of its bodies, whose schedules have no runners-up.
Sections describe_steps(const Model& model, const ChosenPlan& chosen, const plan::Plan& p) {
  const bool is_body = &p != chosen.plan;
  Sections s;
  int64_t index = 0;
  for (const plan::Step& step : p.steps) {
    if (const auto* call = std::get_if<plan::HostCall>(&step.what)) {
      if (!call->device_bodies.empty()) {
        std::vector<std::string> bodies;
        for (const uint32_t b : call->device_bodies)
          bodies.push_back(chosen.compiled->bodies[b].name);
        s.control_flow.add({call->node, call->op, join(bodies, ", ")});
        s.control_flow_json.push_back({{"node", call->node}, {"op", call->op}, {"bodies", bodies}});
        continue;
      }
      s.host.add({call->node, call->op, call->reason});
      s.host_json.push_back({{"node", call->node}, {"op", call->op}, {"reason", call->reason}});
      continue;
    }
    const auto& launch = std::get<plan::Launch>(step.what);
    const plan::KernelCode& code = p.kernels[launch.kernel];
    const std::string& kernel = code.name;
    const int64_t read = bytes_moved(p, launch, false);
    const int64_t written = bytes_moved(p, launch, true);
    const ScheduleChoice* choice =
        is_body ? nullptr : choice_of(model, chosen.variant, static_cast<size_t>(index));
    s.groups.add({std::to_string(++index), kernel, launch.schedule, format_bytes(read),
                  format_bytes(written), choice ? runners_up(*choice) : "",
                  join_some(launch.nodes, " ", kMostNodes)});
    s.groups_json.push_back({{"kernel", kernel},
                             {"group", launch.group},
                             {"nodes", launch.nodes},
                             {"bytes_read", read < 0 ? Json() : Json(read)},
                             {"bytes_written", written < 0 ? Json() : Json(written)},
                             {"schedule", launch.schedule},
                             {"candidates", candidates_json(choice)}});
    add_usage(s.groups_json.back(), code);
  }
  return s;
}

/// The costs of a run. On CUDA there are no barriers, because the edges of a graph order launches.
plan::PlanCounts count_run(const ChosenPlan& chosen) {
  plan::PlanCounts run = plan::count(*chosen.plan);
  if (chosen.api == Api::Cuda) run.barriers = 0;
  return run;
}

std::string plural(uint64_t n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

/// The costs of a run as text, for tensors in device memory.
std::string run_text(const plan::PlanCounts& run) {
  return "a run: " + plural(run.submits, "submit") + ", " + plural(run.barriers, "barrier") + ", " +
         plural(run.host_calls, "host call") + ", 0 copies of tensors in device memory\n";
}

/// Prints which results stay fp32, and why.
void print_precision(const Output& out, const package::Explanation& e) {
  if (e.precision == DType::F32) return;
  out.text("\nResults of " + plural(static_cast<uint64_t>(e.narrowed), "operator") + " are " +
           precision_name(e.precision) + " in memory, of " + std::to_string(e.kept.size()) +
           " fp32:\n");
  Table table({"operator", "node", "fp32 because"});
  for (const package::KeptNode& k : e.kept) table.add({k.op, k.node, k.reason});
  out.table(table);
}

Json kept_json(const package::Explanation& e) {
  Json out = Json::array();
  for (const package::KeptNode& k : e.kept)
    out.push_back({{"node", k.node}, {"op", k.op}, {"reason", k.reason}});
  return out;
}

/// Prints the joins of fusion, with the numbers that --pass-option fusion.limit counts.
void print_joins(const Output& out, const CompileReport& report) {
  if (report.decisions.empty()) return;
  Table table({"join", "of the first variant"});
  for (size_t i = 0; i < report.decisions.size(); ++i)
    table.add({std::to_string(i + 1), report.decisions[i].str()});
  out.text("\n");
  out.table(table);
}

/// The bodies that the device runs, with their kernels.
struct BodySections {
  std::string name;
  Sections sections;
};

std::vector<BodySections> describe_bodies(const Model& model, const ChosenPlan& chosen) {
  std::vector<BodySections> out;
  if (chosen.compiled == nullptr) return out;
  for (const package::DeviceBody& body : chosen.compiled->bodies)
    out.push_back({body.name, describe_steps(model, chosen, body.plan)});
  return out;
}

/// The bytes of the weights that a plan reads in forms which no plan before it has.
uint64_t own_weight_bytes(const package::Package& p, const package::Variant& v, size_t number) {
  std::set<std::pair<uint32_t, std::string>> known;
  const auto add = [&](const plan::Plan& plan) {
    uint64_t bytes = 0;
    for (const plan::Weight& w : plan.weights)
      if (known.emplace(w.segment, w.packing.str()).second)
        bytes += package::weight_bytes(p.weights[w.segment]);
    return bytes;
  };
  uint64_t bytes = add(v.plan);
  for (size_t i = 0; i < number; ++i) bytes = add(v.plans[i].plan);
  return bytes;
}

/// The plans of the variant for some sizes, in the order in which a run tries them, and the one for
/// all other sizes.
Json describe_plans(const Output& out, const Model& model, const ChosenPlan& chosen) {
  Json list = Json::array();
  if (chosen.compiled == nullptr || chosen.compiled->plans.empty()) return list;
  const package::Variant& v = *chosen.compiled;
  const std::vector<Symbol>& symbols = model.package->io.symbols;
  Table table({"plan", "sizes", "launches", "weights of its own", "because"});
  const auto add = [&](size_t number, const std::string& sizes, Json ranges, const plan::Plan& plan,
                       uint64_t bytes, const std::string& why) {
    const StepCounts counts = count_steps(plan);
    table.add(
        {std::to_string(number), sizes, std::to_string(counts.launches), format_bytes(bytes), why});
    list.push_back({{"plan", number},
                    {"sizes", std::move(ranges)},
                    {"launches", counts.launches},
                    {"host_calls", counts.host_calls},
                    {"weight_bytes", bytes},
                    {"why", why}});
  };
  for (size_t i = 0; i < v.plans.size(); ++i) {
    Json ranges = Json::array();
    for (const package::SymbolValues& s : v.plans[i].sizes)
      ranges.push_back(
          {{"name", symbols[static_cast<size_t>(s.symbol)].name}, {"min", s.min}, {"max", s.max}});
    add(i + 1, package::describe_sizes(v.plans[i].sizes, symbols), std::move(ranges),
        v.plans[i].plan, own_weight_bytes(*model.package, v, i + 1), v.plans[i].why);
  }
  add(0, "all other sizes", Json::array(), v.plan, own_weight_bytes(*model.package, v, 0), "");
  out.text(
      "\nA run uses the first of these plans that serves its sizes; the table of kernels is that "
      "of plan 0:\n");
  out.table(table);
  return list;
}

void print_sections(const Output& out, const Sections& sections) {
  for (const Table* table : {&sections.groups, &sections.control_flow, &sections.host}) {
    if (table->empty()) continue;
    out.text("\n");
    out.table(*table);
  }
}

Json bodies_json(const std::vector<BodySections>& bodies) {
  Json out = Json::array();
  for (const BodySections& b : bodies)
    out.push_back({{"name", b.name},
                   {"groups", b.sections.groups_json},
                   {"control_flow", b.sections.control_flow_json},
                   {"host", b.sections.host_json}});
  return out;
}

void print_text(const Output& out, const Model& model, const ChosenPlan& chosen,
                const Sections& sections, const std::vector<BodySections>& bodies) {
  const StepCounts counts = count_steps(*chosen.plan);
  const package::Explanation& e = model.package->explanation;
  // Of a model that was compiled now, they are on standard error.
  for (const std::string& text : e.notes) {
    if (!model.compiled) out.text("note: " + text + "\n");
  }
  out.text("variant " + chosen.variant + "\n");
  for (const std::string& line : chosen.notes) out.text("  not " + line + "\n");
  print_images(out, model.package->io);
  out.text(std::to_string(e.model_nodes) + " nodes, " + std::to_string(e.launches_unfused) +
           " launches without fusion, " + std::to_string(counts.launches) + " with\n");
  out.text(run_text(count_run(chosen)));
  print_sections(out, sections);
  bool host = !sections.host.empty();
  for (const BodySections& b : bodies) {
    out.text("\n" + b.name + ":\n");
    print_sections(out, b.sections);
    host = host || !b.sections.host.empty();
  }
  if (!host) out.text("\nEvery node runs on the device.\n");
  if (!e.unfused.empty()) {
    Table table({"from", "to", "not fused because"});
    for (const package::Unfused& u : e.unfused) table.add({u.from, u.to, u.reason});
    out.text("\n");
    out.table(table);
  }
  print_precision(out, e);
  if (!model.report.passes.empty()) {
    Table table({"pass", "ms"});
    for (const PassTime& pass : model.report.passes) table.add({pass.name, format_number(pass.ms)});
    out.text("\n");
    out.table(table);
  }
}

Result<Model> load_explained(const ExplainOptions& o, const std::optional<DeviceInfo>& device,
                             Dump* dump) {
  RP_ASSIGN(CompileOptions compile, o.common.compile_options());
  if (dump) dump->attach(compile);
  if (!o.targets.empty()) compile.targets = split_list(o.targets);
  if (o.modelled != nullptr) compile.keep_source = true;
  if (o.targets.empty() && device && device->facts.api == Api::Cuda) {
    compile.targets = {"cuda"};
    compile_for(*device, compile);
  }
  const bool is_package = utf8_path(o.model).extension() == ".rpk";
  const bool all = o.all && !is_package;
  RP_ASSIGN(Model model,
            all ? load_supported(o.model, compile) : load_as(o.model, compile, o.common));
  RP_TRY(check_package_options(model, o.common));
  RP_ASSIGN(model.package, package::unpack(model.package));
  return model;
}

Status write_dump(Dump& dump, const Model& model, const plan::Plan& plan) {
  RP_TRY(model.compiled ? dump.add_cuda(*model.package) : dump.add_package(*model.package));
  RP_TRY(dump.add_plan(print(plan, model.package->io)));
  return dump.status();
}

Json refusals_json(const std::vector<onnx::Refusal>& refusals) {
  Json out = Json::array();
  for (const onnx::Refusal& r : refusals)
    out.push_back({{"node", r.node},
                   {"op", r.op},
                   {"domain", r.domain},
                   {"version", r.version > 0 ? Json(r.version) : Json()},
                   {"reason", r.why.message()}});
  return out;
}

/// Prints what is not supported, and what of the rest runs on the host.
Status explain_refusals(const ExplainOptions& o, const Output& out, const Model& model,
                        const ChosenPlan& chosen) {
  const std::vector<onnx::Refusal>& refusals = model.report.refusals;
  out.text(plural(refusals.size(), "refusal") + ":\n");
  for (const onnx::Refusal& r : refusals) out.text("  " + r.error().message() + "\n");
  const Sections all = describe_steps(model, chosen, *chosen.plan);
  const auto print_host = [&](const std::string& name, const Sections& s) {
    if (s.host.empty()) return;
    out.text("\n" + name + ":\n");
    out.table(s.host);
  };
  print_host("on the host, of the rest", all);
  const std::vector<BodySections> described = describe_bodies(model, chosen);
  for (const BodySections& b : described) print_host(b.name, b.sections);
  RP_TRY(out.json({{"model", o.model},
                   {"variant", chosen.variant},
                   {"refused", refusals_json(refusals)},
                   {"bodies", bodies_json(described)},
                   {"host", all.host_json},
                   {"notes", model.package->explanation.notes}}));
  return unsupported(o.model + ": " + plural(refusals.size(), "refusal") +
                     " (standard output or --json lists them)");
}

/// The joins of fusion, and the plans.
void print_details(const Output& out, const Model& model, const ChosenPlan& chosen) {
  print_joins(out, model.report);
  out.text("\n" + print(*chosen.plan, model.package->io));
  if (!chosen.compiled) return;
  const plan::Interface& io = model.package->io;
  for (const package::SizedPlan& plan : chosen.compiled->plans)
    out.text("\n" + package::describe_sizes(plan.sizes, io.symbols) + ":\n" + print(plan.plan, io));
  for (const package::DeviceBody& body : chosen.compiled->bodies)
    out.text("\n" + body.name + ":\n" + print(body.plan, body.io));
}

/// Prints the kernels for CUDA.
Json describe_kernels(const Output& out, const package::Package& p) {
  Table usage({"variant", "kernel", "registers", "spilled", "shared", "stack", "instructions",
               "matrix", "per matrix in loop"});
  MachineCodeReader reader;
  Json kernels = kernels_json(p, usage, reader);
  if (!usage.empty()) {
    out.text("\n");
    out.table(usage);
    if (reader.lacks_disassembler()) {
      out.text(
          "Instructions are not counted, as cuobjdump is not in PATH: it is part of the CUDA "
          "toolkit and of the package nvidia-cuda-cuobjdump of PyPI\n");
    }
  }
  return kernels;
}

/// The times of the chosen plan's kernels on the device of --device-model; null without it.
Result<Json> describe_times(const Output& out, const ExplainOptions& o, const ChosenPlan& chosen) {
  if (o.modelled == nullptr) return Json();
  if (chosen.compiled == nullptr || chosen.api != Api::Cuda)
    return Status(Code::Usage, "--device-model needs kernels for CUDA, but the plan is that of '" +
                                   chosen.variant + "': give --targets " +
                                   std::string(o.modelled->target));
  return model_times(out, *chosen.compiled, *o.modelled, o.common.nvrtc);
}

Status run_explain(const ExplainOptions& o) {
  const Output out(o.common.json);
  std::unique_ptr<Dump> dump;
  if (!o.dump.empty()) dump = std::make_unique<Dump>(o.dump);
  RP_ASSIGN(const std::optional<DeviceInfo> device, find_device(o));
  RP_ASSIGN(Model model, load_explained(o, device, dump.get()));
  RP_ASSIGN(const ChosenPlan chosen, choose_plan(*model.package, o, device));
  if (dump) {
    RP_TRY(write_dump(*dump, model, *chosen.plan));
    out.text("wrote " + std::to_string(dump->files()) + " files to " + o.dump + "\n");
  }
  if (!model.report.refusals.empty()) return explain_refusals(o, out, model, chosen);
  if (o.all) out.text("nothing is refused\n");
  const Sections sections = describe_steps(model, chosen, *chosen.plan);
  const std::vector<BodySections> bodies = describe_bodies(model, chosen);
  const StepCounts counts = count_steps(*chosen.plan);
  print_text(out, model, chosen, sections, bodies);
  Json plans = describe_plans(out, model, chosen);
  Json kernels = describe_kernels(out, *model.package);
  RP_ASSIGN(Json times, describe_times(out, o, chosen));
  if (o.common.verbose) print_details(out, model, chosen);
  const plan::PlanCounts run = count_run(chosen);
  Json unfused = Json::array(), passes = Json::array(), joins = Json::array();
  for (const lower::FusionDecision& d : model.report.decisions) joins.push_back(d.str());
  for (const package::Unfused& u : model.package->explanation.unfused) {
    unfused.push_back({{"from", u.from}, {"to", u.to}, {"reason", u.reason}});
  }
  for (const PassTime& pass : model.report.passes) {
    passes.push_back({{"name", pass.name}, {"ms", pass.ms}});
  }
  return out.json({{"model", o.model},
                   {"variant", chosen.variant},
                   {"refused", Json::array()},
                   {"nodes", model.package->explanation.model_nodes},
                   {"launches_unfused", model.package->explanation.launches_unfused},
                   {"launches", counts.launches},
                   {"submits", run.submits},
                   {"barriers", run.barriers},
                   {"host_calls", run.host_calls},
                   {"images", images_json(model.package->io)},
                   {"groups", sections.groups_json},
                   {"plans", std::move(plans)},
                   {"kernels", std::move(kernels)},
                   {"device_model", std::move(times)},
                   {"unfused", std::move(unfused)},
                   {"joins", std::move(joins)},
                   {"control_flow", sections.control_flow_json},
                   {"bodies", bodies_json(bodies)},
                   {"host", sections.host_json},
                   {"precision", precision_name(model.package->explanation.precision)},
                   {"narrowed", model.package->explanation.narrowed},
                   {"kept_fp32", kept_json(model.package->explanation)},
                   {"notes", model.package->explanation.notes},
                   {"passes", std::move(passes)}});
}

}  // namespace

void register_explain(CLI::App& root, int& status) {
  auto o = std::make_shared<ExplainOptions>();
  CLI::App* command = root.add_subcommand(
      "explain", "Show what was fused, and why other operators were not (needs no GPU)");
  command->add_option("MODEL", o->model, "An .onnx or a compiled .rpk")->required();
  command->add_flag("--all", o->all,
                    "List everything in the model that is not supported, instead of the first, "
                    "and what of the rest runs on the host");
  command
      ->add_option("--dump", o->dump,
                   "Write the graph after each pass, kernel IR, SPIR-V and CUDA text here")
      ->check(no_stream());
  command->add_option("--targets", o->targets,
                      "Compile for these targets, like `reprise compile`; the plan is that of the "
                      "first one unless --device is given");
  command->add_option_function<std::string>(
      "--device-model",
      [o](const std::string& name) {
        const Result<const device_model::Device*> device = device_model::find_device(name);
        if (!device.ok()) throw CLI::ValidationError("--device-model", device.status().message());
        o->modelled = *device;
      },
      "Estimate what each kernel takes on a device that need not be there, by a model: " +
          device_model_names() + "; without --targets, the model is compiled for that device");
  add_common(*command, o->common, kJson | kDevice | kCompile);
  command->footer(
      "The plan is that of the device's variant; without a device, of the first variant.\n"
      "Kernels compiled for CUDA are listed with their registers and memory, for every target, "
      "and\n"
      "with their instructions, matrix instructions, and instructions for each of these in the "
      "main\n"
      "loop, if cuobjdump is in PATH; --json has these of PTX as well.\n"
      "Runners-up are the next best schedules, with their estimated costs relative to the chosen\n"
      "one.\n"
      "If --all finds nodes, inputs or initialisers that are refused, it lists only them and the\n"
      "nodes on the host, and the exit status is 3. Of nodes that read results of refused ones,\n"
      "only the operators are checked, unless the model declares the types of these results.\n"
      "--device-model follows a workgroup of each kernel through its PTX and compares what it "
      "takes\n"
      "with the rates of a device: schedulers (issue), matrix units, special functions, shared\n"
      "memory and L1, L2, DRAM, and the chain of instructions that wait for each other. 'waves' "
      "is\n"
      "what the last, incomplete wave of workgroups costs, and 'model' the time that is expected.\n"
      "It ranks kernels and finds what bounds them; it is no measurement.\n"
      "Examples: reprise explain bert.onnx --dump bert-dump\n"
      "          reprise explain bert.onnx --device-model h200\n"
      "          reprise explain bert.onnx --targets cuda:sm_80,cuda:sm_90 --json bert.json");
  command->callback([o, &status] {
    const bool is_package = utf8_path(o->model).extension() == ".rpk";
    if (o->modelled != nullptr && o->targets.empty() && o->common.device == "auto" && !is_package)
      o->targets = o->modelled->target;
    const Status s = run_explain(*o);
    status = s.ok() ? kDone : report(s);
  });
}

}  // namespace reprise::app
