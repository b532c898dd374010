// reprise.Session: a package bound to a device, run with memory of Python objects.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "python/native/package.h"
#include "python/native/tensor.h"
#include "runtime/base/pool.h"
#include "runtime/session/session.h"

namespace reprise::python {

/// The tensors of one run. Later runs reuse the object.
struct Call {
  std::vector<std::unique_ptr<Array>> arrays;           // inputs, then outputs
  std::vector<HostTensor> hosts;                        // inputs in host memory
  std::vector<Binding> inputs, outputs;                 // outputs: only those that are given
  std::vector<nanobind::object> memory;                 // by slot: what an output is written to
  size_t bound = 0;                                     // how many of `outputs` are used
  std::vector<std::shared_ptr<TensorMemory>> tensors;   // keeps them alive until the run ends
  std::vector<std::unique_ptr<DeviceBuffer>> borrowed;  // CUDA memory of other libraries
  std::vector<HostTensor> results;
  RunStats stats;
};

/// The times of one run.
struct Times {
  double submit_us = 0;  // host work until the run was submitted, without copies
  double total_us = 0;
  uint64_t bytes_copied = 0;  // between host and device memory
  std::vector<double> kernel_us;
  uint32_t plan = 0;  // RunStats::plan
};

class Session {
 public:
  Session(const Package& package, nanobind::handle device, const std::string& mode,
          SessionOptions options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Runs once, with inputs in the order of their slots. `outputs` is None, or has memory or None
  /// for each output. Returns the outputs: what was given, or NumPy arrays.
  nanobind::list run(nanobind::handle inputs, nanobind::handle outputs, Times* times = nullptr);

  const nanobind::list& inputs() const { return inputs_; }
  const nanobind::list& outputs() const { return outputs_; }
  nanobind::list states() const { return states_of(package_->io); }
  nanobind::object read_state(const std::string& name);
  nanobind::tuple state_rows(const std::string& name);
  void write_state(const std::string& name, nanobind::handle value);
  /// The session, for calls that may wait for a run.
  std::shared_ptr<reprise::Session> checked() const;
  const std::shared_ptr<Device>& device() const { return device_; }
  const reprise::Session& get() const { return *session_; }
  const std::string& mode() const { return mode_; }
  /// The kernel of each launch of a plan, in the order of Times::kernel_us.
  std::vector<std::string> kernels_of(uint32_t plan) const;
  bool timestamps() const { return timestamps_; }

 private:
  void prepare(Call& call) const;
  void bind_input(Call& call, size_t i, nanobind::handle object) const;
  void bind_output(Call& call, size_t o, nanobind::handle object) const;
  void bind_tensor(Call& call, const plan::Slot& slot, bool input, Binding& b,
                   const Tensor& tensor) const;
  void lend_cuda(Call& call, const Array& array, Binding& b) const;
  void check_array(const plan::Slot& slot, bool input, const Array& array) const;
  nanobind::list collect(const Call& call) const;
  void keep_late(Call& call);

  std::shared_ptr<const package::Package> package_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<reprise::Session> session_;
  std::string mode_;
  bool timestamps_;
  std::atomic<bool> has_run_ = false;  // the first run may wait for a driver that compiles kernels
  nanobind::list inputs_, outputs_;
  std::vector<std::optional<std::vector<int64_t>>> fixed_;  // dims of outputs, if always the same
  std::unique_ptr<Pool<Call>> calls_ = std::make_unique<Pool<Call>>();
  std::vector<std::unique_ptr<Call>> late_;  // a run that timed out may still use their memory
};

void bind_sessions(nanobind::module_& m);

}  // namespace reprise::python
