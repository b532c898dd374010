// A run of a Loop or Scan whose body runs on the device. The body is recorded once and replayed for
// each iteration: values that iterations pass on alternate between two places, and slices of
// scanned and stacked tensors are addressed by an offset, so that only parameter blocks change.
// Where the number of iterations is known and the body has no host calls, the host submits
// iterations before earlier ones have ended: they take turns in several contexts of the body.
#pragma once

#include <array>
#include <deque>
#include <limits>

#include "runtime/run/bodies/body_runner.h"

namespace reprise {

/// What the body of a Loop or Scan takes and returns.
struct LoopForm {
  size_t first = 0;       // input of the call that is the first value to pass on
  size_t numbers = 0;     // inputs of the body before the values that iterations pass on
  size_t conditions = 0;  // outputs of the body before them
  size_t carried = 0, scanned = 0, stacked = 0;
  std::vector<size_t> in_axes, out_axes;
  std::vector<bool> in_reversed, out_reversed;
  int64_t trips = std::numeric_limits<int64_t>::max();  // the most iterations
  bool fixed = true;                                    // there are exactly that many
};

class LoopRun {
 public:
  LoopRun(BodyRunner& runner, uint32_t step, const plan::HostCall& call, const HostRun& host,
          CurrentRun& run)
      : runner_(runner),
        shared_(runner.caller().shared()),
        step_(step),
        call_(call),
        host_(host),
        run_(run),
        body_plan_(*shared_.session.bodies[call.device_bodies[0]]),
        body_(*body_plan_.body),
        c_{.call = call, .body = call.device_bodies[0], .inputs = {}} {}

  Status run();

 private:
  /// A value that iterations pass on.
  struct Carried {
    std::optional<Binding> home;  // the output of the call, if it is read
    uint64_t bytes = 0;
    size_t place = kInitial;  // where the value is now: 0 is home
    static constexpr size_t kInitial = 2;
  };
  /// A tensor of which each iteration takes an element.
  struct Scanned {
    Binding whole;
    std::optional<HostTensor> on_host;  // if elements cannot be used in place
    std::vector<int64_t> dims;          // of an element
    uint64_t bytes = 0;
    int64_t length = 0;
  };
  /// Results of which the call returns the elements of all iterations.
  struct Stacked {
    std::optional<Binding> whole;              // if iterations write into it
    std::optional<std::vector<int64_t>> dims;  // of an element, if they are known
    uint64_t bytes = 0;
    std::vector<HostTensor> parts;  // else
  };

  /// The iterations that are in flight at a time.
  static constexpr size_t kTurns = 4;
  /// What each of them may keep in memory of its own. Larger bodies keep the device busy for
  /// longer than the host takes to submit the next one.
  static constexpr uint64_t kMostMemory = uint64_t{16} << 20;
  struct Turn {
    BodyRun body;
    std::optional<int64_t> iteration;  // that is in flight
  };

  plan::BufferId output(size_t i) const {
    return i < call_.outputs.size() ? call_.outputs[i] : plan::BufferId();
  }
  const plan::Slot& returned(size_t i) const { return body_.io.outputs[form_.conditions + i]; }

  Status read_counts(size_t first, size_t numbers, size_t conditions, size_t scanned);
  Status read_loop();
  Status read_condition();
  Status read_scan();
  Status find_length();
  Status bind_inputs();
  Status bind_scanned(size_t k);
  Status place_stacked();
  Status place_one(size_t k);
  Status place_carried();
  Result<Binding> target(size_t j, int64_t i);
  Status pass_slices(int64_t i);
  Status timed_iteration(int64_t i);
  bool may_run_ahead() const;
  Status iterate(int64_t i);
  Status begin_turn(int64_t i);
  Status end_turn(Turn& turn);
  void take_results(const std::vector<HostTensor>& results);
  Status finish();
  Status copy_home(std::vector<Command>& copies, size_t j);
  Result<HostTensor> stacked_on_host(size_t k);

  BodyRunner& runner_;
  const SharedPlan& shared_;  // of the caller
  const uint32_t step_;
  const plan::HostCall& call_;
  const HostRun& host_;
  CurrentRun& run_;
  const SharedPlan& body_plan_;
  const package::DeviceBody& body_;
  BodyCall c_;
  LoopForm form_;
  bool going_ = true;
  bool runs_ahead_ = false;  // iterations begin before earlier ones have ended
  std::array<Turn, kTurns> turns_;
  size_t next_turn_ = 0;
  HostTensor number_ = HostTensor::from<int64_t>(DType::I64, {}, {0});
  HostTensor condition_ = HostTensor::from<uint8_t>(DType::Bool, {}, {1});
  std::deque<std::optional<HostTensor>> kept_;
  std::deque<HostTensor> slices_;
  std::vector<Carried> carried_;
  std::vector<Scanned> scanned_;
  std::vector<Stacked> stacked_;
};

}  // namespace reprise
