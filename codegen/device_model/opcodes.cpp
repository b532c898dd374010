// What the words of an opcode say.
#include <algorithm>
#include <charconv>
#include <optional>

#include "codegen/device_model/program.h"

namespace reprise::device_model {

namespace {

struct Row {
  std::string_view name;
  Operation operation = Operation::Unknown;
  Kind kind = Kind::Plain;
  double slots = 1;
};

/// The first word of an opcode. `slots` are the instructions that ptxas makes of one, as seen in
/// cubins of sm_80 to sm_90: it folds moves, signs and conversions of addresses into others.
constexpr std::array kRows = {
    Row{"mov", Operation::Move, Kind::Integer, 0.25},
    Row{"cvta", Operation::Move, Kind::Integer, 0},
    Row{"add", Operation::Add, Kind::Integer},
    Row{"sub", Operation::Subtract, Kind::Integer},
    Row{"mul", Operation::Multiply, Kind::Integer},
    Row{"mad", Operation::MultiplyAdd, Kind::Integer},
    Row{"shl", Operation::ShiftLeft, Kind::Integer},
    Row{"shr", Operation::ShiftRight, Kind::Integer},
    Row{"and", Operation::And, Kind::Integer},
    Row{"or", Operation::Or, Kind::Integer},
    Row{"xor", Operation::Xor, Kind::Integer},
    Row{"not", Operation::Not, Kind::Integer},
    Row{"neg", Operation::Negate, Kind::Integer},
    Row{"abs", Operation::Absolute, Kind::Integer},
    Row{"min", Operation::Minimum, Kind::Integer},
    Row{"max", Operation::Maximum, Kind::Integer},
    Row{"div", Operation::Divide, Kind::Integer, 20},
    Row{"rem", Operation::Remainder, Kind::Integer, 22},
    Row{"setp", Operation::Compare, Kind::Integer},
    Row{"set", Operation::Unknown, Kind::Integer},
    Row{"selp", Operation::Select, Kind::Integer},
    Row{"cvt", Operation::Convert, Kind::Integer},
    Row{"lop3", Operation::Lookup, Kind::Integer},
    Row{"bfe", Operation::Unknown, Kind::Integer, 2},
    Row{"bfi", Operation::Unknown, Kind::Integer, 3},
    Row{"prmt", Operation::Unknown, Kind::Integer},
    Row{"popc", Operation::Unknown, Kind::Conversion},
    Row{"clz", Operation::Unknown, Kind::Conversion, 2},
    Row{"bfind", Operation::Unknown, Kind::Conversion},
    Row{"fma", Operation::Unknown, Kind::Plain},
    Row{"testp", Operation::Unknown, Kind::Plain},
    Row{"ex2", Operation::Unknown, Kind::Special},
    Row{"lg2", Operation::Unknown, Kind::Special},
    Row{"rcp", Operation::Unknown, Kind::Special},
    Row{"rsqrt", Operation::Unknown, Kind::Special},
    Row{"sqrt", Operation::Unknown, Kind::Special},
    Row{"sin", Operation::Unknown, Kind::Special, 2},
    Row{"cos", Operation::Unknown, Kind::Special, 2},
    Row{"tanh", Operation::Unknown, Kind::Special},
    Row{"mma", Operation::Unknown, Kind::Matrix},
    Row{"wmma", Operation::Unknown, Kind::Matrix},
    Row{"shfl", Operation::Unknown, Kind::Exchange},
    Row{"redux", Operation::Unknown, Kind::Exchange},
    Row{"vote", Operation::Unknown, Kind::Integer},
    Row{"match", Operation::Unknown, Kind::Exchange},
    Row{"activemask", Operation::Unknown, Kind::Integer},
    Row{"elect", Operation::Elect, Kind::Integer},
    Row{"ld", Operation::Unknown, Kind::Load},
    Row{"ldu", Operation::Unknown, Kind::Load},
    Row{"atom", Operation::Unknown, Kind::Load},
    Row{"st", Operation::Unknown, Kind::Store},
    Row{"red", Operation::Unknown, Kind::Store},
    Row{"ldmatrix", Operation::Unknown, Kind::MatrixLoad},
    Row{"stmatrix", Operation::Unknown, Kind::MatrixLoad},
    Row{"bar", Operation::Unknown, Kind::Barrier},
    Row{"barrier", Operation::Unknown, Kind::Barrier},
    Row{"bra", Operation::Unknown, Kind::Branch},
    Row{"ret", Operation::Unknown, Kind::Exit},
    Row{"exit", Operation::Unknown, Kind::Exit},
    Row{"trap", Operation::Unknown, Kind::Exit},
};

/// Opcodes whose first operand is not a result.
constexpr std::array<std::string_view, 28> kWithoutResult = {
    "st.",           "red.",           "bar.",         "barrier.",     "bra",
    "ret",           "exit",           "trap",         "cp.",          "wgmma.commit",
    "wgmma.wait",    "wgmma.fence",    "stmatrix",     "fence.",       "membar",
    "mbarrier.init", "mbarrier.inval", "mbarrier.exp", "setmaxnreg",   "prefetch",
    "griddep",       "nanosleep",      "pragma",       "mbarrier.arr", "brkpt",
    "discard",       "applypriority",  "createpolicy",
};

std::string_view next_word(std::string_view& rest) {
  const size_t dot = std::min(rest.find('.'), rest.size());
  const std::string_view word = rest.substr(0, dot);
  rest.remove_prefix(std::min(dot + 1, rest.size()));
  return word;
}

bool has(std::string_view opcode, std::string_view word) {
  for (std::string_view rest = opcode; !rest.empty();)
    if (next_word(rest) == word) return true;
  return false;
}

/// "f32", "u64", "pred"; nothing if the word is no type.
std::optional<Type> type_of(std::string_view word) {
  if (word == "pred") return Type{1, false, false};
  if (word == "bf16") return Type{16, false, true};
  if (word == "f16x2" || word == "bf16x2") return Type{32, false, true};
  if (word == "tf32") return Type{32, false, true};
  if (word.size() < 2) return {};
  uint32_t bits = 0;
  const auto [end, error] = std::from_chars(word.data() + 1, word.data() + word.size(), bits);
  if (error != std::errc() || end != word.data() + word.size() || bits > 128) return {};
  const char c = word[0];
  if (c != 'b' && c != 'u' && c != 's' && c != 'f') return {};
  return Type{static_cast<uint8_t>(bits), c == 's', c == 'f'};
}

/// The types are the last words: that of the result, then that of the source.
void decode_types(std::string_view opcode, Instruction& i) {
  std::array<Type, 2> types{};
  size_t count = 0;
  for (std::string_view rest = opcode; !rest.empty() && count < 2;) {
    if (const auto type = type_of(next_word(rest))) types[count++] = *type;
  }
  if (count == 0) return;
  i.type = types[0];
  i.source_type = count > 1 ? types[1] : types[0];
}

void decode_memory(std::string_view opcode, Instruction& i) {
  if (has(opcode, "global")) i.space = Space::Global;
  if (has(opcode, "local")) i.space = Space::Local;
  if (has(opcode, "const")) i.space = Space::Constant;
  for (std::string_view rest = opcode; !rest.empty();) {
    const std::string_view word = next_word(rest);
    if (word.starts_with("shared")) i.space = Space::Shared;
    if (word.starts_with("param")) i.kind = Kind::Parameter;
  }
  const uint32_t lanes = has(opcode, "v8") ? 8 : has(opcode, "v4") ? 4 : has(opcode, "v2") ? 2 : 1;
  i.bytes = lanes * std::max(1U, i.type.bits / 8U);
}

/// "m16n8k16": how many multiply-adds, in those of fp16 by the type of the operands.
double products_of(std::string_view opcode) {
  double products = 0;
  for (std::string_view rest = opcode; !rest.empty();) {
    const std::string_view word = next_word(rest);
    if (!word.starts_with('m') || word.find('n') == std::string_view::npos) continue;
    std::array<double, 3> sizes{};
    size_t at = 0;
    for (const char c : word) {
      if (c == 'n') at = 1;
      if (c == 'k') at = 2;
      if (c >= '0' && c <= '9') sizes[at] = sizes[at] * 10 + (c - '0');
    }
    products = sizes[0] * sizes[1] * sizes[2];
    if (products > 0) break;
  }
  if (has(opcode, "tf32")) return products * 2;
  if (has(opcode, "s8") || has(opcode, "u8") || has(opcode, "e4m3") || has(opcode, "e5m2"))
    return products / 2;
  return products;
}

void decode_asynchronous(std::string_view opcode, Instruction& i) {
  i.of_matrices = opcode.starts_with("wgmma");
  if (opcode.starts_with("wgmma.mma_async")) {
    i.kind = Kind::WarpgroupMatrix;
    i.products = products_of(opcode);
  } else if (opcode.find("commit_group") != std::string_view::npos) {
    i.kind = Kind::Commit;
  } else if (opcode.find("wait_group") != std::string_view::npos ||
             opcode.find("wait_all") != std::string_view::npos) {
    i.kind = Kind::Wait;
  } else if (opcode.starts_with("cp.async.ca") || opcode.starts_with("cp.async.cg")) {
    i.kind = Kind::Copy;
  } else if (opcode.find("expect_tx") != std::string_view::npos) {
    i.kind = Kind::BulkBytes;
  } else if (opcode.starts_with("mbarrier.try_wait") || opcode.starts_with("mbarrier.test_wait")) {
    i.operation = Operation::True;
  }
}

/// Floats: of their units, and of the instructions that an inexact or exact function takes.
void decode_float(std::string_view opcode, std::string_view name, Instruction& i) {
  i.operation = name == "mov" ? Operation::Move : Operation::Unknown;
  if (i.kind == Kind::Integer && name != "mov") i.kind = Kind::Plain;
  const bool approximate = has(opcode, "approx"), flushes = has(opcode, "ftz");
  if (name == "neg" || name == "abs") i.slots = 0.25;
  if (name == "div") {
    i.kind = Kind::Special;
    i.slots = has(opcode, "full") ? 7 : approximate ? 2 : 11;
  }
  if (name == "sqrt" || name == "rcp") i.slots = approximate ? (flushes ? 1 : 3) : 9;
  if (name == "ex2" || name == "lg2" || name == "rsqrt") i.slots = flushes ? 1 : 3;
}

void decode_conversion(Instruction& i) {
  const bool floats = i.type.is_float || i.source_type.is_float;
  if (floats) {
    i.operation = Operation::Unknown;
    const bool same =
        i.type.is_float && i.source_type.is_float && i.type.bits == i.source_type.bits;
    i.kind = same ? Kind::Plain : Kind::Conversion;
  } else {
    i.slots = 0.5;
  }
}

std::optional<Comparison> comparison_of(std::string_view word) {
  if (word == "eq" || word == "equ") return Comparison::Equal;
  if (word == "ne" || word == "neu") return Comparison::NotEqual;
  if (word == "lt" || word == "lo" || word == "ltu") return Comparison::Less;
  if (word == "le" || word == "ls" || word == "leu") return Comparison::LessEqual;
  if (word == "gt" || word == "hi" || word == "gtu") return Comparison::Greater;
  if (word == "ge" || word == "hs" || word == "geu") return Comparison::GreaterEqual;
  return {};
}

void decode_compare(std::string_view opcode, Instruction& i) {
  std::string_view rest = opcode;
  next_word(rest);
  const auto comparison = comparison_of(next_word(rest));
  const bool combined = has(opcode, "and") || has(opcode, "or") || has(opcode, "xor");
  if (!comparison || i.type.is_float || combined) i.operation = Operation::Unknown;
  if (comparison) i.comparison = *comparison;
  i.pair = true;
}

void decode_integer(std::string_view opcode, std::string_view name, Instruction& i) {
  if (has(opcode, "wide")) i.part = Part::Wide;
  if (has(opcode, "hi") && name != "setp") i.part = Part::High;
  if (i.type.bits == 64 && i.part != Part::Wide && i.slots == 1) i.slots = 1.5;
  if (i.type.bits == 64 && i.part == Part::High) i.operation = Operation::Unknown;  // of 128 bits
  if (name == "div" || name == "rem") i.slots *= i.type.bits == 64 ? 4 : 1;
}

}  // namespace

bool decode_opcode(std::string_view opcode, Instruction& i) {
  const auto begins = [&](std::string_view b) { return opcode.starts_with(b); };
  std::string_view rest = opcode;
  const std::string_view name = next_word(rest);
  const auto* row = std::ranges::find(kRows, name, &Row::name);
  if (row != kRows.end()) {
    i.operation = row->operation;
    i.kind = row->kind;
    i.slots = row->slots;
  }
  decode_types(opcode, i);
  switch (i.kind) {
    case Kind::Load:
    case Kind::Store:
      decode_memory(opcode, i);
      break;
    case Kind::Matrix:
      i.products = products_of(opcode);
      break;
    case Kind::MatrixLoad:
      i.space = Space::Shared;
      i.bytes = has(opcode, "x4") ? 16 : has(opcode, "x2") ? 8 : 4;
      break;
    default:
      break;
  }
  if (name == "cvt") {
    decode_conversion(i);
  } else if (name == "setp") {
    decode_compare(opcode, i);
  } else if (row != kRows.end() && (i.kind == Kind::Integer || i.kind == Kind::Special)) {
    i.type.is_float ? decode_float(opcode, name, i) : decode_integer(opcode, name, i);
  }
  if (i.kind == Kind::Plain && i.type.is_float && i.type.bits == 64) i.kind = Kind::Double;
  decode_asynchronous(opcode, i);
  return std::ranges::none_of(kWithoutResult, begins);
}

}  // namespace reprise::device_model
