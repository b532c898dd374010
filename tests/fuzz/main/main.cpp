#include <unistd.h>

#include <iostream>

#include "tests/fuzz/lib/reduce.h"
#include "tests/fuzz/lib/worker.h"

using namespace reprise;

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--serve") return fuzz::serve(0, 3);
  uint64_t from = std::stoull(argv[1]), to = std::stoull(argv[2]);
  double seconds = argc > 3 ? std::stod(argv[3]) : 0;
  fuzz::Worker w({argv[0], "--serve"}, 60);
  std::map<std::string, int64_t> counts, seen;
  for (uint64_t s = from; s < to; ++s) {
    fuzz::Request r;
    r.seed = s;
    fuzz::Reply reply = w.ask(r);
    if (reply.text.empty() && !reply.verdict.failures.empty()) { r.trace = true; reply = w.ask(r); }
    for (auto& [k, n] : reply.verdict.counts) counts[k] += n;
    for (auto& f : reply.verdict.failures) {
      std::cout << "seed " << s << " " << fuzz::kind_name(f.kind) << " " << f.config.str() << ": " << f.message << std::endl;
    }
    if (seconds == 0 || reply.verdict.failures.empty() || reply.text.empty()) continue;
    auto p = fuzz::Program::parse(reply.text);
    if (!p.ok()) { std::cout << p.status().message() << "\n" << reply.text << "\n"; continue; }
    fuzz::Fails fails = [&](const fuzz::Program& q, const fuzz::Config& c) -> std::optional<fuzz::Failure> {
      fuzz::Request x;
      x.text = q.str();
      if (c.device != "host") x.configs = {c};
      auto a = w.ask(x);
      if (a.verdict.failures.empty()) return {};
      return a.verdict.failures[0];
    };
    auto red = fuzz::reduce(*p, reply.verdict.failures[0], fails, seconds);
    std::string sig = fuzz::signature(red);
    if (seen[sig]++ > 0) { std::cout << "  as before: " << sig << "\n"; continue; }
    std::cout << "=== " << sig << " (" << red.tries << " tries)\n" << red.program.str() << "config " << red.failure.config.str() << "\n" << red.failure.message << "\n" << std::endl;
  }
  for (auto& [k, n] : counts) std::cout << k << " " << n << "\n";
}
