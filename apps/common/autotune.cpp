#include "apps/common/autotune.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "apps/common/compare.h"
#include "apps/common/status.h"

namespace reprise::app {

namespace {

using Json = nlohmann::json;
constexpr const char* kForm = "reprise-schedules-1";

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

/// A launch of the device's variant that has candidates.
using Slot = ScheduleQuestion;

/// One candidate of every kernel that is not known yet, as a session.
struct Trial {
  std::unique_ptr<Session> session;
  std::map<std::string, std::string> schedules;   // by key
  std::map<std::string, std::vector<double>> us;  // by key
  bool rejected = false;
};

class Tuner {
 public:
  Tuner(const std::string& path, const CompileOptions& compile, const OpenedDevice& device,
        const AutotuneOptions& options, AutotuneReport& report)
      : path_(path),
        compile_(compile),
        device_(device),
        options_(options),
        report_(report),
        cache_(options.cache_dir, device.info) {}

  Result<Model> run() {
    if (!options_.cache_dir.empty()) {
      const Status s = cache_.read(known_);
      if (!s.ok() && options_.warning) options_.warning(s.message());
    }
    RP_ASSIGN(Model model, build([](const Slot&) { return size_t{0}; }));
    RP_TRY(find_slots(model));
    if (pending_.empty()) return finish();
    RP_ASSIGN(inputs_, options_.inputs(model));
    RP_ASSIGN(auto reference, Session::create(model.package, nullptr));
    RP_ASSIGN(expected_, reference->run(inputs_.bindings()));
    RP_TRY(make_trials());
    RP_TRY(measure());
    choose();
    if (!options_.cache_dir.empty()) {
      const Status s = cache_.write(known_);
      if (!s.ok() && options_.warning) options_.warning(s.message());
    }
    return finish();
  }

 private:
  Result<Model> build(const std::function<size_t(const Slot&)>& choice) {
    CompileOptions options = compile_;
    slots_.clear();
    options.choose_schedule = [&](const Slot& slot) {
      slots_.push_back(slot);
      return choice(slot);
    };
    return load_model(path_, options);
  }

  /// Slots of the variant that the device takes, and the keys that nothing is known of.
  Status find_slots(const Model& model) {
    std::string variant;
    for (const package::Variant& v : model.package->variants) {
      if (!v.predicate.mismatch(device_.info.facts).empty()) continue;
      variant = v.name;
      break;
    }
    std::erase_if(slots_, [&](const Slot& s) { return s.variant != variant; });
    tuned_slots_ = slots_;
    for (const Slot& s : tuned_slots_) {
      const auto it = known_.find(s.key);
      const bool usable = it != known_.end() && position(s, it->second) < s.candidates.size();
      if (!usable) pending_.insert(s.key);
    }
    return {};
  }

  static size_t position(const Slot& slot, const std::string& schedule) {
    const auto it = std::find(slot.candidates.begin(), slot.candidates.end(), schedule);
    return static_cast<size_t>(it - slot.candidates.begin());
  }

  size_t known_choice(const Slot& slot) const {
    const auto it = known_.find(slot.key);
    if (it == known_.end()) return 0;
    const size_t at = position(slot, it->second);
    return at < slot.candidates.size() ? at : 0;
  }

  Result<Model> finish() {
    for (const std::string& key : known_keys()) report_known(key);
    return build([&](const Slot& s) { return known_choice(s); });
  }

  std::set<std::string> known_keys() const {
    std::set<std::string> keys;
    for (const Slot& s : tuned_slots_) {
      if (pending_.count(s.key) == 0) keys.insert(s.key);
    }
    return keys;
  }

  std::string kernel_of(const std::string& key) const {
    for (const Slot& s : tuned_slots_) {
      if (s.key == key) return s.kernel;
    }
    return {};
  }

  void report_known(const std::string& key) {
    TunedKernel k;
    k.key = key;
    k.kernel = kernel_of(key);
    k.schedule = known_.at(key);
    k.from_cache = true;
    report_.kernels.push_back(std::move(k));
  }

  Status make_trials() {
    size_t most = 1;
    for (const Slot& s : tuned_slots_) {
      if (pending_.count(s.key) > 0) most = std::max(most, s.candidates.size());
    }
    most = std::min(most, options_.candidates);
    const double start = now_ms();
    for (size_t c = 0; c < most; ++c) {
      if (c > 1 && now_ms() - start > options_.budget_s * 1000) break;
      say("schedules " + std::to_string(c + 1) + " of " + std::to_string(most));
      RP_TRY(make_trial(c));
    }
    return {};
  }

  Status make_trial(size_t candidate) {
    Trial t;
    RP_ASSIGN(const Model model, build([&](const Slot& s) {
                if (pending_.count(s.key) == 0) return known_choice(s);
                const size_t c = std::min(candidate, s.candidates.size() - 1);
                t.schedules[s.key] = s.candidates[c];
                return c;
              }));
    std::shared_ptr<const package::Package> package = model.package;
    if (options_.on_candidate) {
      auto changed = std::make_shared<package::Package>(*package);
      options_.on_candidate(candidate, *changed);
      package = std::move(changed);
    }
    SessionOptions options;
    options.timestamps = true;
    RP_ASSIGN(t.session, Session::create(package, device_.device, options));
    auto outputs = t.session->run(inputs_.bindings());
    t.rejected = !outputs.ok();
    for (size_t i = 0; outputs.ok() && i < expected_.size(); ++i) {
      const Tolerance allowed = tolerance(Rule::Model, expected_[i].dtype());
      t.rejected = t.rejected || !compare((*outputs)[i], expected_[i], allowed).ok;
    }
    if (t.rejected) t.session.reset();
    trials_.push_back(std::move(t));
    return {};
  }

  /// All candidates in turn, so that what else the machine does meets them alike.
  Status measure() {
    for (int round = 0; round < options_.rounds; ++round) {
      say("measuring, round " + std::to_string(round + 1) + " of " +
          std::to_string(options_.rounds));
      for (Trial& t : trials_) {
        if (t.rejected) continue;
        RunStats stats;
        RP_TRY(t.session->run(inputs_.bindings(), {}, &stats).status());
        ++report_.runs;
        for (const Slot& s : tuned_slots_) {
          if (pending_.count(s.key) > 0 && s.launch < stats.kernel_us.size())
            t.us[s.key].push_back(stats.kernel_us[s.launch]);
        }
      }
    }
    return {};
  }

  void choose() {
    for (const std::string& key : pending_) {
      TunedKernel k;
      k.key = key;
      k.kernel = kernel_of(key);
      std::set<std::string> seen;
      for (const Trial& t : trials_) {
        const auto it = t.schedules.find(key);
        if (it == t.schedules.end() || !seen.insert(it->second).second) continue;
        const auto us = t.us.find(key);
        k.candidates.push_back({it->second, us == t.us.end() ? 0 : median(us->second), t.rejected});
      }
      k.schedule = select(k.candidates);
      known_[key] = k.schedule;
      report_.kernels.push_back(std::move(k));
    }
  }

  void say(const std::string& line) const {
    if (options_.progress) options_.progress(line);
  }

  const std::string& path_;
  const CompileOptions& compile_;
  const OpenedDevice& device_;
  const AutotuneOptions& options_;
  AutotuneReport& report_;
  ChoiceCache cache_;
  std::map<std::string, std::string> known_;  // schedule by key
  std::vector<Slot> slots_;                   // of the last compilation
  std::vector<Slot> tuned_slots_;             // of the device's variant
  std::set<std::string> pending_;             // keys to measure
  InputSet inputs_;
  std::vector<HostTensor> expected_;
  std::vector<Trial> trials_;
};

}  // namespace

std::string select(std::vector<CandidateTime>& candidates) {
  if (candidates.empty()) return {};
  const std::string first = candidates.front().schedule;
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const CandidateTime& a, const CandidateTime& b) {
                     return a.rejected != b.rejected ? b.rejected : a.us < b.us;
                   });
  return candidates.front().rejected ? first : candidates.front().schedule;
}

ChoiceCache::ChoiceCache(const std::string& folder, const DeviceInfo& device) {
  std::ostringstream name;
  name << folder << "/schedules-" << std::hex;
  for (const uint8_t byte : device.uuid) name << (byte >> 4) << (byte & 15);
  name << "-" << device.driver_version << ".json";
  path_ = name.str();
}

Status ChoiceCache::read(std::map<std::string, std::string>& choices) const {
  choices.clear();
  std::ifstream in(path_, std::ios::binary);
  if (!in) return {};
  const Json document = Json::parse(in, nullptr, false);
  const bool good = document.is_object() && document.value("form", Json()) == kForm &&
                    document.contains("choices") && document["choices"].is_object();
  std::map<std::string, std::string> read;
  bool strings = good;
  if (good) {
    for (const auto& [key, schedule] : document["choices"].items()) {
      strings = strings && schedule.is_string();
      if (strings) read[key] = schedule.get<std::string>();
    }
  }
  if (!strings) {
    return Status(Code::Io, "'" + path_ +
                                "' is damaged or of another version; its schedules are ignored "
                                "and measured again");
  }
  choices = std::move(read);
  return {};
}

Status ChoiceCache::write(const std::map<std::string, std::string>& choices) const {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(fs::path(path_).parent_path(), error);
  const std::string part = path_ + ".part";
  std::ofstream out(part, std::ios::binary);
  out << Json{{"form", kForm}, {"choices", choices}}.dump(1) << "\n";
  out.close();
  if (!out) return file_error("cannot write", part);
  fs::rename(part, path_, error);
  if (error) return file_error("cannot write", path_);
  return {};
}

Result<Model> autotune(const std::string& path, const CompileOptions& compile,
                       const OpenedDevice& device, const AutotuneOptions& options,
                       AutotuneReport* report) {
  AutotuneReport own;
  return Tuner(path, compile, device, options, report ? *report : own).run();
}

}  // namespace reprise::app
