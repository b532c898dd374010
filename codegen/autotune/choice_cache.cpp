#include "codegen/autotune/choice_cache.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <sstream>

#include "runtime/package/package.h"
#include "runtime/platform/cache_folder.h"
#include "runtime/platform/path.h"

namespace reprise {

namespace {

constexpr const char* kForm = "reprise-schedules-2";

/// The first line of the file: the format and a hash of the rows.
std::string first_line(const std::string& rows) {
  std::ostringstream line;
  line << kForm << " " << std::hex << package::hash_bytes(std::as_bytes(std::span(rows))) << "\n";
  return line.str();
}

std::string contents(std::FILE* file) {
  std::string out;
  std::array<char, 4096> part{};
  for (size_t n = 0; (n = std::fread(part.data(), 1, part.size(), file)) > 0;)
    out.append(part.data(), n);
  return out;
}

/// Parses the first line, and rows of a key, a tab and a schedule. False if the text is malformed.
bool parse(const std::string& text, std::map<std::string, std::string>& choices) {
  const size_t end = text.find('\n');
  if (end == std::string::npos) return false;
  const std::string rows = text.substr(end + 1);
  if (text.substr(0, end + 1) != first_line(rows)) return false;
  std::istringstream in(rows);
  for (std::string row; std::getline(in, row);) {
    const size_t tab = row.find('\t');
    if (tab == std::string::npos) return false;
    choices[row.substr(0, tab)] = row.substr(tab + 1);
  }
  return true;
}

}  // namespace

ChoiceCache::ChoiceCache(const std::string& folder, const DeviceInfo& device) {
  std::ostringstream name;
  name << folder << "/schedules-" << std::hex;
  for (const uint8_t byte : device.uuid) name << (byte >> 4) << (byte & 15);
  name << "-" << device.driver_version << ".txt";
  path_ = name.str();
}

Status ChoiceCache::read(std::map<std::string, std::string>& choices) const {
  choices.clear();
  std::string wrong;
  const File file = open_cache_file(utf8_path(path_), wrong);
  if (!wrong.empty()) return Status(Code::Io, "'" + path_ + "' is ignored: " + wrong);
  if (!file) return {};
  std::map<std::string, std::string> read;
  if (!parse(contents(file.get()), read)) {
    return Status(Code::Io, "'" + path_ +
                                "' is damaged or of another version; its schedules are ignored "
                                "and measured again");
  }
  choices = std::move(read);
  return {};
}

Status ChoiceCache::write(std::map<std::string, std::string> choices) const {
  bound_cache_folder(utf8_path(path_).parent_path(), ".txt", std::numeric_limits<uint64_t>::max());
  // Keep what another process has added since this one read the file.
  std::map<std::string, std::string> kept;
  if (read(kept).ok()) choices.merge(kept);
  std::string rows;
  for (const auto& [key, schedule] : choices)
    rows.append(key).append("\t").append(schedule) += '\n';
  const std::string text = first_line(rows) + rows;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  if (write_cache_file(utf8_path(path_), {&bytes, 1})) return {};
  const int error = errno;
  return {Code::Io, "cannot write '" + path_ + "': " + std::strerror(error)};
}

}  // namespace reprise
