// Measured schedules, kept in a file for each device and driver.
#pragma once

#include <map>
#include <string>

#include "runtime/base/status.h"
#include "runtime/device_facts.h"

namespace reprise {

/// Choices by key of one device and driver, as a file. A file that is damaged or of another form is
/// a Status saying so, and counts as empty.
class ChoiceCache {
 public:
  ChoiceCache(const std::string& folder, const DeviceInfo& device);
  Status read(std::map<std::string, std::string>& choices) const;
  /// Adds to the file, which is replaced at once: readers see the old one or the new one.
  Status write(std::map<std::string, std::string> choices) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace reprise
