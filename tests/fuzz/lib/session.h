// A run of the fuzzer: programs by consecutive seeds, in several processes, with what was found.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/fuzz/lib/reduce.h"
#include "tests/fuzz/lib/worker.h"

namespace reprise::fuzz {

struct Finding {
  uint64_t seed = 0;
  Reduced reduced;
  std::string signature;
  int64_t times = 1;
};

struct RunOptions {
  std::vector<std::string> worker;  // the command that serves
  uint64_t seed = 1;                // the first
  int64_t programs = 0;             // 0: until the time is over
  double seconds = 0;               // 0: until the programs are done
  unsigned jobs = 1;
  GeneratorOptions generator;
  int64_t cuda_every = 0;  // every so manieth program runs as CUDA text, too; 0: none
  bool devices = true;
  bool onnxruntime = false;     // programs run with it, too; python3 has the module
  std::vector<Config> configs;  // empty: a choice by each program's seed
  std::string fault;            // a injected bug
  bool stop_at_first = false;   // finding
  double reduce_seconds = 30;   // 0: findings stay as they are
  double time_limit = 60;       // of one program
  std::function<void(const Finding&)> on_finding;
  std::function<void(int64_t programs, size_t findings)> on_progress;  // about once a second
};

struct RunReport {
  int64_t programs = 0;
  std::vector<Finding> findings;          // one per signature
  std::map<std::string, int64_t> counts;  // Verdict::counts, summed
};

RunReport run(const RunOptions& options);
/// What was covered, for people; operators and dtypes that were not are named.
std::string coverage(const RunReport& report);

}  // namespace reprise::fuzz
