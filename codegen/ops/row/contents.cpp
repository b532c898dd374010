#include "codegen/ops/row/contents.h"

#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

/// The position in a tensor that is broadcast to `out`.
size_t source_position(size_t linear, const std::vector<int64_t>& out,
                       const std::vector<int64_t>& in) {
  size_t at = 0;
  size_t stride = 1;
  for (size_t i = 0; i < in.size(); ++i) {
    const auto n = static_cast<size_t>(out[out.size() - 1 - i]);
    const auto d = static_cast<size_t>(in[in.size() - 1 - i]);
    at += d == 1 ? 0 : linear % n * stride;
    stride *= d;
    linear /= n;
  }
  return at;
}

}  // namespace

void elementwise_contents(ContentsContext& ctx, size_t operands, Formula formula) {
  const Shape& shape = ctx.output(0).shape;
  const Expr count = element_count(shape);
  if (!is_static(shape) || !count.is_const() || count.value() > kMaxElements) return;
  std::vector<std::vector<Expr>> contents;
  std::vector<std::vector<int64_t>> dims;
  for (size_t i = 0; i < operands; ++i) {
    auto e = ctx.elements(i);
    if (!e || !is_static(ctx.shape(i)) || ctx.shape(i).size() > shape.size()) return;
    contents.push_back(std::move(*e));
    dims.push_back(static_dims(ctx.shape(i)));
  }
  const std::vector<int64_t> to = static_dims(shape);
  std::vector<Expr> result;
  std::vector<Expr> at(operands);
  for (size_t e = 0; e < static_cast<size_t>(count.value()); ++e) {
    for (size_t i = 0; i < operands; ++i) at[i] = contents[i][source_position(e, to, dims[i])];
    auto x = formula(ctx, at);
    if (!x) return;
    result.push_back(std::move(*x));
  }
  ctx.set_elements(0, std::move(result));
}

void same_contents(ContentsContext& ctx) {
  if (auto e = ctx.elements(0)) ctx.set_elements(0, std::move(*e));
}

void gathered_contents(ContentsContext& ctx, std::span<const int64_t> positions) {
  const auto e = ctx.elements(0);
  if (!e || ctx.rank(0) != 1) return;
  const auto n = static_cast<int64_t>(e->size());
  std::vector<Expr> picked;
  for (const int64_t i : positions) {
    if (i < -n || i >= n) return;
    picked.push_back((*e)[static_cast<size_t>(i < 0 ? i + n : i)]);
  }
  ctx.set_elements(0, std::move(picked));
}

}  // namespace reprise::ops
