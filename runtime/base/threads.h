// Where parallel work runs.
#pragma once

#include <cstddef>
#include <functional>

namespace reprise {

/// Calls `call` with 0 ... n - 1 on threads of the application, in any order, and returns when all
/// calls have ended. Whoever uses it does what it leaves out.
using Executor = std::function<void(size_t n, const std::function<void(size_t)>& call)>;

struct Threads {
  Threads(unsigned n = 0) : count(n) {}
  unsigned count;  // this thread and those that are made for the work; 0: one per hardware thread
  Executor executor = {};  // used instead of new threads, if set
};

}  // namespace reprise
