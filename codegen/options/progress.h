// Reports the progress of a compilation to its caller.
#pragma once

#include <mutex>
#include <string>

#include "codegen/options/compile_options.h"
#include "runtime/platform/parallel.h"

namespace reprise {

/// Code::Cancelled if the caller asks to stop.
inline Status report_progress(const CompileOptions& options, const std::string& what,
                              size_t done = 0, size_t total = 0) {
  if (!options.progress || options.progress(what, done, total)) return {};
  return {Code::Cancelled, "compiling was cancelled after '" + what + "'"};
}

/// Calls f(0) ... f(n - 1) in parallel, and reports after each that one part more of `what` is
/// done. No call begins after the caller has asked to stop. `activity` is that of in_parallel().
template <typename F>
Status in_parallel(const CompileOptions& options, const char* what, size_t n, const char* activity,
                   const F& f) {
  std::mutex mutex;
  size_t done = 0;
  Status cancelled;
  RP_TRY(in_parallel(n, options.threads, activity, [&](size_t i) {
    {
      const std::lock_guard lock(mutex);
      if (!cancelled.ok()) return;
    }
    f(i);
    const std::lock_guard lock(mutex);
    if (cancelled.ok()) cancelled = report_progress(options, what, ++done, n);
  }));
  return cancelled;
}

}  // namespace reprise
