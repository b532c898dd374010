#include "codegen/onnx/exporter.h"

#include <algorithm>
#include <set>

#include "codegen/onnx/file/attributes.h"
#include "codegen/onnx/onnx_minimal.pb.h"
#include "codegen/ops/row/support.h"

namespace reprise::onnx {

namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::ValueId;

constexpr int64_t kIrVersion = 10;
constexpr uint64_t kMaxBytes = uint64_t{1} << 31;  // protobuf's limit

/// What the graphs of a model share.
struct Shared {
  std::map<std::string, int64_t> opsets;
  size_t bodies = 0;
};

wire::TensorType& declare_tensor(const graph::Value& v, const std::string& name,
                                 wire::ValueInfo& to) {
  to.set_name(name);
  wire::TensorType& type = *to.mutable_type()->mutable_tensor_type();
  type.set_elem_type(static_cast<int32_t>(ops::dtype_to_onnx(v.dtype)));
  return type;
}

/// Writes the nodes of one graph: of the model, or of a body of one of its nodes.
class GraphWriter {
 public:
  /// `given`: values that become initialisers.
  GraphWriter(const Graph& g, const std::map<ValueId, HostTensor>& given, Shared& shared,
              wire::Graph& to)
      : g_(g), given_(given), shared_(shared), to_(to) {}

  Status add(const Node& n) {
    if (n.opset == 0) return unsupported(n.op + " is in core form, which ONNX lacks");
    // A model has one version of each domain, but inlined functions may have others.
    int64_t& version = shared_.opsets[n.domain];
    version = std::max(version, n.opset);
    wire::Node& node = *to_.add_node();
    const ops::OpDef* def = ops::find(n);
    const bool renamed = def != nullptr && !def->in_models.empty();
    node.set_op_type(renamed ? std::string(def->in_models) : n.op.str());
    node.set_domain(n.domain);
    node.set_name(n.name);
    // Bodies name what they capture.
    const size_t captured = n.subgraphs.empty() ? 0 : n.subgraphs[0].second->captures.size();
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (i + captured < n.inputs.size()) node.add_input(name(n.inputs[i]));
      add_constant(n.inputs[i]);
    }
    for (const ValueId v : n.outputs) node.add_output(name(v));
    for (const auto& [attribute, value] : n.attrs) {
      wire::Attribute& a = *node.add_attribute();
      RP_TRY(set_attribute(attribute, value, a));
    }
    for (const auto& [label, body] : n.subgraphs) {
      wire::Attribute& a = *node.add_attribute();
      a.set_name(label);
      a.set_type(static_cast<int32_t>(AttrType::Graph));
      RP_TRY(add_body(n, *body, *a.mutable_g()).with_context(label));
    }
    return {};
  }

 private:
  /// Names of bodies differ from those of all graphs around them.
  std::string name(ValueId v) const {
    if (v == kNone) return {};
    const auto outer = captured_.find(v);
    return outer != captured_.end() ? outer->second : prefix_ + g_.value(v).name;
  }

  void add_constant(ValueId v) {
    if (v == kNone || !stored_.insert(v).second) return;
    const auto given = given_.find(v);
    if (given != given_.end()) {
      set_tensor(given->second, name(v), *to_.add_initializer());
    } else if (g_.value(v).constant) {
      set_tensor(*g_.value(v).constant, name(v), *to_.add_initializer());
    }
  }

  Status add_body(const Node& owner, const Graph& body, wire::Graph& to) {
    static const std::map<ValueId, HostTensor> none;
    GraphWriter inner(body, none, shared_, to);
    inner.prefix_ = "body" + std::to_string(++shared_.bodies) + ":";
    const size_t first = owner.inputs.size() - body.captures.size();
    for (size_t i = 0; i < body.captures.size(); ++i)
      if (body.captures[i] != kNone)
        inner.captured_.emplace(body.captures[i], name(owner.inputs[first + i]));
    to.set_name(inner.prefix_ + (body.name.empty() ? "body" : body.name));
    for (const ValueId v : body.inputs) {
      if (is_container(body.value(v).dtype)) {
        to.add_input()->set_name(inner.name(v));  // its type is that of the value outside
      } else {
        // ONNX Runtime needs the rank. Dims that are not fixed are left open.
        wire::TensorShape& shape =
            *declare_tensor(body.value(v), inner.name(v), *to.add_input()).mutable_shape();
        for (const Expr& dim : body.value(v).shape) {
          wire::Dimension& d = *shape.add_dim();
          if (dim.is_const()) d.set_dim_value(dim.value());
        }
      }
    }
    for (const auto& n : body.nodes()) RP_TRY(inner.add(*n).with_context("node '" + n->name + "'"));
    inner.add_outputs();
    return {};
  }

  /// A body returns what its nodes compute, each value once. An Identity passes on others.
  void add_outputs() {
    std::set<ValueId> returned;
    for (size_t i = 0; i < g_.outputs.size(); ++i) {
      const ValueId v = g_.outputs[i];
      if (g_.value(v).producer != nullptr && returned.insert(v).second) {
        to_.add_output()->set_name(name(v));
        continue;
      }
      add_constant(v);
      wire::Node& node = *to_.add_node();
      node.set_op_type("Identity");
      node.add_input(name(v));
      node.add_output(prefix_ + "output" + std::to_string(i) + ":" + g_.value(v).name);
      to_.add_output()->set_name(node.output(0));
    }
  }

  const Graph& g_;
  const std::map<ValueId, HostTensor>& given_;
  Shared& shared_;
  wire::Graph& to_;
  std::string prefix_;
  std::map<ValueId, std::string> captured_;  // values of a body: the names outside
  std::set<ValueId> stored_;
};

class Exporter {
 public:
  Exporter(const Graph& g, const Part& part)
      : g_(g),
        part_(part),
        to_(*model_.mutable_graph()),
        writer_(g, part.constants, shared_, to_) {}

  Result<std::string> run() {
    model_.set_ir_version(kIrVersion);
    to_.set_name(g_.name.empty() ? "part" : g_.name);
    for (const Node* n : part_.nodes)
      RP_TRY(writer_.add(*n).with_context("node '" + n->name + "'"));
    for (const ValueId v : part_.inputs) RP_TRY(declare(v, *to_.add_input()));
    for (const ValueId v : part_.outputs) RP_TRY(declare(v, *to_.add_output()));
    for (const auto& [domain, version] : shared_.opsets) {
      wire::OpsetImport& import = *model_.add_opset_import();
      import.set_domain(domain);
      import.set_version(version);
    }
    const uint64_t bytes = model_.ByteSizeLong();
    if (bytes >= kMaxBytes)
      return unsupported("the model would have " + std::to_string(bytes) +
                         " bytes, more than an ONNX file can hold");
    return model_.SerializeAsString();
  }

 private:
  Status declare(ValueId v, wire::ValueInfo& to) const {
    const graph::Value& value = g_.value(v);
    if (is_container(value.dtype)) {
      return unsupported("'" + value.name + "' is " + std::string(name_of(value.dtype)) +
                         "; only parts of models that take and return tensors are written");
    }
    wire::TensorType& type = declare_tensor(value, value.name, to);
    type.mutable_shape();
    const auto fixed = part_.dims.find(v);
    for (size_t d = 0; d < value.shape.size(); ++d) {
      wire::Dimension& dim = *type.mutable_shape()->add_dim();
      const Expr& e = value.shape[d];
      const std::optional<SymbolId> symbol = e.as_symbol();
      if (fixed != part_.dims.end()) {
        dim.set_dim_value(fixed->second[d]);
      } else if (e.is_const()) {
        dim.set_dim_value(e.value());
      } else if (symbol) {
        dim.set_dim_param(g_.symbols[static_cast<size_t>(*symbol)].name);
      }
    }
    return {};
  }

  const Graph& g_;
  const Part& part_;
  wire::Model model_;
  wire::Graph& to_;
  Shared shared_;
  GraphWriter writer_;
};

}  // namespace

Result<std::string> export_part(const Graph& g, const Part& part) {
  return Exporter(g, part).run();
}

std::string tensor_file(const HostTensor& tensor, const std::string& name) {
  wire::Tensor t;
  set_tensor(tensor, name, t);
  return t.SerializeAsString();
}

}  // namespace reprise::onnx
