// Finds the smallest part of a model that still differs, as a model of its own.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/bisect/trial.h"
#include "codegen/onnx/exporter.h"

namespace reprise::app {

/// A part of the model that gives a wrong result for right inputs.
struct Reduced {
  std::string onnx;                // the contents of the file
  Sample sample;                   // the graph that the file imports to
  std::vector<std::string> nodes;  // of the model, in order
  std::vector<std::string> operators;
  Trial trial;
};

struct ReduceOptions {
  double seconds = 120;  // after this time no further part is tried
  std::function<void(const std::string&)> progress;
};

/// `values` are those of the imported graph. `suspects` names the nodes to begin with. Larger parts
/// around them are tried, up to the whole model, until one differs. Returns nothing if none does.
Result<std::optional<Reduced>> reduce(const graph::Graph& model, const Values& values,
                                      const std::vector<std::string>& suspects,
                                      const Setting& setting, const ReduceOptions& options);

/// Writes model.onnx, test_data_set_0/input_N.pb and output_N.pb, in the layout of the ONNX suite.
Status write_case(const Reduced& reduced, const std::string& dir);

}  // namespace reprise::app
