// One program on everything that can run it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codegen/compile/compiler.h"
#include "runtime/device/backend.h"
#include "tests/fuzz/lib/onnxruntime.h"
#include "tests/fuzz/lib/program.h"
#include "tests/fuzz/lib/reference.h"

namespace reprise::fuzz {

/// A way to compile and run a program. Its text, "device=vulkan:0 disable=cse schedule=3", is what
/// the command line takes.
struct Config {
  /// "host", "core", "interpreter", "cuda-text", "onnxruntime", or of the registry.
  std::string device = "host";
  std::string variant;                // empty: the one that the device takes
  std::vector<std::string> disabled;  // passes
  uint64_t schedule = 0;              // 0: the first of each launch; else a seed of choices
  bool isolate = false;
  bool replay = true;
  bool plans = false;  // with plans for the sizes of the runs
  bool built = false;  // by calls of the builder (codegen/builder)
  /// Vulkan devices without buffer addresses: 0: no; 1: descriptors; 2: without update-after-bind.
  int descriptors = 0;
  DType precision = DType::F32;

  static Config on(std::string device) {
    Config c;
    c.device = std::move(device);
    return c;
  }
  std::string str() const;
  static Result<Config> parse(const std::string& text);
};

/// Something that is wrong with a program.
struct Failure {
  enum class Kind : uint8_t { Wrong, Error, Unstable, Crash, Hang, Invalid } kind = Kind::Wrong;
  Config config;
  std::string message;
};
std::string kind_name(Failure::Kind kind);

/// What a check has looked at, and what it found.
struct Verdict {
  std::vector<Failure> failures;
  std::map<std::string, int64_t>
      counts;  // "elements", "skipped", "op Add float32", "pass cse", ...
  void count(const std::string& what, int64_t n = 1) { counts[what] += n; }
};

/// Alters what is compiled, as a fault of the compiler would: injected.h.
struct Fault {
  std::function<void(const std::string& pass, graph::Graph& g)> graph;  // after a pass
  std::function<void(package::Package& p)> package;                     // before it is loaded
  std::function<void(kernel::Kernel& k)> kernel;                        // before it is interpreted
};

struct CheckOptions {
  std::vector<Config> configs;  // empty: a choice by the program's seed
  const Fault* fault = nullptr;
  bool cuda_text = false;  // among the choice
  bool devices = true;
  bool onnxruntime = false;
};

/// Opens each Vulkan device once.
class Checker {
 public:
  Checker();
  Verdict check(const Program& p, const CheckOptions& options = {});
  /// How the program is run: what the options say, or by its seed.
  std::vector<Config> choose(const Program& p, const CheckOptions& options) const;

 private:
  struct Case;
  Status run(Case& c, const Config& config, Verdict& v);
  Status run_session(Case& c, const Config& config, Verdict& v);
  Status run_core(Case& c, const Config& config, Verdict& v);
  Status run_onnxruntime(Case& c, const Config& config, Verdict& v);
  Status run_kernels(Case& c, const Config& config, Verdict& v);
  Result<std::shared_ptr<Device>> open(const Config& config);

  std::vector<std::string> devices_;
  std::map<std::string, std::shared_ptr<Device>> open_;
  OnnxRuntime onnxruntime_;
};

}  // namespace reprise::fuzz
