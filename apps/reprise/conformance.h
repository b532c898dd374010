// Runs cases in the layout of the ONNX backend suite, isolated from each other's failures.
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
  bool device_failed = false;  // the device cannot be used any more
};

/// The paths of the folders below `dir` that have a model.onnx, sorted.
Result<std::vector<std::string>> find_cases(const std::string& dir, const std::string& filter);

/// Runs every test data set of one case. Never fails: the result has the error.
CaseResult run_case(const std::string& dir, const std::string& name, OpenedDevice& device,
                    const CommonOptions& common);

struct PoolOptions {
  int jobs = 1;            // worker processes
  double timeout_s = 600;  // of one call of `work`
};
/// Calls `work` in worker processes, once for each index below `count`. Each worker first calls
/// `start`. This process calls `done` with each result as it arrives, in any order, and `lost` with
/// the reason if a worker crashed or timed out at an index.
Status run_pool(size_t count, const PoolOptions& options, const std::function<Status()>& start,
                const std::function<std::string(size_t)>& work,
                const std::function<void(size_t, const std::string&)>& done,
                const std::function<void(size_t, const std::string&)>& lost);

}  // namespace reprise::app
