#include "tests/fuzz/lib/session.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/fuzz/lib/recipes.h"

namespace reprise::fuzz {

namespace {

using Clock = std::chrono::steady_clock;

class Run {
 public:
  explicit Run(const RunOptions& options)
      : o_(options), next_(options.seed), start_(Clock::now()) {}

  RunReport run() {
    std::vector<std::thread> threads;
    for (unsigned i = 1; i < o_.jobs; ++i) threads.emplace_back([this] { work(); });
    work();
    for (std::thread& t : threads) t.join();
    return std::move(report_);
  }

 private:
  bool over() const {
    return stopped_ ||
           (o_.seconds > 0 && Clock::now() - start_ > std::chrono::duration<double>(o_.seconds));
  }

  void work() {
    Worker worker(o_.worker, o_.time_limit);
    while (!over()) {
      const uint64_t seed = next_++;
      const auto index = static_cast<int64_t>(seed - o_.seed);
      if (o_.programs > 0 && index >= o_.programs) return;
      one(worker, seed, index);
    }
  }

  void one(Worker& worker, uint64_t seed, int64_t index) {
    Request request;
    request.seed = seed;
    request.generator = o_.generator;
    request.configs = o_.configs;
    request.cuda_text = o_.cuda_every > 0 && index % o_.cuda_every == o_.cuda_every - 1;
    request.devices = o_.devices;
    request.onnxruntime = o_.onnxruntime;
    request.fault = o_.fault;
    Reply reply = worker.ask(request);
    if (!reply.verdict.failures.empty() && reply.verdict.failures[0].kind == Failure::Kind::Hang) {
      // On a busy machine all takes longer; what hangs does so again, and has no end.
      Worker patient(o_.worker, 4 * o_.time_limit);
      reply = patient.ask(request);
    }
    if (reply.text.empty() && !reply.verdict.failures.empty()) {
      request.trace = true;  // it crashed while it made the program
      reply = worker.ask(request);
    }
    {
      const std::lock_guard lock(mutex_);
      ++report_.programs;
      for (const auto& [what, n] : reply.verdict.counts) report_.counts[what] += n;
      if (o_.on_progress && Clock::now() - said_ > std::chrono::seconds(1)) {
        said_ = Clock::now();
        o_.on_progress(report_.programs, report_.findings.size());
      }
    }
    if (!reply.verdict.failures.empty()) found(worker, seed, reply);
  }

  void found(Worker& worker, uint64_t seed, const Reply& reply) {
    Finding finding;
    finding.seed = seed;
    if (known_error(reply.verdict.failures[0])) return;
    finding.reduced.failure = reply.verdict.failures[0];
    auto program = Program::parse(reply.text);
    if (program.ok() && !o_.fault.empty() && fails_anyway(worker, *program, reply)) return;
    if (program.ok()) {
      finding.reduced.program = *program;
      if (o_.reduce_seconds > 0) finding.reduced = smaller(worker, *program, reply);
    } else {
      finding.reduced.failure.message += " (" + program.status().message() + ")";
    }
    finding.signature = signature(finding.reduced);
    const std::lock_guard lock(mutex_);
    for (Finding& known : report_.findings) {
      if (known.signature != finding.signature) continue;
      ++known.times;
      return;
    }
    if (o_.on_finding) o_.on_finding(finding);
    report_.findings.push_back(std::move(finding));
    if (o_.stop_at_first) stopped_ = true;
  }

  /// Without the injected bug as well.
  bool fails_anyway(Worker& worker, const Program& program, const Reply& reply) const {
    Request request;
    request.text = program.str();
    request.configs = {reply.verdict.failures[0].config};
    if (request.configs[0].device == "host") return true;
    return !worker.ask(request).verdict.failures.empty();
  }

  /// Whether an error with this message was found before: it need not be reduced again.
  bool known_error(const Failure& failure) {
    if (failure.kind != Failure::Kind::Error) return false;
    Reduced whole;
    whole.failure = failure;
    const std::string error = signature(whole);
    const std::lock_guard lock(mutex_);
    for (Finding& known : report_.findings) {
      if (known.signature != error) continue;
      ++known.times;
      return true;
    }
    return false;
  }

  Reduced smaller(Worker& worker, const Program& program, const Reply& reply) const {
    const Fails fails = [&](const Program& p, const Config& c) -> std::optional<Failure> {
      Request request;
      request.text = p.str();
      request.configs = {c};
      request.fault = o_.fault;
      const Reply again = worker.ask(request);
      if (again.verdict.failures.empty()) return std::nullopt;
      return again.verdict.failures[0];
    };
    // A process that ended does not say with which configuration.
    Failure failure = reply.verdict.failures[0];
    const bool silent = failure.kind == Failure::Kind::Crash || failure.kind == Failure::Kind::Hang;
    std::vector<Config> configs{failure.config};
    if (silent) configs = reply.configs;
    for (const Config& c : configs) {
      const auto again = fails(program, c);
      if (!again || again->kind != failure.kind) continue;
      return reduce(program, *again, fails, o_.reduce_seconds);
    }
    failure.message += "; its text alone does not show it";
    return {program, failure, 0};
  }

  const RunOptions& o_;
  std::atomic<uint64_t> next_;
  std::atomic<bool> stopped_ = false;
  Clock::time_point start_;
  Clock::time_point said_ = start_;
  std::mutex mutex_;
  RunReport report_;
};

void section(std::string& out, const std::map<std::string, int64_t>& counts,
             const std::string& prefix, const std::string& title) {
  std::string line;
  for (const auto& [what, n] : counts) {
    if (what.rfind(prefix, 0) != 0) continue;
    line += (line.empty() ? "" : ", ") + what.substr(prefix.size()) + " " + std::to_string(n);
  }
  if (!line.empty()) out += title + ": " + line + "\n";
}

}  // namespace

RunReport run(const RunOptions& options) {
  return Run(options).run();
}

std::string coverage(const RunReport& report) {
  std::string out;
  const auto& counts = report.counts;
  section(out, counts, "op ", "operators");
  section(out, counts, "dtype ", "dtypes");
  section(out, counts, "rank ", "ranks");
  section(out, counts, "on ", "run on");
  section(out, counts, "without ", "compiled without");
  section(out, counts, "pass ", "passes that changed a graph");
  section(out, counts, "schedule ", "schedules");
  section(out, counts, "bodies ", "bodies");
  section(out, counts, "refused", "refused");
  section(out, counts, "ONNX Runtime", "ONNX Runtime");
  section(out, counts, "no program", "no program");
  std::string missing;
  for (const Source& s : sources()) {
    const bool is_operator = ops::find("", s.name) != nullptr;
    if (is_operator && counts.count("op " + s.name) == 0) missing += " " + s.name;
  }
  if (!missing.empty()) out += "operators that were never made:" + missing + "\n";
  const auto number = [&](const char* what) {
    const auto at = counts.find(what);
    return at == counts.end() ? int64_t{0} : at->second;
  };
  out += "elements compared: " + std::to_string(number("elements")) + ", by their spread " +
         std::to_string(number("analysed")) + ", left out because nothing is wrong there " +
         std::to_string(number("skipped")) + "\n";
  return out;
}

}  // namespace reprise::fuzz
