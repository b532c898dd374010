// A plan describes everything that a run does, as data: codegen builds it, a package stores it,
// explain prints it, runtime/plan/bind.h binds it to sizes and buffers, and a backend records it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/id.h"
#include "runtime/base/image_format.h"
#include "runtime/base/tensor_view.h"
#include "runtime/expr/expr.h"
#include "runtime/expr/symbols.h"
#include "runtime/facts/device_facts.h"
#include "runtime/operators/attrs.h"
#include "runtime/plan/packing.h"

namespace reprise::plan {

using BufferId = Id<struct BufferTag>;

enum class BufferKind : uint8_t {
  Input,     // bound by the caller or staged by the session; index into Interface::inputs
  Output,    // likewise; index into Interface::outputs
  Weight,    // immutable after loading; index into Plan::weights
  Arena,     // intermediate, placed in the arena by its lifetime
  Growable,  // intermediate with a data-dependent size, in its own allocation
  // What the session keeps from run to run; index into Interface::states. A launch that writes it
  // updates it in place: steps before that launch read the old value, steps after it the next one.
  State,
  NextState,  // the next value of a state that no launch updates in place; likewise
  // Of a state that grows, in plans for devices, where the rows are the first axis: State has the
  // rows before the run, NewRows is the memory behind them, to which a launch appends, and AllRows
  // are both. They are one resource for hazards. Likewise.
  NewRows,
  AllRows,
};

struct Buffer {
  std::string name;  // the model's tensor name
  BufferKind kind = BufferKind::Arena;
  int32_t index = -1;  // for all kinds but Arena and Growable
  DType dtype = DType::F32;
  Shape shape;  // in elements; the buffer has count * size_of(dtype) bytes, rounded up to 4
};

/// A model input or output. Shared by all variants of a package.
struct Slot {
  static constexpr uint32_t kNone = ~uint32_t{0};

  std::string name;
  DType dtype = DType::F32;
  Shape shape;
  ImageFormat image = ImageFormat::None;  // if it is an image: the format of its pixels
  std::string processing = {};            // of the pixels, for people
  /// Index of a raw tensor in the package: the first value of a state, or the value of an input in
  /// runs that leave it out.
  uint32_t initial = kNone;
  /// The elements that an input of integers must have, because they were known to the compiler.
  /// Empty: any.
  std::vector<int64_t> expected = {};
};

/// A tensor that a session keeps: each run reads it and gives it its next value. Its size is fixed,
/// or it grows: it begins without rows along one axis, and each run appends some.
struct StateSlot : Slot {
  static constexpr uint32_t kZeros = kNone;  // `initial` of a state that begins with zeros

  int32_t axis = -1;      // along which it grows; -1: its size is fixed
  Expr length_after = 0;  // how many rows it has after a run; its shape has those before

  bool grows() const { return axis >= 0; }
  /// The shape in memory of devices, with this many rows.
  Shape rows_first(const Expr& rows) const {
    Shape out{rows};
    for (size_t a = 0; a < shape.size(); ++a)
      if (static_cast<int32_t>(a) != axis) out.push_back(shape[a]);
    return out;
  }
};

/// The inputs, outputs and states of a model, and the symbols in their shapes.
struct Interface {
  std::vector<Symbol> symbols;
  std::vector<SymbolSource> sources;  // parallel to symbols
  std::vector<Slot> inputs;
  std::vector<Slot> outputs;
  std::vector<StateSlot> states;
  std::vector<DimGuard> guards;
};

/// A recipe that packs a raw weight into the form that kernels read. A session runs it when it
/// loads the package, so that variants with different packings share the raw weights.
struct Weight {
  std::string name;      // of the initialiser
  uint32_t segment = 0;  // index of the raw tensor in the package
  Packing packing = {};
};

/// A kernel as a driver takes it.
struct KernelCode {
  std::string name;  // fused_abs_add_...; unique in its variant
  std::array<uint32_t, 3> workgroup{1, 1, 1};
  uint32_t n_buffers = 0, n_scalars = 0;
  std::vector<TensorView> views;
  uint32_t shared_bytes = 0;
  uint32_t subgroup_size = 0;    // required size; 0: any
  bool early = false;            // awaits the launches before it itself, before it accesses memory
  bool in_pieces = false;        // a session cuts its launches; packages do not store this
  std::vector<uint32_t> spirv;   // Vulkan variants
  std::vector<std::byte> image;  // CUDA variants: cubin, or PTX ending in a zero byte
  std::string cuda;              // the text that the image was compiled from, if it is kept
  /// What the CUDA compiler reports about a cubin; all zero if unknown.
  struct Usage {
    uint32_t registers = 0, spill_bytes = 0, shared_bytes = 0, stack_bytes = 0;
    friend bool operator==(const Usage&, const Usage&) = default;
  } usage;
};

/// One kernel with its buffers, scalars and grid.
struct Launch {
  uint32_t kernel = 0;            // index into Plan::kernels
  std::array<Expr, 3> grid;       // workgroups; a non-constant grid is dispatched indirectly
  std::vector<BufferId> buffers;  // in the kernel's order
  std::vector<bool> writes;       // parallel to buffers
  std::vector<Expr> scalars;      // each must fit int32 when evaluated
  Expr iterations = 0;            // upper bound for all loops of an invocation together
  bool checks = false;            // its kernel may record an error
  // Its kernel does nothing once an error of the run is recorded, and runs after all steps that may
  // fail: such a launch updates states.
  bool commits = false;
  std::vector<std::string> nodes;  // model nodes that this launch computes, for people
  std::string group;               // name of the fused group, for explain
  std::string schedule;            // "pointwise v4 x8", "matmul rows 24x8", ...
};

/// A call of a host kernel (runtime/host) between two recordings.
struct HostCall {
  std::string op;
  std::string node;  // the model's node, for people
  int64_t opset = 0;
  AttrMap attrs;
  std::vector<BufferId> inputs;  // of no buffer: omitted
  std::vector<BufferId> outputs;
  std::string reason;  // why no device kernel computes it
  /// Indices into Package::bodies: the branches of If (then, else), the body of Loop or Scan.
  std::vector<uint32_t> bodies;
  /// The same bodies for the variant's devices: indices into Variant::bodies. Empty if the host
  /// runs the bodies; then `reason` says why.
  std::vector<uint32_t> device_bodies;
};

struct Step {
  std::variant<Launch, HostCall> what;
  std::vector<uint32_t> after;  // steps that must finish first; transitively reduced
  uint32_t level = 0;           // length of the longest path of `after`; steps of one level are
                                // independent
};

struct Plan {
  IdVector<BufferId, Buffer> buffers;
  std::vector<Weight> weights;
  std::vector<KernelCode> kernels;
  std::vector<Step> steps;  // sorted by level
  /// An output or next state that is an input, a state, a weight or another output under another
  /// name. The session copies it at the end of a run.
  struct Alias {
    BufferId from, output;
  };
  std::vector<Alias> aliases;
};

/// A body of If, Loop or Scan: a plan of host calls that a host call runs, perhaps many times.
struct Body {
  std::string name;  // for people: "then_branch of node 'n'"
  /// The inputs are those that the operator passes, then the values that the body captures.
  Interface io;
  std::vector<uint32_t> captures;  // for each captured value: the input of the call that it is
  /// The first symbols are those of the caller, which have the caller's values when the body
  /// starts.
  size_t inherited_symbols = 0;
  Plan plan;
};

/// Deterministic text for explain --verbose and tests.
std::string print(const Plan& p, const Interface& io);
/// Accepts an empty list, and words that begin like a SPIR-V module.
Status verify_spirv(std::span<const uint32_t> words);
/// Checks everything that a session relies on, because packages are untrusted: ids are in range,
/// steps are acyclic and sorted by level, the numbers of scalars and buffers match the kernels, and
/// shapes use known symbols.
Status verify(const Plan& p, const Interface& io);

// --- hazards.cpp ---
/// Computes `after` and `level` of every step from the buffers that steps read and write and the
/// symbols whose values host calls provide, and from what commits. Each buffer counts as distinct
/// memory. Transitive edges are removed. The steps must be in a valid sequential order; they are
/// then sorted by level. Returns the new index of each step. `sources` are those of the symbols
/// that the plan uses; without them, no symbol counts as derived.
std::vector<uint32_t> compute_hazards(Plan& p, std::span<const SymbolSource> sources = {});

// --- arena.cpp ---
/// A tensor to place in an arena.
struct ArenaItem {
  uint64_t bytes = 0;
  uint32_t first_level = 0, last_level = 0;  // inclusive
};
struct ArenaLayout {
  std::vector<uint64_t> offsets;  // parallel to the items, in bytes; multiples of `alignment`
  uint64_t bytes = 0;             // of the arena
};
/// Places items greedily by descending size, each at the first offset that is free among the items
/// whose level ranges overlap its own. The ranges are inclusive, so items that share memory never
/// use the same level, and the barriers between levels order every reuse.
ArenaLayout layout_arena(const std::vector<ArenaItem>& items, uint64_t alignment);

}  // namespace reprise::plan
