// Models for the inputs at hand. Most are compiled for all sizes; what a model cannot do for all of
// them, the sizes of the inputs may decide, and the values of small inputs of integers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/reprise/command.h"
#include "codegen/onnx/importer.h"

namespace reprise::app {

/// The inputs of a run by name, read before the model is compiled. Sequences, optionals and maps
/// are left out.
using GivenInputs = std::map<std::string, HostTensor>;

/// The inputs that collect_inputs() takes from files. What cannot be read is left out, because
/// collect_inputs() reports it.
GivenInputs given_inputs(const std::string& model, const CommonOptions& common,
                         const InputOptions& options, bool use_test_data);
/// The same for a folder of test data.
GivenInputs given_in_folder(const std::string& folder, const std::string& model);

class InputPlans {
 public:
  struct Loaded {
    Model model;
    std::unique_ptr<Session> session;  // null if Load makes none
    CommonOptions options;             // with which the model was compiled
  };
  using Load = std::function<Result<Loaded>(const CommonOptions& options)>;
  using Use = std::function<Status(Loaded& loaded)>;

  /// `common` must outlive the object.
  InputPlans(std::string path, const CommonOptions& common, Load load)
      : path_(std::move(path)), common_(common), load_(std::move(load)) {}
  /// Loads the model for a device, which must outlive the object, and makes a session.
  InputPlans(const std::string& path, const CommonOptions& common, OpenedDevice& device);

  /// Calls `use` with the loaded model. If the model is refused, or if `use` returns InvalidInput
  /// and the model is for certain sizes only, compiles it for these inputs and calls `use` again.
  /// Returns the first error if that does not help.
  Status run(const GivenInputs& given, const Use& use);

 private:
  Result<std::vector<std::string>> optional_among(const GivenInputs& given);
  bool add_facts(const GivenInputs& given, bool with_values, InputFacts& facts) const;
  Result<Loaded> load(const InputFacts& facts);
  Status use_general(const std::vector<std::string>& optional, const Use& use, bool& may_help);

  std::string path_;
  const CommonOptions& common_;
  Load load_;
  std::optional<std::vector<onnx::DeclaredInput>> declared_;
  /// The model for all sizes in which runs give these optional inputs.
  std::vector<std::string> general_for_;
  std::optional<Result<Loaded>> general_;
};

}  // namespace reprise::app
