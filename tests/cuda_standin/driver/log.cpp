#include "tests/cuda_standin/driver/log.h"

#include <cstdio>
#include <fstream>

namespace reprise::standin {

void Log::set_file(const std::string& path) {
  const std::lock_guard lock(mutex_);
  path_ = path;
}

void Log::line(const std::string& text) {
  const std::lock_guard lock(mutex_);
  std::fprintf(stderr, "stand-in CUDA driver: %s\n", text.c_str());
  if (!path_.empty()) std::ofstream(path_, std::ios::app) << text << '\n';
}

}  // namespace reprise::standin
