// The errors that a correct device may make, put into what the nodes of a graph read and give.
#pragma once

#include <vector>

#include "runtime/host/host_kernels.h"
#include "tests/fuzz/lib/evaluation.h"
#include "tests/fuzz/lib/mover.h"

namespace reprise::fuzz {

/// The errors of one evaluation, of its bodies too.
class ErrorModel {
 public:
  ErrorModel(uint64_t seed, DType memory);

  /// Replaces operands by some that `own` holds. `exact`: the values without errors; null where
  /// there are none.
  Status change_operands(const graph::Node& n, const TensorMap* exact,
                         std::vector<const HostTensor*>& inputs, Tensors& own);
  Status change_results(const graph::Node& n, host::Kernel kernel, host::Call& call,
                        std::vector<const HostTensor*>& inputs, Tensors& results);

 private:
  Status pole(const graph::Node& n, const TensorMap* exact_values,
              std::vector<const HostTensor*>& inputs, HostTensor& divisor);
  Status keep_tiny(const graph::Node& n, const std::vector<const HostTensor*>& inputs,
                   HostTensor& result) const;
  Status put_errors(const graph::Node& n, host::Kernel kernel, host::Call& call,
                    std::vector<const HostTensor*>& inputs, Tensors& results);
  struct OperatorError {
    double relative = 0, absolute = 0;  // of a result
    double of_terms = 0;                // relative, of each element that is summed
  };
  static OperatorError error_of(const graph::Node& n, DType t, DType memory);
  Status state_errors(const std::vector<const HostTensor*>& inputs, HostTensor& projections);
  Status step_errors(host::Kernel kernel, host::Call& call,
                     const std::vector<const HostTensor*>& inputs, Tensors& results,
                     const OperatorError& e);
  Status cancelled(const HostTensor& exact, HostTensor& moved);
  Status ties(const host::Call& call, const std::vector<const HostTensor*>& inputs,
              Tensors& results);
  void turns(const HostTensor& angles, bool has_poles, HostTensor& results);
  Status overflow(host::Kernel kernel, host::Call& call,
                  const std::vector<const HostTensor*>& inputs, Tensors& results);
  template <typename F>
  Status leaves_range(host::Kernel kernel, host::Call& call,
                      const std::vector<const HostTensor*>& inputs, Tensors& results,
                      const F& bound);

  DType memory_;
  Mover mover_;
  // What sort of evaluation it is, each drawn by itself.
  bool poles_;       // a divisor that errors move by as much as itself is 0 or NaN
  bool rounds_;      // else only numbers below the normal ones and the signs of zeros change
  bool keeps_tiny_;  // what becomes 0 only in fp32 is the smallest number instead
};

}  // namespace reprise::fuzz
