// Programs are checked in a process of their own, so that crashes and hangs are findings like any
// other. The process is this program once more, told to serve; requests and replies pass through
// pipes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/fuzz/lib/check.h"
#include "tests/fuzz/lib/generator.h"
#include "tests/fuzz/lib/process.h"

namespace reprise::fuzz {

struct Request {
  std::optional<uint64_t> seed;  // generate, else
  std::string text;              // this program
  GeneratorOptions generator;
  std::vector<Config> configs;
  bool cuda_text = false;
  bool devices = true;
  bool onnxruntime = false;
  std::string fault;   // a injected bug's name
  bool trace = false;  // say each node that is tried, so that a crash among them has a text
};

struct Reply {
  std::string text;             // the program; empty where generating it failed
  std::vector<Config> configs;  // what it is run with
  Verdict verdict;
};

/// Answers requests until its input ends. For the served process.
int serve(int in, int out);

class Worker {
 public:
  /// The program that serves, with the arguments that tell it to.
  explicit Worker(std::vector<std::string> command, double seconds = 60)
      : process_(std::move(command), seconds) {}
  /// A crash or a hang is a failure in the reply, and the next request begins another process.
  Reply ask(const Request& request);

 private:
  Process process_;
};

}  // namespace reprise::fuzz
