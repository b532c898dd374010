#include "apps/bisect/bisect.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "apps/bisect/body_calls.h"
#include "runtime/base/timing.h"

namespace reprise::app {

namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::ValueId;

constexpr int kRunsAlone = 3;
// The interpreter takes some hundred times as long as the host, so longer kernels are not
// interpreted.
constexpr double kMaxHostMs = 300;

/// A kernel that is wrong, or differs between runs.
struct Found {
  size_t step = 0, launch = 0;  // of the plan; launches are counted from 1
  LaunchAlone alone;
  Comparison wrong;
  bool stable = true;
};

/// A graph that was compiled for the device, and the right values of its tensors.
struct Prepared {
  Compiled compiled;
  std::unique_ptr<HostGraph> host;
  Values values;
};

void report_progress(const BisectOptions& o, const std::string& line) {
  if (o.progress) o.progress(line);
}

Result<Session*> session_of(const LaunchAlone& alone, const BisectOptions& o,
                            std::unique_ptr<Session>& keep) {
  SessionOptions session = o.session;
  session.fullgraph = false;
  RP_ASSIGN(keep, Session::create(alone.package, o.device.device, session));
  return keep.get();
}

/// Runs one launch several times. Returns nothing if it is right each time.
Result<std::optional<Found>> check_launch(const Prepared& p, size_t step, const BisectOptions& o) {
  Found found;
  RP_ASSIGN(found.alone, isolate(p.compiled, step, p.values));
  found.step = step;
  std::unique_ptr<Session> keep;
  RP_ASSIGN(Session* const session, session_of(found.alone, o, keep));
  const LaunchJudge judge(*p.host, *p.compiled.optimised, p.values, o.compile.precision);
  std::vector<HostTensor> first;
  for (int run = 0; run < kRunsAlone; ++run) {
    RP_ASSIGN(std::vector<HostTensor> now, run_in_turn(*session, found.alone.inputs, run));
    if (run > 0 && same_bits(first, now)) continue;
    RP_ASSIGN(Comparison c, judge.judge(found.alone, now));
    found.stable = run == 0;
    if (run == 0 || !c.ok) found.wrong = std::move(c);
    if (!found.wrong.ok) break;
    if (run == 0) first = std::move(now);
  }
  if (found.wrong.ok && found.stable) return std::optional<Found>();
  return std::optional<Found>(std::move(found));
}

/// Whether a launch has no workgroups at these sizes because another form of its kernel does the
/// work.
bool is_idle_form(const plan::Plan& plan, const plan::Launch& launch,
                  std::span<const int64_t> symbols) {
  const auto is_empty = [&](const plan::Launch& l) {
    return std::ranges::any_of(l.grid, [&](const Expr& e) {
      const auto n = e.eval(symbols);
      return n.ok() && *n == 0;
    });
  };
  const auto does_the_same = [&](const plan::Step& s) {
    const auto* other = std::get_if<plan::Launch>(&s.what);
    return other != nullptr && other->nodes == launch.nodes && !is_empty(*other);
  };
  return is_empty(launch) && std::ranges::any_of(plan.steps, does_the_same);
}

/// The first launch that is wrong, or else the first that differs between runs.
Result<std::optional<Found>> find_kernel(const Prepared& p, const BisectOptions& o) {
  const plan::Plan& plan = p.compiled.plan();
  const auto is_launch = [](const plan::Step& s) {
    return std::holds_alternative<plan::Launch>(s.what);
  };
  const auto all = std::count_if(plan.steps.begin(), plan.steps.end(), is_launch);
  std::optional<Found> unstable;
  size_t launch = 0;
  for (size_t step = 0; step < plan.steps.size(); ++step) {
    if (!is_launch(plan.steps[step])) continue;
    ++launch;
    const auto& own = std::get<plan::Launch>(plan.steps[step].what);
    if (is_idle_form(plan, own, p.values.symbols) || writes_only_scratch(p.compiled, own)) continue;
    report_progress(
        o, "kernel " + std::to_string(launch) + " of " + std::to_string(all) + ": " + own.group);
    RP_ASSIGN(std::optional<Found> found, check_launch(p, step, o));
    if (!found) continue;
    found->launch = launch;
    if (!found->wrong.ok) return found;
    if (!unstable) unstable = std::move(found);
  }
  return unstable;
}

Result<Prepared> prepare(const Graph& model, const InputSet& inputs, const BisectOptions& o) {
  Prepared p;
  RP_ASSIGN(p.compiled, compile_graph(model, o.compile));
  if (!p.compiled.has_plan()) return unsupported("nothing is compiled for " + o.device.info.id);
  p.host = std::make_unique<HostGraph>(*p.compiled.optimised);
  RP_ASSIGN(p.values, p.host->run(inputs.tensors));
  return p;
}

class Bisection {
 public:
  Bisection(const Graph& model, const InputSet& inputs, const BisectOptions& options)
      : model_(model), inputs_(inputs), o_(options) {}

  Result<BisectReport> run() {
    report_progress(o_, "the model on the host");
    RP_ASSIGN(values_, HostGraph(model_).run(inputs_.tensors));
    RP_ASSIGN(sample_, make_sample(model_.clone(), inputs_));
    host_outputs_ = sample_.expected;
    if (o_.reference) {
      RP_TRY(check_host());
      if (report_.in_host) return std::move(report_);
    }
    report_progress(o_, "the model on " + o_.device.info.id);
    RP_ASSIGN(prepared_.compiled, compile_graph(model_, o_.compile));
    if (!prepared_.compiled.has_plan())
      return unsupported("nothing is compiled for " + o_.device.info.id);
    report_.variant = prepared_.compiled.package->variants.front().name;
    const Setting setting{o_.compile, o_.session, o_.device, o_.runs, 0};
    const Trial whole = try_package(sample_, prepared_.compiled.package, setting);
    RP_TRY(whole.status);
    report_.whole = report_.wrong = whole.worst;
    report_.whole_stable = report_.deterministic = whole.stable;
    report_.differs = whole.differs || !whole.stable;
    if (!report_.differs) return std::move(report_);
    RP_TRY(check_passes());
    if (report_.cause.empty()) RP_TRY(check_kernels(whole));
    if (!report_.body.empty()) return std::move(report_);
    name_cause(report_, o_);
    for (const auto& n : model_.nodes()) {
      if (std::find(report_.nodes.begin(), report_.nodes.end(), n->name) != report_.nodes.end())
        report_.operators.push_back(n->op);
    }
    return std::move(report_);
  }

 private:
  // ------------------------------------------------------------ the host

  /// Checks every node of the host with inputs from the other reference. Control flow is checked as
  /// a whole. Containers have the host's values.
  Status check_host() {
    report_progress(o_, "the model with the other reference");
    onnx::Part part;
    part.inputs = model_.inputs;
    for (const auto& n : model_.nodes()) {
      part.nodes.push_back(n.get());
      for (const ValueId v : n->outputs) {
        if (v != kNone && !is_container(model_.value(v).dtype)) part.outputs.push_back(v);
      }
    }
    if (part.outputs.empty())
      return unsupported(
          "no node of the model computes a tensor that another reference could give");
    RP_ASSIGN(const std::string file, onnx::export_part(model_, part));
    RP_ASSIGN(const std::vector<HostTensor> given, o_.reference(file, inputs_));
    if (given.size() != part.outputs.size())
      return internal_error("the reference gave " + std::to_string(given.size()) + " of " +
                            std::to_string(part.outputs.size()) + " values");
    Values right = values_;
    for (size_t i = 0; i < given.size(); ++i) right.of[part.outputs[i]] = given[i];
    const HostGraph host(model_);
    for (const Node* n : part.nodes) {
      RP_TRY(check_host_node(host, *n, right));
      if (report_.in_host) return {};
    }
    for (size_t i = 0; i < model_.outputs.size(); ++i)
      sample_.expected[i] = right.at(model_.outputs[i]);
    return {};
  }

  Status check_host_node(const HostGraph& host, const Node& n, const Values& right) {
    std::vector<ValueId> outputs;
    std::vector<HostTensor> expected;
    for (const ValueId v : n.outputs) {
      if (v == kNone) continue;
      outputs.push_back(v);
      expected.push_back(right.at(v));
    }
    const Node* const one[] = {&n};
    const auto compute = [&](Noise* noise) -> Result<std::vector<HostTensor>> {
      Values values = right;
      RP_TRY(host.run(one, values, noise));
      std::vector<HostTensor> out;
      out.reserve(outputs.size());
      for (const ValueId v : outputs) out.push_back(values.at(v));
      return out;
    };
    RP_ASSIGN(const std::vector<HostTensor> actual, compute(nullptr));
    Slack slack;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Tolerance t = tolerance(Rule::Model, expected[i].dtype());
      Comparison c = compare(actual[i], expected[i], t);
      if (!c.ok) {
        RP_TRY(slack.grow(
            actual, right, [&](Noise& noise) { return compute(&noise); }, Slack::kFew));
        c = compare(actual[i], expected[i], t, slack.of(i));
      }
      if (c.ok) continue;
      c.reason = "'" + model_.value(outputs[i]).name + "': " + c.reason;
      report_.differs = report_.in_host = true;
      report_.nodes = {n.name};
      report_.operators = {n.op};
      report_.cause = "host";
      report_.explanation = "For the other reference's inputs, the host kernel of " + n.op +
                            " gives a different result: " + c.reason;
      report_.wrong = report_.whole = std::move(c);
      return {};
    }
    return {};
  }

  // ------------------------------------------------------------ passes

  Result<std::vector<HostTensor>> outputs_of(const Graph& g, Values* keep = nullptr) const {
    RP_ASSIGN(Values values, HostGraph(g).run(inputs_.tensors));
    std::vector<HostTensor> out;
    for (const ValueId v : g.outputs) {
      if (!values.has(v)) return internal_error("an output has no value");
      out.push_back(values.at(v));
    }
    if (keep != nullptr) *keep = std::move(values);
    return out;
  }

  /// The difference between the results of the graph and the imported graph; empty if there is
  /// none.
  std::string changed(const Graph& g, Values* keep) {
    const auto outputs = outputs_of(g, keep);
    if (!outputs.ok()) return "the host cannot run it: " + outputs.status().message();
    for (size_t i = 0; i < outputs->size(); ++i) {
      const Tolerance t = tolerance_in(o_.compile.precision, Rule::Model, host_outputs_[i].dtype());
      const auto c = compare_output(sample_, i, (*outputs)[i], host_outputs_[i], t, Slack::kMany);
      if (!c.ok()) return "the host cannot compare it: " + c.status().message();
      if (!c->ok) return "output '" + g.output_name(i) + "': " + c->reason;
    }
    return {};
  }

  /// Whether the model's outputs change as much on the host if every value has only the digits of
  /// the precision.
  bool needs_more_digits(const Graph& g) const {
    const double unit = o_.compile.precision == DType::F16 ? 0x1p-10 : 0x1p-7;
    const auto outputs = outputs_of(g);
    const auto slack = slack_of(sample_, unit);
    if (!outputs.ok() || !slack.ok()) return false;
    for (size_t i = 0; i < outputs->size(); ++i) {
      const HostTensor& expected = host_outputs_[i];
      const bool undecided =
          std::ranges::all_of(slack->of(i), [](double s) { return std::isinf(s); });
      const Tolerance t = tolerance_in(o_.compile.precision, Rule::Model, expected.dtype());
      if (!undecided && !compare((*outputs)[i], expected, t, slack->of(i)).ok) return false;
    }
    return true;
  }

  /// Checks on the host that no pass changes the results of the graph.
  Status check_passes() {
    report_progress(o_, "the graph after the passes, on the host");
    const std::string last = changed(*prepared_.compiled.optimised, &prepared_.values);
    prepared_.host = std::make_unique<HostGraph>(*prepared_.compiled.optimised);
    if (last.empty()) return {};
    const Graph* before = &model_;
    Values previous = values_;
    for (const auto& [pass, after] : prepared_.compiled.passes) {
      report_progress(o_, "the graph after " + pass + ", on the host");
      Values values;
      const std::string why = changed(*after, &values);
      if (!why.empty()) {
        if (pass == "autocast" && needs_more_digits(*after)) {
          report_.cause = "precision";
          report_.explanation = "The model needs more digits than ";
          report_.explanation +=
              precision_name(o_.compile.precision) +
              " has: the host's own result changes as much if each value is randomly rounded to "
              "that many digits. After the pass autocast: " +
              why;
        } else {
          report_.cause = "pass " + pass;
          report_.explanation =
              "After this pass the graph has different results, on the host as well: " + why;
        }
        report_.nodes = first_changed(*before, previous, *after, values);
        name_launch(report_.nodes);
        report_.in_graph = true;
        return reduce_from(report_.nodes);
      }
      before = after.get();
      previous = std::move(values);
    }
    return {};
  }

  /// Names the launch that computes the nodes that a pass changed, if there is one.
  void name_launch(const std::vector<std::string>& nodes) {
    size_t launch = 0;
    for (const plan::Step& step : prepared_.compiled.plan().steps) {
      const auto* l = std::get_if<plan::Launch>(&step.what);
      if (l == nullptr) continue;
      ++launch;
      const bool computes = std::any_of(l->nodes.begin(), l->nodes.end(), [&](const auto& n) {
        return std::find(nodes.begin(), nodes.end(), n) != nodes.end();
      });
      if (!computes || !report_.kernel.empty()) continue;
      if (is_idle_form(prepared_.compiled.plan(), *l, prepared_.values.symbols)) continue;
      report_.kernel = prepared_.compiled.plan().kernels[l->kernel].name;
      report_.schedule = l->schedule;
      report_.launch = launch;
    }
    report_.launches = launch;
  }

  /// The model's nodes that belong to the first value that a pass changed.
  std::vector<std::string> first_changed(const Graph& before, const Values& was, const Graph& after,
                                         const Values& is) const {
    for (const auto& n : after.nodes()) {
      for (const ValueId v : n->outputs) {
        if (!before.values().has(v)) continue;
        if (!was.has(v) || !is.of.has(v) || !is.has(v)) continue;
        const Tolerance t = tolerance_in(o_.compile.precision, Rule::Model, was.at(v).dtype());
        if (!compare(is.at(v), was.at(v), t).ok) return n->origins;
      }
    }
    std::vector<std::string> all;
    for (const auto& n : model_.nodes()) all.push_back(n->name);
    return all;
  }

  // ------------------------------------------------------------ kernels

  Status check_kernels(const Trial& whole) {
    RP_ASSIGN(std::optional<Found> found, find_kernel(prepared_, o_));
    const plan::Plan& plan = prepared_.compiled.plan();
    report_.launches = static_cast<size_t>(std::count_if(
        plan.steps.begin(), plan.steps.end(),
        [](const plan::Step& s) { return std::holds_alternative<plan::Launch>(s.what); }));
    if (!found) {
      RP_TRY(check_bodies());
      if (!report_.body.empty()) return {};
      report_progress(o_, "the model with other settings");
      const Trial beyond = try_package(sample_, prepared_.compiled.package,
                                       {o_.compile, o_.session, o_.device, 4, Slack::kMany});
      if (whole.stable && !beyond.differs) {
        report_.cause = "rounding";
      } else {
        report_.experiments = experiment(sample_, prepared_.compiled, {}, report_, o_);
      }
      return {};
    }
    report_.kernel = found->alone.kernel();
    report_.schedule = report_.reduced_schedule = found->alone.launch().schedule;
    for (size_t step = 0; step + 1 < found->alone.plan().steps.size(); ++step) {
      const plan::Plan& alone = found->alone.plan();
      report_.scratch_kernels.push_back(alone.kernels[found->alone.launch(step).kernel].name);
    }
    report_.nodes = found->alone.launch().nodes;
    report_.launch = found->launch;
    report_.wrong = found->wrong;
    RP_TRY(repeat(*found));
    RP_TRY(reduce_from(report_.nodes));
    return explore(*found);
  }

  /// Bisects each call of a body that the device runs, as a model of its own, until one differs.
  /// Its report becomes the model's.
  Status check_bodies() {
    const Graph& g = *prepared_.compiled.optimised;
    for (const auto& n : g.nodes()) {
      if (!runs_bodies_on_device(prepared_.compiled.plan(), *n)) continue;
      RP_TRY(for_each_body_call(g, *n, prepared_.values, [&](BodyCall call) -> Result<bool> {
        report_progress(o_, call.name);
        RP_ASSIGN(BisectReport body, bisect(*call.model, call.inputs, o_));
        if (!body.differs || body.cause == "rounding") return false;
        const Comparison whole = report_.whole;
        const bool stable = report_.whole_stable;
        body.body = body.body.empty() ? call.name : body.body + ", in " + call.name;
        report_ = std::move(body);
        report_.whole = whole;
        report_.whole_stable = stable;
        return true;
      }));
      if (!report_.body.empty()) return {};
    }
    return {};
  }

  /// Checks whether the kernel gives the same bits each time, in two sessions.
  Status repeat(const Found& found) {
    report_progress(o_, "the kernel " + std::to_string(o_.runs) + " times");
    std::vector<HostTensor> first;
    for (int run = 0; run < o_.runs;) {
      std::unique_ptr<Session> keep;
      RP_ASSIGN(Session* const session, session_of(found.alone, o_, keep));
      for (int i = 0; i < std::max((o_.runs + 1) / 2, 1) && run < o_.runs; ++i, ++run) {
        RP_ASSIGN(std::vector<HostTensor> now, run_in_turn(*session, found.alone.inputs, run));
        if (run == 0) {
          first = std::move(now);
        } else if (!same_bits(first, now)) {
          ++report_.runs_differing;
        }
      }
    }
    report_.runs = o_.runs;
    report_.deterministic = found.stable && report_.runs_differing == 0;
    return {};
  }

  Status reduce_from(const std::vector<std::string>& suspects) {
    ReduceOptions reduction;
    reduction.seconds = o_.reduce_seconds;
    reduction.progress = o_.progress;
    Setting setting{o_.compile, o_.session, o_.device};
    RP_ASSIGN(report_.reduced, reduce(model_, values_, suspects, setting, reduction));
    return {};
  }

  /// Runs the interpreter and the experiments, with the reduced model if there is one.
  Status explore(const Found& found) {
    if (!report_.reduced) {
      ask_interpreter(prepared_, found);
      report_.experiments = experiment(sample_, prepared_.compiled, found.launch - 1, report_, o_);
      return {};
    }
    Sample& small = report_.reduced->sample;
    RP_ASSIGN(const Prepared p, prepare(*small.model, small.inputs, o_));
    RP_ASSIGN(std::optional<Found> again, find_kernel(p, o_));
    if (again && !again->wrong.ok) {
      ask_interpreter(p, *again);
    } else {
      ask_interpreter(prepared_, found);
    }
    std::optional<size_t> launch;
    if (again) {
      report_.reduced_schedule = again->alone.launch().schedule;
      launch = again->launch - 1;
    }
    report_.experiments = experiment(small, p.compiled, launch, report_, o_);
    return {};
  }

  void ask_interpreter(const Prepared& p, const Found& found) {
    const double start = now_ms();
    const std::vector<const Node*> nodes = p.host->between(found.alone.reads, found.alone.writes);
    Values values = p.values;
    const bool ran = p.host->run(nodes, values).ok();
    if (!ran || now_ms() - start > kMaxHostMs) return;
    report_progress(o_, "the kernel in the interpreter");
    const auto outputs = interpret(found.alone, p.compiled.kernels);
    if (!outputs.ok()) {
      report_.interpreter = outputs.status().message();
      return;
    }
    const LaunchJudge judge(*p.host, *p.compiled.optimised, p.values, o_.compile.precision);
    const auto c = judge.judge(found.alone, *outputs);
    report_.interpreter = !c.ok() ? c.status().message() : c->ok ? "right" : "wrong";
  }

  const Graph& model_;
  const InputSet& inputs_;
  const BisectOptions& o_;
  Values values_;  // of the imported graph
  Sample sample_;
  std::vector<HostTensor> host_outputs_;
  Prepared prepared_;
  BisectReport report_;
};

}  // namespace

Result<BisectReport> bisect(const Graph& model, const InputSet& inputs,
                            const BisectOptions& options) {
  return Bisection(model, inputs, options).run();
}

}  // namespace reprise::app
