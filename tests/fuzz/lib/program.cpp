#include "tests/fuzz/lib/program.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "codegen/graph/text/text.h"

namespace reprise::fuzz {

namespace {

namespace text = graph::text;

using graph::Graph;
using graph::kNone;
using graph::ValueId;

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

std::string results_text(const Block::Node& n) {
  if (n.types.empty())
    return n.outputs.size() == 1 ? joined(n.outputs) : "(" + joined(n.outputs) + ")";
  std::string out;
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    out += (out.empty() ? "(" : ", ") + name_or_omitted(n.outputs[i]);
    if (!n.outputs[i].empty()) out += ": " + n.types[i];
  }
  return out + ")";
}

std::string input_text(const char* what, const Block::Input& in) {
  if (in.name.empty()) return std::string(what) + " _\n";
  std::string out =
      what + (" " + text::name(in.name)) + ": " + std::string(name_of(in.dtype)) + "[";
  for (size_t i = 0; i < in.dims.size(); ++i) out += (i == 0 ? "" : ",") + in.dims[i];
  return out + "]\n";
}

void write(const Block& b, const std::string& indent, std::string& out);

void write(const Block::Node& n, const std::string& indent, std::string& out) {
  out += indent + results_text(n) + " = ";
  if (!n.domain.empty()) out += text::name(n.domain) + "::";
  out += n.op;
  const char* separator = "<";
  for (const auto& [key, value] : n.attrs) {
    out += separator + text::name(key) + "=" + text::attribute(value, {}, tensor_text);
    separator = ", ";
  }
  if (n.attrs.size() > 0) out += ">";
  out += "(" + joined(n.inputs) + ")";
  if (n.opset != 0) out += " @" + std::to_string(n.opset);
  if (!n.bodies.empty()) out += " {\n";
  for (size_t i = 0; i < n.bodies.size(); ++i) {
    out += indent + "  " + n.labels[i] + " {\n";
    write(n.bodies[i], indent + "    ", out);
    out += indent + "  }\n";
  }
  out += n.bodies.empty() ? "\n" : indent + "}\n";
}

void write(const Block& b, const std::string& indent, std::string& out) {
  for (const Block::Symbol& s : b.symbols)
    out += indent + "symbol " + s.name + " in 0..2147483647 divisor 1 from host " +
           name_or_omitted(s.source) + " axis " + std::to_string(s.axis) + "\n";
  for (const Block::Input& in : b.inputs) out += indent + input_text("input", in);
  for (const Block::Input& in : b.captures) out += indent + input_text("capture", in);
  for (const Block::Constant& c : b.constants)
    out += indent + "const " + text::name(c.name) + ": " + tensor_text(c.data) + "\n";
  for (const Block::Node& n : b.nodes) write(n, indent, out);
  std::set<std::string> seen;
  for (size_t i = 0; i < b.outputs.size(); ++i) {
    out += (i == 0 ? indent + "output " : ", ") + name_or_omitted(b.outputs[i]);
    // A value that is returned twice has another name the second time.
    if (!seen.insert(b.outputs[i]).second)
      out += " as \"" + b.outputs[i] + "." + std::to_string(i) + "\"";
  }
  if (!b.outputs.empty()) out += "\n";
}

/// The statements of a graph and its bodies, each with the symbols that its types name.
class Reader {
 public:
  Block run(const Graph& g) {
    find_sources(g);
    Block b = block(g);
    for (const auto& [symbol, axis] : used_)
      if (sources_.count(symbol) == 0) b.symbols.push_back({symbol, {}, axis});
    return b;
  }

 private:
  struct Source {
    const Graph* graph;
    std::string value;
  };

  /// The symbols that are dims of what nodes with bodies give.
  void find_sources(const Graph& g) {
    for (size_t s = 0; s < g.symbols.size(); ++s) {
      const ValueId from(g.symbol_sources[s].index);
      if (g.symbol_sources[s].kind != SymbolSource::Kind::HostOutput || !g.values().has(from))
        continue;
      const graph::Value& v = g.value(from);
      if (v.producer != nullptr && !v.producer->subgraphs.empty())
        sources_[g.symbols[s].name] = {&g, v.name};
    }
    for (const auto& n : g.nodes())
      for (const auto& [label, body] : n->subgraphs) find_sources(*body);
  }

  Block block(const Graph& g) {
    Block b;
    for (const ValueId v : g.inputs) b.inputs.push_back(input(g, v));
    for (const ValueId v : g.captures) b.captures.push_back(input(g, v));
    std::set<ValueId> seen;
    const auto see = [&](ValueId v) {
      if (v != kNone && g.value(v).constant && seen.insert(v).second)
        b.constants.push_back({g.value(v).name, *g.value(v).constant});
    };
    for (const auto& n : g.nodes()) {
      for (const ValueId v : n->inputs) see(v);
      b.nodes.push_back(node(g, *n));
    }
    for (const ValueId v : g.outputs) {
      b.outputs.push_back(name(g, v));
      see(v);
    }
    for (const auto& [symbol, source] : sources_) {
      const auto axis = used_.find(symbol);
      if (source.graph == &g && axis != used_.end())
        b.symbols.push_back({symbol, source.value, axis->second});
    }
    return b;
  }

  static std::string name(const Graph& g, ValueId v) {
    return v == kNone ? std::string() : g.value(v).name;
  }

  Block::Input input(const Graph& g, ValueId v) {
    if (v == kNone) return {};
    const graph::Value& value = g.value(v);
    Block::Input in{value.name, value.dtype, {}};
    in.dims = dims(g, value);
    return in;
  }

  Block::Node node(const Graph& g, const graph::Node& n) {
    Block::Node node;
    node.domain = n.domain;
    node.op = n.op;
    node.attrs = n.attrs;
    node.opset = n.opset;
    for (const ValueId v : n.inputs) node.inputs.push_back(name(g, v));
    for (const ValueId v : n.outputs) node.outputs.push_back(name(g, v));
    for (const auto& [label, body] : n.subgraphs) {
      node.labels.push_back(label);
      node.bodies.push_back(block(*body));
      node.bodies.back().is_body = true;
    }
    for (size_t i = 0; !n.subgraphs.empty() && i < n.outputs.size(); ++i)
      node.types.push_back(n.outputs[i] == kNone ? std::string() : type(g, n.outputs[i]));
    return node;
  }

  std::string type(const Graph& g, ValueId v) {
    std::string out = std::string(name_of(g.value(v).dtype)) + "[";
    for (const std::string& d : dims(g, g.value(v))) out += (out.back() == '[' ? "" : ",") + d;
    return out + "]";
  }

  /// Of a container, those of its tensors.
  std::vector<std::string> dims(const Graph& g, const graph::Value& value) {
    const bool container = is_container(value.dtype);
    if (container && !value.items.has_rank())
      return {value.items.kind == graph::Items::Kind::None ? "_" : "*"};
    std::vector<std::string> out;
    for (const Expr& d : container ? value.items.shape : value.shape) out.push_back(dim(g, d));
    return out;
  }

  std::string dim(const Graph& g, const Expr& e) {
    for (const SymbolId id : e.symbols()) {
      const SymbolSource& source = g.symbol_sources[static_cast<size_t>(id)];
      if (source.kind == SymbolSource::Kind::HostOutput)
        used_.emplace(g.symbols[static_cast<size_t>(id)].name, source.axis);
    }
    return e.str(g.symbols);
  }

  std::map<std::string, Source> sources_;
  std::map<std::string, int> used_;  // with the axis
};

}  // namespace

Result<Program> Program::from(const Graph& g, const test::Heading& heading) {
  Program p;
  p.heading = heading;
  static_cast<Block&>(p) = Reader().run(g);
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
  write(*this, "", out);
  return out;
}

size_t Block::count_nodes() const {
  size_t count = nodes.size();
  for (const Node& n : nodes)
    for (const Block& b : n.bodies) count += b.count_nodes();
  return count;
}

namespace {

/// Without captures that no body of the node uses, and the inputs that they stand for.
void remove_unused_captures(Block::Node& n) {
  for (Block& b : n.bodies) {
    b.remove_unused();
    std::set<std::string> used(b.outputs.begin(), b.outputs.end());
    for (const Block::Node& inner : b.nodes) used.insert(inner.inputs.begin(), inner.inputs.end());
    for (Block::Input& c : b.captures)
      if (used.count(c.name) == 0) c = {};
  }
  const size_t captures = n.bodies.empty() ? 0 : n.bodies[0].captures.size();
  const auto first = static_cast<std::ptrdiff_t>(n.inputs.size() - captures);
  for (size_t i = captures; i-- > 0;) {
    const auto omitted = [&](const Block& b) { return b.captures[i].name.empty(); };
    if (!std::ranges::all_of(n.bodies, omitted)) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    for (Block& b : n.bodies) b.captures.erase(b.captures.begin() + at);
    n.inputs.erase(n.inputs.begin() + first + at);
  }
}

/// The identifiers in types, of bodies too.
void collect_names(const Block& b, std::set<std::string>& names) {
  const auto collect = [&](const std::string& type) {
    std::string name;
    for (const char c : type + " ") {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
        name += c;
      } else {
        names.insert(std::exchange(name, {}));
      }
    }
  };
  for (const auto* list : {&b.inputs, &b.captures})
    for (const Block::Input& in : *list) std::ranges::for_each(in.dims, collect);
  for (const Block::Node& n : b.nodes) {
    std::ranges::for_each(n.types, collect);
    for (const Block& body : n.bodies) collect_names(body, names);
  }
}

/// Whether the input has the symbol as a dim, which gives it its value.
bool defines(const Block::Input& in, const std::string& symbol) {
  return std::ranges::find(in.dims, symbol) != in.dims.end();
}

/// Removes inputs that nothing needs, but not the only ones that give symbols their values.
void remove_inputs(Block& b, const std::set<std::string>& needed) {
  const auto unused = [&](const Block::Input& in) { return needed.count(in.name) == 0; };
  std::vector<Block::Input> removed;
  std::ranges::copy_if(b.inputs, std::back_inserter(removed), unused);
  std::erase_if(b.inputs, unused);
  std::set<std::string> named;
  collect_names(b, named);
  for (const Block::Input& in : removed) {
    const auto is_defined = [&](const std::string& dim) {
      return std::ranges::any_of(b.inputs,
                                 [&](const Block::Input& kept) { return defines(kept, dim); });
    };
    if (std::ranges::any_of(in.dims, [&](const std::string& dim) {
          return named.count(dim) != 0 && !is_defined(dim);
        }))
      b.inputs.push_back(in);
  }
  // The text of a graph defines a symbol before expressions of it.
  const auto is_plain = [](const std::string& dim) { return dim.find(' ') == std::string::npos; };
  std::ranges::stable_partition(
      b.inputs, [&](const Block::Input& in) { return std::ranges::all_of(in.dims, is_plain); });
}

}  // namespace

void Block::remove_unused() {
  std::set<std::string> needed(outputs.begin(), outputs.end());
  for (size_t i = nodes.size(); i-- > 0;) {
    Node& n = nodes[i];
    const auto live = [&](const std::string& o) { return needed.count(o) != 0; };
    if (!std::any_of(n.outputs.begin(), n.outputs.end(), live)) {
      nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    remove_unused_captures(n);
    for (const std::string& in : n.inputs) {
      if (!in.empty()) needed.insert(in);
    }
  }
  const auto unused = [&](const auto& x) { return needed.count(x.name) == 0; };
  std::erase_if(constants, unused);
  if (!is_body) remove_inputs(*this, needed);
  std::set<std::string> results, named;
  for (const Node& n : nodes) results.insert(n.outputs.begin(), n.outputs.end());
  collect_names(*this, named);
  std::erase_if(symbols, [&](const Symbol& s) {
    return named.count(s.name) == 0 || (!s.source.empty() && results.count(s.source) == 0);
  });
}

}  // namespace reprise::fuzz
