// What explain() tells, as plain Python objects; reprise/_explain.py makes tables of them.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/common/launch_bytes.h"
#include "python/native/errors.h"
#include "python/native/package.h"
#include "runtime/plan/bind.h"
#include "runtime/session/session.h"

namespace nb = nanobind;

namespace reprise::python {
namespace {

nb::object bytes_or_none(int64_t bytes) {
  return bytes < 0 ? nb::object(nb::none()) : nb::object(nb::int_(bytes));
}

nb::dict launch_of(const plan::Plan& p, const plan::Launch& launch, const std::string& body) {
  nb::dict row;
  row["kernel"] = p.kernels[launch.kernel].name;
  row["nodes"] = launch.nodes;
  row["schedule"] = launch.schedule;
  row["bytes_read"] = bytes_or_none(app::bytes_moved(p, launch, false));
  row["bytes_written"] = bytes_or_none(app::bytes_moved(p, launch, true));
  row["body"] = body;
  return row;
}

/// Appends the launches of a plan, and the calls that the host runs.
void add_steps(const plan::Plan& p, const std::string& body, nb::list& launches, nb::list& host) {
  for (const plan::Step& step : p.steps) {
    if (const auto* launch = std::get_if<plan::Launch>(&step.what)) {
      launches.append(launch_of(p, *launch, body));
      continue;
    }
    const auto& call = std::get<plan::HostCall>(step.what);
    if (!call.device_bodies.empty()) continue;
    nb::dict row;
    row["node"] = call.node;
    row["op"] = call.op;
    row["reason"] = call.reason;
    row["body"] = body;
    host.append(row);
  }
}

const package::Variant* choose(const package::Package& p, nb::handle device, nb::list& skipped) {
  if (device.is_none()) return p.variants.empty() ? nullptr : p.variants.data();
  const std::shared_ptr<Device> opened =
      to_device(device, [&](const DeviceInfo& d) { return why_unfit(p, d.facts); });
  if (!opened->get()) return nullptr;
  for (const package::Variant& v : p.variants) {
    const std::string mismatch = v.predicate.mismatch(opened->info().facts);
    if (mismatch.empty()) return &v;
    skipped.append(v.name + ": " + mismatch);
  }
  return nullptr;
}

nb::list unfused_of(const package::Explanation& e) {
  nb::list rows;
  for (const package::Unfused& u : e.unfused) {
    nb::dict row;
    row["source"] = u.from;
    row["target"] = u.to;
    row["reason"] = u.reason;
    rows.append(row);
  }
  return rows;
}

nb::list kept_of(const package::Explanation& e) {
  nb::list rows;
  for (const package::KeptNode& k : e.kept) {
    nb::dict row;
    row["node"] = k.node;
    row["op"] = k.op;
    row["reason"] = k.reason;
    rows.append(row);
  }
  return rows;
}

}  // namespace

nb::dict explain(const Package& held, nb::handle device) {
  const package::Package& p = *held.package;
  nb::list skipped, launches, host;
  const package::Variant* variant = choose(p, device, skipped);
  const plan::Plan& plan = variant != nullptr ? variant->plan : p.host_plan;
  add_steps(plan, "", launches, host);
  if (variant != nullptr)
    for (const package::DeviceBody& body : variant->bodies)
      add_steps(body.plan, body.name, launches, host);
  const plan::PlanCounts run = plan::count(plan);
  nb::dict out;
  out["model"] = p.model_name;
  out["variant"] = variant != nullptr ? variant->name : "host";
  out["skipped"] = skipped;
  out["model_nodes"] = p.explanation.model_nodes;
  out["launches_unfused"] = p.explanation.launches_unfused;
  out["submits"] = run.submits;
  out["launches"] = launches;
  out["host"] = host;
  out["unfused"] = variant != nullptr ? unfused_of(p.explanation) : nb::list();
  out["precision"] = std::string(name_of(p.explanation.precision));
  out["kept"] = kept_of(p.explanation);
  out["notes"] = p.explanation.notes;
  return out;
}

}  // namespace reprise::python
