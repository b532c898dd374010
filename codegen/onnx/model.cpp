#include "codegen/onnx/model.h"

#include <utility>

#include "codegen/ops/microsoft/microsoft.h"

namespace reprise::onnx {

namespace {

constexpr int64_t kOldestOpset = 1;
// Files with an older ir_version do not say their opset, which is 1.
constexpr int64_t kFirstIrWithOpsets = 3;
constexpr int64_t kNewestOpset = 28;
constexpr int64_t kNewestIr = 14;

}  // namespace

std::string canonical_domain(const std::string& domain) {
  return domain == "ai.onnx" ? std::string() : domain;
}

Status check_default_opset(int64_t version) {
  if (version < kOldestOpset) {
    return unsupported("opset " + std::to_string(version) + " is older than " +
                       std::to_string(kOldestOpset) +
                       ", the oldest supported; convert the model with onnx.version_converter");
  }
  if (version > kNewestOpset) {
    return unsupported("opset " + std::to_string(version) + " is newer than " +
                       std::to_string(kNewestOpset) +
                       ", the newest supported; export the model for an older opset");
  }
  return {};
}

Result<std::map<std::string, int64_t>> read_opsets(
    const google::protobuf::RepeatedPtrField<wire::OpsetImport>& imports) {
  std::map<std::string, int64_t> opsets;
  for (const wire::OpsetImport& o : imports) {
    const std::string domain = canonical_domain(o.domain());
    auto [it, fresh] = opsets.emplace(domain, o.version());
    if (!fresh && it->second != o.version()) {
      return invalid_model("domain " + shown(domain) + " is imported at versions " +
                           std::to_string(it->second) + " and " + std::to_string(o.version()));
    }
    if (domain.empty()) RP_TRY(check_default_opset(o.version()));
  }
  return opsets;
}

Model::Model(const std::shared_ptr<const wire::Model>& model, ExternalData external,
             std::string file)
    : made_(std::make_shared<Made>(model)),
      model_(made_, model.get()),
      external_(std::move(external)),
      file_(std::move(file)) {}

Status Model::read_header(Notes& notes) {
  if (!model_->has_graph()) {
    return invalid_model(
        "is not an ONNX model, or the file is truncated or damaged: it has no graph. A model of "
        "TensorFlow is converted with tf2onnx");
  }
  if (model_->ir_version() < 1) {
    return invalid_model(
        "its ir_version is " +
        (model_->has_ir_version() ? std::to_string(model_->ir_version()) : std::string("missing")) +
        ", must be at least 1; set it to the version that the model was made for "
        "(model.ir_version in the onnx package)");
  }
  if (model_->ir_version() > kNewestIr) {
    notes.add("the model has ir_version " + std::to_string(model_->ir_version()) +
              "; the newest that is known is " + std::to_string(kNewestIr) +
              ", and fields that later ones add are not read");
  }
  for (const wire::Function& f : model_->functions()) {
    const std::string key = canonical_domain(f.domain()) + "::" + f.name() + "::" + f.overload();
    if (!functions_.emplace(key, &f).second) {
      return invalid_model("function " + shown(f.name()) + " is defined twice");
    }
  }
  return {};
}

Result<std::map<std::string, int64_t>> Model::opsets() const {
  RP_ASSIGN(auto opsets, read_opsets(model_->opset_import()));
  if (model_->ir_version() < kFirstIrWithOpsets) opsets.emplace("", 1);
  // ONNX Runtime adds the import of its own domain, so tools write models without it.
  opsets.emplace(ops::kMicrosoft, 1);
  return opsets;
}

const wire::Function* Model::function_of(const wire::Node& n, const std::string& domain) const {
  if (functions_.empty()) return nullptr;
  auto it = functions_.find(domain + "::" + n.op_type() + "::" + n.overload());
  return it == functions_.end() ? nullptr : it->second;
}

wire::Node& Model::keep(wire::Node n) {
  return *made_->emplace_back(std::make_unique<wire::Node>(std::move(n)));
}

}  // namespace reprise::onnx
