#include "tests/cuda_standin/driver/log.h"

#include <cstdio>
#include <fstream>

namespace reprise::standin {

namespace {
constexpr size_t kKept = 1000;
}

void Log::configure(bool quiet, const std::string& path) {
  const std::lock_guard lock(mutex_);
  quiet_ = quiet;
  path_ = path;
}

void Log::line(const std::string& text) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(text);
  if (kept_.size() > kKept) kept_.pop_front();
  if (!quiet_) std::fprintf(stderr, "stand-in CUDA driver: %s\n", text.c_str());
  if (!path_.empty()) std::ofstream(path_, std::ios::app) << text << '\n';
}

std::string Log::kept() const {
  const std::lock_guard lock(mutex_);
  std::string all;
  for (const std::string& line : kept_) all += line + '\n';
  return all;
}

void Log::clear() {
  const std::lock_guard lock(mutex_);
  kept_.clear();
}

}  // namespace reprise::standin
