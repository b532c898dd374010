// The fault layer of this process. ctest turns it on (tests/probes/layer.cmake).
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/probes/layer/faults.h"
#include "tests/support/paths.h"

namespace reprise::test {

/// Faults from here to the end of the scope.
class Faults {
 public:
  explicit Faults(const std::string& text) {
    const std::string path =
        (binary_dir() / "lib" / "vulkan-faults" / "libVkLayer_reprise_faults.so").string();
    library_ = dlopen(path.c_str(), RTLD_NOW);
    EXPECT_NE(library_, nullptr) << dlerror();
    if (!library_) return;
    set_ = reinterpret_cast<reprise_faults_set_fn>(dlsym(library_, "reprise_faults_set"));
    count_ = reinterpret_cast<reprise_faults_count_fn>(dlsym(library_, "reprise_faults_count"));
    EXPECT_EQ(set_(text.c_str()), 1) << text;
  }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;
  ~Faults() {
    if (!library_) return;
    set_("");
    dlclose(library_);
  }
  /// How often they changed something.
  unsigned count() const { return library_ ? count_() : 0; }

 private:
  void* library_ = nullptr;
  reprise_faults_set_fn set_ = nullptr;
  reprise_faults_count_fn count_ = nullptr;
};

}  // namespace reprise::test
