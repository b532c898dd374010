#include <algorithm>
#include <utility>

#include "tests/ptx/machine/parser.h"

namespace reprise::test::ptx {
namespace {

struct SpecialName {
  std::string_view name;
  Special which;
  bool three;
};
constexpr SpecialName kSpecials[] = {{"%tid", Special::Tid, true},
                                     {"%ntid", Special::Ntid, true},
                                     {"%ctaid", Special::Ctaid, true},
                                     {"%nctaid", Special::Nctaid, true},
                                     {"%laneid", Special::Lane, false},
                                     {"%warpid", Special::Warp, false},
                                     {"%nwarpid", Special::Warps, false},
                                     {"%lanemask_eq", Special::MaskEq, false},
                                     {"%lanemask_lt", Special::MaskLt, false},
                                     {"%lanemask_le", Special::MaskLe, false},
                                     {"%lanemask_gt", Special::MaskGt, false},
                                     {"%lanemask_ge", Special::MaskGe, false},
                                     {"%clusterid", Special::ClusterId, true},
                                     {"%nclusterid", Special::Clusters, true},
                                     {"%cluster_ctaid", Special::ClusterPlace, true},
                                     {"%cluster_nctaid", Special::ClusterSize, true},
                                     {"%cluster_ctarank", Special::ClusterRank, false},
                                     {"%cluster_nctarank", Special::ClusterGroups, false},
                                     {"%is_explicit_cluster", Special::ClusterNamed, false}};

}  // namespace

/// "{ ... }". `label_of_ret`: where ret goes in a function that is put in place; empty in an entry.
Status Parser::body(const std::string& label_of_ret) {
  RP_TRY(expect("{"));
  scopes_.emplace_back();
  // Labels may be used before they are set, so those of the scope are found first.
  for (size_t n = at_, depth = 1; n + 1 < tokens_.size(); ++n) {
    if (tokens_[n].is("{")) ++depth;
    if (tokens_[n].is("}") && --depth == 0) break;
    const bool after_statement = n == at_ || tokens_[n - 1].is(";") || tokens_[n - 1].is(":") ||
                                 tokens_[n - 1].is("{") || tokens_[n - 1].is("}") ||
                                 tokens_[n - 1].text.ends_with("\"");
    if (depth == 1 && after_statement && tokens_[n + 1].is(":")) {
      const std::string& name = tokens_[n].text;
      scopes_.back().labels[name] = name + "#" + std::to_string(calls_++);
    }
  }
  while (!take("}")) {
    if (at_ >= tokens_.size()) return unknown("a block does not end");
    RP_TRY(statement(label_of_ret));
  }
  scopes_.pop_back();
  return {};
}

Status Parser::statement(const std::string& label_of_ret) {
  if (peek().is("{")) return body(label_of_ret);
  if (peek(1).is(":")) {
    labels_[label(peek().text)] = static_cast<uint32_t>(entry_.code.size());
    at_ += 2;
    return {};
  }
  if (peek().text.starts_with(".")) return declaration();
  return instruction(label_of_ret);
}

Status Parser::declaration() {
  if (take(".reg")) return registers();
  if (take(".pragma")) return pragma();
  if (const Space* space = space_named(peek().text)) {
    ++at_;
    RP_TRY(variable(*space));
    return expect(";");
  }
  return unknown("unknown directive " + peek().text);
}

/// ".pragma \"used_bytes_mask 4095\";"; others change nothing.
Status Parser::pragma() {
  const std::string text = next().text;
  constexpr std::string_view kUsed = "\"used_bytes_mask ";
  if (text.starts_with(kUsed)) {
    const std::string_view mask = std::string_view(text).substr(kUsed.size());
    if (!number(mask.substr(0, mask.size() - 1), used_bytes_))
      return unknown("unknown mask " + text);
  } else if (text != "\"nounroll\"") {
    return unknown("unknown pragma " + text);
  }
  return expect(";");
}

Status Parser::guard(Instruction& i) {
  if (!take("@")) return {};
  i.unless = take("!");
  return slot(i.guard);
}

Status Parser::instruction(const std::string& label_of_ret) {
  Instruction i;
  i.line = peek().line;
  RP_TRY(guard(i));
  const Token name = next();
  i.line = name.line;
  if (name.is("call") || name.is("call.uni")) {
    if (i.guard != Instruction::kNone) return fault(i.line, "a call with a guard is not known");
    return call();
  }
  if (name.is("bra") || name.is("bra.uni")) {
    RP_TRY(jump(i, label(next().text)));
    return expect(";");
  }
  if (name.is("ret") || name.is("exit") || name.is("ret.uni")) {
    if (!label_of_ret.empty() && !name.is("exit")) {
      RP_TRY(jump(i, label_of_ret));
    } else {
      i.flow = Flow::Exit;
      entry_.code.push_back(i);
    }
    return expect(";");
  }
  Words words(name.text);
  Shape shape;
  const Status known = decode(words, i, shape);
  if (!known.ok()) return fault(i.line, known.message());
  RP_TRY(operands(i, shape));
  RP_TRY(expect(";"));
  i.used_bytes = std::exchange(used_bytes_, ~uint64_t{0});
  if (!i.to.empty() && i.to[0] != Instruction::kNone) i.width = widths_[i.to[0]];
  entry_.multiplies |= i.multiplies;
  entry_.code.push_back(std::move(i));
  return {};
}

Status Parser::jump(Instruction i, const std::string& label) {
  i.flow = Flow::Branch;
  jumps_.push_back({static_cast<uint32_t>(entry_.code.size()), label, i.line});
  entry_.code.push_back(std::move(i));
  return {};
}

Status Parser::names(std::vector<std::string>& out) {
  RP_TRY(expect("("));
  while (!take(")")) {
    out.push_back(next().text);
    take(",");
    if (at_ >= tokens_.size()) return unknown("a list does not end");
  }
  return {};
}

/// "call.uni (r), name, (a, b);"
Status Parser::call() {
  std::vector<std::string> results, arguments;
  if (peek().is("(")) {
    RP_TRY(names(results));
    RP_TRY(expect(","));
  }
  const Token name = next();
  if (take(",")) RP_TRY(names(arguments));
  RP_TRY(expect(";"));
  const auto f = functions_.find(name.text);
  if (f == functions_.end()) return fault(name.line, "a call of unknown function " + name.text);
  if (f->second.results.size() != results.size() || f->second.params.size() != arguments.size())
    return fault(name.line, "another number of arguments than " + name.text + " has");
  return place(f->second, results, arguments);
}

/// Puts the function's body here; its parameters are the caller's variables.
Status Parser::place(const Function& f, const std::vector<std::string>& results,
                     const std::vector<std::string>& arguments) {
  Scope scope;
  const auto bind = [&](const std::vector<std::string>& names,
                        const std::vector<std::string>& values) -> Status {
    for (size_t n = 0; n < names.size(); ++n) {
      const Variable* v = find_variable(values[n]);
      if (v == nullptr) return unknown("an argument that is no variable: " + values[n]);
      scope.variables[names[n]] = *v;
    }
    return {};
  };
  RP_TRY(bind(f.results, results));
  RP_TRY(bind(f.params, arguments));
  // The function sees the module's names and its own.
  std::vector<Scope> callers(std::make_move_iterator(scopes_.begin() + 1),
                             std::make_move_iterator(scopes_.end()));
  scopes_.resize(1);
  scopes_.push_back(std::move(scope));
  const size_t back = at_;
  at_ = f.body;
  const std::string end = "end of a call#" + std::to_string(calls_++);
  RP_TRY(body(end));
  labels_[end] = static_cast<uint32_t>(entry_.code.size());
  at_ = back;
  scopes_.resize(1);
  std::move(callers.begin(), callers.end(), std::back_inserter(scopes_));
  return {};
}

std::string Parser::label(const std::string& name) const {
  for (auto s = scopes_.rbegin(); s != scopes_.rend(); ++s) {
    const auto at = s->labels.find(name);
    if (at != s->labels.end()) return at->second;
  }
  return name;
}

const Parser::Variable* Parser::find_variable(const std::string& name) const {
  for (auto s = scopes_.rbegin(); s != scopes_.rend(); ++s) {
    const auto at = s->variables.find(name);
    if (at != s->variables.end()) return &at->second;
  }
  return nullptr;
}

uint32_t Parser::constant(uint64_t bits) {
  const auto [at, is_new] = constants_.try_emplace(bits, 0);
  if (is_new) {
    at->second = new_slot();
    entry_.constants.push_back({at->second, bits});
  }
  return at->second;
}

std::optional<uint32_t> Parser::special(const std::string& name) {
  for (const SpecialName& s : kSpecials) {
    uint32_t component = 0;
    if (s.three) {
      if (name.size() != s.name.size() + 2 || !name.starts_with(s.name)) continue;
      if (name[s.name.size()] != '.') continue;
      component = static_cast<uint32_t>(name.back() - 'x');
      if (component > 2) continue;
    } else if (name != s.name) {
      continue;
    }
    for (const Entry::SpecialSlot& known : entry_.specials)
      if (known.which == s.which && known.component == component) return known.slot;
    entry_.specials.push_back({new_slot(), s.which, component});
    return entry_.specials.back().slot;
  }
  return std::nullopt;
}

/// A register, a number or the address of a variable.
Status Parser::slot(uint32_t& out) {
  if (take("!")) return inverted(out);
  const bool negative = take("-");
  const Token t = next();
  uint64_t bits = 0;
  if (number((negative ? "-" : "") + t.text, bits)) {
    out = constant(bits);
    return {};
  }
  if (t.is("_")) {
    out = Instruction::kNone;
    return {};
  }
  if (t.is("WARP_SZ")) {
    out = constant(32);
    return {};
  }
  for (auto s = scopes_.rbegin(); s != scopes_.rend(); ++s) {
    const auto at = s->registers.find(t.text);
    if (at == s->registers.end()) continue;
    out = at->second;
    return {};
  }
  if (const auto found = special(t.text)) {
    out = *found;
    return {};
  }
  if (const Variable* v = find_variable(t.text)) {
    out = constant(v->address);
    return {};
  }
  return fault(t.line, "unknown operand " + t.text);
}

/// "!%p1", by an instruction of its own.
Status Parser::inverted(uint32_t& out) {
  Instruction i;
  i.line = peek().line;
  Words words("not.pred");
  Shape shape;
  RP_TRY(decode(words, i, shape));
  i.from.emplace_back();
  RP_TRY(slot(i.from.back()));
  out = new_slot();
  i.to = {out};
  entry_.code.push_back(std::move(i));
  return {};
}

/// One operand of so many registers.
Status Parser::operand(std::vector<uint32_t>& out, uint32_t registers) {
  const bool list = take("{");
  const size_t first = out.size();
  do {
    out.emplace_back();
    RP_TRY(slot(out.back()));
  } while (list && take(","));
  if (list) RP_TRY(expect("}"));
  if (registers != Shape::kAny && out.size() - first != registers)
    return unknown("an operand of " + std::to_string(out.size() - first) + " registers, not of " +
                   std::to_string(registers));
  return {};
}

/// "[%rd1+16]"; 0 registers in a shape stand for it.
Status Parser::address(Instruction& i, size_t which) {
  RP_TRY(expect("["));
  i.from.emplace_back();
  RP_TRY(slot(i.from.back()));
  if (take("+")) {
    const bool negative = take("-");
    uint64_t bits = 0;
    if (!number(next().text, bits)) return unknown("an offset expected");
    i.offset[which] = static_cast<int64_t>(negative ? 0 - bits : bits);
  }
  return expect("]");
}

/// "[%rd1, {%r1, %r2}]"
Status Parser::tensor(Instruction& i) {
  RP_TRY(expect("["));
  i.from.emplace_back();
  RP_TRY(slot(i.from.back()));
  if (!peek().is(",")) return unknown("coordinates expected");
  RP_TRY(expect(","));
  RP_TRY(operand(i.from, Shape::kAny));
  return expect("]");
}

Status Parser::operands(Instruction& i, const Shape& shape) {
  bool first = true;
  size_t addresses = 0;
  const auto comma = [&]() -> Status {
    if (first) {
      first = false;
      return {};
    }
    return expect(",");
  };
  for (const uint32_t registers : shape.to) {
    RP_TRY(comma());
    RP_TRY(operand(i.to, registers));
    if (shape.second_to) {
      i.to.push_back(Instruction::kNone);
      if (take("|")) RP_TRY(slot(i.to.back()));
    }
  }
  for (size_t n = 0; n < shape.from.size(); ++n) {
    if (n + 1 == shape.from.size() && shape.optional_from && peek().is(";")) break;
    RP_TRY(comma());
    if (shape.from[n] == 0) {
      RP_TRY(address(i, addresses++));
    } else if (shape.from[n] == Shape::kTensor) {
      RP_TRY(tensor(i));
    } else {
      RP_TRY(operand(i.from, shape.from[n]));
    }
  }
  return {};
}

Result<Program> parse(std::string_view text) {
  return Parser(text).run();
}

}  // namespace reprise::test::ptx
