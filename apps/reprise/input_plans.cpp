#include "apps/reprise/input_plans.h"

#include <algorithm>

#include "apps/common/values.h"
#include "runtime/platform/path.h"

namespace reprise::app {

namespace {

bool is_package(const std::string& path) {
  return utf8_path(path).extension() == ".rpk";
}

template <typename T>
std::vector<int64_t> integers_in(const HostTensor& t) {
  return {t.data<T>(), t.data<T>() + t.count()};
}

/// The elements of a tensor that may be known to the compiler.
std::optional<std::vector<int64_t>> known_elements(const HostTensor& t) {
  if (t.count() == 0 || static_cast<size_t>(t.count()) > onnx::kMostValues) return std::nullopt;
  if (t.dtype() == DType::I64) return integers_in<int64_t>(t);
  if (t.dtype() == DType::I32) return integers_in<int32_t>(t);
  if (t.dtype() == DType::Bool) return integers_in<uint8_t>(t);
  return std::nullopt;
}

bool assumes_sizes(const package::Package& p) {
  const auto guarded = [](const auto& body) { return !body.io.guards.empty(); };
  return !p.io.guards.empty() || std::ranges::any_of(p.bodies, guarded);
}

/// The inputs that a model file declares, without their shapes: those that runs must give first.
plan::Interface declared_interface(const std::vector<onnx::DeclaredInput>& inputs) {
  plan::Interface io;
  for (const bool optional : {false, true}) {
    for (const onnx::DeclaredInput& i : inputs)
      if (i.has_value == optional) io.inputs.push_back({i.name, i.dtype, {}});
  }
  return io;
}

}  // namespace

GivenInputs given_in_folder(const std::string& folder, const std::string& model) {
  if (is_package(model)) return {};
  const auto declared = onnx::declared_inputs(model);
  if (!declared.ok()) return {};
  std::vector<std::string> notes;  // collect_inputs() has the same
  auto inputs = read_input_folder(folder, declared_interface(*declared), notes);
  if (!inputs.ok()) return {};
  std::erase_if(*inputs, [](const auto& i) { return is_container(i.second.dtype()); });
  return *std::move(inputs);
}

GivenInputs given_inputs(const std::string& model, const CommonOptions& common,
                         const InputOptions& options, bool use_test_data) {
  GivenInputs out;
  if (is_package(model)) return out;
  std::vector<std::string> notes;  // collect_inputs() has the same
  const auto folder = data_folder(model, common, options, use_test_data, notes);
  if (folder.ok() && !folder->empty()) out = given_in_folder(*folder, model);
  for (const std::string& text : options.files) {
    const auto assignment = parse_assignment(text);
    if (!assignment.ok()) continue;
    auto value = read_value(assignment->second, DType::Invalid);
    if (value.ok()) out.insert_or_assign(assignment->first, *std::move(value));
  }
  return out;
}

Result<std::vector<std::string>> InputPlans::optional_among(const GivenInputs& given) {
  std::vector<std::string> out;
  if (given.empty() || is_package(path_)) return out;
  if (!declared_) {
    RP_TRY(check_model_file(path_));
    RP_ASSIGN(declared_, onnx::declared_inputs(path_));
  }
  for (const onnx::DeclaredInput& i : *declared_)
    if (i.has_value && given.contains(i.name)) out.push_back(i.name);
  return out;
}

bool InputPlans::add_facts(const GivenInputs& given, bool with_values, InputFacts& facts) const {
  bool added = false;
  for (const onnx::DeclaredInput& i : declared_.value_or(std::vector<onnx::DeclaredInput>())) {
    const auto tensor = given.find(i.name);
    if (tensor == given.end()) continue;
    if (!with_values) {
      added = facts.shapes.emplace(i.name, tensor->second.dims()).second || added;
    } else if (auto elements = known_elements(tensor->second)) {
      added = facts.values.emplace(i.name, *std::move(elements)).second || added;
    }
  }
  return added;
}

InputPlans::InputPlans(const std::string& path, const CommonOptions& common, OpenedDevice& device)
    : InputPlans(path, common, [path, &device](const CommonOptions& options) -> Result<Loaded> {
        Loaded out;
        RP_ASSIGN(out.model, load_for(path, options, device));
        RP_ASSIGN(out.session, make_session(out.model, device, options));
        return out;
      }) {}

Result<InputPlans::Loaded> InputPlans::load(const InputFacts& facts) {
  CommonOptions options = common_;
  options.facts = facts;
  RP_ASSIGN(Loaded out, load_(options));
  out.options = std::move(options);
  return out;
}

Status InputPlans::use_general(const std::vector<std::string>& optional, const Use& use,
                               bool& may_help) {
  if (!general_ || general_for_ != optional) {
    general_.emplace(load({optional, {}, {}}));
    general_for_ = optional;
  }
  if (!general_->ok()) {
    const Code code = general_->status().code();
    may_help = code == Code::Unsupported || code == Code::InvalidModel;
    return general_->status();
  }
  Status used = use(**general_);
  may_help = used.code() == Code::InvalidInput && assumes_sizes(*(*general_)->model.package);
  return used;
}

Status InputPlans::run(const GivenInputs& given, const Use& use) {
  InputFacts facts;
  RP_ASSIGN(facts.optional_inputs, optional_among(given));
  bool may_help = false;
  Status first = use_general(facts.optional_inputs, use, may_help);
  if (first.ok() || !may_help) return first;
  for (const bool with_values : {false, true}) {
    if (!add_facts(given, with_values, facts)) continue;
    auto special = load(facts);
    if (!special.ok() || !use(*special).ok()) continue;
    note("compiled for the sizes " + std::string(with_values ? "and values " : "") +
         "of these inputs alone: " + first.message());
    return {};
  }
  return first;
}

}  // namespace reprise::app
