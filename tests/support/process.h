// Processes: runs programs and collects what they print, and looks at the one that runs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace reprise::test {

struct ProcessResult {
  int status = -1;  // exit status; 128 + signal number when a signal ended it
  std::string out;
  std::string err;
};

/// `argv[0]` is the program. Waits until it ends. Extra environment entries are "NAME=value".
ProcessResult run_process(const std::vector<std::string>& argv,
                          const std::vector<std::string>& environment = {});

/// How many files this process has open.
size_t open_files();

}  // namespace reprise::test
