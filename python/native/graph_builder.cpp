#include "python/native/graph_builder.h"

#include <nanobind/operators.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>

#include "python/native/arrays.h"
#include "python/native/dtypes.h"
#include "python/native/errors.h"

namespace nb = nanobind;

namespace reprise::python {
namespace {

using builder::BuiltGraph;
using builder::GraphBuilder;

using Shared = std::shared_ptr<GraphBuilder>;

/// A size: an expression of a builder's symbols.
struct Size {
  Shared of;
  Expr expr;
};

/// A value of a builder's graph, or of a body.
struct GraphValue {
  Shared of;
  builder::Value id;
};

struct GraphBody {
  Shared of;
  builder::Body id;
};

/// The builder, which its values and sizes keep alive.
struct Builder {
  Shared of;
};

void check_same(const Shared& a, const Shared& b, const char* what) {
  if (a != b) misuse(std::string(what) + " belongs to another builder");
}

Expr expr_of(const Shared& of, nb::handle size) {
  if (nb::isinstance<Size>(size)) {
    const auto& s = nb::cast<const Size&>(size);
    check_same(of, s.of, "the size");
    return s.expr;
  }
  const Py_ssize_t number = PyNumber_AsSsize_t(size.ptr(), PyExc_OverflowError);
  if (number == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return number;
}

Shape shape_of(const Shared& of, nb::handle dims) {
  Shape shape;
  for (const nb::handle d : nb::iter(dims)) shape.push_back(expr_of(of, d));
  return shape;
}

/// Memory of a Python object, as long as a tensor needs it. Any thread may release it.
std::shared_ptr<const void> keep(std::unique_ptr<Array> array) {
  return {array.release(), [](Array* kept) {
            if (Py_IsInitialized() == 0) return;
            const nb::gil_scoped_acquire acquire;
            delete kept;
          }};
}

/// The elements of an array as a tensor of this dtype, and of these dims if they are given.
HostTensor tensor_of(nb::handle given, const std::optional<std::string>& dtype, bool copy,
                     nb::handle dims) {
  if (nb::isinstance<nb::str>(given) || (dtype && *dtype == name_of(DType::String)))
    return strings_of(given);
  auto array = std::make_unique<Array>();
  array->borrow(given);
  if (array->on_cuda()) refuse("a constant must be in host memory; copy the array to the CPU");
  if (!array->contiguous()) {
    const nb::object numpy = nb::module_::import_("numpy");
    const nb::object dense = numpy.attr("ascontiguousarray")(given);
    array->borrow(dense);
  }
  const DType expected = dtype ? parse_dtype(dtype->c_str()) : array->dtype();
  std::vector<int64_t> shape(array->dims().begin(), array->dims().end());
  if (!dims.is_none()) {
    shape = dims_of(dims, expected);
  } else if (!carries(array->dtype(), expected)) {
    refuse("the array is " + array->str() + ", which cannot be taken as " +
           std::string(name_of(expected)));
  }
  if (expected == DType::Invalid) refuse("the array is " + array->str() + ", which is no dtype");
  size_t bytes = array->element_bytes();
  for (const int64_t d : array->dims()) bytes *= static_cast<size_t>(d);
  const std::span<const std::byte> memory(array->data(), bytes);
  if (!copy) return HostTensor::borrow(expected, std::move(shape), memory, keep(std::move(array)));
  return HostTensor::borrow(expected, std::move(shape), memory, nullptr).detached();
}

/// A list of numbers, texts or sizes.
Attr list_attribute(const Shared& of, nb::handle value, const std::string& name) {
  bool floats = false, texts = false, sizes = false, any = false;
  for (const nb::handle item : nb::iter(value)) {
    any = true;
    floats |= nb::isinstance<nb::float_>(item);
    texts |= nb::isinstance<nb::str>(item);
    sizes |= nb::isinstance<Size>(item);
  }
  if (texts) return nb::cast<std::vector<std::string>>(value);
  if (sizes) return shape_of(of, value);
  if (floats) return nb::cast<std::vector<float>>(value);
  if (!any) return std::vector<int64_t>();
  std::vector<int64_t> numbers;
  for (const nb::handle item : nb::iter(value)) {
    const Expr e = expr_of(of, item);
    if (!e.is_const()) misuse("attribute '" + name + "' mixes numbers and sizes");
    numbers.push_back(e.value());
  }
  return numbers;
}

Attr attribute_of(const Shared& of, const std::string& name, nb::handle value) {
  if (nb::isinstance<nb::float_>(value)) return nb::cast<float>(value);
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  if (nb::isinstance<nb::bytes>(value)) {
    const auto text = nb::cast<nb::bytes>(value);
    return std::string(text.c_str(), text.size());
  }
  if (nb::isinstance<Size>(value)) return std::vector<Expr>{expr_of(of, value)};
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value))
    return list_attribute(of, value, name);
  if (PyIndex_Check(value.ptr()) != 0 && !nb::hasattr(value, "__array_interface__"))
    return int64_t{PyNumber_AsSsize_t(value.ptr(), PyExc_OverflowError)};
  return tensor_of(value, std::nullopt, true, nb::none());
}

/// Attributes and bodies from a dict.
struct Attributes {
  AttrMap attrs;
  std::vector<std::pair<std::string, builder::Body>> bodies;
};

Attributes attributes_of(const Shared& of, nb::handle given) {
  Attributes out;
  if (given.is_none()) return out;
  for (const auto& [key, value] : nb::cast<nb::dict>(given)) {
    const auto name = nb::cast<std::string>(key);
    if (nb::isinstance<GraphBody>(value)) {
      const auto& body = nb::cast<const GraphBody&>(value);
      check_same(of, body.of, "the body");
      out.bodies.emplace_back(name, body.id);
    } else {
      out.attrs.set(name, attribute_of(of, name, value));
    }
  }
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return out;
}

std::vector<builder::Value> values_of(const Shared& of, nb::handle list) {
  std::vector<builder::Value> out;
  for (const nb::handle item : nb::iter(list)) {
    if (item.is_none()) {
      out.push_back(builder::kOmitted);
      continue;
    }
    const auto& v = nb::cast<const GraphValue&>(item);
    check_same(of, v.of, "the value");
    out.push_back(v.id);
  }
  return out;
}

builder::Value value_of(const Shared& of, const GraphValue& v) {
  check_same(of, v.of, "the value");
  return v.id;
}

/// How many results a node has, or their names.
struct Results {
  size_t count = 1;
  builder::OutputNames names;
};

Results results_of(nb::handle given) {
  Results out;
  if (nb::isinstance<nb::int_>(given)) {
    out.count = nb::cast<size_t>(given);
    return out;
  }
  out.names = nb::cast<builder::OutputNames>(given);
  out.count = out.names.size();
  return out;
}

nb::list wrapped(const Shared& of, const std::vector<builder::Value>& values) {
  nb::list out;
  for (const builder::Value v : values) {
    if (v == builder::kOmitted) {
      out.append(nb::none());
    } else {
      out.append(GraphValue{of, v});
    }
  }
  return out;
}

// Python names the parameters of these two.
// NOLINTBEGIN(readability-function-size)
nb::list add_node(const Builder& b, const std::string& op, nb::handle inputs, nb::handle attributes,
                  nb::handle outputs, const std::string& domain, int64_t version,
                  const std::string& name) {
  Attributes read = attributes_of(b.of, attributes);
  Results results = results_of(outputs);
  return wrapped(b.of, take(b.of->node({op, domain, version, name, values_of(b.of, inputs),
                                        std::move(read.attrs), std::move(read.bodies),
                                        results.count, std::move(results.names)})));
}

nb::list add_core(const Builder& b, const std::string& op, nb::handle inputs, nb::handle attributes,
                  nb::handle outputs, const std::string& name,
                  const std::optional<std::string>& dtype, nb::handle shape) {
  Attributes read = attributes_of(b.of, attributes);
  if (!read.bodies.empty()) misuse("operators in core form have no bodies");
  Results results = results_of(outputs);
  builder::CoreNode n{op,
                      name,
                      values_of(b.of, inputs),
                      std::move(read.attrs),
                      results.count,
                      std::move(results.names),
                      std::nullopt};
  if (dtype) n.type = {parse_dtype(dtype->c_str()), shape_of(b.of, shape)};
  return wrapped(b.of, take(b.of->core(n)));
}
// NOLINTEND(readability-function-size)

DimGuard::Kind guard_kind(const std::string& name) {
  if (name == "==") return DimGuard::Kind::Equal;
  if (name == ">=") return DimGuard::Kind::AtLeast;
  if (name == "broadcast") return DimGuard::Kind::Broadcast;
  if (name == "broadcast_to") return DimGuard::Kind::BroadcastTo;
  misuse("there is no relation '" + name + "'; choose from ==, >=, broadcast, broadcast_to");
}

nb::object shape_of_value(const GraphValue& v) {
  const auto type = v.of->type(v.id);
  if (!type) return nb::none();
  nb::list dims;
  for (const Expr& d : type->second) {
    if (d.is_const()) {
      dims.append(d.value());
    } else {
      dims.append(d.str(v.of->graph().symbols));
    }
  }
  return nb::tuple(dims);
}

template <typename F>
auto arithmetic(F&& combine) {
  return [combine](const Size& a, nb::handle b) {
    return Size{a.of, combine(a.expr, expr_of(a.of, b))};
  };
}

void bind_sizes(nb::module_& m) {
  const auto add = [](const Expr& a, const Expr& b) { return a + b; };
  const auto multiply = [](const Expr& a, const Expr& b) { return a * b; };
  const char* const binary = "def %s(self, other: int | Size, /) -> Size";
  const auto sig = [binary](const char* name) {
    std::string text = binary;
    return text.replace(text.find("%s"), 2, name);
  };
  static const std::string sigs[] = {
      sig("__add__"),  sig("__radd__"),     sig("__sub__"), sig("__rsub__"), sig("__mul__"),
      sig("__rmul__"), sig("__floordiv__"), sig("__mod__"), sig("minimum"),  sig("maximum")};
  nb::class_<Size>(m, "Size",
                   "A size that a run decides: a symbol of a GraphBuilder, or an expression of "
                   "symbols made with +, -, *, // and %.")
      .def("__add__", arithmetic(add), nb::sig(sigs[0].c_str()))
      .def("__radd__", arithmetic(add), nb::sig(sigs[1].c_str()))
      .def("__sub__", arithmetic([](const Expr& a, const Expr& b) { return a - b; }),
           nb::sig(sigs[2].c_str()))
      .def("__rsub__", arithmetic([](const Expr& a, const Expr& b) { return b - a; }),
           nb::sig(sigs[3].c_str()))
      .def("__mul__", arithmetic(multiply), nb::sig(sigs[4].c_str()))
      .def("__rmul__", arithmetic(multiply), nb::sig(sigs[5].c_str()))
      .def("__floordiv__", arithmetic(Expr::floordiv), nb::sig(sigs[6].c_str()))
      .def("__mod__", arithmetic(Expr::mod), nb::sig(sigs[7].c_str()))
      .def("minimum", arithmetic(Expr::min), nb::sig(sigs[8].c_str()),
           "The smaller of this size and `other`.")
      .def("maximum", arithmetic(Expr::max), nb::sig(sigs[9].c_str()),
           "The larger of this size and `other`.")
      .def("__str__", [](const Size& s) { return s.of->text(s.expr); })
      .def("__repr__", [](const Size& s) { return "Size(" + s.of->text(s.expr) + ")"; });
}

void bind_values(nb::module_& m) {
  nb::class_<GraphValue>(m, "GraphValue", "A tensor of a graph that is being built.")
      .def_prop_ro(
          "name", [](const GraphValue& v) { return v.of->name(v.id); }, "Its name in the graph.")
      .def_prop_ro(
          "dtype",
          [](const GraphValue& v) -> std::optional<std::string> {
            const auto type = v.of->type(v.id);
            return type ? std::optional(std::string(name_of(type->first))) : std::nullopt;
          },
          "The dtype, such as 'float32'; None while it is not known, as in bodies.")
      .def_prop_ro("shape", shape_of_value,
                   nb::sig("def shape(self) -> tuple[int | str, ...] | None"),
                   "The dims: numbers, and texts of sizes that a run decides. None as for `dtype`.")
      .def("__repr__", [](const GraphValue& v) {
        const std::string type = v.of->type_text(v.id);
        return "GraphValue('" + v.of->name(v.id) + "'" + (type.empty() ? "" : ", " + type) + ")";
      });
  // NOLINTNEXTLINE(bugprone-unused-raii): it registers the class
  nb::class_<GraphBody>(m, "GraphBody",
                        "A body that GraphBuilder.end_body returned; an attribute of a node.");
  nb::class_<BuiltGraph>(m, "BuiltGraph",
                         "A finished graph. reprise.compile() compiles it, as often as wanted.")
      .def_prop_ro(
          "states",
          [](const BuiltGraph& g) {
            std::map<std::string, std::string> out;
            for (const BuiltGraph::State& s : g.states) out.emplace(s.input, s.output);
            return out;
          },
          "The states, with the outputs that are their next values.")
      .def("__str__", [](const BuiltGraph& g) { return graph::print(*g.graph); });
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a list of methods
void bind_graph_builder(nb::module_& m) {
  bind_sizes(m);
  bind_values(m);
  nb::class_<Builder>(
      m, "GraphBuilder",
      "Builds a graph for reprise.compile() without a model file.\n\n"
      "    >>> import numpy\n"
      "    >>> b = reprise.GraphBuilder()\n"
      "    >>> n = b.symbol('n', min=1, max=64)\n"
      "    >>> x = b.input('x', 'float32', [n, 8])\n"
      "    >>> w = b.constant(numpy.ones((8, 4), 'float32'))\n"
      "    >>> (y,) = b.node('MatMul', [x, w])\n"
      "    >>> b.output('y', y)\n"
      "    >>> package = reprise.compile(b)\n\n"
      "`name` is the name of the graph, and `opsets` has the versions of domains, such "
      "as {'': 21}. Each call checks what it is given and infers types. An error names "
      "the node "
      "(`error.nodes`), and leaves the builder as it was.")
      .def(
          "__init__",
          [](Builder* self, const std::string& name, const std::map<std::string, int64_t>& opsets) {
            new (self) Builder{std::make_shared<GraphBuilder>(name, opsets)};
          },
          nb::arg("name") = "graph", nb::arg("opsets") = std::map<std::string, int64_t>(),
          "Begins a graph with this `name` and these `opsets`.")
      .def(
          "symbol",
          [](const Builder& b, const std::string& name, int64_t min, int64_t max, int64_t divisor) {
            return Size{b.of, take(b.of->symbol(name, {min, max, divisor}))};
          },
          nb::arg("name"), nb::kw_only(), nb::arg("min") = 0,
          nb::arg("max") = builder::SizeLimits{}.max, nb::arg("divisor") = 1,
          "Declares the size `name`, from `min` to `max` and a multiple of `divisor`. The first "
          "input "
          "with it as a dim, alone or as in 4 * h + 1, gives it its value. A run with a size out "
          "of "
          "the limits raises InvalidInput.")
      .def(
          "size",
          [](const Builder& b, const std::string& text) {
            return Size{b.of, take(b.of->expression(text))};
          },
          nb::arg("text"), "A size from text: 'floordiv(h, 2) + 1'.")
      .def(
          "guard",
          [](const Builder& b, nb::handle left, const std::string& relation, nb::handle right,
             const std::string& what) {
            check(
                b.of->guard(guard_kind(relation), expr_of(b.of, left), expr_of(b.of, right), what));
          },
          nb::arg("left"), nb::arg("relation"), nb::arg("right"), nb::arg("what"),
          nb::sig(
              "def guard(self, left: int | Size, relation: str, right: int | Size, what: str) -> "
              "None"),
          "Refuses runs in which `left` and `right` do not have this `relation`: '==', '>=', "
          "'broadcast' (equal, or either is 1) or 'broadcast_to' (equal, or the left one is 1). "
          "Errors name `what`.")
      .def(
          "input",
          [](const Builder& b, const std::string& name, const std::string& dtype, nb::handle dims) {
            const DType type = parse_dtype(dtype.c_str());
            return GraphValue{b.of, take(b.of->input(name, type, shape_of(b.of, dims)))};
          },
          nb::arg("name"), nb::arg("dtype"), nb::arg("dims"),
          nb::sig("def input(self, name: str, dtype: str, dims: collections.abc.Sequence[int | "
                  "Size]) -> GraphValue"),
          "Adds the input `name` with this `dtype` and these `dims`, in the order of calls.")
      .def(
          "constant",
          [](const Builder& b, nb::handle value, const std::string& name,
             const std::optional<std::string>& dtype, nb::handle dims, bool copy) {
            return GraphValue{b.of,
                              take(b.of->constant(name, tensor_of(value, dtype, copy, dims)))};
          },
          nb::arg("value"), nb::kw_only(), nb::arg("name") = "", nb::arg("dtype") = nb::none(),
          nb::arg("dims") = nb::none(), nb::arg("copy") = false,
          nb::sig("def constant(self, value: typing.Any, *, name: str = \"\", dtype: str | None = "
                  "None, "
                  "dims: collections.abc.Sequence[int] | None = None, copy: bool = False) -> "
                  "GraphValue"),
          "Adds a constant, called `name`. A contiguous array is shared, not copied, by the graph "
          "and by "
          "packages: do "
          "not change it, or set `copy`. `dtype` names a dtype that NumPy lacks: 'bfloat16' for an "
          "array of uint16, 'int4' and other low-bit types for one byte an element. With `dims`, "
          "`value` is the memory of such a tensor, such as bytes.")
      .def(
          "state",
          [](const Builder& b, const std::string& name, nb::handle initial,
             const std::optional<std::string>& dtype, nb::handle dims, bool copy) {
            return GraphValue{b.of, take(b.of->state(name, tensor_of(initial, dtype, copy, dims)))};
          },
          nb::arg("name"), nb::arg("initial"), nb::kw_only(), nb::arg("dtype") = nb::none(),
          nb::arg("dims") = nb::none(), nb::arg("copy") = false,
          nb::sig(
              "def state(self, name: str, initial: typing.Any, *, dtype: str | None = None, dims: "
              "collections.abc.Sequence[int] | None = None, copy: bool = False) -> GraphValue"),
          "Adds the input `name` that sessions keep from run to run. `initial` is its first value; "
          "`dtype`, `dims` and `copy` are those of constant().")
      .def(
          "next_state",
          [](const Builder& b, const GraphValue& state, const GraphValue& next,
             const std::string& name) {
            check(b.of->next_state(value_of(b.of, state), value_of(b.of, next), name));
          },
          nb::arg("state"), nb::arg("next"), nb::arg("name"),
          "Makes a value the next one of a state, and an output of this name.")
      .def(
          "output",
          [](const Builder& b, const std::string& name, const GraphValue& v) {
            check(b.of->output(name, value_of(b.of, v)));
          },
          nb::arg("name"), nb::arg("value"),
          "Makes `value` the output `name`, in the order of calls.")
      .def(
          "node", add_node, nb::arg("op"), nb::arg("inputs"), nb::arg("attributes") = nb::none(),
          nb::kw_only(), nb::arg("outputs") = 1, nb::arg("domain") = "", nb::arg("version") = 0,
          nb::arg("name") = "",
          nb::sig("def node(self, op: str, inputs: collections.abc.Sequence[GraphValue | None], "
                  "attributes: collections.abc.Mapping[str, typing.Any] | None = None, *, outputs: "
                  "int | collections.abc.Sequence[str | None] = 1, domain: str = \"\", version: "
                  "int = 0, "
                  "name: "
                  "str = \"\") -> list[GraphValue]"),
          "Adds a node of the ONNX operator `op`, called `name`, and returns its outputs, of which "
          "`outputs` is the number, or the names. None among the inputs or the names is one that "
          "is "
          "left out. The `attributes` are numbers, texts, lists, arrays and bodies. `version` is "
          "that "
          "of the `domain`, by default the builder's.")
      .def(
          "core", add_core, nb::arg("op"), nb::arg("inputs"), nb::arg("attributes") = nb::none(),
          nb::kw_only(), nb::arg("outputs") = 1, nb::arg("name") = "",
          nb::arg("dtype") = nb::none(), nb::arg("shape") = nb::make_tuple(),
          nb::sig("def core(self, op: str, inputs: collections.abc.Sequence[GraphValue | None], "
                  "attributes: collections.abc.Mapping[str, typing.Any] | None = None, *, outputs: "
                  "int | collections.abc.Sequence[str | None] = 1, name: str = \"\", dtype: str | "
                  "None = "
                  "None, shape: collections.abc.Sequence[int | Size] = ()) -> list[GraphValue]"),
          "Adds a node of the operator `op` in core form (codegen/graph/semantics.md). `inputs`, "
          "`outputs` and `name` are those of node(), and `attributes` may have sizes. `dtype` and "
          "`shape` are those of the result, where the operator needs them (Slice, Range).")
      .def(
          "sizes",
          [](const Builder& b, nb::handle given) {
            const bool list = nb::isinstance<nb::list>(given) || nb::isinstance<nb::tuple>(given);
            const Shape sizes = list ? shape_of(b.of, given) : Shape{expr_of(b.of, given)};
            return GraphValue{b.of, take(b.of->sizes(sizes, !list))};
          },
          nb::arg("sizes"),
          nb::sig("def sizes(self, sizes: int | Size | collections.abc.Sequence[int | Size]) -> "
                  "GraphValue"),
          "Returns a size as an int64 scalar, or a list of sizes as an int64 vector.")
      .def(
          "begin_body",
          [](const Builder& b, const std::string& name) { check(b.of->begin_body(name)); },
          nb::arg("name") = "",
          "Begins the body `name` of an If, Loop or Scan. Nodes that follow belong to it, until "
          "end_body().")
      .def(
          "body_input",
          [](const Builder& b, const std::string& name) {
            return GraphValue{b.of, take(b.of->body_input(name))};
          },
          nb::arg("name") = "", "Adds the input `name` of the body; the operator decides its type.")
      .def(
          "end_body",
          [](const Builder& b, nb::handle outputs) {
            return GraphBody{b.of, take(b.of->end_body(values_of(b.of, outputs)))};
          },
          nb::arg("outputs"),
          nb::sig("def end_body(self, outputs: collections.abc.Sequence[GraphValue]) -> GraphBody"),
          "Ends the body, which returns the values `outputs`, and returns it for the attributes of "
          "a "
          "node.")
      .def(
          "verify", [](const Builder& b) { check(b.of->verify()); },
          "Checks the invariants of the graph so far.")
      .def(
          "finish",
          [](const Builder& b) { return std::make_shared<BuiltGraph>(take(b.of->finish())); },
          "Ends the graph; the builder takes no more calls then. reprise.compile() does this, "
          "too.");
}

}  // namespace reprise::python
