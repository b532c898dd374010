#include "codegen/builder/graph_builder.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "codegen/graph/text/core_form.h"
#include "codegen/ops/row/dims.h"
#include "codegen/ops/row/op.h"

namespace reprise::builder {

namespace {

constexpr int64_t kLargestDim = (int64_t{1} << 31) - 1;
constexpr size_t kMostRank = 64;

Status usage(std::string message) {
  return {Code::Usage, std::move(message)};
}

std::string quoted(const std::string& name) {
  return "'" + name.substr(0, 200) + "'";
}

std::map<std::string, int64_t> with_defaults(const std::map<std::string, int64_t>& opsets) {
  std::map<std::string, int64_t> all{{"", kDefaultOpset}, {"com.microsoft", 1}};
  for (const auto& [domain, version] : opsets)
    all.insert_or_assign(domain == "ai.onnx" ? std::string() : domain, version);
  return all;
}

/// A fault that inference calls internal is the caller's here.
Status of_caller(const Status& s) {
  if (s.code() != Code::Internal) return s;
  return s.reworded(Code::InvalidModel, s.message());
}

/// A tensor of the caller whose dims fit its bytes. It is copied if its elements are not aligned.
Result<HostTensor> checked(HostTensor t, const std::string& subject) {
  if (!is_dtype(static_cast<uint8_t>(t.dtype())) || is_container(t.dtype()))
    return usage(subject + " has no dtype of a tensor");
  if (t.dims().size() > kMostRank)
    return usage(subject + " has rank " + std::to_string(t.dims().size()) + ", the largest is " +
                 std::to_string(kMostRank));
  const auto count = checked_element_count(t.dims(), t.dtype());
  if (!count.ok()) return count.status().with_context(subject);
  const size_t bytes = static_cast<size_t>(*count) * size_of(t.dtype());
  if (t.bytes().size() != bytes)
    return usage(subject + " is " + describe(t.dtype(), t.dims()) + " of " + std::to_string(bytes) +
                 " bytes, but " + std::to_string(t.bytes().size()) + " are given");
  const size_t alignment = std::max<size_t>(size_of(t.dtype()), 1);
  if (reinterpret_cast<uintptr_t>(t.bytes().data()) % alignment == 0) return t;
  HostTensor aligned(t.dtype(), t.dims());
  std::memcpy(aligned.mutable_bytes().data(), t.bytes().data(), bytes);
  return aligned;
}

/// coefficient * symbol + rest, where no other symbol of the builder lacks a value.
struct LinearForm {
  SymbolId symbol;
  int64_t coefficient;
  Expr rest;
};

std::optional<LinearForm> linear_form(const Expr& e,
                                      const std::vector<std::optional<Expr>>& bound) {
  std::optional<LinearForm> form;
  Expr rest = e.constant();
  for (const Term& term : e.terms()) {
    const Atom* atom = term.single();
    const bool symbol = atom != nullptr && atom->kind() == Atom::Kind::Symbol;
    Expr part = term.coefficient;
    if (symbol && !bound[static_cast<size_t>(atom->symbol())]) {
      if (form || term.coefficient < 1) return std::nullopt;
      form = LinearForm{atom->symbol(), term.coefficient, {}};
      continue;
    }
    for (const Atom& a : term.atoms()) part *= a.expr();
    const auto free = part.symbols();
    if (std::ranges::any_of(free, [&](SymbolId s) { return !bound[static_cast<size_t>(s)]; }))
      return std::nullopt;
    rest += part;
  }
  if (form) form->rest = rest;
  return form;
}

}  // namespace

GraphBuilder::GraphBuilder(std::string name, const std::map<std::string, int64_t>& opsets)
    : graph_(std::make_unique<graph::Graph>()),
      opsets_(with_defaults(opsets)),
      importer_(*graph_, opsets_) {
  graph_->name = std::move(name);
}

Status GraphBuilder::check_open() const {
  return graph_ ? Status() : usage("the builder has finished its graph; make another builder");
}

Status GraphBuilder::check_name(const std::string& kind, const std::string& name) const {
  RP_TRY(check_open());
  if (name.empty()) return usage("the " + kind + " needs a name");
  if (!open_.empty())
    return usage(kind + " " + quoted(name) + " is added inside the body " +
                 quoted(open_.back().body->name) + "; only nodes are: end the body first");
  if (names_.contains(name)) return usage("value " + quoted(name) + " is defined twice");
  return {};
}

std::string GraphBuilder::new_name(const std::string& base) {
  auto [at, fresh] = names_.try_emplace(base, 1);
  if (fresh) return base;
  std::string name;
  do {
    name = base + "_" + std::to_string(at->second++);
  } while (names_.contains(name));
  names_.emplace(name, 1);
  return name;
}

Value GraphBuilder::add(std::string name, int body, graph::ValueId id) {
  names_.try_emplace(name, 1);
  values_.push_back({std::move(name), body, id});
  return Value(values_.size() - 1);
}

Status GraphBuilder::check_visible(Value v, const std::string& reader) const {
  if (v.is_none() || v.index() >= values_.size())
    return usage(reader + " reads value " + std::to_string(v.number()) +
                 ", which the builder does not have; it has " + std::to_string(values_.size()));
  const Entry& e = values_[v.index()];
  const bool visible = e.body == 0 || std::ranges::any_of(open_, [&](const OpenBody& o) {
                         return o.number == e.body;
                       });
  return visible ? Status()
                 : usage(reader + " reads " + quoted(e.name) +
                         ", which belongs to a body that has ended; return it from the body");
}

Result<std::vector<std::string>> GraphBuilder::names_of(std::span<const Value> values,
                                                        const std::string& reader) {
  std::vector<std::string> names;
  for (const Value v : values) {
    if (v == kOmitted) {
      names.emplace_back();
      continue;
    }
    RP_TRY(check_visible(v, reader));
    names.push_back(values_[v.index()].name);
  }
  return names;
}

// Sizes

Result<Expr> GraphBuilder::symbol(const std::string& name, const SizeLimits& limits) {
  RP_TRY(check_open());
  if (name.empty()) return usage("the symbol needs a name");
  if (std::ranges::find(declared_, name, &Symbol::name) != declared_.end())
    return usage("symbol " + quoted(name) + " is declared twice");
  if (limits.min > limits.max || limits.divisor < 1)
    return usage(
        "symbol " + quoted(name) + " has the limits " + std::to_string(limits.min) + " to " +
        std::to_string(limits.max) + " and the divisor " + std::to_string(limits.divisor) +
        "; needed are a minimum that is not above the maximum, and a divisor of at least 1");
  declared_.push_back({name, limits.min, limits.max, limits.divisor});
  bound_.emplace_back();
  return Expr::symbol(static_cast<SymbolId>(declared_.size() - 1));
}

Result<Expr> GraphBuilder::expression(std::string_view text) const {
  auto e = Expr::parse(text, declared_);
  if (!e.ok()) return usage("the size '" + std::string(text) + "': " + e.status().message());
  return e;
}

Status GraphBuilder::check_symbols(const Expr& e, const std::string& where) const {
  if (e.is_overflow()) return usage(where + " overflows 64 bits");
  for (const SymbolId s : e.symbols()) {
    if (s < 0 || static_cast<size_t>(s) >= declared_.size())
      return usage(where + " has symbol " + std::to_string(s) + ", but the builder has declared " +
                   std::to_string(declared_.size()) + " symbols");
  }
  return {};
}

bool GraphBuilder::all_bound(const Expr& e) const {
  const std::vector<SymbolId> used = e.symbols();
  return std::ranges::all_of(
      used, [this](SymbolId s) { return bound_[static_cast<size_t>(s)].has_value(); });
}

Result<Expr> GraphBuilder::resolved(const Expr& e, const std::string& where) const {
  RP_TRY(check_symbols(e, where));
  for (const SymbolId s : e.symbols()) {
    if (!bound_[static_cast<size_t>(s)])
      return usage(where + " needs the size " + quoted(declared_[static_cast<size_t>(s)].name) +
                   ", which has no value yet: add the input that has it as a dim before");
  }
  return e.substitute([this](SymbolId s) { return bound_[static_cast<size_t>(s)]; });
}

Expr GraphBuilder::dim_symbol(Symbol s, size_t axis) {
  return Expr::symbol(graph_->add_symbol(
      std::move(s), {SymbolSource::Kind::InputDim, static_cast<int32_t>(graph_->inputs.size()),
                     static_cast<int32_t>(axis)}));
}

std::optional<Expr> GraphBuilder::bind_linear(const Expr& e, const std::string& input,
                                              size_t axis) {
  const std::optional<LinearForm> form = linear_form(e, bound_);
  if (!form) return std::nullopt;
  const auto at = static_cast<size_t>(form->symbol);
  if (form->coefficient == 1 && form->rest.is_const(0)) {
    Symbol s = declared_[at];
    s.min = std::max<int64_t>(s.min, 0);
    s.max = std::min(s.max, kLargestDim);
    bound_[at] = dim_symbol(std::move(s), axis);
    return bound_[at];
  }
  const Expr rest =
      form->rest.substitute([this](SymbolId s) { return bound_[static_cast<size_t>(s)]; });
  Symbol carrier;
  carrier.name = input + "_dim" + std::to_string(axis);
  if (rest.is_const()) {
    const auto limit = [&](int64_t part) {
      const Expr dim = Expr(part) * form->coefficient + rest;
      return dim.is_const() && !dim.is_overflow() ? dim.value() : kLargestDim;
    };
    carrier.min = std::clamp<int64_t>(limit(declared_[at].min), 0, kLargestDim);
    carrier.max = std::clamp<int64_t>(limit(declared_[at].max), 0, kLargestDim);
  }
  const Expr dim = dim_symbol(std::move(carrier), axis);
  const Expr part =
      graph_->derived_symbol(declared_[at].name, Expr::floordiv(dim - rest, form->coefficient));
  if (const auto id = part.as_symbol()) {
    Symbol& s = graph_->symbols[static_cast<size_t>(*id)];
    s.min = std::max(s.min, declared_[at].min);
    s.max = std::min(s.max, declared_[at].max);
    s.divisor = std::max(s.divisor, declared_[at].divisor);
  }
  bound_[at] = part;
  return part * form->coefficient + rest;
}

Result<Expr> GraphBuilder::input_dim(const Expr& e, const std::string& input, size_t axis) {
  const std::string where = "dimension " + std::to_string(axis) + " of input " + quoted(input);
  RP_TRY(check_symbols(e, where));
  if (e.is_const()) {
    if (e.value() >= 0 && e.value() <= kLargestDim) return e;
    return usage(where + " is " + std::to_string(e.value()) + ", expected 0 to " +
                 std::to_string(kLargestDim));
  }
  if (all_bound(e)) return resolved(e, where);
  if (const std::optional<Expr> dim = bind_linear(e, input, axis)) return *dim;
  Symbol own;
  own.name = input + "_dim" + std::to_string(axis);
  const Expr found = dim_symbol(std::move(own), axis);
  pending_.push_back({where, found, e});
  return found;
}

Status GraphBuilder::settle_pending() {
  for (size_t i = 0; i < pending_.size();) {
    if (!all_bound(pending_[i].declared)) {
      ++i;
      continue;
    }
    const PendingDim now = pending_[i];
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    RP_ASSIGN(const Expr declared, resolved(now.declared, now.what));
    graph::DimGuard g;
    g.a = now.found;
    g.b = declared;
    g.node = now.what;
    if (!ops::propagate_equality(*graph_, g.a, g.b)) graph_->guards.push_back(std::move(g));
    ops::simplify_broadcasts(*graph_);
  }
  return {};
}

Status GraphBuilder::guard(DimGuard::Kind kind, const Expr& a, const Expr& b,
                           const std::string& what) {
  RP_TRY(check_open());
  graph::DimGuard g;
  g.kind = kind;
  RP_ASSIGN(g.a, resolved(a, "the guard of " + quoted(what)));
  RP_ASSIGN(g.b, resolved(b, "the guard of " + quoted(what)));
  g.node = what;
  if (g.a.is_const() && g.b.is_const()) {
    const int64_t x = g.a.value(), y = g.b.value();
    const bool holds = kind == DimGuard::Kind::AtLeast       ? x >= y
                       : kind == DimGuard::Kind::BroadcastTo ? x == y || x == 1
                       : kind == DimGuard::Kind::Broadcast   ? x == y || x == 1 || y == 1
                                                             : x == y;
    if (holds) return {};
    return invalid_model("the guard of " + quoted(what) + " never holds: its sizes are " +
                         std::to_string(x) + " and " + std::to_string(y));
  }
  if (g.a == g.b) return {};
  const bool equal = kind == DimGuard::Kind::Equal;
  if (!equal) g.result = g.b;
  if (!equal || !ops::propagate_equality(*graph_, g.a, g.b)) graph_->guards.push_back(std::move(g));
  if (equal) ops::simplify_broadcasts(*graph_);
  return {};
}

// Values

Result<Value> GraphBuilder::input(const std::string& name, DType dtype, const Shape& dims) {
  RP_TRY(check_name("input", name));
  if (!is_dtype(static_cast<uint8_t>(dtype)))
    return usage("input " + quoted(name) + " has the unknown dtype " +
                 std::to_string(static_cast<int>(dtype)));
  if (is_container(dtype) && !dims.empty())
    return usage("input " + quoted(name) + " is " + std::string(name_of(dtype)) +
                 ", which has no dims; " + std::to_string(dims.size()) + " are given");
  if (dims.size() > kMostRank)
    return usage("input " + quoted(name) + " has rank " + std::to_string(dims.size()) +
                 ", the largest is " + std::to_string(kMostRank));
  if (is_static(dims)) {
    const Status s = checked_element_count(static_dims(dims), dtype).status();
    RP_TRY(s.with_context("input " + quoted(name)));
  }
  for (size_t axis = 0; axis < dims.size(); ++axis)
    RP_TRY(check_symbols(dims[axis],
                         "dimension " + std::to_string(axis) + " of input " + quoted(name)));
  Shape shape;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    RP_ASSIGN(Expr dim, input_dim(dims[axis], name, axis));
    shape.push_back(std::move(dim));
  }
  graph::Graph& g = *graph_;
  const graph::ValueId id = is_container(dtype) ? g.add_container(name, dtype, {})
                                                : g.add_value(name, dtype, std::move(shape));
  g.inputs.push_back(id);
  RP_TRY(importer_.define(name, id));
  RP_TRY(settle_pending());
  return add(name, 0, id);
}

Result<Value> GraphBuilder::constant(const std::string& name, HostTensor t) {
  RP_TRY(check_open());
  if (!name.empty() && names_.contains(name))
    return usage("value " + quoted(name) + " is defined twice");
  RP_ASSIGN(t, checked(std::move(t), "constant " + quoted(name)));
  const std::string own = name.empty() ? new_name("constant") : name;
  const graph::ValueId id = graph_->add_constant(own, std::move(t));
  RP_TRY(importer_.define(own, id));
  return add(own, 0, id);
}

Result<Value> GraphBuilder::state(const std::string& name, HostTensor initial) {
  RP_TRY(check_name("state", name));
  RP_ASSIGN(initial, checked(std::move(initial), "state " + quoted(name)));
  if (initial.dtype() == DType::String)
    return usage("state " + quoted(name) + " must be a tensor of numbers, not of strings");
  const Shape dims(initial.dims().begin(), initial.dims().end());
  RP_ASSIGN(const Value v, input(name, initial.dtype(), dims));
  states_.push_back({name, "", std::move(initial)});
  state_values_.push_back(v);
  return v;
}

Status GraphBuilder::next_state(Value state, Value next, const std::string& name) {
  RP_TRY(check_open());
  const auto at = std::ranges::find(state_values_, state);
  if (state.is_none() || at == state_values_.end())
    return usage("the next value " + quoted(name) + " is given for a value that is no state");
  BuiltGraph::State& s = states_[static_cast<size_t>(at - state_values_.begin())];
  if (!s.output.empty())
    return usage("state " + quoted(s.input) + " has the next value " + quoted(s.output) +
                 " already; a second one is " + quoted(name));
  RP_TRY(output(name, next));
  s.output = name;
  return {};
}

Status GraphBuilder::output(const std::string& name, Value v) {
  RP_TRY(check_open());
  if (name.empty()) return usage("the output needs a name");
  if (!open_.empty())
    return usage("output " + quoted(name) + " is added inside the body " +
                 quoted(open_.back().body->name) + "; end the body first");
  RP_TRY(check_visible(v, "output " + quoted(name)));
  if (std::ranges::any_of(outputs_, [&](const auto& o) { return o.first == name; }))
    return usage("output " + quoted(name) + " is listed twice");
  outputs_.emplace_back(name, v);
  return {};
}

// Nodes

void GraphBuilder::release(const std::vector<std::string>& names) {
  for (const std::string& name : names) names_.erase(name);
}

Result<std::vector<std::string>> GraphBuilder::result_names(const std::string& op,
                                                            const std::string& node, size_t outputs,
                                                            const OutputNames& given) {
  const std::string who = "node " + quoted(node.empty() ? op : node);
  if (outputs == 0) return usage(who + " has no outputs, expected at least 1").about(node);
  if (!given.empty() && given.size() != outputs)
    return usage(who + " has " + std::to_string(outputs) + " outputs, but " +
                 std::to_string(given.size()) + " names of outputs are given")
        .about(node);
  std::vector<std::string> names;
  for (size_t i = 0; i < outputs; ++i) {
    if (i < given.size() && !given[i]) {
      names.emplace_back();
      continue;
    }
    const std::string& name = i < given.size() ? *given[i] : std::string();
    if (name.empty()) {
      const std::string base = node.empty() ? op : node;
      names.push_back(new_name(outputs == 1 ? base : base + "_" + std::to_string(i)));
    } else if (names_.try_emplace(name, 1).second) {
      names.push_back(name);
    } else {
      release(names);
      return usage("value " + quoted(name) + " is defined twice, the second time by " + who)
          .about(node);
    }
  }
  return names;
}

Result<onnx::NodeText> GraphBuilder::node_text(const OnnxNode& n) {
  const std::string who = "node " + quoted(n.name.empty() ? n.op : n.name);
  onnx::NodeText text{n.op, n.domain, n.name, {}, {}, n.attrs, {}};
  RP_ASSIGN(text.inputs, names_of(n.inputs, who));
  for (const auto& [label, body] : n.bodies) {
    if (body.is_none() || body.index() >= bodies_.size())
      return usage(who + " has the body " + std::to_string(body.number()) +
                   ", which the builder does not have; it has " + std::to_string(bodies_.size()));
    if (used_bodies_[body.index()])
      return usage(who + " has the body " + quoted(bodies_[body.index()]->name) +
                   ", which another node has already");
    text.bodies.emplace_back(label, bodies_[body.index()]);
  }
  return text;
}

Result<std::vector<Value>> GraphBuilder::node(const OnnxNode& n) {
  RP_TRY(check_open());
  if (n.op.empty()) return usage("the node " + quoted(n.name) + " has no operator").about(n.name);
  auto text = node_text(n);
  if (!text.ok()) return text.status().about(n.name.empty() ? n.op : n.name);
  RP_ASSIGN(text->outputs, result_names(n.op, n.name, n.outputs, n.output_names));
  std::vector<std::string> names = text->outputs;
  const int body = open_.empty() ? 0 : open_.back().number;
  if (body != 0) {
    if (n.version != 0) {
      release(names);
      return usage("node " + quoted(n.name) +
                   " in a body has a version of its own; nodes of bodies have those of the builder")
          .about(n.name);
    }
    open_.back().body->nodes.push_back(*std::move(text));
  } else {
    if (Status added = of_caller(importer_.add(*text, n.version)); !added.ok()) {
      release(names);
      return added;
    }
  }
  for (const auto& [label, used] : n.bodies) used_bodies_[used.index()] = true;
  std::vector<Value> results;
  for (std::string& name : names) {
    const graph::ValueId id = body == 0 ? importer_.find(name) : graph::kNone;
    results.push_back(name.empty() ? kOmitted : add(std::move(name), body, id));
  }
  return results;
}

Result<std::vector<Value>> GraphBuilder::core(const CoreNode& n) {
  RP_TRY(check_open());
  const std::string who = "node " + quoted(n.name.empty() ? n.op : n.name);
  if (!open_.empty())
    return usage(who + " is in core form, which nodes of bodies cannot be").about(n.name);
  graph::NodeSpec spec;
  spec.op = n.op;
  spec.name = n.name;
  for (const Value v : n.inputs) {
    if (v != kOmitted) RP_TRY(check_visible(v, who).about(n.name));
    spec.inputs.push_back(v == kOmitted ? graph::kNone : values_[v.index()].id);
  }
  for (const auto& [name, value] : n.attrs) {
    const auto* given = std::get_if<std::vector<Expr>>(&value);
    std::vector<Expr> exprs;
    for (size_t i = 0; given != nullptr && i < given->size(); ++i) {
      RP_ASSIGN(exprs.emplace_back(), resolved((*given)[i], who + ": attribute " + quoted(name)));
    }
    spec.attrs.set(name, given != nullptr ? Attr(std::move(exprs)) : value);
  }
  Shape shape;
  for (size_t d = 0; n.type && d < n.type->second.size(); ++d) {
    RP_ASSIGN(shape.emplace_back(), resolved(n.type->second[d], who + ": its result"));
  }
  RP_ASSIGN(std::vector<std::string> names, result_names(n.op, n.name, n.outputs, n.output_names));
  for (size_t i = 0; i < names.size(); ++i) {
    spec.outputs.push_back(names[i].empty()   ? graph::kNone
                           : i == 0 && n.type ? graph_->add_value(names[i], n.type->first, shape)
                                              : graph_->add_unknown(names[i]));
  }
  graph::Node* node = graph_->add_node(std::move(spec));
  const size_t guards = graph_->guards.size();
  Status valid = ops::infer(*graph_, *node);
  if (valid.ok()) {
    valid = graph::check_core_form(*graph_, *node)
                .with_context(who + " (" + n.op + ")")
                .about(node->name);
  }
  for (size_t i = 0; valid.ok() && i < names.size(); ++i)
    if (!names[i].empty()) valid = importer_.define(names[i], node->outputs[i]);
  if (!valid.ok()) {
    graph_->erase_node(node);
    graph_->guards.resize(std::min(guards, graph_->guards.size()));
    release(names);
    return of_caller(valid);
  }
  std::vector<Value> results;
  for (size_t i = 0; i < names.size(); ++i)
    results.push_back(names[i].empty() ? kOmitted : add(std::move(names[i]), 0, node->outputs[i]));
  return results;
}

Result<Value> GraphBuilder::sizes(std::span<const Expr> sizes, bool scalar) {
  if (scalar && sizes.size() != 1)
    return usage("a scalar has one size, but " + std::to_string(sizes.size()) + " are given");
  constexpr int64_t kOnnxInt64 = 7;
  CoreNode n;
  n.op = "ShapeValue";
  n.attrs.set("elements", std::vector<Expr>(sizes.begin(), sizes.end()));
  n.attrs.set("dtype", kOnnxInt64);
  n.attrs.set("scalar", static_cast<int64_t>(scalar));
  // Of the graph, wherever it is read.
  std::vector<OpenBody> open = std::move(open_);
  open_.clear();
  auto added = core(n);
  open_ = std::move(open);
  RP_ASSIGN(const std::vector<Value> results, std::move(added));
  return results[0];
}

Status GraphBuilder::begin_body(const std::string& name) {
  RP_TRY(check_open());
  auto body = std::make_shared<onnx::NodeBody>();
  body->name = name.empty() ? "body" : name;
  open_.push_back({++body_count_, std::move(body)});
  return {};
}

Result<Value> GraphBuilder::body_input(const std::string& name) {
  RP_TRY(check_open());
  if (open_.empty()) return usage("input " + quoted(name) + " of a body: no body was begun");
  if (!name.empty() && names_.contains(name))
    return usage("value " + quoted(name) + " is defined twice");
  const std::string own = name.empty() ? new_name("item") : name;
  open_.back().body->inputs.push_back(own);
  return add(own, open_.back().number, graph::kNone);
}

Result<Body> GraphBuilder::end_body(std::span<const Value> outputs) {
  RP_TRY(check_open());
  if (open_.empty()) return usage("a body ends, but none was begun");
  const std::shared_ptr<onnx::NodeBody> body = open_.back().body;
  RP_ASSIGN(std::vector<std::string> names, names_of(outputs, "body " + quoted(body->name)));
  if (std::ranges::find(outputs, kOmitted) != outputs.end())
    return usage("body " + quoted(body->name) + " returns a value that is left out");
  // Names of outputs differ, and each is that of a node of the body.
  std::set<std::string> computed;
  for (const onnx::NodeText& n : body->nodes) computed.insert(n.outputs.begin(), n.outputs.end());
  for (std::string& name : names) {
    if (computed.erase(name) != 0) continue;
    onnx::NodeText same;
    same.op = "Identity";
    same.inputs = {name};
    same.outputs = {new_name(body->name + "_result")};
    name = same.outputs[0];
    body->nodes.push_back(std::move(same));
  }
  body->outputs = std::move(names);
  open_.pop_back();
  bodies_.push_back(body);
  used_bodies_.push_back(false);
  return Body(bodies_.size() - 1);
}

// What is known

std::optional<std::pair<DType, Shape>> GraphBuilder::type(Value v) const {
  if (!graph_ || v.is_none() || v.index() >= values_.size()) return std::nullopt;
  const graph::ValueId id = values_[v.index()].id;
  if (id == graph::kNone) return std::nullopt;
  const graph::Value& value = graph_->value(id);
  if (!value.has_shape || value.dtype == DType::Invalid) return std::nullopt;
  return std::pair(value.dtype, value.shape);
}

std::string GraphBuilder::type_text(Value v) const {
  const auto known = type(v);
  if (!known) return {};
  const std::string dtype(name_of(known->first));
  return is_container(known->first) ? dtype : dtype + shape_str(known->second, graph_->symbols);
}

Status GraphBuilder::verify() const {
  RP_TRY(check_open());
  return graph::verify(*graph_, false);
}

Result<BuiltGraph> GraphBuilder::finish() {
  RP_TRY(check_open());
  if (!open_.empty())
    return usage("the body " + quoted(open_.back().body->name) + " has not ended");
  if (outputs_.empty()) return usage("the graph has no outputs; add at least one");
  for (const BuiltGraph::State& s : states_) {
    if (s.output.empty())
      return usage("state " + quoted(s.input) +
                   " has no next value; give it one, or make it an input");
  }
  if (!pending_.empty())
    return usage(pending_[0].what + " is " + text(pending_[0].declared) +
                 ", from which its sizes do not follow; add an input that has each as a dim");
  std::vector<std::string> names;
  for (const auto& [name, v] : outputs_) names.push_back(values_[v.index()].name);
  RP_TRY(of_caller(importer_.finish(names)));
  for (const auto& [name, v] : outputs_) {
    graph_->add_output(values_[v.index()].id);
    graph_->output_names.push_back(name);
  }
  graph_->notes = importer_.take_notes();
  RP_TRY(graph::verify(*graph_, false));
  return BuiltGraph{std::move(graph_), std::move(states_)};
}

}  // namespace reprise::builder
