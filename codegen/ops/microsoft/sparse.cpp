// SparseAttention of com.microsoft: GroupQueryAttention whose scores of left out blocks are minus
// infinity. https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md defines it.
#include <limits>
#include <string>

#include "codegen/ops/microsoft/microsoft.h"
#include "codegen/ops/row/composed.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;

enum : size_t {
  kSparseQuery,
  kSparseKey,
  kSparseValue,
  kSparsePastKey,
  kSparsePastValue,
  kSparseRowStarts,
  kSparseColumns,
  kSparseTotal,
  kSparseKeyLengths,
  kSparseCos,
  kSparseSin
};

/// Which blocks of keys count for which blocks of queries.
struct Blocks {
  int64_t layouts = 0, rows = 0;  // each layout has as many columns as rows
  std::vector<uint8_t> visible;   // [layouts, rows, rows]
};

/// Reads the rows of each layout, whose columns lie one after another.
Result<Blocks> blocks_of(const InferContext& ctx) {
  const auto starts = ctx.constant_ints(kSparseRowStarts),
             columns = ctx.constant_ints(kSparseColumns);
  if (!starts || !columns)
    return ctx.error(Code::Unsupported,
                     "block_row_indices and block_col_indices must be constants");
  if (ctx.rank(kSparseRowStarts) != 2 || ctx.rank(kSparseColumns) != 2 ||
      ctx.shape(kSparseRowStarts)[0] != ctx.shape(kSparseColumns)[0] || starts->empty())
    return ctx.invalid("block_row_indices " + ctx.str(ctx.shape(kSparseRowStarts)) +
                       " and block_col_indices " + ctx.str(ctx.shape(kSparseColumns)) +
                       " must have two axes, and as many layouts");
  Blocks b;
  b.layouts = ctx.shape(kSparseRowStarts)[0].value();
  b.rows = ctx.shape(kSparseRowStarts)[1].value() - 1;
  const int64_t room = ctx.shape(kSparseColumns)[1].value();
  b.visible.resize(static_cast<size_t>(b.layouts * b.rows * b.rows));
  for (int64_t l = 0; l < b.layouts; ++l) {
    for (int64_t r = 0; r < b.rows; ++r) {
      const auto at = static_cast<size_t>(l * (b.rows + 1) + r);
      const int64_t first = (*starts)[at], end = (*starts)[at + 1];
      if (first < 0 || end < first || end > room)
        return ctx.invalid("row " + std::to_string(r) + " of block_row_indices ends at " +
                           std::to_string(end) + " of " + std::to_string(room) + " columns");
      for (int64_t i = first; i < end; ++i) {
        const int64_t column = (*columns)[static_cast<size_t>(l * room + i)];
        if (column < 0 || column >= b.rows)
          return ctx.invalid("block_col_indices has the column " + std::to_string(column) + " of " +
                             std::to_string(b.rows));
        b.visible[static_cast<size_t>((l * b.rows + r) * b.rows + column)] = 1;
      }
    }
  }
  return b;
}

Status check(const InferContext& ctx) {
  RP_TRY(require_float(ctx, kSparseQuery));
  RP_TRY(require_inputs(ctx, {kSparsePastKey, kSparsePastValue, kSparseRowStarts, kSparseColumns,
                              kSparseTotal, kSparseKeyLengths}));
  RP_TRY(require_int(ctx, kSparseKeyLengths));
  if (ctx.rank(kSparseQuery) != 3 || ctx.rank(kSparsePastKey) != 4)
    return ctx.invalid("the query " + ctx.str(ctx.shape(kSparseQuery)) + " and past_key " +
                       ctx.str(ctx.shape(kSparsePastKey)) + " must have 3 and 4 axes");
  const int64_t size = ctx.attrs().get_int("sparse_block_size");
  if (size < 1) return ctx.invalid("sparse_block_size is " + std::to_string(size));
  if (ctx.attrs().get_int("num_heads") < 1) return ctx.invalid("num_heads must be at least 1");
  return {};
}

/// What is added to the scores: [batch, heads, length, keys].
V block_bias(Composer& c, const Blocks& blocks, V lengths) {
  const Shape query = c.shape(c.in(kSparseQuery));
  const Expr keys = c.shape(c.in(kSparsePastKey))[2];
  const auto block = static_cast<double>(c.attrs().get_int("sparse_block_size"));
  const int64_t heads = c.attrs().get_int("num_heads");
  // The positions of the rows, at the end of the keys of their batch.
  const V before = c.max(c.sub(lengths, c.expr_value(query[1], DType::I32)), 0);
  const V rows = c.add(c.reshape(before, {query[0], 1, 1, 1}),
                       c.reshape(c.positions(query[1]), {1, 1, query[1], 1}));
  const V columns = c.reshape(c.positions(keys), {1, 1, 1, keys});
  const auto blocks_at = [&](V position) {
    return c.min(c.div(position, block), static_cast<double>(blocks.rows - 1));
  };
  std::vector<int32_t> layouts;
  for (int64_t h = 0; h < heads; ++h)
    layouts.push_back(static_cast<int32_t>(h % blocks.layouts * blocks.rows));
  const V layout = c.constant(HostTensor::from<int32_t>(DType::I32, {1, heads, 1, 1}, layouts));
  const V at = c.add(c.mul(c.add(layout, blocks_at(rows)), static_cast<double>(blocks.rows)),
                     blocks_at(columns));
  const V visible = c.constant(
      HostTensor::from<uint8_t>(DType::Bool, {std::ssize(blocks.visible)}, blocks.visible));
  AttrMap a;
  a.set("axis", int64_t{0});
  const DType t = c.dtype(c.in(kSparseQuery));
  return c.where(c.op("Gather", {visible, at}, std::move(a)), c.scalar(t, 0),
                 c.scalar(t, -std::numeric_limits<double>::infinity()));
}

Result<bool> sparse_attention(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  RP_TRY(check(ctx));
  RP_ASSIGN(const Blocks blocks, blocks_of(ctx));
  if (blocks.rows < 1) return ctx.invalid("block_row_indices has no rows");
  Composer c(rw);
  const Expr batch = c.shape(c.in(kSparseQuery))[0];
  const V lengths = c.reshape(c.cast(c.in(kSparseKeyLengths), DType::I32), {batch});
  std::vector<V> inputs{c.in(kSparseQuery),
                        c.input(kSparseKey),
                        c.input(kSparseValue),
                        c.in(kSparsePastKey),
                        c.in(kSparsePastValue),
                        c.sub(lengths, 1),
                        c.expr_value(c.shape(c.in(kSparsePastKey))[2], DType::I32),
                        c.input(kSparseCos),
                        c.input(kSparseSin),
                        graph::kNone,
                        block_bias(c, blocks, lengths)};
  const auto outputs = c.microsoft_all(
      "GroupQueryAttention", std::move(inputs),
      c.given({"num_heads", "kv_num_heads", "scale", "do_rotary", "rotary_interleaved"}), 3);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (c.ok() && c.has_output(i)) c.replace(i, outputs[i]);
  return c.finish();
}

constexpr AttrDecl kSparseAttrs[] = {int_attr("do_rotary", 0),
                                     required_attr("kv_num_heads", AttrType::Int),
                                     required_attr("num_heads", AttrType::Int),
                                     int_attr("rotary_interleaved", 0),
                                     float_attr("scale", 0.0F),
                                     required_attr("sparse_block_size", AttrType::Int)};

}  // namespace

std::span<const OpDef> microsoft_sparse_ops() {
  static constexpr OpDef kOps[] = {{.name = "SparseAttention",
                                    .domain = kMicrosoft,
                                    .infer = infer_composed,
                                    .decompose = sparse_attention,
                                    .max_inputs = 11,
                                    .max_outputs = 3,
                                    .attributes = kSparseAttrs}};
  return kOps;
}

}  // namespace reprise::ops
