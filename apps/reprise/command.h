// What the commands of `reprise` share: options, output, and a model made ready to run.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/common/inputs.h"
#include "apps/common/model.h"
#include "apps/common/status.h"
#include "apps/reprise/table.h"

namespace reprise::app {

using Json = nlohmann::ordered_json;

/// Text goes to standard output; the JSON document to the file that was asked for. When that is
/// "-", text is dropped so that nothing else reaches standard output.
class Output {
 public:
  explicit Output(std::string json_path) : json_path_(std::move(json_path)) {}
  void text(const std::string& s) const;
  void table(const Table& t) const { text(t.str()); }
  Status json(const Json& document) const;

 private:
  std::string json_path_;
};

/// A number; NaN and infinities, which JSON lacks, as strings.
Json number(double v);

struct CommonOptions {
  std::string device = "auto";
  std::string mode = "reduce-overhead";
  std::string precision = "fp32";
  std::string nvrtc;
  double tune_seconds = 30;
  std::vector<std::string> shapes;
  std::vector<std::string> disabled_passes, pass_options;
  std::string json;
  bool fullgraph = false;
  bool keep_source = false;
  bool verbose = false;
  bool validation = false;
  bool warm_up = false;
  bool isolate_tensors = false;
  bool check_kernels = false;

  Result<std::map<std::string, Dims>> parsed_shapes() const;
  Result<CompileOptions> compile_options() const;
};

/// "a,b" -> a, b; empty items are left out.
std::vector<std::string> split_list(const std::string& text);

/// Which groups of common options a command has.
enum OptionGroups : unsigned { kJson = 1, kDevice = 2, kCompile = 4, kAllGroups = 7 };
void add_common(CLI::App& command, CommonOptions& options, unsigned groups = kAllGroups);

/// Options that say what to feed a model with.
struct InputOptions {
  std::vector<std::string> files;
  std::string data_dir;
  uint64_t seed = 0;
};
void add_inputs(CLI::App& command, InputOptions& options);
/// `use_test_data`: take test_data_set_0 beside the model when nothing else is asked for.
Result<InputSet> collect_inputs(const Model& model, const CommonOptions& common,
                                const InputOptions& options, bool use_test_data);
/// The same for the model at `path` before it is loaded.
Result<InputSet> collect_inputs(const plan::Interface& io, const std::string& path,
                                const CommonOptions& common, const InputOptions& options,
                                bool use_test_data);

/// Why the models cannot run on a device: no variant of a package fits, or ONNX would have to be
/// compiled for CUDA without NVRTC. Empty if they can.
std::string refusal(const DeviceInfo& device, const std::vector<std::string>& models,
                    const std::string& nvrtc);
/// Opens the device that was asked for; validation messages and logs go to standard error, and the
/// former make the program fail in the end (validation_errors()).
/// "auto" passes over devices that the models cannot run on.
Result<OpenedDevice> open_selected(const CommonOptions& options,
                                   const std::vector<std::string>& models);
/// The same with another reason to pass over devices.
Result<OpenedDevice> open_selected_if(const CommonOptions& options, const Refusal& refuses);
/// Messages of the validation layers so far.
int validation_errors();

/// Refuses options that only compiling can honour when the model is a package.
Status check_package_options(const Model& model, const CommonOptions& options);
/// A model to run on one device, which is opened again if a schedule that is measured takes it
/// down.
Result<Model> load_for(const std::string& path, const CommonOptions& options, OpenedDevice& device);
/// A model compiled as `compile` says; --mode max-autotune opens --device to measure on it, which
/// one of the targets must be for.
Result<Model> load_as(const std::string& path, const CompileOptions& compile,
                      const CommonOptions& options);
Result<std::unique_ptr<Session>> make_session(const Model& model, const OpenedDevice& device,
                                              const CommonOptions& options,
                                              bool timestamps = false);
/// Session on the host reference path, in the precision of the ONNX file. A package of low
/// precision has large weights in that precision.
Result<std::unique_ptr<Session>> make_reference(const Model& model, const CommonOptions& options);

struct StepCounts {
  int64_t launches = 0, host_calls = 0, kernels = 0, device_nodes = 0;
};
StepCounts count_steps(const plan::Plan& plan);

/// Registers a command; its exit status goes to `status` when it was the one called.
void register_devices(CLI::App& root, int& status);
void register_run(CLI::App& root, int& status);
void register_bench(CLI::App& root, int& status);
void register_compile(CLI::App& root, int& status);
void register_explain(CLI::App& root, int& status);
void register_verify(CLI::App& root, int& status);
void register_compare(CLI::App& root, int& status);
void register_conformance(CLI::App& root, int& status);
void register_bisect(CLI::App& root, int& status);
void register_check(CLI::App& root, int& status);

}  // namespace reprise::app
