#include "apps/reprise/command_line.h"

#include <cstdio>

#include "apps/reprise/command.h"
#include "runtime/platform/partial_file.h"

namespace {

/// Reports wrong usage, and which --help to read. CLI11 would report missing options before unknown
/// ones, which hides misspelled names.
int report_usage(const CLI::App& root, const CLI::ParseError& e) {
  const CLI::App* app = &root;
  std::string path = root.get_name();
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    path += " " + app->get_name();
  }
  std::string what = e.what();
  const std::vector<std::string> unknown = root.remaining(true);
  if (!unknown.empty()) {
    const bool option = unknown[0].rfind('-', 0) == 0;
    const char* const kind = option ? "option" : app == &root ? "command" : "argument";
    what = std::string("unknown ") + kind + " '" + unknown[0] + "'";
  }
  std::fprintf(stderr, "error: %s\nTry: %s --help\n", what.c_str(), path.c_str());
  return reprise::app::kUsage;
}

int run(int argc, char** argv) {
  using namespace reprise::app;
  CLI::App root{
      "Reprise compiles ONNX models to fused kernels and replays them on any GPU.\n\n"
      "  reprise run model.onnx --input x=x.npy --output-dir out\n"
      "  reprise explain model.onnx                what was fused, and why other nodes were not\n"
      "  reprise bench model.onnx --device vulkan  speed, and error against the host\n"
      "  reprise compile model.onnx -o model.rpk   for an application that ships no compiler\n"};
  root.name("reprise");
  root.set_version_flag("--version", std::string("reprise ") + REPRISE_VERSION);
  root.require_subcommand(1);
  root.footer(
      "For the options of a command: reprise COMMAND --help.\n"
      "Exit status: 0 done; 1 a result differs; 2 wrong usage; 3 the model, package or input is\n"
      "invalid or not supported; 4 a device or file failed.");
  root.allow_windows_style_options(false);  // paths may begin with a slash there, too
  int status = kDone;
  register_devices(root, status);
  register_run(root, status);
  register_bench(root, status);
  register_compile(root, status);
  register_explain(root, status);
  register_verify(root, status);
  register_compare(root, status);
  register_conformance(root, status);
  register_bisect(root, status);
  register_check(root, status);
  register_buckets(root, status);
  register_generate(root, status);
  try {
    root.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return e.get_exit_code() == 0 ? root.exit(e) : report_usage(root, e);
  }
  if (status == kDone && validation_errors() > 0) {
    return report({reprise::Code::Device, "the Vulkan validation layers found " +
                                              std::to_string(validation_errors()) + " errors"});
  }
  return status;
}

}  // namespace

int reprise::app::command_line(int argc, char** argv) noexcept {
  platform::remove_partial_files_on_signals();
  return guarded_main(run, argc, argv);
}
