// reprise._native: the library and the command line for Python. The package reprise wraps it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/reprise/command_line.h"
#include "python/native/arrays.h"
#include "python/native/device.h"
#include "python/native/errors.h"
#include "python/native/graph_builder.h"
#include "python/native/package.h"
#include "python/native/session.h"
#include "python/native/tensor.h"
#include "python/native/tokenizer.h"

namespace nb = nanobind;

namespace reprise::python {
namespace {

int run_command_line(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "reprise");
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  const nb::gil_scoped_release release;
  return app::command_line(static_cast<int>(arguments.size()), argv.data());
}

}  // namespace
}  // namespace reprise::python

NB_MODULE(_native, m) {
  using namespace reprise::python;
  nb::set_leak_warnings(false);  // objects in variables of a module live until the process ends
  m.def(
      "version", [] { return REPRISE_VERSION; }, "Returns the version, such as '0.1.0'.");
  translate_errors();
  bind_arrays(m);
  bind_memory_sample(m);
  bind_devices(m);
  bind_packages(m);
  bind_graph_builder(m);
  bind_compiler(m);
  bind_tensors(m);
  bind_sessions(m);
  bind_tokenizers(m);
  m.def("command_line", run_command_line, nb::arg("arguments"),
        "Runs the command line in this process, and returns its exit status.");
}
