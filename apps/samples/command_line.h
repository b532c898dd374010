// The command line of a sample application.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "apps/samples/device.h"
#include "apps/samples/outcome.h"

namespace samples {

/// The option of a sample that runs on the device with this id.
inline void add_device_option(CLI::App& app, std::string& id) {
  app.add_option("--device", id, "auto, host, vulkan[:N] or cuda[:N]")->capture_default_str();
}

inline void add_validation_option(CLI::App& app, Validation& validation) {
  app.add_flag("--validation", validation.on, "Turn on the Vulkan validation layers");
}

/// The options of a sample that compiles its models; `packages` says what may be there already.
inline void add_compile_options(CLI::App& app, std::vector<std::string>& targets, bool& recompile,
                                const std::string& packages) {
  app.add_option("--target", targets,
                 "Compile for vulkan, cuda:sm_90, ... (default: vulkan); can be repeated");
  app.add_flag("--recompile", recompile, "Compile again although there " + packages);
}

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
