#include "apps/reprise/conformance.h"

#include <algorithm>
#include <filesystem>

#include "apps/common/compare.h"
#include "apps/common/replays.h"
#include "apps/reprise/input_plans.h"
#include "runtime/platform/path.h"

namespace reprise::app {

namespace fs = std::filesystem;

namespace {

std::string file_name(const std::string& path) {
  return utf8_text(utf8_path(path).filename());
}

std::vector<std::string> data_sets(const std::string& dir) {
  std::vector<std::string> out;
  for (int i = 0;; ++i) {
    const fs::path set = utf8_path(dir) / ("test_data_set_" + std::to_string(i));
    if (!fs::is_directory(set)) return out;
    out.push_back(utf8_text(set));
  }
}

/// Cases of the suite have its tolerance; whole models have that of models.
Rule rule_for(const std::string& name, const package::Package& p) {
  const bool suite = file_name(name).rfind("test_", 0) == 0;
  return suite || p.explanation.model_nodes <= 1 ? Rule::Operator : Rule::Model;
}

/// Cases that no implementation can pass, with the reason.
struct Contradiction {
  const char* glob;
  const char* reason;
};
constexpr Contradiction kContradictions[] = {
    {"test_castlike_*BFLOAT16*",
     "the case contradicts itself: the model declares input 'like' as [3,4], its file has [1]"},
};

const char* contradiction(const std::string& name) {
  for (const Contradiction& c : kContradictions) {
    if (glob_match(c.glob, file_name(name))) return c.reason;
  }
  return nullptr;
}

/// The suite stores bfloat16 tensors as uint16 with the same bits.
void reinterpret_bfloat16(HostTensor& t, DType wanted) {
  if (wanted != DType::BF16 || t.dtype() != DType::U16) return;
  const auto owner = std::make_shared<HostTensor>(t);
  t = HostTensor::borrow(DType::BF16, owner->dims(), owner->bytes(), owner);
}

/// Runs once more with the same inputs; the case fails unless the bits are equal.
Status run_again(const std::string& set, Session& session, const InputSet& inputs,
                 const std::vector<HostTensor>& first, CaseResult& result) {
  RP_ASSIGN(const std::vector<Replays> replays, replay(session, inputs, 2, first));
  for (size_t i = 0; i < first.size(); ++i) {
    if (replays[i].differing == 0) continue;
    result.status = "fail";
    result.reason += (result.reason.empty() ? "" : "; ") + file_name(set) + ", output '" +
                     session.io().outputs[i].name +
                     "' differs between runs: " + replays[i].difference;
    return {};
  }
  return {};
}

/// For random results.
void compare_types(const std::string& set, const Session& session,
                   const std::vector<HostTensor>& actual, const std::vector<HostTensor>& expected,
                   CaseResult& result) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string is = describe(actual[i].dtype(), actual[i].dims());
    const std::string wanted = describe(expected[i].dtype(), expected[i].dims());
    if (is == wanted || result.status == "fail") continue;
    result.status = "fail";
    result.reason = file_name(set) + ", output '";
    result.reason.append(session.io().outputs[i].name).append("' is ").append(is);
    result.reason.append(", expected ").append(wanted);
  }
}

Status run_set(const std::string& set, Session& session, Rule rule, DType precision,
               CaseResult& result) {
  InputSources sources;
  std::vector<std::string> notes;
  RP_ASSIGN(sources.given, read_input_folder(set, session.io(), notes));
  RP_ASSIGN(std::vector<HostTensor> expected, read_output_folder(set, session.io().outputs));
  RP_TRY(check_complete(set, session.io(), sources.given));
  for (const plan::Slot& slot : session.io().inputs) {
    const auto given = sources.given.find(slot.name);
    if (given != sources.given.end()) reinterpret_bfloat16(given->second, slot.dtype);
  }
  RP_ASSIGN(InputSet inputs, make_inputs(session.io(), sources, notes));
  RP_ASSIGN(std::vector<HostTensor> actual, session.run(inputs.bindings()));
  if (expected.empty() || expected.size() > actual.size()) {
    return invalid_input("'" + set + "' has " + std::to_string(expected.size()) +
                         " outputs, the model " + std::to_string(actual.size()));
  }
  if (is_random_case(file_name(result.name))) {
    compare_types(set, session, actual, expected, result);
    return {};
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    reinterpret_bfloat16(expected[i], actual[i].dtype());
    const Comparison c =
        compare(actual[i], expected[i],
                tolerance_in(precision, rule, expected[i].dtype(), file_name(result.name)));
    result.max_error = std::max(result.max_error, c.max_error);
    if (c.ok || result.status == "fail") continue;
    result.status = "fail";
    result.reason = file_name(set) + ", output '" + session.io().outputs[i].name + "': " + c.reason;
  }
  return run_again(set, session, inputs, actual, result);
}

Status run_sets(const std::string& dir, OpenedDevice& device, const CommonOptions& common,
                CaseResult& result) {
  const std::vector<std::string> sets = data_sets(dir);
  if (sets.empty()) return invalid_input("'" + dir + "' has no test_data_set_0");
  const std::string path = utf8_text(utf8_path(dir) / "model.onnx");
  InputPlans plans(path, common, device);
  for (const std::string& set : sets) {
    const auto run_loaded = [&](InputPlans::Loaded& loaded) {
      const StepCounts counts = count_steps(loaded.session->plan());
      result.device_nodes = counts.device_nodes;
      result.host_nodes = counts.host_calls;
      const Rule rule = rule_for(result.name, *loaded.model.package);
      const DType precision =
          rule == Rule::Model ? loaded.model.computes_in() : loaded.model.precision();
      return run_set(set, *loaded.session, rule, precision, result);
    };
    RP_TRY(plans.run(given_in_folder(set, path), run_loaded));
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> find_cases(const std::string& dir, const std::string& filter) {
  std::error_code error;
  const fs::path root = utf8_path(dir);
  if (!fs::is_directory(root)) return Status(Code::Io, "no such folder: '" + dir + "'");
  std::vector<std::string> out;
  fs::recursive_directory_iterator it(root, fs::directory_options::follow_directory_symlink, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (it->path().filename() != "model.onnx") continue;
    const fs::path folder = it->path().parent_path();
    std::string name = utf8_text(fs::relative(folder, root));
    std::replace(name.begin(), name.end(), static_cast<char>(fs::path::preferred_separator), '/');
    const bool wanted = filter.empty() || glob_match(filter, name) ||
                        glob_match(filter, utf8_text(folder.filename()));
    if (wanted) out.push_back(std::move(name));
  }
  if (error) return Status(Code::Io, "cannot list '" + dir + "': " + error.message());
  std::sort(out.begin(), out.end());
  return out;
}

CaseResult run_case(const std::string& dir, const std::string& name, OpenedDevice& device,
                    const CommonOptions& common) {
  CaseResult result;
  result.name = name;
  result.status = "pass";
  if (const char* reason = contradiction(name)) {
    result.status = "unsupported";
    result.reason = reason;
    return result;
  }
  const int errors_before = validation_errors();
  const Status s = run_sets(utf8_text(utf8_path(dir) / utf8_path(name)), device, common, result);
  if (!s.ok()) {
    result.status = s.code() == Code::Unsupported ? "unsupported" : "error";
    result.reason = s.message();
    result.device_failed = is_device_failure(s.code());
  } else if (validation_errors() > errors_before) {
    result.status = "error";
    result.reason = "the Vulkan validation layers found " +
                    std::to_string(validation_errors() - errors_before) + " errors";
  }
  return result;
}

}  // namespace reprise::app
