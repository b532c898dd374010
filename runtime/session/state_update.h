// The update of a session's states by one run.
#pragma once

#include "runtime/run/run_executor.h"
#include "runtime/run/shared_plan.h"

namespace reprise {

/// Gives the states their next values when a run ends, also if an exception ends it.
class StateUpdate {
 public:
  StateUpdate(const SharedPlan& plan, const RunExecutor& run) : plan_(plan), run_(run) {}
  StateUpdate(const StateUpdate&) = delete;
  StateUpdate& operator=(const StateUpdate&) = delete;
  ~StateUpdate() {
    StateMemory& states = *plan_.session.states;
    for (size_t s = 0; done && s < plan_.of_state.size(); ++s)
      if (!plan_.of_state[s].next.is_none()) states.advance(s);
    if (!done && !run_.kept_states()) states.fail();
  }
  bool done = false;

 private:
  const SharedPlan& plan_;
  const RunExecutor& run_;
};

}  // namespace reprise
