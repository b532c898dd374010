// Code that the commands of `reprise` share: options, output, and loading of models.
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

/// Writes text to standard output and the JSON document to the file of --json. If that is "-", the
/// document goes to standard output and text is dropped.
class Output {
 public:
  explicit Output(std::string json_path) : json_path_(std::move(json_path)) {}
  void text(const std::string& s) const;
  void table(const Table& t) const { text(t.str()); }
  Status json(const Json& document) const;

 private:
  std::string json_path_;
};

/// A number as JSON; NaN and infinities, which JSON lacks, become strings.
Json number(double v);

/// What is known of a run's inputs before the model is compiled.
struct InputFacts {
  std::vector<std::string> optional_inputs;  // that the run gives
  InputShapes shapes;
  InputValues values;
};

struct CommonOptions {
  std::string device = "auto";
  std::string mode = "reduce-overhead";
  std::string precision = "fp32";
  std::string nvrtc;
  double tune_seconds = 30;
  uint64_t slice_us = 0;
  std::vector<std::string> shapes;
  std::vector<std::string> ranges;  // codegen/graph/size_options.h
  std::vector<std::string> plans;   // likewise
  std::vector<std::string> states;  // "INPUT=OUTPUT"
  std::string grow_states = "none";
  std::vector<std::string> optional_inputs;
  std::vector<std::string> values;  // codegen/graph/size_options.h
  InputFacts facts;                 // added to what the options say
  std::vector<std::string> images;  // codegen/graph/image_option.h
  std::vector<std::string> last;    // codegen/graph/output_options.h
  std::string sample;               // likewise
  std::vector<std::string> disabled_passes, pass_options;
  std::vector<std::string> without;  // features of devices to hide
  std::string json;
  bool fullgraph = false;
  bool keep_source = false;
  bool verbose = false;
  bool validation = false;
  bool warm_up = false;
  bool isolate_tensors = false;
  bool check_kernels = false;

  Result<CompileOptions> compile_options() const;
};

/// Refuse negative numbers, and for at_least_zero() also NaN and infinities.
CLI::Validator at_least_zero();
CLI::Validator whole_number();
/// Refuses "-": of these outputs, none goes to standard output.
CLI::Validator no_stream();
/// Refuses the name of a model that exists.
CLI::Validator no_model();

/// Splits "a,b" at commas and drops empty items.
std::vector<std::string> split_list(const std::string& text);

/// The groups of common options that a command has.
enum OptionGroups : unsigned { kJson = 1, kDevice = 2, kCompile = 4, kSession = 8 };
constexpr unsigned kAllGroups = kJson | kDevice | kCompile | kSession;
void add_without(CLI::App& command, CommonOptions& options);
void add_common(CLI::App& command, CommonOptions& options, unsigned groups = kAllGroups);

/// Options for the inputs of a model.
struct InputOptions {
  std::vector<std::string> files;
  std::string data_dir;
  uint64_t seed = 0;
};
void add_inputs(CLI::App& command, InputOptions& options);
/// The folder of --data, or test_data_set_0 beside the model if it has inputs. Empty for none.
Result<std::string> data_folder(const std::string& path, const CommonOptions& common,
                                const InputOptions& options, bool use_test_data,
                                std::vector<std::string>& notes);
/// A folder of inputs must have one for each input that --input does not give. `use_test_data`: if
/// no option names inputs, take test_data_set_0 beside the model.
Result<InputSet> collect_inputs(const Model& model, const CommonOptions& common,
                                const InputOptions& options, bool use_test_data);
/// The same for the model at `path`, before it is loaded.
Result<InputSet> collect_inputs(const plan::Interface& io, const std::string& path,
                                const CommonOptions& common, const InputOptions& options,
                                bool use_test_data);

/// Why the models cannot run on a device: no variant of a package fits it, or an ONNX file would
/// have to be compiled for CUDA and NVRTC is missing. Empty if they can.
std::string refusal(const DeviceInfo& device, const std::vector<std::string>& models,
                    const std::string& nvrtc);
/// Opens the device of --device. Validation messages and logs go to standard error; validation
/// messages also make the program fail at its end (validation_errors()). "auto" skips devices that
/// the models cannot run on.
Result<OpenedDevice> open_selected(const CommonOptions& options,
                                   const std::vector<std::string>& models);
/// The same; "auto" skips devices that `refuses` refuses.
Result<OpenedDevice> open_selected_if(const CommonOptions& options, const Refusal& refuses);
/// The number of messages of the validation layers so far.
int validation_errors();

/// An error if the model is a package and an option needs compilation.
Status check_package_options(const Model& model, const CommonOptions& options);
/// Loads a model for one device. If tuning takes the device down, `device` is opened again.
Result<Model> load_for(const std::string& path, const CommonOptions& options, OpenedDevice& device);
/// Compiles a model with these options. --mode max-autotune opens --device and measures on it; one
/// of the targets must be for that device.
Result<Model> load_as(const std::string& path, const CompileOptions& compile,
                      const CommonOptions& options);
Result<std::unique_ptr<Session>> make_session(const Model& model, const OpenedDevice& device,
                                              const CommonOptions& options,
                                              bool timestamps = false);
/// A session on the host. It computes in the precision of the ONNX file, except that a package of
/// low precision has its large weights in that precision.
Result<std::unique_ptr<Session>> make_reference(const Model& model, const CommonOptions& options);

struct StepCounts {
  int64_t launches = 0, host_calls = 0, kernels = 0, device_nodes = 0;
};
StepCounts count_steps(const plan::Plan& plan);

// Each function registers a command. If that command is run, it stores its exit status in `status`.
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
void register_buckets(CLI::App& root, int& status);
void register_generate(CLI::App& root, int& status);

}  // namespace reprise::app
