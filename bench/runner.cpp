// reprise_runner: loads a package, runs it once, and then once for each line on standard input.
// Each answer is one line of JSON. bench/peers starts one process for each model and interleaves
// its runs with those of other peers.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/common/devices.h"
#include "apps/common/inputs.h"
#include "apps/common/npy.h"
#include "apps/common/status.h"
#include "runtime/base/timing.h"

namespace reprise::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string package, device = "vulkan", inputs, outputs;
};

void answer(const Json& json) {
  std::puts(json.dump().c_str());
  std::fflush(stdout);
}

struct Loaded {
  OpenedDevice device;
  std::shared_ptr<const package::Package> package;
  std::unique_ptr<Session> session;
};

Result<Loaded> load(const Options& o) {
  Loaded l;
  RP_ASSIGN(l.package, package::read(o.package));
  RP_ASSIGN(l.device, app::open_named_device(o.device, app::default_backend_options(),
                                             app::refusal_of(l.package)));
  RP_ASSIGN(l.session, Session::create(l.package, l.device.device));
  return l;
}

Status serve(const Options& o) {
  const double start = now_ms();
  RP_ASSIGN(Loaded loaded, load(o));
  const double load_ms = now_ms() - start;
  // Reading the input files does not count as loading, because other peers get them in memory.
  Session& session = *loaded.session;
  app::InputSources sources;
  std::vector<std::string> notes;
  RP_ASSIGN(sources.given, app::read_input_folder(o.inputs, session.io(), notes));
  RP_TRY(app::check_complete(o.inputs, session.io(), sources.given));
  RP_ASSIGN(const app::InputSet inputs, app::make_inputs(session.io(), sources, notes));
  const std::vector<Binding> bindings = inputs.bindings();

  const double before = now_ms();
  RP_ASSIGN(const std::vector<HostTensor> outputs, session.run(bindings));
  const double run_ms = now_ms() - before;
  for (size_t i = 0; i < outputs.size(); ++i) {
    RP_TRY(app::write_npy(outputs[i], o.outputs + "/" + std::to_string(i) + ".npy"));
  }
  answer({{"load_ms", load_ms},
          {"first_run_ms", run_ms},
          {"device", loaded.device.info.name},
          {"variant", session.variant()}});
  for (std::string line; std::getline(std::cin, line);) {
    const double run_start = now_ms();
    RP_TRY(session.run(bindings).status());
    answer({{"ms", now_ms() - run_start}});
  }
  return {};
}

int parse_and_serve(int argc, char** argv) {
  Options o;
  CLI::App app{"Runs a package once for each line on standard input, and reports the time."};
  app.add_option("PACKAGE", o.package, "A compiled model (.rpk)")->required();
  app.add_option("--device", o.device, "host, vulkan[:N] or cuda[:N]")->capture_default_str();
  app.add_option("--inputs", o.inputs, "A folder of input_N.pb")->required();
  app.add_option("--outputs", o.outputs, "Folder for the outputs of the first run, as N.npy")
      ->required();
  app.footer(
      "Inputs and outputs are in host memory. The first line of output has the times of loading\n"
      "and of the first run.\n"
      "Example: yes '' | head -5 | reprise_runner m.rpk --inputs test_data_set_0 --outputs out");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? app::kDone : app::kUsage;
  }
  const Status status = serve(o);
  return status.ok() ? app::kDone : app::report(status);
}

}  // namespace
}  // namespace reprise::bench

int main(int argc, char** argv) {
  return reprise::app::guarded_main(reprise::bench::parse_and_serve, argc, argv);
}
