// Prints a graph as the text that codegen/graph/text/text.md describes.
#include <array>
#include <cstring>

#include "codegen/graph/graph.h"
#include "codegen/graph/text/text.h"
#include "codegen/graph/whole.h"

namespace reprise::graph {

namespace {

uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15ull;
  return h ^ (h >> 29);
}

uint64_t mix_bytes(uint64_t h, const void* data, size_t size) {
  const auto* p = static_cast<const unsigned char*>(data);
  for (; size >= 8; p += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    h = mix(h, word);
  }
  uint64_t rest = size;
  for (size_t i = 0; i < size; ++i) rest = (rest << 8) | p[i];
  return mix(h, rest);
}

std::string hex(uint64_t v) {
  std::string out(16, '0');
  for (size_t i = 0; i < 16; ++i) out[15 - i] = "0123456789abcdef"[(v >> (4 * i)) & 15];
  return out;
}

class Printer {
 public:
  explicit Printer(ConstantPool* pool) : pool_(pool) {}

  std::string run(const Graph& g) {
    out_ += "graph " + text::name(g.name.empty() ? "main" : g.name) + "\n";
    for (size_t i = 0; i < g.symbols.size(); ++i) symbol(g, i);
    body(g, "");
    return std::move(out_);
  }

 private:
  void symbol(const Graph& g, size_t i) {
    using Kind = SymbolSource::Kind;
    const Symbol& s = g.symbols[i];
    const auto source = i < g.symbol_sources.size() ? g.symbol_sources[i] : SymbolSource{};
    out_ += "symbol " + s.name + " in " + std::to_string(s.min) + ".." + std::to_string(s.max) +
            " divisor " + std::to_string(s.divisor) + " from ";
    if (source.kind == Kind::Derived) {
      out_ += "derived " + source.value.str(g.symbols) + "\n";
      return;
    }
    if (source.kind == Kind::InputDim) {
      out_ += "input " + std::to_string(source.index);
    } else {
      // A value that was removed or that belongs to a body has no name here.
      const ValueId v(source.index);
      const bool live = g.values().has(v) && g.value(v).producer;
      out_ += source.kind == Kind::HostOutput ? "host " : "element ";
      out_ += live ? text::name(g.value(v).name) : "_";
    }
    out_ += " axis " + std::to_string(source.axis) + "\n";
  }

  void guard(const Graph& g, const DimGuard& d, const std::string& indent) {
    using Kind = DimGuard::Kind;
    const char* relation = d.kind == Kind::Equal       ? " == "
                           : d.kind == Kind::Broadcast ? " broadcasts with "
                           : d.kind == Kind::AtLeast   ? " >= "
                                                       : " broadcasts to ";
    out_ += indent + "guard " + d.a.str(g.symbols) + relation + d.b.str(g.symbols);
    if (d.kind == Kind::Broadcast) out_ += " as " + d.result.str(g.symbols);
    out_ += " by " + text::quoted(d.node);
    if (!d.a_is.empty() || !d.b_is.empty())
      out_ += " of " + text::quoted(d.a_is) + " and " + text::quoted(d.b_is);
    out_ += "\n";
  }

  void body(const Graph& g, const std::string& indent) {
    IdVector<ValueId, bool> shown(g.values().size());
    for (const DimGuard& d : g.guards) guard(g, d, indent);
    for (ValueId v : g.captures) out_ += indent + "capture " + typed(g, v) + "\n";
    for (ValueId v : g.inputs) out_ += indent + "input " + typed(g, v) + "\n";
    for (const auto& n : g.nodes()) {
      for (ValueId v : n->inputs) constant(g, v, indent, shown);
      node(g, *n, indent);
    }
    for (ValueId v : g.outputs) constant(g, v, indent, shown);
    for (size_t i = 0; i < g.outputs.size(); ++i) {
      const std::string value = text_of(g, g.outputs[i]);
      const std::string name = text::name(g.output_name(i));
      out_ += i ? ", " : indent + "output ";
      out_ += value;
      if (name != value && g.outputs[i] != kNone) out_ += " as " + name;
    }
    if (!g.outputs.empty()) out_ += "\n";
  }

  void constant(const Graph& g, ValueId v, const std::string& indent,
                IdVector<ValueId, bool>& shown) {
    if (v == kNone || !g.value(v).constant || shown[v]) return;
    shown[v] = true;
    const Value& value = g.value(v);
    out_ += indent + "const " + text::name(value.name) + ": ";
    if (value.storage != DType::Invalid) out_ += std::string(name_of(value.dtype)) + ":";
    out_ += tensor(whole(value));
    out_ += "\n";
  }

  std::string tensor(const HostTensor& t) {
    std::string out(name_of(t.dtype()));
    out += "[";
    for (size_t i = 0; i < t.dims().size(); ++i) {
      out += (i ? "," : "") + std::to_string(t.dims()[i]);
    }
    out += "]";
    if (t.count() <= text::kMaxInlineElements && text::prints_exactly(t)) {
      return out + "{" + text::contents(t) + "}";
    }
    if (pool_) pool_->add(t);
    return out + "#" + hex(constant_hash(t));
  }

  static std::string text_of(const Graph& g, ValueId v) {
    return v == kNone ? "_" : text::name(g.value(v).name);
  }

  static std::string typed(const Graph& g, ValueId v) {
    if (v == kNone) return "_";
    const Value& value = g.value(v);
    std::string out = text::name(value.name) + ": ";
    out += value.dtype == DType::Invalid ? "?" : name_of(value.dtype);
    if (value.storage != DType::Invalid) out += ":" + std::string(name_of(value.storage));
    const bool container = is_container(value.dtype);
    if (!value.has_shape || (container && value.items.kind == Items::Kind::Any)) {
      out += "[*]";
    } else if (container && !value.items.has_rank()) {
      out += "[_]";
    } else {
      const Shape& shape = container ? value.items.shape : value.shape;
      out += "[";
      for (size_t i = 0; i < shape.size(); ++i) {
        out += (i ? "," : "") + shape[i].str(g.symbols);
      }
      out += "]";
    }
    if (value.elements && !value.constant)
      out += "{" + text::exprs(*value.elements, g.symbols) + "}";
    return out;
  }

  void node(const Graph& g, const Node& n, const std::string& indent) {
    out_ += indent;
    if (n.outputs.size() != 1) out_ += "(";
    for (size_t i = 0; i < n.outputs.size(); ++i) out_ += (i ? ", " : "") + typed(g, n.outputs[i]);
    if (n.outputs.size() != 1) out_ += ")";
    out_ += " = ";
    if (!n.domain.empty()) out_ += text::name(n.domain) + "::";
    out_ += text::name(n.op);
    if (n.attrs.size()) {
      const char* separator = "<";
      for (const auto& [key, value] : n.attrs) {
        out_ +=
            separator + text::name(key) + "=" +
            text::attribute(value, g.symbols, [this](const HostTensor& t) { return tensor(t); });
        separator = ", ";
      }
      out_ += ">";
    }
    out_ += "(";
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      out_ += (i ? ", " : "") + text_of(g, n.inputs[i]);
    }
    out_ += ")";
    if (n.opset) out_ += " @" + std::to_string(n.opset);
    if (n.name != default_name(g, n.op, n.outputs)) out_ += " " + text::quoted(n.name);
    if (n.origins.size() != 1 || n.origins[0] != n.name) {
      const char* separator = " from ";
      for (const std::string& origin : n.origins) {
        out_ += separator + text::quoted(origin);
        separator = ", ";
      }
    }
    if (!n.subgraphs.empty()) {
      out_ += " {\n";
      for (const auto& [label, sub] : n.subgraphs) {
        out_ += indent + "  " + text::name(label);
        out_ += (sub->name.empty() ? "" : " " + text::quoted(sub->name)) + " {\n";
        body(*sub, indent + "    ");
        out_ += indent + "  }\n";
      }
      out_ += indent + "}";
    }
    out_ += "\n";
  }

  ConstantPool* pool_;
  std::string out_;
};

}  // namespace

uint64_t constant_hash(const HostTensor& t) {
  uint64_t h = mix(0x5265707269736521ull, static_cast<uint64_t>(t.dtype()));
  h = mix_bytes(h, t.dims().data(), t.dims().size() * sizeof(int64_t));
  if (t.dtype() != DType::String) return mix_bytes(h, t.bytes().data(), t.bytes().size());
  for (const std::string& s : t.strings()) h = mix_bytes(h, s.data(), s.size());
  return h;
}

std::string print(const Graph& g, ConstantPool* pool) {
  return Printer(pool).run(g);
}

}  // namespace reprise::graph
