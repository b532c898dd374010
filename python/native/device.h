// Open devices, shared by the sessions and tensors of a process.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "backends/registry.h"
#include "runtime/platform/process.h"

namespace reprise::python {

/// Makes a child process of fork() leak the object instead of destroying it: drivers do not work
/// there, and locks that other threads held stay locked.
template <typename T>
std::shared_ptr<T> of_process(std::shared_ptr<T> object) {
  T* const raw = object.get();
  return std::shared_ptr<T>(
      raw, [held = std::move(object), process = platform::process_id()](T*) mutable {
        if (platform::process_id() != process) new std::shared_ptr<T>(std::move(held));
      });
}

/// An open device, or the host.
class Device {
 public:
  Device(OpenedDevice opened, uint64_t stream);

  /// Opens a device, or returns the one that is open. `stream` is a CUDA stream of the caller, by
  /// default CUDA's default stream. `refusal` says which devices "auto" must not choose.
  static std::shared_ptr<Device> open(const std::string& id, uint64_t stream = 0,
                                      const Refusal& refusal = {});

  /// Without a device; needs no GIL.
  static std::shared_ptr<Device> host();

  const DeviceInfo& info() const { return info_; }
  /// Null for the host.
  const std::shared_ptr<reprise::Device>& get() const { return device_; }
  uint64_t stream() const { return stream_; }
  bool is_cuda() const { return info_.facts.api == Api::Cuda; }
  /// Whether this process opened it, not its parent.
  bool owned_here() const { return platform::process_id() == process_; }
  /// Throws a UsageError if not.
  void check_process() const;

 private:
  std::shared_ptr<reprise::Device> device_;
  DeviceInfo info_;
  uint64_t stream_;
  uint64_t process_ = platform::process_id();
};

/// From None ("auto"), the id of a device, or a Device.
std::shared_ptr<Device> to_device(nanobind::handle object, const Refusal& refusal = {});

/// Passes on what the library logs. It may be called from any thread; Python's `logging` gets the
/// messages at the next flush_log().
void log_line(Severity severity, const std::string& line);
void flush_log();
/// Passes a warning on at once. It may be called without the GIL, from any thread.
void log_now(const std::string& line);

void bind_devices(nanobind::module_& m);

}  // namespace reprise::python
