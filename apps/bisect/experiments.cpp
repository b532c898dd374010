// Compiles and runs the same model with other settings. A setting that makes it right points to the
// cause.
#include <algorithm>
#include <optional>
#include <set>

#include "apps/bisect/bisect.h"
#include "apps/common/model.h"
#include "codegen/compile/targets.h"

namespace reprise::app {

namespace {

constexpr size_t kMaxSchedules = 6;

class Experiments {
 public:
  Experiments(Sample& sample, const Compiled& compiled, std::optional<size_t> launch,
              const BisectReport& report, const BisectOptions& options)
      : sample_(sample),
        compiled_(compiled),
        launch_(launch),
        // A race may give the right result by chance.
        runs_(report.deterministic ? 4 : 20),
        o_(options),
        variant_(compiled.package->variants.front().name) {}

  std::vector<Experiment> run() {
    schedules();
    passes();
    sessions();
    variants();
    for (const std::string& id : o_.other_devices) device(id);
    return std::move(done_);
  }

 private:
  using Kind = Experiment::Kind;

  Setting own() const { return {o_.compile, o_.session, o_.device, runs_}; }

  void add(Kind kind, std::string name, std::string what, const Setting& setting) {
    if (o_.progress) o_.progress(what);
    done_.push_back({kind, std::move(name), std::move(what), outcome(kind, setting)});
  }

  std::string outcome(Kind kind, const Setting& setting) {
    const auto failed = [](const Status& s) { return "not possible: " + s.message(); };
    auto package = compile(sample_.model->clone(), setting.compile);
    if (!package.ok()) return failed(package.status());
    // If no kernel changes, the result can change only by chance.
    const bool compiled = kind == Kind::Pass || kind == Kind::Schedule;
    if (compiled && !package->variants.empty() && same_kernels(package->variants.front().plan))
      return "no change";
    const Trial t =
        try_package(sample_, std::make_shared<package::Package>(std::move(*package)), setting);
    if (!t.status.ok()) return failed(t.status);
    return t.differs || !t.stable ? "wrong" : "right";
  }

  bool same_kernels(const plan::Plan& p) const {
    const std::vector<plan::KernelCode>& own = compiled_.plan().kernels;
    return std::equal(
        own.begin(), own.end(), p.kernels.begin(), p.kernels.end(),
        [](const auto& a, const auto& b) { return a.spirv == b.spirv && a.image == b.image; });
  }

  /// The sites whose kernels the launch executes. If there are several, their kernels are equal.
  std::set<size_t> sites_of_launch(const ScheduleChoice*& first) const {
    std::set<size_t> sites;
    for (const ScheduleChoice& c : compiled_.report.schedules) {
      if (c.site.variant != variant_ || std::ranges::find(c.launches, launch_) == c.launches.end())
        continue;
      if (sites.empty()) first = &c;
      sites.insert(c.site.number);
    }
    return sites;
  }

  void schedules() {
    const ScheduleChoice* first = nullptr;
    const std::set<size_t> sites = sites_of_launch(first);
    if (first == nullptr) return;
    const auto& all = first->site.candidates;
    std::set<std::string> seen{all[first->chosen].schedule};
    for (size_t i = 0; i < all.size() && seen.size() <= kMaxSchedules; ++i) {
      if (!seen.insert(all[i].schedule).second) continue;
      Setting s = own();
      s.compile.choose_schedule = [sites, i](const ScheduleSite& q) {
        return sites.contains(q.number) ? std::min(i, q.candidates.size() - 1) : size_t{0};
      };
      add(Kind::Schedule, all[i].schedule, "with the schedule '" + all[i].schedule + "'", s);
    }
  }

  void passes() {
    for (const std::string& pass : pass_names()) {
      const auto& off = o_.compile.disabled_passes;
      // Skipped because it only chooses between two forms, which have their own passes.
      if (pass == "attention-price" || std::find(off.begin(), off.end(), pass) != off.end())
        continue;
      Setting s = own();
      s.compile.disabled_passes.push_back(pass);
      add(Kind::Pass, pass, "with --disable-pass " + pass, s);
    }
  }

  void sessions() {
    Setting s = own();
    s.session.isolate_tensors = !s.session.isolate_tensors;
    add(Kind::Session, "isolate-tensors",
        s.session.isolate_tensors ? "with --isolate-tensors" : "without --isolate-tensors", s);
    s = own();
    s.session.replay = !s.session.replay;
    add(Kind::Session, "replay",
        s.session.replay ? "with --mode reduce-overhead" : "with --mode default", s);
  }

  void variants() {
    if (o_.device.info.facts.api != Api::Vulkan) return;
    for (const lower::Target& t : vulkan_targets()) {
      if (t.name == variant_ || !t.predicate.mismatch(o_.device.info.facts).empty()) continue;
      if (!t.predicate.matrices.empty()) continue;
      Setting s = own();
      s.compile.targets = {t.name};
      add(Kind::Variant, t.name, "by the variant " + t.name, s);
    }
  }

  /// The variant in question if the device can use it, or else another one that is wrong here.
  std::string variant_for(const DeviceFacts& facts) const {
    if (facts.api != Api::Vulkan || o_.device.info.facts.api != Api::Vulkan) return {};
    for (const lower::Target& t : vulkan_targets()) {
      if (t.name == variant_ && t.predicate.mismatch(facts).empty()) return t.name;
    }
    for (const Experiment& e : done_) {
      if (e.kind != Kind::Variant || !e.wrong()) continue;
      for (const lower::Target& t : vulkan_targets()) {
        if (t.name == e.name && t.predicate.mismatch(facts).empty()) return t.name;
      }
    }
    return {};
  }

  void device(const std::string& id) {
    Result<OpenedDevice> other = o_.open(id);
    if (!other.ok()) {
      done_.push_back({Kind::Device, id, "on " + id, "not possible: " + other.status().message()});
      return;
    }
    Setting s = own();
    s.device = *other;
    compile_for(other->info, s.compile);
    const std::string variant = variant_for(other->info.facts);
    s.compile.targets = variant.empty() ? targets_for(*other) : std::vector{variant};
    add(Kind::Device, id,
        "on " + id + " (" + other->info.name + ")" +
            (variant.empty() ? ", which takes other kernels" : ", by the variant " + variant),
        s);
    done_.back().same_kernels = !variant.empty();
  }

  Sample& sample_;
  const Compiled& compiled_;
  std::optional<size_t> launch_;
  int runs_;
  const BisectOptions& o_;
  std::string variant_;
  std::vector<Experiment> done_;
};

}  // namespace

std::vector<Experiment> experiment(Sample& sample, const Compiled& compiled,
                                   std::optional<size_t> launch, const BisectReport& report,
                                   const BisectOptions& options) {
  return Experiments(sample, compiled, launch, report, options).run();
}

}  // namespace reprise::app
