// What reads or writes at indices, generates, scans or chooses.
#include <algorithm>

#include "codegen/ops/row/support.h"
#include "tests/fuzz/lib/recipes.h"

namespace reprise::fuzz {

namespace {

DType index_dtype(Maker& m) {
  return m.rng.chance(0.7) ? DType::I64 : DType::I32;
}

/// Indices into a dim; kNone where there is nothing to choose from in some run.
V indices(Maker& m, const Expr& dim, const Shape& s, DType t) {
  const int64_t n = m.least(dim);
  if (n <= 0) return m.most_elements(s) == 0 ? m.fresh(t, s, Values{}) : Maker::kNone;
  return m.fresh(
      t, s,
      Values::between(m.rng.chance(0.5) ? 0 : -static_cast<double>(n), static_cast<double>(n - 1)));
}

bool gather(Maker& m) {
  const V x = m.of_rank(1, 5);
  const int64_t a = m.axis(x);
  const Expr& dim = m.shape(x)[static_cast<size_t>(a < 0 ? a + m.rank(x) : a)];
  const V i = indices(m, dim, m.random_shape(0, 2), index_dtype(m));
  return i != Maker::kNone && m.add("Gather", {x, i}, attr("axis", a));
}

/// The indices of the greatest elements, which are in range by what they are.
bool gather_of_arg(Maker& m) {
  const V x = m.floats(2, 4);
  const int64_t a = m.rng.in(0, m.rank(x) - 1);
  if (m.least(x, a) < 1) return false;
  AttrMap attrs = attr("axis", a);
  attrs.set("keepdims", int64_t{1});
  const V i = m.chain(m.rng.chance(0.5) ? "ArgMax" : "ArgMin", {x}, attrs);
  return i != Maker::kNone && m.add("GatherElements", {x, i}, attr("axis", a));
}

bool gather_elements(Maker& m) {
  const V x = m.of_rank(1, 5);
  const int64_t a = m.rng.in(0, m.rank(x) - 1);
  Shape s = m.shape(x);
  for (size_t d = 0; d < s.size(); ++d) {
    if (m.rng.chance(0.3))
      s[d] = m.rng.in(1, std::max<int64_t>(1, m.least(x, static_cast<int64_t>(d))));
  }
  for (size_t d = 0; d < s.size(); ++d) {
    if (static_cast<int64_t>(d) != a && m.least(m.shape(x)[d] - s[d]) < 0) return false;
  }
  const V i = indices(m, m.shape(x)[static_cast<size_t>(a)], s, index_dtype(m));
  return i != Maker::kNone &&
         m.add("GatherElements", {x, i}, attr("axis", m.rng.chance(0.5) ? a : a - m.rank(x)));
}

/// Indices of the last dim's `depth` leading dims of x, all below the least of their sizes.
V nd_indices(Maker& m, V x, int64_t batch, int64_t depth, const Shape& lead) {
  int64_t least = 1000;
  for (int64_t d = batch; d < batch + depth; ++d) least = std::min(least, m.least(x, d));
  if (least < 1) return Maker::kNone;
  Shape s = lead;
  s.emplace_back(depth);
  return m.fresh(DType::I64, s,
                 Values::between(m.rng.chance(0.5) ? 0 : -static_cast<double>(least),
                                 static_cast<double>(least - 1)));
}

bool gather_nd(Maker& m) {
  const V x = m.of_rank(1, 5);
  const int64_t batch = m.rank(x) > 1 && m.rng.chance(0.3) ? 1 : 0;
  const int64_t depth = m.rng.in(1, m.rank(x) - batch);
  Shape lead(m.shape(x).begin(), m.shape(x).begin() + batch);
  const Shape more = m.random_shape(0, 2);
  lead.insert(lead.end(), more.begin(), more.end());
  const V i = nd_indices(m, x, batch, depth, lead);
  return i != Maker::kNone && m.add("GatherND", {x, i}, attr("batch_dims", batch));
}

bool scatter_elements(Maker& m, std::string_view op) {
  const V x = m.of_rank(1, 4);
  const int64_t a = m.rng.in(0, m.rank(x) - 1);
  if (!m.is_static(x) || m.most_elements(m.shape(x)) == 0) return false;
  // Each place once: what is written twice is not defined. One index along the axis does that.
  Shape s = m.shape(x);
  s[static_cast<size_t>(a)] = 1;
  const V i = indices(m, m.shape(x)[static_cast<size_t>(a)], s, index_dtype(m));
  if (i == Maker::kNone) return false;
  AttrMap attrs = attr("axis", a);
  if (op != "Scatter" && m.rng.chance(0.5)) {
    attrs.set("reduction",
              m.rng.pick(std::vector<std::string>{"none", "add", "mul", "min", "max"}));
  }
  return m.add(op, {x, i, m.operand(m.dtype(x), s)}, std::move(attrs), 1,
               op == "Scatter" ? 9 : kOpset);
}

bool scatter_nd(Maker& m) {
  const V x = m.of_rank(1, 4);
  if (!m.is_static(x) || m.most_elements(m.shape(x)) == 0) return false;
  const int64_t depth = m.rng.in(1, m.rank(x));
  const V i = nd_indices(m, x, 0, depth, {1});
  if (i == Maker::kNone) return false;
  Shape s{1};
  s.insert(s.end(), m.shape(x).begin() + depth, m.shape(x).end());
  AttrMap attrs;
  if (m.rng.chance(0.4)) attrs.set("reduction", std::string("add"));
  return m.add("ScatterND", {x, i, m.operand(m.dtype(x), s)}, std::move(attrs));
}

bool one_hot(Maker& m) {
  const int64_t depth = m.rng.in(1, 6);
  const DType t = m.rng.chance(0.6) ? DType::I64 : m.rng.chance(0.5) ? DType::I32 : DType::F32;
  // Out of range means none is hot.
  const V i = m.fresh(t, m.random_shape(0, 3),
                      Values::between(-static_cast<double>(depth) - 1, static_cast<double>(depth)));
  const V d = m.constant(HostTensor::from(DType::I64, {}, std::vector<int64_t>{depth}));
  const V values = m.fresh(m.random_dtype(), {2});
  return m.add("OneHot", {i, d, values}, attr("axis", m.rng.in(-m.rank(i) - 1, m.rank(i))));
}

bool range(Maker& m) {
  const DType t = m.rng.pick(std::vector<DType>{DType::I64, DType::I32, DType::F32});
  const int64_t delta = m.rng.pick(std::vector<int64_t>{1, 2, 3, -1, -2});
  const int64_t start = m.rng.in(-4, 4);
  const int64_t limit = start + delta * m.rng.in(0, 9);
  return m.add("Range",
               {m.scalar(t, static_cast<double>(start)), m.scalar(t, static_cast<double>(limit)),
                m.scalar(t, static_cast<double>(delta))});
}

/// Positions along a dynamic dim, as models compute them.
bool range_of_shape(Maker& m) {
  const V x = m.of_rank(1, 5);
  const int64_t a = m.rng.in(0, m.rank(x) - 1);
  AttrMap attrs = attr("start", a);
  attrs.set("end", a + 1);
  const V dim = m.chain("Shape", {x}, attrs);
  const V limit = m.chain("Squeeze", {dim});
  return m.chain("Range", {m.scalar(DType::I64, 0), limit, m.scalar(DType::I64, 1)}) !=
         Maker::kNone;
}

bool constant_of_shape(Maker& m) {
  const V x = m.of_rank(1, 4);
  const V s = m.rng.chance(0.5) ? m.chain("Shape", {x}) : m.ints({m.rng.in(0, 4), m.rng.in(1, 5)});
  if (s == Maker::kNone) return false;
  AttrMap attrs;
  if (m.rng.chance(0.7)) {
    attrs.set("value", test::random_values(m.random_dtype(), {1}, {}, m.rng.next(), "value"));
  }
  return m.add("ConstantOfShape", {s}, std::move(attrs));
}

bool top_k(Maker& m) {
  const V x = m.of_rank(1, 4);
  const int64_t a = m.rng.in(0, m.rank(x) - 1);
  AttrMap attrs = attr("axis", a);
  attrs.set("largest", m.rng.in(0, 1));
  return m.add("TopK", {x, m.ints({m.rng.in(0, m.least(x, a))})}, std::move(attrs), 2);
}

/// Tokens chosen from scores; the numbers of the rows are those of models that generate.
bool sample_rows(Maker& m) {
  const int64_t rows = m.rng.in(1, 4), tokens = m.rng.in(1, 70);
  const V scores = m.fresh(DType::F32, {rows, tokens}, Values::between(-6, 6));
  const auto of_rows = [&](DType t, double low, double high) {
    const int64_t count = m.rng.chance(0.5) ? 1 : rows;
    return m.fresh(t, {count}, Values::between(low, high));
  };
  const double warmest = m.rng.chance(0.5) ? 0 : 2;  // 0 takes the greatest score
  return m.add("SampleRows",
               {scores, of_rows(DType::F32, warmest / 4, warmest), of_rows(DType::I32, 0, 80),
                of_rows(DType::F32, 0.1, 1), of_rows(DType::F32, 0, 0.5),
                of_rows(DType::I32, -9, 99), of_rows(DType::I32, 0, 99)});
}

bool cumulative(Maker& m, std::string_view op, int64_t opset) {
  const V x = m.of_rank(1, 5);
  AttrMap attrs = attr("exclusive", m.rng.in(0, 1));
  attrs.set("reverse", m.rng.in(0, 1));
  const V a = m.constant(HostTensor::from(DType::I64, {}, std::vector<int64_t>{m.axis(x)}));
  return m.add(op, {x, a}, std::move(attrs), 1, opset);
}

bool cumsum(Maker& m) {
  return cumulative(m, "CumSum", kOpset);
}

bool cumprod(Maker& m) {
  return cumulative(m, "CumProd", 26);
}

bool arg(Maker& m, std::string_view op) {
  const V x = m.of_rank(1, 5);
  const int64_t a = m.rng.in(0, m.rank(x) - 1);
  if (m.least(x, a) < 1) return false;  // of nothing there is no greatest
  AttrMap attrs = attr("axis", m.rng.chance(0.5) ? a : a - m.rank(x));
  attrs.set("keepdims", m.rng.in(0, 1));
  if (m.rng.chance(0.5)) attrs.set("select_last_index", m.rng.in(0, 1));
  return m.add(op, {x}, std::move(attrs));
}

bool where(Maker& m) {
  const V x = m.any();
  V condition = Maker::kNone;
  const Shape s = m.broadcast_shape(m.shape(x), false);
  if (m.rng.chance(0.5)) {
    condition = m.partner(x, DType::Bool);
  } else {
    const V like = m.partner(x);
    condition =
        m.chain(m.rng.pick(std::vector<std::string>{"Less", "Greater", "Equal"}), {x, like});
  }
  if (condition == Maker::kNone) return false;
  const V y = m.rng.chance(0.5) ? m.partner(x) : m.fresh(m.dtype(x), s);
  return m.rng.chance(0.5) ? m.add("Where", {condition, x, y}) : m.add("Where", {condition, y, x});
}

bool cast(Maker& m) {
  const V x = m.any();
  return m.add("Cast", {x}, attr("to", ops::dtype_to_onnx(m.random_dtype())));
}

bool cast_like(Maker& m) {
  return m.add("CastLike", {m.any(), m.any()});
}

bool logic(Maker& m, std::string_view op) {
  const V x = m.typed(DType::Bool);
  return op == "Not" ? m.add(op, {x}) : m.add(op, {x, m.partner(x)});
}

bool bits(Maker& m, std::string_view op) {
  const V x = m.any();
  if (!is_int(m.dtype(x))) return false;
  return op == "BitwiseNot" ? m.add(op, {x}) : m.add(op, {x, m.partner(x)});
}

bool power(Maker& m) {
  const V x = m.any();
  if (is_float(m.dtype(x))) {
    if (m.rng.chance(0.5)) {
      return m.add("Pow", {x, m.scalar(m.dtype(x), m.rng.pick(std::vector<double>{
                                                       2, 3, 0.5, -1, 0, 1, -0.5, 4, 5}))});
    }
    return m.add("Pow", {x, m.partner(x)});
  }
  if (!is_int(m.dtype(x))) return false;
  const DType exponent = m.rng.pick(std::vector<DType>{m.dtype(x), DType::I64, DType::U8});
  const double least = is_signed_int(exponent) ? -2 : 0;
  return m.add("Pow", {x, m.fresh(exponent, m.broadcast_shape(m.shape(x), false),
                                  Values::between(least, 4))});
}

bool modulo(Maker& m) {
  const V x = m.any();
  const V y = m.fresh(m.dtype(x), m.broadcast_shape(m.shape(x), false), m.divisors(m.dtype(x)));
  return m.add("Mod", {x, y}, attr("fmod", is_float(m.dtype(x)) ? 1 : m.rng.in(0, 1)));
}

bool clip(Maker& m) {
  const V x = m.any();
  const auto bound = [&](double low, double high) {
    return m.rng.chance(0.25) ? Maker::kNone : m.fresh(m.dtype(x), {}, Values::between(low, high));
  };
  const bool is_unsigned = is_int(m.dtype(x)) && !is_signed_int(m.dtype(x));
  const V low = bound(is_unsigned ? 0 : -3, is_unsigned ? 2 : 0);
  return m.add("Clip", {x, low, bound(1, 5)});
}

bool reverse_sequence(Maker& m) {
  const V x = m.of_rank(2, 4);
  const int64_t batch = m.rng.in(0, 1);
  const int64_t n = m.least(x, 1 - batch);
  if (n < 1) return false;
  AttrMap attrs = attr("batch_axis", batch);
  attrs.set("time_axis", 1 - batch);
  const V lengths = m.fresh(DType::I64, {m.shape(x)[static_cast<size_t>(batch)]},
                            Values::between(0, static_cast<double>(n)));
  return m.add("ReverseSequence", {x, lengths}, std::move(attrs));
}

bool compress(Maker& m) {
  const V x = m.of_rank(1, 3);
  const bool flat = m.rng.chance(0.3);
  const int64_t a = m.rng.in(0, m.rank(x) - 1);
  int64_t n = flat ? 1 : m.least(x, a);
  for (int64_t d = 0; flat && d < m.rank(x); ++d) n *= m.least(x, d);
  if (n < 1) return false;
  const V condition = m.fresh(DType::Bool, {m.rng.in(1, n)});
  return m.add("Compress", {x, condition}, flat ? AttrMap{} : attr("axis", a));
}

/// Sizes that depend on data, and something computed with them.
bool of_data(Maker& m) {
  const V x = m.of_rank(1, 3);
  if (!m.add(m.rng.chance(0.5) ? "NonZero" : "Unique", {x})) return false;
  const V found = m.last();
  return m.add(m.rng.pick(std::vector<std::string>{"Abs", "Shape", "ReduceMax", "Neg", "Size"}),
               {found}) ||
         true;
}

/// The elements where a condition holds, as a tensor indexed by a mask is exported.
bool masked(Maker& m) {
  const V x = m.of_rank(1, 3);
  const V mask = m.chain("Greater", {m.chain("Abs", {x}), m.scalar(m.dtype(x), 1)});
  const V found = m.chain("NonZero", {mask});
  const V rows = m.chain("Transpose", {found}, attr("perm", std::vector<int64_t>{1, 0}));
  return m.chain("GatherND", {x, rows}) != Maker::kNone;
}

/// All results of Unique. The second one names elements by their positions, so that all depend on
/// which elements are equal.
bool unique(Maker& m) {
  const V x = m.of_rank(1, 2);
  return m.add("Unique", {x}, attr("sorted", m.rng.in(0, 1)), 4);
}

}  // namespace

std::span<const Recipe> index_recipes() {
  static constexpr Recipe kRecipes[] = {
      {"Gather", gather},
      {"GatherElements", gather_elements},
      {"GatherND", gather_nd},
      {"gather of the greatest", gather_of_arg},
      {"Scatter", [](Maker& m) { return scatter_elements(m, "Scatter"); }},
      {"ScatterElements", [](Maker& m) { return scatter_elements(m, "ScatterElements"); }},
      {"ScatterND", scatter_nd},
      {"OneHot", one_hot},
      {"Range", range},
      {"positions", range_of_shape},
      {"ConstantOfShape", constant_of_shape},
      {"TopK", top_k},
      {"SampleRows", sample_rows},
      {"CumSum", cumsum},
      {"CumProd", cumprod},
      {"ArgMax", [](Maker& m) { return arg(m, "ArgMax"); }},
      {"ArgMin", [](Maker& m) { return arg(m, "ArgMin"); }},
      {"Where", where},
      {"Cast", cast},
      {"CastLike", cast_like},
      {"And", [](Maker& m) { return logic(m, "And"); }},
      {"Or", [](Maker& m) { return logic(m, "Or"); }},
      {"Xor", [](Maker& m) { return logic(m, "Xor"); }},
      {"Not", [](Maker& m) { return logic(m, "Not"); }},
      {"BitwiseAnd", [](Maker& m) { return bits(m, "BitwiseAnd"); }},
      {"BitwiseOr", [](Maker& m) { return bits(m, "BitwiseOr"); }},
      {"BitwiseXor", [](Maker& m) { return bits(m, "BitwiseXor"); }},
      {"BitwiseNot", [](Maker& m) { return bits(m, "BitwiseNot"); }},
      {"Pow", power},
      {"Mod", modulo},
      {"Clip", clip},
      {"ReverseSequence", reverse_sequence},
      {"Compress", compress},
      {"Unique", unique},
      {"elements by a mask", masked},
      {"sizes of data", of_data},
  };
  return kRecipes;
}

}  // namespace reprise::fuzz
