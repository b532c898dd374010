// Compiles kernels' texts on threads of its own, so that a model of many modules loads in the time
// that the processor's cores need.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "tests/cuda_shim/compile.h"

namespace reprise::standin {

/// A text that is, or will be, compiled.
class Compiled {
 public:
  Compiled(std::string text, test::BuildOptions options)
      : text_(std::move(text)), options_(std::move(options)) {}
  /// Waits; compiles on this thread if no other has begun.
  Status wait();
  /// After wait() was ok.
  test::KernelFn function(const std::string& kernel) const { return library_->function(kernel); }
  /// Compiles unless another thread has begun.
  void compile();

 private:
  std::string text_;
  test::BuildOptions options_;
  std::mutex mutex_;
  std::condition_variable done_;
  bool begun_ = false, ended_ = false;
  Status problem_;
  std::unique_ptr<test::ShimLibrary> library_;
};

class CompileThreads {
 public:
  /// Never waits. There are at most `threads`, or as many as the system gives.
  void add(const std::shared_ptr<Compiled>& text, unsigned threads);

 private:
  void loop();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::weak_ptr<Compiled>> queue_;
  unsigned started_ = 0;
};

}  // namespace reprise::standin
