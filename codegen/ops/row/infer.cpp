#include <algorithm>
#include <limits>
#include <utility>

#include "codegen/ops/row/op.h"
#include "codegen/ops/row/shape_arith.h"

namespace reprise::ops {

namespace {

constexpr int64_t kNewestOpset = 1000;

template <typename T>
std::vector<int64_t> widen(const HostTensor& t) {
  const T* p = t.data<T>();
  std::vector<int64_t> out;
  out.reserve(static_cast<size_t>(t.count()));
  for (int64_t i = 0; i < t.count(); ++i) out.push_back(static_cast<int64_t>(p[i]));
  return out;
}

std::optional<std::vector<int64_t>> integers_of(const HostTensor& t) {
  switch (t.dtype()) {
    case DType::I8:
      return widen<int8_t>(t);
    case DType::U8:
    case DType::Bool:
      return widen<uint8_t>(t);
    case DType::I16:
      return widen<int16_t>(t);
    case DType::U16:
      return widen<uint16_t>(t);
    case DType::I32:
      return widen<int32_t>(t);
    case DType::U32:
      return widen<uint32_t>(t);
    case DType::I64:
      return widen<int64_t>(t);
    default:
      return std::nullopt;
  }
}

std::optional<Bounds> range_of(DType t) {
  switch (t) {
    case DType::Bool:
      return Bounds{0, 1};
    case DType::I8:
      return Bounds{-128, 127};
    case DType::U8:
      return Bounds{0, 255};
    case DType::I16:
      return Bounds{-32768, 32767};
    case DType::U16:
      return Bounds{0, 65535};
    case DType::I32:
      return Bounds{std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    case DType::U32:
      return Bounds{0, std::numeric_limits<uint32_t>::max()};
    case DType::I64:
      return Bounds{};
    default:
      return std::nullopt;
  }
}

}  // namespace

int64_t InferContext::opset() const {
  return n_.opset == 0 ? kNewestOpset : n_.opset;
}

std::optional<std::vector<Expr>> InferContext::elements(size_t i) const {
  if (!has_input(i)) return std::nullopt;
  const graph::Value& v = input(i);
  if (v.elements) return v.elements;
  const HostTensor* known = v.contents();
  if (known == nullptr || known->count() > kMaxConstantElements) return std::nullopt;
  const auto ints = integers_of(*known);
  if (!ints) return std::nullopt;
  return std::vector<Expr>(ints->begin(), ints->end());
}

std::optional<std::vector<int64_t>> InferContext::constant_ints(size_t i) const {
  const auto e = elements(i);
  if (!e) return std::nullopt;
  std::vector<int64_t> out;
  for (const Expr& x : *e) {
    if (!x.is_const()) return std::nullopt;
    out.push_back(x.value());
  }
  return out;
}

Status InferContext::error(Code code, const std::string& message) const {
  return Status(code, "node '" + n_.name + "' (" + n_.op + "): " + message).about(n_.origins);
}

void InferContext::set_output(size_t i, DType dtype, Shape shape) {
  if (!status_.ok() || i >= n_.outputs.size() || n_.outputs[i] == graph::kNone) return;
  shape = sizes(std::move(shape));
  graph::Value& v = g_.value(n_.outputs[i]);
  if (v.dtype != DType::Invalid && v.dtype != dtype) {
    status_ = invalid("output '" + v.name + "' is declared " + std::string(name_of(v.dtype)) +
                      ", but the operator gives " + std::string(name_of(dtype)));
    return;
  }
  if (v.has_shape) {
    bool differ = v.shape.size() != shape.size();
    for (size_t d = 0; !differ && d < shape.size(); ++d) {
      differ = !may_equal(v.shape[d], shape[d], g_.symbols);
    }
    if (differ) {
      status_ = invalid("output '" + v.name + "' is declared with shape " + str(v.shape) +
                        ", but the operator gives " + str(shape));
      return;
    }
  }
  for (const Expr& d : shape) {
    if (!d.is_overflow() && bounds(d, g_.symbols).hi >= 0) continue;
    status_ = invalid("output '" + v.name + "' would get the impossible shape " + str(shape));
    return;
  }
  v.dtype = dtype;
  v.shape = std::move(shape);
  v.has_shape = true;
  v.elements.reset();
}

void InferContext::set_container(size_t i, DType dtype, graph::Items items) {
  set_output(i, dtype, {});
  if (i < n_.outputs.size() && n_.outputs[i] != graph::kNone)
    g_.value(n_.outputs[i]).items = std::move(items);
}

void ContentsContext::set_elements(size_t i, std::vector<Expr> e) {
  if (!has_output(i)) return;
  graph::Value& v = g_.value(n_.outputs[i]);
  for (Expr& x : e) x = size(x);
  const auto range = range_of(v.dtype);
  if (!range || !is_static(v.shape) || static_cast<int64_t>(e.size()) > kMaxElements) return;
  if (!element_count(v.shape).is_const(static_cast<int64_t>(e.size()))) return;
  for (const Expr& x : e) {
    if (x.is_overflow()) return;
    const Bounds b = bounds(x, g_.symbols);
    // Integers wrap, but expressions do not. Dims stay below 2^31, because a run with larger ones
    // is refused. So expressions of 32 or 64 bits are kept as they are, unless they may be negative
    // and the dtype is unsigned. Evaluation refuses overflows.
    const bool wide = size_of(v.dtype) >= 4 && !x.is_const();
    if (b.lo < range->lo && !(wide && range->lo < 0)) return;
    if (b.hi > range->hi && !wide) return;
  }
  v.elements = std::move(e);
}

Expr InferContext::fresh_symbol(size_t output, size_t axis, int64_t max) {
  graph::ValueId id = n_.outputs[output];
  if (id == graph::kNone) {  // unused in the model, but other dims depend on its dim
    id = g_.add_unknown(n_.name + "_output" + std::to_string(output));
    g_.set_output(n_, output, id);
  }
  for (size_t s = 0; s < g_.symbols.size() && s < g_.symbol_sources.size(); ++s) {
    const SymbolSource& src = g_.symbol_sources[s];
    if (src.kind == SymbolSource::Kind::HostOutput && src.index == id.number() &&
        src.axis == static_cast<int32_t>(axis)) {
      return Expr::symbol(static_cast<SymbolId>(s));
    }
  }
  Symbol symbol;
  symbol.name = g_.value(id).name + "_dim" + std::to_string(axis);
  symbol.max = max;
  SymbolSource source;
  source.kind = SymbolSource::Kind::HostOutput;
  source.index = id.number();
  source.axis = static_cast<int32_t>(axis);
  return Expr::symbol(g_.add_symbol(std::move(symbol), std::move(source)));
}

Shape InferContext::fresh_shape(size_t output, size_t rank) {
  Shape s;
  for (size_t d = 0; d < rank; ++d) s.push_back(fresh_symbol(output, d));
  return s;
}

Result<int64_t> InferContext::axis(int64_t a, int64_t rank) const {
  if (a < -rank || a >= rank) {
    return invalid("axis " + std::to_string(a) + " is out of range for rank " +
                   std::to_string(rank));
  }
  return a < 0 ? a + rank : a;
}

Result<std::vector<int64_t>> InferContext::axes(std::span<const int64_t> list, int64_t rank) const {
  std::vector<int64_t> out;
  for (int64_t a : list) {
    RP_ASSIGN(const int64_t at, axis(a, rank));
    if (std::find(out.begin(), out.end(), at) != out.end()) {
      return invalid("axis " + std::to_string(a) + " is given twice");
    }
    out.push_back(at);
  }
  return out;
}

namespace {

bool has_type(const Attr& attr, AttrType type) {
  switch (type) {
    case AttrType::Int:
      return std::holds_alternative<int64_t>(attr);
    case AttrType::Float:
      return std::holds_alternative<float>(attr);
    case AttrType::String:
      return std::holds_alternative<std::string>(attr);
    case AttrType::Ints:
      return std::holds_alternative<std::vector<int64_t>>(attr);
    case AttrType::Floats:
      return std::holds_alternative<std::vector<float>>(attr);
    case AttrType::Strings:
      return std::holds_alternative<std::vector<std::string>>(attr);
    case AttrType::Tensor:
      return std::holds_alternative<HostTensor>(attr);
    case AttrType::Exprs:
      return std::holds_alternative<std::vector<Expr>>(attr);
    case AttrType::Body:
      return false;
  }
  return false;
}

constexpr std::string_view text_of(AttrType type) {
  constexpr std::string_view kNames[] = {"an int",         "a float",           "a string",
                                         "a list of ints", "a list of floats",  "a list of strings",
                                         "a tensor",       "a list of numbers", "a body"};
  return kNames[static_cast<size_t>(type)];
}

/// The names of the attributes that a model may give the operator, for messages.
std::string supported_attributes(const OpDef& def) {
  std::string list;
  for (const AttrDecl& a : def.attributes) {
    if (!a.internal) list.append(list.empty() ? "" : " ").append(a.name);
  }
  return list.empty() ? "none" : list;
}

/// Checks that the attributes of a model's node are declared and have the declared types.
/// graph::verify() checks the nodes in core form.
Status check_attributes(const InferContext& ctx, const OpDef& def, const graph::Node& n) {
  const bool core = n.opset == 0;
  for (const auto& [name, attr] : n.attrs) {
    const auto decl = std::ranges::find(def.attributes, name, &AttrDecl::name);
    if (decl == def.attributes.end() || (decl->internal && !core)) {
      return ctx.error(Code::Unsupported, "attribute '" + name + "' is unknown; supported: " +
                                              supported_attributes(def));
    }
    if (!core && !has_type(attr, decl->type)) {
      return ctx.invalid("attribute '" + name + "' must be " + std::string(text_of(decl->type)));
    }
  }
  for (const AttrDecl& decl : def.attributes) {
    if (decl.required && !core && !n.attrs.has(decl.name))
      return ctx.invalid("the required attribute '" + std::string(decl.name) + "' is missing");
  }
  return {};
}

Status check_form(const InferContext& ctx, const OpDef& def, const graph::Graph& g,
                  const graph::Node& n) {
  if (n.opset != 0 && n.opset < def.min_opset) {
    return ctx.error(Code::Unsupported, "opset " + std::to_string(n.opset) +
                                            " is older than the oldest supported (" +
                                            std::to_string(def.min_opset) +
                                            "); convert the model with onnx.version_converter");
  }
  RP_TRY(check_attributes(ctx, def, n));
  const auto count = static_cast<int>(n.inputs.size());
  if (count < def.min_inputs || count > def.max_inputs) {
    return ctx.invalid("has " + std::to_string(count) + " inputs, expected " +
                       std::to_string(def.min_inputs) +
                       (def.max_inputs == def.min_inputs ? ""
                        : def.max_inputs == kVariadic    ? " or more"
                                                      : " to " + std::to_string(def.max_inputs)));
  }
  if (n.outputs.empty() || static_cast<int>(n.outputs.size()) > def.max_outputs) {
    return ctx.invalid("has " + std::to_string(n.outputs.size()) + " outputs, expected at most " +
                       std::to_string(def.max_outputs));
  }
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const graph::ValueId id = n.inputs[i];
    if (id == graph::kNone) {
      const bool in_list = def.max_inputs == kVariadic && !def.list_may_omit;
      if (static_cast<int>(i) < def.min_inputs || in_list) {
        return ctx.invalid("input " + std::to_string(i) + " is missing");
      }
      continue;
    }
    const graph::Value& v = g.value(id);
    if (!v.has_shape || v.dtype == DType::Invalid) {
      return ctx.error(Code::Internal, "the type of input '" + v.name + "' has not been inferred");
    }
  }
  return {};
}

/// Most operators compute with numbers, which codes of low-bit types and containers are not.
Status check_dtypes(const InferContext& ctx, const OpDef& def, const graph::Graph& g,
                    std::span<const graph::ValueId> values) {
  for (const graph::ValueId id : values) {
    if (id == graph::kNone) continue;
    const DType t = g.value(id).dtype;
    const bool container = is_container(t);
    if (container ? def.containers : def.low_bit || !is_low_bit(t)) continue;
    return ctx.error(container ? Code::InvalidModel : Code::Unsupported,
                     "'" + g.value(id).name + "' is " + std::string(name_of(t)) + ", which " +
                         std::string(def.name) + " does not take" +
                         (container ? "; it takes tensors" : "; convert it with Cast"));
  }
  return {};
}

}  // namespace

Status infer(graph::Graph& g, graph::Node& n) {
  InferContext ctx(g, n);
  const OpDef* def = find(n);
  if (def == nullptr) {
    return ctx.error(Code::Unsupported,
                     "no operator of this name" +
                         (n.domain.empty() ? std::string() : " in domain '" + n.domain + "'") +
                         "; see docs/architecture.md for how to add one");
  }
  RP_TRY(check_form(ctx, *def, g, n));
  RP_TRY(check_dtypes(ctx, *def, g, n.inputs));
  RP_TRY(def->infer(ctx));
  RP_TRY(ctx.status());
  RP_TRY(check_dtypes(ctx, *def, g, n.outputs));
  if (def->contents != nullptr) {
    ContentsContext known(g, n);
    def->contents(known);
  }
  return {};
}

}  // namespace reprise::ops
