// The model that is being imported, as its file has it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codegen/onnx/file/attributes.h"
#include "codegen/onnx/file/file.h"
#include "codegen/onnx/notes.h"

namespace reprise::onnx {

class Model {
 public:
  /// `file` names the model in messages; empty for a model in memory.
  Model(const std::shared_ptr<const wire::Model>& model, ExternalData external, std::string file);
  /// Checks the header, and finds the functions.
  Status read_header(Notes& notes);
  /// The versions of the operators that the model's nodes use.
  Result<std::map<std::string, int64_t>> opsets() const;

  const wire::Model& proto() const { return *model_; }
  /// The model-local function that the node calls, or null.
  const wire::Function* function_of(const wire::Node& n, const std::string& domain) const;
  template <typename Tensor>
  Result<HostTensor> tensor(const Tensor& t) {
    return to_host(t, model_, external_);
  }
  Result<HostTensor> constant(const std::string& name, const wire::Attribute& a) {
    return constant_of(name, a, model_, external_);
  }
  Result<Attr> attribute(const wire::Attribute& a) { return to_attr(a, model_, external_); }
  /// Keeps a node that the importer makes as long as the tensors of the model, which may refer to
  /// its memory.
  wire::Node& keep(wire::Node n);
  /// The file for messages.
  std::string where() const { return file_.empty() ? "the model" : file_; }

 private:
  struct Made : std::vector<std::unique_ptr<wire::Node>> {
    explicit Made(std::shared_ptr<const wire::Model> of) : model(std::move(of)) {}
    std::shared_ptr<const wire::Model> model;
  };
  std::shared_ptr<Made> made_;
  std::shared_ptr<const wire::Model> model_;  // owns made_ as well
  ExternalData external_;
  std::string file_;
  std::map<std::string, const wire::Function*> functions_;
};

/// "domain" as the registry spells it: the default domain is "".
std::string canonical_domain(const std::string& domain);
/// Unsupported if this is no version of the default domain that the importer knows.
Status check_default_opset(int64_t version);
Result<std::map<std::string, int64_t>> read_opsets(
    const google::protobuf::RepeatedPtrField<wire::OpsetImport>& imports);

}  // namespace reprise::onnx
