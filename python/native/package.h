// Compiled models, and their compilation.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include "python/native/device.h"
#include "runtime/package/package.h"

namespace reprise::python {

/// A compiled model. Immutable.
struct Package {
  std::shared_ptr<const package::Package> package;
  std::string mode = "reduce-overhead";  // of sessions, if they do not say otherwise
};

/// An input or output of a model.
struct Slot {
  std::string name;
  DType dtype = DType::Invalid;
  nanobind::tuple shape;  // of ints, and of strs for dims that depend on the inputs
  std::string image;      // the format, if it is an image
  bool optional = false;  // runs may leave the input out
};

/// Lists of Slot.
nanobind::list inputs_of(const plan::Interface& io);
nanobind::list outputs_of(const plan::Interface& io);
nanobind::list states_of(const plan::Interface& io);

/// Throws a UsageError unless it is one of the modes. Understands torch.compile's names.
std::string parse_mode(const std::string& mode);

/// What explain() tells about one variant of a package: explain.cpp.
nanobind::dict explain(const Package& package, nanobind::handle device);

void bind_packages(nanobind::module_& m);
void bind_compiler(nanobind::module_& m);

}  // namespace reprise::python
