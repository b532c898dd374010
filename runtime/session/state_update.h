// The update of a session's states by one run.
#pragma once

#include "runtime/run/run_executor.h"
#include "runtime/run/state_memory.h"

namespace reprise {

/// Gives the states their next values when a run ends, also if an exception ends it.
class StateUpdate {
 public:
  StateUpdate(StateMemory& states, const RunExecutor& run) : states_(states), run_(run) {}
  StateUpdate(const StateUpdate&) = delete;
  StateUpdate& operator=(const StateUpdate&) = delete;
  ~StateUpdate() {
    if (done) states_.advance();
    if (!done && !run_.kept_states()) states_.fail();
  }
  bool done = false;

 private:
  StateMemory& states_;
  const RunExecutor& run_;
};

}  // namespace reprise
