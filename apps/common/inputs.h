// The inputs of a run: from files, or random for those that are not given.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/base/tensor.h"
#include "runtime/plan/plan.h"
#include "runtime/session/session.h"

namespace reprise::app {

using Dims = std::vector<int64_t>;

/// Reads `.npy`, or `.pb` (an ONNX TensorProto).
Result<HostTensor> read_tensor(const std::string& path);

/// Reads a value of the type that the input has (apps/common/values.h).
Result<HostTensor> read_input(const plan::Interface& io, const std::string& name,
                              const std::string& path);

/// Parses "NAME=FILE".
Result<std::pair<std::string, std::string>> parse_assignment(const std::string& text);

/// Named tensors in the order of the interface.
struct InputSet {
  std::vector<std::string> names;
  std::vector<HostTensor> tensors;
  std::vector<std::string> random;  // names of the inputs that were not given
  std::vector<Binding> bindings() const;
  /// Adds to an InvalidInput error of a run which inputs were random: they may have caused it.
  Status explain(Status error) const;
};

/// Runs the session; errors are explained.
Result<std::vector<HostTensor>> run_session(Session& session, const InputSet& inputs,
                                            RunStats* stats = nullptr);
/// The same with the initial values of the states; their next values follow the outputs.
Result<std::vector<HostTensor>> run_from_start(Session& session, const InputSet& inputs);

struct InputSources {
  std::map<std::string, HostTensor> given;
  std::map<std::string, Dims> shapes;  // of random inputs
  uint64_t seed = 0;
};

/// Generates the inputs that are not given. Dynamic dims follow from given inputs and shapes;
/// otherwise they are 1, and `notes` gets a note. Floats are uniform in [-1, 1), integers are 0
/// or 1. The values depend only on the seed, on every platform. An unknown name is an InvalidInput
/// error that lists the model's inputs.
Result<InputSet> make_inputs(const plan::Interface& io, const InputSources& sources,
                             std::vector<std::string>& notes);

/// Reads input_N.pb of a test data folder. Inputs are matched by the names stored in the files, or
/// by position, of which `notes` gets a note if the names differ. A file that is for no input, or
/// for the input of another file, is an error.
Result<std::map<std::string, HostTensor>> read_input_folder(const std::string& dir,
                                                            const plan::Interface& io,
                                                            std::vector<std::string>& notes);
/// An error that names the file that is missing in the folder, unless all inputs are given.
Status check_complete(const std::string& dir, const plan::Interface& io,
                      const std::map<std::string, HostTensor>& given);
/// Whether a test data folder has any input_N.pb.
bool has_input_files(const std::string& dir);
/// Reads output_N.pb of a test data folder, in order: values of the types of `outputs`.
Result<std::vector<HostTensor>> read_output_folder(const std::string& dir,
                                                   const std::vector<plan::Slot>& outputs);

}  // namespace reprise::app
