#include "tests/ptx/machine/parser.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace reprise::test::ptx {
namespace {

uint64_t align_up(uint64_t n, uint64_t to) {
  return (n + to - 1) / to * to;
}

}  // namespace

const Space* space_named(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, Space>, 5> kSpaces{
      {{".param", Space::Param},
       {".shared", Space::Shared},
       {".local", Space::Local},
       {".global", Space::Global},
       {".const", Space::Global}}};
  for (const auto& [n, space] : kSpaces)
    if (n == name) return &space;
  return nullptr;
}

const Token& Parser::peek(size_t ahead) const {
  static const Token end;
  return at_ + ahead < tokens_.size() ? tokens_[at_ + ahead] : end;
}

Token Parser::next() {
  Token t = peek();
  ++at_;
  return t;
}

bool Parser::take(std::string_view s) {
  if (!peek().is(s)) return false;
  ++at_;
  return true;
}

Status Parser::expect(std::string_view s) {
  if (take(s)) return {};
  return unknown("'" + std::string(s) + "' expected, not '" + peek().text + "'");
}

void Parser::skip_to(std::string_view end) {
  while (at_ < tokens_.size() && !take(end)) ++at_;
}

Result<Program> Parser::run() {
  while (at_ < tokens_.size()) RP_TRY(directive());
  return std::move(program_);
}

Status Parser::directive() {
  if (take(".version") || take(".address_size")) {
    ++at_;
    return {};
  }
  if (take(".target")) {
    ++at_;
    while (take(",")) ++at_;
    return {};
  }
  if (take(".visible") || take(".weak") || take(".extern")) return {};
  if (take(".entry")) return entry();
  if (take(".func")) return function();
  if (const Space* space = space_named(peek().text)) {
    ++at_;
    entry_.shared_bytes = module_shared_;
    RP_TRY(variable(*space));
    module_shared_ = entry_.shared_bytes;
    return expect(";");
  }
  return unknown("unknown directive " + peek().text);
}

/// ".align 4 .b8 name[24] = {1, 2}", after the space.
Status Parser::variable(Space space, std::string* name) {
  uint64_t align = 0, count = 1;
  if (take(".align") && !number(next().text, align)) return unknown("an alignment expected");
  Type type{};
  while (take(".ptr") || take(".global")) continue;
  if (!type_named(std::string_view(peek().text).substr(std::min<size_t>(1, peek().text.size())),
                  type))
    return unknown("unknown type " + peek().text);
  ++at_;
  const std::string own = next().text;
  if (name != nullptr) *name = own;
  if (take("[")) {
    if (peek().is("]")) {
      count = 0;  // as large as the launch says
    } else if (!number(next().text, count)) {
      return unknown("a size expected");
    }
    RP_TRY(expect("]"));
  }
  const uint64_t bytes = count * size_of(type);
  align = std::max<uint64_t>(align, size_of(type));
  Variable v{space, 0};
  const auto grow = [&](uint32_t& total) {
    const uint64_t at = align_up(total, align);
    total = static_cast<uint32_t>(at + bytes);
    return at;
  };
  if (space == Space::Shared) {
    v.address = grow(entry_.shared_bytes);
  } else if (space == Space::Param && name != nullptr) {
    v.address = kParamWindow + grow(entry_.param_bytes);
  } else if (space == Space::Param || space == Space::Local) {
    v.address = kLocalWindow + grow(entry_.local_bytes);
  } else {
    auto total = static_cast<uint32_t>(program_.data.size());
    v.address = kDataWindow + grow(total);
    program_.data.resize(total);
    if (take("=")) RP_TRY(contents(v.address, size_of(type)));
  }
  scopes_.back().variables[own] = v;
  return {};
}

Status Parser::contents(uint64_t address, uint32_t element) {
  std::byte* to = program_.data.data() + (address - kDataWindow);
  const bool list = take("{");
  do {
    uint64_t bits = 0;
    const bool negative = take("-");
    if (!number((negative ? "-" : "") + next().text, bits)) return unknown("a number expected");
    std::memcpy(to, &bits, element);
    to += element;
  } while (list && take(","));
  return list ? expect("}") : Status();
}

/// "%f<12>" or "p, q", after ".reg".
Status Parser::registers() {
  Type type{};
  if (!type_named(std::string_view(next().text).substr(1), type)) return unknown("unknown type");
  do {
    const std::string name = next().text;
    uint64_t count = 0;
    if (!take("<")) {
      scopes_.back().registers[name] = new_slot(size_of(type));
      continue;
    }
    if (!number(next().text, count)) return unknown("a number of registers expected");
    RP_TRY(expect(">"));
    for (uint64_t n = 0; n < count; ++n)
      scopes_.back().registers[name + std::to_string(n)] = new_slot(size_of(type));
  } while (take(","));
  return expect(";");
}

void Parser::skip_body() {
  int depth = 0;
  do {
    if (peek().is("{")) ++depth;
    if (peek().is("}")) --depth;
    ++at_;
  } while (depth > 0 && at_ < tokens_.size());
}

/// ".func (.param .b64 r) name(.param .b64 a) { ... }", of which a body is read at each call.
Status Parser::function() {
  Function f;
  f.declarations = at_;
  const auto list = [&](std::vector<std::string>& names) -> Status {
    while (!take(")")) {
      if (peek(1).is(",") || peek(1).is(")") || peek(1).is("[")) names.push_back(peek().text);
      if (at_ >= tokens_.size()) return unknown("a list of parameters does not end");
      ++at_;
    }
    return {};
  };
  if (take("(")) RP_TRY(list(f.results));
  const std::string name = next().text;
  RP_TRY(expect("("));
  RP_TRY(list(f.params));
  while (!peek().is("{") && !peek().is(";")) ++at_;
  if (take(";")) return {};
  f.body = at_;
  skip_body();
  functions_[name] = std::move(f);
  return {};
}

/// ".maxntid 256, 1, 1" and the like, between an entry's parameters and its body.
Status Parser::bounds() {
  while (!peek().is("{")) {
    const std::string name = next().text;
    if (name == ".explicitcluster") continue;
    constexpr std::array kKnown{".maxntid", ".reqntid",           ".minnctapersm",
                                ".maxnreg", ".reqnctapercluster", ".maxclusterrank"};
    if (std::find(kKnown.begin(), kKnown.end(), name) == kKnown.end())
      return unknown("unknown directive " + name);
    uint64_t bits = 1, product = 1;
    std::array<uint32_t, 3> sizes{1, 1, 1};
    size_t given = 0;
    do {
      if (given == sizes.size() || !number(next().text, bits))
        return unknown("one to three numbers expected");
      sizes[given++] = static_cast<uint32_t>(bits);
      product *= bits;
    } while (take(","));
    const auto n = static_cast<uint32_t>(product);
    if (name == ".maxntid" || name == ".reqntid") entry_.most_threads = entry_.bound_threads = n;
    if (name == ".minnctapersm") entry_.bound_groups = n;
    if (name == ".maxnreg") entry_.bound_registers = n;
    if (name == ".maxclusterrank") entry_.most_rank = n;
    if (name == ".reqnctapercluster") {
      if (n == 0) return unknown("a cluster of no workgroups");
      entry_.cluster = sizes;
    }
  }
  return {};
}

Status Parser::entry() {
  entry_ = {};
  entry_.shared_bytes = module_shared_;
  labels_.clear();
  constants_.clear();
  widths_.clear();
  jumps_.clear();
  scopes_.resize(1);
  scopes_.emplace_back();
  entry_.name = next().text;
  if (take("(")) {
    while (!take(")")) {
      RP_TRY(expect(".param"));
      std::string name;
      RP_TRY(variable(Space::Param, &name));
      take(",");
    }
  }
  RP_TRY(bounds());
  in_entry_ = true;
  RP_TRY(body(""));
  in_entry_ = false;
  Instruction end;
  end.flow = Flow::Exit;
  end.line = peek().line;
  entry_.code.push_back(end);
  RP_TRY(resolve_jumps());
  scopes_.resize(1);
  program_.entries[entry_.name] = std::move(entry_);
  return {};
}

Status Parser::resolve_jumps() {
  for (const Jump& j : jumps_) {
    const auto at = labels_.find(j.label);
    if (at == labels_.end()) return fault(j.line, "there is no label " + j.label);
    entry_.code[j.at].target = at->second;
  }
  return {};
}

}  // namespace reprise::test::ptx
