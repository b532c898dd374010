// Binding a plan to sizes: symbol values, buffer bytes, arena placement, parameter blocks, indirect
// grids, and the plan cut into recordings. Pure functions of a verified plan; no device is needed.
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

/// The value of a symbol that a host call has yet to produce.
inline constexpr int64_t kUnbound = std::numeric_limits<int64_t>::min();
inline constexpr uint64_t kNone = ~uint64_t{0};
/// Every buffer and parameter block starts at a multiple of this.
inline constexpr uint64_t kBufferAlignment = 64;

/// The memory of a tensor of so many bytes. Kernels read an empty tensor, too, and ignore what is
/// there: the position that a masked load is clamped to has to exist.
constexpr uint64_t readable_bytes(uint64_t bytes) {
  return bytes < 16 ? 16 : bytes;
}

/// Values of all symbols from the dims of the inputs (parallel to io.inputs), with ranges,
/// divisors, guards and every dim of every input checked. Symbols that are not input dims stay
/// kUnbound.
Result<std::vector<int64_t>> bind_symbols(const Interface& io,
                                          std::span<const std::span<const int64_t>> input_dims);

/// Whether every symbol of the shape has a value.
bool is_bound(const Shape& shape, std::span<const int64_t> symbols);
/// Dims of a shape; a negative one is an error naming `tensor`.
Result<std::vector<int64_t>> eval_dims(const Interface& io, const Shape& shape,
                                       std::span<const int64_t> symbols, const std::string& tensor);
/// Gives unbound symbols that are exactly a dim of `shape` the value in `dims`, then checks that
/// the shape evaluates to `dims`. Symbols that follow from these get their values, too.
Status bind_from_shape(const Interface& io, const std::string& tensor, const Shape& shape,
                       std::span<const int64_t> dims, std::vector<int64_t>& symbols);
/// Gives derived symbols their values, as far as the symbols that they come from have any.
void derive_symbols(const Interface& io, std::vector<int64_t>& symbols);
/// Guards whose symbols all have values.
Status check_guards(const Interface& io, std::span<const int64_t> symbols);
/// "2*batch, where 'batch' is 3 (dimension 0 of input 'x')"; empty for a constant.
std::string describe_size(const Interface& io, const Expr& e, std::span<const int64_t> symbols);
/// Range and divisor of one symbol; `where` says what gave the value.
Status check_symbol(const Symbol& symbol, int64_t value, const std::string& where);

struct Limits {
  uint64_t max_buffer_bytes = std::numeric_limits<uint64_t>::max();
  std::array<uint32_t, 3> max_grid{65535, 65535, 65535};
  uint32_t max_loop_iterations = 0;  // 0: no limit
};
/// Bytes of a buffer, rounded up to 4. Code::Unsupported naming the tensor past the device's limit
/// or the number of elements that kernels index (2^31 - 2^26).
Result<uint64_t> eval_bytes(const Interface& io, const Buffer& buffer,
                            std::span<const int64_t> symbols, const Limits& limits);

/// Where parameter blocks and indirect grids lie in one buffer. Depends on the plan alone.
struct BlockTable {
  std::vector<uint64_t> block;                     // per step; kNone for host calls
  std::vector<uint64_t> indirect;                  // per step; kNone when the grid is constant
  IdVector<BufferId, std::vector<uint64_t>> uses;  // where a buffer's address is written
  uint64_t bytes = 0;
};
BlockTable layout_blocks(const Plan& plan);
/// What never changes: error address, launch ids.
void write_headers(const Plan& plan, const BlockTable& table, uint64_t error_address,
                   std::span<std::byte> blocks);
/// Scalars and the indirect grid of one launch. Code::Unsupported naming the launch when a value
/// does not fit, or its loops are longer than the driver executes.
Status write_sizes(const Plan& plan, uint32_t step, const BlockTable& table,
                   std::span<const int64_t> symbols, const Limits& limits,
                   std::span<std::byte> blocks);
Result<std::array<uint32_t, 3>> eval_grid(const Launch& launch, const std::string& name,
                                          std::span<const int64_t> symbols, const Limits& limits);

/// Levels of the first and the last step that uses each plan buffer; first > last: none does. What
/// an alias copies lives to the end.
struct Lifetimes {
  IdVector<BufferId, uint32_t> first, last;
};
Lifetimes lifetimes(const Plan& plan);

/// Arena buffers placed in one or more allocations, none larger than the limit.
struct ArenaPlacement {
  IdVector<BufferId, uint32_t> arena;
  IdVector<BufferId, uint64_t> offsets;  // kNone unless BufferKind::Arena and used
  std::vector<uint64_t> bytes;           // per arena
};
ArenaPlacement place_arenas(const Plan& plan, const IdVector<BufferId, uint64_t>& bytes,
                            uint64_t max_buffer_bytes);

/// The launches between two groups of host calls: one recording, one submission.
struct Segment {
  std::vector<std::vector<uint32_t>> levels;  // steps; a barrier between one level and the next
  std::vector<uint32_t> host_calls;           // steps that run after the recording
};
std::vector<Segment> cut_segments(const Plan& plan);

/// What one run costs, counted from the plan; tests compare it with the driver's calls.
struct PlanCounts {
  uint64_t submits = 0, dispatches = 0, barriers = 0, host_calls = 0;
};
PlanCounts count(const Plan& plan);

/// "kernel 'k' (node 'a', 'b')": a launch for messages.
std::string describe_launch(const Plan& plan, const Launch& launch);

}  // namespace reprise::plan
