// A model named on a command line: an .onnx that is compiled now, or an .rpk.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/common/devices.h"
#include "codegen/compiler.h"
#include "runtime/session.h"

namespace reprise::app {

struct Model {
  std::string path;
  std::shared_ptr<const package::Package> package;
  bool compiled = false;  // now, from ONNX
  double compile_ms = 0;  // 0 for a package
  double read_ms = 0;     // 0 for a model compiled now
  CompileReport report;   // empty for a package

  DType precision() const { return package->explanation.precision; }
  /// The least precise float type that tensors between operators have: what the model was compiled
  /// to, else what it says itself.
  DType computes_in() const;
};

Status check_model_file(const std::string& path);
/// Packages are recognised by the suffix .rpk; everything else is read as ONNX.
Result<Model> load_model(const std::string& path, const CompileOptions& options);

/// What compile() must be told so that a package serves this device.
std::vector<std::string> targets_for(const OpenedDevice& device);

}  // namespace reprise::app
