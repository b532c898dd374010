// docs/operators.md is what the registry says, and what the compiler and the host make of the
// graphs of tests/empty/operators.txt. tools/operators writes it anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <sstream>

#include "codegen/compile/compiler.h"
#include "codegen/ops/row/op.h"
#include "codegen/ops/row/unsupported.h"
#include "runtime/session/session.h"
#include "tests/empty/cases.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"

namespace reprise {
namespace {

constexpr std::array kFloats{"float16", "bfloat16", "float32", "float64"};
constexpr std::array kIntegers{"int8",  "int16",  "int32",  "int64",
                               "uint8", "uint16", "uint32", "uint64"};
constexpr std::array kLowBits{"int2",       "uint2",        "int4",      "uint4",
                              "float4e2m1", "float8e4m3fn", "float8e5m2"};

/// The text with the type of the first input replaced wherever it is the type of an operand.
std::string with_type(const std::string& text, const std::string& from, const std::string& to) {
  const std::regex operand("([a-z0-9_]+: )" + from + "(?=\\[)");
  std::istringstream in(text);
  std::string out;
  for (std::string line; std::getline(in, line);) {
    const bool declares = line.rfind("input ", 0) == 0 || line.rfind("const ", 0) == 0;
    out += (declares ? std::regex_replace(line, operand, "$1" + to) : line) + "\n";
  }
  return out;
}

/// The type of the operator's first operand. Empty if it has none.
std::string first_type(const Case& c) {
  const auto g = graph::parse(c.text);
  if (!g.ok()) return {};
  for (const auto& n : (*g)->nodes()) {
    if (n->op.str() == c.op() && !n->inputs.empty() && n->inputs[0] != graph::kNone)
      return std::string(name_of(element_of((*g)->value(n->inputs[0]).dtype)));
  }
  return {};
}

HostTensor input_of(DType dtype, const Shape& shape, const std::vector<int64_t>& symbols) {
  std::vector<int64_t> dims;
  for (const Expr& d : shape) dims.push_back(*d.eval(symbols));
  static std::mt19937 rng(3);
  return dtype == DType::String ? HostTensor(dtype, dims) : test::random_tensor(dtype, dims, rng);
}

/// Whether the host computes the graph, for a size of 2 and some of several inputs: others may
/// divide by 0 or index past an end.
bool runs(const std::string& text) {
  constexpr int kInputs = 16;
  auto g = graph::parse(text);
  if (!g.ok()) return false;
  const std::vector<int64_t> symbols((*g)->symbols.size(), 2);
  std::vector<std::pair<DType, Shape>> slots;
  for (const graph::ValueId v : (*g)->inputs)
    slots.emplace_back((*g)->value(v).dtype, (*g)->value(v).shape);
  CompileOptions options;
  options.targets = {};
  auto package = compile(std::move(*g), options);
  if (!package.ok()) return false;
  const auto session =
      Session::create(std::make_shared<package::Package>(std::move(*package)), nullptr);
  if (!session.ok()) return false;
  for (int i = 0; i < kInputs; ++i) {
    std::vector<HostTensor> inputs;
    for (const auto& [dtype, shape] : slots) inputs.push_back(input_of(dtype, shape, symbols));
    std::vector<Binding> bindings(inputs.size());
    for (size_t n = 0; n < inputs.size(); ++n) {
      bindings[n].name = (*session)->io().inputs[n].name;
      bindings[n].host = &inputs[n];
    }
    if ((*session)->run(bindings).ok()) return true;
  }
  return false;
}

/// The types of a list that are accepted: the name of the list for all of them.
template <size_t n>
void add_types(const std::array<const char*, n>& list, const char* all,
               const std::set<std::string>& accepted, std::vector<std::string>& out) {
  const auto taken = [&](const char* t) { return accepted.count(t) != 0; };
  if (std::ranges::all_of(list, taken)) {
    out.emplace_back(all);
    return;
  }
  for (const char* t : list) {
    if (taken(t)) out.emplace_back(t);
  }
}

std::string joined(const std::vector<std::string>& list) {
  std::string out;
  for (const std::string& s : list) out += (out.empty() ? "" : ", ") + s;
  return out;
}

/// The types that the operands of the cases may have.
std::string types_of(const std::vector<Case>& cases, const ops::OpDef& def) {
  std::set<std::string> accepted;
  const auto try_all = [&](const auto& list, const Case& c, const std::string& from) {
    for (const char* t : list) {
      if (runs(with_type(c.text, from, t))) accepted.insert(t);
    }
  };
  for (const Case& c : cases) {
    const std::string from = first_type(c);
    if (from.empty()) continue;
    accepted.insert(from);
    if (with_type(c.text, from, "") == c.text) continue;  // no operand of a graph has the type
    try_all(kFloats, c, from);
    try_all(kIntegers, c, from);
    try_all(std::array{"bool", "string"}, c, from);
    if (def.low_bit) try_all(kLowBits, c, from);
  }
  std::vector<std::string> out;
  add_types(kFloats, "floats", accepted, out);
  add_types(kIntegers, "integers", accepted, out);
  for (const char* t : {"bool", "string"}) {
    if (accepted.count(t) != 0) out.emplace_back(t);
  }
  if (def.low_bit) out.emplace_back("low-bit types");
  return out.empty() ? "-" : joined(out);
}

/// Where a case runs if it is compiled for a Vulkan device.
std::string place_of(const Case& c) {
  auto g = graph::parse(c.text);
  if (!g.ok()) return "?";
  CompileOptions options;
  options.targets = {"vulkan-int64"};
  const auto package = compile(std::move(*g), options);
  if (!package.ok() || package->variants.empty()) return "?";
  bool device = false, host = false;
  for (const plan::Step& s : package->variants[0].plan.steps)
    (std::holds_alternative<plan::HostCall>(s.what) ? host : device) = true;
  if (device) return host ? "device and host" : "device";
  return host ? "host" : "compiler";
}

struct Operator {
  int64_t first = 0;
  bool experimental = false;
  const ops::OpDef* newest = nullptr;
  std::vector<Case> cases;
};

/// Operators that passes or the backend of PyTorch write, and no model.
bool is_of_core_form(const ops::OpDef& def) {
  constexpr std::string_view kOthers[] = {
      "AttentionGrad", "CountedRows",  "FlatIndex",   "NotEqual",   "RecurrentSteps", "SampleRows",
      "ScatterSorted", "SearchCounts", "SelectBoxes", "ShapeValue", "TreeLeaves"};
  return (def.row && def.decompose == nullptr) ||
         std::ranges::find(kOthers, def.name) != std::end(kOthers);
}

/// By domain and name in models.
std::map<std::string, std::map<std::string, Operator>> operators() {
  std::map<std::string, std::vector<Case>> cases;
  for (const Case& c : read_cases()) cases[c.op()].push_back(c);
  std::map<std::string, std::map<std::string, Operator>> out;
  for (const ops::OpDef* def : ops::all()) {
    const auto known = cases.find(std::string(def->name));
    if (known == cases.end() || is_of_core_form(*def)) continue;
    const std::string name(def->in_models.empty() ? def->name : def->in_models);
    Operator& o = out[def->domain.empty() ? "ai.onnx" : std::string(def->domain)][name];
    o.first = o.first == 0 ? def->min_opset : std::min(o.first, def->min_opset);
    if (def->max_opset == 0) o.newest = def;
    o.cases.insert(o.cases.end(), known->second.begin(), known->second.end());
  }
  return out;
}

std::string row_of(const std::string& name, const Operator& o) {
  const ops::OpDef& def = *o.newest;
  std::vector<Case> current;
  std::set<std::string> places;
  for (const Case& c : o.cases) {
    if (c.op() != def.name) continue;
    current.push_back(c);
    const std::string place = place_of(c);
    if (place != "compiler" || places.empty()) places.insert(place);
    if (place != "compiler") places.erase("compiler");
  }
  const std::string where = joined({places.begin(), places.end()});
  const std::string since = o.first == 1 ? "all" : std::to_string(o.first) + " and later";
  return "| " + name + " | " + since + " | " + types_of(current, def) + " | " + where + " |\n";
}

constexpr const char* kHead =
    "# Operators\n\n"
    "`tools/operators` writes this file from the compiler's registry. A model with another "
    "operator, or "
    "with a form\nof an operator that is not supported, is refused with a message that names the "
    "node.\n\n"
    "- *Versions* are those of the domain that a model imports. Versions 1 to 28 of ai.onnx are "
    "known.\n"
    "- *Types* are those of the first operand, and of all operands of the same type, with which "
    "the "
    "host computes\n  the graphs of `tests/empty/operators.txt`. *floats* are float16, bfloat16, "
    "float32 and float64, *integers*\n  those of 8 to 64 bits, *low-bit types* integers of 2 and 4 "
    "bits and floats of 4 and 8 bits.\n"
    "- *Runs on* is where these graphs run if they are compiled for a Vulkan device: *compiler* "
    "means "
    "that the\n  result is known when the model is compiled. Several entries are those of several "
    "graphs. Forms that no\n  graph has may run on the host; `reprise explain` tells why for a "
    "model.\n\n"
    "If, Loop, Scan, SequenceMap and FlexAttention (of ai.onnx.preview) have bodies, which the "
    "importer "
    "handles\n"
    "([architecture.md](architecture.md)).\n";

std::string document() {
  std::ostringstream out;
  out << kHead;
  for (const auto& [domain, list] : operators()) {
    out << "\n## " << domain
        << "\n\n| operator | versions | types | runs on |\n|---|---|---|---|\n";
    for (const auto& [name, o] : list) out << row_of(name, o);
  }
  out << "\n## Not supported\n\n| operator | why | what to do |\n|---|---|---|\n";
  for (const ops::Unsupported& u : ops::unsupported_ops()) {
    const std::string domain = u.domain.empty() ? "" : std::string(u.domain) + "::";
    out << "| " << domain << (u.name.empty() ? "*" : u.name) << " | " << u.reason << " | "
        << u.advice << " |\n";
  }
  return out.str();
}

TEST(OperatorsDoc, IsCurrent) {
  const auto path = test::source_dir() / "docs/operators.md";
  std::ifstream in(path);
  std::ostringstream found;
  found << in.rdbuf();
  const std::string expected = document();
  const auto written = test::binary_dir() / "operators.md";
  std::ofstream(written) << expected;
  EXPECT_EQ(found.str(), expected) << "run tools/operators, or copy " << written << " to " << path;
}

}  // namespace
}  // namespace reprise
