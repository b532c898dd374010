// A parallel loop whose threads end before the call returns.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/threads.h"
#include "runtime/platform/process.h"

namespace reprise {

/// Calls f(0) ... f(n - 1). If the system refuses to create a thread, those that exist do the work.
/// If a call throws, no further calls begin and the result is an error; `what` completes its
/// message "... while kernels were built".
template <typename F>
Status in_parallel(size_t n, const Threads& threads, const char* what, const F& f) {
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  std::mutex mutex;
  std::exception_ptr first;
  const auto work = [&]() noexcept {
    try {
      for (size_t i = next++; i < n && !failed; i = next++) f(i);
    } catch (...) {
      failed = true;
      const std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
    }
  };
  if (threads.executor && n > 1) {
    threads.executor(n, [&](size_t) { work(); });
    work();  // what it left out
  } else {
    const unsigned wanted = threads.count != 0 ? threads.count : platform::processors();
    std::vector<std::thread> pool;
    try {
      for (size_t t = 1; t < std::min<size_t>(wanted, n); ++t) pool.emplace_back(work);
    } catch (const std::system_error&) {
    } catch (const std::bad_alloc&) {
    }
    work();
    for (std::thread& t : pool) t.join();
  }
  if (!first) return {};
  try {
    std::rethrow_exception(first);
  } catch (const std::bad_alloc&) {
    return {Code::OutOfMemory, std::string("out of host memory while ") + what};
  } catch (const std::exception& e) {
    return internal_error(std::string("an exception while ") + what + ": " + e.what());
  } catch (...) {
    return internal_error(std::string("an exception while ") + what);
  }
}

}  // namespace reprise
