// A cache of measured schedules on disk.
#pragma once

#include <map>
#include <string>

#include "runtime/base/status.h"
#include "runtime/facts/device_facts.h"

namespace reprise {

/// The schedules by key for one device and driver, in a file. A file that is damaged or has another
/// format is an error, and counts as empty.
class ChoiceCache {
 public:
  ChoiceCache(const std::string& folder, const DeviceInfo& device);
  Status read(std::map<std::string, std::string>& choices) const;
  /// Adds to the file, which is replaced atomically: readers see the old one or the new one.
  Status write(std::map<std::string, std::string> choices) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace reprise
