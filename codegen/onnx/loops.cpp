#include "codegen/onnx/loops.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "codegen/onnx/bodies.h"
#include "codegen/onnx/conditionals.h"
#include "codegen/onnx/import.h"
#include "codegen/onnx/unrolled_loops.h"
#include "codegen/ops/row/op.h"

namespace reprise::onnx {

namespace {

/// Elements of a constant that takes the place of an initial value.
constexpr int64_t kMaxZeros = int64_t{1} << 16;

std::optional<int64_t> known_integer(const graph::Value& v) {
  const HostTensor* known = v.contents();
  if (known != nullptr && known->dtype() == DType::I64 && known->count() == 1)
    return known->data<int64_t>()[0];
  if (v.elements && v.elements->size() == 1 && v.elements->front().is_const())
    return v.elements->front().value();
  return std::nullopt;
}

/// The value through any number of Identity nodes.
ValueId origin_of(const Graph& g, ValueId v) {
  for (const graph::Node* n = g.value(v).producer; n != nullptr && n->op == "Identity";
       n = g.value(v).producer) {
    v = n->inputs[0];
  }
  return v;
}

}  // namespace

Status LoopBuilder::read() {
  node_.op = form_.node.op_type();
  node_.opset = scope_.frame->default_opset();
  if (!form_.node.name().empty()) node_.name = scope_.frame->prefix + form_.node.name();
  for (const wire::Attribute& a : form_.node.attribute()) {
    if (a.name() == "body" && a.has_g()) form_.body = &a.g();
  }
  if (form_.body == nullptr) return invalid_model("it has no body");
  RP_ASSIGN(node_.inputs, import_.nodes.inputs_of(scope_, form_.node));
  RP_TRY(import_.nodes.set_attributes(scope_, form_.node, node_));
  if (form_.is_scan) {
    RP_TRY(read_scan());
  } else {
    node_.inputs.resize(std::max<size_t>(node_.inputs.size(), 2), kNone);
    form_.carried.assign(node_.inputs.begin() + 2, node_.inputs.end());
  }
  for (const ValueId v : form_.carried) {
    if (v == kNone) return invalid_model("a value that iterations pass on is missing");
    const Shape& shape = g_.value(v).shape;
    carried_shapes_.push_back(batched() ? without_axis(v, 0) : shape);
    varies_.emplace_back(carried_shapes_.back().size(), false);
    carried_items_.push_back(g_.value(v).items);
  }
  wrapped_.resize(form_.carried.size());
  const size_t returned = static_cast<size_t>(form_.body->output_size()) + (form_.is_scan ? 1 : 0);
  if (returned < form_.carried.size() + 1) return invalid_model("its body returns too few values");
  const size_t outputs = returned - 1;
  if (static_cast<size_t>(form_.node.output_size()) > outputs) {
    return invalid_model("it has " + std::to_string(form_.node.output_size()) +
                         " outputs, but its body returns " + std::to_string(outputs));
  }
  return form_.is_scan ? read_axes() : Status();
}

Status LoopBuilder::read_scan() {
  const size_t first = batched() ? 1 : 0;  // the lengths of sequences
  const int64_t scanned = node_.attrs.get_int("num_scan_inputs", 0);
  if (scanned < 1 || node_.inputs.size() < first ||
      static_cast<uint64_t>(scanned) > node_.inputs.size() - first) {
    return invalid_model("attribute 'num_scan_inputs' = " + std::to_string(scanned) +
                         " does not fit its " + std::to_string(node_.inputs.size()) + " inputs");
  }
  const auto middle = node_.inputs.end() - scanned;
  form_.carried.assign(node_.inputs.begin() + static_cast<std::ptrdiff_t>(first), middle);
  form_.scanned.assign(middle, node_.inputs.end());
  for (const ValueId v : node_.inputs) {
    if (v == kNone && (!batched() || v != node_.inputs[0]))
      return invalid_model("one of its inputs is missing");
    if (batched() && v != kNone && v != node_.inputs[0] && g_.value(v).shape.empty())
      return invalid_model("input '" + g_.value(v).name + "' has no batch axis");
  }
  return {};
}

Status LoopBuilder::read_axes() {
  const auto read = [&](const char* attribute, size_t count) {
    std::vector<int64_t> list = node_.attrs.get_ints(attribute);
    if (list.empty()) list.assign(count, 0);
    return list;
  };
  const char* directions = batched() ? "directions" : "scan_input_directions";
  const size_t outputs = static_cast<size_t>(form_.body->output_size()) - form_.carried.size();
  const std::vector<int64_t> in_axes = read("scan_input_axes", form_.scanned.size());
  const std::vector<int64_t> in_directions = read(directions, form_.scanned.size());
  const std::vector<int64_t> out_directions = read("scan_output_directions", outputs);
  if (in_axes.size() != form_.scanned.size() || in_directions.size() != form_.scanned.size() ||
      out_directions.size() != outputs || read("scan_output_axes", outputs).size() != outputs) {
    return invalid_model("an attribute does not have one element for each scanned value");
  }
  for (size_t i = 0; i < form_.scanned.size(); ++i) {
    const auto rank =
        static_cast<int64_t>(g_.value(form_.scanned[i]).shape.size()) - (batched() ? 1 : 0);
    const int64_t axis = in_axes[i] < 0 ? in_axes[i] + rank : in_axes[i];
    if (axis < 0 || axis >= rank) {
      return invalid_model("input '" + g_.value(form_.scanned[i]).name + "' has no axis " +
                           std::to_string(in_axes[i]) + " to scan");
    }
    form_.in_axes.push_back(static_cast<size_t>(axis) + (batched() ? 1 : 0));
    form_.in_reversed.push_back(in_directions[i] != 0);
  }
  for (const int64_t d : out_directions) form_.out_reversed.push_back(d != 0);
  return {};
}

Shape LoopBuilder::without_axis(ValueId v, size_t axis) const {
  Shape shape = g_.value(v).shape;
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return shape;
}

std::vector<BodyInput> LoopBuilder::iteration_inputs() const {
  std::vector<BodyInput> out;
  if (!form_.is_scan) out = {{DType::I64, {}}, {DType::Bool, {}}};
  for (size_t i = 0; i < form_.carried.size(); ++i)
    out.push_back({g_.value(form_.carried[i]).dtype, carried_shapes_[i], carried_items_[i]});
  for (size_t i = 0; i < form_.scanned.size(); ++i) {
    Shape shape = without_axis(form_.scanned[i], form_.in_axes[i]);
    if (batched()) shape.erase(shape.begin());
    out.push_back({g_.value(form_.scanned[i]).dtype, std::move(shape)});
  }
  return out;
}

Expr LoopBuilder::fresh_dim(ValueId out, size_t axis) {
  Symbol s;
  s.name = (out == kNone ? "loop" : g_.value(out).name) + "_dim" + std::to_string(axis);
  const SymbolSource source{
      SymbolSource::Kind::HostOutput, out.number(), static_cast<int32_t>(axis), {}};
  return Expr::symbol(g_.add_symbol(std::move(s), source));
}

/// Whether the condition of a Loop is true at first.
bool LoopBuilder::starts() const {
  return node_.inputs[1] == kNone || known_condition(g_, node_.inputs[1]) == true;
}

/// Whether the first iteration certainly runs.
bool LoopBuilder::runs_once() const {
  if (form_.is_scan)
    return false;  // a Scan may not change the types of the values that it passes on
  const ValueId count = node_.inputs[0];
  return starts() && (count == kNone || known_integer(g_.value(count)).value_or(0) > 0);
}

/// Replaces an initial value that has another rank than what iterations return for it, where that
/// changes no result, as Paddle exports loops:
/// - No iteration reads it. Zeros take its place, whose dims are 0 where the returned ones are not
///   known, and all of them if there were many elements.
/// - Both have one element. The initial value gets the returned rank.
/// Returns whether it did.
Result<bool> LoopBuilder::replace_initial(size_t i, const Graph& body) {
  if (!runs_once()) return false;
  const graph::Value& returned = body.value(body.outputs[i + 1]);
  const size_t rank = returned.shape.size();
  ValueId v = form_.carried[i];
  if (body.use_count(body.inputs[i + 2]) == 0) {
    std::vector<int64_t> dims;
    for (const Expr& dim : returned.shape) dims.push_back(dim.is_const() ? dim.value() : 0);
    const auto count = checked_element_count(dims, returned.dtype);
    if (!count.ok() || *count > kMaxZeros) dims.assign(rank, 0);
    v = g_.add_constant(g_.value(v).name + "/zeros", HostTensor(returned.dtype, dims));
  } else {
    if (!element_count(returned.shape).is_const(1)) return false;
    if (!element_count(carried_shapes_[i]).is_const(1)) return false;
    while (g_.value(v).shape.size() != rank) {
      const char* op = g_.value(v).shape.size() < rank ? "Unsqueeze" : "Squeeze";
      RP_ASSIGN(v, add_axis_node(g_, form_.name(), op, {v}, 0));
    }
    ranks_.clear();
    for (const ValueId o : body.outputs) ranks_.push_back(body.value(o).shape.size());
  }
  form_.carried[i] = node_.inputs[i + 2] = v;
  carried_shapes_[i] = g_.value(v).shape;
  varies_[i].assign(rank, false);
  return true;
}

/// Refuses a body whose results got other ranks when an initial value did. The model's results have
/// the ranks from before if the loop runs once.
Status LoopBuilder::check_ranks(const Graph& body) {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const graph::Value& v = body.value(body.outputs[i]);
    if (v.shape.size() == ranks_[i]) continue;
    return unsupported("the rank of '" + v.name + "' in the first iteration is " +
                       std::to_string(ranks_[i]) + ", and in the others " +
                       std::to_string(v.shape.size()) + "; give the initial values the rank that " +
                       "iterations return");
  }
  ranks_.clear();
  return {};
}

/// Replaces the dims of carried values that an iteration changes. Returns whether there were any.
Result<bool> LoopBuilder::generalize(const Graph& body) {
  bool changed = false;
  for (size_t i = 0; i < form_.carried.size(); ++i) {
    const graph::Value& returned = body.value(body.outputs[i + (form_.is_scan ? 0 : 1)]);
    const graph::Value& initial = g_.value(form_.carried[i]);
    Shape& shape = carried_shapes_[i];
    if (returned.dtype != initial.dtype || returned.shape.size() != shape.size()) {
      if (returned.dtype == initial.dtype) {
        RP_ASSIGN(const bool replaced, replace_initial(i, body));
        changed = changed || replaced;
        if (replaced) continue;
      }
      return unsupported("value '" + initial.name + "' is " + std::string(name_of(initial.dtype)) +
                         shape_str(shape, g_.symbols) + " at first, but an iteration returns " +
                         std::string(name_of(returned.dtype)) +
                         shape_str(returned.shape, body.symbols) +
                         " for it; the type and the rank must stay the same");
    }
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == returned.shape[d] || varies_[i][d]) continue;
      shape[d] = fresh_dim(kNone, d);
      varies_[i][d] = changed = true;
    }
    graph::Items items = joined(carried_items_[i], items_outside(g_, returned.items));
    changed = changed || !(items == carried_items_[i]);
    carried_items_[i] = std::move(items);
  }
  return changed;
}

/// A body may take an optional and return a value, which is an optional in the next iteration.
Status LoopBuilder::wrap_optionals(Graph& body) {
  std::vector<ValueId> outputs = body.outputs;
  for (size_t i = 0; i < form_.carried.size(); ++i) {
    ValueId& v = outputs[i + (form_.is_scan ? 0 : 1)];
    const DType wanted = g_.value(form_.carried[i]).dtype;
    if (!is_optional(wanted) || body.value(v).dtype != item_type_of(wanted)) continue;
    wrapped_[i] = true;
    RP_ASSIGN(v, add_simple(body, "Optional", v, body.value(v).name + "/optional"));
  }
  body.set_outputs(std::move(outputs));
  return {};
}

/// Makes output i of the model what the last iteration returned in an optional.
Status LoopBuilder::unwrap(size_t i, ValueId optional) {
  const std::string name = scope_.name_in_graph(form_.node.output(static_cast<int>(i)));
  RP_ASSIGN(const ValueId v, add_simple(g_, "OptionalGetElement", optional, name));
  return name_output(i, v);
}

Status LoopBuilder::import_body() {
  first_own_symbol_ = g_.symbols.size();
  // Each attempt but the last replaces a dim or an initial value, and ranks do not grow again, so
  // this ends.
  for (;;) {
    Scope inner;
    auto body = onnx::import_body(import_, scope_, *form_.body, iteration_inputs(), inner);
    if (!body.ok()) return body.status().with_context("in the body");
    RP_TRY(import_.refusals.omit_if_untyped(**body, (*body)->outputs));
    RP_TRY(wrap_optionals(**body));
    RP_TRY(check_ranks(**body));
    RP_ASSIGN(const bool changed, generalize(**body));
    if (changed) continue;
    iteration_ = *std::move(body);
    iteration_scope_ = std::move(inner);
    return {};
  }
}

/// The axes along which results are stacked: 0 for a Loop, and by default for a Scan.
Status LoopBuilder::find_out_axes() {
  const std::vector<int64_t> given = node_.attrs.get_ints("scan_output_axes");
  for (size_t i = form_.carried.size() + (form_.is_scan ? 0 : 1); i < iteration_->outputs.size();
       ++i) {
    const size_t k = form_.out_axes.size();
    if (is_container(iteration_->value(iteration_->outputs[i]).dtype)) {
      return invalid_model("its body returns a " +
                           std::string(name_of(iteration_->value(iteration_->outputs[i]).dtype)) +
                           " to stack; only tensors are stacked");
    }
    const auto rank =
        static_cast<int64_t>(iteration_->value(iteration_->outputs[i]).shape.size()) + 1;
    int64_t axis = form_.is_scan && !given.empty() ? given[k] : 0;
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) {
      return invalid_model("attribute 'scan_output_axes': axis " + std::to_string(given[k]) +
                           " of a result of rank " + std::to_string(rank) + " does not exist");
    }
    form_.out_axes.push_back(static_cast<size_t>(axis));
  }
  return {};
}

std::optional<int64_t> LoopBuilder::iterations() const {
  if (!form_.is_scan) {
    if (node_.inputs[0] == kNone || !condition_holds()) return std::nullopt;
    const auto count = known_integer(g_.value(node_.inputs[0]));
    return count ? std::optional(std::max<int64_t>(*count, 0)) : std::nullopt;
  }
  const Expr& length = g_.value(form_.scanned[0]).shape[form_.in_axes[0]];
  return length.is_const() ? std::optional(length.value()) : std::nullopt;
}

/// Whether the condition of a Loop is true at first and in every iteration.
bool LoopBuilder::condition_holds() const {
  if (!starts()) return false;
  const ValueId returned = origin_of(*iteration_, iteration_->outputs[0]);
  return returned == iteration_->inputs[1] || known_condition(*iteration_, returned) == true;
}

Status LoopBuilder::name_output(size_t i, ValueId v) {
  const std::string& name = form_.node.output(static_cast<int>(i));
  RP_TRY(import_.names.check_declared(scope_, name, v, node_text(form_.node)));
  scope_.names.insert_or_assign(name, v);
  return {};
}

/// The shape of output i. Dims that only a run of the loop determines are symbols.
Shape LoopBuilder::output_shape(ValueId out, size_t i) {
  const bool carried = i < form_.carried.size();
  const graph::Value& returned =
      iteration_->value(iteration_->outputs[i + (form_.is_scan ? 0 : 1)]);
  Shape shape;
  if (batched()) shape.push_back(g_.value(form_.scanned[0]).shape[0]);
  const auto add_length = [&] {
    const std::optional<int64_t> count = iterations();
    shape.push_back(form_.is_scan ? g_.value(form_.scanned[0]).shape[form_.in_axes[0]]
                    : count       ? Expr(*count)
                                  : fresh_dim(out, shape.size()));
  };
  const Shape& own = carried ? carried_shapes_[i] : returned.shape;
  const size_t stacked_at = carried ? own.size() + 1 : form_.out_axes[i - form_.carried.size()];
  for (size_t d = 0; d <= own.size(); ++d) {
    if (d == stacked_at) add_length();
    if (d == own.size()) break;
    const bool varies = own[d].largest_symbol() >= static_cast<SymbolId>(first_own_symbol_);
    shape.push_back(varies ? fresh_dim(out, shape.size()) : own[d]);
  }
  return shape;
}

/// Returns a condition that no iteration computes as it is, so that no run reads it.
void LoopBuilder::simplify_condition() {
  std::vector<ValueId> outputs(iteration_->outputs.begin(), iteration_->outputs.end());
  const ValueId returned = origin_of(*iteration_, outputs[0]);
  if (returned != iteration_->inputs[1] && !known_condition(*iteration_, returned)) return;
  outputs[0] = returned;
  iteration_->set_outputs(std::move(outputs));
}

Status LoopBuilder::keep() {
  if (!form_.is_scan) simplify_condition();
  node_.subgraphs.emplace_back("body", iteration_);
  join_captures(node_, std::span(&iteration_scope_, 1));
  for (int i = 0; i < form_.node.output_size(); ++i) {
    const std::string& name = form_.node.output(i);
    const bool wrapped = static_cast<size_t>(i) < form_.carried.size() && wrapped_[i];
    node_.outputs.push_back(
        name.empty() ? kNone
                     : g_.add_unknown(scope_.name_in_graph(name) + (wrapped ? "/optional" : "")));
  }
  const graph::Node* added = g_.add_node(node_);
  for (size_t i = 0; i < added->outputs.size(); ++i) {
    const ValueId out = added->outputs[i];
    if (out == kNone) continue;
    const ValueId returned = iteration_->outputs[i + (form_.is_scan ? 0 : 1)];
    Shape shape = output_shape(out, i);
    graph::Value& v = g_.value(out);
    if (i < form_.carried.size()) v.items = carried_items_[i];
    v.dtype = iteration_->value(returned).dtype;
    v.shape = std::move(shape);
    v.has_shape = true;
    const bool wrapped = i < form_.carried.size() && wrapped_[i];
    RP_TRY(wrapped ? unwrap(i, out) : name_output(i, out));
  }
  const bool any = std::find(wrapped_.begin(), wrapped_.end(), true) != wrapped_.end();
  return any ? Status() : import_.nodes.check_outputs(scope_, form_.node, *added);
}

/// Writes so many iterations into the graph.
Status LoopBuilder::write_out(int64_t count) {
  RP_ASSIGN(const std::vector<ValueId> outputs, UnrolledLoop(import_, scope_, form_).write(count));
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i] != kNone) RP_TRY(name_output(i, outputs[i]));
  return {};
}

Status LoopBuilder::run() {
  RP_TRY(read());
  RP_TRY(import_body());
  RP_TRY(find_out_axes());
  const std::optional<int64_t> count = iterations();
  return count && !batched() && may_unroll(*count, *iteration_) ? write_out(*count) : keep();
}

Status add_loop(Import& import, Scope& scope, const wire::Node& n) {
  return LoopBuilder(import, scope, n).run().with_context(node_text(n));
}

}  // namespace reprise::onnx
