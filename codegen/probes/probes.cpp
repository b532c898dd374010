#include "codegen/probes/probes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <set>

#include "codegen/interpreter/demand.h"
#include "codegen/interpreter/native_error.h"
#include "codegen/kernel/ir/scalar_eval.h"
#include "codegen/options/progress.h"
#include "codegen/probes/probe_grid.h"
#include "codegen/probes/probe_kernel.h"
#include "codegen/probes/probe_samples.h"
#include "runtime/base/random.h"
#include "runtime/plan/bind.h"

namespace reprise {
namespace {

using kernel::InterpretOptions;
using kernel::NativeError;
using plan::Probe;

constexpr uint64_t kWholeBytes = 2 << 20;  // buffers that together are no larger are not cut
// These count the instructions that a kernel executes, in all invocations together.
constexpr uint64_t kEnough = 200'000;       // no further workgroup is interpreted after this many
constexpr uint64_t kLimit = 30'000'000;     // a kernel that needs more has no probe
constexpr uint64_t kCheap = 200'000;        // a kernel that needs fewer is interpreted more often
constexpr uint64_t kLaunched = 50'000'000;  // the most that a device executes in one launch
constexpr size_t kMaxLongSymbols = 16;      // symbols that are tried at the sizes of long forms

/// A launch at the sizes that the probe uses.
struct Setup {
  uint32_t use = 0;  // index of the launch among those of the kernel
  std::array<uint32_t, 3> grid{};
  std::vector<uint32_t> scalars;
  std::vector<ProbeMemory::Parameter> parameters;
  std::vector<uint64_t> counts;  // elements of each buffer parameter
  uint64_t bytes = 0;            // of all buffers
};

/// Everything in a launch on which a probe depends, apart from the kernel.
std::string describe(const plan::Plan& p, const plan::Launch& launch, const plan::Interface& io) {
  std::string text;
  const auto add = [&](const Expr& e) { text += e.str(io.symbols) + ","; };
  for (const Expr& e : launch.grid) add(e);
  for (const Expr& e : launch.scalars) add(e);
  for (size_t i = 0; i < launch.buffers.size(); ++i) {
    const plan::Buffer& b = p.buffers[launch.buffers[i]];
    text += "|" + std::to_string(plan::first_binding(launch, i)) + " " +
            std::to_string(static_cast<int>(b.dtype)) + (launch.writes[i] ? "w:" : "r:");
    for (const Expr& e : b.shape) add(e);
    if (b.kind != plan::BufferKind::Weight) continue;
    const plan::Weight& w = p.weights[static_cast<size_t>(b.index)];
    text += "packed " + std::to_string(w.packing.packed_bytes(0, size_of(b.dtype)));
  }
  return text + "\n";
}

class Prober {
 public:
  /// `steps`: those that launch the kernel.
  Prober(const plan::Plan& p, const plan::Interface& io, const EmittedKernel& k,
         std::vector<uint32_t> steps, uint32_t subgroup_size, ProbeFills& fills)
      : p_(p),
        io_(io),
        k_(k.kernel),
        structure_(k.structure),
        subgroup_size_(subgroup_size),
        fills_(fills),
        steps_(std::move(steps)) {}

  std::string key() const {
    // The key includes the kernel's name, as messages contain it.
    const uint32_t subgroup_size = uses_subgroups(k_) ? subgroup_size_ : 0;
    std::string text = std::to_string(subgroup_size) + k_.name + "\n" + structure_;
    for (uint32_t use = 0; use < steps_.size(); ++use) text += describe(p_, launch_of(use), io_);
    return text;
  }

  /// The steps that launch the kernel.
  const std::vector<uint32_t>& steps() const { return steps_; }

  /// Probe::step of the result is an index into steps().
  Probe make() const {
    Probe skipped;
    const auto attempt = [&](const Sizes& sizes) -> std::optional<Probe> {
      auto probe = at_sizes(sizes);
      if (probe.ok()) return std::move(*probe);
      if (skipped.skipped.empty()) skipped.skipped = probe.status().message();
      return std::nullopt;
    };
    if (io_.symbols.empty()) {
      auto probe = attempt({});
      return probe ? *probe : skipped;
    }
    // Try different dims first, as they reveal swapped ones. A model may need equal dims, though.
    if (auto probe = attempt({13, true, true})) return *probe;
    for (const int64_t size : {13, 16, 4, 2, 1, 64, 256})
      if (auto probe = attempt({size, false, true})) return *probe;
    if (auto probe = attempt({0, true, true})) return *probe;
    for (const int64_t size : {5, 2, 1})
      if (auto probe = attempt({size, false, false})) return *probe;
    // The long form of a kernel has no workgroups at smaller sizes. Thousands of launches with
    // symbols of their own fail for the same reason, so the first few decide.
    std::vector<size_t> symbols = symbols_of_launches();
    symbols.resize(std::min(symbols.size(), kMaxLongSymbols));
    for (const int64_t size : {66'000, 263'000})
      for (const bool guarded : {true, false})
        for (const size_t i : symbols)
          if (auto probe = attempt({size, false, guarded, i})) return *probe;
    return skipped;
  }

 private:
  /// The wanted values of symbols, as far as their ranges and divisors allow them.
  struct Sizes {
    int64_t size = 1;  // of each symbol; 0: search for values for which the guards hold
    bool differing = false;
    /// Whether the model's guards must hold. If they need not, the sizes of the kernel's buffers
    /// may be inconsistent, so every workgroup is interpreted, which finds accesses out of bounds.
    bool guarded = true;
    std::optional<size_t> only = {};  // the only symbol with that size; all others are 2
  };

  /// The symbols that the sizes of the kernel's launches depend on.
  std::vector<size_t> symbols_of_launches() const {
    std::vector<SymbolId> found;
    for (uint32_t use = 0; use < steps_.size(); ++use) {
      const plan::Launch& launch = launch_of(use);
      for (const Expr& e : launch.grid) e.collect_symbols(found);
      for (const Expr& e : launch.scalars) e.collect_symbols(found);
      launch.iterations.collect_symbols(found);
      for (const plan::BufferId b : launch.buffers)
        for (const Expr& e : p_.buffers[b].shape) e.collect_symbols(found);
    }
    std::set<size_t> all;
    while (!found.empty()) {
      const auto s = static_cast<size_t>(found.back());
      found.pop_back();
      const bool derived = io_.sources[s].kind == SymbolSource::Kind::Derived;
      if (all.insert(s).second && derived) io_.sources[s].value.collect_symbols(found);
    }
    return {all.begin(), all.end()};
  }

  /// The possible values next to wanted(i), for each symbol i.
  template <typename F>
  std::vector<int64_t> symbols_near(const F& wanted) const {
    std::vector<int64_t> symbols;
    for (size_t i = 0; i < io_.symbols.size(); ++i) {
      const Symbol& s = io_.symbols[i];
      const int64_t d = s.divisor;
      const int64_t v = std::max((wanted(i) + d - 1) / d * d, (s.min + d - 1) / d * d);
      const bool derived = io_.sources[i].kind == SymbolSource::Kind::Derived;
      symbols.push_back(derived ? plan::kUnbound : std::min(v, s.max / d * d));
    }
    plan::derive_symbols(io_, symbols);
    return symbols;
  }

  std::vector<int64_t> symbols_of(const Sizes& sizes) const {
    if (sizes.size == 0) return search_symbols();
    return symbols_near([&](size_t i) -> int64_t {
      if (sizes.only && i != *sizes.only) return 2;
      return sizes.size + (sizes.differing ? static_cast<int64_t>(i % 3) : 0);
    });
  }

  /// Searches for small values for which the guards hold. If none are found, they do not hold.
  std::vector<int64_t> search_symbols() const {
    constexpr std::array<int64_t, 12> kSizes{1, 2, 3, 4, 8, 13, 16, 32, 48, 64, 96, 224};
    uint64_t state = io_.symbols.size();
    std::vector<int64_t> symbols;
    for (size_t tries = 0; tries < 500; ++tries) {
      const size_t most = std::min(kSizes.size(), 4 + tries / 40);
      symbols = symbols_near([&](size_t) { return kSizes[splitmix64(state) % most]; });
      if (plan::check_guards(io_, symbols).ok()) break;
    }
    return symbols;
  }

  Result<Probe> at_sizes(const Sizes& sizes) const {
    const std::vector<int64_t> symbols = symbols_of(sizes);
    if (sizes.guarded) RP_TRY(plan::check_guards(io_, symbols));
    Setup smallest;
    Status why = internal_error("no step launches it");
    for (uint32_t use = 0; use < steps_.size(); ++use) {
      auto setup = make_setup(use, symbols);
      if (!setup.ok()) {
        why = setup.status();
      } else if (smallest.grid[0] == 0 || setup->bytes < smallest.bytes) {
        smallest = std::move(*setup);
      }
    }
    if (smallest.grid[0] == 0) return why;
    return probe_of(smallest, sizes.guarded);
  }

  uint32_t subgroup_size() const {
    return k_.required_subgroup_size != 0 ? k_.required_subgroup_size : subgroup_size_;
  }

  const plan::Launch& launch_of(uint32_t use) const {
    return std::get<plan::Launch>(p_.steps[steps_[use]].what);
  }

  Result<Setup> make_setup(uint32_t use, const std::vector<int64_t>& symbols) const {
    const plan::Launch& launch = launch_of(use);
    Setup s;
    s.use = use;
    RP_ASSIGN(s.grid, plan::eval_grid(p_, launch, symbols, {}));
    if (s.grid[0] == 0) return unsupported("it launches no workgroups");
    RP_ASSIGN(const int64_t iterations, launch.iterations.eval(symbols));
    if (iterations > kLeastLoopLimit) return unsupported("its loops are too long for some drivers");
    for (const Expr& e : launch.scalars) {
      RP_ASSIGN(const int64_t v, e.eval(symbols));
      s.scalars.push_back(static_cast<uint32_t>(v));
    }
    for (size_t i = 0; i < launch.buffers.size(); ++i) {
      const plan::Buffer& b = p_.buffers[launch.buffers[i]];
      RP_ASSIGN(uint64_t bytes, plan::eval_bytes(io_, b, symbols, {}));
      RP_ASSIGN(const auto dims, plan::eval_dims(io_, b.shape, symbols, b.name));
      RP_ASSIGN(const int64_t count, checked_element_count(dims, b.dtype));
      s.counts.push_back(static_cast<uint64_t>(count));  // without the padding of the last word
      if (b.kind == plan::BufferKind::Weight) {
        bytes =
            p_.weights[static_cast<size_t>(b.index)].packing.packed_bytes(bytes, size_of(b.dtype));
      }
      const size_t memory = plan::first_binding(launch, i);
      if (memory == i) s.bytes += bytes;
      s.parameters.push_back(
          {k_.buffers[i].storage, b.dtype, bytes, memory, plan::is_only_written(launch, i)});
    }
    return s;
  }

  /// The first workgroup of each item.
  Setup first_of_items(Setup setup) const {
    setup.grid = {k_.items, 1, 1};
    for (uint32_t i = 0; i < k_.items; ++i)
      setup.scalars[(i + 1) * k_.item_scalars() - 1] = i;  // kernel::batch()
    return setup;
  }

  /// One workgroup (or cluster) of a persistent kernel, with the first units.
  Setup with_units(Setup setup, uint64_t n) const {
    setup.grid = {k_.cluster, 1, 1};
    uint32_t& end = setup.scalars[k_.units->end];
    end = static_cast<uint32_t>(std::min<uint64_t>(end, n));
    setup.scalars[k_.units->groups] = 1;
    return setup;
  }

  /// A launch of the first `n` units of work: workgroups, or units of a persistent kernel.
  Result<uint64_t> fill_some(const Setup& setup, uint64_t n, Probe& probe) const {
    if (!k_.units)
      return fill(setup, first_workgroups(setup.grid, n, k_.cluster), false, true, probe);
    const Setup some = with_units(setup, n);
    set_scalars(some, probe);
    return fill(some, some.grid, false, true, probe);
  }

  static void set_scalars(const Setup& setup, Probe& probe) {
    probe.scalars.clear();
    for (const uint32_t v : setup.scalars) probe.scalars.push_back(static_cast<int32_t>(v));
  }

  Result<Probe> probe_of(const Setup& all, bool guarded) const {
    const Setup setup = k_.items == 1 ? all : first_of_items(all);
    Probe probe;
    probe.step = setup.use;
    set_scalars(setup, probe);
    if (k_.items != 1) {
      RP_TRY(fill(setup, setup.grid, false, true, probe).status());
      return probe;
    }
    if (setup.bytes > kWholeBytes) {
      // Buffers are only as large as the launched units need, so all of these are interpreted. Two
      // of them may exceed the limit; then one is launched.
      for (const uint64_t n : {2, 1}) {
        const Result<uint64_t> work = fill_some(setup, n, probe);
        if (work.ok()) return probe;
        if (n == 1) return work.status();
      }
    }
    RP_ASSIGN(const uint64_t work, fill(setup, setup.grid, true, !guarded, probe));
    if (work <= kLaunched / workgroup_count(setup.grid)) return probe;
    RP_TRY(fill(setup, first_workgroups(setup.grid, kLaunched / work, k_.cluster), true, !guarded,
                probe)
               .status());
    return probe;
  }

  /// Workgroups of a grid. They are interpreted in this order until `enough` instructions.
  struct Work {
    std::array<uint32_t, 3> grid{};
    std::vector<std::array<uint32_t, 3>> workgroups;
    uint64_t enough = 0;
    uint32_t together = 1;
  };

  /// The first `count` workgroups, to be interpreted together.
  static Work interpreted(Work work, size_t count) {
    work.workgroups.resize(count);
    work.enough = ~uint64_t{0};
    work.together = static_cast<uint32_t>(count);
    return work;
  }

  /// The outcomes of a launch: without errors, and with those that devices may make.
  struct Outcomes {
    ProbeOutcome exact;
    std::vector<ProbeOutcome> others;
  };

  /// The outcomes for the inputs that suit the kernel best. Sets `row` to their row of
  /// kProbeInputs. `loads`: the extents of loads are needed.
  Result<Outcomes> choose_inputs(const Setup& setup, const Work& work, bool loads,
                                 uint8_t& row) const {
    std::optional<Outcomes> best;
    size_t most = 0;
    Status why;
    // The first valid inputs are nearly always the best ones, so all outcomes are computed at once.
    const auto attempt = [&](size_t r) -> Result<Outcomes> {
      RP_ASSIGN(const ProbeOutcome chosen, choose(setup, work, r, loads));
      if (chosen.error != kernel::ErrorCode::None)
        return invalid_input("no seeded inputs are valid for it");
      return evaluate(setup, interpreted(work, chosen.workgroups), r, chosen,
                      best ? without_errors() : variants_of(setup, chosen.instructions));
    };
    for (size_t r = 0; r < plan::kProbeInputs.size(); ++r) {
      auto outcomes = attempt(r);
      if (!outcomes.ok()) {
        why = outcomes.status();
        if (why.code() == Code::Unsupported) return why;  // it takes too many instructions
        continue;
      }
      const auto [finite, all] = count_finite(setup.parameters, outcomes->exact);
      if (!best || finite > most) {
        best = std::move(*outcomes);
        most = finite;
        row = static_cast<uint8_t>(r);
      }
      if (finite == all) break;
    }
    if (!best) return why;
    const auto variants = variants_of(setup, best->exact.instructions);
    if (best->others.size() + 1 == variants.size()) return std::move(*best);
    return evaluate(setup, interpreted(work, best->exact.workgroups), row, best->exact, variants);
  }

  /// Fills in the probe for a launch of that grid. Returns the instructions per workgroup. `whole`:
  /// buffers have their full sizes, else only what the workgroups access. `every`: all workgroups
  /// of the grid are interpreted.
  Result<uint64_t> fill(const Setup& setup, const std::array<uint32_t, 3>& grid, bool whole,
                        bool every, Probe& probe) const {
    probe.grid = grid;
    probe.bytes.clear();
    probe.samples.clear();
    // Even if one workgroup is enough, a second one is interpreted if that does not take long: the
    // last workgroup of a grid is often partial.
    const Work work{grid, interpreted_workgroups(grid, every ? kEnough : 0, k_.cluster),
                    every ? kLimit : kEnough, every ? kInterpretedWorkgroups : 1};
    RP_ASSIGN(Outcomes outcomes, choose_inputs(setup, work, every || !whole, probe.inputs));
    ProbeOutcome& best = outcomes.exact;
    probe.complete = best.workgroups == workgroup_count(grid);
    if (every && !probe.complete) return unsupported("it has too many workgroups");
    RP_TRY(size_buffers(setup, whole, best, probe));
    RP_TRY(add_samples(setup.parameters, best, outcomes.others, probe));
    return best.instructions / best.workgroups;
  }

  static Status size_buffers(const Setup& setup, bool whole, const ProbeOutcome& outcome,
                             Probe& probe) {
    uint64_t total = 0;
    for (size_t i = 0; i < setup.parameters.size(); ++i) {
      const size_t memory = setup.parameters[i].memory;
      const uint64_t end = whole ? setup.parameters[memory].bytes : outcome.extents[i];
      probe.bytes.push_back((end + 15) / 16 * 16);
      total += probe.bytes.back();
    }
    if (total <= plan::kMaxProbeBytes) return {};
    return unsupported("its first workgroups use " + std::to_string(total) +
                       " bytes of its buffers, a probe at most " +
                       std::to_string(plan::kMaxProbeBytes));
  }

  std::vector<InterpretOptions> without_errors() const {
    InterpretOptions exact;
    exact.subgroup_size = subgroup_size_;
    return {exact};
  }

  /// The options with which the kernel is interpreted: without errors, then with them. Over a long
  /// sum, errors in one direction add up, while others cancel; those of native functions and matrix
  /// units may do either. For an expensive kernel one interpretation has enough sums, unless an
  /// integer depends on them.
  std::vector<InterpretOptions> variants_of(const Setup& setup, uint64_t instructions) const {
    std::vector<InterpretOptions> all = without_errors();
    if (!computes_floats(k_)) return all;
    const std::vector<bool>& writes = launch_of(setup.use).writes;
    bool thorough = instructions <= kCheap || !k_.matrices.empty();
    for (size_t i = 0; i < setup.parameters.size(); ++i)
      thorough = thorough || (writes[i] && !is_float(setup.parameters[i].dtype));
    const auto add = [&](NativeError error, uint64_t seed) {
      InterpretOptions o;
      o.subgroup_size = subgroup_size_;
      o.native_error = error;
      o.error_seed = seed;
      all.push_back(o);
    };
    if (thorough || has_native_functions(k_)) add(NativeError::High, 0);
    if (thorough) add(NativeError::Low, 0);
    for (uint64_t seed = 1; seed <= (thorough ? 3U : 1U); ++seed) add(NativeError::Every, seed);
    if (!thorough) return all;
    add(NativeError::None, 0);
    all.back().flush_subnormals = true;
    return all;
  }

  ProbeMemory memory_of(const Setup& setup, size_t row, size_t variants) const {
    return {fills_, row, setup.parameters, k_.workgroup[0] * k_.workgroup[1] * k_.workgroup[2],
            variants};
  }

  static kernel::PartialLaunch launch_of(const Setup& setup, const Work& work,
                                         ProbeMemory& memory) {
    kernel::PartialLaunch launch;
    launch.grid = work.grid;
    launch.scalars = setup.scalars;
    launch.workgroups = work.workgroups;
    launch.memory = &memory;
    launch.together = work.together;
    return launch;
  }

  /// Chooses the samples. Interprets only what decides which elements the kernel stores (and loads,
  /// if `loads`), except for matrices.
  Result<ProbeOutcome> choose(const Setup& setup, const Work& work, size_t row, bool loads) const {
    ProbeMemory memory = memory_of(setup, row, 1);
    kernel::PartialLaunch launch = launch_of(setup, work, memory);
    launch.enough = work.enough;
    launch.cheap = kLimit / 8;
    launch.limit = kLimit;
    launch.wanted = loads ? kernel::Wanted::Accessed : kernel::Wanted::Stored;
    RP_ASSIGN(const kernel::PartialOutcome done,
              kernel::interpret_some(k_, launch, without_errors()));
    ProbeOutcome out;
    out.error = done.error;
    out.workgroups = done.workgroups;
    out.instructions = done.instructions;
    const std::vector<bool>& writes = launch_of(setup.use).writes;
    for (size_t i = 0; i < setup.parameters.size(); ++i) {
      out.extents.push_back(memory.extent(i));
      std::vector<uint32_t>& at = out.at.emplace_back();
      if (!writes[i]) continue;
      auto written = memory.written(i);
      std::erase_if(written, [&](const auto& one) { return one.element >= setup.counts[i]; });
      const uint32_t unit = kernel::exchanges_lanes(k_) ? subgroup_size() : 1;
      for (const auto& w : choose_samples(written, unit, done.instructions > kCheap)) {
        at.push_back(w.element);
        out.invocations.push_back(w.invocation);
        out.stores.push_back(w.store);
      }
    }
    std::ranges::sort(out.invocations);
    const bool several = std::ranges::any_of(out.stores, [](const kernel::StoreOf& s) {
      return s.instruction == ProbeMemory::Written::kSeveral;
    });
    if (several) out.stores.clear();
    return out;
  }

  /// The outcomes of the same launch as `chosen`, whose samples they take, with each of these
  /// options. The first has no errors; with it accesses to shared arrays are checked for races.
  /// `work` has the workgroups of `chosen`, together.
  Result<Outcomes> evaluate(const Setup& setup, const Work& work, size_t row,
                            const ProbeOutcome& chosen,
                            const std::vector<InterpretOptions>& variants) const {
    ProbeMemory memory = memory_of(setup, row, variants.size());
    kernel::PartialLaunch launch = launch_of(setup, work, memory);
    launch.counted = chosen.invocations;
    launch.stores = chosen.stores;
    launch.check_shared = !k_.shared.empty();
    RP_TRY(kernel::interpret_some(k_, launch, variants).status());
    std::vector<ProbeOutcome> all;
    for (size_t v = 0; v < variants.size(); ++v) {
      ProbeOutcome& out = all.emplace_back(chosen);
      out.bits.clear();
      for (size_t i = 0; i < setup.parameters.size(); ++i) {
        std::vector<uint64_t>& bits = out.bits.emplace_back();
        for (const uint32_t one : out.at[i]) bits.push_back(memory.element(i, one, v));
      }
    }
    Outcomes outcomes{std::move(all[0]), {}};
    outcomes.others.assign(std::make_move_iterator(all.begin() + 1),
                           std::make_move_iterator(all.end()));
    // Rounding may change which elements are read.
    for (size_t i = 0; i < setup.parameters.size(); ++i)
      outcomes.exact.extents[i] = std::max(outcomes.exact.extents[i], memory.extent(i));
    return outcomes;
  }

  const plan::Plan& p_;
  const plan::Interface& io_;
  const kernel::Kernel& k_;
  const std::string& structure_;
  uint32_t subgroup_size_;
  ProbeFills& fills_;
  std::vector<uint32_t> steps_;
};

}  // namespace

Result<std::vector<Probe>> ProbeMaker::make(const plan::Plan& p, const Predicate& device,
                                            const std::vector<EmittedKernel>& kernels) {
  const uint32_t subgroup_size = device.subgroup_size != 0 ? device.subgroup_size
                                 : device.api == Api::Cuda ? 32
                                                           : 8;
  std::vector<std::vector<uint32_t>> steps(kernels.size());
  for (uint32_t s = 0; s < p.steps.size(); ++s) {
    const auto* launch = std::get_if<plan::Launch>(&p.steps[s].what);
    if (launch != nullptr) steps[launch->kernel].push_back(s);
  }
  std::vector<Prober> probers;
  std::vector<std::string> keys;
  std::vector<std::pair<const Prober*, Probe*>> fresh;
  for (size_t i = 0; i < kernels.size(); ++i) {
    probers.emplace_back(p, io_, kernels[i], std::move(steps[i]), subgroup_size, fills_);
    keys.push_back(probers.back().key());
  }
  for (size_t i = 0; i < kernels.size(); ++i) {
    const auto [made, is_new] = made_.try_emplace(keys[i]);
    if (is_new) fresh.emplace_back(&probers[i], &made->second);
  }
  RP_TRY(in_parallel(options_, "probes", fresh.size(), "kernels were probed",
                     [&](size_t i) { *fresh[i].second = fresh[i].first->make(); }));
  std::vector<Probe> probes;
  for (size_t i = 0; i < kernels.size(); ++i) {
    probes.push_back(made_.at(keys[i]));
    // Translate the index among the kernel's launches into the step of this plan.
    if (probes[i].skipped.empty()) probes[i].step = probers[i].steps()[probes[i].step];
  }
  return probes;
}

}  // namespace reprise
