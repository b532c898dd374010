// Reads the text that codegen/graph/text/text.md describes.
#include <map>
#include <utility>

#include "codegen/graph/graph.h"
#include "codegen/graph/text/cursor.h"
#include "codegen/graph/text/literals.h"
#include "codegen/graph/text/text.h"
#include "codegen/ops/row/op.h"

namespace reprise::graph {

namespace {

constexpr int kMaxDepth = 32;  // nesting of bodies

class Parser {
 public:
  Parser(std::string_view s, const ConstantPool* pool) : in_(s), pool_(pool) {}

  Result<std::unique_ptr<Graph>> run() {
    auto g = std::make_unique<Graph>();
    g_ = g.get();
    if (in_.take_word("graph")) {
      RP_ASSIGN(g->name, in_.name());
    }
    while (!in_.at_end()) RP_TRY(statement());
    RP_TRY(resolve_sources());
    return g;
  }

 private:
  Status statement() {
    if (in_.take_word("symbol")) return symbol();
    if (in_.take_word("guard")) return guard();
    if (in_.take_word("input")) return input();
    if (depth_ > 0 && in_.take_word("capture")) return capture();
    if (in_.take_word("const")) return constant();
    if (in_.take_word("output")) return output();
    return node();
  }

  // symbol batch in 0..8 divisor 1 from input 0 axis 0
  Status symbol() {
    using Kind = SymbolSource::Kind;
    Symbol s;
    SymbolSource source;
    RP_ASSIGN(s.name, in_.name());
    std::string value;
    if (in_.take_word("in")) {
      RP_ASSIGN(s.min, in_.integer());
      RP_TRY(in_.expect(".."));
      RP_ASSIGN(s.max, in_.integer());
    }
    if (in_.take_word("divisor")) {
      RP_ASSIGN(s.divisor, in_.integer());
    }
    if (in_.take_word("from")) {
      if (in_.take_word("derived")) {
        source.kind = Kind::Derived;
        RP_ASSIGN(source.value, literals().expr(in_.until_word("//")));
        return declared(std::move(s), std::move(source), value);
      }
      if (in_.take_word("input")) {
        RP_ASSIGN(const int64_t index, in_.integer());
        source.index = static_cast<int32_t>(index);
      } else {
        if (!in_.take_word("host")) return in_.error("expected input, host or derived");
        source.kind = Kind::HostOutput;
        source.index = kNone.number();
        if (!in_.take_word("_")) {
          RP_ASSIGN(value, in_.name());
        }
      }
      if (!in_.take_word("axis")) return in_.error("expected 'axis'");
      RP_ASSIGN(const int64_t axis, in_.integer());
      source.axis = static_cast<int32_t>(axis);
    }
    return declared(std::move(s), std::move(source), value);
  }

  Status declared(Symbol s, SymbolSource source, const std::string& value) {
    const std::string wanted = s.name;
    const SymbolId id = g_->add_symbol(std::move(s), std::move(source));
    if (g_->symbols[static_cast<size_t>(id)].name != wanted) {
      return in_.error("symbol " + wanted + " is declared twice or is not an identifier");
    }
    if (!value.empty()) sources_.emplace_back(id, value);
    return {};
  }

  Status resolve_sources() {
    for (const auto& [id, name] : sources_) {
      auto it = values_.find(name);
      if (it == values_.end())
        return invalid_model("the source of a symbol is the unknown value " + name);
      g_->symbol_sources[static_cast<size_t>(id)].index = it->second.number();
    }
    return {};
  }

  // guard a == b by "node" of "dimension 0 of 'x'" and "dimension 0 of 'y'"
  Status guard() {
    using Kind = DimGuard::Kind;
    DimGuard d;
    const std::string dims = in_.until_word(" by \"");  // a symbol may be called "by"
    const struct {
      std::string_view relation;
      Kind kind;
    } relations[] = {{" == ", Kind::Equal},
                     {" >= ", Kind::AtLeast},
                     {" broadcasts with ", Kind::Broadcast},
                     {" broadcasts to ", Kind::BroadcastTo}};
    const auto* found =
        std::find_if(std::begin(relations), std::end(relations),
                     [&](const auto& r) { return dims.find(r.relation) != std::string::npos; });
    if (found == std::end(relations))
      return in_.error("expected '==', '>=', 'broadcasts with' or 'broadcasts to'");
    d.kind = found->kind;
    const size_t at = dims.find(found->relation);
    std::string second = dims.substr(at + found->relation.size());
    RP_ASSIGN(d.a, literals().expr(dims.substr(0, at)));
    if (d.kind == Kind::Broadcast) {
      size_t as = second.find(" as ");
      // A symbol may be called "as" as well: the keyword is the one after a complete expression.
      while (as != std::string::npos && !literals().expr(second.substr(0, as)).ok())
        as = second.find(" as ", as + 1);
      if (as == std::string::npos) return in_.error("expected 'as'");
      RP_ASSIGN(d.result, literals().expr(second.substr(as + 4)));
      second.resize(as);
    }
    RP_ASSIGN(d.b, literals().expr(second));
    if (d.kind == Kind::BroadcastTo) d.result = d.b;
    if (in_.take_word("by")) {
      RP_ASSIGN(d.node, in_.quoted());
    }
    if (in_.take_word("of")) {
      RP_ASSIGN(d.a_is, in_.quoted());
      if (!in_.take_word("and")) return in_.error("expected 'and'");
      RP_ASSIGN(d.b_is, in_.quoted());
    }
    g_->guards.push_back(std::move(d));
    return {};
  }

  Status define(const std::string& name, ValueId v) {
    if (!values_.emplace(name, v).second) return in_.error("value " + name + " is defined twice");
    return {};
  }

  struct Type {
    DType dtype = DType::Invalid;
    DType storage = DType::Invalid;
    bool has_shape = false;
    Shape shape;
    Items items = {};
    std::optional<std::vector<Expr>> elements = {};
  };

  /// float32[batch,4]{...}. A new name as a dim of an input declares a symbol.
  Result<Type> type(int32_t input_index) {
    Type t;
    if (!in_.take("?")) {
      RP_ASSIGN(t.dtype, literals().dtype());
    }
    if (in_.take(":")) {
      RP_ASSIGN(t.storage, literals().dtype());
    }
    RP_TRY(in_.expect("["));
    if (in_.take("*")) {
      RP_TRY(in_.expect("]"));
      t.has_shape = is_container(t.dtype);
    } else if (is_container(t.dtype) && in_.take("_")) {
      RP_TRY(in_.expect("]"));
      t.has_shape = true;
      t.items = Items::none();
    } else {
      RP_ASSIGN(const std::vector<std::string> dims, in_.items(']'));
      t.has_shape = true;
      for (size_t axis = 0; axis < dims.size(); ++axis) {
        if (input_index >= 0 && !is_container(t.dtype))
          declare(dims[axis], input_index, static_cast<int32_t>(axis));
        RP_ASSIGN(Expr e, literals().expr(dims[axis]));
        t.shape.push_back(std::move(e));
      }
      if (is_container(t.dtype)) t.items = Items::of(std::exchange(t.shape, {}));
    }
    if (in_.take("{")) {
      RP_ASSIGN(t.elements, literals().exprs('}'));
    }
    return t;
  }

  void declare(const std::string& name, int32_t input_index, int32_t axis) {
    const bool identifier =
        name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
            std::string::npos &&
        !(name[0] >= '0' && name[0] <= '9');
    if (!identifier || Expr::parse(name, g_->symbols).ok()) return;
    Symbol s;
    s.name = name;
    g_->add_symbol(std::move(s), {SymbolSource::Kind::InputDim, input_index, axis});
  }

  void set_type(ValueId v, Type t) {
    Value& value = g_->value(v);
    value.dtype = t.dtype;
    value.storage = t.storage;
    value.has_shape = t.has_shape;
    value.shape = std::move(t.shape);
    value.items = std::move(t.items);
    value.elements = std::move(t.elements);
  }

  Result<ValueId> typed_value(int32_t input_index) {
    RP_ASSIGN(const std::string name, in_.name());
    RP_TRY(in_.expect(":"));
    RP_ASSIGN(Type t, type(input_index));
    const ValueId v = g_->add_unknown(name);
    set_type(v, std::move(t));
    RP_TRY(define(name, v));
    return v;
  }

  Status input() {
    do {
      const bool top = depth_ == 0;
      RP_ASSIGN(const ValueId v, typed_value(top ? static_cast<int32_t>(g_->inputs.size()) : -1));
      g_->inputs.push_back(v);
    } while (in_.take(","));
    return {};
  }

  Status capture() {
    if (in_.take_word("_")) {
      g_->captures.push_back(kNone);
      return {};
    }
    RP_ASSIGN(const ValueId v, typed_value(-1));
    g_->captures.push_back(v);
    return {};
  }

  Status constant() {
    RP_ASSIGN(const std::string name, in_.name());
    RP_TRY(in_.expect(":"));
    RP_ASSIGN(const DType type, literals().dtype());
    DType storage = DType::Invalid;
    if (in_.take(":")) {
      RP_ASSIGN(storage, literals().dtype());
    }
    RP_ASSIGN(HostTensor t, literals().tensor_of(storage == DType::Invalid ? type : storage));
    const ValueId v = g_->add_constant(name, std::move(t));
    g_->value(v).dtype = type;
    g_->value(v).storage = storage;
    return define(name, v);
  }

  Status output() {
    do {
      RP_ASSIGN(const ValueId v, use());
      std::string name = v == kNone ? "" : g_->value(v).name;
      if (!in_.line_ends() && in_.take_word("as")) {
        RP_ASSIGN(name, in_.name());
      }
      g_->add_output(v);
      g_->output_names.push_back(std::move(name));
    } while (in_.take(","));
    return {};
  }

  Result<ValueId> use() {
    if (in_.take_word("_")) return kNone;
    RP_ASSIGN(const std::string name, in_.name());
    auto it = values_.find(name);
    if (it == values_.end()) return in_.error("value " + name + " is not defined");
    return it->second;
  }

  /// y or y: float32[4]
  Result<ValueId> result() {
    if (in_.take_word("_")) return kNone;
    RP_ASSIGN(const std::string name, in_.name());
    const ValueId v = g_->add_unknown(name);
    RP_TRY(define(name, v));
    if (!in_.take(":")) {
      infer_ = true;
      return v;
    }
    RP_ASSIGN(Type t, type(-1));
    set_type(v, std::move(t));
    return v;
  }

  Status node() {
    NodeSpec n;
    infer_ = false;
    const bool many = in_.take("(");
    if (!many || !in_.take(")")) {
      do {
        RP_ASSIGN(const ValueId v, result());
        n.outputs.push_back(v);
      } while (many && in_.take(","));
      if (many) RP_TRY(in_.expect(")"));
    }
    const bool infer = infer_;
    RP_TRY(in_.expect("="));
    RP_ASSIGN(std::string op, in_.name());
    if (in_.take("::")) {
      n.domain = std::move(op);
      RP_ASSIGN(op, in_.name());
    }
    n.op = op;
    if (in_.take("<")) RP_TRY(literals().attributes(n.attrs));
    RP_TRY(in_.expect("("));
    if (!in_.take(")")) {
      do {
        RP_ASSIGN(const ValueId v, use());
        n.inputs.push_back(v);
      } while (in_.take(","));
      RP_TRY(in_.expect(")"));
    }
    RP_TRY(tail(n));
    Node* added = g_->add_node(std::move(n));
    if (!infer) return {};
    const Status s = ops::infer(*g_, *added);
    return s.ok() ? s : in_.error(s.message());
  }

  // @13 "name" from "a", "b" { bodies }
  Status tail(NodeSpec& n) {
    if (in_.take("@")) {
      RP_ASSIGN(n.opset, in_.integer());
    }
    // A name or 'from' on the next line begins the next statement.
    if (!in_.line_ends() && in_.next_is_quote()) {
      RP_ASSIGN(n.name, in_.quoted());
    }
    if (!in_.line_ends() && in_.take_word("from")) {
      do {
        RP_ASSIGN(std::string origin, in_.quoted());
        n.origins.push_back(std::move(origin));
      } while (in_.take(","));
    }
    if (in_.line_ends() || !in_.take("{")) return {};
    while (!in_.take("}")) {
      RP_ASSIGN(std::string label, in_.name());
      std::string name;
      if (in_.next_is_quote()) {
        RP_ASSIGN(name, in_.quoted());
      }
      RP_TRY(in_.expect("{"));
      RP_ASSIGN(std::shared_ptr<Graph> sub, body());
      sub->name = std::move(name);
      n.subgraphs.emplace_back(std::move(label), std::move(sub));
    }
    return {};
  }

  Result<std::shared_ptr<Graph>> body() {
    if (++depth_ > kMaxDepth)
      return in_.error("bodies are nested more than " + std::to_string(kMaxDepth) + " deep");
    auto sub = std::make_shared<Graph>();
    sub->symbols = g_->symbols;
    sub->symbol_sources = g_->symbol_sources;
    for (auto& source : sub->symbol_sources) {
      if (source.kind != SymbolSource::Kind::InputDim) source.index = kNone.number();
    }
    Graph* outer = std::exchange(g_, sub.get());
    std::map<std::string, ValueId> outer_values = std::exchange(values_, {});
    auto outer_sources = std::exchange(sources_, {});
    while (!in_.take("}")) {
      if (in_.at_end()) return in_.error("unterminated body");
      RP_TRY(statement());
    }
    RP_TRY(resolve_sources());
    sources_ = std::move(outer_sources);
    g_ = outer;
    for (size_t i = g_->symbols.size(); i < sub->symbols.size(); ++i) {
      g_->symbols.push_back(sub->symbols[i]);
      g_->symbol_sources.push_back(sub->symbol_sources[i]);
      g_->symbol_sources.back().index = kNone.number();
    }
    sub->inherited_symbols = sub->symbols.size();
    values_ = std::move(outer_values);
    --depth_;
    return sub;
  }

  text::Literals literals() { return {in_, pool_, g_->symbols}; }

  text::Cursor in_;
  const ConstantPool* pool_;
  Graph* g_ = nullptr;
  std::map<std::string, ValueId> values_;
  std::vector<std::pair<SymbolId, std::string>> sources_;
  bool infer_ = false;  // the node being read has an output without a type
  int depth_ = 0;
};

}  // namespace

Result<std::unique_ptr<Graph>> parse(std::string_view text, const ConstantPool* pool) {
  return Parser(text, pool).run();
}

}  // namespace reprise::graph
