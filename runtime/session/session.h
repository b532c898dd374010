// A package bound to a device: uploads weights once, records once, and replays on each run.
// A variant may have plans for some sizes. Each run chooses the first that serves its sizes.
//
// Threads: several threads may run a Session at the same time. Each run takes a free run context
// (recordings, parameter blocks, arena) or makes one, up to SessionOptions::max_in_flight. Beyond
// that, a run waits until a context is free.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/backend.h"
#include "runtime/package/package.h"
#include "runtime/run/binding.h"
#include "runtime/run/row_memory.h"
#include "runtime/run/session_options.h"

namespace reprise {

/// Totals of all runs. Dispatches, barriers and copies are those that the device executed.
struct SessionStats {
  uint64_t runs = 0, recordings = 0, submits = 0, dispatches = 0, barriers = 0, copies = 0;
  uint64_t compiles = 0;      // 0 for a package, which needs no compilation
  uint64_t device_bytes = 0;  // device memory that the session holds now
  double load_ms = 0;
};

/// Empty if a session for a device with these facts has a variant of the package, and room for each
/// of its weights; or else why each variant does not fit, or which weight is too large.
std::string why_unfit(const package::Package& package, const DeviceFacts& facts);

/// The values of all states of a package, apart from sessions, such as the caches of one
/// conversation. Sessions use them one after another: of the same package, or of another one that
/// has the same states. Only one thread at a time may use an object, and a run in flight does.
class States {
 public:
  virtual ~States() = default;
  /// States with the same values; of those that grow, with the first `length` rows, or with all if
  /// it is -1. Forks have the memory of their first rows in common, until one that is not the first
  /// to append copies its own. Code::Usage if there are fewer rows, or if a fixed state has no
  /// value for that length.
  virtual Result<std::shared_ptr<States>> fork(int64_t length) = 0;
  struct Info {
    uint64_t bytes = 0, shared_bytes = 0;  // in their memory; of these, in that which forks use too
    int64_t length = 0;                    // of the longest state that grows
  };
  virtual Result<Info> info() = 0;
  const package::Package& package() const { return *package_; }
  /// Where they are; null: on the host.
  const Device* device() const { return device_.get(); }

  /// The right to use states, as one run or call at a time has it. Code::Busy if another has it.
  class Use {
   public:
    Status take(States& states);
    /// For a device that may be late.
    InUse hand_over() { return std::move(in_use_); }

   private:
    InUse in_use_;
  };

 protected:
  States(std::shared_ptr<const package::Package> package, std::shared_ptr<Device> device)
      : package_(std::move(package)), device_(std::move(device)) {}
  const std::shared_ptr<const package::Package> package_;  // for which they were made
  const std::shared_ptr<Device> device_;

 private:
  std::atomic<bool> used_ = false;
};

/// A run that does not block its caller. It can be submitted again and again. Only one thread at a
/// time may use it, and the session must outlive it.
class AsyncRun {
 public:
  /// Waits for the device if the run is in flight; outputs are not delivered then.
  virtual ~AsyncRun() = default;
  /// Binds memory, as Session::run() does, for all submissions until the next call. The bindings
  /// and their memory must stay valid until then or until the run is destroyed. A call that fails
  /// while the run is in flight changes nothing; any other that fails leaves no bindings.
  virtual Status bind(std::span<const Binding> inputs, std::span<const Binding> outputs) = 0;
  /// As Session::bind_states(), for this run alone; null: those of the session.
  virtual Status bind_states(const std::shared_ptr<States>& states) = 0;
  /// Forgets the bindings. The run must not be in flight.
  virtual void unbind() = 0;
  virtual bool is_bound() const = 0;
  /// Copies inputs from host memory, submits the run, and returns without waiting for the device.
  /// Only a plan of one submission without host calls can signal, and only one that begins with a
  /// launch can wait. Code::Busy if SessionOptions::max_in_flight runs are in flight. A session on
  /// the host computes before this returns. Returns whether anything was submitted to a device; if
  /// not, ended() is true already, and SubmitOptions::at_end is not called. Allocates nothing on
  /// the heap under the conditions of Session::run_into(). On a Vulkan device and in a stream that
  /// the application lends, plans of one submission use memory in the order of these calls.
  virtual Result<bool> submit(const SubmitOptions& options = {}) = 0;
  /// Writes the run to a command buffer of the application instead of submitting it, between
  /// barriers (Device::record_into). Only for a plan of one submission without host calls. The
  /// application may execute the command buffer several times, one after the other. It calls wait()
  /// when it has been executed for the last time, and destroys the run only after that.
  virtual Status record(void* command_buffer) = 0;
  /// Whether it was submitted or recorded and has not ended in wait(), or with an error.
  virtual bool in_flight() const = 0;
  /// Whether wait() would not wait for what was submitted. Host calls that follow it are made by
  /// wait(). An error ends the run.
  virtual Result<bool> ended() = 0;
  /// Waits for the end of the run and delivers its results, as Session::run_into() does.
  virtual Status wait(std::vector<HostTensor>& results, RunStats* stats) = 0;
};

class Session {
 public:
  /// Waits for runs that timed out (BackendOptions::patience_ns).
  virtual ~Session() = default;
  /// Runs once and waits. Missing, unknown or duplicate names and wrong dtypes, ranks and dims are
  /// InvalidInput errors; they name the tensor and say what was expected and found. The result has
  /// all outputs in order: those that are not bound as host tensors, the bound ones with their
  /// dtype and dims but without bytes. Memory to which this run writes may not be in use by another
  /// one in flight.
  Result<std::vector<HostTensor>> run(std::span<const Binding> inputs,
                                      std::span<const Binding> outputs = {},
                                      RunStats* stats = nullptr) {
    std::vector<HostTensor> results;
    RP_TRY(run_into(inputs, outputs, results, stats));
    return results;
  }
  /// The same, but reuses the memory of `results`. Allocates nothing on the heap if the plan has
  /// only launches, an earlier run had the same sizes, and all outputs are bound.
  virtual Status run_into(std::span<const Binding> inputs, std::span<const Binding> outputs,
                          std::vector<HostTensor>& results, RunStats* stats) = 0;
  virtual Result<std::unique_ptr<AsyncRun>> make_run() = 0;
  virtual const plan::Interface& io() const = 0;

  // States are tensors that the session keeps: io().states. Each run reads them and gives them
  // their next values, so runs take turns, and these calls wait for runs that came before. If a
  // kernel or a host call finds an error, such as an index out of range, all states are as they
  // were before the run. If a run ends for another reason while the device updates states in place
  // (its time limit, a lost device), these have no defined value. Calls that need it are
  // Code::Usage errors then, until the states are loaded, reset or written.
  Result<HostTensor> read_state(const std::string& name);
  /// Unknown names and other dtypes or dims than the state's are InvalidInput errors.
  Status write_state(const std::string& name, const HostTensor& value);
  /// Writes the values of all states to a file: a package without kernels.
  Status save_states(const std::string& path);
  /// Reads all states from a file of save_states(), or the initial values from a package. It must
  /// have the same states. If it does not, or if limits or memory forbid a value, nothing changes.
  Status load_states(const std::string& path);
  /// Gives all states their initial values.
  Status reset_states();
  // States that grow: a run appends rows to each, and the session has memory for them. A run that
  // fails leaves them as they were. They begin without rows. An empty name: all that grow.
  Result<StateRows> state_rows(const std::string& name);
  /// Keeps the first rows. Code::Usage if there are fewer.
  Status truncate_states(const std::string& name, int64_t length) {
    return change_rows(name, RowChange::Truncate, length);
  }
  /// Makes memory for at least so many rows: now, or before the next run if that decides the size
  /// of a row.
  Status reserve_states(const std::string& name, int64_t rows) {
    return change_rows(name, RowChange::Reserve, rows);
  }
  /// Runs that need more rows are refused.
  Status limit_states(const std::string& name, int64_t rows) {
    return change_rows(name, RowChange::Limit, rows);
  }
  /// Makes states with the initial values, apart from this session.
  virtual Result<std::shared_ptr<States>> make_states() = 0;
  /// From now on, runs and the functions above use these states; null: the session's own. Waits for
  /// runs that came before. Code::Usage if they are on another device or of another model.
  virtual Status bind_states(const std::shared_ptr<States>& states) = 0;
  /// Copies all states of another session of the same package. If limits or memory forbid a value,
  /// nothing changes.
  Status copy_states_from(Session& other);
  /// Runs once with the initial values of the states, for comparisons. The results are the outputs,
  /// then the next values of the states. result_name() names them.
  Result<std::vector<HostTensor>> run_from_start(std::span<const Binding> inputs);
  const std::string& result_name(size_t i) const {
    const size_t outputs = io().outputs.size();
    return i < outputs ? io().outputs[i].name : io().states[i - outputs].name;
  }

  /// The name of the variant in use.
  virtual const std::string& variant() const = 0;
  /// Why earlier variants were not used: "NAME: reason". A note that begins with the name of the
  /// variant in use says why it is not the ideal one, such as PTX because there is no cubin.
  virtual const std::vector<std::string>& variant_notes() const = 0;
  /// The plan for all sizes.
  virtual const plan::Plan& plan() const = 0;
  /// The variant in use, with its plans for some sizes; null on the host.
  virtual const package::Variant* compiled() const { return nullptr; }
  /// The plan of a run. `number`: RunStats::plan.
  const plan::Plan& plan(uint32_t number) const {
    return number == 0 ? plan() : compiled()->plans[number - 1].plan;
  }
  virtual SessionStats stats() const = 0;
  virtual Device* device() = 0;  // null for the host

  /// Binds the package to the device, or to the host if `device` is null.
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const package::Package> package,
                                                 const std::shared_ptr<Device>& device,
                                                 const SessionOptions& options = {});

 protected:
  virtual const package::Package& package() const = 0;
  /// Whether this session can use states that another one has made.
  Status check_states(const States& states);
  /// `which` are indices into io().states.
  virtual Result<std::vector<HostTensor>> read_states(std::span<const size_t> which) = 0;
  /// `values` are parallel to `which`, and have the dtypes and dims of the states.
  virtual Status write_states(std::span<const size_t> which,
                              std::span<const HostTensor> values) = 0;
  /// Changes the rows of states in one turn, and returns what they have then. Code::Usage if one
  /// does not grow. If it fails, no rows are lost, and all limits are as before.
  virtual Result<std::vector<StateRows>> change_rows(std::span<const size_t> which,
                                                     RowChange change, int64_t rows) = 0;

 private:
  Status change_rows(const std::string& name, RowChange change, int64_t rows);
};

}  // namespace reprise
