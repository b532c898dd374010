// Options of a compilation.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/graph/image_option.h"
#include "codegen/graph/output_options.h"
#include "codegen/graph/size_options.h"
#include "codegen/lower/group/fusion_decision.h"
#include "codegen/lower/group/schedule_candidate.h"
#include "codegen/passes/pass.h"
#include "codegen/target/target.h"
#include "runtime/base/threads.h"
#include "runtime/facts/device_facts.h"

namespace reprise::kernel {
struct Kernel;
}  // namespace reprise::kernel

namespace reprise {

struct CompileHooks;  // compile_hooks.h

/// A launch whose kernel has several candidates for its schedule.
struct ScheduleSite {
  std::string variant;
  std::string kernel;                                // its name, before it is made unique
  size_t number = 0;                                 // of its group, in the order of fusion
  std::string key;                                   // the same for equal kernels, in any model
  std::vector<lower::ScheduleCandidate> candidates;  // cheapest first
};

/// An input that sessions keep from run to run, and the output that is its next value. Both have
/// the same dtype and the same fixed shape, unless the state grows. An initialiser of the model may
/// take the place of an input; it is the initial value then, as it is where the input has an
/// initialiser.
struct StateOption {
  std::string input, output;
  std::optional<HostTensor> initial = std::nullopt;  // by default zeros; the importer sets it
  int32_t axis =
      -1;  // along which it grows; -1: its shape is fixed. Set for CompileOptions::grow_states
};

/// An input that runs may leave out. It has the value of the model then.
struct OptionalInput {
  std::string name;
  std::optional<HostTensor> value = std::nullopt;  // the importer sets it
};

/// Parses "INPUT=OUTPUT", as --state takes it, several times. Code::Usage says what is wrong.
Result<std::vector<StateOption>> parse_states(const std::vector<std::string>& texts);

/// Parses "PASS.OPTION=NUMBER" to CompileOptions::pass_options. Code::Usage says what is wrong.
Result<std::map<std::string, int64_t, std::less<>>> parse_pass_options(
    const std::vector<std::string>& texts);

struct CompileOptions {
  /// "vulkan" or variants of it, "cuda:sm_90" and so on (codegen/compile/targets.h). Empty or
  /// "host" compiles for the host alone.
  std::vector<std::string> targets{"vulkan"};
  /// Variants that the application adds. `targets` may name them; they precede all others.
  std::vector<lower::Target> added_targets;
  /// If set, only the variant that such a device uses is compiled, and "cuda" names its
  /// architecture.
  std::optional<DeviceFacts> device;
  std::map<std::string, std::vector<int64_t>> shapes;  // fixes dynamic inputs
  /// Inputs to which the model gives values and that runs may give or leave out. Other inputs with
  /// values are constants.
  std::vector<OptionalInput> optional_inputs;
  /// The elements of small inputs of integers (onnx::kMostValues) that every run has. They may
  /// decide ranks; a run with others is refused.
  InputValues values;
  /// Limits the sizes of dynamic dims; a run with another size is refused.
  SizeRanges ranges;
  /// Plans for some sizes, which sessions choose in each run (docs/plans.md).
  PlanChoice plans;
  std::vector<StateOption> states;
  /// Which inputs become states that grow (codegen/compile/growing_states.h): "none", "auto", or
  /// patterns of names.
  std::string grow_states = "none";
  std::vector<ImageOption> images;           // inputs and outputs that are images
  std::vector<LastOption> last;              // outputs of which the last position is wanted
  std::optional<SampleOption> sample;        // from which output tokens are sampled
  std::vector<std::string> disabled_passes;  // unknown names are Code::Usage
  /// The dtype in memory of large weights and of tensors between kernels, where that is safe
  /// (codegen/passes/autocast.h): F32, F16 or BF16.
  DType precision = DType::F32;
  /// Numeric options of passes, by "pass.option" (codegen/passes/pipeline.cpp); unknown names are
  /// Code::Usage.
  std::map<std::string, int64_t, std::less<>> pass_options;
  std::vector<passes::Pass> added_passes;  // passes that the application adds
  /// If set, fusion makes only these joins. CompileReport::decisions lists joins in this form.
  std::optional<std::vector<lower::FusionDecision>> fusion_decisions;
  bool fullgraph = false;
  /// Adds to each kernel a probe with its expected results (codegen/probes/probes.h), for `reprise
  /// check` and for sessions that check their kernels. Worth its time for packages that are kept.
  bool probes = false;
  bool verify_passes = false;  // verify the graph after each pass; Debug builds always do
  // NVRTC compiles CUDA text (codegen/nvrtc/).
  std::string nvrtc;  // the library's path; empty: search for it
  /// DeviceInfo::driver_version of the CUDA device that will load the package. A driver loads no
  /// image that is newer than itself. 0: unknown.
  uint32_t cuda_driver = 0;
  bool cuda_ptx = true;  // add PTX to cubins, if `targets` names no PTX and `device` is not set
  /// Packages keep the CUDA text of their kernels with the images. It is also written to the cache
  /// folder as "HASH.cu", with package::hash_bytes of the image in hexadecimal digits, so that
  /// debuggers and profilers find it by the image.
  bool keep_source = false;
  Threads threads;  // for compiling
  /// The folder and the most bytes of the cache of compiled kernels. Empty: there is no cache.
  std::string cuda_cache_dir;
  uint64_t cuda_cache_bytes = uint64_t{512} << 20;
  // Calls of `log` and `progress` never overlap, but any of the threads may make them.
  /// Called with a warning, such as about a damaged cache.
  std::function<void(const std::string&)> log;
  /// Called after each pass, each group that is lowered, and each kernel that NVRTC has compiled.
  /// `what` is a pass, "lowering" or "kernels"; `total` is 0 if the number of parts is unknown. If
  /// it returns false, compiling ends with Code::Cancelled.
  std::function<bool(const std::string& what, size_t done, size_t total)> progress;
  /// Returns the index of the candidate to use. Not set: always 0.
  std::function<size_t(const ScheduleSite&)> choose_schedule;
  /// Called after each pass with its name and the graph; for --dump.
  std::function<void(const std::string& pass, const graph::Graph& g)> on_pass;
  /// Called with each lowered kernel: variant name, kernel IR text, SPIR-V words (none for CUDA),
  /// CUDA text. Variants that differ only in the architecture share one call, with the first name.
  std::function<void(const std::string& variant, const std::string& kernel, const std::string& ir,
                     const std::vector<uint32_t>& spirv, const std::string& cuda)>
      on_kernel;
  /// Called with each kernel as it is emitted; its name is that of the plan's KernelCode.
  std::function<void(const std::string& variant, const kernel::Kernel& kernel)> on_kernel_ir;
  std::shared_ptr<const CompileHooks> hooks;  // of tests; null elsewhere
};

}  // namespace reprise
