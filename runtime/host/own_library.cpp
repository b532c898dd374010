#include "runtime/host/own_library.h"

#include <vector>

namespace reprise::host {

platform::Library open_own_library(const std::string& name) {
  const std::string folder = platform::program_folder(), file = platform::library_name(name);
  std::vector<std::string> names{file};
  if (!folder.empty()) names = {folder + file, folder + "../lib/" + file, file};
  platform::Library opened;
  for (const std::string& n : names) {
    if (!opened) opened = platform::Library::open(n);
  }
  return opened;
}

}  // namespace reprise::host
