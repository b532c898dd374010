#include "apps/generate/text_file.h"

#include <span>

#include "runtime/platform/file.h"

namespace reprise::app {

Result<std::string> read_text_file(const std::string& path) {
  const auto opened = platform::InputFile::open(path);
  if (!opened.ok()) return opened.status().with_context("'" + path + "'");
  const platform::InputFile& file = *opened;
  constexpr uint64_t kMost = uint64_t{64} << 20;
  if (file.size() > kMost) return Status(Code::InvalidInput, "'" + path + "' has more than 64 MiB");
  std::string text(static_cast<size_t>(file.size()), ' ');
  RP_TRY(file.read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace reprise::app
