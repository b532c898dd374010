// The C interface of the builder of graphs.
#include "capi/compiler/graph.h"

#include <array>
#include <cstring>

using namespace reprise;
using namespace reprise::capi;
using builder::GraphBuilder;

namespace {

Status usage(std::string message) {
  return {Code::Usage, std::move(message)};
}

/// The builder of a handle, for as long as a call needs it.
Result<std::shared_ptr<reprise_graph>> open_graph(const reprise_graph* graph) {
  RP_TRY(Handles::check());
  return find_handle(graph);
}

std::string text_or_empty(const char* text) {
  return text ? text : "";
}

Result<Expr> read_size(const GraphBuilder& b, const char* text, const char* what) {
  if (!text) return usage(std::string(what) + " is null");
  return b.expression(text);
}

Result<Shape> read_sizes(const GraphBuilder& b, const char* const* texts, size_t n,
                         const char* what) {
  if (n > 0 && !texts) return usage(std::string(what) + " is null");
  Shape out;
  for (size_t i = 0; i < n; ++i) {
    RP_ASSIGN(out.emplace_back(), read_size(b, texts[i], what));
  }
  return out;
}

std::vector<builder::Value> read_values(const int32_t* values, size_t n) {
  std::vector<builder::Value> out;
  out.reserve(n);
  for (size_t i = 0; i < n; ++i)
    out.push_back(values[i] < 0 ? builder::kOmitted : builder::Value(values[i]));
  return out;
}

Result<HostTensor> read_strings(const reprise_tensor& t, std::vector<int64_t> dims) {
  HostTensor out(DType::String, std::move(dims));
  const auto* strings = static_cast<const reprise_string*>(t.data);
  for (size_t i = 0; i < out.strings().size(); ++i) {
    if (strings[i].size > 0 && !strings[i].data)
      return invalid_input("element " + std::to_string(i) + " of the tensor is null");
    if (strings[i].size > 0) out.mutable_strings()[i].assign(strings[i].data, strings[i].size);
  }
  return out;
}

/// A tensor of the caller, in host memory.
Result<HostTensor> read_tensor(const reprise_tensor* given, bool borrow) {
  if (!given) return usage("tensor is null");
  RP_ASSIGN(const reprise_tensor t,
            read_struct(given, reprise_tensor REPRISE_TENSOR_INIT, "reprise_tensor"));
  const std::string subject = "tensor '" + text_or_empty(t.name) + "'";
  if (t.buffer || t.value || t.image || t.row_pitch != 0)
    return usage(subject + " must be dense rows in host memory");
  if (t.rank > REPRISE_MAX_RANK) return usage(subject + " has a rank over 16");
  const auto number = static_cast<uint32_t>(dtype_number(t));
  if (number > 31 || !is_dtype(static_cast<uint8_t>(number)))
    return usage(subject + " has the unknown dtype " +
                 std::to_string(static_cast<int32_t>(number)));
  const auto dtype = static_cast<DType>(number);
  std::vector<int64_t> dims(t.dims, t.dims + t.rank);
  const auto count = checked_element_count(dims, dtype);
  if (!count.ok()) return count.status().with_context(subject);
  const bool strings = dtype == DType::String;
  const size_t bytes =
      static_cast<size_t>(*count) * (strings ? sizeof(reprise_string) : size_of(dtype));
  if (t.bytes != bytes || (bytes > 0 && !t.data))
    return usage(subject + " is " + describe(dtype, dims) + " of " + std::to_string(bytes) +
                 " bytes, but " + std::to_string(t.bytes) + " are given" +
                 (t.data ? "" : ", and no data"));
  if (strings) return read_strings(t, std::move(dims));
  const HostTensor view = HostTensor::borrow(
      dtype, std::move(dims), {static_cast<const std::byte*>(t.data), bytes}, nullptr);
  return borrow ? view : view.detached();
}

Result<Attr> read_attribute(const GraphBuilder& b, const reprise_graph_attribute& a) {
  const auto needs = [&](const void* list, size_t least, const char* member) {
    return list || least == 0 ? Status()
                              : usage("attribute '" + std::string(a.name) + "' needs " + member);
  };
  const auto texts = [&](size_t n) -> Result<std::vector<std::string>> {
    RP_TRY(needs(a.texts, n, "texts"));
    std::vector<std::string> out;
    for (size_t i = 0; i < n; ++i) {
      RP_TRY(needs(a.texts[i], 1, "texts that are not null"));
      out.emplace_back(a.texts[i]);
    }
    return out;
  };
  int32_t kind = 0;
  std::memcpy(&kind, &a.kind, sizeof(kind));
  switch (kind) {
    case REPRISE_ATTRIBUTE_INT:
      RP_TRY(needs(a.ints, 1, "ints"));
      return Attr(a.ints[0]);
    case REPRISE_ATTRIBUTE_INTS:
      RP_TRY(needs(a.ints, a.count, "ints"));
      return Attr(std::vector<int64_t>(a.ints, a.ints + a.count));
    case REPRISE_ATTRIBUTE_FLOAT:
      RP_TRY(needs(a.floats, 1, "floats"));
      return Attr(a.floats[0]);
    case REPRISE_ATTRIBUTE_FLOATS:
      RP_TRY(needs(a.floats, a.count, "floats"));
      return Attr(std::vector<float>(a.floats, a.floats + a.count));
    case REPRISE_ATTRIBUTE_STRING: {
      RP_ASSIGN(std::vector<std::string> one, texts(1));
      return Attr(std::move(one[0]));
    }
    case REPRISE_ATTRIBUTE_STRINGS: {
      RP_ASSIGN(std::vector<std::string> all, texts(a.count));
      return Attr(std::move(all));
    }
    case REPRISE_ATTRIBUTE_SIZES: {
      RP_ASSIGN(Shape sizes, read_sizes(b, a.texts, a.count, "texts"));
      return Attr(std::move(sizes));
    }
    case REPRISE_ATTRIBUTE_TENSOR: {
      RP_ASSIGN(HostTensor t, read_tensor(a.tensor, false));
      return Attr(std::move(t));
    }
    default:
      return usage("attribute '" + std::string(a.name) + "' has the unknown kind " +
                   std::to_string(kind));
  }
}

/// The parts of a node that ONNX operators and operators in core form share.
struct NodeParts {
  AttrMap attrs;
  std::vector<std::pair<std::string, builder::Body>> bodies;
  builder::OutputNames output_names;
};

Result<NodeParts> read_node(const GraphBuilder& b, const reprise_graph_node& n) {
  if (n.input_count > 0 && !n.inputs) return usage("inputs is null");
  if (n.attribute_count > 0 && !n.attributes) return usage("attributes is null");
  RP_TRY(check_array(n.attributes, n.attribute_count, "reprise_graph_attribute"));
  NodeParts out;
  for (size_t i = 0; i < n.attribute_count; ++i) {
    RP_ASSIGN(const auto a, read_struct(element(n.attributes, i),
                                        reprise_graph_attribute REPRISE_GRAPH_ATTRIBUTE_INIT,
                                        "reprise_graph_attribute"));
    if (!a.name) return usage("an attribute has no name");
    int32_t kind = 0;
    std::memcpy(&kind, &a.kind, sizeof(kind));
    if (kind == REPRISE_ATTRIBUTE_BODY) {
      out.bodies.emplace_back(a.name, a.body < 0 ? builder::Body() : builder::Body(a.body));
      continue;
    }
    RP_ASSIGN(Attr value, read_attribute(b, a));
    if (out.attrs.has(a.name))
      return usage("attribute '" + std::string(a.name) + "' is given twice");
    out.attrs.set(a.name, std::move(value));
  }
  for (size_t i = 0; n.output_names && i < n.output_count; ++i)
    out.output_names.push_back(n.output_names[i] ? std::optional<std::string>(n.output_names[i])
                                                 : std::nullopt);
  return out;
}

Result<std::vector<builder::Value>> add_node(GraphBuilder& b, const reprise_graph_node& n) {
  if (!n.op) return usage("op is null");
  RP_ASSIGN(NodeParts parts, read_node(b, n));
  std::vector<builder::Value> inputs = read_values(n.inputs, n.input_count);
  if (n.core == 0)
    return b.node({n.op, text_or_empty(n.domain), n.version, text_or_empty(n.name),
                   std::move(inputs), std::move(parts.attrs), std::move(parts.bodies),
                   n.output_count, std::move(parts.output_names)});
  if (!parts.bodies.empty() || n.version != 0 || !text_or_empty(n.domain).empty())
    return usage("an operator in core form has no domain, version and bodies");
  builder::CoreNode core{
      n.op,           text_or_empty(n.name),        std::move(inputs), std::move(parts.attrs),
      n.output_count, std::move(parts.output_names)};
  if (n.result_shape) {
    int32_t dtype = 0;
    std::memcpy(&dtype, &n.result_dtype, sizeof(dtype));
    if (dtype < 1 || dtype > 31 || !is_dtype(static_cast<uint8_t>(dtype)))
      return usage("result_dtype " + std::to_string(dtype) + " is unknown");
    RP_ASSIGN(Shape shape, read_sizes(b, n.result_shape, n.result_rank, "result_shape"));
    core.type = {static_cast<DType>(dtype), std::move(shape)};
  }
  return b.core(core);
}

Result<DimGuard::Kind> guard_kind(const char* relation) {
  const std::string_view text = relation;
  if (text == "==") return DimGuard::Kind::Equal;
  if (text == ">=") return DimGuard::Kind::AtLeast;
  if (text == "broadcast") return DimGuard::Kind::Broadcast;
  if (text == "broadcast_to") return DimGuard::Kind::BroadcastTo;
  return usage("there is no relation '" + std::string(text) +
               "'; choose from ==, >=, broadcast, broadcast_to");
}

/// Runs `body` with the builder of a graph.
template <typename F>
reprise_status with_builder(const reprise_graph* graph, reprise_error* error, F&& body) {
  return guarded(error, [&]() -> Status {
    RP_ASSIGN(const std::shared_ptr<reprise_graph> held, open_graph(graph));
    return body(*held->builder);
  });
}

/// Writes the number of a result.
template <typename I>
Status give(Result<I> made, int32_t* out) {
  RP_ASSIGN(const I id, std::move(made));
  *out = id.number();
  return {};
}

}  // namespace

Status reprise_graph::finish() {
  if (built) return {};
  RP_ASSIGN(built, builder->finish());
  return {};
}

reprise_status reprise_graph_create(const reprise_graph_options* options, reprise_graph** out,
                                    reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_TRY(Handles::check());
    if (!out) return usage("out is null");
    RP_ASSIGN(const auto o, read_struct(options, reprise_graph_options REPRISE_GRAPH_OPTIONS_INIT,
                                        "reprise_graph_options"));
    if (o.domain_count > 0 && (!o.domains || !o.versions))
      return usage("domains or versions is null");
    std::map<std::string, int64_t> opsets;
    for (size_t i = 0; i < o.domain_count; ++i)
      opsets.insert_or_assign(text_or_empty(o.domains[i]), o.versions[i]);
    auto graph = std::make_shared<reprise_graph>();
    graph->builder = std::make_unique<GraphBuilder>(o.name ? o.name : "graph", opsets);
    *out = make_handle(std::move(graph));
    return {};
  });
}

void reprise_graph_free(reprise_graph* graph) {
  free_handle(graph);
}

reprise_status reprise_graph_symbol(reprise_graph* graph, const char* name, int64_t min,
                                    int64_t max, int64_t divisor, reprise_error* error) {
  return with_builder(graph, error, [&](GraphBuilder& b) {
    return b.symbol(text_or_empty(name), {min, max, divisor}).status();
  });
}

reprise_status reprise_graph_guard(reprise_graph* graph, const char* left, const char* relation,
                                   const char* right, const char* what, reprise_error* error) {
  return with_builder(graph, error, [&](GraphBuilder& b) -> Status {
    if (!relation) return usage("relation is null");
    RP_ASSIGN(const DimGuard::Kind kind, guard_kind(relation));
    RP_ASSIGN(const Expr a, read_size(b, left, "left"));
    RP_ASSIGN(const Expr c, read_size(b, right, "right"));
    return b.guard(kind, a, c, text_or_empty(what));
  });
}

reprise_status reprise_graph_input(reprise_graph* graph, const char* name, reprise_dtype dtype,
                                   const char* const* dims, size_t rank, int32_t* value,
                                   reprise_error* error) {
  return with_builder(graph, error, [&](GraphBuilder& b) -> Status {
    if (!value) return usage("value is null");
    int32_t number = 0;
    std::memcpy(&number, &dtype, sizeof(number));
    if (number < 0 || number > 31) number = 0;
    RP_ASSIGN(const Shape shape, read_sizes(b, dims, rank, "dims"));
    return give(b.input(text_or_empty(name), static_cast<DType>(number), shape), value);
  });
}

reprise_status reprise_graph_constant(reprise_graph* graph, const reprise_tensor* tensor,
                                      int32_t borrow, int32_t* value, reprise_error* error) {
  return with_builder(graph, error, [&](GraphBuilder& b) -> Status {
    if (!value) return usage("value is null");
    RP_ASSIGN(HostTensor t, read_tensor(tensor, borrow != 0));
    return give(b.constant(text_or_empty(tensor->name), std::move(t)), value);
  });
}

reprise_status reprise_graph_state(reprise_graph* graph, const reprise_tensor* initial,
                                   int32_t* value, reprise_error* error) {
  return with_builder(graph, error, [&](GraphBuilder& b) -> Status {
    if (!value) return usage("value is null");
    RP_ASSIGN(HostTensor t, read_tensor(initial, false));
    return give(b.state(text_or_empty(initial->name), std::move(t)), value);
  });
}

reprise_status reprise_graph_next_state(reprise_graph* graph, int32_t state, int32_t next,
                                        const char* name, reprise_error* error) {
  return with_builder(graph, error, [&](GraphBuilder& b) {
    const std::array both{state, next};
    const auto values = read_values(both.data(), both.size());
    return b.next_state(values[0], values[1], text_or_empty(name));
  });
}

reprise_status reprise_graph_output(reprise_graph* graph, const char* name, int32_t value,
                                    reprise_error* error) {
  return with_builder(graph, error, [&](GraphBuilder& b) {
    return b.output(text_or_empty(name), read_values(&value, 1)[0]);
  });
}

reprise_status reprise_graph_add_node(reprise_graph* graph, const reprise_graph_node* node,
                                      int32_t* outputs, reprise_error* error) {
  return with_builder(graph, error, [&](GraphBuilder& b) -> Status {
    if (!node || !outputs) return usage("node or outputs is null");
    RP_ASSIGN(const auto n,
              read_struct(node, reprise_graph_node REPRISE_GRAPH_NODE_INIT, "reprise_graph_node"));
    RP_ASSIGN(const std::vector<builder::Value> added, add_node(b, n));
    for (size_t i = 0; i < added.size(); ++i) outputs[i] = added[i].number();
    return {};
  });
}

reprise_status reprise_graph_sizes(reprise_graph* graph, const char* const* sizes, size_t count,
                                   int32_t scalar, int32_t* value, reprise_error* error) {
  return with_builder(graph, error, [&](GraphBuilder& b) -> Status {
    if (!value) return usage("value is null");
    RP_ASSIGN(const Shape read, read_sizes(b, sizes, count, "sizes"));
    return give(b.sizes(read, scalar != 0), value);
  });
}

reprise_status reprise_graph_begin_body(reprise_graph* graph, const char* name,
                                        reprise_error* error) {
  return with_builder(graph, error,
                      [&](GraphBuilder& b) { return b.begin_body(text_or_empty(name)); });
}

reprise_status reprise_graph_body_input(reprise_graph* graph, const char* name, int32_t* value,
                                        reprise_error* error) {
  return with_builder(graph, error, [&](GraphBuilder& b) -> Status {
    if (!value) return usage("value is null");
    return give(b.body_input(text_or_empty(name)), value);
  });
}

reprise_status reprise_graph_end_body(reprise_graph* graph, const int32_t* outputs,
                                      size_t output_count, int32_t* body, reprise_error* error) {
  return with_builder(graph, error, [&](GraphBuilder& b) -> Status {
    if (!body || (output_count > 0 && !outputs)) return usage("body or outputs is null");
    return give(b.end_body(read_values(outputs, output_count)), body);
  });
}

reprise_status reprise_graph_type(const reprise_graph* graph, int32_t value, char* text,
                                  size_t capacity, reprise_error* error) {
  return with_builder(graph, error, [&](GraphBuilder& b) -> Status {
    if (!text || capacity == 0) return usage("text is null, or its capacity 0");
    copy_text(text, capacity, b.type_text(read_values(&value, 1)[0]));
    return {};
  });
}

reprise_status reprise_graph_verify(const reprise_graph* graph, reprise_error* error) {
  return with_builder(graph, error, [](GraphBuilder& b) { return b.verify(); });
}
