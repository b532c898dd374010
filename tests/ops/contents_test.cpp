// What operators say of the contents of integer tensors (OpDef::contents) is what their host
// kernels compute: for every operator that says anything, every integer dtype, constants and shape
// arithmetic.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "codegen/ops/row/op.h"
#include "codegen/ops/row/support.h"
#include "tests/ops/run_graph.h"

namespace reprise::test {
namespace {

/// Operands are made up, of one dtype T each round: a is T[2,3], b T[3], v T[6], s, t and u are
/// T[]; d is T[3] without zeros, p bool[2,3], q bool[3]. Outputs are y and z.
struct Form {
  const char* op;
  const char* text;
};

constexpr Form kForms[] = {
    {"Abs", "y = Abs(a) @13"},
    {"Neg", "y = Neg(a) @13"},
    {"Sign", "y = Sign(a) @13"},
    {"Relu", "y = Relu(a) @14"},
    {"Add", "y = Add(a, b) @14"},
    {"Sub", "y = Sub(b, a) @14"},
    {"Mul", "y = Mul(a, b) @14"},
    {"Div", "y = Div(a, d) @14"},
    {"Mod", "y = Mod(a, d) @13\nz = Mod<fmod=1>(a, d) @13"},
    {"Pow", "const k: int64[3]{0, 2, 3}\ny = Pow(a, k) @15"},
    {"Min", "y = Min(a, b, s) @13"},
    {"Max", "y = Max(a, b, s) @13"},
    {"Clip", "y = Clip(a, s, t) @13\nz = Clip(a, _, s) @13"},
    {"Equal", "y = Equal(a, b) @13\nz = Equal(p, q) @13"},
    {"NotEqual", "y = NotEqual(a, b)"},
    {"Less", "y = Less(a, b) @13"},
    {"LessOrEqual", "y = LessOrEqual(a, b) @16"},
    {"Greater", "y = Greater(a, b) @13"},
    {"GreaterOrEqual", "y = GreaterOrEqual(a, b) @16"},
    {"And", "y = And(p, q) @7"},
    {"Or", "y = Or(p, q) @7"},
    {"Xor", "y = Xor(p, q) @7"},
    {"Not", "y = Not(p) @1"},
    {"Where", "y = Where(p, a, b) @16\nz = Where(q, s, a) @16"},
    {"Cast", "y = Cast<to=2>(a) @13\nz = Cast<to=3>(a) @13"},
    {"Cast", "y = Cast<to=4>(a) @13\nz = Cast<to=5>(a) @13"},
    {"Cast", "y = Cast<to=6>(a) @13\nz = Cast<to=7>(a) @13"},
    {"Cast", "y = Cast<to=9>(a) @13\nz = Cast<to=12>(a) @13"},
    {"Cast", "y = Cast<to=7>(p) @13\nz = Cast<to=13>(a) @13"},
    {"CastLike", "y = CastLike(a, p) @15\nz = CastLike(p, a) @15"},
    {"Identity", "y = Identity(a) @14"},
    {"Reshape", "const r: int64[2]{3, -1}\ny = Reshape(a, r) @14"},
    {"Squeeze", "w = Unsqueeze<axes=[0, 2]>(a) @11\ny = Squeeze<axes=[2]>(w) @11"},
    {"Unsqueeze", "y = Unsqueeze<axes=[0, 2]>(a) @11"},
    {"Flatten", "y = Flatten<axis=0>(a) @13"},
    {"Transpose", "y = Transpose(a) @13"},
    {"Expand", "const r: int64[3]{2, 1, 3}\ny = Expand(a, r) @13\nz = Expand(s, r) @13"},
    {"Gather", "const i: int64[2,2]{0, -1, 5, -6}\ny = Gather(v, i) @13"},
    {"GatherElements", "const i: int64[4]{0, -1, 5, -6}\ny = GatherElements(v, i) @13"},
    {"Slice",
     "const i: int64[2]{0, -1}\nconst e: int64[2]{9, -9}\nconst x: int64[2]{0, 1}\n"
     "const k: int64[2]{1, -2}\ny = Slice(a, i, e, x, k) @13"},
    {"Split", "const i: int64[2]{4, 2}\n(y, z) = Split(v, i) @13"},
    {"Concat", "y = Concat<axis=0>(v, b, v) @13"},
    {"Tile", "const i: int64[1]{3}\ny = Tile(v, i) @13\nconst o: int64[1]{0}\nz = Tile(v, o) @13"},
    {"ReduceSum", "y = ReduceSum<keepdims=0>(v) @13\nz = ReduceSum(s) @13"},
    {"ReduceProd", "y = ReduceProd<keepdims=0>(v) @13\nz = ReduceProd(b) @13"},
    {"ReduceMax", "y = ReduceMax<axes=[-1]>(v) @13\nz = ReduceMax<keepdims=0>(q) @20"},
    {"ReduceMin", "y = ReduceMin<axes=[0]>(v) @13\nz = ReduceMin<keepdims=0>(q) @20"},
    {"Range", "y = Range(s, t, u) @11"},
    {"ConstantOfShape",
     "const i: int64[2]{2, 2}\ny = ConstantOfShape<value=int16[1]{-5}>(i) @9\n"
     "z = ConstantOfShape<value=uint32[1]{4294967295}>(i) @9"},
    {"Shape", "y = Shape<start=-1>(a) @15\nz = Shape(n) @15"},
    {"Size", "y = Size(a) @13\nz = Size(n) @13"},
    {"SequenceLength",
     "w = SequenceConstruct(a, b, a) @11\nx = SequenceErase(w) @11\ny = SequenceLength(x) @11"},
    {"OptionalHasElement",
     "o = Optional(a) @15\ny = OptionalHasElement(o) @18\nz = OptionalHasElement(a) @18"},
    {"ShapeValue", "y = ShapeValue<elements=(3, -4), dtype=6>()"},
};

/// Of a dtype: its extremes, and small numbers.
std::vector<int64_t> edges(DType t) {
  if (t == DType::Bool) return {0, 1};
  std::vector<int64_t> out{0, 1, 2, 3, 5, 100};
  const int bits = static_cast<int>(size_of(t)) * 8;
  if (is_signed_int(t)) {
    const int64_t max = std::numeric_limits<int64_t>::max() >> (64 - bits);
    for (const int64_t v : {-max - 1, -max, max - 1, max, int64_t{-1}, int64_t{-2}, int64_t{-7}})
      out.push_back(v);
  } else {
    const int64_t max = (int64_t{1} << bits) - 1;
    for (const int64_t v : {max, max - 1, max / 2, max / 2 + 1}) out.push_back(v);
  }
  return out;
}

class Values {
 public:
  explicit Values(unsigned seed) : rng_(seed) {}

  /// "{1, -3}"
  std::string constants(DType t, size_t n, bool zeros) {
    const std::vector<int64_t> of = edges(t);
    return list(n, [&] {
      if (t == DType::Bool) return std::string(pick(2) == 0 ? "false" : "true");
      int64_t v = of[pick(of.size())];
      while (v == 0 && !zeros) v = of[pick(of.size())];
      return std::to_string(v);
    });
  }

  /// Shape arithmetic over the symbols m and n, which are small. Some of it never leaves the dtype.
  std::string expressions(DType t, size_t n, bool zeros) {
    static constexpr const char* kSigned[] = {"m",  "n",      "m - n", "2*m - 7", "n*m",
                                              "-m", "-n - 1", "3 - m", "m - 1",   "5*n - m",
                                              "-7", "0",      "2",     "n - 3",   "mod(m, 3)"};
    static constexpr const char* kUnsigned[] = {"m",         "n", "m + n", "max(m - 1, 0)",
                                                "mod(m, 2)", "7", "0",     "2"};
    static constexpr const char* kTruths[] = {"0", "1", "min(m, 1)", "1 - min(n, 1)"};
    static constexpr const char* kNoZeros[] = {"m + 1", "2", "n + m + 3", "7", "-2", "-m - 1"};
    std::span<const char* const> of = kUnsigned;
    if (t == DType::Bool) of = kTruths;
    if (is_signed_int(t)) of = kSigned;
    if (!zeros) of = std::span(kNoZeros).first(is_signed_int(t) ? 6 : 4);
    return list(n, [&] { return std::string(of[pick(of.size())]); });
  }

  int64_t size() { return static_cast<int64_t>(pick(6)); }

 private:
  size_t pick(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(rng_); }
  template <typename F>
  static std::string list(size_t n, F next) {
    std::string out = "{";
    for (size_t i = 0; i < n; ++i) out += (i == 0 ? "" : ", ") + next();
    return out + "}";
  }
  std::mt19937 rng_;
};

struct Operand {
  const char* name;
  const char* dims;
  size_t count;
  bool truth = false;
  bool zeros = true;
};
constexpr Operand kOperands[] = {
    {"a", "[2,3]", 6}, {"b", "[3]", 3},         {"d", "[3]", 3, false, false},
    {"v", "[6]", 6},   {"s", "[]", 1},          {"t", "[]", 1},
    {"u", "[]", 1},    {"p", "[2,3]", 6, true}, {"q", "[3]", 3, true}};

/// Outputs y, and z where the form has one.
std::string graph_text(const Form& form, const std::string& operands) {
  const std::string node = form.text;
  const bool two = node.find("\nz = ") != std::string::npos || node.find("(y, z)") == 0 ||
                   node.find("(y, z)") != std::string::npos;
  return operands + node + "\noutput y" + (two ? ", z\n" : "\n");
}

std::string constant_operands(Values& values, DType t) {
  std::string out = "input n: float32[2,0,3]\n";
  for (const Operand& o : kOperands) {
    const DType dtype = o.truth ? DType::Bool : t;
    out += std::string("const ") + o.name + ": " + std::string(name_of(dtype)) + o.dims +
           values.constants(dtype, o.count, o.zeros) + "\n";
  }
  return out;
}

std::string symbolic_operands(Values& values, DType t) {
  std::string out = "input n: float32[m,n]";
  for (const Operand& o : kOperands) {
    const DType dtype = o.truth ? DType::Bool : t;
    out += std::string(", ") + o.name + ": " + std::string(name_of(dtype)) + o.dims +
           values.expressions(dtype, o.count, o.zeros);
  }
  return out + "\n";
}

/// The expressions' values as a tensor; nothing where one leaves the dtype or overflows.
std::optional<HostTensor> tensor_of(DType t, const std::vector<int64_t>& dims,
                                    const std::vector<Expr>& elements,
                                    std::span<const int64_t> symbols) {
  std::vector<int64_t> v;
  for (const Expr& e : elements) {
    const auto x = e.eval(symbols);
    if (!x.ok()) return std::nullopt;
    v.push_back(*x);
  }
  HostTensor out(t, dims);
  const auto fill = [&]<typename T>(T) {
    for (size_t i = 0; i < v.size(); ++i) {
      out.mutable_data<T>()[i] = static_cast<T>(v[i]);
      if (static_cast<int64_t>(out.data<T>()[i]) != v[i]) return false;
    }
    return true;
  };
  const bool fits = t == DType::I8     ? fill(int8_t{})
                    : t == DType::U8   ? fill(uint8_t{})
                    : t == DType::Bool ? fill(uint8_t{})
                    : t == DType::I16  ? fill(int16_t{})
                    : t == DType::U16  ? fill(uint16_t{})
                    : t == DType::I32  ? fill(int32_t{})
                    : t == DType::U32  ? fill(uint32_t{})
                                       : fill(int64_t{});
  return fits ? std::optional(std::move(out)) : std::nullopt;
}

/// Inputs of a run for these sizes: what the graph says that they hold.
std::optional<std::vector<HostTensor>> inputs_of(const graph::Graph& g,
                                                 const std::vector<int64_t>& symbols) {
  std::vector<HostTensor> out;
  for (const graph::ValueId id : g.inputs) {
    const graph::Value& v = g.value(id);
    std::vector<int64_t> dims;
    for (const Expr& d : v.shape) dims.push_back(*d.eval(symbols));
    if (!v.elements) {
      out.emplace_back(v.dtype, dims);
      continue;
    }
    auto t = tensor_of(v.dtype, dims, *v.elements, symbols);
    if (!t) return std::nullopt;
    out.push_back(std::move(*t));
  }
  return out;
}

/// How many outputs were known and compared.
int compare(const std::string& text, Values& values) {
  // What a model may not say (a step of 0, say) is refused, not computed.
  auto parsed = graph::parse(text);
  if (!parsed.ok()) {
    EXPECT_NE(parsed.status().code(), Code::Internal) << parsed.status().message() << text;
    return 0;
  }
  const graph::Graph& g = **parsed;
  std::vector<int64_t> symbols;
  for (size_t i = 0; i < g.symbols.size(); ++i) {
    const SymbolSource& source = g.symbol_sources[i];
    const bool derived = source.kind == SymbolSource::Kind::Derived;
    symbols.push_back(derived ? *source.value.eval(symbols) : values.size());
  }
  const auto inputs = inputs_of(g, symbols);
  if (!inputs) return 0;
  const bool known = std::any_of(g.outputs.begin(), g.outputs.end(),
                                 [&](graph::ValueId v) { return g.value(v).elements.has_value(); });
  if (!known) return 0;  // a Range of 2^31 elements, say
  const auto results = run_graph(g, *inputs, Engine::Host);
  if (!results.ok()) return 0;
  int compared = 0;
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    const graph::Value& v = g.value(g.outputs[i]);
    if (!v.elements) continue;
    const HostTensor& expected = (*results)[i];
    const auto said = tensor_of(v.dtype, expected.dims(), *v.elements, symbols);
    EXPECT_TRUE(said.has_value()) << "'" << v.name << "' cannot hold "
                                  << shape_str(*v.elements, g.symbols) << "\n"
                                  << text;
    if (!said) continue;
    ++compared;
    EXPECT_EQ(numbers(*said), numbers(expected))
        << "'" << v.name << "' for sizes " << shape_str(ops::exprs_of(symbols), {}) << "\n"
        << text;
  }
  return compared;
}

constexpr DType kTypes[] = {DType::I8,  DType::U8,  DType::I16, DType::U16,
                            DType::I32, DType::U32, DType::I64};

TEST(Contents, EveryOperatorThatKnowsThemIsTested) {
  for (const ops::OpDef* def : ops::all()) {
    if (def->contents == nullptr) continue;
    EXPECT_TRUE(std::any_of(std::begin(kForms), std::end(kForms),
                            [&](const Form& f) { return f.op == def->name; }))
        << def->name << " has no row";
  }
  for (const Form& f : kForms) {
    const ops::OpDef* def = ops::find("", f.op);
    EXPECT_TRUE(def != nullptr && def->contents != nullptr) << f.op;
  }
}

TEST(Contents, OfConstantsAreWhatHostKernelsCompute) {
  Values values(1);
  std::map<std::string, int> compared;
  for (const Form& form : kForms) {
    for (const DType t : kTypes) {
      for (int round = 0; round < 40; ++round) {
        compared[form.op] += compare(graph_text(form, constant_operands(values, t)), values);
        if (HasFailure()) return;
      }
    }
  }
  for (const auto& [op, n] : compared) EXPECT_GT(n, 10) << op;
}

TEST(Contents, OfShapeArithmeticAreWhatHostKernelsCompute) {
  Values values(2);
  std::map<std::string, int> compared;
  for (const Form& form : kForms) {
    for (const DType t : kTypes) {
      for (int round = 0; round < 40; ++round) {
        compared[form.op] += compare(graph_text(form, symbolic_operands(values, t)), values);
        if (HasFailure()) return;
      }
    }
  }
  for (const auto& [op, n] : compared) EXPECT_GT(n, 10) << op;
}

}  // namespace
}  // namespace reprise::test
