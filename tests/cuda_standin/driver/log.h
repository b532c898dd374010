// What the stand-in driver has to say: violations, misuse, leaks, what was injected.
#pragma once

#include <deque>
#include <mutex>
#include <string>

namespace reprise::standin {

class Log {
 public:
  /// `quiet`: nothing goes to standard error. `path`: a file for every line; "": none.
  void configure(bool quiet, const std::string& path);
  void line(const std::string& text);
  /// The lines since the last clear(), whether they were printed or not; the oldest ones go first.
  std::string kept() const;
  void clear();

 private:
  mutable std::mutex mutex_;
  bool quiet_ = false;
  std::string path_;
  std::deque<std::string> kept_;
};

}  // namespace reprise::standin
