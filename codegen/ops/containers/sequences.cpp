// Sequences, optionals and maps. They are host values. Where the compiler knows of which tensors a
// sequence consists, the operators that take tensors out of it become operators on these tensors,
// which devices have.
#include <algorithm>

#include "codegen/ops/row/composed.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using graph::Graph;
using graph::Items;
using graph::kNone;
using graph::ValueId;
using V = OpBuilder::V;

DType sequence_of(DType t) {
  return in_container(Container::Sequence, t);
}

Status require_kind(const InferContext& ctx, size_t i, bool ok, const char* wanted) {
  if (ok) return {};
  return ctx.invalid("input '" + ctx.input(i).name + "' must be " + wanted + ", not " +
                     std::string(name_of(ctx.dtype(i))));
}

Status require_tensor(const InferContext& ctx, size_t i) {
  return require_kind(ctx, i, !is_container(ctx.dtype(i)), "a tensor");
}

Status require_sequence(const InferContext& ctx) {
  const bool ok = container_of(ctx.dtype(0)) == Container::Sequence;
  return require_kind(ctx, 0, ok, "a sequence of tensors");
}

// --- what is known of a sequence -----------------------------------------------------------------

/// A tensor in a sequence. One that SplitToSequence gives is no value of the graph yet.
struct Part {
  ValueId value;
  Shape shape;
};
using Parts = std::optional<std::vector<Part>>;

/// Longer sequences are not taken apart, and no more insertions are followed.
constexpr int64_t kMaxSequenceParts = kMaxElements;

/// The axis and the sizes of the parts of SplitToSequence. Nothing if a run determines them.
struct SplitForm {
  size_t axis = 0;
  std::optional<Shape> sizes;
  bool keeps_axis = true;
};

Result<SplitForm> split_form(const InferContext& ctx) {
  SplitForm f;
  RP_TRY(require_tensor(ctx, 0));
  RP_TRY(require_rank(ctx, 0, 1));
  RP_ASSIGN(const int64_t axis, ctx.axis(ctx.attrs().get_int("axis"), ctx.rank(0)));
  f.axis = static_cast<size_t>(axis);
  f.keeps_axis = ctx.has_input(1) || ctx.attrs().get_int("keepdims") != 0;
  const Expr& dim = ctx.shape(0)[f.axis];
  const auto given = ctx.elements(1);
  if (ctx.has_input(1)) {
    RP_TRY(require_int(ctx, 1));
    if (ctx.rank(1) > 1) return ctx.invalid("'split' must be a number or a vector");
  }
  if (given && ctx.rank(1) == 1) {
    Expr sum = 0;
    for (const Expr& size : *given) sum += size;
    const bool fits = sum == dim && std::ranges::all_of(*given, [](const Expr& size) {
                        return size.is_const() && size.value() >= 0;
                      });
    if (!fits && sum.is_const() && dim.is_const() && !sum.is_const(dim.value())) {
      return ctx.invalid("the sizes of the parts sum to " + std::to_string(sum.value()) +
                         ", but axis " + std::to_string(axis) + " of " + ctx.str(ctx.shape(0)) +
                         " has " + std::to_string(dim.value()));
    }
    if (fits) f.sizes = *given;
    return f;
  }
  if (!dim.is_const() || (ctx.has_input(1) && !given)) return f;
  const int64_t size = given ? (*given)[0].is_const() ? (*given)[0].value() : 0 : 1;
  if (size < 1 || dim.value() / size > kMaxSequenceParts) return f;
  f.sizes.emplace();
  for (int64_t begin = 0; begin < dim.value(); begin += size)
    f.sizes->push_back(std::min(size, dim.value() - begin));
  return f;
}

Shape part_shape(Shape shape, const SplitForm& f, const Expr& size) {
  shape[f.axis] = size;
  if (!f.keeps_axis) shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(f.axis));
  return shape;
}

/// The position that input i of an operator on a sequence is, or `fallback` if it is omitted.
/// Nothing if a run determines it, and if it is not in [-size, last].
std::optional<size_t> position_of(const InferContext& ctx, size_t i, size_t size, int64_t last,
                                  int64_t fallback) {
  const auto n = static_cast<int64_t>(size);
  int64_t at = fallback;
  if (ctx.has_input(i)) {
    const auto given = ctx.constant_ints(i);
    if (!given || given->size() != 1) return std::nullopt;
    at = (*given)[0];
    if (at < -n) return std::nullopt;
    if (at < 0) at += n;
  }
  return at < 0 || at > last ? std::nullopt : std::optional(static_cast<size_t>(at));
}

/// The tensors with which a sequence begins. Nothing if they are not known.
Parts first_parts(Graph& g, graph::Node* n) {
  if (n == nullptr || !n->domain.empty()) return std::nullopt;
  std::vector<Part> parts;
  if (n->op == "SequenceEmpty") return parts;
  if (n->op == "SequenceConstruct") {
    if (static_cast<int64_t>(n->inputs.size()) > kMaxSequenceParts) return std::nullopt;
    for (const ValueId v : n->inputs) parts.push_back({v, g.value(v).shape});
    return parts;
  }
  if (n->op != "SplitToSequence") return std::nullopt;
  const auto form = split_form(InferContext(g, *n));
  if (!form.ok() || !form->sizes) return std::nullopt;
  for (const Expr& size : *form->sizes)
    parts.push_back({kNone, part_shape(g.value(n->inputs[0]).shape, *form, size)});
  return parts;
}

/// The Optional that gives the value; null if another node does.
const graph::Node* maker_of(const Graph& g, ValueId optional) {
  const graph::Node* n = g.value(optional).producer;
  const bool made = n != nullptr && n->op == "Optional" && n->domain.empty();
  return made && !n->inputs.empty() && n->inputs[0] != kNone ? n : nullptr;
}

/// The node that makes a sequence, behind those that pass it on.
graph::Node* origin_of(const Graph& g, ValueId sequence) {
  graph::Node* n = g.value(sequence).producer;
  while (n != nullptr && (n->op == "Identity" || n->op == "OptionalGetElement")) {
    ValueId from = n->inputs[0];
    if (is_optional(g.value(from).dtype)) {
      const graph::Node* maker = maker_of(g, from);
      if (maker == nullptr) return nullptr;
      from = maker->inputs[0];
    }
    n = g.value(from).producer;
  }
  return n;
}

Parts parts_of(Graph& g, ValueId sequence) {
  std::vector<graph::Node*> edits;  // the last one first
  graph::Node* n = origin_of(g, sequence);
  while (n != nullptr && (n->op == "SequenceInsert" || n->op == "SequenceErase")) {
    if (static_cast<int64_t>(edits.size()) == kMaxSequenceParts) return std::nullopt;
    edits.push_back(n);
    n = origin_of(g, n->inputs[0]);
  }
  Parts parts = first_parts(g, n);
  while (parts && !edits.empty()) {
    const InferContext ctx(g, *edits.back());
    const bool inserts = edits.back()->op == "SequenceInsert";
    edits.pop_back();
    const auto size = static_cast<int64_t>(parts->size());
    const int64_t last = inserts ? size : size - 1;
    const auto at = position_of(ctx, inserts ? 2 : 1, parts->size(), last, last);
    if (!at) return std::nullopt;
    const auto place = parts->begin() + static_cast<std::ptrdiff_t>(*at);
    if (inserts) {
      parts->insert(place, {ctx.node().inputs[1], ctx.shape(1)});
    } else {
      parts->erase(place);
    }
  }
  return parts;
}

/// The same if every tensor is a value of the graph.
std::optional<std::vector<V>> values_of(Graph& g, ValueId sequence) {
  const Parts parts = parts_of(g, sequence);
  if (!parts) return std::nullopt;
  std::vector<V> values;
  for (const Part& part : *parts) {
    if (part.value == kNone) return std::nullopt;
    values.push_back(part.value);
  }
  return values;
}

/// The shape of a tensor of the container, whose dims that differ are output 0's alone.
Result<Shape> item_shape(InferContext& ctx) {
  const Items& items = ctx.input(0).items;
  if (!items.has_rank()) {
    const bool none = items.kind == Items::Kind::None;
    return ctx.error(none ? Code::InvalidModel : Code::Unsupported,
                     none ? "'" + ctx.input(0).name + "' holds no tensor"
                          : "the rank of the tensors in '" + ctx.input(0).name +
                                "' is not known; declare their shape in the model, or state it "
                                "with --shape if it is an input");
  }
  Shape shape = items.shape;
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d].is_const(Items::kDiffers)) shape[d] = ctx.fresh_symbol(0, d);
  return shape;
}

// --- inference -----------------------------------------------------------------------------------

Status infer_construct(InferContext& ctx) {
  Items items = Items::none();
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    RP_TRY(require_tensor(ctx, i));
    items = joined(items, Items::of(ctx.shape(i)));
  }
  RP_TRY(require_same_dtype(ctx));
  ctx.set_container(0, sequence_of(ctx.dtype(0)), std::move(items));
  return {};
}

Status infer_empty(InferContext& ctx) {
  RP_ASSIGN(const DType t, dtype_attr(ctx, "dtype"));
  ctx.set_container(0, sequence_of(t), Items::none());
  return {};
}

Status infer_insert(InferContext& ctx) {
  RP_TRY(require_sequence(ctx));
  const DType wanted = element_of(ctx.dtype(0));
  if (ctx.dtype(1) != wanted) {
    return ctx.invalid("a tensor of " + std::string(name_of(ctx.dtype(1))) +
                       " cannot be inserted into a " + std::string(name_of(ctx.dtype(0))));
  }
  if (ctx.has_input(2)) RP_TRY(require_int(ctx, 2));
  ctx.set_container(0, ctx.dtype(0), joined(ctx.input(0).items, Items::of(ctx.shape(1))));
  return {};
}

Status infer_erase(InferContext& ctx) {
  RP_TRY(require_sequence(ctx));
  if (ctx.has_input(1)) RP_TRY(require_int(ctx, 1));
  ctx.set_container(0, ctx.dtype(0), ctx.input(0).items);
  return {};
}

Status infer_at(InferContext& ctx) {
  RP_TRY(require_sequence(ctx));
  RP_TRY(require_int(ctx, 1));
  const DType t = element_of(ctx.dtype(0));
  if (const Parts parts = parts_of(ctx.graph(), ctx.node().inputs[0])) {
    const auto last = static_cast<int64_t>(parts->size()) - 1;
    if (const auto at = position_of(ctx, 1, parts->size(), last, 0)) {
      ctx.set_output(0, t, (*parts)[*at].shape);
      return {};
    }
  }
  RP_ASSIGN(Shape shape, item_shape(ctx));
  ctx.set_output(0, t, std::move(shape));
  return {};
}

Status infer_length(InferContext& ctx) {
  RP_TRY(require_sequence(ctx));
  ctx.set_output(0, DType::I64, {});
  return {};
}

void length_contents(ContentsContext& ctx) {
  if (const Parts parts = parts_of(ctx.graph(), ctx.node().inputs[0]))
    ctx.set_elements(0, {Expr(static_cast<int64_t>(parts->size()))});
}

Status infer_split_to_sequence(InferContext& ctx) {
  RP_ASSIGN(const SplitForm f, split_form(ctx));
  Items items = Items::none();
  if (f.sizes) {
    for (const Expr& size : *f.sizes)
      items = joined(items, Items::of(part_shape(ctx.shape(0), f, size)));
  } else {
    const Expr size = ctx.has_input(1) ? Expr(Items::kDiffers) : Expr(1);
    items = Items::of(part_shape(ctx.shape(0), f, size));
  }
  ctx.set_container(0, sequence_of(ctx.dtype(0)), std::move(items));
  return {};
}

/// The shape of all tensors side by side, or stacked along a new axis. Nothing if they are unknown.
Result<std::optional<Shape>> joined_shape(InferContext& ctx) {
  const bool stacks = ctx.attrs().get_int("new_axis") != 0;
  const Parts parts = parts_of(ctx.graph(), ctx.node().inputs[0]);
  if (!parts || parts->empty()) return std::optional<Shape>();
  Shape shape = (*parts)[0].shape;
  const auto rank = static_cast<int64_t>(shape.size()) + (stacks ? 1 : 0);
  RP_ASSIGN(const int64_t axis, ctx.axis(ctx.attrs().get_int("axis"), rank));
  const auto a = static_cast<size_t>(axis);
  for (size_t i = 1; i < parts->size(); ++i) {
    const Shape& other = (*parts)[i].shape;
    if (other.size() != shape.size()) {
      return ctx.invalid("the tensors differ in rank: " + ctx.str(shape) + " and " +
                         ctx.str(other));
    }
    for (size_t d = 0; d < shape.size(); ++d) {
      if (d == a && !stacks) {
        shape[d] += other[d];
        continue;
      }
      RP_ASSIGN(shape[d], ctx.unify(shape[d], other[d], "dims of the tensors"));
    }
  }
  if (stacks) shape.insert(shape.begin() + axis, Expr(static_cast<int64_t>(parts->size())));
  return std::optional(std::move(shape));
}

Status infer_concat_from_sequence(InferContext& ctx) {
  RP_TRY(require_sequence(ctx));
  RP_ASSIGN(auto known, joined_shape(ctx));
  if (!known) {
    const bool stacks = ctx.attrs().get_int("new_axis") != 0;
    RP_ASSIGN(Shape item, item_shape(ctx));
    RP_ASSIGN(const int64_t axis, ctx.axis(ctx.attrs().get_int("axis"),
                                           static_cast<int64_t>(item.size()) + (stacks ? 1 : 0)));
    const auto a = static_cast<size_t>(axis);
    if (stacks) item.insert(item.begin() + axis, Expr(0));
    // Symbols of dims that differ between the tensors are those of the result's axes.
    const Shape common = ctx.input(0).items.shape;
    for (size_t d = 0; d < item.size(); ++d) {
      const size_t from = stacks && d > a ? d - 1 : d;
      if (d == a || common[from].is_const(Items::kDiffers)) item[d] = ctx.fresh_symbol(0, d);
    }
    known = std::move(item);
  }
  ctx.set_output(0, element_of(ctx.dtype(0)), std::move(*known));
  return {};
}

Status infer_optional(InferContext& ctx) {
  DType held = DType::Invalid;
  Items items = Items::none();
  if (ctx.has_input(0)) {
    held = ctx.dtype(0);
    items = is_container(held) ? ctx.input(0).items : Items::of(ctx.shape(0));
  } else {
    held = dtype_from_name(ctx.attrs().get_string("type")).value_or(DType::Invalid);
  }
  const Container kind = container_of(held);
  if (held == DType::Invalid || (kind != Container::None && kind != Container::Sequence))
    return ctx.invalid("it needs a tensor or a sequence of tensors, or the type of one");
  ctx.set_container(
      0,
      in_container(kind == Container::None ? Container::Optional : Container::OptionalSequence,
                   element_of(held)),
      std::move(items));
  return {};
}

Status infer_get_element(InferContext& ctx) {
  if (!is_optional(ctx.dtype(0))) return infer_same(ctx);
  const DType held = item_type_of(ctx.dtype(0));
  if (is_container(held)) {
    ctx.set_container(0, held, ctx.input(0).items);
    return {};
  }
  RP_ASSIGN(Shape shape, item_shape(ctx));
  ctx.set_output(0, held, std::move(shape));
  return {};
}

Status infer_has_element(InferContext& ctx) {
  ctx.set_output(0, DType::Bool, {});
  return {};
}

void has_element_contents(ContentsContext& ctx) {
  if (!ctx.has_input(0)) return ctx.set_elements(0, {Expr(0)});
  if (!is_optional(ctx.dtype(0))) return ctx.set_elements(0, {Expr(1)});
  const graph::Node* n = ctx.input(0).producer;
  if (n != nullptr && n->op == "Optional" && n->domain.empty())
    ctx.set_elements(0, {Expr(maker_of(ctx.graph(), ctx.node().inputs[0]) ? 1 : 0)});
}

// --- decompositions ------------------------------------------------------------------------------

Result<bool> decompose_split(Rewriter& rw) {
  RP_ASSIGN(const SplitForm f, split_form(InferContext(rw.graph(), rw.node())));
  if (!f.sizes || f.sizes->empty()) return false;
  Composer c(rw);
  std::vector<V> parts;
  Expr begin = 0;
  for (const Expr& size : *f.sizes) {
    const V part = c.slice_axis(c.in(0), static_cast<int64_t>(f.axis), begin, size);
    parts.push_back(c.reshape(part, part_shape(c.shape(c.in(0)), f, size)));
    begin += size;
  }
  c.replace(0, c.model("SequenceConstruct", std::move(parts)));
  return c.finish();
}

Result<bool> decompose_at(Rewriter& rw) {
  const auto values = values_of(rw.graph(), rw.node().inputs[0]);
  if (!values) return false;
  const InferContext ctx(rw.graph(), rw.node());
  const auto at = position_of(ctx, 1, values->size(), static_cast<int64_t>(values->size()) - 1, 0);
  // Inference may have known less: then the shape has symbols that only a run of this node gives.
  const Shape& inferred = rw.graph().value(rw.node().outputs[0]).shape;
  if (!at || rw.graph().value((*values)[*at]).shape != inferred) return false;
  RP_TRY(rw.replace(0, (*values)[*at]));
  return true;
}

Result<bool> decompose_concat(Rewriter& rw) {
  auto values = values_of(rw.graph(), rw.node().inputs[0]);
  if (!values || values->empty()) return false;
  InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const auto shape, joined_shape(ctx));
  if (!shape || *shape != rw.graph().value(rw.node().outputs[0]).shape) return false;
  Composer c(rw);
  int64_t axis = c.attrs().get_int("axis");
  if (c.attrs().get_int("new_axis") != 0) {
    if (axis < 0) axis += static_cast<int64_t>(c.shape(rw.node().outputs[0]).size());
    for (V& v : *values) {
      Shape stacked = c.shape(v);
      if (static_cast<size_t>(axis) > stacked.size()) return false;
      stacked.insert(stacked.begin() + axis, Expr(1));
      v = c.reshape(v, std::move(stacked));
    }
  }
  c.replace(0, c.model("Concat", std::move(*values), attributes({{"axis", axis}})));
  return c.finish();
}

Result<bool> decompose_get_element(Rewriter& rw) {
  if (is_container_output(rw)) return false;
  const InferContext ctx(rw.graph(), rw.node());
  ValueId held = rw.node().inputs[0];
  if (is_optional(ctx.dtype(0))) {
    const graph::Node* n = maker_of(rw.graph(), held);
    if (n == nullptr) return false;
    held = n->inputs[0];
  }
  RP_TRY(rw.replace(0, held));
  return true;
}

constexpr AttrDecl kEmptyAttrs[] = {int_attr("dtype", 1)};
constexpr AttrDecl kSplitToSequenceAttrs[] = {int_attr("axis", 0), int_attr("keepdims", 1)};
constexpr AttrDecl kConcatFromSequenceAttrs[] = {required_attr("axis", AttrType::Int),
                                                 int_attr("new_axis", 0)};
constexpr AttrDecl kOptionalAttrs[] = {string_attr("type", "")};

constexpr OpDef row(std::string_view name, Status (*infer)(InferContext&), int inputs,
                    int max_inputs, int64_t min_opset = 11) {
  return {.name = name,
          .infer = infer,
          .min_opset = min_opset,
          .min_inputs = inputs,
          .max_inputs = max_inputs,
          .low_bit = max_inputs > 0,
          .containers = true};
}

constexpr OpDef with(OpDef def, Result<bool> (*decompose)(Rewriter&),
                     std::span<const AttrDecl> attributes = {}) {
  def.decompose = decompose;
  def.attributes = attributes;
  return def;
}

constexpr OpDef knowing(OpDef def, void (*contents)(ContentsContext&)) {
  def.contents = contents;
  return def;
}

}  // namespace

std::span<const OpDef> sequence_ops() {
  static constexpr OpDef kOps[] = {
      row("SequenceConstruct", infer_construct, 1, kVariadic),
      with(row("SequenceEmpty", infer_empty, 0, 0), nullptr, kEmptyAttrs),
      row("SequenceInsert", infer_insert, 2, 3),
      row("SequenceErase", infer_erase, 1, 2),
      with(row("SequenceAt", infer_at, 2, 2), decompose_at),
      knowing(row("SequenceLength", infer_length, 1, 1), length_contents),
      with(row("SplitToSequence", infer_split_to_sequence, 1, 2), decompose_split,
           kSplitToSequenceAttrs),
      with(row("ConcatFromSequence", infer_concat_from_sequence, 1, 1), decompose_concat,
           kConcatFromSequenceAttrs),
      with(row("Optional", infer_optional, 0, 1, 15), nullptr, kOptionalAttrs),
      with(row("OptionalGetElement", infer_get_element, 1, 1, 15), decompose_get_element),
      knowing(row("OptionalHasElement", infer_has_element, 0, 1, 15), has_element_contents),
  };
  return kOps;
}

}  // namespace reprise::ops
