// The smallest part of a model that still differs, as a model of its own.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/bisect/trial.h"
#include "codegen/onnx/exporter.h"

namespace reprise::app {

/// A part of the model that gives a wrong result given right inputs.
struct Reduced {
  std::string onnx;                // the file
  Sample sample;                   // what the file imports to
  std::vector<std::string> nodes;  // of the model, in order
  std::vector<std::string> operators;
  Trial trial;
};

struct ReduceOptions {
  double seconds = 120;  // after this long no further part is tried
  std::function<void(const std::string&)> progress;
};

/// `values` are those of the imported graph. `suspects` names nodes to begin with; parts around
/// them are tried until one differs, at last the whole model. Nothing if none does.
Result<std::optional<Reduced>> reduce(const graph::Graph& model, const Values& values,
                                      const std::vector<std::string>& suspects,
                                      const Setting& setting, const ReduceOptions& options);

/// model.onnx, test_data_set_0/input_N.pb and output_N.pb, as the ONNX suite lays out a case.
Status write_case(const Reduced& reduced, const std::string& dir);

}  // namespace reprise::app
