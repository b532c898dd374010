// Graph passes. Each has its own file, and pipeline.cpp lists them in order. A pass can be timed,
// dumped, verified afterwards and, unless it is required, switched off by name.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/passes/autocast.h"
#include "codegen/passes/grow_states.h"

namespace reprise::passes {

class PassContext;

/// A numeric option of a pass.
struct PassOption {
  std::string_view name;
  int64_t fallback = 0;
  std::string_view what;
};

/// A row of the pipeline.
struct Pass {
  std::string_view name;
  /// Null for a decision of fusion or lowering, which has a row so that it can be switched off by
  /// its name.
  Status (*run)(PassContext&) = nullptr;
  bool required = false;  // cannot be disabled: lowering relies on it, or an option controls it
  bool core = false;      // the graph is in core form afterwards
  std::string_view what;
  std::span<const PassOption> options = {};
  /// The pass does nothing if this option has its fallback. Empty: there is no such option.
  std::string_view enabled_by = {};
  bool for_low_precision = false;  // the pass does nothing if PassOptions::precision is F32
  /// For a pass that is not in the table: the row after which it runs.
  std::string_view after = {};
};

/// The number of kernels into which fusion, which is above the passes, divides a graph.
using CountKernels = std::function<Result<int64_t>(const graph::Graph&)>;

/// The options of the passes in one compilation.
struct PassOptions {
  std::vector<std::string> disabled;                    // names of passes
  std::map<std::string, int64_t, std::less<>> numbers;  // by "pass.option"
  std::vector<Pass> added;                              // passes of the application
  DType precision = DType::F32;                         // of tensors in memory: F32, F16 or BF16
  CountKernels count_kernels = {};                      // none: passes do all that is correct
  std::vector<GrowingState> growing = {};               // states that grow

  bool enabled(const Pass& pass) const;
  bool enabled(std::string_view pass) const;
  /// The value that is given, or the fallback that the pass declares.
  int64_t number(const Pass& pass, std::string_view option) const;
  int64_t number(std::string_view pass, std::string_view option) const;
  /// Checks that all names are those of passes and options, and that the disabled passes may be
  /// switched off. Errors are Code::Usage.
  Status check() const;
};

/// What passes report in addition to changing the graph.
struct PassReport {
  AutocastReport autocast;
};

/// The argument of a pass.
class PassContext {
 public:
  PassContext(graph::Graph& graph, const Pass& pass, const PassOptions& options, PassReport& report)
      : graph_(graph), pass_(pass), options_(options), report_(report) {}
  graph::Graph& graph() { return graph_; }
  PassReport& report() { return report_; }
  /// The value of an option that the pass's row declares.
  int64_t option(std::string_view name) const { return options_.number(pass_, name); }
  int64_t option(std::string_view pass, std::string_view name) const {
    return options_.number(pass, name);
  }
  const CountKernels& count_kernels() const { return options_.count_kernels; }
  DType precision() const { return options_.precision; }
  const std::vector<GrowingState>& growing() const { return options_.growing; }

 private:
  graph::Graph& graph_;
  const Pass& pass_;
  const PassOptions& options_;
  PassReport& report_;
};

/// The rows of the table, in order.
std::span<const Pass> pipeline();
/// The same, with the passes that the options add.
std::vector<Pass> pipeline(const PassOptions& options);
/// The names of the passes that can be switched off, in order.
std::vector<std::string> optional_passes(const PassOptions& options = {});
Status run(const Pass& pass, graph::Graph& g, const PassOptions& options = {},
           PassReport* report = nullptr);

// Each is implemented in the file with its name.
Status quantized_weights(graph::Graph& g);  // 8-bit weights -> core DequantizeLinear
Status decompose(graph::Graph& g);          // ONNX forms -> core form (codegen/graph/semantics.md)
Status shape_values(graph::Graph& g);       // computed shape arithmetic -> constants and ShapeValue
Status fold_constants(
    graph::Graph& g);  // nodes with constant inputs -> constants, by the host kernels
/// Gives states that grow the form in which runs append rows in place.
Status grow_states(PassContext& context);
Status canonicalize(graph::Graph& g);     // removes no-op views and casts, merges others
Status sink_slices(graph::Graph& g);      // one position of an axis: computes nothing else
Status fold_batch_norm(graph::Graph& g);  // per-channel scales after Conv and MatMul -> weights
Status layout(graph::Graph& g);           // chooses NCHW or channels last
Status cse(graph::Graph& g);              // equal nodes over equal inputs -> one
/// Cuts weights that are larger than the buffers of the device. Option `bytes`: the limit.
Status split_weights(PassContext& context);
/// Merges products of one operand by several weights, if that saves kernels. Option `bytes`: the
/// size of the largest merged weight.
Status merge_products(PassContext& context);
Status dce(graph::Graph& g);            // removes nodes without users
Status autocast(PassContext& context);  // stores values in 16 bits: see autocast.h

/// Whether the host cannot run the node, but only its decomposition.
bool lacks_host_kernel(const graph::Node& n);
/// Decomposes the nodes without a host kernel.
Status decompose_for_host(graph::Graph& g);

}  // namespace reprise::passes
