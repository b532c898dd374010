// Reports the progress of a compilation to its caller.
#pragma once

#include <string>

#include "codegen/compile_options.h"

namespace reprise {

/// Code::Cancelled if the caller asks to stop.
inline Status report_progress(const CompileOptions& options, const std::string& what,
                              size_t done = 0, size_t total = 0) {
  if (!options.progress || options.progress(what, done, total)) return {};
  return {Code::Cancelled, "compiling was cancelled after '" + what + "'"};
}

}  // namespace reprise
