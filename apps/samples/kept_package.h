// Packages that a sample compiles on the user's machine, once, and keeps.
#pragma once

#include <string>
#include <vector>

#include "reprise/compiler.hpp"

namespace samples {

/// A package in a file that is made of other files.
struct KeptPackage {
  std::string model, package;        // paths: what it is made of, and the .rpk
  std::string help;                  // what to do if there is neither
  std::vector<std::string> targets;  // none: Vulkan
  std::vector<std::string> ranges;   // of sizes that inputs decide
  bool recompile = false;

  /// Opens the package. If there is none, or the model is newer, or another version of the library
  /// wrote it, or it was compiled for others than `targets`, calls `compile` and keeps its result.
  /// A file beside the package, PACKAGE.targets, names the targets; without any, each package is
  /// right.
  template <typename Compile>
  reprise::Result<reprise::Package> open(const Compile& compile) const {
    reprise::Result<reprise::Package> kept = open_kept();
    if (kept || !can_compile(kept.error())) return kept;
    Options options(*this);
    reprise::Result<reprise::Package> compiled = compile(model, &options.raw);
    if (compiled) keep(*compiled);
    return compiled;
  }
  /// Does that with a model in a file of ONNX.
  reprise::Result<reprise::Package> open() const {
    return open([](const std::string& path, const reprise_compile_options* options) {
      return reprise::compile_file(path, options);
    });
  }

 private:
  struct Options {
    explicit Options(const KeptPackage& of);
    std::vector<const char*> targets, ranges;
    reprise_compile_options raw = REPRISE_COMPILE_OPTIONS_INIT;
  };
  reprise::Result<reprise::Package> open_kept() const;
  std::string targets_file() const { return package + ".targets"; }
  bool has_targets() const;
  bool can_compile(const reprise::Error& error) const;
  void keep(const reprise::Package& compiled) const;
};

/// Whether `made` has to be made again of `model`, because it is older or not there.
bool is_newer(const std::string& model, const std::string& made);
/// Writes to stderr that what was made could not be kept.
void report_not_kept(const reprise::Error& error);

}  // namespace samples
