// Language models of every format that the compiler reads, as packages.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/registry.h"
#include "codegen/options/compile_options.h"
#include "runtime/package/package.h"

namespace reprise::app {

struct LanguageModel {
  std::string path;
  std::shared_ptr<const package::Package> package;
  int64_t context = 0;              // the most positions; 0: unknown
  int64_t vocabulary = 0;           // 0: unknown
  std::vector<int64_t> end_tokens;  // that end a text, as far as the model says it
  bool compiled = false;            // in this process; else all was in the cache or in a package
  double load_ms = 0;
};

struct LanguageModelOptions {
  CompileOptions compile;
  /// What decides the contents of packages beside the model and the device: options and the
  /// compiler.
  std::string identity;
  /// The folder that keeps compiled models, and its most bytes. Empty: none is kept.
  std::string cache_dir;
  uint64_t cache_bytes = uint64_t{16} << 30;
};

/// What tells builds of this program apart, for LanguageModelOptions::identity.
std::string program_identity();

/// The hash of a file.
Result<std::string> file_digest(const std::string& path);
/// What tells the weights of packages apart; empty if the package was compiled in this process.
std::string weights_digest(const package::Package& package);

/// Reads or compiles a .gguf file, a folder of Hugging Face, an .onnx file with caches, or a
/// package of one, for the device; for the host if it has none. What is compiled here keeps its
/// caches as states that grow and, if its logits allow it, samples.
Result<LanguageModel> load_language_model(const std::string& path, const OpenedDevice& device,
                                          const LanguageModelOptions& options);

}  // namespace reprise::app
