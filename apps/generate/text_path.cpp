#include <filesystem>

#include "apps/generate/model_text.h"
#include "runtime/platform/path.h"

namespace reprise::app {

std::string text_path(const std::string& model, const std::string& given) {
  if (!given.empty()) return given;
  const std::filesystem::path path = utf8_path(model);
  std::error_code ignored;
  const bool own = path.extension() == ".gguf" || path.extension() == ".rpk";
  if (own || std::filesystem::is_directory(path, ignored)) return model;
  return utf8_text(path.parent_path() / "tokenizer.json");
}

}  // namespace reprise::app
