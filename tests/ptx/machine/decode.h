// From the name of an instruction and its modifiers to what executes it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/ptx/machine/program.h"

namespace reprise::test::ptx {

/// The parts of "ld.global.v4.f32", which decoding uses up. What is left is unknown.
class Words {
 public:
  explicit Words(std::string_view opcode);
  const std::string& opcode() const { return opcode_; }
  /// Whether the word is there; it is used up.
  bool take(std::string_view word);
  /// The first of these that is there, as an index; -1 if none is.
  int take_one(std::initializer_list<std::string_view> words);
  /// The next word, if it names a type.
  bool take_type(Type& out);
  const std::vector<std::string>& left() const { return words_; }

 private:
  std::string opcode_;
  std::vector<std::string> words_;
};

/// How many operands of each kind an instruction has, once it is decoded.
struct Shape {
  static constexpr uint32_t kAny = ~0U;         // as many as the text has
  static constexpr uint32_t kTensor = ~0U - 1;  // "[map, {x, y}]": the address and coordinates
  std::vector<uint32_t> to, from;               // registers in each operand: 4 for "{a, b, c, d}"
  bool second_to = false;                       // "p|q" is allowed for the first destination
  bool optional_from = false;                   // the last source may be missing
};

/// Sets what executes the instruction, and the operands that it takes. An error says what is not
/// known.
Status decode(Words& words, Instruction& i, Shape& shape);

// The families, which decode() asks in turn; false if the opcode is none of theirs.
bool decode_arithmetic(Words& w, Instruction& i, Shape& s);
bool decode_bits(Words& w, Instruction& i, Shape& s);
bool decode_conversion(Words& w, Instruction& i, Shape& s);
bool decode_signals(Words& w, Instruction& i, Shape& s);
bool decode_clusters(Words& w, Instruction& i, Shape& s);
bool decode_bulk(Words& w, Instruction& i, Shape& s);
bool decode_roles(Words& w, Instruction& i, Shape& s);
bool decode_multiplication(Words& w, Instruction& i, Shape& s);
bool decode_memory(Words& w, Instruction& i, Shape& s);
bool decode_exchange(Words& w, Instruction& i, Shape& s);
bool decode_matrix(Words& w, Instruction& i, Shape& s);

}  // namespace reprise::test::ptx
