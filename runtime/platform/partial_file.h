// New files that a signal must not leave behind half written.
#pragma once

#include <string>

namespace reprise::platform {

/// Notes the path of a file that is being written until forget() is called or the object goes.
class PartialFile {
 public:
  PartialFile() = default;
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  ~PartialFile() { forget(); }
  void note(const std::string& path);
  void forget();

 private:
  int slot_ = -1;
};

/// For programs, because a library installs no handlers of signals: one that ends the process, such
/// as Ctrl-C, removes the files that are noted then, and a write beyond the limit of file sizes is
/// an error. Handlers that exist stay. On Windows, the system itself removes such files.
void remove_partial_files_on_signals();

}  // namespace reprise::platform
