// PTX as a program: what the text says, decoded. Written from NVIDIA's "Parallel Thread Execution
// ISA"; shares nothing with codegen/emit, so that each checks the other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace reprise::test::ptx {

class Warp;

enum class Type : uint8_t {
  Pred,
  B8,
  B16,
  B32,
  B64,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  F16,
  BF16,
  F32,
  F64
};
/// Shared: of the workgroup; Cluster: of any workgroup of its cluster.
enum class Space : uint8_t { Generic, Param, Global, Shared, Local, Cluster };
enum class Rounding : uint8_t { Nearest, Zero, Down, Up };

/// In bytes; a predicate is no memory.
uint32_t size_of(Type t);
/// "f32"; false if it names no type.
bool type_named(std::string_view name, Type& out);

/// How lanes meet at an instruction.
enum class Flow : uint8_t {
  Plain,
  Branch,
  Exit,
  Barrier,  // of all lanes of the warp, for the workgroup
  Named,    // executed once the lanes of its membermask have arrived
  Aligned,  // executed by all lanes of the warp together
};

struct Instruction;
/// Executes an instruction for the lanes of `mask`.
using Handler = void (*)(Warp&, const Instruction&, uint32_t mask);

/// Operands are slots of registers. Numbers, addresses of variables and special registers have
/// slots of their own, which are filled before a warp starts.
struct Instruction {
  static constexpr uint32_t kNone = ~0U;

  Handler run = nullptr;
  Flow flow = Flow::Plain;
  uint32_t line = 0;                // of the text
  uint32_t guard = kNone;           // the predicate
  bool unless = false;              // executed where the guard is false
  std::vector<uint32_t> to, from;   // destinations (kNone: "_"), sources; an address is a source
  std::array<int64_t, 3> offset{};  // of the addresses
  uint32_t target = 0;              // of a branch
  Type type = Type::B32, source_type = Type::B32;
  Space space = Space::Generic, source_space = Space::Generic;
  Rounding rounding = Rounding::Nearest;
  bool flush = false, saturate = false, transposed = false;
  uint32_t number = 0;  // what else it says: a kind, a size
  uint32_t member = 0;  // the source that is the membermask
  // Of a load: the bytes that the program uses. The compiler may make one load of three elements
  // and a fourth that lies beyond the buffer (.pragma "used_bytes_mask").
  uint64_t used_bytes = ~uint64_t{0};
  uint32_t width = 8;               // bytes of the first destination
  bool moves = false;               // a register to another
  bool multiplies = false;          // wgmma.mma_async, whose registers are busy until it is awaited
  std::array<uint8_t, 4> detail{};  // what a family needs besides
  // The compiler makes vectors of which a part has no value, and takes the others from them.
  bool takes_undefined = false;
};

enum class Special : uint8_t {
  Tid,
  Ntid,
  Ctaid,
  Nctaid,
  Lane,
  Warp,
  Warps,
  MaskEq,
  MaskLt,
  MaskLe,
  MaskGt,
  MaskGe,
  ClusterId,  // of the cluster among clusters
  Clusters,
  ClusterPlace,  // of the workgroup in its cluster
  ClusterSize,
  ClusterRank,  // the same as one number
  ClusterGroups,
  ClusterNamed  // whether the text says how large a cluster is
};

struct Entry {
  struct Constant {
    uint32_t slot;
    uint64_t bits;
  };
  struct SpecialSlot {
    uint32_t slot;
    Special which;
    uint32_t component;
  };
  std::string name;
  std::vector<Instruction> code;
  uint32_t slots = 0;
  std::vector<Constant> constants;
  std::vector<SpecialSlot> specials;
  uint32_t shared_bytes = 0, local_bytes = 0, param_bytes = 0;
  uint32_t most_threads = 1024;
  // Of .maxntid or .reqntid, .minnctapersm and .maxnreg; 0: not there.
  uint32_t bound_threads = 0, bound_groups = 0, bound_registers = 0;
  std::array<uint32_t, 3> cluster{};  // of .reqnctapercluster, in workgroups; 0: not there
  uint32_t most_rank = 0;             // of .maxclusterrank; 0: not there
  bool multiplies = false;            // it has a wgmma.mma_async
};

struct Program {
  std::map<std::string, Entry> entries;
  std::vector<std::byte> data;  // tables of the module
};

/// Decodes a module. An error names the line and what in it is not known.
Result<Program> parse(std::string_view text);

/// Addresses of tables of the module, and where spaces lie among generic addresses.
constexpr uint64_t kDataWindow = uint64_t{1} << 44, kSharedWindow = uint64_t{2} << 44,
                   kLocalWindow = uint64_t{3} << 44, kParamWindow = uint64_t{4} << 44;

/// Shared memory of the workgroup of a rank begins at rank + 1 of these in the window of its
/// cluster; its own begins at 0. An address in it thus never is right by chance elsewhere.
constexpr uint32_t kRankShift = 24;

}  // namespace reprise::test::ptx
