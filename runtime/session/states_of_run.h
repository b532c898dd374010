// The use of a session's states by one run.
#pragma once

#include "runtime/run/run_context.h"
#include "runtime/run/state_memory.h"

namespace reprise {

/// Ends a run's use of the states, also if an exception ends the run.
class StatesOfRun {
 public:
  StatesOfRun(StateMemory& states, const RunContext& context)
      : states_(states), context_(context) {}
  StatesOfRun(const StatesOfRun&) = delete;
  StatesOfRun& operator=(const StatesOfRun&) = delete;
  ~StatesOfRun() {
    if (done) states_.advance();
    if (!done && !context_.kept_states()) states_.fail();
  }
  bool done = false;

 private:
  StateMemory& states_;
  const RunContext& context_;
};

}  // namespace reprise
