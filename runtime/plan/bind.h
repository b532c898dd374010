// Binds a plan to sizes: values of symbols, bytes of buffers, arena placement, parameter blocks,
// indirect grids, and the division of the plan into recordings. All functions are pure functions of
// a verified plan and need no device.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/tensor.h"
#include "runtime/plan/block_layout.h"
#include "runtime/plan/plan.h"

namespace reprise::plan {

/// The value of a symbol that a host call has not determined yet.
inline constexpr int64_t kUnbound = std::numeric_limits<int64_t>::min();
inline constexpr uint64_t kNone = ~uint64_t{0};
/// The alignment of every buffer and parameter block, in bytes.
inline constexpr uint64_t kBufferAlignment = 64;
/// That of parameter blocks on devices without buffer addresses: the most that Vulkan permits
/// devices to require of uniform blocks.
inline constexpr uint64_t kDescriptorAlignment = 256;

/// The bytes to allocate for a tensor of `bytes` bytes. Empty tensors need memory as well: a masked
/// load reads from a clamped position, which must exist, and its result is ignored.
constexpr uint64_t readable_bytes(uint64_t bytes) {
  return bytes < 16 ? 16 : bytes;
}

/// Computes the values of all symbols from the dims of the inputs (parallel to io.inputs) and the
/// lengths of the states (parallel to io.states; empty if none grows). Checks
/// ranges, divisors, guards and every dim of every input. Symbols that depend on host calls stay
/// kUnbound. Like the other functions that take the memory of their result, it allocates nothing if
/// that suffices and nothing is wrong.
Status bind_symbols(const Interface& io, std::span<const std::span<const int64_t>> input_dims,
                    std::span<const int64_t> lengths, std::vector<int64_t>& symbols);

/// Whether every symbol of the shape has a value.
bool is_bound(const Shape& shape, std::span<const int64_t> symbols);
bool is_bound(const Expr& e, std::span<const int64_t> symbols);
/// Evaluates the dims of a shape. A negative dim is an error that names `tensor`.
Status eval_dims(const Interface& io, const Shape& shape, std::span<const int64_t> symbols,
                 const std::string& tensor, std::vector<int64_t>& dims);
Result<std::vector<int64_t>> eval_dims(const Interface& io, const Shape& shape,
                                       std::span<const int64_t> symbols, const std::string& tensor);
/// If a dim of `shape` is exactly an unbound symbol, assigns it the value in `dims`. Assigns
/// derived symbols that follow from these as well, then checks that the shape evaluates to `dims`.
Status bind_from_shape(const Interface& io, const std::string& tensor, const Shape& shape,
                       std::span<const int64_t> dims, std::vector<int64_t>& symbols);
/// Assigns derived symbols whose expressions have only symbols with values.
void derive_symbols(const Interface& io, std::vector<int64_t>& symbols);
/// Checks the guards whose symbols all have values.
Status check_guards(const Interface& io, std::span<const int64_t> symbols);
/// "2*batch, where 'batch' is 3 (dimension 0 of input 'x')"; empty for a constant.
std::string describe_size(const Interface& io, const Expr& e, std::span<const int64_t> symbols);
/// Checks the range and divisor of one symbol. `where` names the source of the value in messages.
Status check_symbol(const Symbol& symbol, int64_t value, const std::string& where);

/// The limits of a device that a run must respect.
struct Limits {
  uint64_t max_buffer_bytes = std::numeric_limits<uint64_t>::max();
  std::array<uint32_t, 3> max_grid{65535, 65535, 65535};
  uint32_t max_loop_iterations = 0;  // 0: no limit
};
/// The bytes of a buffer, rounded up to a multiple of 4. Code::Unsupported, naming the tensor, if
/// it exceeds the limit of the device or the number of elements that kernels can index (2^31 -
/// 2^26).
Result<uint64_t> eval_bytes(const Interface& io, const Buffer& buffer,
                            std::span<const int64_t> symbols, const Limits& limits);

/// The offsets of parameter blocks and indirect grids in one buffer. They depend only on the plan.
struct BlockTable {
  std::vector<uint64_t> block;                     // per step; kNone for host calls
  std::vector<uint64_t> indirect;                  // per step; kNone if the grid is constant
  IdVector<BufferId, std::vector<uint64_t>> uses;  // the offsets of a buffer's address
  uint64_t bytes = 0;                              // of the whole buffer
};
BlockTable layout_blocks(const Plan& plan, uint64_t alignment = kBufferAlignment);
/// Writes the parts that never change: the error address and the launch ids.
void write_headers(const Plan& plan, const BlockTable& table, uint64_t error_address,
                   std::span<std::byte> blocks);
/// Writes the scalars and the indirect grid of one launch. Code::Unsupported, naming the launch, if
/// a value does not fit or if its loops are longer than the driver executes.
Status write_sizes(const Plan& plan, uint32_t step, const BlockTable& table,
                   std::span<const int64_t> symbols, const Limits& limits,
                   std::span<std::byte> blocks);
Result<std::array<uint32_t, 3>> eval_grid(const Plan& plan, const Launch& launch,
                                          std::span<const int64_t> symbols, const Limits& limits);

/// The levels of the first and the last step that uses each plan buffer; first > last if no step
/// does. A buffer that an alias copies lives until the end.
struct Lifetimes {
  IdVector<BufferId, uint32_t> first, last;
};
Lifetimes lifetimes(const Plan& plan);

/// The placement of arena buffers in one or more arenas.
struct ArenaPlacement {
  IdVector<BufferId, uint32_t> arena;
  IdVector<BufferId, uint64_t> offsets;  // kNone unless BufferKind::Arena and used
  std::vector<uint64_t> bytes;           // per arena
};
/// Places the arena buffers; no arena is larger than the limit.
ArenaPlacement place_arenas(const Plan& plan, const IdVector<BufferId, uint64_t>& bytes,
                            uint64_t max_buffer_bytes);

/// The launches between two groups of host calls. They become one recording and one submission.
struct Segment {
  std::vector<std::vector<uint32_t>> levels;  // steps; a barrier stands between two levels
  std::vector<uint32_t> host_calls;           // steps that run after the recording
};
std::vector<Segment> cut_segments(const Plan& plan);

/// The costs of one run, counted in the plan, without bodies that run on the device. Tests compare
/// them with the calls of the driver.
struct PlanCounts {
  uint64_t submits = 0, dispatches = 0, barriers = 0, host_calls = 0;
};
PlanCounts count(const Plan& plan);

/// A launch in messages: "kernel 'k' (node 'a', 'b')".
std::string describe_launch(const Plan& plan, const Launch& launch);

}  // namespace reprise::plan
