// A model that is named on a command line: an .onnx, a .gguf or a folder of Hugging Face, which are
// compiled, or an .rpk.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/common/devices.h"
#include "codegen/compile/compiler.h"
#include "runtime/session/session.h"

namespace reprise::app {

struct Model {
  std::string path;
  std::shared_ptr<const package::Package> package;
  bool compiled = false;  // from ONNX, in this process
  double compile_ms = 0;  // 0 for a package
  double read_ms = 0;     // 0 for a compiled model
  CompileReport report;   // empty for a package

  DType precision() const { return package->explanation.precision; }
  /// The least precise float dtype of tensors between operators: that of the compilation, or else
  /// that of the model itself.
  DType computes_in() const;
};

Status check_model_file(const std::string& path);
/// Shows the notes of the importer.
void show_notes(const package::Package& package);
/// The options with which a language model keeps its caches as states that grow and returns a token
/// instead of logits, where they do not say otherwise.
CompileOptions generating_options(CompileOptions options);
/// Compiles a .gguf, or a folder with config.json, with generating_options().
Result<package::Package> compile_language_model(const std::string& path,
                                                const CompileOptions& options,
                                                CompileReport* report);
/// A path with the suffix .rpk is a package. A .gguf, or a folder with config.json, is a language
/// model, which is compiled with generating_options(). Every other file is read as ONNX.
Result<Model> load_model(const std::string& path, const CompileOptions& options);
/// Compiles what is supported of an ONNX file (compile_supported).
Result<Model> load_supported(const std::string& path, const CompileOptions& options);

/// The targets to compile for so that a package fits this device.
std::vector<std::string> targets_for(const OpenedDevice& device);

}  // namespace reprise::app
