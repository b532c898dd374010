#include <unistd.h>

#include <iostream>

#include "tests/fuzz/lib/worker.h"

using namespace reprise;

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--serve") return fuzz::serve(0, 3);
  uint64_t from = std::stoull(argv[1]), to = std::stoull(argv[2]);
  fuzz::Worker w({argv[0], "--serve"}, 60);
  std::map<std::string, int64_t> counts;
  for (uint64_t s = from; s < to; ++s) {
    fuzz::Request r;
    r.seed = s;
    fuzz::Reply reply = w.ask(r);
    for (auto& [k, n] : reply.verdict.counts) counts[k] += n;
    if (argc > 3) std::cout << reply.text << "\n";
    for (auto& f : reply.verdict.failures) {
      std::cout << "seed " << s << " " << fuzz::kind_name(f.kind) << " " << f.config.str() << ": " << f.message << std::endl;
    }
  }
  for (auto& [k, n] : counts) std::cout << k << " " << n << "\n";
}
