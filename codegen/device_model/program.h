// A kernel in PTX, decoded as far as the device model needs it: what integers are computed, where
// control goes, which memory is touched, and which unit of a multiprocessor each instruction takes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace reprise::device_model {

/// What an instruction computes, if its operands are integers that are known.
enum class Operation : uint8_t {
  Unknown,  // of floats, of memory, of other lanes
  Move,     // also a vector to a word, and a word to a vector
  Add,
  Subtract,
  Multiply,
  MultiplyAdd,
  ShiftLeft,
  ShiftRight,
  And,
  Or,
  Xor,
  Not,
  Negate,
  Absolute,
  Minimum,
  Maximum,
  Divide,
  Remainder,
  Compare,
  Select,
  Convert,
  Lookup,  // lop3: any function of three bits
  True,    // a wait that has ended
  Elect,   // true in one lane
};

/// What an instruction takes.
enum class Kind : uint8_t {
  Plain,  // a slot of a scheduler, and lanes for fp32
  Integer,
  Conversion,
  Double,
  Special,
  Matrix,           // of a warp
  WarpgroupMatrix,  // of four warps; asynchronous
  Exchange,         // between lanes
  Parameter,
  Load,  // of global, shared or local memory, by address
  Store,
  MatrixLoad,  // ldmatrix: the lanes' addresses are those of rows of 16 bytes
  Copy,        // cp.async
  BulkBytes,   // bytes that a bulk copy will bring
  Commit,
  Wait,  // until at most so many committed groups are under way
  Barrier,
  Branch,
  Exit,
};

enum class Space : uint8_t { Generic, Global, Shared, Local, Constant };
enum class Comparison : uint8_t { Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual };
enum class Part : uint8_t { Low, High, Wide };

/// A type of PTX: its bits, and whether it is a signed integer or a float.
struct Type {
  uint8_t bits = 32;
  bool is_signed = false, is_float = false;
};

/// Operands are slots: registers, and values that are set before a warp starts.
struct Instruction {
  static constexpr uint32_t kNone = ~0U;

  Operation operation = Operation::Unknown;
  Kind kind = Kind::Plain;
  Type type, source_type;
  Space space = Space::Generic;
  Comparison comparison = Comparison::Equal;
  Part part = Part::Low;
  bool unless = false;        // the guard is negated
  bool unconditional = true;  // of a branch or an exit: without a guard
  bool of_matrices = false;   // of Commit and Wait: products, not copies
  bool pair = false;          // of Compare: the second result is the negated first one
  uint32_t guard = kNone;
  uint32_t first_result = 0, results = 0;    // in Program::operands
  uint32_t first_operand = 0, operands = 0;  // likewise; of memory, the first one is the address
  int64_t offset = 0;                        // of the address
  uint32_t target = 0;                       // of a branch
  uint32_t bytes = 0;                        // that a lane moves
  double slots = 1;                          // instructions of the device that are issued
  double products = 0;  // multiply-adds of a matrix instruction, in those of fp16
};

enum class Special : uint8_t { Thread, Threads, Group, Groups, Lane, Warp };

struct Program {
  struct Constant {
    uint32_t slot;
    uint64_t value;
  };
  struct SpecialSlot {
    uint32_t slot;
    Special which;
    uint8_t dimension;
  };
  std::string name;
  std::vector<Instruction> code;
  std::vector<uint32_t> operands;
  std::vector<Constant> constants;
  std::vector<SpecialSlot> specials;
  uint32_t slots = 0;
};

/// Addresses of the walk: of the parameter block, and of memory whose contents do not matter.
constexpr uint64_t kBlockAddress = uint64_t{1} << 56;
constexpr uint64_t kTableAddress = uint64_t{1} << 57;
constexpr uint64_t kSharedLimit = uint64_t{1} << 24;  // addresses of shared memory are below

/// The instructions of a device that ptxas usually makes of the program.
double slots_of(const Program& program);

/// Decodes the first kernel of a module. Instructions that are not known count as one instruction
/// whose result is not known.
Result<Program> parse_ptx(std::string_view text);

/// Fills everything that the opcode says ("ld.shared.v4.f32"). Returns whether the first operand
/// is a result.
bool decode_opcode(std::string_view opcode, Instruction& i);

}  // namespace reprise::device_model
