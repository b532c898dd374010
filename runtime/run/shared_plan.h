// What the runs of a session share: the plan of the variant, and the plans of the bodies that the
// device runs.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/device/backend.h"
#include "runtime/host_plan/host_program.h"
#include "runtime/host_plan/prepared_calls.h"
#include "runtime/package/package.h"
#include "runtime/plan/order.h"
#include "runtime/run/session_options.h"
#include "runtime/run/state_memory.h"
#include "runtime/weights/weights.h"

namespace reprise {

class BodyCalls;
class RunContext;
struct SharedPlan;

/// What a session counts over all of its plans.
struct SessionTotals {
  std::atomic<uint64_t> device_bytes = 0, recordings = 0, submits = 0, dispatches = 0, barriers = 0,
                        copies = 0;
};

/// What all plans of a session use.
struct SessionResources {
  std::shared_ptr<const package::Package> package;
  std::shared_ptr<Device> device;
  SessionOptions options;
  plan::Limits limits;
  HostBodies host_bodies;
  std::vector<std::unique_ptr<SharedPlan>> bodies;  // parallel to Variant::bodies
  /// Makes what a context needs for calls of these bodies.
  std::unique_ptr<BodyCalls> (*make_body_calls)(RunContext& caller) = nullptr;
  std::atomic<uint64_t> started = 0;  // runs, which numbers them
  SessionTotals totals;
  StateMemory own_states;
  StateMemory* states = &own_states;  // of the run that is in flight; only one may be
  uint64_t state_bytes = 0;           // of the own ones, in totals.device_bytes

  uint64_t timeout_ns() const;  // of one run
  /// Counts the memory of the own states, which may have grown.
  void count_states();
};

/// One plan of a session, with its kernels and weights. It does not change once it is loaded.
struct SharedPlan {
  SharedPlan(SessionResources& session_resources, const package::CompiledPlan& p,
             const plan::Interface& own)
      : session(session_resources), compiled(p), plan(&p.plan), interface(own) {}

  SessionResources& session;
  const package::CompiledPlan& compiled;
  const plan::Plan* plan;
  const plan::Interface& interface;
  const package::DeviceBody* body = nullptr;  // null for a plan of the model
  const package::SizedPlan* sized = nullptr;  // the same, for some sizes; null for all sizes
  uint32_t number = 0;                        // RunStats::plan
  std::atomic<bool> loaded = false;           // kernels and weights are on the device
  std::atomic<bool> refused = false;  // loading it failed, and the plan for all sizes serves
  plan::BlockTable table;
  std::vector<plan::Segment> segments;
  std::vector<std::unique_ptr<DeviceKernel>> kernels;
  DeviceWeights weights;
  HostWeights host_weights;
  PreparedCalls prepared;
  /// How the plan uses a buffer.
  struct BufferUse {
    bool on_device = false;     // a launch, or a body on the device, reads or writes it
    bool late = false;          // its size depends on the result of a host call
    int32_t last_segment = -1;  // the last segment with a launch that writes it; -1: none
  };
  IdVector<plan::BufferId, BufferUse> uses;
  std::vector<std::vector<plan::BufferId>>
      of_input;  // per model input: the buffers that are bound to it
  struct OutputSource {
    plan::BufferId buffer, alias_of;  // its buffer, and the buffer that it is a copy of
    /// Where its value is.
    plan::BufferId origin() const { return alias_of.is_none() ? buffer : alias_of; }
  };
  std::vector<OutputSource> of_output;  // per model output
  struct StateBuffers {
    plan::BufferId current, next;  // `next` is none if launches update the state in place
    plan::BufferId all;            // of a state that grows; may be none
  };
  std::vector<StateBuffers> of_state;           // per state; of the plan of the variant only
  std::vector<plan::Plan::Alias> state_copies;  // next values that the session copies
  size_t first_recorded = 0;  // segment that copies staged inputs; segments.size(): none
  std::vector<std::array<uint32_t, 3>> fixed_grids;  // per step, for launches with a constant grid
  bool calls_bodies = false;                         // a host call has bodies on the device
  bool keeps_host_values = false;                    // the plan has host calls or aliases
  std::vector<bool> updates_states;                  // per segment
  bool updates_commit = true;                        // all launches that update states commit
  bool asks_for_errors = false;                      // kernels read the error word
  bool fixed_placement = true;                       // no size in the arena depends on a symbol
  /// Of a body: the only segment with a recording, if there are no host calls.
  std::optional<size_t> only_recorded;

  const plan::Interface& io() const { return interface; }
  const BufferUse& use(plan::BufferId id) const { return uses[id]; }
  /// Whether a run is one submission, without host calls.
  bool is_one_submission() const;
  /// Whether a run begins with a submission.
  bool begins_with_a_submission() const;
  /// The value of a weight on the host.
  Result<HostTensor> host_weight(plan::BufferId id) const {
    return host_weights.get(*session.package, *plan, id);
  }
  /// Computes what follows from the plan.
  Status index();
  /// Prepares host calls and uploads the weights, except those that other plans have.
  Status load_weights(std::span<const KnownWeights> known);
  /// Launches every kernel with an empty grid, in the order of first use.
  Status warm_up() const;

 private:
  void index_segments();
  void find_only_recorded();
  void index_body_call(const plan::HostCall& call);
  Status index_buffers();
  Status check_buffers() const;
  Status fix_grids();
};

}  // namespace reprise
