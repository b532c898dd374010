#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <utility>

#include "apps/template/syntax.h"
#include "codegen/formats/quoted.h"

namespace reprise::text {

namespace {

constexpr int kMostDepth = 120;  // of blocks and expressions

using Kind = Token::Kind;
using Made = Result<NodePtr>;

/// Expressions, from the one that binds least to the one that binds most.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  const Token& now() const { return tokens_[at_]; }
  bool is(Kind kind) const { return now().kind == kind; }
  bool is_operator(std::string_view text) const { return is(Kind::Operator) && now().text == text; }
  bool is_name(std::string_view text) const { return is(Kind::Name) && now().text == text; }
  void step() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  bool take(std::string_view op) {
    if (!is_operator(op)) return false;
    step();
    return true;
  }
  bool take_name(std::string_view name) {
    if (!is_name(name)) return false;
    step();
    return true;
  }
  Status fail(const std::string& what) const {
    return invalid_model("line " + std::to_string(now().line) + ": " + what);
  }
  Status refuse(const std::string& what) const {
    return unsupported("line " + std::to_string(now().line) + ": " + what + " is not supported");
  }
  std::string shown() const {
    if (is(Kind::BlockEnd) || is(Kind::OutputEnd)) return "the end of the tag";
    if (is(Kind::End)) return "the end of the template";
    return formats::quoted(now().text, 60);
  }
  Status need(std::string_view op) {
    if (take(op)) return {};
    return fail("expected '" + std::string(op) + "', but found " + shown());
  }
  Result<std::string> need_name() {
    if (!is(Kind::Name)) return fail("expected a name, but found " + shown());
    std::string name = now().text;
    step();
    return name;
  }
  NodePtr node(Syntax kind, std::string text = {}) const {
    auto out = std::make_unique<Node>();
    out->kind = kind;
    out->line = now().line;
    out->text = std::move(text);
    return out;
  }

  /// Counts levels as long as it lives.
  struct Level {
    explicit Level(int& d) : depth(d) { ++depth; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --depth; }
    int& depth;
  };

  Made expression(bool conditional = true) {
    const Level level(depth_);
    if (depth_ > kMostDepth) return fail("the template is nested too deeply");
    RP_ASSIGN(NodePtr value, either());
    while (conditional && take_name("if")) {
      NodePtr choice = node(Syntax::Choice);
      RP_ASSIGN(NodePtr condition, either());
      choice->children.push_back(std::move(condition));
      choice->children.push_back(std::move(value));
      choice->children.emplace_back();
      if (take_name("else")) {
        RP_ASSIGN(choice->children[2], expression());
      }
      value = std::move(choice);
    }
    return value;
  }

  /// An expression, or several with commas between them, which are a tuple.
  Made expressions(bool conditional = true) {
    RP_ASSIGN(NodePtr first, expression(conditional));
    if (!is_operator(",")) return first;
    NodePtr tuple = node(Syntax::Tuple);
    tuple->children.push_back(std::move(first));
    while (take(",")) {
      if (is(Kind::BlockEnd) || is(Kind::OutputEnd) || is_operator(")") || is_operator("=")) break;
      RP_ASSIGN(tuple->children.emplace_back(), expression(conditional));
    }
    return tuple;
  }

  Result<std::vector<std::string>> targets() {
    std::vector<std::string> out;
    const bool bracket = take("(");
    do {
      if (is_name("in")) break;
      RP_ASSIGN(out.emplace_back(), need_name());
    } while (take(","));
    if (bracket) RP_TRY(need(")"));
    return out;
  }

  Made filters(NodePtr value) {
    while (take("|")) {
      RP_ASSIGN(value, filter(std::move(value)));
    }
    return value;
  }

  Made filter(NodePtr value) {
    NodePtr out = node(Syntax::Filter);
    RP_ASSIGN(out->text, need_name());
    out->children.push_back(std::move(value));
    if (take("(")) RP_TRY(arguments(*out));
    return out;
  }

  Status arguments(Node& call) {
    while (!take(")")) {
      if (is_operator("*") || is_operator("**")) return refuse("unpacking of arguments");
      const bool named =
          is(Kind::Name) && tokens_[at_ + 1].kind == Kind::Operator && tokens_[at_ + 1].text == "=";
      if (named) {
        call.names.push_back(now().text);
        step();
        step();
      } else if (!call.names.empty()) {
        return fail("an argument without a name follows one with a name");
      }
      RP_ASSIGN(call.children.emplace_back(), expression());
      if (!take(",") && !is_operator(")")) return fail("expected ',' or ')', but found " + shown());
    }
    return {};
  }

 private:
  template <typename Next>
  Made chain(std::string_view name, Syntax kind, const Next& next) {
    RP_ASSIGN(NodePtr left, next());
    while (is_name(name)) {
      NodePtr both = node(kind);
      step();
      both->children.push_back(std::move(left));
      RP_ASSIGN(both->children.emplace_back(), next());
      left = std::move(both);
    }
    return left;
  }

  Made either() {
    return chain("or", Syntax::Or, [&] { return both(); });
  }
  Made both() {
    return chain("and", Syntax::And, [&] { return negation(); });
  }

  Made negation() {
    if (!is_name("not")) return comparison();
    const Level level(depth_);
    if (depth_ > kMostDepth) return fail("the template is nested too deeply");
    NodePtr out = node(Syntax::Unary, "not");
    step();
    RP_ASSIGN(out->children.emplace_back(), negation());
    return out;
  }

  std::string comparison_operator() {
    static constexpr std::array<std::string_view, 6> kOperators{"==", "!=", ">", ">=", "<", "<="};
    if (is(Kind::Operator) &&
        std::find(kOperators.begin(), kOperators.end(), now().text) != kOperators.end()) {
      std::string out = now().text;
      step();
      return out;
    }
    if (take_name("in")) return "in";
    const bool not_in =
        is_name("not") && tokens_[at_ + 1].kind == Kind::Name && tokens_[at_ + 1].text == "in";
    if (!not_in) return {};
    step();
    step();
    return "not in";
  }

  Made comparison() {
    RP_ASSIGN(NodePtr first, binary({"+", "-"}, 0));
    NodePtr out;
    for (std::string op = comparison_operator(); !op.empty(); op = comparison_operator()) {
      if (!out) {
        out = node(Syntax::Compare);
        out->children.push_back(std::move(first));
      }
      out->names.push_back(op);
      RP_ASSIGN(out->children.emplace_back(), binary({"+", "-"}, 0));
    }
    return out ? std::move(out) : std::move(first);
  }

  /// Levels: 0 sums, 1 concatenation, 2 products, 3 powers.
  Made binary(std::initializer_list<std::string_view> operators, int level) {
    const auto next = [&]() -> Made {
      if (level == 0) return concatenation();
      if (level == 2) return binary({"**"}, 3);
      return unary(true);
    };
    RP_ASSIGN(NodePtr left, next());
    while (is(Kind::Operator) &&
           std::find(operators.begin(), operators.end(), now().text) != operators.end()) {
      NodePtr out = node(Syntax::Binary, now().text);
      step();
      out->children.push_back(std::move(left));
      RP_ASSIGN(out->children.emplace_back(), next());
      left = std::move(out);
    }
    return left;
  }

  Made concatenation() {
    RP_ASSIGN(NodePtr first, binary({"*", "/", "//", "%"}, 2));
    if (!is_operator("~")) return first;
    NodePtr out = node(Syntax::Concat);
    out->children.push_back(std::move(first));
    while (take("~")) {
      RP_ASSIGN(out->children.emplace_back(), binary({"*", "/", "//", "%"}, 2));
    }
    return out;
  }

  Made unary(bool with_filters) {
    const Level level(depth_);
    if (depth_ > kMostDepth) return fail("the template is nested too deeply");
    NodePtr out;
    if (is_operator("-") || is_operator("+")) {
      out = node(Syntax::Unary, now().text);
      step();
      RP_ASSIGN(out->children.emplace_back(), unary(false));
    } else {
      RP_ASSIGN(out, primary());
    }
    RP_ASSIGN(out, postfix(std::move(out)));
    while (with_filters) {
      if (is_operator("|")) {
        RP_ASSIGN(out, filters(std::move(out)));
      } else if (is_name("is")) {
        RP_ASSIGN(out, test(std::move(out)));
      } else if (is_operator("(")) {
        RP_ASSIGN(out, call(std::move(out)));
      } else {
        break;
      }
    }
    return out;
  }

  Made call(NodePtr function) {
    NodePtr out = node(Syntax::Call);
    step();
    out->children.push_back(std::move(function));
    RP_TRY(arguments(*out));
    return out;
  }

  Made postfix(NodePtr value) {
    while (true) {
      if (take(".")) {
        if (is(Kind::Integer)) {
          NodePtr item = node(Syntax::Item);
          item->children.push_back(std::move(value));
          RP_ASSIGN(item->children.emplace_back(), primary());
          value = std::move(item);
          continue;
        }
        NodePtr member = node(Syntax::Member);
        RP_ASSIGN(member->text, need_name());
        member->children.push_back(std::move(value));
        value = std::move(member);
      } else if (is_operator("[")) {
        RP_ASSIGN(value, subscript(std::move(value)));
      } else if (is_operator("(")) {
        RP_ASSIGN(value, call(std::move(value)));
      } else {
        return value;
      }
    }
  }

  Made subscript(NodePtr value) {
    NodePtr out = node(Syntax::Item);
    step();
    out->children.push_back(std::move(value));
    NodePtr part;
    if (!is_operator(":")) {
      RP_ASSIGN(part, expression());
    }
    out->children.push_back(std::move(part));
    while (take(":")) {
      out->kind = Syntax::Slice;
      NodePtr bound;
      if (!is_operator(":") && !is_operator("]")) {
        RP_ASSIGN(bound, expression());
      }
      out->children.push_back(std::move(bound));
    }
    if (is_operator(",")) return refuse("an index with several parts");
    if (out->kind == Syntax::Slice) {
      if (out->children.size() > 4) return fail("a slice has too many parts");
      out->children.resize(4);
    }
    RP_TRY(need("]"));
    return out;
  }

  Made test(NodePtr value) {
    step();
    NodePtr out = node(Syntax::Test);
    out->flag = take_name("not");
    RP_ASSIGN(out->text, need_name());
    out->children.push_back(std::move(value));
    static constexpr std::array<std::string_view, 4> kWords{"else", "or", "and", "is"};
    if (take("(")) {
      RP_TRY(arguments(*out));
    } else if (is(Kind::Text) || is(Kind::Integer) || is(Kind::Float) || is_operator("[") ||
               is_operator("{") ||
               (is(Kind::Name) && now().text != "if" && now().text != "in" && now().text != "not" &&
                std::find(kWords.begin(), kWords.end(), now().text) == kWords.end())) {
      RP_ASSIGN(NodePtr argument, primary());
      RP_ASSIGN(out->children.emplace_back(), postfix(std::move(argument)));
    }
    return out;
  }

  Made literal(Value value) {
    NodePtr out = node(Syntax::Literal);
    out->value = std::move(value);
    step();
    return out;
  }

  Made primary() {
    const std::string text = now().text;
    if (is(Kind::Name)) {
      if (text == "true" || text == "True") return literal(Value::boolean(true));
      if (text == "false" || text == "False") return literal(Value::boolean(false));
      if (text == "none" || text == "None") return literal(Value::none());
      NodePtr out = node(Syntax::Name, text);
      step();
      return out;
    }
    if (is(Kind::Text)) return joined_text();
    if (is(Kind::Integer)) {
      int64_t value = 0;
      const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
      if (end.ec != std::errc()) return fail("the number " + text.substr(0, 40) + " is too large");
      return literal(Value::integer(value));
    }
    if (is(Kind::Float)) {
      double value = 0;
      const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
      if (end.ec != std::errc()) return fail("the number " + text.substr(0, 40) + " is too large");
      return literal(Value::number(value));
    }
    if (take("(")) return parenthesis();
    if (take("[")) return list();
    if (take("{")) return dict();
    return fail("expected a value, but found " + shown());
  }

  Made joined_text() {
    std::string all;
    NodePtr out = node(Syntax::Literal);
    for (; is(Kind::Text); step()) all += now().text;
    out->value = Value::text(std::move(all));
    return out;
  }

  Made parenthesis() {
    if (take(")")) return node(Syntax::Tuple);
    RP_ASSIGN(NodePtr out, expressions());
    RP_TRY(need(")"));
    return out;
  }

  Made list() {
    NodePtr out = node(Syntax::List);
    while (!take("]")) {
      RP_ASSIGN(out->children.emplace_back(), expression());
      if (!take(",") && !is_operator("]")) return fail("expected ',' or ']', but found " + shown());
    }
    return out;
  }

  Made dict() {
    NodePtr out = node(Syntax::Dict);
    while (!take("}")) {
      RP_ASSIGN(out->children.emplace_back(), expression());
      RP_TRY(need(":"));
      RP_ASSIGN(out->children.emplace_back(), expression());
      if (!take(",") && !is_operator("}")) return fail("expected ',' or '}', but found " + shown());
    }
    return out;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;

 protected:
  int depth_ = 0;
};

class TemplateParser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Made run() {
    RP_ASSIGN(NodePtr out, body({}));
    if (!is(Kind::End)) return fail("unexpected " + shown());
    return out;
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  /// Up to the tag that begins with one of the names, whose name is read.
  Made body(Names ends) {
    const Level level(depth_);
    if (depth_ > kMostDepth) return fail("the template is nested too deeply");
    NodePtr out = node(Syntax::Body);
    while (!is(Kind::End)) {
      if (is(Kind::Data)) {
        out->children.push_back(node(Syntax::Data, now().text));
        step();
      } else if (is(Kind::OutputBegin)) {
        NodePtr output = node(Syntax::Output);
        step();
        RP_ASSIGN(output->children.emplace_back(), expressions());
        if (!is(Kind::OutputEnd)) return fail("expected '}}', but found " + shown());
        step();
        out->children.push_back(std::move(output));
      } else {
        step();
        RP_ASSIGN(const std::string name, need_name());
        if (std::find(ends.begin(), ends.end(), name) != ends.end()) {
          end_ = name;
          return out;
        }
        RP_ASSIGN(out->children.emplace_back(), statement(name));
      }
    }
    if (ends.size() > 0)
      return fail("the block that needs '" + std::string(*(ends.end() - 1)) + "' has no end");
    return out;
  }

  Status end_tag() {
    if (!is(Kind::BlockEnd)) return fail("expected '%}', but found " + shown());
    step();
    return {};
  }

  /// The body of a block that nothing but `end` ends.
  Made block(std::string_view end) {
    RP_TRY(end_tag());
    RP_ASSIGN(NodePtr out, body({end}));
    RP_TRY(end_tag());
    return out;
  }

  Made statement(const std::string& name) {
    if (name == "if") return branch();
    if (name == "for") return loop();
    if (name == "set") return set();
    if (name == "macro") return macro();
    if (name == "with") return with();
    if (name == "filter") return filter_block();
    if (name == "generation") return block("endgeneration");  // marks what the model said
    if (name == "break" || name == "continue") {
      NodePtr out = node(name == "break" ? Syntax::Break : Syntax::Continue);
      if (loops_ == 0) return fail("'" + name + "' is outside of a loop");
      RP_TRY(end_tag());
      return out;
    }
    return refuse("the tag '" + name + "'");
  }

  Made branch() {
    NodePtr out = node(Syntax::If);
    do {
      RP_ASSIGN(out->children.emplace_back(), expressions());
      RP_TRY(end_tag());
      RP_ASSIGN(out->children.emplace_back(), body({"elif", "else", "endif"}));
    } while (end_ == "elif");
    if (end_ == "else") {
      RP_TRY(end_tag());
      RP_ASSIGN(out->children.emplace_back(), body({"endif"}));
    }
    RP_TRY(end_tag());
    return out;
  }

  Made loop() {
    NodePtr out = node(Syntax::For);
    RP_ASSIGN(out->names, targets());
    if (!take_name("in")) return fail("expected 'in', but found " + shown());
    RP_ASSIGN(out->children.emplace_back(), expressions(false));
    NodePtr condition;
    if (take_name("if")) {
      RP_ASSIGN(condition, expression());
    }
    out->children.push_back(std::move(condition));
    if (is_name("recursive")) return refuse("a recursive loop");
    RP_TRY(end_tag());
    ++loops_;
    auto inside = body({"else", "endfor"});
    --loops_;
    if (!inside.ok()) return inside;
    out->children.push_back(std::move(*inside));
    NodePtr otherwise;
    if (end_ == "else") {
      RP_TRY(end_tag());
      RP_ASSIGN(otherwise, body({"endfor"}));
    }
    out->children.push_back(std::move(otherwise));
    RP_TRY(end_tag());
    return out;
  }

  Made set() {
    NodePtr out = node(Syntax::Set);
    RP_ASSIGN(out->names, targets());
    if (out->names.size() == 1 && take(".")) {
      out->kind = Syntax::SetMember;
      out->text = out->names[0];
      RP_ASSIGN(out->names[0], need_name());
    }
    if (take("=")) {
      RP_ASSIGN(out->children.emplace_back(), expressions());
      RP_TRY(end_tag());
      return out;
    }
    if (out->kind != Syntax::Set || out->names.size() != 1) return fail("expected '='");
    out->kind = Syntax::SetBlock;
    // Filters of the block apply to a text that is not there yet.
    NodePtr filtered;
    if (is_operator("|")) {
      RP_ASSIGN(filtered, filters(node(Syntax::Name, "")));
    }
    RP_ASSIGN(out->children.emplace_back(), block("endset"));
    out->children.push_back(std::move(filtered));
    return out;
  }

  Made filter_block() {
    NodePtr out = node(Syntax::FilterBlock);
    RP_ASSIGN(NodePtr first, filter(node(Syntax::Name, "")));
    RP_ASSIGN(NodePtr filtered, filters(std::move(first)));
    RP_ASSIGN(out->children.emplace_back(), block("endfilter"));
    out->children.push_back(std::move(filtered));
    return out;
  }

  Made macro() {
    NodePtr out = node(Syntax::Macro);
    RP_ASSIGN(out->text, need_name());
    RP_TRY(need("("));
    out->children.emplace_back();
    while (!take(")")) {
      RP_ASSIGN(out->names.emplace_back(), need_name());
      if (take("=")) {
        RP_ASSIGN(out->children.emplace_back(), expression());
      } else if (out->children.size() > 1) {
        return fail("an argument without a default follows one with a default");
      }
      if (!take(",") && !is_operator(")")) return fail("expected ',' or ')', but found " + shown());
    }
    const int outer = std::exchange(loops_, 0);
    auto inside = block("endmacro");
    loops_ = outer;
    if (!inside.ok()) return inside;
    out->children[0] = std::move(*inside);
    return out;
  }

  Made with() {
    NodePtr out = node(Syntax::With);
    out->children.emplace_back();
    while (!is(Kind::BlockEnd)) {
      RP_ASSIGN(out->names.emplace_back(), need_name());
      RP_TRY(need("="));
      RP_ASSIGN(out->children.emplace_back(), expression());
      if (!take(",") && !is(Kind::BlockEnd)) return fail("expected ',', but found " + shown());
    }
    RP_ASSIGN(out->children[0], block("endwith"));
    return out;
  }

  std::string end_;  // the tag that ended the last body
  int loops_ = 0;
};

}  // namespace

Result<NodePtr> parse_template(std::string_view source) {
  RP_ASSIGN(std::vector<Token> tokens, cut_template(source));
  return TemplateParser(std::move(tokens)).run();
}

}  // namespace reprise::text
