#include "tests/cuda_standin/driver/compiler.h"

#include <system_error>
#include <thread>

namespace reprise::standin {

void Compiled::compile() {
  {
    const std::lock_guard lock(mutex_);
    if (begun_) return;
    begun_ = true;
  }
  auto built = test::ShimLibrary::build(text_, options_);
  const std::lock_guard lock(mutex_);
  if (built.ok()) {
    library_ = std::move(*built);
  } else {
    problem_ = built.status();
  }
  ended_ = true;
  done_.notify_all();
}

Status Compiled::wait() {
  compile();
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return ended_; });
  return problem_;
}

void CompileThreads::add(const std::shared_ptr<Compiled>& text, unsigned threads) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(text);
  try {  // They live as long as the process: the driver is never unloaded.
    for (; started_ < threads; ++started_) std::thread([this] { loop(); }).detach();
  } catch (const std::system_error&) {
    // Fewer, or none: who needs a text that nobody has begun compiles it.
  }
  wake_.notify_one();
}

void CompileThreads::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return !queue_.empty(); });
    const std::shared_ptr<Compiled> text = queue_.front().lock();
    queue_.pop_front();
    if (text == nullptr) continue;
    lock.unlock();
    text->compile();
    lock.lock();
  }
}

}  // namespace reprise::standin
