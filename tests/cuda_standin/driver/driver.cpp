#include "tests/cuda_standin/driver/driver.h"

#include <algorithm>
#include <thread>

namespace reprise::standin {

using namespace cuda;

const char* symbol_name(Symbol s) {
  static constexpr std::array<const char*, kSymbols> kNames = {
#define REPRISE_STANDIN_SYMBOL(name, parameters) #name,
      REPRISE_CUDA_SYMBOLS(REPRISE_STANDIN_SYMBOL)
          REPRISE_CUDA_OPTIONAL_SYMBOLS(REPRISE_STANDIN_SYMBOL)
#undef REPRISE_STANDIN_SYMBOL
  };
  return kNames[static_cast<size_t>(s)];
}

Driver& Driver::get() {
  static auto* const driver = new Driver;
  return *driver;
}

Driver::Driver() : settings(settings_from_environment(settings_problem)) {
  log.configure(settings.quiet, settings.log);
}

std::vector<uint64_t>& current_contexts() {
  static thread_local std::vector<uint64_t> contexts;
  return contexts;
}

CUresult Driver::begin_call(Symbol s) {
  const uint64_t nth = ++calls[static_cast<size_t>(s)], nth_of_all = ++all_calls;
  if (!settings.fail) return CUDA_SUCCESS;
  const Failure& f = *settings.fail;
  const bool any = f.symbol == "*";
  if (!any && f.symbol != symbol_name(s)) return CUDA_SUCCESS;
  if (f.nth != (any ? nth_of_all : nth)) return CUDA_SUCCESS;
  log.line("injected: call " + std::to_string(nth) + " of " + symbol_name(s) + " fails with " +
           std::to_string(f.error));
  return static_cast<CUresult>(f.error);
}

void Driver::misuse(const std::string& text) {
  ++misuses;
  log.line("misuse: " + text);
}

void Driver::violate(Context& context, CUresult error, const std::string& text) {
  const std::lock_guard one(violating);
  if (context.fault != 0) return;  // what comes after a fault says nothing
  ++violations;
  log.line("violation: " + text);  // first: who sees the fault may read why
  context.fault = error;
}

unsigned Driver::thread_count() const {
  if (settings.threads != 0) return settings.threads;
  return std::max(1U, std::thread::hardware_concurrency());
}

std::vector<std::string> Driver::live(uint64_t context) const {
  std::vector<std::string> list;
  for (const auto& [id, object] : handles.all()) {
    const bool is_context = object->kind == Kind::Context;
    if (!object->owned() || (context != 0 && (is_context || object->context != context))) continue;
    if (is_context && static_cast<const Context&>(*object).retained == 0) continue;
    list.push_back(object->name());
  }
  for (const auto& a : memory.all()) {
    if (context == 0 || a->context == context) list.push_back(a->name());
  }
  return list;
}

}  // namespace reprise::standin
