// The command line of a sample application.
#pragma once

#include <CLI/CLI.hpp>

#include "apps/samples/outcome.h"

namespace samples {

/// Parses the arguments and calls `run`, whose result is the exit status.
template <typename Run>
int run_command(CLI::App& app, int argc, char** argv, const Run& run) {
  app.allow_windows_style_options(false);  // paths may begin with a slash there, too
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kDone : kUsage;
  }
  return run();
}

}  // namespace samples
