// What the stand-in driver has to say: violations, misuse, leaks, what was injected.
#pragma once

#include <mutex>
#include <string>

namespace reprise::standin {

class Log {
 public:
  void set_file(const std::string& path);
  /// One line to standard error, and to the file if there is one.
  void line(const std::string& text);

 private:
  std::mutex mutex_;
  std::string path_;
};

}  // namespace reprise::standin
