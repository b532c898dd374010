#include "codegen/autotune/autotune.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "codegen/autotune/choice_cache.h"
#include "codegen/autotune/wrong_alone.h"
#include "codegen/compile/compile_context.h"
#include "codegen/compile/compiler.h"
#include "codegen/options/progress.h"
#include "runtime/base/compare.h"
#include "runtime/base/timing.h"
#include "runtime/check/check.h"
#include "runtime/session/session.h"

namespace reprise {

namespace {

constexpr int kMinRounds = 3;  // the fewest rounds for a median

using Choice = std::function<size_t(const ScheduleSite&)>;

double sum(const std::vector<double>& v) {
  return std::accumulate(v.begin(), v.end(), 0.0);
}

/// A session whose results match the reference, or why there is none.
struct Checked {
  std::unique_ptr<Session> session;
  std::string reason;
};

/// A session with one candidate for every kernel whose schedule is not known yet.
struct Trial : Checked {
  std::shared_ptr<const package::Package> package;
  std::vector<std::vector<size_t>> launches;      // in the plan, by site
  std::map<std::string, std::string> schedules;   // by key
  std::map<std::string, std::vector<double>> us;  // by key
};

class Tuner {
 public:
  Tuner(const CompileModel& model, const CompileOptions& compile, std::shared_ptr<Device>& device,
        const AutotuneOptions& options, AutotuneReport& report)
      : model_(model),
        compile_(compile),
        device_(device),
        options_(options),
        report_(report),
        cache_(options.cache_dir, device->info()) {}

  Result<TunedPackage> run() {
    if (!options_.cache_dir.empty()) {
      const Status s = cache_.read(known_);
      if (!s.ok() && options_.warning) options_.warning(s.message());
    }
    RP_ASSIGN(TunedPackage model, build([&](const ScheduleSite& s) { return known_choice(s); }));
    find_sites(model);
    report_known();
    if (pending_.empty() && all_default()) return as_asked(std::move(model));
    RP_ASSIGN(inputs_, options_.inputs(*model.package));
    for (const plan::Slot& slot : model.package->io.inputs) names_.push_back(slot.name);
    RP_ASSIGN(auto reference, Session::create(model.package, nullptr));
    RP_ASSIGN(expected_, reference->run_from_start(bindings()));
    if (pending_.empty()) return confirm_known(std::move(model));
    RP_TRY(make_trials(model));
    RP_TRY(measure());
    choose();
    RP_ASSIGN(TunedPackage tuned, confirm(std::move(model)));
    keep();
    return as_asked(std::move(tuned));
  }

 private:
  void keep() {
    if (options_.cache_dir.empty() || report_.amplifies) return;
    const Status s = cache_.write(known_);
    if (!s.ok() && options_.warning) options_.warning(s.message());
  }

  Result<TunedPackage> compiled(const CompileOptions& options) const {
    TunedPackage out;
    RP_ASSIGN(package::Package package, model_(options, &out.report));
    out.package = std::make_shared<const package::Package>(std::move(package));
    return out;
  }

  std::vector<Binding> bindings() const {
    std::vector<Binding> out;
    for (size_t i = 0; i < inputs_.size(); ++i)
      out.push_back({.name = names_[i], .host = &inputs_[i]});
    return out;
  }

  /// Compiles for this device alone, without the callbacks for the final compilation.
  Result<TunedPackage> build(const Choice& choice) {
    CompileOptions options = compile_;
    compile_for(device_->info(), options);
    options.on_pass = nullptr;
    options.on_kernel = nullptr;
    options.choose_schedule = choice;
    // Each site has launches of its own, so that its time is known.
    options.disabled_passes.emplace_back(kBatchPass);
    return compiled(options);
  }

  /// The model with the chosen schedules, compiled as the caller asked for.
  Result<TunedPackage> as_asked(TunedPackage model) {
    const bool apart =
        std::ranges::find(compile_.disabled_passes, kBatchPass) != compile_.disabled_passes.end();
    if (apart && compile_.device && !compile_.on_pass && !compile_.on_kernel) return model;
    CompileOptions options = compile_;
    options.choose_schedule = [&](const ScheduleSite& s) { return known_choice(s); };
    return compiled(options);
  }

  /// Finds the sites of the model, and the keys whose schedules are not known.
  void find_sites(const TunedPackage& model) {
    for (const ScheduleChoice& c : model.report.schedules) {
      const ScheduleSite& s = sites_.emplace_back(c.site);
      const auto it = known_.find(s.key);
      const bool usable = it != known_.end() && position(s, it->second) < s.candidates.size();
      if (!usable) pending_.insert(s.key);
    }
  }

  static size_t position(const ScheduleSite& site, const std::string& schedule) {
    const auto it = std::find_if(site.candidates.begin(), site.candidates.end(),
                                 [&](const auto& c) { return c.schedule == schedule; });
    return static_cast<size_t>(it - site.candidates.begin());
  }

  size_t known_choice(const ScheduleSite& site) const {
    const auto it = known_.find(site.key);
    if (it == known_.end()) return 0;
    const size_t at = position(site, it->second);
    return at < site.candidates.size() ? at : 0;
  }

  void report_known() {
    std::set<std::string> seen = pending_;
    for (const ScheduleSite& s : sites_) {
      if (!seen.insert(s.key).second) continue;
      report_.kernels.push_back({s.key, s.kernel, known_.at(s.key), true, {}});
    }
  }

  /// By site: every compilation of the model has the same sites in the same order.
  static std::vector<std::vector<size_t>> launches_of(const TunedPackage& model) {
    std::vector<std::vector<size_t>> out;
    for (const ScheduleChoice& c : model.report.schedules) out.push_back(c.launches);
    return out;
  }

  Status make_trials(const TunedPackage& first) {
    size_t most = 1;
    for (const ScheduleSite& s : sites_) {
      if (pending_.count(s.key) > 0) most = std::max(most, s.candidates.size());
    }
    most = std::min(most, std::max<size_t>(options_.candidates, 1));
    for (size_t c = 0; c < most; ++c) {
      if (c > 1 && over_budget()) break;
      report_progress("schedules " + std::to_string(c + 1) + " of " + std::to_string(most));
      RP_TRY(make_trial(c, first));
      RP_TRY(reprise::report_progress(compile_, "candidates", c + 1, most));
    }
    return {};
  }

  Status make_trial(size_t candidate, const TunedPackage& first) {
    Trial t;
    const auto choice = [&](const ScheduleSite& s) {
      if (pending_.count(s.key) == 0) return known_choice(s);
      const size_t c = std::min(candidate, s.candidates.size() - 1);
      t.schedules[s.key] = s.candidates[c].schedule;
      return c;
    };
    std::shared_ptr<const package::Package> package = first.package;
    if (candidate == 0) {  // compiled already
      for (const ScheduleSite& s : sites_) choice(s);
      t.launches = launches_of(first);
    } else {
      const Result<TunedPackage> model = build(choice);
      if (!model.ok()) {
        if (model.status().code() == Code::Cancelled) return model.status();
        t.reason = model.status().message();
        trials_.push_back(std::move(t));
        return {};
      }
      package = model->package;
      t.launches = launches_of(*model);
    }
    package = with_faults(candidate, std::move(package));
    RP_ASSIGN(static_cast<Checked&>(t), right_session(candidate, package));
    t.package = std::move(package);
    trials_.push_back(std::move(t));
    return recover();
  }

  /// The package with the faults that a test injects.
  std::shared_ptr<const package::Package> with_faults(
      size_t candidate, std::shared_ptr<const package::Package> package) const {
    if (!options_.on_candidate) return package;
    auto changed = std::make_shared<package::Package>(*package);
    options_.on_candidate(candidate, *changed);
    return changed;
  }

  bool over_budget() const { return now_ms() - start_ > options_.budget_s * 1000; }

  Result<std::unique_ptr<Session>> session_of(std::shared_ptr<const package::Package> package) {
    SessionOptions options;
    options.timestamps = true;
    return Session::create(std::move(package), device_, options);
  }

  /// A session for a candidate whose results are right, or why there is none. A failure is an error
  /// only for the default schedules, without which there is nothing to tune.
  Result<Checked> right_session(size_t candidate,
                                const std::shared_ptr<const package::Package>& package) {
    auto session = session_of(package);
    if (!session.ok() && candidate == 0) return session.status();
    if (!session.ok()) return Checked{nullptr, session.status().message()};
    const auto outputs = (*session)->run_from_start(bindings());
    if (!outputs.ok() && candidate == 0) return outputs.status();
    if (!outputs.ok()) return Checked{nullptr, outputs.status().message()};
    for (size_t i = 0; i < expected_.size(); ++i) {
      const DType dtype = expected_[i].dtype();
      const Tolerance allowed = widened(tolerance(Rule::Model, dtype), compile_.precision, dtype);
      if (!compare((*outputs)[i], expected_[i], allowed).ok)
        return Checked{nullptr, "output '" + (*session)->result_name(i) + "' is wrong"};
    }
    return Checked{std::move(*session), {}};
  }

  bool device_works() const { return device_->create_kernels({}).ok(); }

  /// Called after a failure. A fault makes the device unusable for all that hold it. Then it is
  /// opened again, and so are the sessions of candidates that were right.
  Status recover() {
    while (!device_works()) {
      if (!options_.reopen)
        return {Code::Device,
                "a schedule made " + device_->info().id + " unusable: " + last_reason()};
      report_progress("a candidate made the device unusable; it is opened again");
      for (Trial& t : trials_) t.session.reset();
      device_.reset();  // the last of all that hold its context
      RP_ASSIGN(device_, options_.reopen());
      for (Trial& t : trials_) {
        if (t.reason.empty() && !restart(t)) break;
      }
    }
    return {};
  }

  /// Opens the session of a trial again. False if that made the device unusable.
  bool restart(Trial& t) {
    auto session = session_of(t.package);
    // The first run of a session differs from later ones, so it is not measured.
    const Status s = session.ok() ? (*session)->run(bindings()).status() : session.status();
    if (s.ok()) {
      t.session = std::move(*session);
    } else {
      t.reason = s.message();
    }
    return s.ok() || device_works();
  }

  std::string last_reason() const {
    const auto last = std::find_if(trials_.rbegin(), trials_.rend(),
                                   [](const Trial& t) { return !t.reason.empty(); });
    return last == trials_.rend() ? "the chosen schedules together do" : last->reason;
  }

  /// Rejects a candidate that was right before, but failed in this run.
  Status reject(Trial& t, const std::string& reason) {
    t.reason = reason;
    t.session.reset();
    return recover();
  }

  Result<std::vector<double>> launch_times(Session& session) {
    RunStats stats;
    RP_TRY(session.run(bindings(), {}, &stats).status());
    ++report_.runs;
    return stats.kernel_us;
  }

  /// Measures all candidates in turn in each round, so that other load affects all of them equally.
  Status measure() {
    for (int round = 0; round < options_.rounds; ++round) {
      if (round >= kMinRounds && over_budget()) break;
      report_progress("measuring, round " + std::to_string(round + 1) + " of " +
                      std::to_string(options_.rounds));
      for (Trial& t : trials_) {
        if (!t.session) continue;
        const Result<std::vector<double>> us = launch_times(*t.session);
        RP_TRY(reprise::report_progress(compile_, "measuring", static_cast<size_t>(round) + 1,
                                        static_cast<size_t>(options_.rounds)));
        if (!us.ok()) {
          if (&t == &trials_[0]) return us.status();
          RP_TRY(reject(t, us.status().message()));
          continue;
        }
        add_times(t, *us);
      }
    }
    return {};
  }

  /// The time of a site is that of all its launches.
  void add_times(Trial& t, const std::vector<double>& us) const {
    for (size_t i = 0; i < sites_.size() && i < t.launches.size(); ++i) {
      if (pending_.count(sites_[i].key) == 0) continue;
      double time = 0;
      for (const size_t launch : t.launches[i]) time += launch < us.size() ? us[launch] : 0;
      t.us[sites_[i].key].push_back(time);
    }
  }

  void choose() {
    std::set<std::string> done;
    for (const ScheduleSite& site : sites_) {
      if (pending_.count(site.key) == 0 || !done.insert(site.key).second) continue;
      TunedKernel k{site.key, site.kernel, {}, false, {}};
      std::set<std::string> seen;
      for (const Trial& t : trials_) {
        const auto it = t.schedules.find(k.key);
        if (it == t.schedules.end() || !seen.insert(it->second).second) continue;
        const auto us = t.us.find(k.key);
        k.candidates.push_back({it->second, us == t.us.end() ? 0 : median(us->second),
                                t.session == nullptr, t.reason});
      }
      k.schedule = select(k.candidates);
      known_[k.key] = k.schedule;
      report_.kernels.push_back(std::move(k));
    }
  }

  bool all_default() const {
    return std::all_of(sites_.begin(), sites_.end(),
                       [&](const ScheduleSite& s) { return known_choice(s) == 0; });
  }

  /// The model with the default schedules, for a model in which neither these nor others are within
  /// the tolerance. An error unless each kernel by itself is right: the model then amplifies the
  /// rounding of its kernels, so that its results tell nothing about schedules.
  Result<TunedPackage> none_right(const std::string& by_default, const std::string& others) {
    const std::string wrong_kernel = check_alone();
    RP_TRY(recover());
    if (!wrong_kernel.empty()) {
      return Status(Code::Device, "no schedules give right results on " + device_->info().id +
                                      ": with the default ones " + by_default + "; with others " +
                                      others + "; " + wrong_kernel);
    }
    if (options_.warning) {
      options_.warning(
          "the default schedules are used, because results cannot tell right schedules "
          "from wrong ones: with the default ones " +
          by_default + ", although each kernel by itself is right. The model amplifies rounding");
    }
    for (const ScheduleSite& s : sites_) known_[s.key] = s.candidates[0].schedule;
    for (TunedKernel& k : report_.kernels) k.schedule = known_.at(k.key);
    report_.amplifies = true;
    return build([](const ScheduleSite&) { return size_t{0}; });
  }

  /// Compares each kernel of the default schedules with its probe. Returns which one is wrong or
  /// cannot be compared; empty if all are right.
  std::string check_alone() {
    CompileOptions options = compile_;
    compile_for(device_->info(), options);
    options.on_pass = nullptr;
    options.on_kernel = nullptr;
    options.choose_schedule = [](const ScheduleSite&) { return size_t{0}; };
    options.probes = true;
    const Result<TunedPackage> model = compiled(options);
    if (!model.ok()) return model.status().message();
    const auto package = with_faults(0, model->package);
    if (package->variants.empty()) return "it has no variant for the device";
    const package::Variant& v = package->variants[0];
    std::string wrong = wrong_alone(*device_, v);
    for (size_t b = 0; wrong.empty() && b < v.bodies.size(); ++b)
      wrong = wrong_alone(*device_, v.bodies[b]);
    return wrong;
  }

  /// All choices are from the cache, and may have been made for other models. Checks that they are
  /// right in this one.
  Result<TunedPackage> confirm_known(TunedPackage model) {
    const auto session = right_session(trials_.size(), with_faults(trials_.size(), model.package));
    if (session.ok() && session->session) return as_asked(std::move(model));
    const std::string reason = session.ok() ? session->reason : session.status().message();
    RP_TRY(recover());
    if (options_.warning) options_.warning("cached schedules are not used: " + reason);
    RP_ASSIGN(TunedPackage plain, build([](const ScheduleSite&) { return size_t{0}; }));
    const size_t last = trials_.size() + 1;
    RP_ASSIGN(const Checked checked, right_session(last, with_faults(last, plain.package)));
    if (!checked.session) {
      RP_ASSIGN(plain, none_right(checked.reason, reason));
      return as_asked(std::move(plain));
    }
    for (const ScheduleSite& s : sites_) known_[s.key] = s.candidates[0].schedule;
    for (TunedKernel& k : report_.kernels) k.schedule = known_.at(k.key);
    keep();
    return as_asked(std::move(plain));
  }

  /// The model with all chosen schedules if it is right and no slower than with the default ones.
  Result<TunedPackage> confirm(TunedPackage first) {
    const bool changed = std::any_of(sites_.begin(), sites_.end(), [&](const ScheduleSite& s) {
      return pending_.count(s.key) > 0 && known_choice(s) != 0;
    });
    const std::string default_wrong = trials_[0].reason;
    if (!changed && default_wrong.empty()) return first;
    if (!changed) return none_right(default_wrong, last_reason());
    RP_ASSIGN(TunedPackage tuned, build([&](const ScheduleSite& s) { return known_choice(s); }));
    RP_ASSIGN(Checked checked,
              right_session(trials_.size(), with_faults(trials_.size(), tuned.package)));
    const bool better = checked.session && no_slower(*checked.session);
    checked.session.reset();
    RP_TRY(recover());
    if (better) return tuned;
    if (!default_wrong.empty()) return none_right(default_wrong, checked.reason);
    report_progress("the chosen schedules together are " +
                    (checked.reason.empty() ? "no better" : "not right (" + checked.reason + ")") +
                    "; the default ones are used");
    for (const ScheduleSite& s : sites_) {
      if (pending_.count(s.key) > 0) known_[s.key] = s.candidates[0].schedule;
    }
    for (TunedKernel& k : report_.kernels) k.schedule = known_.at(k.key);
    return first;
  }

  /// Whether the chosen schedules are no slower than the default ones. True if these are wrong.
  bool no_slower(Session& tuned) {
    Session* const plain = trials_[0].session.get();
    std::vector<double> default_us, tuned_us;
    for (int round = 0; plain && round < options_.rounds; ++round) {
      const auto before = launch_times(*plain);
      const auto after = before.ok() ? launch_times(tuned) : before;
      if (!after.ok()) return false;
      default_us.push_back(sum(*before));
      tuned_us.push_back(sum(*after));
    }
    if (!plain) return true;
    report_.default_us = median(default_us);
    report_.tuned_us = median(tuned_us);
    return report_.tuned_us <= report_.default_us;
  }

  void report_progress(const std::string& line) const {
    if (options_.progress) options_.progress(line);
  }

  const CompileModel& model_;
  const CompileOptions& compile_;
  std::shared_ptr<Device>& device_;
  const AutotuneOptions& options_;
  AutotuneReport& report_;
  ChoiceCache cache_;
  std::map<std::string, std::string> known_;  // schedule by key
  std::vector<ScheduleSite> sites_;
  std::set<std::string> pending_;  // keys to measure
  std::vector<HostTensor> inputs_;
  std::vector<std::string> names_;  // of the inputs
  std::vector<HostTensor> expected_;
  std::vector<Trial> trials_;  // the first has the default schedules
  double start_ = now_ms();
};

}  // namespace

Result<TunedPackage> autotune(const CompileModel& model, const CompileOptions& compile,
                              std::shared_ptr<Device>& device, const AutotuneOptions& options,
                              AutotuneReport* report) {
  AutotuneReport own;
  return Tuner(model, compile, device, options, report ? *report : own).run();
}

Result<TunedPackage> autotune(const std::string& path, const CompileOptions& compile,
                              std::shared_ptr<Device>& device, const AutotuneOptions& options,
                              AutotuneReport* report) {
  const CompileModel model = [&path](const CompileOptions& o, CompileReport* r) {
    return compile_file(path, o, r);
  };
  return autotune(model, compile, device, options, report);
}

}  // namespace reprise
