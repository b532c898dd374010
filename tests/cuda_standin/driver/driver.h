// The stand-in's state, one per process: made at the first call, never destroyed, as calls may come
// from any thread until the process is gone.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/api.h"
#include "tests/cuda_shim/group_runner.h"
#include "tests/cuda_standin/driver/compiler.h"
#include "tests/cuda_standin/driver/graph.h"
#include "tests/cuda_standin/driver/handles.h"
#include "tests/cuda_standin/driver/log.h"
#include "tests/cuda_standin/driver/memory.h"
#include "tests/cuda_standin/driver/settings.h"
#include "tests/cuda_standin/driver/stream.h"
#include "tests/cuda_standin/driver/texts.h"

namespace reprise::standin {

enum class Symbol : unsigned {
#define REPRISE_STANDIN_SYMBOL(name, parameters) name,
  REPRISE_CUDA_SYMBOLS(REPRISE_STANDIN_SYMBOL) REPRISE_CUDA_OPTIONAL_SYMBOLS(REPRISE_STANDIN_SYMBOL)
#undef REPRISE_STANDIN_SYMBOL
      Count
};
inline constexpr size_t kSymbols = static_cast<size_t>(Symbol::Count);
const char* symbol_name(Symbol s);

struct Context : Object {
  using Handle = cuda::CUcontext;
  static constexpr Kind kKind = Kind::Context;
  Context() : Object(kKind) {}
  int device = 0;
  int retained = 0;
  std::atomic<int> fault{0};  // the error that every call returns from now on
  std::shared_ptr<Stream> default_stream;
};

/// Where launches of graphs wait while it is closed.
class Gate {
 public:
  void close(bool closed) {
    const std::lock_guard lock(mutex_);
    closed_ = closed;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !closed_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
};

struct Driver {
  static Driver& get();
  Driver();

  std::mutex mutex;              // of what the application's calls read and change
  std::string settings_problem;  // comes before settings, whose making says it
  Settings settings;
  Log log;
  Handles handles;
  Allocations memory;  // has a lock of its own
  CompileThreads compiler;
  Texts texts;                                                 // has a lock of its own
  std::map<cuda::CUdevice, std::shared_ptr<Context>> primary;  // null until retained
  bool initialised = false;
  std::array<uint64_t, kSymbols> calls{};
  uint64_t all_calls = 0, edges = 0, leaks = 0;
  std::atomic<uint64_t> misuses{0}, violations{0};
  std::atomic<uint64_t> last_order{0};  // of the nodes of the last launch of a graph, as a hash
  std::mutex violating;
  Gate gate;

  std::mutex device;  // one kernel at a time
  std::unique_ptr<test::GroupRunner> runner, checking;

  /// Counts a call; the error that is injected into it, or success.
  cuda::CUresult begin_call(Symbol s);
  void misuse(const std::string& text);
  /// A check found something: the context is unusable from now on. Says the first thing alone.
  void violate(Context& context, cuda::CUresult error, const std::string& text);
  unsigned thread_count() const;
  /// Objects and allocations that the application still has to free.
  std::vector<std::string> live(uint64_t context) const;
};

/// Contexts that are current on this thread; the last is the one in use.
std::vector<uint64_t>& current_contexts();

/// One launch of a graph, with everything as it was at the call.
struct Launch {
  std::shared_ptr<Exec> exec;
  std::vector<WorkPtr> work;
  uint64_t version = 0, number = 0;
  Settings settings;
};
void run_graph(Driver& d, Context& context, const Launch& launch);
/// One kernel, copy or record.
void run_work(Driver& d, Context& context, const Work& work, const Settings& settings);

}  // namespace reprise::standin
