#include "codegen/families/matrices.h"

#include <cstring>

#include "codegen/formats/aligned.h"

namespace reprise::families {

using builder::kOmitted;
using formats::GgufType;
using formats::StoredRows;

namespace {

DType float_dtype(GgufType type) {
  if (type == GgufType::F16) return DType::F16;
  return type == GgufType::BF16 ? DType::BF16 : DType::F32;
}

std::string dims_text(const std::vector<int64_t>& dims) {
  std::string out = "[";
  for (const int64_t d : dims) out += (out.size() > 1 ? ", " : "") + std::to_string(d);
  return out + "]";
}

/// The rows in a range, in their order.
StoredRows cut(const StoredTensor& t, const RowRange& part) {
  StoredRows s{t.type, t.dims[0], t.dims[1], t.bytes};
  if (part.count == 0) return s;
  s.rows = part.count;
  s.bytes = s.bytes.subspan(static_cast<size_t>(part.first) * s.row_bytes(),
                            static_cast<size_t>(part.count) * s.row_bytes());
  return s;
}

}  // namespace

std::optional<StoredTensor> Matrices::find(Role role, int64_t layer, bool bias) {
  if (!n_.ok()) return std::nullopt;
  return n_.take(d_.find(role, layer, bias));
}

bool Matrices::has(Role role, int64_t layer, bool bias) {
  return find(role, layer, bias).has_value();
}

std::optional<StoredTensor> Matrices::require(Role role, int64_t layer, bool bias,
                                              const std::vector<int64_t>& dims) {
  std::optional<StoredTensor> t = find(role, layer, bias);
  if (!n_.ok()) return std::nullopt;
  const std::string what =
      "weight " + std::to_string(static_cast<int>(role)) + " of layer " + std::to_string(layer);
  if (!t) {
    n_.fail({Code::InvalidModel, d_.path + ": there is no tensor for the " + what});
    return std::nullopt;
  }
  if (t->dims != dims) {
    n_.fail({Code::InvalidModel, d_.path + ": tensor '" + t->name + "' has the dims " +
                                     dims_text(t->dims) + ", expected " + dims_text(dims)});
    return std::nullopt;
  }
  if (!formats::can_dequantize(t->type)) {
    n_.fail({Code::Unsupported, d_.path + ": tensor '" + t->name + "' has the type " +
                                    formats::gguf_type_traits(t->type).name +
                                    ", which is not supported"});
    return std::nullopt;
  }
  return t;
}

std::vector<int64_t> Matrices::order_of(const StoredTensor& t) const {
  if (!t.interleaved) return {};
  const int64_t size = d_.facts.head_size, rows = t.dims[0];
  std::vector<int64_t> order(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = r % size, half = size / 2;
    order[static_cast<size_t>(r)] = r - at + at % half * 2 + at / half;
  }
  return order;
}

Matrices::Value Matrices::block_columns_of(const StoredTensor& t, const StoredRows& stored,
                                           const std::string& name) {
  auto blocks = formats::block_columns(stored);
  if (!blocks.ok()) {
    n_.fail(blocks.status().with_context(d_.path + ": tensor '" + t.name + "'"));
    return kOmitted;
  }
  builder::CoreNode n;
  n.op = "DequantizeLinear";
  n.name = name;
  n.attrs.set("axis", int64_t{0});
  n.attrs.set("block_size", blocks->block);
  n.attrs.set("output_dtype", int64_t{1});
  n.inputs = {n_.constant(name + ".numbers", std::move(blocks->numbers)),
              n_.constant(name + ".scales", std::move(blocks->scales))};
  if (blocks->minimums) {
    n.inputs.push_back(kOmitted);
    n.inputs.push_back(n_.constant(name + ".minimums", *std::move(blocks->minimums)));
  }
  return n_.core(n);
}

Matrices::Value Matrices::float_columns_of(const StoredTensor& t, const StoredRows& stored,
                                           const std::string& name) {
  const bool direct = !formats::has_block_form(t.type) && stored.order.empty();
  Value v = kOmitted;
  if (direct) {
    const Status fits = stored.check();
    if (!fits.ok()) {
      n_.fail(fits.with_context(d_.path + ": tensor '" + t.name + "'"));
      return kOmitted;
    }
    v = n_.constant(name,
                    formats::aligned_tensor(float_dtype(t.type), {stored.rows, stored.columns},
                                            stored.bytes, t.owner));
  } else {
    auto floats = formats::dequantized(stored);
    if (!floats.ok()) {
      n_.fail(floats.status().with_context(d_.path + ": tensor '" + t.name + "'"));
      return kOmitted;
    }
    v = n_.constant(name, *std::move(floats));
  }
  v = n_.transpose(v, {1, 0});
  if (!direct || t.type == GgufType::F32) return v;
  AttrMap a;
  a.set("to", int64_t{1});
  return n_.op("Cast", {v}, std::move(a));
}

Matrices::Value Matrices::columns_of(const StoredTensor& t, const RowRange& part) {
  const auto key = std::pair(t.name, part.first);
  if (const auto at = known_.find(key); at != known_.end()) return at->second;
  const std::vector<int64_t> order = order_of(t);
  StoredRows stored = cut(t, part);
  stored.order = order;
  const std::string name =
      part.count == 0 ? t.name : t.name + "[" + std::to_string(part.first) + ":]";
  const bool blocks = formats::has_block_form(t.type) && !floats_;
  const Value v = blocks ? block_columns_of(t, stored, name) : float_columns_of(t, stored, name);
  known_.emplace(key, v);
  return v;
}

Matrices::Value Matrices::bias_of(Role role, int64_t layer, int64_t rows, const RowRange& part) {
  std::optional<StoredTensor> t = require(role, layer, true, {rows});
  if (!t) return kOmitted;
  t->dims = {rows, 1};
  const std::vector<int64_t> order = order_of(*t);
  StoredRows stored = cut(*t, part);
  stored.order = order;
  HostTensor floats = n_.take(formats::dequantized(stored));
  if (!n_.ok()) return kOmitted;
  return n_.constant("", floats.reshaped({floats.count()}));
}

Matrices::Value Matrices::product(Value x, Role role, int64_t layer, int64_t rows, int64_t columns,
                                  const RowRange& part) {
  const auto t = require(role, layer, false, {rows, columns});
  if (!t) return kOmitted;
  const Value y = n_.op("MatMul", {x, columns_of(*t, part)});
  if (!has(role, layer, true)) return y;
  return n_.add(y, bias_of(role, layer, rows, part));
}

Matrices::Value Matrices::gather(Value rows_at, Role role, int64_t rows, int64_t columns) {
  const auto t = require(role, 0, false, {rows, columns});
  if (!t) return kOmitted;
  AttrMap a;
  a.set("axis", int64_t{1});
  const Value chosen = n_.op("Gather", {columns_of(*t, {}), rows_at}, std::move(a));
  return n_.transpose(chosen, {1, 2, 0});
}

Matrices::Value Matrices::vector(Role role, int64_t layer, int64_t size, float added) {
  std::optional<StoredTensor> t = require(role, layer, false, {size});
  if (!t) return kOmitted;
  HostTensor floats = n_.take(formats::dequantized({t->type, 1, size, t->bytes}));
  if (!n_.ok()) return kOmitted;
  floats = floats.reshaped({size});
  if (added != 0) {
    HostTensor sums(DType::F32, {size});
    for (int64_t i = 0; i < size; ++i)
      sums.mutable_data<float>()[i] = floats.data<float>()[i] + added;
    floats = std::move(sums);
  }
  return n_.constant(t->name, std::move(floats));
}

}  // namespace reprise::families
