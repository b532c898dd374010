// Every operator of the registry as a source of nodes, and nodes as their registry entry suggests.
#include <algorithm>
#include <map>
#include <numeric>

#include "codegen/ops/row/support.h"
#include "runtime/host/control_flow_kind.h"
#include "runtime/host/host_kernels.h"
#include "tests/fuzz/lib/recipes.h"

namespace reprise::fuzz {

namespace {

bool declares(const ops::OpDef& def, std::string_view attribute) {
  return std::ranges::find(def.attributes, attribute, &ops::AttrDecl::name) != def.attributes.end();
}

/// What an attribute of this name is like, whichever operator has it.
std::optional<Attr> attr_named(Maker& m, std::string_view name, int64_t rank) {
  static constexpr std::string_view kFlags[] = {
      "keepdims",        "exclusive",       "reverse",  "upper", "select_last_index",
      "detect_negative", "detect_positive", "periodic", "fmod",  "noop_with_empty_axes"};
  static constexpr std::string_view kReals[] = {"alpha", "beta", "gamma", "bias", "lambd"};
  if (std::find(std::begin(kFlags), std::end(kFlags), name) != std::end(kFlags)) {
    return m.rng.in(0, 1);
  }
  if (std::find(std::begin(kReals), std::end(kReals), name) != std::end(kReals)) {
    return static_cast<float>(m.rng.in(1, 12)) / 8;
  }
  if (name == "axis" && rank > 0) return m.rng.in(-rank, rank - 1);
  if (name == "axes" && rank > 0) return m.some_axes(rank);
  if (name == "epsilon") return m.rng.pick(std::vector<float>{1e-5F, 1e-3F, 0.125F});
  if (name == "to" || name == "dtype") return ops::dtype_to_onnx(m.random_dtype());
  if (name == "direction") return std::string(m.rng.chance(0.5) ? "LEFT" : "RIGHT");
  if (name == "approximate") return std::string(m.rng.chance(0.5) ? "tanh" : "none");
  if (name == "p" || name == "k") return m.rng.in(1, 2);
  if (name == "blocksize") return m.rng.in(1, 2);
  return std::nullopt;
}

AttrMap attrs_of(Maker& m, const ops::OpDef& def, int64_t rank) {
  AttrMap out;
  for (const ops::AttrDecl& decl : def.attributes) {
    const std::string name(decl.name);
    if (decl.internal) continue;
    if (name != "to" && name != "direction" && m.rng.chance(0.4)) continue;
    if (auto a = attr_named(m, name, rank)) out.set(name, std::move(*a));
  }
  return out;
}

bool divides(std::string_view op) {
  return op == "Div" || op == "Mod" || op == "Rem";
}

bool make_reduction(Maker& m, const ops::OpDef& def) {
  const V x = m.of_rank(0, 6);
  const std::vector<int64_t> axes = m.some_axes(m.rank(x));
  AttrMap attrs;
  if (m.rng.chance(0.6)) attrs.set("keepdims", m.rng.in(0, 1));
  // As an attribute until version 18 (13 for ReduceSum), as an input since.
  if (m.rng.chance(0.2)) {
    if (!axes.empty()) attrs.set("axes", axes);
    return m.add(def.name, {x}, std::move(attrs), 1, 11);
  }
  if (m.rng.chance(0.3)) attrs.set("noop_with_empty_axes", m.rng.in(0, 1));
  std::vector<V> inputs{x};
  if (!axes.empty() || m.rng.chance(0.5)) inputs.push_back(m.ints(axes));
  return m.add(def.name, std::move(inputs), std::move(attrs));
}

double weight_of(const ops::OpDef& def) {
  if (def.row && def.max_inputs == 1) return 0.35;  // there are many functions of one number
  if (def.lowering == ops::Lowering::View) return 3;
  if (def.lowering == ops::Lowering::Reduce || def.lowering == ops::Lowering::Scan) return 1.2;
  if (def.lowering == ops::Lowering::MatMul || def.lowering == ops::Lowering::Conv) return 3;
  if (def.lowering == ops::Lowering::Element) return 1.5;
  if (host::control_flow_of(def.name) != host::ControlFlow::None) return 2.5;
  return def.decompose == nullptr ? 0.25 : 0.8;  // on the host alone
}

std::map<std::string_view, Make> recipe_table() {
  std::map<std::string_view, Make> out;
  for (const auto& recipes :
       {view_recipes(), index_recipes(), product_recipes(), window_recipes(), norm_recipes(),
        quantize_recipes(), sequence_recipes(), signal_recipes(), pattern_recipes(),
        control_recipes(), long_recipes(), ml_recipes(), list_recipes()}) {
    for (const Recipe& r : recipes) out.emplace(r.op, r.make);
  }
  return out;
}

std::string reason_against(const ops::OpDef& def) {
  if (host::find(def.name) == nullptr)
    return def.decompose != nullptr ? "the host runs what it decomposes into"
                                    : "has no host kernel";
  if (def.name == "ImageDecoder") return "its input is an image file";
  if (def.random) return "its results are random";
  static constexpr std::string_view kOfStrings[] = {"RegexFullMatch", "StringConcat",
                                                    "StringNormalizer", "StringSplit", "Tokenizer"};
  if (std::ranges::find(kOfStrings, def.name) != std::end(kOfStrings))
    return "its inputs are strings";
  static constexpr std::string_view kOfMaps[] = {"CastMap", "DictVectorizer", "ZipMap"};
  if (std::ranges::find(kOfMaps, def.name) != std::end(kOfMaps))
    return "its inputs or results are maps";
  if (def.decompose == nullptr && def.row) return "no operator of ONNX: others are made of it";
  static constexpr std::string_view kMade[] = {"CountedRows",  "FlatIndex",   "ScatterSorted",
                                               "SearchCounts", "SelectBoxes", "TreeLeaves"};
  if (def.max_inputs == 0 || def.kernel == "recurrent" ||
      std::ranges::find(kMade, def.name) != std::end(kMade))
    return "a pass makes it, no model";
  if (def.kernel == "attention gradient") return "its operands are results of attention";
  if (!def.domain.empty()) return "its attributes are lists that fit each other";
  return {};
}

}  // namespace

bool make_by_entry(Maker& m, const ops::OpDef& def) {
  if (declares(def, "noop_with_empty_axes")) return make_reduction(m, def);
  for (int tries = 0; tries < 8; ++tries) {
    const V x = tries < 4 ? m.any() : m.fresh(m.random_dtype(), m.random_shape(0, 5));
    const int most = std::min(def.max_inputs, std::max(def.min_inputs, 3));
    const int64_t count = m.rng.in(def.min_inputs, most);
    std::vector<V> inputs;
    if (count > 0) inputs.push_back(x);
    for (int64_t i = 1; i < count; ++i) {
      inputs.push_back(divides(def.name) ? m.fresh(m.dtype(x), m.broadcast_shape(m.shape(x), false),
                                                   m.divisors(m.dtype(x)))
                                         : m.partner(x));
    }
    AttrMap attrs = attrs_of(m, def, m.rank(x));
    if (m.add(def.name, std::move(inputs), std::move(attrs))) return true;
  }
  return false;
}

const std::vector<Source>& sources() {
  static const std::vector<Source> all = [] {
    std::vector<Source> out;
    auto recipes = recipe_table();
    for (const ops::OpDef* def : ops::all()) {
      const auto recipe = recipes.find(def->name);
      Source s{std::string(def->name), {}, weight_of(*def)};
      if (recipe != recipes.end()) {
        s.make = recipe->second;
        recipes.erase(recipe);
      } else if (!reason_against(*def).empty()) {
        continue;
      } else {
        s.make = [def](Maker& m) { return make_by_entry(m, *def); };
      }
      out.push_back(std::move(s));
    }
    for (const auto& [name, make] : recipes) out.push_back({std::string(name), make, 1.5, true});
    return out;
  }();
  return all;
}

std::vector<std::pair<std::string, std::string>> without_source() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const ops::OpDef* def : ops::all()) {
    const auto& known = sources();
    const bool has = std::any_of(known.begin(), known.end(),
                                 [&](const Source& s) { return s.name == def->name; });
    if (has) continue;
    out.emplace_back(def->name, reason_against(*def));
  }
  return out;
}

namespace {

/// Sources and how often each is chosen.
struct Choice {
  std::vector<const Source*> from;
  std::vector<double> weights;

  void add(const Source& s, double weight) {
    from.push_back(&s);
    weights.push_back(weight);
  }
  const Source& pick(test::RandomSource& rng) const {
    double at = rng.unit() * std::accumulate(weights.begin(), weights.end(), 0.0);
    size_t i = 0;
    while (i + 1 < from.size() && at >= weights[i]) at -= weights[i++];
    return *from[i];
  }
};

/// What one graph is made of. Few sources meet each other more often than many do, so most graphs
/// have only some of them (swarm testing), and many of these a pattern.
Choice theme(const Choice& all, test::RandomSource& rng) {
  if (all.from.size() < 8 || rng.chance(0.3)) return all;
  Choice out;
  Choice patterns;
  for (const Source* s : all.from) {
    if (s->pattern) patterns.add(*s, 1);
  }
  const int64_t count = rng.in(2, 8);
  for (int64_t i = 0; i < count; ++i) out.add(all.pick(rng), 1);
  if (!patterns.from.empty() && rng.chance(0.7)) {
    out.add(patterns.pick(rng), 0.5 * static_cast<double>(count));
  }
  return out;
}

}  // namespace

Result<Program> generate(uint64_t seed, const GeneratorOptions& options) {
  Maker m(seed, options.on_attempt);
  const int64_t wanted = m.rng.chance(0.4) ? m.rng.in(1, 4) : m.rng.in(3, options.most_nodes);
  Choice all;
  for (const Source& s : sources()) {
    const bool named = options.ops.empty() || std::find(options.ops.begin(), options.ops.end(),
                                                        s.name) != options.ops.end();
    const auto& without = options.without;
    if (!named || std::find(without.begin(), without.end(), s.name) != without.end()) continue;
    all.add(s, s.weight);
  }
  if (all.from.empty()) return Status(Code::Usage, "no operator or pattern has any of these names");
  const Choice choice = theme(all, m.rng);
  m.add_some = [&choice](Maker& to) { choice.pick(to.rng).make(to); };
  for (int tries = 0; tries < 60 && static_cast<int64_t>(m.nodes()) < wanted; ++tries) {
    choice.pick(m.rng).make(m);
  }
  return m.finish();
}

}  // namespace reprise::fuzz
