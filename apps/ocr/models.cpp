#include "apps/ocr/models.h"

#include <cstdio>
#include <filesystem>

#include "apps/samples/outcome.h"
#include "apps/samples/path.h"
#include "reprise/compiler.hpp"

namespace ocr {
namespace fs = std::filesystem;

using reprise::Package;
using samples::failed;
using samples::utf8_path;
using samples::utf8_text;

namespace {

/// What is made of a model is kept where that is possible.
void report_not_kept(const Error& error) {
  if (failed(error)) std::fprintf(stderr, "note: not kept: %s\n", error.message.c_str());
}

}  // namespace

bool Folder::is_newer(const std::string& model, const std::string& made) const {
  std::error_code no_model, not_made;
  const auto of_model = fs::last_write_time(utf8_path(model), no_model);
  const auto of_made = fs::last_write_time(utf8_path(made), not_made);
  if (no_model) return false;
  return not_made || recompile || of_model > of_made;
}

Result<Package> Folder::package(const std::string& name) const {
  const std::string model = utf8_text(utf8_path(path) / (name + ".onnx"));
  const std::string file = utf8_text(utf8_path(path) / (name + ".rpk"));
  std::error_code error;
  if (!fs::exists(utf8_path(model), error) && !fs::exists(utf8_path(file), error)) {
    return Error{REPRISE_IO, "there is neither " + file + " nor " + model +
                                 "; 'tools/models ocr' fetches the models"};
  }
  if (!is_newer(model, file)) {
    Result<Package> opened = Package::open(file);
    const bool outdated = !opened && opened.error().status == REPRISE_INCOMPATIBLE_PACKAGE;
    if (!outdated || !fs::exists(utf8_path(model), error)) return opened;
  }
  std::fprintf(stderr, "note: compiling %s to %s, once\n", model.c_str(), file.c_str());
  std::vector<const char*> names;
  for (const std::string& target : targets) names.push_back(target.c_str());
  reprise_compile_options options = REPRISE_COMPILE_OPTIONS_INIT;
  options.targets = names.empty() ? nullptr : names.data();
  options.target_count = names.size();
  Result<Package> compiled = reprise::compile_file(model, &options);
  if (compiled) report_not_kept(compiled->save(file));
  return compiled;
}

Result<Alphabet> Folder::alphabet(const std::string& name) const {
  const std::string model = utf8_text(utf8_path(path) / (name + ".onnx"));
  const std::string file = utf8_text(utf8_path(path) / "alphabet.txt");
  if (!is_newer(model, file)) return Alphabet::read(file);
  Result<Alphabet> alphabet = Alphabet::from_model(model);
  if (alphabet) report_not_kept(alphabet->write(file));
  return alphabet;
}

}  // namespace ocr
