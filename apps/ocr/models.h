// Models as files: ONNX, and the packages that are compiled from it once.
#pragma once

#include <string>
#include <vector>

#include "apps/ocr/recognise.h"

namespace ocr {

/// A folder of models.
struct Folder {
  std::string path;
  std::vector<std::string> targets;  // of packages that are compiled; none: Vulkan
  bool recompile = false;

  /// Opens NAME.rpk. If there is none, or NAME.onnx is newer, compiles that and keeps the package.
  Result<reprise::Package> package(const std::string& name) const;
  /// Opens alphabet.txt, or reads the alphabet from NAME.onnx and keeps it.
  Result<Alphabet> alphabet(const std::string& name) const;
};

}  // namespace ocr
