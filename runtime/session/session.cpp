#include "runtime/session/session.h"

#include <algorithm>

#include "runtime/facts/cuda_arch.h"
#include "runtime/host_plan/host_step.h"
#include "runtime/run/shared_arena.h"
#include "runtime/run/state_memory.h"
#include "runtime/session/session_impl.h"
#include "runtime/session/state_file.h"
#include "runtime/weights/weights.h"

namespace reprise {
namespace {

// Checks that the sources and shapes of the interface refer to existing symbols and inputs.
// plan::verify checks the plans.
Status check_interface(const plan::Interface& io) {
  if (io.sources.size() != io.symbols.size())
    return invalid_model("the package has symbols without a source");
  for (const SymbolSource& s : io.sources) {
    if (s.kind != SymbolSource::Kind::InputDim) continue;
    const bool known =
        s.index >= 0 && static_cast<size_t>(s.index) < io.inputs.size() && s.axis >= 0 &&
        static_cast<size_t>(s.axis) < io.inputs[static_cast<size_t>(s.index)].shape.size();
    if (!known) return invalid_model("the package has a symbol from an input that does not exist");
  }
  return {};
}

/// Adds the calls that run on the host, in the plan or in the bodies that it calls on the device.
void add_host_calls(const package::Variant& v, const plan::Plan& plan, std::string& nodes) {
  for (const plan::Step& step : plan.steps) {
    const auto* call = std::get_if<plan::HostCall>(&step.what);
    if (call && call->device_bodies.empty())
      nodes += (nodes.empty() ? "" : ", ") + describe_call(*call) + ": " + call->reason;
    if (call)
      for (const uint32_t b : call->device_bodies) add_host_calls(v, v.bodies[b].plan, nodes);
  }
}

Status refuse_host_calls(const package::Variant& v) {
  std::string nodes;
  add_host_calls(v, v.plan, nodes);
  for (const package::SizedPlan& p : v.plans)
    if (nodes.empty()) add_host_calls(v, p.plan, nodes);
  if (nodes.empty()) return {};
  return unsupported("fullgraph is set, but these nodes run on the host: " + nodes +
                     "; replace them in the model, or allow host fallback");
}

/// A note about the selected variant if it is not the ideal one; usually empty.
std::string caveat(const package::Variant& v, const DeviceFacts& facts) {
  const auto arch = CudaArch::parse(v.predicate.cuda_arch);
  if (!arch || !arch->ptx) return {};
  const std::string own = "sm_" + std::to_string(facts.cuda_arch);
  return v.name + ": falls back to PTX " + arch->str() + ": no image for " + own +
         "; the driver compiles the kernels when they are loaded for the first time, unless the "
         "model is compiled with --targets cuda:" +
         own;
}

/// For a device that an application lends without all of its features: a note if that makes it use
/// another variant; usually empty.
std::string lent_caveat(const package::Package& package, size_t v, const DeviceInfo& info) {
  if (!info.offered) return {};
  for (size_t better = 0; better < v; ++better) {
    const package::Variant& variant = package.variants[better];
    if (!variant.predicate.mismatch(*info.offered).empty()) continue;
    return package.variants[v].name + ": the faster variant " + variant.name +
           " could run, if the application that lends the device enabled all of these features and "
           "set them in reprise_vulkan_device: " +
           variant.predicate.missing_of_lent(info.facts) +
           "; reprise_vulkan_wanted_features sets those that the device has";
  }
  return {};
}

/// The option that compiles a package for the device.
std::string target_for(const DeviceFacts& facts) {
  if (facts.api == Api::Cuda) return " (--targets cuda:sm_" + std::to_string(facts.cuda_arch) + ")";
  if (facts.api != Api::Vulkan) return "";
  return facts.buffer_address ? " (--targets vulkan)" : " (--targets vulkan-descriptors)";
}

/// The first variant from `v` on that fits, or else the number of variants. Adds to `notes` why the
/// skipped ones do not fit.
size_t find_variant(const package::Package& package, const DeviceFacts& facts, size_t v,
                    std::vector<std::string>& notes) {
  for (; v < package.variants.size(); ++v) {
    const package::Variant& variant = package.variants[v];
    const std::string mismatch = variant.predicate.mismatch(facts);
    if (mismatch.empty()) break;
    notes.push_back(variant.name + ": " + mismatch);
  }
  return v;
}

std::string joined(const std::vector<std::string>& notes) {
  std::string reasons;
  for (const std::string& note : notes) reasons += (reasons.empty() ? "" : "; ") + note;
  return reasons.empty() ? "it has variants for no device" : reasons;
}

Status no_variant(const package::Package& package, const DeviceInfo& info,
                  const std::vector<std::string>& notes) {
  return incompatible_package("no variant of '" + package.model_name + "' fits " + info.id + " (" +
                              info.name + "): " + joined(notes) +
                              "; compile the model for this kind of device" +
                              target_for(info.facts) + " or use the host device");
}

/// Uses the host instead of a device whose driver computes wrong results with every variant.
Result<std::unique_ptr<Session>> create_instead(
    const std::shared_ptr<const package::Package>& package, std::vector<std::string> notes,
    const SessionOptions& options) {
  if (options.fullgraph) {
    return Status(Code::Device, "no variant of '" + package->model_name +
                                    "' computes right results on this device, and fullgraph "
                                    "forbids the host: " +
                                    joined(notes) + "; update the driver");
  }
  RP_TRY(plan::verify(package->host_plan, package->io).with_context("host plan"));
  return create_host_session(package, std::move(notes), options);
}

Status verify_plans(const package::Variant& v, const plan::Interface& io) {
  for (const package::DeviceBody& body : v.bodies)
    RP_TRY(plan::verify(body.plan, body.io).with_context(body.name));
  for (const package::SizedPlan& p : v.plans) RP_TRY(plan::verify(p.plan, io));
  return plan::verify(v.plan, io);
}

/// Uses the first variant that fits and, if the options ask for a check, whose kernels are right.
Result<std::unique_ptr<Session>> create_on_device(
    const std::shared_ptr<const package::Package>& package, const std::shared_ptr<Device>& device,
    const SessionOptions& options) {
  const DeviceInfo& info = device->info();
  std::vector<std::string> notes;
  bool any_wrong = false;
  for (size_t v = 0;; ++v) {
    v = find_variant(*package, info.facts, v, notes);
    if (v == package->variants.size()) {
      if (!any_wrong) return no_variant(*package, info, notes);
      if (options.log)
        options.log(Severity::Warning,
                    info.id + ": '" + package->model_name + "' runs on the host");
      return create_instead(package, std::move(notes), options);
    }
    const package::Variant& variant = package->variants[v];
    RP_TRY(verify_plans(variant, package->io).with_context("variant " + variant.name));
    if (options.fullgraph) RP_TRY(refuse_host_calls(variant));
    std::vector<std::string> own = notes;
    std::string note = caveat(variant, info.facts);
    if (!note.empty()) own.push_back(std::move(note));
    note = lent_caveat(*package, v, info);
    if (!note.empty() && options.log)
      options.log(Severity::Warning, info.id + ": '" + package->model_name + "': " + note);
    if (!note.empty()) own.push_back(std::move(note));
    Verdict verdict;
    RP_ASSIGN(auto session,
              create_device_session(package, device, v, std::move(own), options, verdict));
    if (session) return session;
    any_wrong = true;
    notes.push_back(variant.name + ": the driver computes wrong results: " + verdict.reason);
    if (options.log) {
      options.log(Severity::Warning, info.id + " (" + info.name + ", " + info.driver +
                                         "): variant '" + variant.name + "' of '" +
                                         package->model_name + "' is not used: " + verdict.reason);
    }
  }
}

}  // namespace

std::string why_unfit(const package::Package& package, const DeviceFacts& facts) {
  std::vector<std::string> notes;
  const size_t v = find_variant(package, facts, 0, notes);
  if (v == package.variants.size()) return joined(notes);
  const package::Variant& variant = package.variants[v];
  if (!verify_plans(variant, package.io).ok()) return {};  // a session reports damage
  Status fits;
  package::for_each_plan(variant, [&](const package::CompiledPlan& p) {
    if (fits.ok()) fits = check_weights_fit(package, p.plan, facts.max_buffer_bytes);
  });
  return fits.code() == Code::Unsupported ? fits.message() : std::string();
}

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const package::Package> package,
                                                 const std::shared_ptr<Device>& device,
                                                 const SessionOptions& options) {
  if (!package) return Status(Code::Usage, "a session needs a package");
  if (options.arena && options.arena->device() != device)
    return Status(Code::Usage, "the arena of the session belongs to another device");
  RP_TRY(check_interface(package->io));
  if (!device) {
    RP_TRY(plan::verify(package->host_plan, package->io).with_context("host plan"));
    return create_host_session(std::move(package), {}, options);
  }
  return create_on_device(package, device, options);
}

Status States::Use::take(States& states) {
  if (states.used_.exchange(true))
    return {Code::Busy,
            "a run or another call uses these states; wait for it, or fork them before"};
  in_use_.reset(&states.used_);
  return {};
}

Status Session::check_states(const States& states) {
  if (states.device() != device())
    return {Code::Usage,
            "these states are on another device, or on the host; make them with this session"};
  return check_same_states(states.package().io, io());
}

Result<HostTensor> Session::read_state(const std::string& name) {
  RP_ASSIGN(const size_t s, find_state(io().states, name));
  RP_ASSIGN(std::vector<HostTensor> values, read_states(std::span(&s, 1)));
  return std::move(values[0]);
}

Status Session::copy_states_from(Session& other) {
  const std::vector<size_t> which = all_of(io().states);
  if (which.empty()) return {};
  RP_ASSIGN(const std::vector<HostTensor> values, other.read_states(which));
  return write_states(which, values);
}

Status Session::write_state(const std::string& name, const HostTensor& value) {
  RP_ASSIGN(const size_t s, find_state(io().states, name));
  RP_TRY(check_value(io().states[s], value));
  return write_states(std::span(&s, 1), std::span(&value, 1));
}

Status Session::save_states(const std::string& path) {
  if (io().states.empty()) return {Code::Usage, "the model has no states to save"};
  RP_ASSIGN(std::vector<HostTensor> values, read_states(all_of(io().states)));
  return write_state_file(package(), std::move(values), path);
}

Status Session::load_states(const std::string& path) {
  RP_ASSIGN(const std::vector<HostTensor> values, read_state_file(path, io().states));
  return write_states(all_of(io().states), values);
}

Status Session::reset_states() {
  std::vector<HostTensor> values;
  values.reserve(io().states.size());
  for (const plan::StateSlot& slot : io().states) {
    RP_ASSIGN(HostTensor value, initial_state(package(), slot));
    values.push_back(std::move(value));
  }
  return write_states(all_of(io().states), values);
}

Result<StateRows> Session::state_rows(const std::string& name) {
  RP_ASSIGN(const size_t s, find_state(io().states, name));
  RP_ASSIGN(std::vector<StateRows> rows, change_rows(std::span(&s, 1), RowChange::None, 0));
  return std::move(rows[0]);
}

Status Session::change_rows(const std::string& name, RowChange change, int64_t rows) {
  std::vector<size_t> which;
  if (!name.empty()) {
    RP_ASSIGN(const size_t s, find_state(io().states, name));
    which.push_back(s);
  } else {
    which = all_of(io().states);
    std::erase_if(which, [&](size_t s) { return !io().states[s].grows(); });
  }
  if (which.empty()) return {Code::Usage, "the model has no states that grow"};
  return change_rows(which, change, rows).status();
}

Result<std::vector<HostTensor>> Session::run_from_start(std::span<const Binding> inputs) {
  RP_TRY(reset_states());
  RP_ASSIGN(std::vector<HostTensor> results, run(inputs));
  RP_ASSIGN(std::vector<HostTensor> states, read_states(all_of(io().states)));
  std::ranges::move(states, std::back_inserter(results));
  return results;
}

}  // namespace reprise
