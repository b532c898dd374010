// Kernel IR: one small structured language in which every kernel is written once, so that all
// backends run the same program. The SPIR-V emitter, the CUDA emitter and the interpreter read it.
// codegen/kernel/semantics.md defines each operation; the interpreter executes these definitions
// and checks their rules.
//
// A kernel is a list of instructions grouped in nested blocks. A Val is the index of the
// instruction that computes it. It is visible in its own block after its definition, and in blocks
// nested there. Mutable state is in locals (per invocation), shared arrays (per workgroup) and
// buffers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/kernel/ir/inline_list.h"
#include "codegen/kernel/ir/matrix_types.h"
#include "codegen/kernel/ir/scalar_ops.h"
#include "runtime/base/dtype.h"
#include "runtime/base/mma_config.h"
#include "runtime/base/status.h"
#include "runtime/base/tensor_view.h"
#include "runtime/plan/block_layout.h"

namespace reprise::kernel {

/// Element types. Arithmetic happens in Bool, I32, U32, I64, F16, F32 and F64; the others are
/// storage types that a Load widens from (I8,I16 -> I32; U8,U16 -> U32; BF16 -> F32) and a Store
/// narrows to.
enum class Ty : uint8_t { Void, Bool, I8, U8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, F64 };
inline constexpr size_t kTypes = 14, kMostLanes = 4;

struct Type {
  Ty ty = Ty::Void;
  uint8_t lanes = 1;  // 1, 2 or 4; 8 or 16 in long vectors
  friend bool operator==(Type, Type) = default;
};
inline constexpr Type kBool{Ty::Bool, 1}, kI32{Ty::I32, 1}, kU32{Ty::U32, 1}, kI64{Ty::I64, 1},
    kF32{Ty::F32, 1}, kF16{Ty::F16, 1};
inline Type vec(Type t, int lanes) {
  return {t.ty, static_cast<uint8_t>(lanes)};
}
/// Whether vectors of this type are only moved between memory and vectors of 4 lanes, their parts
/// (semantics.md).
inline bool is_long(Type t) {
  return t.lanes > 4;
}
inline constexpr int kPartLanes = 4;
inline constexpr int kMostAccessBytes = 16;  // of a long vector in memory
std::string_view name_of(Ty t);
std::string str(Type t);
/// The type that a Load from this storage type produces.
Ty compute_type(Ty storage);
/// Bool is U8 in memory. Lowering compares a loaded U8 with 0.
Ty storage_type(DType t);
inline int byte_size(Ty t) {
  switch (t) {
    case Ty::Void:
      return 0;
    case Ty::Bool:
    case Ty::I8:
    case Ty::U8:
      return 1;
    case Ty::I16:
    case Ty::U16:
    case Ty::F16:
    case Ty::BF16:
      return 2;
    case Ty::I32:
    case Ty::U32:
    case Ty::F32:
      return 4;
    case Ty::I64:
    case Ty::U64:
    case Ty::F64:
      return 8;
  }
  return 0;
}
/// The TypeClass bit of a compute type; 0 for a type without arithmetic.
inline uint8_t class_of(Ty t) {
  switch (t) {
    case Ty::Bool:
      return kBoolean;
    case Ty::I32:
    case Ty::I64:
      return kSigned;
    case Ty::U32:
    case Ty::U64:
      return kUnsigned;
    case Ty::F16:
    case Ty::F32:
    case Ty::F64:
      return kFloat;
    case Ty::Void:
    case Ty::I8:
    case Ty::U8:
    case Ty::I16:
    case Ty::U16:
    case Ty::BF16:
      return 0;
  }
  return 0;
}

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
  SubgroupLane,   // U32; requires subgroup facts
  SubgroupSize,   // U32
  SubgroupIndex,  // index of the subgroup in its workgroup. U32
  TeamIndex,      // index of the team in its workgroup. U32
  ClusterRank,    // index of the workgroup in its cluster. U32
};

enum class SubgroupOp : uint8_t { Add, Max, Min, Shuffle, ShuffleXor, Broadcast };

enum class Op : uint8_t {
  Const,  // imm: bits of the scalar; splat over lanes
  Param,  // imm: index of a scalar parameter. U32 or I32 or F32. args[0], only if Kernel::items is
          // not 1: whose item's parameter
  Builtin,  // imm: Builtin | component << 8
  Scalar,   // imm: ScalarOp; args: operands of equal lanes
  Convert,  // args[0]: value; semantics.md has the table (float -> int truncates and saturates, NaN
            // -> 0). imm 1: the value is proven to be in range (and exact for F16): no checks
  Bitcast,  // same total size
  Compose,  // args: lanes scalars; of a long vector, its parts
  Extract,  // args[0]: vector; imm: lane; of a long vector, the first lane of a part
  Load,  // args[0]: index (I32 or U32, in elements of the buffer's storage type); imm: buffer param
  Store,  // args[0]: index, args[1]: value; imm: buffer param. Vector access: `lanes` consecutive
          // elements; the index is proven a multiple of Inst::align elements. args[2] (optional,
          // U32 buffers only): mask of the bits to replace; other invocations may replace others
  LocalLoad,    // imm: local; args[0] (optional): element index for arrays
  LocalStore,   // imm: local; args[0]: value; args[1] (optional): element index
  SharedLoad,   // imm: shared array; args[0]: index in elements; type may be a vector (aligned
                // index). args[1] (optional, I32): the rank of the workgroup whose array it is
  SharedStore,  // imm: shared array; args[0]: index; args[1]: value
  AsyncCopy,   // imm: CopyAccess; args[0]: index in the buffer; args[1]: index in the shared array;
               // args[2]: how many of the elements exist (I32). The others become 0
  CopyCommit,  // closes a group of this invocation's copies
  CopyWait,    // imm: waits until at most so many groups of this invocation are unfinished
  Barrier,     // execution and shared-memory barrier; uniform control flow only. imm: BarrierScope
  Roles,       // blocks: one for each of Kernel::roles, which their subgroups run. Nothing follows
  BoxCopy,     // imm: BoxAccess; args[0]: index in the shared array; args[1]: of the signal;
               // args[2]: the box's first coordinates (I32; lanes beyond the view's rank are 0).
               // Elements outside the view become 0. Once for the subgroup
               // BoxAccess::ranks: to these workgroups of the cluster, counting at their signals
  BoxStore,    // imm: BoxAccess without a signal; args[0]: index in the shared array; args[1]: the
               // box's first coordinates. Elements outside the view are dropped. Once for the
               // subgroup
  BoxDrain,    // imm: waits until at most so many stores of boxes of the subgroup are unfinished
  Arrive,      // imm: signal; args[0]: its index; args[1] (optional, I32): the rank of the
               // workgroup whose signal it is. Once for the subgroup
  Await,       // imm: signal; args[0]: its index; args[1]: parity (I32). Until a phase of that
               // parity has completed, and the next one has not
  MatrixZero,  // imm: matrix. Every element becomes 0
  MatrixLoad,  // imm: MatrixAccess; args[0]: index of element (0, 0) in the shared array
  MatrixStore,    // imm: MatrixAccess; args[0]: the same
  MatrixMulAdd,   // imm: MatrixOperands. sum += left * right
  MatrixGet,      // imm: HeldElement, of this invocation. F32
  MatrixSet,      // imm: HeldElement; args[0]: its new value
  MatrixConvert,  // imm: MatrixConversion. left = columns of sum, rounded to nearest even
  TeamMulAdd,     // imm: TeamOperands; args: indices of the first elements of left (unless a matrix
               // holds it) and right in their shared arrays. sums += left * right, asynchronously
  MatrixCommit,   // closes a group of the team's asynchronous multiplications
  MatrixAwait,    // imm: waits until at most so many groups of the team are unfinished
  Subgroup,       // imm: SubgroupOp; args[0]: value; args[1]: lane or mask (constant for Broadcast)
  SelectItem,     // args[0]: item (I32), the same in the whole workgroup. Once, at the top level,
                  // before the first Load or Store: these access the buffers of this item
  AwaitLaunches,  // waits until earlier launches of the run have ended, whose kernels this one need
                  // not wait for to begin. Once, in the body, before the first access to a buffer
  SetError,       // args[0]: condition; imm: ErrorCode. Raises the error word to (launch id, code)
  NoError,        // whether no earlier launch of the run has raised the error word. Bool. Only in
                  // kernels without SetError, so it is the same in the whole launch
  If,             // args[0]: condition; blocks: then, optional else
  For,            // args: start, end, step (I32; step > 0); blocks: body; the Val of the For is the
                  // induction variable, visible in the body only. Runs while i < end
};

/// Codes that SetError records. If a launch records several, the largest is reported; messages of
/// the session name it.
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
  /// Load, Store, AsyncCopy, BoxCopy, BoxStore, MatrixLoad and MatrixStore: proven divisor of
  /// indices, in elements.
  uint32_t align = 1;
};

enum class OpKind : uint8_t {
  Pure,       // a value that depends only on the operands; may be shared, moved and dropped
  Read,       // a value that depends on memory or on other invocations; may be dropped
  Statement,  // an effect, or control flow
};
inline OpKind kind_of(Op op) {
  switch (op) {
    case Op::Const:
    case Op::Param:
    case Op::Builtin:
    case Op::Scalar:
    case Op::Convert:
    case Op::Bitcast:
    case Op::Compose:
    case Op::Extract:
      return OpKind::Pure;
    case Op::Load:
    case Op::LocalLoad:
    case Op::SharedLoad:
    case Op::MatrixGet:
    case Op::Subgroup:
    case Op::NoError:
      return OpKind::Read;
    case Op::Store:
    case Op::LocalStore:
    case Op::SharedStore:
    case Op::AsyncCopy:
    case Op::CopyCommit:
    case Op::CopyWait:
    case Op::Barrier:
    case Op::MatrixZero:
    case Op::MatrixLoad:
    case Op::MatrixStore:
    case Op::MatrixMulAdd:
    case Op::MatrixSet:
    case Op::MatrixConvert:
    case Op::TeamMulAdd:
    case Op::MatrixCommit:
    case Op::MatrixAwait:
    case Op::Roles:
    case Op::BoxCopy:
    case Op::BoxStore:
    case Op::BoxDrain:
    case Op::Arrive:
    case Op::Await:
    case Op::SelectItem:
    case Op::AwaitLaunches:
    case Op::SetError:
    case Op::If:
    case Op::For:
      return OpKind::Statement;
  }
  return OpKind::Statement;
}
inline bool is_pure(Op op) {
  return kind_of(op) == OpKind::Pure;
}
inline bool is_value(Op op) {
  return kind_of(op) != OpKind::Statement;
}
/// Whether the instruction itself accesses what launches share: a buffer, or the error word.
inline bool accesses_buffers(Op op) {
  return op == Op::Load || op == Op::Store || op == Op::AsyncCopy || op == Op::BoxCopy ||
         op == Op::BoxStore || op == Op::SetError || op == Op::NoError;
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
  friend bool operator==(const BufferParam&, const BufferParam&) = default;
};

struct ScalarParam {
  std::string name;
  Ty type = Ty::I32;  // I32, U32 or F32
  friend bool operator==(const ScalarParam&, const ScalarParam&) = default;
};

struct LocalVar {
  std::string name;
  Type type;
  uint32_t count = 1;  // >1: array
};

using reprise::Swizzle;

struct SharedArray {
  std::string name;
  Ty type = Ty::F32;  // of numbers: a compute type or BF16
  uint32_t count = 0;
  /// Where elements lie, for what reads many lines at once. Only boxes, TeamMulAdd and, in roles,
  /// SharedStores of 16 bytes access an array that has one; indices count elements as if there were
  /// none.
  Swizzle swizzle = Swizzle::None;
};

/// A tensor in a buffer. BoxCopy brings boxes of it to shared memory, BoxStore fills them from
/// there.
struct View {
  std::string name;
  TensorView tensor;
  friend bool operator==(const View&, const View&) = default;
};

/// `count` counters of shared memory, by which subgroups and copies tell others that they are done.
/// A phase of one completes when subgroups have arrived `arrivals` times, and the bytes of all
/// copies that name it have landed; then the next one begins. The first one has parity 0.
struct Signal {
  std::string name;
  uint32_t count = 1, arrivals = 1;
  friend bool operator==(const Signal&, const Signal&) = default;
};

/// Whether an instruction accesses the shared memory of another workgroup, and which of its
/// arguments is that workgroup's rank.
inline bool is_remote(const Inst& i) {
  return (i.op == Op::SharedLoad || i.op == Op::Arrive) && i.args.size() == 2;
}
inline constexpr size_t kRemoteRank = 1;
inline constexpr uint32_t kMostCluster = 8;  // workgroups that every device with clusters has

/// The subgroups of a team hold its matrices together.
inline constexpr uint32_t kTeamSubgroups = 4;

/// What some teams of a workgroup do: teams follow one another in the order of the roles. Only the
/// first `subgroups` of a role run its block.
struct Role {
  std::string name;
  uint32_t teams = 1, subgroups = kTeamSubgroups;
  uint32_t registers = 0;  // of an invocation, for devices that divide them; 0: as they were
  friend bool operator==(const Role&, const Role&) = default;
};

enum class BarrierScope : uint8_t { Workgroup, Team, Cluster };

/// A cooperative matrix, which the invocations of a subgroup hold together: an operand of
/// MatrixMulAdd, or its sum; or those of a workgroup, the same; or those of a team: sums and left
/// operands of TeamMulAdd. The device decides which invocation holds which element, unless the
/// kernel names elements (HeldPlaces).
enum class MatrixUse : uint8_t { Left, Right, Sum };

struct MatrixVar {
  std::string name;
  MatrixUse use = MatrixUse::Sum;
  Ty type = Ty::F32;  // F16, BF16 or F32 operands, F32 sums
  uint32_t rows = 0, columns = 0;
  MmaScope scope = MmaScope::Subgroup;
};

/// The operands of a BoxCopy, or but for the signal and the ranks of a BoxStore, packed into
/// Inst::imm.
struct BoxAccess {
  uint16_t view = 0, shared = 0, signal = 0;
  uint16_t ranks = 0;  // bit r: the workgroup of rank r gets the box; 0: only this workgroup

  uint64_t imm() const {
    return uint64_t{view} | uint64_t{shared} << 16U | uint64_t{signal} << 32U |
           uint64_t{ranks} << 48U;
  }
  static BoxAccess of(uint64_t imm) {
    return {static_cast<uint16_t>(imm), static_cast<uint16_t>(imm >> 16U),
            static_cast<uint16_t>(imm >> 32U), static_cast<uint16_t>(imm >> 48U)};
  }
};

/// An asynchronous copy of `lanes` consecutive elements (4, 8 or 16 bytes) from a buffer to a
/// shared array of the same type. Both indices are multiples of Inst::align. Packed into Inst::imm.
struct CopyAccess {
  uint16_t buffer = 0, shared = 0;
  uint8_t lanes = 1;

  uint64_t imm() const {
    return uint64_t{buffer} | uint64_t{shared} << 16U | uint64_t{lanes} << 32U;
  }
  static CopyAccess of(uint64_t imm) {
    return {static_cast<uint16_t>(imm), static_cast<uint16_t>(imm >> 16U),
            static_cast<uint8_t>(imm >> 32U)};
  }
};

/// Where a matrix lies in a shared array: element (r, c) is at index + r * stride + c or, if
/// `by_columns`, at index + c * stride + r. Packed into Inst::imm.
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

/// The matrices of a MatrixMulAdd, packed into Inst::imm.
struct MatrixOperands {
  uint16_t sum = 0, left = 0, right = 0;

  uint64_t imm() const { return uint64_t{sum} | uint64_t{left} << 16U | uint64_t{right} << 32U; }
  static MatrixOperands of(uint64_t imm) {
    return {static_cast<uint16_t>(imm), static_cast<uint16_t>(imm >> 16U),
            static_cast<uint16_t>(imm >> 32U)};
  }
};

/// An operand of a TeamMulAdd in a swizzled shared array, whose lines have the swizzle's span.
/// Element (i, k), where i counts rows of left or columns of right, is at
///   index + i * line + k                                          if `along_k`, else at
///   index + i / line * group * 1024 bytes + k * line + i % line
struct TeamOperand {
  uint16_t shared = 0;  // below 2^10
  bool along_k = true;
  uint16_t group = 0;  // below 2^8
};

/// The matrices of a TeamMulAdd, packed into Inst::imm: `count` sums from `sum` on lie side by
/// side. If `held`, left is the matrix of that number instead of a shared array.
struct TeamOperands {
  uint16_t sum = 0;   // below 2^12
  uint8_t count = 1;  // below 2^6
  TeamOperand left, right;
  bool held = false;

  static constexpr uint32_t kRows = 64;   // of the sums
  static constexpr uint32_t kBytes = 32;  // along k: so many bytes of each line are multiplied
  uint64_t imm() const {
    const auto pack = [](const TeamOperand& o) {
      return uint64_t{o.shared} | uint64_t{o.along_k} << 10U | uint64_t{o.group} << 11U;
    };
    return uint64_t{sum} | uint64_t{count} << 12U | uint64_t{held} << 18U | pack(left) << 20U |
           pack(right) << 42U;
  }
  static TeamOperands of(uint64_t imm) {
    const auto unpack = [](uint64_t bits) {
      return TeamOperand{static_cast<uint16_t>(bits & 0x3ffU), (bits >> 10U & 1U) != 0,
                         static_cast<uint16_t>(bits >> 11U & 0x1ffU)};
    };
    return {static_cast<uint16_t>(imm & 0xfffU), static_cast<uint8_t>(imm >> 12U & 0x3fU),
            unpack(imm >> 20U), unpack(imm >> 42U), (imm >> 18U & 1U) != 0};
  }
};

/// The work of a persistent kernel, by scalars: workgroup (or cluster) w does the units w, w +
/// groups, ... below `end`. With other values it does others of these units, and nothing else
/// changes.
struct Units {
  uint32_t end = 0, groups = 0;
};

/// The matrix that an instruction reads or writes: the sum of products and conversions.
inline size_t matrix_of(const Inst& i) {
  switch (i.op) {
    case Op::MatrixMulAdd:
      return MatrixOperands::of(i.imm).sum;
    case Op::MatrixGet:
    case Op::MatrixSet:
      return HeldElement::of(i.imm).matrix;
    case Op::MatrixConvert:
      return MatrixConversion::of(i.imm).sum;
    case Op::MatrixLoad:
    case Op::MatrixStore:
      return MatrixAccess::of(i.imm).matrix;
    default:  // MatrixZero
      return i.imm;
  }
}

struct Kernel {
  std::string name;  // an identifier: [a-z_][a-z0-9_]*
  /// A kernel of several items does the same work on the buffers and scalars of each. `buffers` and
  /// `scalars` are those of the first item, followed by equal ones of the others; instructions name
  /// those of the first item.
  uint32_t items = 1;
  std::array<uint32_t, 3> workgroup{64, 1, 1};
  /// So many workgroups, which follow one another along x, run at the same time and reach each
  /// other's shared memory. The grid has whole clusters.
  uint32_t cluster = 1;
  std::vector<BufferParam> buffers;
  std::vector<ScalarParam> scalars;
  std::vector<LocalVar> locals;
  std::vector<SharedArray> shared;
  std::vector<MatrixVar> matrices;
  std::vector<View> views;
  std::vector<Signal> signals;
  std::vector<Role> roles;
  std::optional<Units> units;           // of a persistent kernel
  std::vector<Inst> insts;              // indexed by Val
  std::vector<Block> blocks;            // blocks[0] is the body
  uint32_t required_subgroup_size = 0;  // 0: any

  /// How many buffers and scalars an item has.
  size_t item_buffers() const { return buffers.size() / items; }
  size_t item_scalars() const { return scalars.size() / items; }
};

using plan::BlockLayout;

/// Device features that the kernel uses in its present form.
struct Requirements {
  bool int64 = false, float16 = false, float64 = false, storage8 = false, storage16 = false;
  bool subgroup_arithmetic = false, subgroup_shuffle = false;
  bool subgroup_extended_types = false;  // subgroup operations on I64, U64, F16
  bool async_copies = false;
  bool matrix_elements = false;  // named, converted or stored as narrower ones
  bool exact_halves = false;     // conversions to F16 that the device rounds to nearest even
  bool early = false;            // it has an AwaitLaunches
  uint32_t subgroup_size = 0;
  MmaConfig matrix;  // all matrices of a kernel are of one
  uint32_t views = 0;
  uint32_t cluster = 1;
  uint32_t workgroup_invocations = 1;
  uint32_t shared_bytes = 0;
};
Requirements requirements(const Kernel& k);
/// Whether an instruction converts a float to F16, and its value may have to be rounded.
inline bool rounds_to_half(const Kernel& k, const Inst& i) {
  return i.op == Op::Convert && i.type.ty == Ty::F16 && i.imm == 0 &&
         class_of(k.insts[static_cast<size_t>(i.args[0].id)].type.ty) == kFloat;
}

/// Checks structure, types, dominance, parameter ranges, alignment and, conservatively, that
/// barriers are uniform.
Status verify(const Kernel& k);
/// The same without uniform barriers. The interpreter detects divergence when it happens.
Status verify_structure(const Kernel& k);
/// verify() between the steps of the compiler, in Debug builds only: emission verifies the final
/// kernel in every build.
inline Status verify_in_debug([[maybe_unused]] const Kernel& k) {
#ifdef NDEBUG
  return {};
#else
  return verify(k);
#endif
}

/// Deterministic text for dumps and golden tests.
std::string print(const Kernel& k);

struct LegalizeFor;

/// Replaces scalar rows that devices lack or compute too inexactly by native rows (scalar_ops.def:
/// `expanded`), and float -> integer conversions by saturating ones. What an exact target has
/// (`exact` and `exact_halves` of LegalizeFor) stays. Idempotent.
Status expand(Kernel& k, const LegalizeFor& target);
Status expand(Kernel& k);
/// Expands the powers of 64-bit integers alone, so that their products can be checked one by one.
Status expand_wide_powers(Kernel& k);

/// The features of a target for which legalize() rewrites a kernel.
struct LegalizeFor {
  bool int64 = true, float16 = true, storage8 = true, storage16 = true;
  /// Buffers that are only loaded, as 16-bit elements or as four 8-bit elements at a time, become
  /// buffers of words even if the device has small storage types: for devices that load each
  /// element of a vector separately.
  bool word_loads = false;
  /// The arithmetic of F32 is that of IEEE 754: conversions round to nearest even, FusedFma rounds
  /// once, and rows that CUDA has a function for need no expansion.
  bool exact = false;
  /// With `float16`: conversions to F16 round to nearest even and keep subnormal numbers, and are
  /// used for halves that are only stored. Others are computed from the bits of the F32.
  bool exact_halves = false;
  /// The emitter has long vectors. Without them, buffers that are accessed in whole words become
  /// buffers of words, and other accesses are split into parts.
  bool long_vectors = true;
  /// Neighbouring accesses of 4 narrow elements are joined to accesses of 16 bytes first.
  bool joins_accesses = false;
};
/// Rewrites a kernel for a device that lacks features (codegen/kernel/legal/legalize.cpp), and
/// expands it. Every kernel passes through this before it is emitted. int64 becomes checked 32-bit
/// (a value that does not fit sets ErrorCode::IntegerOverflow), 8- and 16-bit storage becomes
/// 32-bit words (a Store that does not cover whole words replaces its bits atomically), and fp16
/// arithmetic becomes fp32. Also removes dead instructions.
Status legalize(Kernel& k, const LegalizeFor& target);
/// The target plus every feature that the kernel does not use. legalize() gives the same kernel for
/// both.
LegalizeFor relevant(const LegalizeFor& target, const Kernel& k);

/// Combines scalar loads of neighbouring elements into vector loads, if the whole vector lies
/// between elements that the kernel loads anyway (codegen/kernel/legal/coalesce.cpp). The kernel
/// must verify.
Status coalesce_loads(Kernel& k);

/// Joins loads and stores of neighbouring vectors of 4 narrow elements to such of long vectors
/// (codegen/kernel/legal/join_accesses.cpp).
Status join_accesses(Kernel& k);

/// Lets a kernel begin before the launches that its own follows have ended: it awaits them as late
/// as it can (codegen/kernel/legal/early.cpp). Not for kernels that do so already.
void begin_early(Kernel& k);

/// Removes wraps of 8- and 16-bit integers (Builder::wrap) whose upper bits nothing reads
/// (codegen/kernel/legal/demanded_bits.cpp).
Status drop_wraps(Kernel& k);

/// Eliminates dead code and common subexpressions, and folds constants.
void simplify(Kernel& k);

}  // namespace reprise::kernel
