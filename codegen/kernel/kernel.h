// Kernel IR: one small structured language for every kernel (decision 1). Consumers: the SPIR-V
// emitter, the CUDA text emitter and the interpreter. codegen/kernel/semantics.md says what each
// operation means; the interpreter executes that meaning and checks it.
//
// A kernel is a list of instructions grouped in nested blocks. A Val is the index of the
// instruction that makes it; it is visible in its own block after its definition and in blocks
// nested there. Mutable state is in locals (per invocation), shared arrays (per workgroup) and
// buffers.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/kernel/inline_list.h"
#include "codegen/kernel/scalar_ops.h"
#include "runtime/base/dtype.h"
#include "runtime/base/matrix_shape.h"
#include "runtime/base/status.h"
#include "runtime/plan/block_layout.h"

namespace reprise::kernel {

/// Element types. Arithmetic happens in Bool, I32, U32, I64, F16, F32 and F64; the others are
/// storage types that a Load widens from (I8,I16 -> I32; U8,U16 -> U32; BF16 -> F32) and a Store
/// narrows to.
enum class Ty : uint8_t { Void, Bool, I8, U8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, F64 };

struct Type {
  Ty ty = Ty::Void;
  uint8_t lanes = 1;  // 1, 2 or 4
  friend bool operator==(Type, Type) = default;
};
inline constexpr Type kBool{Ty::Bool, 1}, kI32{Ty::I32, 1}, kU32{Ty::U32, 1}, kI64{Ty::I64, 1},
    kF32{Ty::F32, 1}, kF16{Ty::F16, 1};
inline Type vec(Type t, int lanes) {
  return {t.ty, static_cast<uint8_t>(lanes)};
}
std::string_view name_of(Ty t);
std::string str(Type t);
/// The type that a Load from this storage type produces.
Ty compute_type(Ty storage);
Ty storage_type(DType t);  // Bool -> U8 in memory; a Load of DType::Bool data is U8 compared with 0
                           // by the lowering
int byte_size(Ty t);
/// The TypeClass bit of a compute type; 0 for a type that arithmetic does not take.
uint8_t class_of(Ty t);

struct Val {
  int32_t id = -1;
  explicit operator bool() const { return id >= 0; }
  friend bool operator==(Val, Val) = default;
};

enum class Builtin : uint8_t {
  GlobalId,       // component in imm: workgroup id * workgroup size + local id. U32
  LocalId,        // component in imm. U32
  LocalIndex,     // flattened. U32
  WorkgroupId,    // component in imm. U32
  NumWorkgroups,  // component in imm. U32
  SubgroupLane,   // U32; requires subgroup facts
  SubgroupSize,   // U32
  SubgroupIndex,  // index of the subgroup in its workgroup. U32
};

enum class SubgroupOp : uint8_t { Add, Max, Min, Shuffle, ShuffleXor, Broadcast };

enum class Op : uint8_t {
  Const,    // imm: bits of the scalar; splat over lanes
  Param,    // imm: index of a scalar parameter. U32 or I32 or F32
  Builtin,  // imm: Builtin | component << 8
  Scalar,   // imm: ScalarOp; args: operands of equal lanes
  Convert,  // args[0]: value; semantics.md has the table (float -> int truncates and saturates, NaN
            // -> 0). imm 1: the value is proven to be in range (and exact for F16): no checks
  Bitcast,  // same total size
  Compose,  // args: lanes scalars
  Extract,  // args[0]: vector; imm: lane
  Load,  // args[0]: index (I32 or U32, in elements of the buffer's storage type); imm: buffer param
  Store,  // args[0]: index, args[1]: value; imm: buffer param. Vector access: `lanes` consecutive
          // elements; the index is proven a multiple of Inst::align elements. args[2] (optional,
          // U32 buffers only): mask of the bits to replace; other invocations may replace others
  LocalLoad,     // imm: local; args[0] (optional): element index for arrays
  LocalStore,    // imm: local; args[0]: value; args[1] (optional): element index
  SharedLoad,    // imm: shared array; args[0]: index in elements; type may be a vector (aligned
                 // index)
  SharedStore,   // imm: shared array; args[0]: index; args[1]: value
  Barrier,       // workgroup execution and shared-memory barrier; uniform control flow only
  MatrixZero,    // imm: matrix. Every element becomes 0
  MatrixLoad,    // imm: MatrixAccess; args[0]: index of element (0, 0) in the shared array
  MatrixStore,   // imm: MatrixAccess; args[0]: the same
  MatrixMulAdd,  // imm: MatrixProduct. sum += left * right
  Subgroup,      // imm: SubgroupOp; args[0]: value; args[1]: lane or mask (constant for Broadcast)
  SetError,      // args[0]: condition; imm: ErrorCode. Raises the error word to (launch id, code)
  If,            // args[0]: condition; blocks: then, optional else
  For,           // args: start, end, step (I32; step > 0); blocks: body; the Val of the For is the
                 // induction variable, visible in the body only. Runs while i < end
};

/// Codes that SetError records; session messages name them. Of several in one launch the largest
/// is reported.
enum class ErrorCode : uint8_t {
  None = 0,
  IndexOutOfRange = 1,  // a data-dependent index left its dimension
  IntegerOverflow = 2,  // an int64 value or result does not fit what the device computes with
  DivisionByZero = 3,
};

struct Inst {
  Op op = Op::Const;
  Type type;  // result; Void for statements
  uint64_t imm = 0;
  InlineList<Val, 4> args;
  InlineList<int32_t, 2> blocks;  // indices into Kernel::blocks
  uint32_t align = 1;             // Load/Store: proven divisor of the index, in elements
};

enum class OpKind : uint8_t {
  Pure,       // a value that depends on the operands alone: may be shared, moved and dropped
  Read,       // a value that depends on memory, or on other invocations: may be dropped
  Statement,  // an effect, or control flow
};
OpKind kind_of(Op op);
inline bool is_pure(Op op) {
  return kind_of(op) == OpKind::Pure;
}
inline bool is_value(Op op) {
  return kind_of(op) != OpKind::Statement;
}

struct Block {
  std::vector<int32_t> insts;
};

enum class Access : uint8_t { Read, Write, ReadWrite };

struct BufferParam {
  std::string name;
  Ty storage = Ty::F32;
  Access access = Access::Read;
  uint32_t align = 16;  // proven alignment of the base address in bytes
};

struct ScalarParam {
  std::string name;
  Ty type = Ty::I32;  // I32, U32 or F32
};

struct LocalVar {
  std::string name;
  Type type;
  uint32_t count = 1;  // >1: array
};

struct SharedArray {
  std::string name;
  Ty type = Ty::F32;
  uint32_t count = 0;
};

/// A matrix that the invocations of a subgroup hold together: an operand of MatrixMulAdd, or its
/// sum. Which invocation holds which element is the device's choice.
enum class MatrixUse : uint8_t { Left, Right, Sum };

struct MatrixVar {
  std::string name;
  MatrixUse use = MatrixUse::Sum;
  Ty type = Ty::F32;  // F16 operands, F32 sums
  uint32_t rows = 0, columns = 0;
};

/// Where a matrix lies in a shared array: element (r, c) at the index plus r * stride + c, or with
/// rows and columns exchanged. Packed into Inst::imm.
struct MatrixAccess {
  uint16_t matrix = 0, shared = 0;
  uint32_t stride = 0;  // below 2^31
  bool by_columns = false;

  uint64_t imm() const {
    return uint64_t{matrix} | uint64_t{shared} << 16U | uint64_t{stride} << 32U |
           uint64_t{by_columns} << 63U;
  }
  static MatrixAccess of(uint64_t imm) {
    return {static_cast<uint16_t>(imm), static_cast<uint16_t>(imm >> 16U),
            static_cast<uint32_t>(imm >> 32U) & 0x7fffffffU, imm >> 63U != 0};
  }
};

/// Operands of MatrixMulAdd, packed likewise.
struct MatrixProduct {
  uint16_t sum = 0, left = 0, right = 0;

  uint64_t imm() const { return uint64_t{sum} | uint64_t{left} << 16U | uint64_t{right} << 32U; }
  static MatrixProduct of(uint64_t imm) {
    return {static_cast<uint16_t>(imm), static_cast<uint16_t>(imm >> 16U),
            static_cast<uint16_t>(imm >> 32U)};
  }
};

struct Kernel {
  std::string name;  // an identifier: [a-z_][a-z0-9_]*
  std::array<uint32_t, 3> workgroup{64, 1, 1};
  std::vector<BufferParam> buffers;
  std::vector<ScalarParam> scalars;
  std::vector<LocalVar> locals;
  std::vector<SharedArray> shared;
  std::vector<MatrixVar> matrices;
  std::vector<Inst> insts;              // indexed by Val
  std::vector<Block> blocks;            // blocks[0] is the body
  uint32_t required_subgroup_size = 0;  // 0: any
};

using plan::BlockLayout;

/// Device features that the kernel uses as it stands.
struct Requirements {
  bool int64 = false, float16 = false, float64 = false, storage8 = false, storage16 = false;
  bool subgroup_arithmetic = false, subgroup_shuffle = false;
  bool subgroup_extended_types = false;  // subgroup operations on I64, U64, F16
  uint32_t subgroup_size = 0;
  MatrixShape matrix;  // of F16 operands and F32 sums
  uint32_t workgroup_invocations = 1;
  uint32_t shared_bytes = 0;
};
Requirements requirements(const Kernel& k);

/// Structure, types, dominance, parameter ranges, alignment, uniform barriers (conservative).
Status verify(const Kernel& k);
/// The same without the last: the interpreter sees divergence when it happens.
Status verify_structure(const Kernel& k);
/// verify() between the steps of the compiler: in Debug builds only, as emission verifies what the
/// steps made in every build.
inline Status verify_in_debug([[maybe_unused]] const Kernel& k) {
#ifdef NDEBUG
  return {};
#else
  return verify(k);
#endif
}

/// Deterministic text for dumps and golden tests.
std::string print(const Kernel& k);

/// Replaces every scalar row that no device has, or has too inexact, by native rows
/// (scalar_ops.def: `expanded`), and float -> integer conversions by saturating ones. Idempotent.
/// Unsupported: F64 transcendentals, which run on the host.
Status expand(Kernel& k);

/// Rewrites a kernel for a device that lacks features (codegen/kernel/legalize.cpp), and expands
/// it: every kernel passes through here before an emitter sees it. int64 -> checked 32-bit (a value
/// that does not fit sets ErrorCode::IntegerOverflow); 8/16-bit storage -> 32-bit words (a Store
/// of less than whole words replaces its bits atomically); fp16 arithmetic -> fp32. Also removes
/// dead instructions.
struct LegalizeFor {
  bool int64 = true, float16 = true, storage8 = true, storage16 = true;
  /// Buffers that are only loaded, of 16-bit elements or four of 8 bits at a time, become words all
  /// the same: for devices that load every element of a vector by itself.
  bool word_loads = false;
};
Status legalize(Kernel& k, const LegalizeFor& target);
/// The target with every feature that the kernel does not use counted as present. legalize() gives
/// the same kernel for both.
LegalizeFor relevant(const LegalizeFor& target, const Kernel& k);

/// Makes scalar loads of neighbouring elements vector loads, where the whole vector lies between
/// elements that the kernel loads anyway (codegen/kernel/coalesce.cpp). The kernel must verify.
Status coalesce_loads(Kernel& k);

/// Drops wraps of 8- and 16-bit integers (Builder::wrap) whose upper bits nothing reads
/// (codegen/kernel/demanded_bits.cpp).
Status drop_wraps(Kernel& k);

/// Local clean-ups that every kernel gets: dead code, common subexpressions within dominance,
/// constant folding of index arithmetic.
void simplify(Kernel& k);

}  // namespace reprise::kernel
