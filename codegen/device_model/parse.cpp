// Reads the text of a kernel: statements, registers, addresses.
#include <bit>
#include <charconv>
#include <map>
#include <optional>

#include "codegen/device_model/program.h"

namespace reprise::device_model {

namespace {

constexpr std::string_view kSpaces = " \t\r\n";

std::string_view trimmed(std::string_view s) {
  const size_t first = s.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return s.substr(first, s.find_last_not_of(kSpaces) - first + 1);
}

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || c == '%';
}

/// The text without comments.
std::string without_comments(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t comment = std::min(text.find("//"), text.size());
    out += text.substr(0, comment);
    text.remove_prefix(comment);
    text.remove_prefix(std::min(text.find('\n'), text.size()));
  }
  return out;
}

/// Parts of a list, at commas that are in no brackets.
std::vector<std::string_view> parts_of(std::string_view list) {
  std::vector<std::string_view> out;
  int depth = 0;
  size_t begin = 0;
  for (size_t at = 0; at <= list.size(); ++at) {
    const char c = at < list.size() ? list[at] : ',';
    if (c == '{' || c == '[' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == ')') --depth;
    if (c != ',' || (depth > 0 && at < list.size())) continue;
    const std::string_view part = trimmed(list.substr(begin, at - begin));
    if (!part.empty()) out.push_back(part);
    begin = at + 1;
  }
  return out;
}

/// "12", "-1", "0x1F", "0f3F800000".
std::optional<uint64_t> number(std::string_view s) {
  const bool negative = s.starts_with('-');
  if (negative) s.remove_prefix(1);
  int base = 10;
  if (s.starts_with("0x") || s.starts_with("0f") || s.starts_with("0F") || s.starts_with("0d")) {
    base = 16;
    s.remove_prefix(2);
  }
  if (s.ends_with('U')) s.remove_suffix(1);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value, base);
  if (s.empty() || error != std::errc() || end != s.data() + s.size()) return {};
  return negative ? ~value + 1 : value;
}

class Parser {
 public:
  Result<Program> run(std::string_view text);

 private:
  using Names = std::map<std::string, uint32_t, std::less<>>;
  struct Jump {
    size_t at;
    std::string label;
  };

  void declare_shared(std::string_view declaration);
  void body(std::string_view text);
  void statement(std::string_view text);
  void declaration(std::string_view text);
  void instruction(std::string_view text);
  void operand(std::string_view text);
  uint32_t slot_of(std::string_view text);
  uint32_t constant(uint64_t value);
  Status resolve_jumps();

  Program program_;
  std::vector<Names> scopes_{1};
  std::map<uint64_t, uint32_t> constants_;
  std::map<std::string, size_t, std::less<>> labels_;
  std::vector<Jump> jumps_;
  uint64_t shared_end_ = 0;
  Instruction* current_ = nullptr;
};

uint32_t Parser::constant(uint64_t value) {
  const auto [at, is_new] = constants_.try_emplace(value, program_.slots);
  if (is_new) program_.constants.push_back({program_.slots++, value});
  return at->second;
}

std::optional<Program::SpecialSlot> special(std::string_view name) {
  const auto one = [](Special which, size_t dimension) {
    return Program::SpecialSlot{0, which, static_cast<uint8_t>(dimension)};
  };
  if (name == "%laneid") return one(Special::Lane, 0);
  if (name == "%warpid") return one(Special::Warp, 0);
  constexpr std::array<std::pair<std::string_view, Special>, 4> kNames{
      {{"%tid.", Special::Thread},
       {"%ntid.", Special::Threads},
       {"%ctaid.", Special::Group},
       {"%nctaid.", Special::Groups}}};
  for (const auto& [beginning, which] : kNames) {
    if (name.starts_with(beginning) && name.size() == beginning.size() + 1)
      return one(which, static_cast<size_t>(name.back() - 'x'));
  }
  return {};
}

/// A register, a number, or the address of a variable. A name that was not declared is a register.
uint32_t Parser::slot_of(std::string_view text) {
  if (const auto value = number(text)) return constant(*value);
  for (size_t n = scopes_.size(); n-- > 0;)
    if (const auto at = scopes_[n].find(text); at != scopes_[n].end()) return at->second;
  const uint32_t slot = program_.slots++;
  scopes_[0].emplace(text, slot);
  if (auto which = special(text)) {
    which->slot = slot;
    program_.specials.push_back(*which);
  }
  return slot;
}

/// ".shared .align 16 .b8 name[64]": variables follow each other; what has no size comes last.
void Parser::declare_shared(std::string_view declaration) {
  const size_t bracket = declaration.find('[');
  std::string_view name = trimmed(declaration.substr(0, bracket));
  name = name.substr(name.find_last_of(kSpaces) + 1);
  uint64_t align = 16;
  if (const size_t at = declaration.find(".align"); at != std::string_view::npos) {
    const std::string_view rest = trimmed(declaration.substr(at + 6));
    align = number(rest.substr(0, rest.find_first_of(kSpaces))).value_or(align);
  }
  shared_end_ = (shared_end_ + align - 1) / align * align;
  scopes_[0][std::string(name)] = constant(shared_end_);
  if (bracket == std::string_view::npos) return;
  const std::string_view size = declaration.substr(bracket + 1);
  shared_end_ += number(trimmed(size.substr(0, size.find(']')))).value_or(0);
}

/// ".reg .pred p, q". Names of ranges ("%r<9>") are declared where they are used.
void Parser::declaration(std::string_view text) {
  if (text.starts_with(".shared")) return declare_shared(text);
  if (!text.starts_with(".reg")) return;
  text = trimmed(text.substr(4));
  text = text.substr(std::min(text.find_first_of(kSpaces), text.size()));
  for (const std::string_view name : parts_of(text)) {
    if (name.find('<') != std::string_view::npos) continue;
    scopes_.back()[std::string(name)] = program_.slots++;
  }
}

/// Adds the slots of an operand. Of an address it is that of the base.
void Parser::operand(std::string_view text) {
  if (text.starts_with('{')) {
    for (const std::string_view part : parts_of(text.substr(1, text.rfind('}') - 1))) operand(part);
    return;
  }
  if (text.starts_with('[')) {
    std::string_view base = trimmed(text.substr(1, text.rfind(']') - 1));
    const size_t sign = base.find_first_of("+-,");
    if (sign != std::string_view::npos && base[sign] != ',') {
      const std::string_view offset = trimmed(base.substr(base[sign] == '+' ? sign + 1 : sign));
      current_->offset = static_cast<int64_t>(number(offset).value_or(0));
    }
    operand(trimmed(base.substr(0, sign)));
    return;
  }
  if (const size_t bar = text.find('|'); bar != std::string_view::npos) {
    operand(trimmed(text.substr(0, bar)));
    operand(trimmed(text.substr(bar + 1)));
    return;
  }
  // A negated operand, and "_", are values of their own that are not known.
  const bool unknown = text.starts_with('!') || text == "_";
  program_.operands.push_back(unknown ? program_.slots++ : slot_of(text));
}

void Parser::instruction(std::string_view text) {
  Instruction i;
  if (text.starts_with('@')) {
    const size_t end = text.find_first_of(kSpaces);
    i.unless = text[1] == '!';
    i.guard = slot_of(text.substr(i.unless ? 2 : 1, end - (i.unless ? 2 : 1)));
    i.unconditional = false;
    text = trimmed(text.substr(std::min(end, text.size())));
  }
  const size_t end = std::min(text.find_first_of(kSpaces), text.size());
  const std::string_view opcode = text.substr(0, end);
  if (opcode.starts_with("setmaxnreg") || opcode.starts_with(".")) return;
  const bool has_result = decode_opcode(opcode, i);
  current_ = &i;
  i.first_result = static_cast<uint32_t>(program_.operands.size());
  const std::string_view list = trimmed(text.substr(end));
  if (i.kind == Kind::Branch) {
    jumps_.push_back({program_.code.size(), std::string(list)});
  } else if (!opcode.starts_with("call")) {
    size_t n = 0;
    const std::vector<std::string_view> parts = parts_of(list);
    if (i.kind == Kind::Copy && parts.size() > 2)
      i.bytes = static_cast<uint32_t>(number(parts[2]).value_or(16));
    for (const std::string_view part : parts) {
      if (n++ == (has_result ? 1 : 0))
        i.first_operand = static_cast<uint32_t>(program_.operands.size());
      operand(part);
    }
    if (n < (has_result ? 2U : 1U))
      i.first_operand = static_cast<uint32_t>(program_.operands.size());
  }
  if (i.kind == Kind::Branch || opcode.starts_with("call")) i.first_operand = i.first_result;
  i.results = i.first_operand - i.first_result;
  i.operands = static_cast<uint32_t>(program_.operands.size()) - i.first_operand;
  program_.code.push_back(i);
}

void Parser::statement(std::string_view text) {
  for (;;) {  // labels
    size_t end = 0;
    while (end < text.size() && is_name(text[end])) ++end;
    const bool label =
        end > 0 && end < text.size() && text[end] == ':' && text.substr(end, 2) != "::";
    if (!label) break;
    labels_[std::string(text.substr(0, end))] = program_.code.size();
    text = trimmed(text.substr(end + 1));
  }
  if (text.empty()) return;
  text.starts_with('.') ? declaration(text) : instruction(text);
}

/// Statements end with semicolons. A brace where one may begin opens or closes a scope.
void Parser::body(std::string_view text) {
  int depth = 0;
  while (!text.empty()) {
    text = trimmed(text);
    if (text.starts_with('{') || text.starts_with('}')) {
      depth += text[0] == '{' ? 1 : -1;
      if (depth == 0) return;
      if (text[0] == '{') scopes_.emplace_back();
      if (text[0] == '}' && scopes_.size() > 1) scopes_.pop_back();
      text.remove_prefix(1);
      continue;
    }
    // A label may stand before a brace.
    size_t name = 0;
    while (name < text.size() && is_name(text[name])) ++name;
    const bool label =
        name > 0 && name < text.size() && text[name] == ':' && text.substr(name, 2) != "::";
    const size_t end = label ? name + 1 : std::min(text.find(';'), text.size());
    statement(text.substr(0, end));
    text.remove_prefix(label ? end : std::min(end + 1, text.size()));
  }
}

Status Parser::resolve_jumps() {
  for (const Jump& jump : jumps_) {
    const auto to = labels_.find(jump.label);
    if (to == labels_.end())
      return invalid_input("PTX jumps to the label '" + jump.label + "', which it does not have");
    program_.code[jump.at].target = static_cast<uint32_t>(to->second);
  }
  return {};
}

Result<Program> Parser::run(std::string_view text) {
  const std::string plain = without_comments(text);
  const std::string_view module = plain;
  const size_t entry = module.find(".entry");
  const size_t params = module.find('(', std::min(entry, module.size()));
  const size_t begin = module.find('{', std::min(params, module.size()));
  if (begin == std::string_view::npos) return invalid_input("PTX has no kernel (.entry)");
  program_.name = trimmed(module.substr(entry + 6, params - entry - 6));
  for (size_t at = 0; (at = module.find(".shared", at)) < entry; ++at)
    declare_shared(module.substr(at, module.find(';', at) - at));
  // The parameter block by value, or its address.
  const std::string_view list = module.substr(params + 1, module.find(')', params) - params - 1);
  const std::string_view declared = trimmed(list.substr(0, list.find(',')));
  const std::string_view name = declared.substr(declared.find_last_of(kSpaces) + 1);
  scopes_[0][std::string(name.substr(0, name.find('[')))] = constant(kBlockAddress);
  body(module.substr(begin));
  RP_TRY(resolve_jumps());
  if (program_.code.empty()) return invalid_input("the kernel of the PTX has no instruction");
  return std::move(program_);
}

}  // namespace

double slots_of(const Program& program) {
  double sum = 0;
  for (const Instruction& i : program.code) sum += i.slots;
  return sum;
}

Result<Program> parse_ptx(std::string_view text) {
  return Parser().run(text);
}

}  // namespace reprise::device_model
