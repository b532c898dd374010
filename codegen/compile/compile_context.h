// The state of one compilation that its phases share. Every phase takes the context and adds to its
// report.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/compile/body_store.h"
#include "codegen/compile/device_bodies.h"
#include "codegen/compile/kernel_cache.h"
#include "codegen/compile/parsed_options.h"
#include "codegen/graph/graph.h"
#include "codegen/lower/fuse/index_tests.h"
#include "codegen/lower/lower_once.h"
#include "codegen/options/compile_options.h"
#include "codegen/options/compile_report.h"
#include "codegen/passes/pass.h"
#include "codegen/plan/weight_store.h"
#include "codegen/target/target.h"
#include "runtime/base/timing.h"

namespace reprise {

/// Names of pipeline rows that are switches of fusion and lowering (codegen/passes/pipeline.cpp).
inline constexpr std::string_view kFusionPass = "fusion", kAttentionPass = "attention",
                                  kAttentionPrice = "attention-price",
                                  kSplitProducts = "split-products",
                                  kEqualKernels = "equal-kernels", kBatchPass = "batch",
                                  kEarlyLaunches = "early-launches";

/// Milliseconds of the phases that run once for each variant.
struct VariantTimes {
  double lower = 0, legalize = 0, emit = 0, hazards = 0, probes = 0;
};

/// The forms in which plans of one graph read weights, by the name of the target.
using WeightForms = std::map<std::string, std::multimap<graph::ValueId, plan::Packing>>;

class CompileContext {
 public:
  /// The arguments must outlive the context. `parsed` is parse_options(o).
  CompileContext(graph::Graph& g, package::Package& p, const CompileOptions& o,
                 const ParsedOptions& parsed, CompileReport& r);
  /// The context of a body in `caller`'s model, with a report of its own. It shares what the
  /// package stores. The arguments must outlive the context. `o` differs from the caller's options
  /// in nothing that parse_options() reads.
  CompileContext(graph::Graph& body, CompileContext& caller, const CompileOptions& o,
                 CompileReport& r);

  bool disabled(std::string_view pass) const { return !passes.enabled(pass); }
  /// Adds a pass to the report, with the time since the previous one ended.
  void end_pass(std::string name);
  /// Adds the phases in `times`.
  void end_variants();
  /// Reports and logs a fault of the compiler from which it has recovered. `effect` precedes the
  /// message in the log.
  void report_fault(BrokenGroup fault, const std::string& effect = {});

  graph::Graph& model;
  size_t state_count = 0;  // the last inputs and outputs of the model are states (states.h)
  std::vector<passes::GrowingState> growing = {};  // those of them that grow
  const CompileOptions& options;
  const passes::PassOptions& passes;
  const std::vector<lower::Target>& targets;
  const uint64_t largest_weight;  // ParsedOptions::largest_weight
  CompileReport& report;
  /// A plan for some sizes has that of the model's plan, whose forms it prefers.
  std::shared_ptr<WeightForms> forms = std::make_shared<WeightForms>();

 private:
  /// What a package stores for all its plans.
  struct Stores {
    explicit Stores(package::Package& p) : weights(p), bodies(p, weights) {}
    VariantTimes times;
    WeightStore weights;
    BodyStore bodies;
    DeviceBodies device_bodies;
  };
  std::unique_ptr<Stores> own_;  // null for a body
  Clock::time_point last_end_ = Clock::now();

 public:
  VariantTimes& times;
  WeightStore& weights;
  BodyStore& bodies;
  DeviceBodies& device_bodies;
  mutable lower::IndexTests index_tests;  // of the model's groups; they change no result
  lower::LowerOnce lowerings;
  KernelCache kernels;
};

}  // namespace reprise
