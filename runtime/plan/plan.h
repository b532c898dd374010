// A plan: everything a run does, as data (decision 6). Built by codegen, stored in a package,
// printed by explain, bound to sizes and buffers by runtime/plan/bind.h, recorded by a backend.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/attrs.h"
#include "runtime/base/dtype.h"
#include "runtime/base/expr.h"
#include "runtime/base/id.h"
#include "runtime/base/symbols.h"
#include "runtime/device_facts.h"

namespace reprise::plan {

using BufferId = Id<struct BufferTag>;

enum class BufferKind : uint8_t {
  Input,     // bound by the caller or staged by the session; index into Interface::inputs
  Output,    // likewise; index into Interface::outputs
  Weight,    // immutable after load; index into Plan::weights
  Arena,     // intermediate: placed in the arena by lifetime
  Growable,  // intermediate whose size depends on a data-dependent symbol: an allocation of its own
};

struct Buffer {
  std::string name;  // the model's tensor name
  BufferKind kind = BufferKind::Arena;
  int32_t index = -1;  // for Input, Output, Weight
  DType dtype = DType::F32;
  Shape shape;  // logical shape; bytes = count * size_of(dtype), rounded up to 4
};

/// A model input or output. Shared by all variants of a package.
struct Slot {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
};

struct Interface {
  std::vector<Symbol> symbols;
  std::vector<SymbolSource> sources;  // parallel to symbols
  std::vector<Slot> inputs;
  std::vector<Slot> outputs;
  std::vector<DimGuard> guards;
};

/// A recorded recipe from raw weights to what kernels read; run at load (decision 9).
struct Weight {
  std::string name;      // of the initialiser
  uint32_t segment = 0;  // index of the raw tensor in the package
  enum class Packing : uint8_t { Raw, Tiles } packing = Packing::Raw;
  // Tiles: a logical [batch, K, N] matrix (N contiguous if !transposed, else K), stored as
  // [batch][n / tile_n][k][tile_n], the last n tile padded with zeros.
  int64_t batch = 1, k = 0, n = 0;
  uint32_t tile_n = 0;
  bool transposed = false;
  uint64_t packed_bytes(uint64_t raw_bytes, size_t element) const;
};

struct KernelCode {
  std::string name;  // fused_abs_add_...; unique in its variant
  std::array<uint32_t, 3> workgroup{1, 1, 1};
  uint32_t n_buffers = 0, n_scalars = 0;
  uint32_t shared_bytes = 0;
  uint32_t subgroup_size = 0;    // required; 0: any
  std::vector<uint32_t> spirv;   // Vulkan variants
  std::vector<std::byte> image;  // CUDA variants: cubin, or PTX ending in a zero byte
  std::string cuda;              // what it was compiled from, where that is kept
  /// What the compiler says of a cubin; all zero where it was not asked.
  struct Usage {
    uint32_t registers = 0, spill_bytes = 0, shared_bytes = 0, stack_bytes = 0;
    friend bool operator==(const Usage&, const Usage&) = default;
  } usage;
};

struct Launch {
  uint32_t kernel = 0;             // index into Plan::kernels
  std::array<Expr, 3> grid;        // workgroups; a non-constant grid is dispatched indirectly
  std::vector<BufferId> buffers;   // in the kernel's order
  std::vector<bool> writes;        // parallel to buffers
  std::vector<Expr> scalars;       // each must fit int32 when evaluated
  Expr iterations = 0;             // of all loops of an invocation together, at most
  std::vector<std::string> nodes;  // model nodes that this launch computes, for people
  std::string group;               // name of the fused group in explain
  std::string schedule;            // "pointwise v4 x8", "matmul rows 24x8", ...
};

/// Runs a host kernel (runtime/host) between two recordings.
struct HostCall {
  std::string op;
  std::string node;  // the model's node, for people
  int64_t opset = 0;
  AttrMap attrs;
  std::vector<BufferId> inputs;  // of no buffer: omitted
  std::vector<BufferId> outputs;
  std::string reason;  // why no device kernel took it
};

struct Step {
  std::variant<Launch, HostCall> what;
  std::vector<uint32_t> after;  // steps that must finish before (true hazards, reduced)
  uint32_t level = 0;           // longest path in `after`; steps of equal level are independent
};

struct Plan {
  IdVector<BufferId, Buffer> buffers;
  std::vector<Weight> weights;
  std::vector<KernelCode> kernels;
  std::vector<Step> steps;  // sorted by level
  /// Raw outputs that are inputs, weights or other outputs under another name: copied at the end.
  struct Alias {
    BufferId from, output;
  };
  std::vector<Alias> aliases;
};

/// Deterministic text for explain --verbose and tests.
std::string print(const Plan& p, const Interface& io);
/// None, or words that begin as SPIR-V does.
Status verify_spirv(std::span<const uint32_t> words);
/// Ids in range, steps acyclic and sorted by level, scalar and buffer counts match kernels, shapes
/// use known symbols. Packages are hostile input: everything the executor relies on is checked
/// here.
Status verify(const Plan& p, const Interface& io);

// --- hazards.cpp ---
/// Fills `after` and `level` of every step from the buffers they read and write (each buffer
/// distinct memory) and the symbols that host calls give their values, with transitive edges
/// removed. Steps must be in a valid sequential order. `sources`: of the symbols that the plan
/// uses; without them none is derived. Sorts the steps by level; returns the index of each step
/// after sorting.
std::vector<uint32_t> compute_hazards(Plan& p, std::span<const SymbolSource> sources = {});

// --- arena.cpp ---
struct ArenaItem {
  uint64_t bytes = 0;
  uint32_t first_level = 0, last_level = 0;  // inclusive
};
struct ArenaLayout {
  std::vector<uint64_t> offsets;  // parallel to the items; multiples of `alignment`
  uint64_t bytes = 0;
};
/// Greedy by size, first fit among items whose level ranges overlap. Level ranges that only touch
/// do not share memory, so the barrier between levels covers every reuse and none is added.
ArenaLayout layout_arena(const std::vector<ArenaItem>& items, uint64_t alignment);

}  // namespace reprise::plan
