// Cases in the layout of the ONNX backend suite, each run so that its failure harms no other.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/reprise/command.h"

namespace reprise::app {

struct CaseResult {
  std::string name;
  std::string status;  // pass, fail, unsupported, error
  std::string reason;
  double max_error = 0;
  int64_t device_nodes = 0, host_nodes = 0;
  bool device_failed = false;  // the device must not be used again
};

/// Paths of the folders below `dir` that hold a model.onnx, sorted.
Result<std::vector<std::string>> find_cases(const std::string& dir, const std::string& filter);

/// Runs every test data set of one case. Never fails: what went wrong is in the result.
CaseResult run_case(const std::string& dir, const std::string& name, OpenedDevice& device,
                    const CommonOptions& common);

/// Runs cases in worker processes: a crash or time-out of one is its own result. `done` is called
/// in this process as results arrive, in any order.
struct PoolOptions {
  int jobs = 1;
  double timeout_s = 600;
};
/// `work` is called in a worker with an index below `count`, after `start` was called there once.
Status run_pool(size_t count, const PoolOptions& options, const std::function<Status()>& start,
                const std::function<std::string(size_t)>& work,
                const std::function<void(size_t, const std::string&)>& done,
                const std::function<void(size_t, const std::string&)>& lost);

}  // namespace reprise::app
