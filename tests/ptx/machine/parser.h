// Reads the declarations and statements of a module.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "tests/ptx/machine/decode.h"
#include "tests/ptx/machine/tokens.h"

namespace reprise::test::ptx {

/// ".shared" and so on; null if it is no space.
const Space* space_named(std::string_view name);

class Parser {
 public:
  explicit Parser(std::string_view text) : tokens_(ptx::tokens(text)) {}
  Result<Program> run();

 private:
  struct Variable {
    Space space = Space::Global;
    uint64_t address = 0;
  };
  struct Scope {
    std::map<std::string, uint32_t> registers;
    std::map<std::string, Variable> variables;
    std::map<std::string, std::string> labels;  // as they are called in the entry
  };
  struct Function {  // a .func, which is put in place where it is called
    std::vector<std::string> results, params;
    size_t declarations = 0, body = 0;  // tokens
  };
  struct Jump {
    uint32_t at;
    std::string label;
    uint32_t line;
  };

  const Token& peek(size_t ahead = 0) const;
  Token next();
  bool take(std::string_view s);
  Status expect(std::string_view s);
  void skip_to(std::string_view end);
  Status unknown(const std::string& what) { return fault(peek().line, what); }

  // Declarations.
  Status directive();
  Status variable(Space space, std::string* name = nullptr);
  Status contents(uint64_t address, uint32_t element);
  Status registers();
  Status function();
  Status entry();
  Status bounds();
  void skip_body();

  // Statements.
  Status body(const std::string& label_of_ret);
  Status statement(const std::string& label_of_ret);
  Status declaration();
  Status pragma();
  Status instruction(const std::string& label_of_ret);
  Status guard(Instruction& i);
  Status call();
  Status place(const Function& f, const std::vector<std::string>& results,
               const std::vector<std::string>& arguments);
  Status jump(Instruction i, const std::string& label);
  Status operands(Instruction& i, const Shape& shape);
  Status operand(std::vector<uint32_t>& out, uint32_t registers);
  Status address(Instruction& i, size_t which);
  Status tensor(Instruction& i);
  Status slot(uint32_t& out);
  Status inverted(uint32_t& out);
  Status names(std::vector<std::string>& out);
  Status resolve_jumps();

  uint32_t new_slot(uint32_t width = 8) {
    widths_.push_back(width);
    return entry_.slots++;
  }
  uint32_t constant(uint64_t bits);
  std::optional<uint32_t> special(const std::string& name);
  const Variable* find_variable(const std::string& name) const;
  std::string label(const std::string& name) const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  Program program_;
  std::map<std::string, Function> functions_;
  std::vector<Scope> scopes_{1};  // the first is the module's
  Entry entry_;
  std::vector<uint32_t> widths_;  // of slots, in bytes
  bool in_entry_ = false;
  std::map<std::string, uint32_t> labels_;
  std::map<uint64_t, uint32_t> constants_;
  std::vector<Jump> jumps_;
  uint32_t calls_ = 0, module_shared_ = 0;
  uint64_t used_bytes_ = ~uint64_t{0};  // of the next instruction
};

}  // namespace reprise::test::ptx
