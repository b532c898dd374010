// Inputs of a run: from files, or random where none is given.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/base/tensor.h"
#include "runtime/plan/plan.h"
#include "runtime/session.h"

namespace reprise::app {

using Dims = std::vector<int64_t>;

/// Reads `.npy`, or `.pb` (an ONNX TensorProto).
Result<HostTensor> read_tensor(const std::string& path);

/// "NAME=1x3x224x224"; the error names the option text.
Result<std::pair<std::string, Dims>> parse_shape(const std::string& text);
/// "NAME=FILE".
Result<std::pair<std::string, std::string>> parse_assignment(const std::string& text);

/// Named tensors in the order of the interface.
struct InputSet {
  std::vector<std::string> names;
  std::vector<HostTensor> tensors;
  std::vector<Binding> bindings() const;
};

struct InputSources {
  std::map<std::string, HostTensor> given;
  std::map<std::string, Dims> shapes;  // of inputs that are made up
  uint64_t seed = 0;
};

/// Completes what is given: dynamic dims come from given inputs and shapes, else are 1 (with a note
/// in `notes`); values are uniform in [-1, 1) for floats, 0 or 1 for integers. Deterministic for a
/// seed on every platform. Unknown names are InvalidInput errors that list the model's inputs.
Result<InputSet> make_inputs(const plan::Interface& io, const InputSources& sources,
                             std::vector<std::string>& notes);

/// input_N.pb of a test data folder, by position or by the names stored in them.
Result<std::map<std::string, HostTensor>> read_input_folder(const std::string& dir,
                                                            const plan::Interface& io);
/// output_N.pb in order.
Result<std::vector<HostTensor>> read_output_folder(const std::string& dir);

}  // namespace reprise::app
