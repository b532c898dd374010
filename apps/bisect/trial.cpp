#include "apps/bisect/trial.h"

#include <algorithm>

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

/// Compares with what models are allowed, and where that fails with what rounding may change.
Status compare_all(Sample& sample, const plan::Interface& io, const std::vector<HostTensor>& actual,
                   DType precision, Trial& trial) {
  for (size_t i = 0; i < actual.size(); ++i) {
    const Tolerance t = tolerance_in(precision, Rule::Model, sample.expected[i].dtype());
    Comparison c = compare(actual[i], sample.expected[i], t);
    if (!c.ok) {
      RP_TRY(add_slack(sample));
      Comparison beyond = compare(actual[i], sample.expected[i], t, sample.slack[i]);
      trial.rounding |= beyond.ok;
      trial.differs |= !beyond.ok;
      if (!beyond.ok) c = std::move(beyond);
      c.reason = "'" + io.outputs[i].name + "': " + c.reason;
    }
    const bool worse =
        c.ok == trial.worst.ok ? c.max_error > trial.worst.max_error : trial.worst.ok;
    if (worse) trial.worst = std::move(c);
  }
  return {};
}

Status run_session(Sample& sample, Session& session, const Setting& setting, Trial& trial) {
  std::vector<HostTensor> first;
  for (int run = 0; run < std::max(setting.runs, 1) && trial.stable; ++run) {
    RP_ASSIGN(std::vector<HostTensor> now, session.run(sample.inputs.bindings()));
    if (run > 0 && same_bits(first, now)) continue;
    trial.stable = run == 0;
    RP_TRY(compare_all(sample, session.io(), now, setting.compile.precision, trial));
    if (run == 0) first = std::move(now);
  }
  return {};
}

}  // namespace

bool same_bits(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    if (x.dtype() != y.dtype() || x.dims() != y.dims()) return false;
    if (x.dtype() == DType::String) return x.strings() == y.strings();
    return std::equal(x.bytes().begin(), x.bytes().end(), y.bytes().begin(), y.bytes().end());
  });
}

Result<Sample> make_sample(std::unique_ptr<graph::Graph> model, InputSet inputs) {
  Sample out;
  RP_ASSIGN(const Values values, HostGraph(*model).run(inputs.tensors));
  RP_ASSIGN(out.expected, outputs_of(*model, values));
  out.model = std::move(model);
  out.inputs = std::move(inputs);
  return out;
}

Status add_slack(Sample& sample) {
  if (!sample.slack.empty()) return {};
  const HostGraph host(*sample.model);
  RP_ASSIGN(sample.slack,
            slack_of(sample.expected, [&](Noise& noise) -> Result<std::vector<HostTensor>> {
              RP_ASSIGN(const Values values, host.run(sample.inputs.tensors, &noise));
              return outputs_of(*sample.model, values);
            }));
  return {};
}

Trial try_package(Sample& sample, const std::shared_ptr<const package::Package>& package,
                  const Setting& setting) {
  Trial trial;
  auto session = Session::create(package, setting.device.device, setting.session);
  trial.status = session.ok() ? run_session(sample, **session, setting, trial) : session.status();
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
