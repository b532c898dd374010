#include "apps/bisect/trial.h"

#include <algorithm>
#include <cstring>

namespace reprise::app {

namespace {

Result<std::vector<HostTensor>> outputs_of(const graph::Graph& g, const Values& values) {
  std::vector<HostTensor> out;
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    if (!values.has(g.outputs[i]))
      return internal_error("output '" + g.output_name(i) + "' has no value");
    out.push_back(values.at(g.outputs[i]));
  }
  return out;
}

Status compare_all(Sample& sample, const plan::Interface& io, const std::vector<HostTensor>& actual,
                   const Setting& setting, Trial& trial) {
  for (size_t i = 0; i < actual.size(); ++i) {
    const Tolerance t =
        tolerance_in(setting.compile.precision, Rule::Model, sample.expected[i].dtype());
    RP_ASSIGN(Comparison c,
              compare_output(sample, i, actual[i], sample.expected[i], t, setting.trials));
    if (!c.ok) c.reason = "'" + io.outputs[i].name + "': " + c.reason;
    trial.differs |= !c.ok;
    const bool worse =
        c.ok == trial.worst.ok ? c.max_error > trial.worst.max_error : trial.worst.ok;
    if (worse) trial.worst = std::move(c);
  }
  return {};
}

Status run_sessions(Sample& sample, const std::shared_ptr<const package::Package>& package,
                    const Setting& setting, Trial& trial) {
  std::vector<HostTensor> first;
  std::unique_ptr<Session> session;
  const int runs = std::max(setting.runs, 1);
  for (int run = 0; run < runs && trial.stable && !trial.differs; ++run) {
    if (run == 0 || run == (runs + 1) / 2) {
      RP_ASSIGN(session, Session::create(package, setting.device.device, setting.session));
    }
    RP_ASSIGN(std::vector<HostTensor> now, run_in_turn(*session, sample.inputs, run));
    if (run > 0 && same_bits(first, now)) continue;
    trial.stable = run == 0;
    RP_TRY(compare_all(sample, session->io(), now, setting, trial));
    if (run == 0) first = std::move(now);
  }
  return {};
}

/// The same numbers in another order: rotated, so that the numbers of a pair change places.
HostTensor scrambled(const HostTensor& t) {
  HostTensor out(t.dtype(), t.dims());
  const size_t width = size_of(t.dtype()), bytes = t.bytes().size();
  for (size_t at = 0; at + width <= bytes; at += width)
    std::memcpy(out.mutable_bytes().data() + at, t.bytes().data() + (bytes - width - at), width);
  return out;
}

}  // namespace

Result<std::vector<HostTensor>> run_in_turn(Session& session, const InputSet& inputs, int run) {
  if (run % 2 != 0) return session.run(inputs.bindings());
  InputSet other = inputs;
  for (HostTensor& t : other.tensors) {
    // Integers may be positions and sizes, so they are kept.
    if (is_float(t.dtype())) t = scrambled(t);
  }
  // The other numbers may be out of range; errors of this run do not matter.
  (void)session.run(other.bindings());
  return session.run(inputs.bindings());
}

bool same_bits(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return bit_difference(x, y).empty(); });
}

Result<Sample> make_sample(std::unique_ptr<graph::Graph> model, InputSet inputs) {
  Sample out;
  RP_ASSIGN(out.values, HostGraph(*model).run(inputs.tensors));
  RP_ASSIGN(out.expected, outputs_of(*model, out.values));
  out.model = std::move(model);
  out.inputs = std::move(inputs);
  return out;
}

namespace {

Status grow(const Sample& sample, Slack& slack, int trials, double least_unit = 0) {
  const HostGraph host(*sample.model);
  const auto recompute = [&](Noise& noise) -> Result<std::vector<HostTensor>> {
    RP_ASSIGN(const Values values, host.run(sample.inputs.tensors, &noise));
    return outputs_of(*sample.model, values);
  };
  return slack.grow(sample.expected, sample.values, recompute, trials, least_unit);
}

}  // namespace

Result<Slack> slack_of(const Sample& sample, double least_unit) {
  Slack slack;
  RP_TRY(grow(sample, slack, Slack::kFew, least_unit));
  return slack;
}

Result<Comparison> compare_output(Sample& sample, size_t output, const HostTensor& actual,
                                  const HostTensor& expected, const Tolerance& t, int trials) {
  Comparison c = compare(actual, expected, t);
  for (const int enough : {Slack::kFew, Slack::kMany}) {
    if (c.ok || trials < enough) break;
    RP_TRY(grow(sample, sample.slack, enough));
    c = compare(actual, expected, t, sample.slack.of(output));
  }
  return c;
}

Trial try_package(Sample& sample, const std::shared_ptr<const package::Package>& package,
                  const Setting& setting) {
  Trial trial;
  trial.status = run_sessions(sample, package, setting, trial);
  return trial;
}

Trial try_sample(Sample& sample, const Setting& setting) {
  auto package = compile(sample.model->clone(), setting.compile);
  if (package.ok())
    return try_package(sample, std::make_shared<package::Package>(std::move(*package)), setting);
  Trial trial;
  trial.status = package.status();
  return trial;
}

}  // namespace reprise::app
