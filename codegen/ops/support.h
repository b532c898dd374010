// Small helpers that operator families share.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "codegen/ops/op.h"

namespace reprise::ops {

/// TensorProto.DataType numbers, as attributes hold them (`to`, `dtype`).
DType dtype_from_onnx(int64_t number);
int64_t dtype_to_onnx(DType t);

/// The dtype that an attribute names, by default or because it is given.
Result<DType> dtype_attr(const InferContext& ctx, std::string_view name);
/// The same, or the fallback when it is not given.
Result<DType> dtype_attr_or(const InferContext& ctx, std::string_view name, DType fallback);

/// A node that is core form as it stands: sets its version to 0.
Result<bool> mark_core(Rewriter& rw);

/// OpDef::is_identity of operators that change nothing but dims or the dtype.
bool always_identity(const graph::Node& n);
/// OpDef::merge of operators of which the last one decides alone.
void merge_into_last(graph::Node& n, const graph::Node& producer);

/// Output 0 has input 0's dtype and shape.
Status infer_same(InferContext& ctx);
/// Same, and input 0 must be floating point.
Status infer_same_float(InferContext& ctx);
Status require_float(const InferContext& ctx, size_t i);
Status require_int(const InferContext& ctx, size_t i);
Status require_rank(const InferContext& ctx, size_t i, int64_t min_rank);
/// All given inputs that are present must have input 0's dtype.
Status require_same_dtype(const InferContext& ctx);

/// An attribute of integers that a later version turned into an input: nothing when neither is
/// given. An input that is not constant is Unsupported.
Result<std::optional<std::vector<int64_t>>> ints_attr_or_input(const InferContext& ctx,
                                                               const char* attr, size_t input);
/// Whether that input is given but its contents depend on data.
bool depends_on_data(const InferContext& ctx, const char* attr, size_t input);
/// Number of entries of a vector input whose length is static.
Result<int64_t> static_length(const InferContext& ctx, size_t input);

/// Shape of a product of matrices (vectors allowed), with broadcast batch dims.
Result<Shape> matmul_shape(const InferContext& ctx, const Shape& a, const Shape& b);

std::vector<int64_t> iota(int64_t begin, int64_t end);
Shape shape_of(const std::vector<int64_t>& dims);
std::vector<Expr> exprs_of(const std::vector<int64_t>& v);
/// Product of dims [begin, end).
Expr product(const Shape& s, size_t begin, size_t end);
/// Row-major position of an index.
Expr linearize(const std::vector<Expr>& index, const Shape& shape);
/// Inverse: the index of a row-major position.
std::vector<Expr> delinearize(const Expr& linear, const Shape& shape);
/// Index into a tensor of shape `from` that is broadcast to `to`, which `index` belongs to.
std::vector<Expr> broadcast_index(const graph::Graph& g, const std::vector<Expr>& index,
                                  const Shape& from, const Shape& to);

/// Numbers of a constant float or integer tensor, as double. Nothing for strings.
std::optional<std::vector<double>> constant_numbers(const graph::Value& v);
/// A tensor of a float dtype, rounded from double.
HostTensor float_tensor(DType dtype, std::vector<int64_t> dims, const std::vector<double>& v);

}  // namespace reprise::ops
