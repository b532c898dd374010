// What stream threads do: kernels, copies, event records, and graphs of them.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "runtime/base/cuda_entry.h"
#include "tests/cuda_standin/driver/bytes.h"
#include "tests/cuda_standin/driver/driver.h"

namespace reprise::standin {

using namespace cuda;

namespace {

/// Of larger graphs neither paths nor poisoning are looked at.
constexpr size_t kFewNodes = 8192;

void run_kernel(Driver& d, Context& context, const KernelWork& k, const Settings& settings,
                bool early, ByteCheck* check) {
  const std::string& name = k.function->kernel.name;
  if (cuda_entry(settings.fault) == name) {
    return d.violate(context, CUDA_ERROR_ILLEGAL_ADDRESS, "injected: a fault of kernel " + name);
  }
  const auto module = k.function->module.lock();
  if (module == nullptr) {
    return d.violate(context, CUDA_ERROR_ILLEGAL_ADDRESS,
                     "kernel " + name + " is launched after its module was unloaded");
  }
  Status s = module->compiled->wait();
  if (s.ok()) {
    const std::lock_guard lock(d.device);
    if (d.runner == nullptr) d.runner = std::make_unique<test::GroupRunner>(d.thread_count());
    if (d.checking == nullptr) d.checking = std::make_unique<test::GroupRunner>(1);
    const test::KernelFn function = module->compiled->function(name);
    const bool checked = module->checked;
    s = function == nullptr
            ? internal_error("the compiled text lacks it")
            : (checked ? d.checking : d.runner)
                  ->run({function, k.function->kernel.waits, checked, k.grid, k.workgroup,
                         k.block.data(), k.block.size(), &ByteCheck::access, check, early});
  }
  if (check != nullptr && !check->problem().empty()) return;  // is reported for all kinds of nodes
  if (!s.ok()) d.violate(context, CUDA_ERROR_LAUNCH_FAILED, "kernel " + name + ": " + s.message());
}

void run_copy(const CopyWork& c, ByteCheck* check) {
  if (check != nullptr && !c.from_host) check->range(c.from, c.bytes, test::kReads);
  if (check != nullptr && !c.to_host) check->range(c.to, c.bytes, test::kWrites);
  std::memmove(reinterpret_cast<void*>(c.to), reinterpret_cast<const void*>(c.from), c.bytes);
}

/// Reports the first damaged zone; `who` may have done it.
bool zones_intact(Driver& d, Context& context, const Allocation& a, const std::string& who) {
  const std::string damage = a.damage();
  if (damage.empty()) return true;
  d.violate(context, CUDA_ERROR_ILLEGAL_ADDRESS, who + " wrote " + damage);
  return false;
}

/// A node of a graph as its run sees it.
struct RunNode {
  const Work& work;
  uint32_t index;
  bool early;
  ByteCheck& check;
};

void run_node(Driver& d, Context& context, const Settings& settings, const RunNode& node) {
  const Work& work = node.work;
  if (const auto* r = std::get_if<RecordWork>(&work.what)) return r->event->recorded();
  if (context.fault != 0) return;
  std::string problem;
  const std::vector<Touch> touched = touches(work, d.memory, problem);
  if (!problem.empty()) {
    return d.violate(context, CUDA_ERROR_ILLEGAL_ADDRESS, work.name() + ": " + problem);
  }
  const auto foreign = [&](const Touch& t) {
    return t.allocation->place == Place::Device && t.allocation->context != context.id;
  };
  if (std::holds_alternative<KernelWork>(work.what) &&
      std::any_of(touched.begin(), touched.end(), foreign)) {
    return d.violate(context, CUDA_ERROR_ILLEGAL_ADDRESS,
                     work.name() + " is given memory of another context");
  }
  ByteCheck* const check = settings.check == Check::Bytes ? &node.check : nullptr;
  if (check != nullptr) check->begin(node.index, node.early, work, touched, d.memory);
  if (const auto* k = std::get_if<KernelWork>(&work.what)) {
    run_kernel(d, context, *k, settings, node.early, check);
  } else if (const auto* c = std::get_if<CopyWork>(&work.what)) {
    run_copy(*c, check);
  }
  if (check != nullptr && !check->problem().empty()) {
    return d.violate(context, CUDA_ERROR_ILLEGAL_ADDRESS, check->problem());
  }
  if (settings.check == Check::Off) return;
  for (const Touch& t : touched) {
    if (!zones_intact(d, context, *t.allocation, work.name())) return;
  }
}

/// If a graph's nodes are given another part of an allocation than at the launch before, what that
/// launch has written may be a result that stays, as when iterations write one element each.
void keep_moved(const Analysis& before, const Analysis& now) {
  for (size_t i = 0; i < now.touched.size(); ++i) {
    const auto at = std::find(before.touched.begin(), before.touched.end(), now.touched[i]);
    if (at == before.touched.end()) continue;
    const auto b = static_cast<size_t>(at - before.touched.begin());
    if (before.lowest[b] != now.lowest[i]) now.touched[i]->graph = Allocation::kSeveral;
  }
}

std::shared_ptr<const Analysis> analysis_of(Driver& d, const Launch& launch) {
  Exec& exec = *launch.exec;
  const uint64_t generation = d.memory.generation();
  if (exec.analysis == nullptr || exec.analysed_version != launch.version ||
      exec.analysed_generation != generation) {
    const auto before = std::move(exec.analysis);
    exec.analysis = std::make_shared<Analysis>(analyse(launch.work, *exec.ancestors, d.memory));
    if (before != nullptr) keep_moved(*before, *exec.analysis);
    exec.analysed_version = launch.version;
    exec.analysed_generation = generation;
  }
  return exec.analysis;
}

/// Fills with 0xFF what no node may see of earlier runs.
void poison(const Analysis& analysis, uint64_t exec, bool wanted) {
  for (const auto& a : analysis.touched) {
    uint64_t nobody = 0;
    if (!a->graph.compare_exchange_strong(nobody, exec) && nobody != exec) {
      a->graph = Allocation::kSeveral;
    }
  }
  const auto own = [&](const Allocation& a) { return a.graph == exec && !a.written_outside; };
  for (const auto& a : analysis.overwritten) {
    if (wanted && own(*a)) a->poison();
  }
  for (const auto& a : analysis.results) {
    if (wanted && own(*a) && a->read_outside.exchange(false)) a->poison();
  }
}

Order order_of(const Launch& launch) {
  if (launch.settings.order != Order::Mixed) return launch.settings.order;
  constexpr std::array<Order, 3> kTurns = {Order::Sinks, Order::Random, Order::Reverse};
  return kTurns[(launch.number + launch.settings.seed + 2) % kTurns.size()];
}

void run_nodes(Driver& d, Context& context, const Launch& launch) {
  ByteCheck check(&launch.work, launch.exec->ancestors.get());
  const uint64_t seed = launch.settings.seed * 0x9E3779B97F4A7C15U + launch.number;
  const std::vector<uint32_t> order = choose_order(launch.exec->after, order_of(launch), seed);
  uint64_t hash = 0xCBF29CE484222325U;
  for (const uint32_t n : order) hash = (hash ^ n) * 0x100000001B3U;
  d.last_order = hash;
  for (const uint32_t n : order) {
    const Work& work = *launch.work[n];
    if (!work.enabled) continue;
    run_node(d, context, launch.settings, {work, n, launch.exec->early[n], check});
  }
}

void check_zones(Driver& d, Context& context, const std::string& who) {
  for (const auto& a : d.memory.all()) {
    if (a->context == context.id && !zones_intact(d, context, *a, who)) return;
  }
}

}  // namespace

void run_work(Driver& d, Context& context, const Work& work, const Settings& settings) {
  ByteCheck check(nullptr, nullptr);
  run_node(d, context, settings, {work, 0, false, check});
}

void run_graph(Driver& d, Context& context, const Launch& launch) {
  const std::lock_guard one(launch.exec->running);
  if (launch.settings.slow_ms != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(launch.settings.slow_ms));
  }
  d.gate.pass();
  if (context.fault == 0 && launch.exec->ancestors == nullptr && launch.work.size() <= kFewNodes) {
    launch.exec->ancestors = std::make_unique<Ancestors>(launch.exec->after);
  }
  if (context.fault == 0 && launch.exec->ancestors != nullptr) {
    const auto analysis = analysis_of(d, launch);
    if (launch.settings.check == Check::Allocations && !analysis->race.empty()) {
      d.violate(context, CUDA_ERROR_ILLEGAL_ADDRESS, analysis->race);
    }
    if (context.fault == 0) poison(*analysis, launch.exec->id, launch.settings.poison);
  }
  run_nodes(d, context, launch);
  if (launch.settings.check != Check::Off && context.fault == 0) {
    check_zones(d, context, "a node of " + launch.exec->name());
  }
}

}  // namespace reprise::standin
