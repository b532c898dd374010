#include "codegen/onnx/names.h"

#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "codegen/onnx/file/types.h"
#include "codegen/onnx/import.h"

namespace reprise::onnx {

namespace {

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

Status Names::define(Scope& scope, const std::string& name, ValueId v) {
  if (name.empty()) return invalid_model("an input or initialiser has no name");
  if (!scope.names.emplace(name, v).second) {
    return invalid_model("value " + shown(name) + " is defined twice");
  }
  return {};
}

Status Names::add_constant(Scope& scope, const std::string& name, HostTensor t) {
  const bool is_model = scope.outer == nullptr && scope.frame->calls.empty();
  if (is_model && import_.options.is_state(name)) return add_state(scope, name, std::move(t));
  if (is_model && import_.options.is_optional(name) && scope.names.contains(name)) {
    (*import_.options.optional_inputs)[name] = std::move(t);
    return {};
  }
  const ValueId v = scope.graph->add_constant(scope.name_in_graph(name), std::move(t));
  return define(scope, name, v);
}

Status Names::add_state(Scope& scope, const std::string& name, HostTensor t) {
  if (!scope.names.contains(name)) {
    const ValueId v =
        scope.graph->add_value(name, t.dtype(), Shape(t.dims().begin(), t.dims().end()));
    scope.graph->inputs.push_back(v);
    RP_TRY(define(scope, name, v));
  }
  (*import_.options.states)[name] = std::move(t);
  return {};
}

Status Names::add_initialisers(Scope& scope, const wire::Graph& g) {
  for (const wire::Tensor& t : g.initializer()) {
    Result<HostTensor> host = import_.model.tensor(t);
    RP_TRY(host.ok() ? add_constant(scope, t.name(), *std::move(host))
                     : import_.refusals.refuse_value(scope, t.name(), host.status()));
  }
  for (const wire::SparseTensor& t : g.sparse_initializer()) {
    Result<HostTensor> host = import_.model.tensor(t);
    RP_TRY(host.ok() ? add_constant(scope, t.values().name(), *std::move(host))
                     : import_.refusals.refuse_value(scope, t.values().name(), host.status()));
  }
  return {};
}

void Names::add_declared(Scope& scope, const wire::Graph& g) {
  for (const wire::ValueInfo& v : g.value_info()) scope.declared.emplace(v.name(), &v);
  for (const wire::ValueInfo& v : g.output()) scope.declared.insert_or_assign(v.name(), &v);
}

std::optional<ValueId> Names::resolve(Scope& scope, const std::string& name) {
  auto it = scope.names.find(name);
  if (it != scope.names.end()) return it->second;
  if (!scope.outer) return std::nullopt;
  const std::optional<ValueId> outer = resolve(*scope.outer, name);
  if (!outer || *outer == kNone) return outer;
  ValueId inner = *outer;
  if (scope.outer->graph != scope.graph) {
    if (const auto known = import_.forks.inner_value(scope.graph, *outer)) return known;
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
    import_.forks.set_inner_value(scope.graph, *outer, inner);
  }
  scope.names.emplace(name, inner);
  return inner;
}

Status Names::check_declared(const Scope& scope, const std::string& name, ValueId v,
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
  import_.notes.add(difference() + "; the declaration is ignored");
  return {};
}

Status Names::set_outputs(Scope& scope, const wire::Graph& g) {
  const bool is_model = scope.outer == nullptr;
  const auto refused = [&](const Status& s) {
    return is_model ? import_.refusals.refuse_model(s) : s;
  };
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
      import_.notes.add("output " + shown(o.name()) +
                        " is listed more than once; this one is named " + shown(name));
    }
    scope.graph->add_output(*v);
    scope.graph->output_names.push_back(std::move(name));
  }
  return {};
}

}  // namespace reprise::onnx
