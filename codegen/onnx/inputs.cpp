#include "codegen/onnx/inputs.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "codegen/onnx/file/types.h"

namespace reprise::onnx {

namespace {

constexpr int64_t kMaxDim = (int64_t{1} << 31) - 1;

struct Dim {
  int64_t value = -1;  // -1: not fixed
  std::string param;   // its name in the model; may be empty
};

struct Input {
  std::string name;
  DType dtype = DType::Invalid;
  bool has_shape = false;
  std::vector<Dim> dims;  // of a container: those of its tensors
  std::string text;       // as declared, for messages
};

bool is_identifier(const std::string& s) {
  bool ok = !s.empty() && (s[0] < '0' || s[0] > '9');
  for (char c : s) {
    ok = ok &&
         ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_');
  }
  return ok;
}

Status read_type(const wire::ValueInfo& v, Input& input) {
  RP_ASSIGN(const TypeForm form, type_form(v.type()));
  const wire::TensorType& type = *form.tensor;
  input.dtype = form.dtype;
  input.has_shape = type.has_shape();
  if (type.shape().dim_size() > 64) return invalid_model("has a rank above 64");
  for (const wire::Dimension& d : type.shape().dim()) {
    Dim dim;
    // Exporters write "?" and the like as placeholders, not as names that dims share.
    const std::string& param = d.dim_param();
    const bool named = std::any_of(param.begin(), param.end(),
                                   [](unsigned char c) { return std::isalnum(c) != 0; });
    if (named) dim.param = param;
    if (d.has_dim_value()) {
      // Some exporters write -1 for an unknown dimension.
      if (d.dim_value() < -1) {
        return invalid_model("has the negative dimension " + std::to_string(d.dim_value()));
      }
      if (d.dim_value() > kMaxDim) {
        return unsupported("has a dimension of " + std::to_string(d.dim_value()) +
                           "; the largest supported is 2147483647");
      }
      dim.value = d.dim_value();
    }
    input.dims.push_back(std::move(dim));
  }
  return {};
}

/// Lists the refusal of an input if the import is to go on without it.
Status refuse_input(const std::string& name, const Status& why, const ImportOptions& options,
                    std::vector<std::string>& refused) {
  const bool listed = why.code() == Code::InvalidModel || why.code() == Code::Unsupported;
  if (options.refusals == nullptr || !listed) return why.with_context("input " + shown(name));
  options.refusals->push_back({name, "", "", 0, why});
  refused.push_back(name);
  return {};
}

std::set<std::string> names_of_initialisers(const wire::Graph& model) {
  std::set<std::string> names;
  for (const wire::Tensor& t : model.initializer()) names.insert(t.name());
  for (const wire::SparseTensor& t : model.sparse_initializer()) names.insert(t.values().name());
  return names;
}

Result<std::vector<Input>> read_inputs(const wire::Graph& model, const ImportOptions& options,
                                       std::vector<std::string>& refused) {
  const std::set<std::string> constants = names_of_initialisers(model);
  std::set<std::string> seen;
  std::vector<Input> inputs;
  for (const wire::ValueInfo& v : model.input()) {
    if (v.name().empty()) return invalid_model("an input has no name");
    if (!seen.insert(v.name()).second) {
      return invalid_model("input " + shown(v.name()) + " is listed twice");
    }
    const bool kept = options.is_state(v.name()) || options.is_optional(v.name());
    if (constants.contains(v.name()) && !kept) continue;
    Input input;
    input.name = v.name();
    input.text = type_text(v.type());
    const Status read = read_type(v, input);
    if (read.ok()) {
      inputs.push_back(std::move(input));
    } else {
      RP_TRY(refuse_input(v.name(), read, options, refused));
    }
  }
  return inputs;
}

Status usage(std::string message) {
  return {Code::Usage, std::move(message)};
}

std::string dims_text(const std::vector<int64_t>& dims) {
  std::string s;
  for (size_t i = 0; i < dims.size(); ++i) s += (i ? "x" : "") + std::to_string(dims[i]);
  return s;
}

/// Fixed dims by their names in the model, with the input that fixed each.
using Fixed = std::map<std::string, std::pair<int64_t, std::string>>;

Status fix_input(Input& input, const std::vector<int64_t>& dims, Fixed& fixed) {
  const std::string subject = "shape " + dims_text(dims) + " of input " + shown(input.name);
  if (!input.has_shape) input.dims.resize(dims.size());
  input.has_shape = true;
  const bool one = std::ranges::all_of(dims, [](int64_t d) { return d == 1; });
  if (input.dims.empty() && one) return {};  // sessions take such a tensor for a scalar
  if (dims.size() != input.dims.size()) {
    return usage(subject + " has rank " + std::to_string(dims.size()) +
                 ", but the model declares " + input.text);
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    Dim& d = input.dims[i];
    if (dims[i] < 0 || dims[i] > kMaxDim) {
      return usage(subject + ": " + std::to_string(dims[i]) + " is not a size");
    }
    if (d.value >= 0 && d.value != dims[i]) {
      return usage(subject + " does not match " + input.text + ", which the model declares");
    }
    d.value = dims[i];
    if (d.param.empty()) continue;
    auto [it, fresh] = fixed.emplace(d.param, std::pair(dims[i], input.name));
    if (!fresh && it->second.first != dims[i]) {
      return usage(subject + ": dimension " + shown(d.param) + " is " +
                   std::to_string(it->second.first) + " in input " + shown(it->second.second));
    }
  }
  return {};
}

Status apply_shapes(std::vector<Input>& inputs, const ImportOptions& options) {
  Fixed fixed;
  for (const auto& [name, dims] : options.shapes) {
    auto it = std::find_if(inputs.begin(), inputs.end(),
                           [&name = name](const Input& i) { return i.name == name; });
    if (it == inputs.end()) {
      std::string known;
      for (const Input& i : inputs) known += (known.empty() ? "" : ", ") + shown(i.name);
      return usage("the model has no input " + shown(name) + " to give a shape; its inputs are " +
                   (known.empty() ? "none" : known));
    }
    RP_TRY(fix_input(*it, dims, fixed));
  }
  for (const auto& [name, values] : options.values) {
    const auto it = std::ranges::find(inputs, name, &Input::name);
    if (it == inputs.end())
      return usage("the model has no input " + shown(name) + " to give values");
    const bool vector = !it->has_shape || it->dims.size() == 1;
    if (vector && !options.shapes.contains(name))
      RP_TRY(fix_input(*it, {static_cast<int64_t>(values.size())}, fixed));
  }
  for (Input& input : inputs) {
    for (Dim& d : input.dims) {
      auto it = fixed.find(d.param);
      if (d.value < 0 && it != fixed.end()) d.value = it->second.first;
    }
  }
  return {};
}

/// Converts dims to expressions. A name becomes a symbol that all inputs share, "past + 1" an
/// expression over such symbols, and an unnamed dim a symbol of its own. Where no input has the
/// size h, "4*h + 1" makes h a symbol that is derived from the dim.
class DimReader {
 public:
  explicit DimReader(Graph& g) : g_(g) {}

  void declare(const std::vector<Input>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (is_container(inputs[i].dtype)) continue;
      for (size_t axis = 0; axis < inputs[i].dims.size(); ++axis) {
        const Dim& d = inputs[i].dims[axis];
        if (d.value < 0 && is_identifier(d.param)) named(d.param, i, axis);
      }
    }
  }

  Expr read(const Input& input, size_t i, size_t axis) {
    const Dim& d = input.dims[axis];
    if (d.value >= 0) return d.value;
    if (d.param.empty()) return add("d" + std::to_string(unnamed_++), i, axis);
    if (!by_name_.contains(d.param)) {
      const Result<Expr> e = Expr::parse(d.param, g_.symbols);
      if (e.ok() && !e->is_const()) return *e;
      if (const auto sum = derive(input, i, axis)) return *sum;
    }
    return named(d.param, i, axis);
  }

  /// Limits the dims from which symbols are derived as those symbols are limited.
  void limit_linear() {
    for (const Linear& l : linear_) {
      const Symbol& part = g_.symbols[static_cast<size_t>(l.part)];
      Symbol& dim = g_.symbols[static_cast<size_t>(l.dim)];
      dim.min = std::max(dim.min, l.scale * part.min + l.offset);
      dim.max = std::min(dim.max, l.scale * part.max + l.offset);
    }
  }

 private:
  /// The symbol `dim` is scale * part + offset.
  struct Linear {
    SymbolId dim, part;
    int64_t scale, offset;
  };

  /// Returns the form of a name such as "4*h + 1", and the name of h. A name such as "batch-1",
  /// without spaces, is usually no difference.
  static std::optional<std::pair<std::string, Linear>> linear_form(const std::string& text) {
    const auto in_name = [](char c) { return is_identifier({'_', c}); };
    const auto begin = std::ranges::find_if(text, [](char c) { return is_identifier({c}); });
    std::string name(begin, std::find_if_not(begin, text.end(), in_name));
    const std::array symbols{Symbol{name}};
    const Result<Expr> e = Expr::parse(text, symbols);
    if (!e.ok() || e->terms().size() != 1) return std::nullopt;
    const Term& term = e->terms()[0];
    const Atom* atom = term.single();
    const Linear form{0, 0, term.coefficient, e->constant()};
    const bool sum = form.scale > 1 || form.offset > 0 || text.find(' ') != std::string::npos;
    const bool small = form.scale >= 1 && form.scale <= kMaxDim && form.offset >= -kMaxDim &&
                       form.offset <= kMaxDim;
    if (atom == nullptr || atom->kind() != Atom::Kind::Symbol || !sum || !small)
      return std::nullopt;
    return std::pair(std::move(name), form);
  }

  std::optional<Expr> derive(const Input& input, size_t i, size_t axis) {
    auto linear = linear_form(input.dims[axis].param);
    if (!linear) return std::nullopt;
    auto& [name, form] = *linear;
    const Expr dim = add(input.name + "_dim" + std::to_string(axis), i, axis);
    form.dim = *dim.as_symbol();
    const Expr part = g_.derived_symbol(name, Expr::floordiv(dim - form.offset, form.scale));
    form.part = *part.as_symbol();
    Symbol& size = g_.symbols[static_cast<size_t>(form.part)];
    size.min = std::max<int64_t>(size.min, 0);
    size.max = std::min(size.max, kMaxDim);
    linear_.push_back(form);
    by_name_.emplace(name, part);
    return part * form.scale + form.offset;
  }

  Expr add(const std::string& name, size_t i, size_t axis) {
    Symbol s;
    s.name = name;
    return Expr::symbol(g_.add_symbol(
        std::move(s),
        {SymbolSource::Kind::InputDim, static_cast<int32_t>(i), static_cast<int32_t>(axis)}));
  }
  Expr named(const std::string& param, size_t i, size_t axis) {
    auto it = by_name_.find(param);
    if (it == by_name_.end()) it = by_name_.emplace(param, add(param, i, axis)).first;
    return it->second;
  }

  Graph& g_;
  std::map<std::string, Expr> by_name_;
  std::vector<Linear> linear_;
  size_t unnamed_ = 0;
};

/// Dims that are not fixed may differ between the tensors, so they are no symbols.
graph::Items items_of(const Input& input) {
  if (!input.has_shape) return {};
  Shape shape;
  for (const Dim& d : input.dims) shape.push_back(d.value < 0 ? graph::Items::kDiffers : d.value);
  return graph::Items::of(std::move(shape));
}

}  // namespace

Result<HostTensor> known_value(const graph::Value& v, const std::vector<int64_t>& values) {
  const std::string subject = "the value of input " + shown(v.name);
  if (v.dtype != DType::I64 && v.dtype != DType::I32 && v.dtype != DType::Bool)
    return usage(subject + ": only int64, int32 and bool can be known, it is " +
                 std::string(name_of(v.dtype)));
  if (!is_static(v.shape)) return usage(subject + ": its shape is not fixed; fix it with --shape");
  if (!element_count(v.shape).is_const(static_cast<int64_t>(values.size())) ||
      values.size() > kMostValues)
    return usage(subject + ": " + std::to_string(values.size()) + " numbers for " +
                 describe(v.dtype, static_dims(v.shape)) + ", of which at most " +
                 std::to_string(kMostValues) + " can be known");
  HostTensor t(v.dtype, static_dims(v.shape));
  for (size_t i = 0; i < values.size(); ++i) {
    if (v.dtype == DType::I64) t.mutable_data<int64_t>()[i] = values[i];
    if (v.dtype == DType::I32) t.mutable_data<int32_t>()[i] = static_cast<int32_t>(values[i]);
    if (v.dtype == DType::Bool) t.mutable_data<uint8_t>()[i] = values[i] != 0 ? 1 : 0;
  }
  return t;
}

Result<std::vector<DeclaredInput>> declared_inputs(const std::string& path) {
  RP_ASSIGN(const std::shared_ptr<const wire::Model> model, read_model(path));
  const std::set<std::string> constants = names_of_initialisers(model->graph());
  std::vector<DeclaredInput> out;
  for (const wire::ValueInfo& v : model->graph().input()) {
    const Result<TypeForm> form = type_form(v.type());
    out.push_back(
        {v.name(), form.ok() ? form->dtype : DType::Invalid, constants.contains(v.name())});
  }
  return out;
}

Status add_inputs(Graph& g, const wire::Graph& model, const ImportOptions& options,
                  std::vector<std::string>& refused) {
  RP_ASSIGN(std::vector<Input> inputs, read_inputs(model, options, refused));
  RP_TRY(apply_shapes(inputs, options));
  for (const Input& input : inputs) {
    if (input.has_shape || is_container(input.dtype)) continue;
    RP_TRY(refuse_input(input.name,
                        unsupported("it has no declared rank; fix its shape with --shape"), options,
                        refused));
  }
  std::erase_if(inputs,
                [](const Input& input) { return !input.has_shape && !is_container(input.dtype); });
  DimReader reader(g);
  reader.declare(inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input& input = inputs[i];
    if (is_container(input.dtype)) {
      g.inputs.push_back(g.add_container(input.name, input.dtype, items_of(input)));
      continue;
    }
    Shape shape;
    for (size_t axis = 0; axis < input.dims.size(); ++axis) {
      shape.push_back(reader.read(input, i, axis));
    }
    if (is_static(shape)) {
      const Status s = checked_element_count(static_dims(shape), input.dtype).status();
      RP_TRY(s.with_context("input " + shown(input.name)));
    }
    g.inputs.push_back(g.add_value(input.name, input.dtype, std::move(shape)));
  }
  RP_TRY(graph::apply_ranges(g, options.ranges));
  reader.limit_linear();
  return {};
}

}  // namespace reprise::onnx
