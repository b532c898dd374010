#include "apps/common/choice_cache.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "apps/common/status.h"

namespace reprise::app {

namespace {
using Json = nlohmann::json;
constexpr const char* kForm = "reprise-schedules-1";

/// Unfinished files of processes that ended while they wrote.
void remove_abandoned(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr auto kLongAgo = std::chrono::hours(1);
  const std::string start = fs::path(path).filename().string() + ".";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(path).parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(start) || !name.ends_with(".part")) continue;
    const auto written = entry.last_write_time(error);
    if (!error && fs::file_time_type::clock::now() - written > kLongAgo)
      fs::remove(entry.path(), error);
  }
}

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
  std::ifstream in(path_, std::ios::binary);
  if (!in) return {};
  const Json document = Json::parse(in, nullptr, false);
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
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(fs::path(path_).parent_path(), error);
  remove_abandoned(path_);
  // What another process kept since this one read the file stays; of both, the newer choice.
  std::map<std::string, std::string> kept;
  if (read(kept).ok()) choices.merge(kept);
  // Several processes may write at once: each has a file of its own until the rename.
  const std::string part = path_ + "." + std::to_string(std::random_device{}()) + ".part";
  std::ofstream out(part, std::ios::binary);
  out << Json{{"form", kForm}, {"choices", choices}}.dump(1) << "\n";
  out.close();
  const bool written = static_cast<bool>(out);
  if (written) fs::rename(part, path_, error);
  if (written && !error) return {};
  Status failure = file_error("cannot write", path_);
  fs::remove(part, error);
  return failure;
}

}  // namespace reprise::app
