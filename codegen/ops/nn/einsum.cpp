// Decomposes Einsum into transposes, matrix multiplications and sums, two operands at a time.
#include <algorithm>
#include <cctype>
#include <map>

#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;

/// One label for each dim. A letter stands for itself. The dims of "..." are negative numbers that
/// count from its end, so that they align as in broadcasting.
using Labels = std::vector<int>;

struct Equation {
  std::vector<Labels> inputs;
  Labels output;
  std::map<int, Expr> sizes;
};

bool has(const Labels& l, int x) {
  return std::find(l.begin(), l.end(), x) != l.end();
}

/// Parses the labels of one term. `ellipsis` is the number of dims that "..." stands for.
Result<Labels> parse_term(const InferContext& ctx, const std::string& term, int64_t ellipsis) {
  Labels out;
  for (size_t i = 0; i < term.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(term[i])) != 0) {
      out.push_back(term[i]);
    } else if (term.compare(i, 3, "...") == 0 && ellipsis >= 0) {
      for (int64_t d = ellipsis; d > 0; --d) out.push_back(static_cast<int>(-d));
      i += 2;
    } else {
      return ctx.invalid("equation term '" + term + "' is malformed");
    }
  }
  return out;
}

std::vector<std::string> split_terms(const std::string& s) {
  std::vector<std::string> terms(1);
  for (char c : s) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back().push_back(c);
    }
  }
  return terms;
}

/// The output if there is no "->": the dims of "...", then labels that occur once, alphabetically.
Labels implicit_output(const Equation& e, int64_t ellipsis) {
  Labels out;
  for (int64_t d = ellipsis; d > 0; --d) out.push_back(static_cast<int>(-d));
  for (const auto& [label, size] : e.sizes) {
    int64_t count = 0;
    for (const Labels& l : e.inputs) count += std::count(l.begin(), l.end(), label);
    if (label > 0 && count == 1) out.push_back(label);
  }
  return out;
}

Status add_sizes(const InferContext& ctx, Equation& e, const Labels& labels, const Shape& shape) {
  for (size_t d = 0; d < labels.size(); ++d) {
    auto [it, fresh] = e.sizes.try_emplace(labels[d], shape[d]);
    if (fresh || shape[d].is_const(1)) continue;
    if (it->second.is_const(1)) {
      it->second = shape[d];
      continue;
    }
    RP_ASSIGN(it->second, ctx.unify(it->second, shape[d], "dims with the same label"));
  }
  return {};
}

Result<Equation> read_equation(const InferContext& ctx) {
  std::string text = ctx.attrs().get_string("equation");
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t arrow = text.find("->");
  const auto terms = split_terms(text.substr(0, arrow));
  if (terms.size() != ctx.input_count()) {
    return ctx.invalid("equation '" + text + "' has " + std::to_string(terms.size()) +
                       " terms for " + std::to_string(ctx.input_count()) + " inputs");
  }
  Equation e;
  int64_t ellipsis = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const bool open = terms[i].find("...") != std::string::npos;
    const int64_t named = static_cast<int64_t>(terms[i].size()) - (open ? 3 : 0);
    const int64_t rest = ctx.rank(i) - named;
    if (rest < 0 || (!open && rest != 0)) {
      return ctx.invalid("equation term '" + terms[i] + "' does not fit " + ctx.str(ctx.shape(i)));
    }
    ellipsis = std::max(ellipsis, rest);
    RP_ASSIGN(Labels labels, parse_term(ctx, terms[i], rest));
    RP_TRY(add_sizes(ctx, e, labels, ctx.shape(i)));
    e.inputs.push_back(std::move(labels));
  }
  if (arrow == std::string::npos) {
    e.output = implicit_output(e, ellipsis);
    return e;
  }
  RP_ASSIGN(e.output, parse_term(ctx, text.substr(arrow + 2), ellipsis));
  for (size_t i = 0; i < e.output.size(); ++i) {
    const bool twice = std::count(e.output.begin(), e.output.end(), e.output[i]) > 1;
    if (twice || e.sizes.count(e.output[i]) == 0) {
      return ctx.invalid("the output of equation '" + text + "' is malformed");
    }
  }
  return e;
}

Shape sizes_of(const Equation& e, const Labels& labels) {
  Shape s;
  for (int l : labels) s.push_back(e.sizes.at(l));
  return s;
}

Status infer_einsum(InferContext& ctx) {
  RP_TRY(require_same_dtype(ctx));
  if (!is_float(ctx.dtype(0)) && !is_int(ctx.dtype(0)))
    return ctx.invalid("operands are " + std::string(name_of(ctx.dtype(0))) + ", expected numbers");
  RP_ASSIGN(const Equation e, read_equation(ctx));
  ctx.set_output(0, ctx.dtype(0), sizes_of(e, e.output));
  return {};
}

struct Operand {
  V value;
  Labels labels;
};

/// Sums over the labels that are no longer needed.
Operand sum_out(OpBuilder& c, const Operand& a, const Labels& needed) {
  std::vector<int64_t> axes;
  Labels kept;
  Shape shape;
  const Shape full = c.shape(a.value);
  for (size_t d = 0; d < a.labels.size(); ++d) {
    if (has(needed, a.labels[d])) {
      kept.push_back(a.labels[d]);
      shape.push_back(full[d]);
    } else {
      axes.push_back(static_cast<int64_t>(d));
    }
  }
  if (axes.empty()) return a;
  return {c.reshape(c.reduce("ReduceSum", a.value, axes), shape), kept};
}

V reorder(OpBuilder& c, const Operand& a, const Labels& wanted) {
  std::vector<int64_t> perm;
  for (int l : wanted) {
    perm.push_back(std::find(a.labels.begin(), a.labels.end(), l) - a.labels.begin());
  }
  return c.transpose(a.value, std::move(perm));
}

Labels join(std::initializer_list<Labels> parts) {
  Labels all;
  for (const Labels& p : parts) all.insert(all.end(), p.begin(), p.end());
  return all;
}

Expr extent(const Equation& e, const Labels& labels) {
  return element_count(sizes_of(e, labels));
}

/// [batch, M, K] x [batch, K, N], where labels are grouped by the operands that have and keep them.
Operand contract(OpBuilder& c, const Equation& e, Operand a, Operand b, const Labels& needed) {
  a = sum_out(c, a, join({needed, b.labels}));
  b = sum_out(c, b, join({needed, a.labels}));
  Labels batch, inner, left, right;
  for (int l : a.labels) (!has(b.labels, l) ? left : has(needed, l) ? batch : inner).push_back(l);
  for (int l : b.labels) {
    if (!has(a.labels, l)) right.push_back(l);
  }
  const Shape lead = sizes_of(e, batch);
  const auto matrix = [&](const Operand& x, const Labels& rows, const Labels& columns) {
    Shape s = lead;
    s.push_back(extent(e, rows));
    s.push_back(extent(e, columns));
    return c.reshape(reorder(c, x, join({batch, rows, columns})), s);
  };
  const V y = c.op("MatMul", {matrix(a, left, inner), matrix(b, inner, right)});
  const Labels labels = join({batch, left, right});
  return {c.reshape(y, sizes_of(e, labels)), labels};
}

Result<bool> einsum(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const Equation e, read_equation(ctx));
  for (const Labels& l : e.inputs) {
    for (int x : l) {
      if (std::count(l.begin(), l.end(), x) > 1) return rw.keep("a diagonal has no device form");
    }
  }
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  std::vector<Operand> operands;
  for (size_t i = 0; i < e.inputs.size(); ++i) {
    operands.push_back({c.expand(c.in(i), sizes_of(e, e.inputs[i])), e.inputs[i]});
  }
  Operand acc = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    Labels needed = e.output;
    for (size_t j = i + 1; j < operands.size(); ++j) needed = join({needed, operands[j].labels});
    acc = contract(c, e, acc, operands[i], needed);
  }
  if (operands.size() == 1) acc.value = c.cast(acc.value, accumulate_dtype(t));
  acc = sum_out(c, acc, e.output);
  c.replace(0, c.cast(reorder(c, acc, e.output), t));
  return c.finish();
}

constexpr AttrDecl kEinsumAttrs[] = {required_attr("equation", AttrType::String)};

}  // namespace

std::span<const OpDef> einsum_ops() {
  static constexpr OpDef kOps[] = {{.name = "Einsum",
                                    .infer = infer_einsum,
                                    .decompose = einsum,
                                    .max_inputs = kVariadic,
                                    .attributes = kEinsumAttrs}};
  return kOps;
}

}  // namespace reprise::ops
