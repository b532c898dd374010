// Graph passes: one file each; pipeline.cpp lists their order. Each is timed, can be dumped,
// verified after and (unless required) switched off by name.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/passes/autocast.h"

namespace reprise::passes {

class PassContext;

/// A number that a pass takes.
struct PassOption {
  std::string_view name;
  int64_t fallback = 0;
  std::string_view what;
};

/// A row of the pipeline.
struct Pass {
  std::string_view name;
  /// Null: a decision that fusion or lowering takes, which has a name so that it can be switched
  /// off.
  Status (*run)(PassContext&) = nullptr;
  bool required = false;  // --disable-pass refuses: lowering relies on it, or an option decides
  bool core = false;      // the graph is in core form afterwards
  std::string_view what;
  std::span<const PassOption> options = {};
  /// The option whose fallback means that the pass has nothing to do; empty: there is none.
  std::string_view asked_by = {};
  /// Of a pass that is no row of the table: the row that it follows.
  std::string_view after = {};
};

/// What is asked of the passes of one compilation.
struct PassOptions {
  std::vector<std::string> disabled;                    // names of passes
  std::map<std::string, int64_t, std::less<>> numbers;  // by "pass.option"
  std::vector<Pass> added;                              // passes of the application's own

  bool enabled(const Pass& pass) const;
  bool enabled(std::string_view pass) const;
  /// As it is given, or the pass's fallback.
  int64_t number(const Pass& pass, std::string_view option) const;
  int64_t number(std::string_view pass, std::string_view option) const;
  /// Whether all names are those of passes and options, and passes may be switched off.
  /// Code::Usage.
  Status check() const;
};

/// What passes have to say besides the graph.
struct PassReport {
  AutocastReport autocast;
};

/// What a pass works on.
class PassContext {
 public:
  PassContext(graph::Graph& graph, const Pass& pass, const PassOptions& options, PassReport& report)
      : graph_(graph), pass_(pass), options_(options), report_(report) {}
  graph::Graph& graph() { return graph_; }
  PassReport& report() { return report_; }
  /// An option that the pass's row declares.
  int64_t option(std::string_view name) const { return options_.number(pass_, name); }

 private:
  graph::Graph& graph_;
  const Pass& pass_;
  const PassOptions& options_;
  PassReport& report_;
};

/// The rows of the table, in order.
std::span<const Pass> pipeline();
/// The same with the passes that the options add.
std::vector<Pass> pipeline(const PassOptions& options);
/// The names of those that can be switched off, in order.
std::vector<std::string> optional_passes(const PassOptions& options = {});
Status run(const Pass& pass, graph::Graph& g, const PassOptions& options = {},
           PassReport* report = nullptr);

// Implemented in the file of the same name.
Status narrow_weights(graph::Graph& g);  // weights in 8 bits stay so: core DequantizeLinear
Status decompose(graph::Graph& g);       // ONNX forms -> core form (codegen/graph/semantics.md)
Status shape_values(graph::Graph& g);    // computed shape arithmetic -> constants and ShapeValue
Status fold_constants(
    graph::Graph& g);  // nodes with constant inputs -> constants, by the host kernels
Status canonicalize(graph::Graph& g);     // no-op and mergeable views and casts
Status fold_batch_norm(graph::Graph& g);  // per-channel scales after Conv and MatMul -> weights
Status layout(graph::Graph& g);           // channels last where conversions vanish
Status cse(graph::Graph& g);              // equal nodes over equal inputs -> one
Status dce(graph::Graph& g);              // nodes without users
Status autocast(PassContext& context);    // `precision` in memory: see autocast.h

/// Whether the host can only run what the node decomposes into.
bool lacks_host_kernel(const graph::Node& n);
/// Decomposes such nodes.
Status decompose_for_host(graph::Graph& g);

}  // namespace reprise::passes
