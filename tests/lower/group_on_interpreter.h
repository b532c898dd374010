// The kernel of a model that is one group, by each candidate of a schedule, on the interpreter and
// compared with the host.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/lower/lower.h"
#include "runtime/base/tensor.h"

namespace reprise::test {

class GroupOnInterpreter {
 public:
  /// The elements of inputs are small whole numbers of type `t`, of which sums are exact.
  GroupOnInterpreter(const std::string& text, DType t);

  /// Runs each candidate whose name begins so, in the form that is emitted for the target. Returns
  /// how many there were. `see` gets their kernels.
  size_t run(const lower::Target& target, const std::string& schedule,
             const std::function<void(const lower::Lowered&)>& see);

 private:
  void run_on_host();
  void run_on_interpreter(const lower::Lowered& l, const std::string& schedule);

  std::unique_ptr<graph::Graph> g_;
  std::vector<HostTensor> inputs_;
  HostTensor expected_;
};

}  // namespace reprise::test
