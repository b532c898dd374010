// Functions that operator families share.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "codegen/ops/row/op.h"

namespace reprise::ops {

/// Converts a TensorProto.DataType number, as in the attributes `to` and `dtype`.
DType dtype_from_onnx(int64_t number);
int64_t dtype_to_onnx(DType t);

/// The dtype of an attribute, given or by default.
Result<DType> dtype_attr(const InferContext& ctx, std::string_view name);
/// The same, with a fallback if the attribute is absent.
Result<DType> dtype_attr_or(const InferContext& ctx, std::string_view name, DType fallback);

/// Marks a node that is in core form without changes: sets its opset to 0.
Result<bool> mark_core(Rewriter& rw);

/// OpDef::is_identity for operators that only change dims or the dtype.
bool always_identity(const graph::Node& n);
/// OpDef::merge for operators where the last one alone determines the result.
void merge_into_last(graph::Node& n, const graph::Node& producer);

/// Whether output 0 is an output of the graph that no other value can replace, as no operator but
/// Identity copies a container.
bool is_container_output(Rewriter& rw);

/// Output 0 has the dtype and shape of input 0.
Status infer_same(InferContext& ctx);
/// The same, and requires input 0 to be floating point.
Status infer_same_float(InferContext& ctx);
Status require_float(const InferContext& ctx, size_t i);
Status require_int(const InferContext& ctx, size_t i);
Status require_rank(const InferContext& ctx, size_t i, int64_t min_rank);
/// Requires input i, which `role` describes, to have a shape. Dims whose equality cannot be decided
/// become guards.
Status require_shape(const InferContext& ctx, size_t i, const std::string& role,
                     const Shape& expected);
/// Requires inputs that may not be omitted behind others that may.
Status require_inputs(const InferContext& ctx, std::initializer_list<size_t> inputs);
/// Requires input 1 to be I32 or I64.
Status require_indices(const InferContext& ctx);
/// Requires the indices, input 1, to have the rank of the data, input 0, and no larger dims, except
/// along `axis`.
Status require_indices_within(const InferContext& ctx, int64_t axis);
/// Requires all present inputs to have the dtype of input 0.
Status require_same_dtype(const InferContext& ctx);

/// How the sizes of inputs on which a size depends can be limited: "; --range n=MIN..MAX limits
/// it". Empty if it depends on none.
std::string range_advice(const graph::Graph& g, const Expr& size);

/// Integers that are an attribute in old versions and an input in new ones. Nothing if neither is
/// given. An input that is not constant is Unsupported.
Result<std::optional<std::vector<int64_t>>> ints_attr_or_input(const InferContext& ctx,
                                                               const char* attr, size_t input);
/// Whether the input is given and its contents depend on data.
bool depends_on_data(const InferContext& ctx, const char* attr, size_t input);
/// The length of a vector input, which must be static.
Result<int64_t> static_length(const InferContext& ctx, size_t input);

/// The shape of a matrix multiplication. Operands may be vectors, and batch dims broadcast.
Result<Shape> matmul_shape(const InferContext& ctx, const Shape& a, const Shape& b);

std::vector<int64_t> iota(int64_t begin, int64_t end);
Shape shape_of(const std::vector<int64_t>& dims);
std::vector<Expr> exprs_of(const std::vector<int64_t>& v);
/// The product of dims [begin, end).
Expr product(const Shape& s, size_t begin, size_t end);
/// The row-major position of an index.
Expr linearize(const std::vector<Expr>& index, const Shape& shape);
/// The inverse: the index of a row-major position.
std::vector<Expr> delinearize(const Expr& linear, const Shape& shape);
/// Maps an index of shape `to` to the index in a tensor of shape `from`, which broadcasts to it.
std::vector<Expr> broadcast_index(const graph::Graph& g, const std::vector<Expr>& index,
                                  const Shape& from, const Shape& to);

/// The numbers of a constant tensor, or of one that constants determine, as double. Nothing for
/// strings.
std::optional<std::vector<double>> constant_numbers(const graph::Value& v);
/// A tensor of a float dtype, rounded from double.
HostTensor float_tensor(DType dtype, std::vector<int64_t> dims, const std::vector<double>& v);

}  // namespace reprise::ops
