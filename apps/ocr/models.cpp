#include "apps/ocr/models.h"

#include <filesystem>

#include "apps/samples/kept_package.h"
#include "apps/samples/path.h"

namespace ocr {
namespace {

/// The path of a file in a folder.
std::string inside(const std::string& folder, const std::string& name) {
  return samples::utf8_text(samples::utf8_path(folder) / name);
}

}  // namespace

Result<reprise::Package> Folder::package(const std::string& name) const {
  samples::KeptPackage kept;
  kept.model = inside(path, name + ".onnx");
  kept.package = inside(path, name + ".rpk");
  kept.help = "'tools/models ocr' fetches the models";
  kept.targets = targets;
  kept.recompile = recompile;
  return kept.open();
}

Result<Alphabet> Folder::alphabet(const std::string& name) const {
  const std::string model = inside(path, name + ".onnx");
  const std::string file = inside(path, "alphabet.txt");
  std::error_code error;
  const bool again = recompile && std::filesystem::exists(samples::utf8_path(model), error);
  if (!again && !samples::is_newer(model, file)) return Alphabet::read(file);
  Result<Alphabet> alphabet = Alphabet::from_model(model);
  if (alphabet) samples::report_not_kept(alphabet->write(file));
  return alphabet;
}

}  // namespace ocr
