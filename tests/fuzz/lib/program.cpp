#include "tests/fuzz/lib/program.h"

#include <algorithm>

#include "codegen/graph/text.h"

namespace reprise::fuzz {

namespace {

namespace text = graph::text;

std::string tensor_text(const HostTensor& t) {
  std::string out = describe(t.dtype(), t.dims());
  return out + "{" + text::contents(t) + "}";
}

std::string name_or_omitted(const std::string& name) {
  return name.empty() ? "_" : text::name(name);
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name_or_omitted(name);
  return out;
}

std::string node_text(const Program::Node& n) {
  std::string out = n.outputs.size() == 1 ? joined(n.outputs) : "(" + joined(n.outputs) + ")";
  out += " = " + n.op;
  const char* separator = "<";
  for (const auto& [key, value] : n.attrs) {
    out += separator + text::name(key) + "=" + text::attribute(value, {}, tensor_text);
    separator = ", ";
  }
  if (n.attrs.size() > 0) out += ">";
  out += "(" + joined(n.inputs) + ")";
  if (n.opset != 0) out += " @" + std::to_string(n.opset);
  return out + "\n";
}

}  // namespace

Result<Program> Program::from(const graph::Graph& g, const test::Heading& heading) {
  Program p;
  p.heading = heading;
  const auto name = [&](graph::ValueId v) {
    return v == graph::kNone ? std::string() : g.value(v).name;
  };
  for (const graph::ValueId v : g.inputs) {
    const graph::Value& value = g.value(v);
    Input in{value.name, value.dtype, {}};
    for (const Expr& d : value.shape) in.dims.push_back(d.str(g.symbols));
    p.inputs.push_back(std::move(in));
  }
  std::set<graph::ValueId> seen;
  const auto see = [&](graph::ValueId v) {
    if (v != graph::kNone && g.value(v).constant && seen.insert(v).second)
      p.constants.push_back({g.value(v).name, *g.value(v).constant});
  };
  for (const auto& n : g.nodes()) {
    if (!n->subgraphs.empty()) return unsupported("node '" + n->name + "' has bodies");
    Node node{{}, n->op, n->attrs, {}, n->opset};
    for (const graph::ValueId v : n->inputs) {
      node.inputs.push_back(name(v));
      see(v);
    }
    for (const graph::ValueId v : n->outputs) node.outputs.push_back(name(v));
    p.nodes.push_back(std::move(node));
  }
  for (const graph::ValueId v : g.outputs) {
    p.outputs.push_back(name(v));
    see(v);
  }
  return p;
}

Result<Program> Program::parse(const std::string& source) {
  test::Heading heading;
  if (source.rfind("// ", 0) == 0) {
    heading = test::Heading::parse(source.substr(3, source.find('\n') - 3));
  }
  RP_ASSIGN(const auto g, graph::parse(source));
  return from(*g, heading);
}

std::string Program::str() const {
  std::string out = "// " + heading.str() + "\ngraph fuzz\n";
  for (const Input& in : inputs) {
    out += "input " + text::name(in.name) + ": " + std::string(name_of(in.dtype)) + "[";
    for (size_t i = 0; i < in.dims.size(); ++i) out += (i == 0 ? "" : ",") + in.dims[i];
    out += "]\n";
  }
  for (const Constant& c : constants) {
    out += "const " + text::name(c.name) + ": " + tensor_text(c.data) + "\n";
  }
  for (const Node& n : nodes) out += node_text(n);
  return out + "output " + joined(outputs) + "\n";
}

void Program::remove_unused() {
  std::set<std::string> needed(outputs.begin(), outputs.end());
  for (size_t i = nodes.size(); i-- > 0;) {
    Node& n = nodes[i];
    const auto live = [&](const std::string& o) { return needed.count(o) != 0; };
    if (!std::any_of(n.outputs.begin(), n.outputs.end(), live)) {
      nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    for (const std::string& in : n.inputs) {
      if (!in.empty()) needed.insert(in);
    }
  }
  const auto unused = [&](const auto& x) { return needed.count(x.name) == 0; };
  std::erase_if(inputs, unused);
  std::erase_if(constants, unused);
}

}  // namespace reprise::fuzz
