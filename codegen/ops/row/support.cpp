#include "codegen/ops/row/support.h"

#include <algorithm>
#include <utility>

#include "codegen/ops/row/dims.h"
#include "codegen/ops/row/shape_arith.h"
#include "runtime/base/low_bit.h"

namespace reprise::ops {

namespace {

template <typename T>
std::vector<double> to_double(const HostTensor& t) {
  const T* p = t.data<T>();
  std::vector<double> out;
  out.reserve(static_cast<size_t>(t.count()));
  for (int64_t i = 0; i < t.count(); ++i) out.push_back(static_cast<double>(p[i]));
  return out;
}

template <typename Narrow>
HostTensor narrow_tensor(DType dtype, std::vector<int64_t> dims, const std::vector<double>& v,
                         Narrow narrow) {
  std::vector<uint16_t> bits;
  bits.reserve(v.size());
  for (double x : v) bits.push_back(narrow(static_cast<float>(x)));
  return HostTensor::from<uint16_t>(dtype, std::move(dims), bits);
}

}  // namespace

DType dtype_from_onnx(int64_t number) {
  return dtype_with_onnx_number(number);
}

int64_t dtype_to_onnx(DType t) {
  return onnx_number_of(t);
}

Result<DType> dtype_attr(const InferContext& ctx, std::string_view name) {
  const int64_t number = ctx.attrs().get_int(name);
  const DType t = dtype_from_onnx(number);
  if (t == DType::Invalid) {
    return ctx.error(Code::Unsupported, "attribute '" + std::string(name) +
                                            "' = " + std::to_string(number) +
                                            " is not a supported element type");
  }
  return t;
}

Result<DType> dtype_attr_or(const InferContext& ctx, std::string_view name, DType fallback) {
  return ctx.attrs().has(name) ? dtype_attr(ctx, name) : Result<DType>(fallback);
}

Result<bool> mark_core(Rewriter& rw) {
  rw.node().opset = 0;
  return false;
}

bool always_identity(const graph::Node&) {
  return true;
}

void merge_into_last(graph::Node&, const graph::Node&) {}

bool is_container_output(Rewriter& rw) {
  const graph::ValueId v = rw.node().outputs[0];
  return is_container(rw.graph().value(v).dtype) && rw.graph().is_output(v);
}

Status infer_same(InferContext& ctx) {
  if (is_container(ctx.dtype(0))) {
    ctx.set_container(0, ctx.dtype(0), ctx.input(0).items);
    return {};
  }
  ctx.set_output(0, ctx.dtype(0), ctx.shape(0));
  return {};
}

Status infer_same_float(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  return infer_same(ctx);
}

Status require_float(const InferContext& ctx, size_t i) {
  if (is_float(ctx.dtype(i))) return {};
  return ctx.invalid("input " + std::to_string(i) + " '" + ctx.input(i).name + "' is " +
                     std::string(name_of(ctx.dtype(i))) + ", expected a floating-point type");
}

Status require_int(const InferContext& ctx, size_t i) {
  if (is_int(ctx.dtype(i))) return {};
  return ctx.invalid("input " + std::to_string(i) + " '" + ctx.input(i).name + "' is " +
                     std::string(name_of(ctx.dtype(i))) + ", expected an integer type");
}

Status require_rank(const InferContext& ctx, size_t i, int64_t min_rank) {
  if (ctx.rank(i) >= min_rank) return {};
  return ctx.invalid("input " + std::to_string(i) + " '" + ctx.input(i).name + "' has shape " +
                     ctx.str(ctx.shape(i)) + ", expected at least rank " +
                     std::to_string(min_rank));
}

Status require_shape(const InferContext& ctx, size_t i, const std::string& role,
                     const Shape& expected) {
  const Shape& s = ctx.shape(i);
  bool fits = s.size() == expected.size();
  for (size_t d = 0; fits && d < s.size(); ++d)
    fits = ctx.unify(s[d], expected[d], "dims of " + role).ok();
  if (fits) return {};
  return ctx.invalid(role + " must have shape " + ctx.str(expected) + ", has " + ctx.str(s));
}

Status require_inputs(const InferContext& ctx, std::initializer_list<size_t> inputs) {
  for (const size_t i : inputs)
    if (!ctx.has_input(i)) return ctx.invalid("input " + std::to_string(i) + " is missing");
  return {};
}

Status require_indices(const InferContext& ctx) {
  if (ctx.dtype(1) == DType::I32 || ctx.dtype(1) == DType::I64) return {};
  return ctx.invalid("indices '" + ctx.input(1).name + "' are " +
                     std::string(name_of(ctx.dtype(1))) + ", expected int32 or int64");
}

Status require_indices_within(const InferContext& ctx, int64_t axis) {
  const Shape &data = ctx.shape(0), &indices = ctx.shape(1);
  if (data.size() != indices.size()) {
    return ctx.invalid("data " + ctx.str(data) + " and indices " + ctx.str(indices) +
                       " differ in rank");
  }
  for (size_t d = 0; d < data.size(); ++d) {
    if (d == static_cast<size_t>(axis)) continue;
    if (bounds(data[d] - indices[d], ctx.graph_symbols()).hi < 0)
      return ctx.invalid("indices " + ctx.str(indices) + " exceed the data " + ctx.str(data));
    ctx.at_least(data[d], "a dim of the data", indices[d], "that of the indices");
  }
  return {};
}

Status require_same_dtype(const InferContext& ctx) {
  for (size_t i = 1; i < ctx.input_count(); ++i) {
    if (!ctx.has_input(i) || ctx.dtype(i) == ctx.dtype(0)) continue;
    return ctx.invalid("inputs '" + ctx.input(0).name + "' and '" + ctx.input(i).name +
                       "' differ in dtype: " + std::string(name_of(ctx.dtype(0))) + " and " +
                       std::string(name_of(ctx.dtype(i))));
  }
  return {};
}

std::string range_advice(const graph::Graph& g, const Expr& size) {
  if (size.is_overflow()) return {};
  std::string names;
  for (const SymbolId s : size.symbols()) {
    const auto at = static_cast<size_t>(s);
    if (g.symbol_sources[at].kind == SymbolSource::Kind::InputDim)
      names += (names.empty() ? "" : ", ") + g.symbols[at].name + "=MIN..MAX";
  }
  return names.empty() ? names : "; --range " + names + " limits it";
}

Result<std::optional<std::vector<int64_t>>> ints_attr_or_input(const InferContext& ctx,
                                                               const char* attr, size_t input) {
  if (const auto* v = ctx.attrs().get<std::vector<int64_t>>(attr)) return std::optional(*v);
  if (!ctx.has_input(input)) return std::optional<std::vector<int64_t>>{};
  auto v = ctx.constant_ints(input);
  if (!v) {
    return ctx.error(Code::Unsupported,
                     "input '" + ctx.input(input).name + "' (" + attr + ") must be constant");
  }
  return v;
}

bool depends_on_data(const InferContext& ctx, const char* attr, size_t input) {
  return !ctx.attrs().has(attr) && ctx.has_input(input) && !ctx.constant_ints(input);
}

Result<int64_t> static_length(const InferContext& ctx, size_t input) {
  const Shape& s = ctx.shape(input);
  if (s.size() == 1 && s[0].is_const() && s[0].value() <= 64) return s[0].value();
  return ctx.error(Code::Unsupported, "the rank of the result is the length of '" +
                                          ctx.input(input).name + "', which is " + ctx.str(s) +
                                          ": fix it with --shape, or its elements with --value");
}

std::vector<int64_t> iota(int64_t begin, int64_t end) {
  std::vector<int64_t> v;
  for (int64_t i = begin; i < end; ++i) v.push_back(i);
  return v;
}

Shape shape_of(const std::vector<int64_t>& dims) {
  return Shape(dims.begin(), dims.end());
}

std::vector<Expr> exprs_of(const std::vector<int64_t>& v) {
  return std::vector<Expr>(v.begin(), v.end());
}

Expr product(const Shape& s, size_t begin, size_t end) {
  Expr p = 1;
  for (size_t i = begin; i < end; ++i) p *= s[i];
  return p;
}

Expr linearize(const std::vector<Expr>& index, const Shape& shape) {
  Expr linear = 0;
  for (size_t i = 0; i < shape.size(); ++i) linear = linear * shape[i] + index[i];
  return linear;
}

std::vector<Expr> delinearize(const Expr& linear, const Shape& shape) {
  std::vector<Expr> index(shape.size(), Expr(0));
  Expr stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    // A dim of 1 has the index 0, and the outermost dim needs no remainder.
    if (shape[i].is_const(1)) continue;
    const Expr q = stride.is_const(1) ? linear : Expr::floordiv(linear, stride);
    const bool outermost =
        std::all_of(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(i),
                    [](const Expr& d) { return d.is_const(1); });
    index[i] = outermost ? q : Expr::mod(q, shape[i]);
    stride *= shape[i];
  }
  return index;
}

std::vector<Expr> broadcast_index(const graph::Graph& g, const std::vector<Expr>& index,
                                  const Shape& from, const Shape& to) {
  std::vector<Expr> out;
  out.reserve(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    const size_t from_end = from.size() - i;
    if (from_end > to.size()) {  // the dim is 1, because `to` lacks it
      out.emplace_back(0);
      continue;
    }
    const size_t at = to.size() - from_end;
    out.push_back(broadcast_position(g, index[at], from[i], to[at]));
  }
  return out;
}

std::optional<std::vector<double>> constant_numbers(const graph::Value& v) {
  if (v.contents() == nullptr) return std::nullopt;
  const HostTensor& t = *v.contents();
  std::vector<double> out;
  if (is_low_bit(t.dtype())) {
    for (int64_t i = 0; i < t.count(); ++i)
      out.push_back(low_bit_to_float(t.dtype(), t.data<uint8_t>()[i]));
    return out;
  }
  switch (t.dtype()) {
    case DType::F32:
      return to_double<float>(t);
    case DType::F64:
      return to_double<double>(t);
    case DType::I8:
      return to_double<int8_t>(t);
    case DType::U8:
    case DType::Bool:
      return to_double<uint8_t>(t);
    case DType::I16:
      return to_double<int16_t>(t);
    case DType::U16:
      return to_double<uint16_t>(t);
    case DType::I32:
      return to_double<int32_t>(t);
    case DType::U32:
      return to_double<uint32_t>(t);
    case DType::I64:
      return to_double<int64_t>(t);
    case DType::U64:
      return to_double<uint64_t>(t);
    case DType::F16:
      for (int64_t i = 0; i < t.count(); ++i) out.push_back(f16_to_float(t.data<uint16_t>()[i]));
      return out;
    case DType::BF16:
      for (int64_t i = 0; i < t.count(); ++i) out.push_back(bf16_to_float(t.data<uint16_t>()[i]));
      return out;
    default:
      return std::nullopt;
  }
}

HostTensor float_tensor(DType dtype, std::vector<int64_t> dims, const std::vector<double>& v) {
  switch (dtype) {
    case DType::F64:
      return HostTensor::from<double>(dtype, std::move(dims), v);
    case DType::F16:
      return narrow_tensor(dtype, std::move(dims), v, float_to_f16);
    case DType::BF16:
      return narrow_tensor(dtype, std::move(dims), v, float_to_bf16);
    default:
      return HostTensor::from<float>(DType::F32, std::move(dims),
                                     std::vector<float>(v.begin(), v.end()));
  }
}

}  // namespace reprise::ops
