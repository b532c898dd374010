#include "python/native/device.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <mutex>
#include <vector>

#include "apps/common/devices.h"
#include "backends/cuda/api.h"
#include "python/native/errors.h"

namespace nb = nanobind;

namespace reprise::python {
namespace {

struct LogLines {
  std::mutex mutex;
  std::vector<std::pair<Severity, std::string>> lines;
};
LogLines& log_lines() {
  static auto* const all = new LogLines;  // threads of drivers may outlive the interpreter
  return *all;
}

struct Opened {
  std::mutex mutex;
  std::map<std::pair<std::string, uint64_t>, std::weak_ptr<Device>> devices;
};
Opened& opened() {
  static auto* const all = new Opened;
  return *all;
}

std::shared_ptr<Device> find_open(const std::string& id, uint64_t stream) {
  const std::lock_guard lock(opened().mutex);
  const auto it = opened().devices.find({id, stream});
  auto found = it == opened().devices.end() ? nullptr : it->second.lock();
  return found && found->owned_here() ? found : nullptr;
}

nb::dict facts_of(const DeviceInfo& d) {
  nb::dict facts;
  facts["int64"] = d.facts.int64;
  facts["float16"] = d.facts.float16;
  facts["storage8"] = d.facts.storage8;
  facts["storage16"] = d.facts.storage16;
  facts["cooperative_matrix"] = !d.facts.matrices.empty();
  facts["subgroup_size"] = d.facts.subgroup_size;
  facts["max_workgroup_invocations"] = d.facts.max_workgroup_invocations;
  facts["max_shared_bytes"] = d.facts.max_shared_bytes;
  facts["max_buffer_bytes"] = d.facts.max_buffer_bytes;
  return facts;
}

}  // namespace

void log_line(Severity severity, const std::string& line) {
  const std::lock_guard lock(log_lines().mutex);
  log_lines().lines.emplace_back(severity, line);
}

void flush_log() {
  std::vector<std::pair<Severity, std::string>> lines;
  {
    const std::lock_guard lock(log_lines().mutex);
    lines.swap(log_lines().lines);
  }
  if (lines.empty()) return;
  const nb::object logger = nb::module_::import_("logging").attr("getLogger")("reprise");
  for (const auto& [severity, line] : lines) {
    const char* const method = severity == Severity::Error     ? "error"
                               : severity == Severity::Warning ? "warning"
                                                               : "info";
    logger.attr(method)("%s", line);
  }
}

void log_now(const std::string& line) {
  log_line(Severity::Warning, line);
  const nb::gil_scoped_acquire acquire;
  try {
    flush_log();
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("reprise");
  }
}

Device::Device(OpenedDevice opened, uint64_t stream)
    : info_(std::move(opened.info)), stream_(stream) {
  if (opened.device) device_ = of_process(std::move(opened.device));
}

std::shared_ptr<Device> Device::open(const std::string& id, uint64_t stream,
                                     const Refusal& refusal) {
  if (stream == 0) stream = cuda::CU_STREAM_LEGACY;
  if (auto found = find_open(id, stream)) return found;
  const nb::gil_scoped_release release;
  BackendOptions options = app::default_backend_options();
  options.log = log_line;
  options.cuda.stream = reinterpret_cast<void*>(stream);
  OpenedDevice made = take(open_device(id, options, refusal));
  if (!made.note.empty()) log_line(Severity::Info, made.note);
  if (auto found = find_open(made.info.id, stream)) return found;
  const std::string name = made.info.id;
  auto device = std::make_shared<Device>(std::move(made), stream);
  const std::lock_guard lock(python::opened().mutex);
  python::opened().devices[{name, stream}] = device;
  return device;
}

std::shared_ptr<Device> Device::host() {
  return std::make_shared<Device>(take(open_device("host")), 0);
}

void Device::check_process() const {
  if (!owned_here())
    misuse(
        "device " + info_.id +
        " was opened by the parent process of fork(); open it after the fork, or start processes "
        "with the method 'spawn'");
}

std::shared_ptr<Device> to_device(nb::handle object, const Refusal& refusal) {
  if (object.is_none()) return Device::open("auto", 0, refusal);
  if (nb::isinstance<nb::str>(object))
    return Device::open(nb::cast<std::string>(object), 0, refusal);
  std::shared_ptr<Device> device;
  if (!nb::try_cast(object, device) || !device)
    throw nb::type_error("device: expected a str such as 'vulkan:0', or a reprise.Device");
  return device;
}

void bind_devices(nb::module_& m) {
  nb::class_<DeviceInfo>(m, "DeviceInfo", "A device of this machine, and whether it can be used.")
      .def_ro("id", &DeviceInfo::id,
              "The name by which it is opened: 'vulkan:0', 'cuda:0', 'host'.")
      .def_ro("name", &DeviceInfo::name, "The name that the driver gives it.")
      .def_ro("kind", &DeviceInfo::kind,
              "Such as 'discrete-gpu', 'integrated-gpu', 'cpu' or 'host'.")
      .def_ro("driver", &DeviceInfo::driver, "The name and version of the driver.")
      .def_ro("api", &DeviceInfo::api,
              "The version of the driver's interface, such as 'Vulkan 1.3.230'.")
      .def_ro("usable", &DeviceInfo::usable, "Whether it can be opened.")
      .def_ro("reason", &DeviceInfo::reason, "If it is not usable: why, and what to do.")
      .def_prop_ro("facts", facts_of, nb::sig("def facts(self) -> dict[str, int | bool]"),
                   "What it can do; sizes are in bytes.")
      .def("__repr__", [](const DeviceInfo& d) {
        return "<reprise.DeviceInfo " + d.id + " '" + d.name + "'" +
               (d.usable ? "" : ", not usable") + ">";
      });
  m.def(
      "list_devices", [] { return list_devices(); }, nb::call_guard<nb::gil_scoped_release>(),
      "Every device, the host last.");
  nb::class_<Device>(m, "Device", "An open device. Sessions and tensors on it share its memory.")
      .def_prop_ro(
          "id", [](const Device& d) { return d.info().id; },
          "The name by which it is opened, such as 'vulkan:0'.")
      .def_prop_ro(
          "info", [](const Device& d) { return d.info(); }, "What is known of the device.")
      .def_prop_ro(
          "stream", [](const Device& d) { return d.is_cuda() ? d.stream() : 0; },
          "The CUDA stream of runs and transfers; 0 for other devices.")
      .def("__repr__", [](const Device& d) {
        return "<reprise.Device " + d.info().id + " '" + d.info().name + "'>";
      });
  m.def(
      "open_device",
      [](const std::string& id, uint64_t stream) { return Device::open(id, stream); },
      nb::arg("id") = "auto", nb::arg("stream") = 0,
      "Opens a device, or returns it if it is open. `stream` is the handle of a CUDA stream; 0 is\n"
      "CUDA's default stream.");
}

}  // namespace reprise::python
