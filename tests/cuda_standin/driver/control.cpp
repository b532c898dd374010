// What tests ask of the driver beside its API, and the report at the end of the process.
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "tests/cuda_standin/control.h"
#include "tests/cuda_standin/driver/driver.h"

using namespace reprise::standin;

extern "C" __attribute__((visibility("default"))) int reprise_standin_control(const char* key,
                                                                              const char* value) {
  Driver& d = Driver::get();
  const std::lock_guard lock(d.mutex);
  if (std::string_view(key) == "RESET_CALLS") {
    d.calls.fill(0);
    d.all_calls = d.edges = 0;
    return 0;
  }
  if (std::string_view(key) == "RESET_LOG") {
    d.log.clear();
    return 0;
  }
  if (std::string_view(key) == "HOLD") {
    d.gate.close(*value != 0);
    return 0;
  }
  if (!d.settings.set(key, value)) return 1;
  d.log.configure(d.settings.quiet, d.settings.log);
  return 0;
}

extern "C" __attribute__((visibility("default"))) unsigned long long reprise_standin_stats(
    const char* key) {
  Driver& d = Driver::get();
  const std::lock_guard lock(d.mutex);
  const std::string_view what = key;
  if (what == "calls") return d.all_calls;
  if (what == "edges") return d.edges;
  if (what == "live") return d.live(0).size();
  if (what == "misuses") return d.misuses;
  if (what == "violations") return d.violations;
  if (what == "leaks") return d.leaks;
  if (what == "order") return d.last_order;
  for (size_t s = 0; s < kSymbols; ++s) {
    if (what == std::string("calls:") + symbol_name(static_cast<Symbol>(s))) return d.calls[s];
  }
  return ~0ULL;
}

extern "C" __attribute__((visibility("default"))) const char* reprise_standin_log() {
  static thread_local std::string text;
  text = Driver::get().log.kept();
  return text.c_str();
}

extern "C" __attribute__((visibility("default"))) void reprise_standin_text(
    const void* image, unsigned long long bytes, const char* text) {
  Driver::get().texts.keep({static_cast<const std::byte*>(image), bytes}, text);
}

namespace {

/// Runs when the process ends, after the application's own destructors.
__attribute__((destructor)) void report() {
  Driver& d = Driver::get();
  std::vector<std::string> leaks;
  bool strict = false;
  {
    const std::lock_guard lock(d.mutex);
    leaks = d.live(0);
    strict = d.settings.strict_exit;
    for (const auto& a : d.memory.all()) {
      const std::string damage = a->damage();
      if (!damage.empty() && d.settings.check != Check::Off) {
        d.log.line("violation: something wrote " + damage);
      }
    }
  }
  for (const std::string& what : leaks) d.log.line("leak: " + what + " is alive at the end");
  if (strict && !leaks.empty()) _exit(97);
}

}  // namespace
