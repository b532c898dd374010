#include "codegen/onnx/builder.h"

#include <unordered_set>

#include "codegen/onnx/types.h"
#include "codegen/ops/microsoft/microsoft.h"

namespace reprise::onnx {

namespace {

constexpr int64_t kOldestOpset = 1;
// Files with an older ir_version do not say their opset, which is 1.
constexpr int64_t kFirstIrWithOpsets = 3;
constexpr int64_t kNewestOpset = 28;
constexpr int64_t kNewestIr = 14;

/// Whether a shape can be what the model declares.
bool fits(const wire::TensorType& type, const Shape& shape) {
  if (!type.has_shape()) return true;
  if (type.shape().dim_size() != static_cast<int>(shape.size())) return false;
  for (int i = 0; i < type.shape().dim_size(); ++i) {
    const wire::Dimension& d = type.shape().dim(i);
    const Expr& found = shape[static_cast<size_t>(i)];
    const bool fixed = d.has_dim_value() && d.dim_value() >= 0 && found.is_const();
    if (fixed && !found.is_const(d.dim_value())) return false;
  }
  return true;
}

/// The names of a graph's outputs, which differ because sessions bind outputs by them.
class OutputNames {
 public:
  explicit OutputNames(const wire::Graph& g) {
    for (const wire::ValueInfo& o : g.output()) taken_.insert(o.name());
  }
  /// The name itself if it is the first that is listed, or else another.
  std::string next(const std::string& name) {
    size_t& count = listed_[name];
    if (++count == 1) return name;
    for (;; ++count) {
      std::string other = name + "_" + std::to_string(count);
      if (taken_.insert(other).second) return other;
    }
  }

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, size_t> listed_;  // the last number that was tried
};

}  // namespace

std::string canonical_domain(const std::string& domain) {
  return domain == "ai.onnx" ? std::string() : domain;
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
    if (!domain.empty()) continue;
    if (o.version() < kOldestOpset) {
      return unsupported("opset " + std::to_string(o.version()) + " is older than " +
                         std::to_string(kOldestOpset) +
                         ", the oldest supported; convert the model with onnx.version_converter");
    }
    if (o.version() > kNewestOpset) {
      return unsupported("opset " + std::to_string(o.version()) + " is newer than " +
                         std::to_string(kNewestOpset) +
                         ", the newest supported; export the model for an older opset");
    }
  }
  return opsets;
}

std::string Builder::name_in(const Scope& scope, const std::string& name) const {
  auto it = scope.renamed.find(name);
  return it != scope.renamed.end() ? it->second : scope.frame->prefix + name;
}

Status Builder::read_header() {
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
    note("the model has ir_version " + std::to_string(model_->ir_version()) +
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

Status Builder::define(Scope& scope, const std::string& name, ValueId v) {
  if (name.empty()) return invalid_model("an input or initialiser has no name");
  if (!scope.names.emplace(name, v).second) {
    return invalid_model("value " + shown(name) + " is defined twice");
  }
  return {};
}

Status Builder::add_constant(Scope& scope, const std::string& name, HostTensor t) {
  const bool is_model = scope.outer == nullptr && scope.frame->calls.empty();
  if (is_model && options_.is_state(name)) return add_state(scope, name, std::move(t));
  if (is_model && options_.is_optional(name) && scope.names.contains(name)) {
    (*options_.optional_inputs)[name] = std::move(t);
    return {};
  }
  const ValueId v = scope.graph->add_constant(name_in(scope, name), std::move(t));
  return define(scope, name, v);
}

Status Builder::add_state(Scope& scope, const std::string& name, HostTensor t) {
  if (!scope.names.contains(name)) {
    const ValueId v =
        scope.graph->add_value(name, t.dtype(), Shape(t.dims().begin(), t.dims().end()));
    scope.graph->inputs.push_back(v);
    RP_TRY(define(scope, name, v));
  }
  (*options_.states)[name] = std::move(t);
  return {};
}

Status Builder::add_initialisers(Scope& scope, const wire::Graph& g) {
  for (const wire::Tensor& t : g.initializer()) {
    Result<HostTensor> host = to_host(t, model_, external_);
    RP_TRY(host.ok() ? add_constant(scope, t.name(), *std::move(host))
                     : refuse_value(scope, t.name(), host.status()));
  }
  for (const wire::SparseTensor& t : g.sparse_initializer()) {
    Result<HostTensor> host = to_host(t, model_, external_);
    RP_TRY(host.ok() ? add_constant(scope, t.values().name(), *std::move(host))
                     : refuse_value(scope, t.values().name(), host.status()));
  }
  return {};
}

Status Builder::add_declared(Scope& scope, const wire::Graph& g) {
  for (const wire::ValueInfo& v : g.value_info()) scope.declared.emplace(v.name(), &v);
  for (const wire::ValueInfo& v : g.output()) scope.declared.insert_or_assign(v.name(), &v);
  return {};
}

std::optional<ValueId> Builder::resolve(Scope& scope, const std::string& name) {
  auto it = scope.names.find(name);
  if (it != scope.names.end()) return it->second;
  if (!scope.outer) return std::nullopt;
  const std::optional<ValueId> outer = resolve(*scope.outer, name);
  if (!outer || *outer == kNone) return outer;
  ValueId inner = *outer;
  const auto branch = branches_.find(scope.graph);
  if (scope.outer->graph != scope.graph) {
    if (branch != branches_.end()) {
      const auto known = branch->second->inner.find(*outer);
      if (known != branch->second->inner.end()) return known->second;
    }
    const graph::Value& from = scope.outer->graph->value(*outer);
    if (!is_typed(from)) {
      inner = scope.graph->add_unknown(from.name);
    } else if (from.constant) {
      inner = scope.graph->add_constant(from.name, *from.constant);
    } else {
      inner = scope.graph->add_value(from.name, from.dtype, from.shape);
      scope.graph->value(inner).items = from.items;
      scope.graph->value(inner).elements = from.elements;
      scope.graph->value(inner).determined = from.determined;
      scope.captures.push_back({*outer, inner});
    }
    if (branch != branches_.end()) branch->second->inner.emplace(*outer, inner);
  }
  scope.names.emplace(name, inner);
  return inner;
}

Status Builder::check_declared(const Scope& scope, const std::string& name, ValueId v,
                               const std::string& by) {
  auto it = scope.declared.find(name);
  if (it == scope.declared.end() || !says_type(it->second->type())) return {};
  const wire::Type& type = it->second->type();
  const graph::Value& value = scope.graph->value(v);
  if (!is_typed(value)) return {};
  const auto difference = [&] {
    return "value " + shown(name) + ": the model declares " + type_text(type) + ", but " + by +
           " gives " + std::string(name_of(value.dtype)) +
           shape_str(value.shape, scope.graph->symbols);
  };
  const bool tensor = type.has_tensor_type();
  if (!tensor || type.tensor_type().elem_type() != 0) {
    const Result<TypeForm> form = type_form(type);
    if (!form.ok() || form->dtype != value.dtype) return invalid_model(difference());
  }
  if (!tensor || fits(type.tensor_type(), value.shape) || !redeclared_.insert(name).second)
    return {};
  note(difference() + "; the declaration is ignored");
  return {};
}

void Builder::note(std::string text) {
  if (noted_.insert(text).second) notes_.push_back(std::move(text));
}

std::vector<std::string> Builder::take_notes() {
  constexpr size_t kMost = 20;
  if (notes_.size() > kMost) {
    const size_t others = notes_.size() - kMost;
    notes_.resize(kMost);
    notes_.push_back("the importer has " + std::to_string(others) + " more such notes");
  }
  return std::move(notes_);
}

Status Builder::set_outputs(Scope& scope, const wire::Graph& g) {
  const bool is_model = scope.outer == nullptr;
  const auto refused = [&](const Status& s) { return is_model ? refuse_model(s) : s; };
  if (g.output_size() == 0) return refused(invalid_model("the graph has no outputs"));
  OutputNames names(g);
  for (const wire::ValueInfo& o : g.output()) {
    const std::optional<ValueId> v = resolve(scope, o.name());
    if (!v || *v == kNone) {
      RP_TRY(refused(invalid_model("nothing defines the output " + shown(o.name()))));
      continue;
    }
    if (is_model && !is_typed(scope.graph->value(*v))) continue;
    RP_TRY(check_declared(scope, o.name(), *v, "its definition"));
    std::string name = names.next(o.name());
    if (name != o.name() && is_model) {
      note("output " + shown(o.name()) + " is listed more than once; this one is named " +
           shown(name));
    }
    scope.graph->add_output(*v);
    scope.graph->output_names.push_back(std::move(name));
  }
  return {};
}

Result<std::unique_ptr<Graph>> Builder::run() {
  RP_TRY(read_header());
  const wire::Graph& model = model_->graph();
  auto g = std::make_unique<Graph>();
  g->name = model.name();
  for (const wire::Entry& e : model_->metadata_props())
    g->metadata.emplace_back(e.key(), e.value());
  Frame frame;
  RP_ASSIGN(frame.opsets, read_opsets(model_->opset_import()));
  if (model_->ir_version() < kFirstIrWithOpsets) frame.opsets.emplace("", 1);
  // ONNX Runtime adds the import of its own domain, so tools write models without it.
  frame.opsets.emplace(ops::kMicrosoft, 1);
  std::vector<std::string> refused_inputs;
  RP_TRY(add_inputs(*g, model, options_, refused_inputs));
  Scope scope;
  scope.graph = g.get();
  scope.frame = &frame;
  for (ValueId v : g->inputs) {
    const std::string name = g->value(v).name;
    const auto values = options_.values.find(name);
    ValueId known = v;
    if (values != options_.values.end()) {
      RP_ASSIGN(HostTensor t, known_value(g->value(v), values->second));
      known = g->add_constant(name + "_value", std::move(t));
    }
    RP_TRY(define(scope, name, known));
  }
  for (const std::string& name : refused_inputs) {
    RP_TRY(define(scope, name, g->add_unknown(name)));
  }
  RP_TRY(add_initialisers(scope, model));
  RP_TRY(add_declared(scope, model));
  scope.source = &model;
  RP_TRY(add_nodes(scope, model.node()));
  const Status ended = end_fork(scope, output_names(model));
  if (!ended.ok()) RP_TRY(refuse_model(ended));
  RP_TRY(set_outputs(scope, model));
  if (keeps_on() && !options_.refusals->empty()) keep_what_is_left(*g);
  g->notes = take_notes();
  return g;
}

}  // namespace reprise::onnx
