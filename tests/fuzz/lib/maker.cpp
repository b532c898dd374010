#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "runtime/host/host_kernels.h"
#include "tests/fuzz/lib/evaluation.h"
#include "tests/fuzz/lib/generator.h"
#include "tests/support/tensors.h"

namespace reprise::fuzz {

namespace {

using test::Values;

constexpr int64_t kMostElements = 3000;  // of what nodes read
constexpr int64_t kMostRank = 6;
constexpr int64_t kUnknown = std::numeric_limits<int64_t>::min();  // of symbols: data decides
const std::vector<int64_t> kSizes{1, 1, 2, 2,  3,  3,  4,  4,  5,  6,
                                  7, 8, 9, 12, 16, 17, 31, 33, 64, 65};

const std::vector<DType> kDTypes{DType::F32, DType::F32, DType::F32, DType::F16,  DType::BF16,
                                 DType::I8,  DType::U8,  DType::I16, DType::U16,  DType::I32,
                                 DType::U32, DType::I64, DType::U64, DType::Bool, DType::F64};

/// Whether a few integers, as sizes, would make a tensor that is too large to test with.
bool too_large_as_sizes(const HostTensor& t) {
  if (!is_int(t.dtype()) || t.count() > kMostRank) return false;
  double elements = 1;
  for (int64_t i = 0; i < t.count(); ++i) {
    elements *= std::max(1.0, std::fabs(test::number(t, i)));
  }
  return elements > 1e6;
}

/// Names of rows are unique over all domains.
std::string_view domain_of(std::string_view op) {
  static const auto domains = [] {
    std::map<std::string_view, std::string_view> out;
    for (const ops::OpDef* def : ops::all()) out.emplace(def->name, def->domain);
    return out;
  }();
  const auto found = domains.find(op);
  return found == domains.end() ? std::string_view() : found->second;
}

}  // namespace

Maker::Maker(uint64_t seed, std::function<void(const Program&)> on_attempt)
    : rng(seed), on_attempt_(std::move(on_attempt)), g_(std::make_unique<graph::Graph>()) {
  g_->name = "fuzz";
  heading_.seed = rng.next() % 1000000;
  const int64_t symbols = rng.chance(0.6) ? 0 : rng.in(1, 2);
  const int64_t runs = symbols == 0 ? 1 : rng.in(2, 3);
  model_symbols_ = static_cast<size_t>(symbols);
  sizes_.resize(static_cast<size_t>(runs));
  held_.resize(sizes_.size());
  for (int64_t i = 0; i < symbols; ++i) {
    const std::string name(1, static_cast<char>('n' + i));
    const int64_t preferred = rng.in(2, 9);
    for (auto& run : sizes_) {
      const int64_t size = &run == &sizes_[0] ? preferred
                           : rng.chance(0.3)  ? 1
                           : rng.chance(0.1)  ? 0
                                              : rng.in(2, 20);
      run.push_back(size);
      heading_.sizes[name].push_back(size);
    }
    g_->add_symbol({name}, {});
  }
  const bool empty = rng.chance(0.06);
  for (int i = 0; i < 3; ++i) palette_.push_back(rng.pick(kSizes));
  if (empty) palette_[0] = 0;
  favourite_ = random_dtype();
  wild_ = rng.chance(0.3);
  const int64_t inputs = rng.in(1, 2);
  for (int64_t i = 0; i < inputs; ++i) fresh(favourite_, random_shape(1, 4));
}

int64_t Maker::least(const Expr& dim) const {
  int64_t out = std::numeric_limits<int64_t>::max();
  for (const auto& run : sizes_) {
    const auto v = dim.eval(run);
    out = std::min(out, v.ok() ? *v : 0);
  }
  return out;
}

int64_t Maker::most_elements(const Shape& s) const {
  int64_t most = 0;
  for (const auto& run : sizes_) {
    const auto n = element_count(s).eval(run);
    if (!n.ok()) return std::numeric_limits<int64_t>::max();
    most = std::max(most, *n);
  }
  return most;
}

Expr Maker::random_dim() {
  if (model_symbols_ > 0 && rng.chance(0.4)) {
    // Symbols of the model, not those of results whose size depends on data.
    return Expr::symbol(static_cast<SymbolId>(rng.in(0, static_cast<int64_t>(model_symbols_) - 1)));
  }
  return rng.chance(0.7) ? rng.pick(palette_) : rng.pick(kSizes);
}

Shape Maker::random_shape(int64_t low_rank, int64_t high_rank) {
  const int64_t rank =
      std::clamp(rng.chance(0.15) ? rng.in(0, kMostRank) : rng.in(1, 3), low_rank, high_rank);
  for (int tries = 0; tries < 20; ++tries) {
    Shape s;
    for (int64_t i = 0; i < rank; ++i) s.push_back(random_dim());
    if (most_elements(s) <= kMostElements) return s;
  }
  return Shape(static_cast<size_t>(rank), Expr(2));
}

DType Maker::random_dtype() {
  return rng.pick(kDTypes);
}

DType Maker::random_float() {
  if (is_float(favourite_) && rng.chance(0.6)) return favourite_;
  return rng.chance(0.6) ? DType::F32 : rng.chance(0.6) ? DType::F16 : DType::BF16;
}

Values Maker::some_values(DType t) {
  if (t == DType::Bool) return {};
  if (wild_ && rng.chance(0.5)) return {Values::Kind::Special};
  if (is_int(t)) return {rng.chance(0.4) ? Values::Kind::Wide : Values::Kind::Tame};
  return {rng.chance(0.08) ? Values::Kind::Wide : Values::Kind::Tame};
}

Values Maker::divisors(DType t) {
  if (is_float(t)) return some_values(t);
  if (is_signed_int(t) && rng.chance(0.5)) return Values::between(-9, -2);
  return Values::between(1, 9);
}

Maker::V Maker::fresh(DType t, const Shape& given, Values values) {
  // No input has a dim that a node defines. What takes any operand that broadcasts takes a 1.
  Shape s = given;
  for (Expr& d : s)
    if (d.largest_symbol() >= static_cast<SymbolId>(model_symbols_)) d = 1;
  if (reprise::is_static(s) && rng.chance(0.3)) {
    const std::string name = "c" + std::to_string(g_->values().size());
    const V c = constant(test::random_values(t, static_dims(s), values, *heading_.seed, name));
    if (rng.chance(0.5)) pool_.push_back(c);  // weights that several nodes read
    return c;
  }
  if (outer_ != nullptr) return capture(outer_->fresh(t, s, values));
  const V v = g_->add_value("x" + std::to_string(g_->values().size()), t, s);
  g_->inputs.push_back(v);
  heading_.values[g_->value(v).name] = values;
  for (size_t i = 0; i < s.size(); ++i) {
    const auto symbol = s[i].as_symbol();
    if (!symbol) continue;
    g_->symbol_sources[static_cast<size_t>(*symbol)] = {SymbolSource::Kind::InputDim,
                                                        static_cast<int32_t>(g_->inputs.size()) - 1,
                                                        static_cast<int32_t>(i)};
  }
  pool_.push_back(v);
  return v;
}

Maker::V Maker::constant(HostTensor t) {
  return g_->add_constant("c" + std::to_string(g_->values().size()), std::move(t));
}

Maker::V Maker::ints(const std::vector<int64_t>& v, DType t) {
  const std::vector<int64_t> dims{static_cast<int64_t>(v.size())};
  if (t == DType::I64) return constant(HostTensor::from(t, dims, v));
  const std::vector<int32_t> narrow(v.begin(), v.end());
  return constant(HostTensor::from(DType::I32, dims, narrow));
}

Maker::V Maker::scalar(DType t, double v) {
  return constant(test::random_values(t, {}, Values::between(v, v), 0, {}));
}

Maker::V Maker::any() {
  if (outer_ != nullptr && rng.chance(0.3)) {
    if (const V v = capture(outer_->any()); v != kNone) return v;
  }
  if (pool_.empty() || rng.chance(0.1)) return fresh(random_dtype(), random_shape(0, kMostRank));
  // Recent values more often: graphs become deep, not only wide.
  const auto n = static_cast<int64_t>(pool_.size());
  const int64_t from = rng.chance(0.6) ? std::max<int64_t>(0, n - 3) : 0;
  return pool_[static_cast<size_t>(rng.in(from, n - 1))];
}

Maker::V Maker::of_rank(int64_t low, int64_t high) {
  for (int tries = 0; tries < 6; ++tries) {
    const V v = any();
    if (rank(v) >= low && rank(v) <= high) return v;
  }
  return fresh(rng.chance(0.6) ? favourite_ : random_dtype(), random_shape(low, high));
}

Maker::V Maker::floats(int64_t low_rank, int64_t high_rank) {
  for (int tries = 0; tries < 6; ++tries) {
    const V v = any();
    if (is_float(dtype(v)) && rank(v) >= low_rank && rank(v) <= high_rank) return v;
  }
  return fresh(random_float(), random_shape(low_rank, high_rank));
}

Maker::V Maker::typed(DType t, int64_t low_rank, int64_t high_rank) {
  for (int tries = 0; tries < 6; ++tries) {
    const V v = any();
    if (dtype(v) == t && rank(v) >= low_rank && rank(v) <= high_rank) return v;
  }
  return fresh(t, random_shape(low_rank, high_rank));
}

Maker::V Maker::operand(DType t, const Shape& s) {
  std::vector<V> found;
  for (const V v : pool_) {
    if (dtype(v) == t && shape(v) == s) found.push_back(v);
  }
  if (!found.empty() && rng.chance(0.7)) return rng.pick(found);
  return fresh(t, s);
}

Shape Maker::broadcast_shape(const Shape& s, bool to) {
  Shape out = s;
  for (Expr& d : out) {
    if (rng.chance(0.3)) d = 1;
    if (!to && d.is_const(1) && rng.chance(0.3)) d = random_dim();
  }
  if (rng.chance(0.3)) out.erase(out.begin(), out.begin() + rng.in(0, std::ssize(out)));
  if (!to && std::ssize(out) < 4 && rng.chance(0.1)) out.insert(out.begin(), random_dim());
  return out;
}

Maker::V Maker::partner(V v, DType t) {
  // A value that broadcasts, by luck; inference has the last word.
  if (rng.chance(0.5)) {
    std::vector<V> found;
    for (const V x : pool_) {
      const Shape &a = shape(x), &b = shape(v);
      bool fits = dtype(x) == t;
      for (size_t i = 0; fits && i < std::min(a.size(), b.size()); ++i) {
        const Expr &p = a[a.size() - 1 - i], &q = b[b.size() - 1 - i];
        fits = p == q || p.is_const(1) || q.is_const(1);
      }
      if (fits) found.push_back(x);
    }
    if (!found.empty()) return rng.pick(found);
  }
  return fresh(t, rng.chance(0.5) ? shape(v) : broadcast_shape(shape(v), false));
}

std::vector<int64_t> Maker::some_axes(int64_t rank, bool negative) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < rank; ++i) {
    if (rng.chance(0.5)) out.push_back(negative && rng.chance(0.3) ? i - rank : i);
  }
  return out;
}

void Maker::add_sizes() {
  for (auto& run : sizes_) {
    for (size_t s = run.size(); s < g_->symbols.size(); ++s) {
      const SymbolSource& source = g_->symbol_sources[s];
      const bool derived = source.kind == SymbolSource::Kind::Derived;
      const auto size = derived ? source.value.eval(run) : Result<int64_t>(kUnknown);
      run.push_back(size.ok() ? *size : kUnknown);
    }
    run.resize(g_->symbols.size());
  }
}

void Maker::offer(V v) {
  if (!is_container(dtype(v))) pool_.push_back(v);
}

bool Maker::acceptable(V v) const {
  const graph::Value& x = value(v);
  if (!x.has_shape || std::ssize(x.shape) > kMostRank) return false;
  bool known = true;
  for (const Expr& d : x.shape) {
    for (const auto& run : sizes_) {
      const auto n = d.eval(run);
      known = known && n.ok();  // else it depends on data
      if (n.ok() && *n < 0) return false;
    }
  }
  return !known || most_elements(x.shape) <= most_results;
}

const HostTensor& Maker::held(V v, size_t run) {
  HostTensor& t = held_[run][v];
  const graph::Value& x = value(v);
  if (t.dtype() == DType::Invalid && x.producer == nullptr) {
    std::vector<int64_t> dims;
    for (const Expr& d : x.shape) {
      const auto n = d.eval(sizes_[run]);
      dims.push_back(n.ok() ? *n : 0);  // a node defines the size: finish() refuses the graph
    }
    t = x.constant ? *x.constant
                   : test::random_values(x.dtype, dims, heading_.values_of(x.name), *heading_.seed,
                                         x.name);
  }
  return t;
}

bool Maker::is_finite(V v) {
  for (size_t r = 0; r < sizes_.size(); ++r) {
    held_[r].resize(g_->values().size());
    if (!all_finite(held(v, r))) return false;
  }
  return true;
}

void Maker::attempt(const graph::Node& n) {
  if (!on_attempt_) return;
  g_->set_outputs(n.outputs);
  if (auto p = Program::from(*g_, heading_); p.ok()) {
    p->remove_unused();
    on_attempt_(*p);
  }
  g_->set_outputs({});
}

/// `e`: of the node.
Result<Tensors> Maker::run_alone(const Evaluation& e, const graph::Node& n, size_t run) {
  Tensors given;
  for (const V v : n.inputs)
    if (v != kNone && !value(v).constant) given.push_back(held(v, run));
  RP_ASSIGN(const Trace t, e.trace(sizes_[run], given));
  return e.outputs_of(t.values);
}

bool Maker::computable(const graph::Node& n) {
  if (!n.subgraphs.empty()) return computable_with_bodies(n);
  const host::Kernel kernel = host::find(n.op);
  std::optional<Evaluation> others;  // the operators that it is made of
  if (kernel == nullptr) {
    auto alone = Evaluation::of_node(*g_, n);
    if (!alone.ok()) return false;
    others = std::move(*alone);
  }
  attempt(n);
  const bool sized_by_data =
      std::ranges::any_of(n.outputs, [&](V v) { return most_elements(shape(v)) > most_results; });
  for (size_t r = 0; r < sizes_.size(); ++r) {
    held_[r].resize(g_->values().size());
    std::vector<const HostTensor*> inputs;
    for (const V v : n.inputs) {
      if (v == kNone) {
        inputs.push_back(nullptr);
        continue;
      }
      inputs.push_back(&held(v, r));
      if (sized_by_data && too_large_as_sizes(*inputs.back())) return false;
    }
    host::Call call{n.op, n.opset, n.attrs, inputs, n.outputs.size()};
    auto results = kernel != nullptr ? kernel(call) : run_alone(*others, n, r);
    if (!results.ok()) return false;
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      held_[r][n.outputs[i]] = std::move((*results)[i]);
    }
  }
  return true;
}

/// Whether every run keeps the lower bounds that inference has added since there were so many
/// guards.
bool Maker::large_enough(size_t guards) const {
  return std::all_of(g_->guards.begin() + static_cast<std::ptrdiff_t>(guards), g_->guards.end(),
                     [this](const graph::DimGuard& guard) {
                       if (guard.kind != DimGuard::Kind::AtLeast) return true;
                       return std::ranges::all_of(sizes_, [&](const auto& symbols) {
                         const auto a = guard.a.eval(symbols), b = guard.b.eval(symbols);
                         return !a.ok() || !b.ok() || *a >= *b;
                       });
                     });
}

void Maker::retract(graph::Node* n, size_t guards, size_t symbols) {
  g_->erase_node(n);
  g_->guards.resize(guards);
  g_->symbols.resize(symbols);
  g_->symbol_sources.resize(symbols);
  add_sizes();
}

bool Maker::add(std::string_view op, std::vector<V> inputs, AttrMap attrs, size_t outputs,
                int64_t opset) {
  const size_t guards = g_->guards.size();
  const size_t symbols = g_->symbols.size();
  graph::NodeSpec n;
  n.op = op;
  n.domain = domain_of(op);
  n.opset = opset;
  n.inputs = std::move(inputs);
  n.attrs = std::move(attrs);
  const std::string base = "v" + std::to_string(g_->values().size());
  for (size_t i = 0; i < outputs; ++i) n.outputs.push_back(g_->add_unknown(base));
  graph::Node* node = g_->add_node(std::move(n));
  bool fine = ops::infer(*g_, *node).ok();
  add_sizes();
  for (const V v : node->outputs) fine = fine && acceptable(v);
  fine = fine && large_enough(guards) && computable(*node);
  if (!fine) {
    retract(node, guards, symbols);
    return false;
  }
  last_ = node->outputs;
  for (const V v : last_) {
    // What is large, or depends on data in its size, is used again by few recipes: left to end
    // here.
    if (most_elements(shape(v)) <= kMostElements) offer(v);
  }
  return true;
}

Maker::V Maker::chain(std::string_view op, std::vector<V> inputs, AttrMap attrs, int64_t opset) {
  if (std::find(inputs.begin(), inputs.end(), kNone) != inputs.end()) return kNone;
  return add(op, std::move(inputs), std::move(attrs), 1, opset) ? last() : kNone;
}

const graph::Node* Maker::some_node() {
  if (g_->nodes().empty()) return nullptr;
  auto at = g_->nodes().begin();
  std::advance(at, rng.in(0, std::ssize(g_->nodes()) - 1));
  return at->get();
}

/// Inference may replace symbols by others, and a node that is taken back leaves that behind.
bool Maker::sizes_are_as_computed() const {
  for (size_t r = 0; r < held_.size(); ++r) {
    for (const V v : held_[r].ids()) {
      const graph::Value& x = value(v);
      const HostTensor& t = held_[r][v];
      if (t.dtype() == DType::Invalid || !x.has_shape || x.shape.size() != t.dims().size())
        continue;
      for (size_t d = 0; d < x.shape.size(); ++d) {
        const auto size = x.shape[d].eval(sizes_[r]);
        if (size.ok() && *size != t.dims()[d]) return false;
      }
    }
  }
  return true;
}

/// Adds an input for each symbol that is a part of dims only, because the text of a graph defines a
/// symbol where it is a dim.
void Maker::define_symbols() {
  std::set<SymbolId> used, defined;
  for (const V v : g_->inputs) {
    for (const Expr& d : shape(v)) {
      std::vector<SymbolId> symbols;
      d.collect_symbols(symbols);
      used.insert(symbols.begin(), symbols.end());
      if (const auto s = d.as_symbol()) defined.insert(*s);
    }
  }
  for (const SymbolId s : used)
    if (defined.count(s) == 0) fresh(DType::Bool, {Expr::symbol(s)});
}

Result<Program> Maker::finish() {
  std::vector<V> sinks, others;
  for (const auto& n : g_->nodes()) {
    for (const V v : n->outputs) {
      if (is_container(dtype(v))) continue;  // what takes tensors out of it is compared
      (g_->users(v).empty() ? sinks : others).push_back(v);
    }
  }
  for (const V v : others) {
    if (rng.chance(0.15)) sinks.push_back(v);
  }
  for (const V v : pool_) {
    // Now and then an input or a constant is also an output.
    if (value(v).producer == nullptr && rng.chance(0.04)) sinks.push_back(v);
  }
  g_->set_outputs(sinks);
  if (!sizes_are_as_computed()) return invalid_input("a refused node has unified dims");
  for (const V v : g_->inputs) {
    std::vector<SymbolId> symbols;
    for (const Expr& d : shape(v)) d.collect_symbols(symbols);
    if (std::ranges::any_of(symbols,
                            [&](SymbolId s) { return static_cast<size_t>(s) >= model_symbols_; }))
      return invalid_input("a size of an input depends on a symbol that a node defines");
  }
  define_symbols();
  RP_ASSIGN(Program p, Program::from(*g_, heading_));
  p.remove_unused();
  if (p.nodes.empty()) return invalid_input("the graph has no nodes");
  return p;
}

}  // namespace reprise::fuzz
