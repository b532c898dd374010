#include "apps/common/choice_cache.h"

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/common/status.h"
#include "runtime/base/cache_folder.h"

namespace reprise::app {

namespace {
using Json = nlohmann::json;
constexpr const char* kForm = "reprise-schedules-1";
}  // namespace

ChoiceCache::ChoiceCache(const std::string& folder, const DeviceInfo& device) {
  std::ostringstream name;
  name << folder << "/schedules-" << std::hex;
  for (const uint8_t byte : device.uuid) name << (byte >> 4) << (byte & 15);
  name << "-" << device.driver_version << ".json";
  path_ = name.str();
}

Status ChoiceCache::read(std::map<std::string, std::string>& choices) const {
  choices.clear();
  std::string wrong;
  const File file = open_cache_file(path_, wrong);
  if (!wrong.empty()) return Status(Code::Io, "'" + path_ + "' is ignored: " + wrong);
  if (!file) return {};
  const Json document = Json::parse(file.get(), nullptr, false);
  const bool good = document.is_object() && document.value("form", Json()) == kForm &&
                    document.contains("choices") && document["choices"].is_object();
  std::map<std::string, std::string> read;
  bool strings = good;
  if (good) {
    for (const auto& [key, schedule] : document["choices"].items()) {
      strings = strings && schedule.is_string();
      if (strings) read[key] = schedule.get<std::string>();
    }
  }
  if (!strings) {
    return Status(Code::Io, "'" + path_ +
                                "' is damaged or of another version; its schedules are ignored "
                                "and measured again");
  }
  choices = std::move(read);
  return {};
}

Status ChoiceCache::write(std::map<std::string, std::string> choices) const {
  bound_cache_folder(std::filesystem::path(path_).parent_path(), ".json",
                     std::numeric_limits<uint64_t>::max());
  // What another process kept since this one read the file stays.
  std::map<std::string, std::string> kept;
  if (read(kept).ok()) choices.merge(kept);
  const std::string text = Json{{"form", kForm}, {"choices", choices}}.dump(1) + "\n";
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  return write_cache_file(path_, {&bytes, 1}) ? Status() : file_error("cannot write", path_);
}

}  // namespace reprise::app
