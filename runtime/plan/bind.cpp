#include "runtime/plan/bind.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "runtime/base/align.h"
#include "runtime/base/bytes.h"

namespace reprise::plan {
namespace {

// Kernels count in signed 32-bit integers, and count beyond the last element: invocations that fill
// up the grid, and the step of a loop. That is less than 2^26.
constexpr int64_t kMaxKernelElements = (int64_t{1} << 31) - (int64_t{1} << 26);

Status check_dims(const Interface& io, const Slot& slot, std::span<const int64_t> dims,
                  std::span<const int64_t> symbols) {
  for (size_t a = 0; a < dims.size(); ++a) {
    RP_ASSIGN(int64_t expected, slot.shape[a].eval(symbols));
    if (expected == dims[a]) continue;
    const std::string size = describe_size(io, slot.shape[a], symbols);
    const std::string how = size.empty() ? size : " (" + size + ")";
    return invalid_input("input '" + slot.name + "': dimension " + std::to_string(a) + " is " +
                         std::to_string(dims[a]) + ", expected " + std::to_string(expected) + how +
                         "; the whole shape is " + describe(slot.dtype, dims));
  }
  return {};
}

bool may_be(const Symbol& symbol, int64_t value) {
  return value >= symbol.min && value <= symbol.max &&
         value % std::max<int64_t>(symbol.divisor, 1) == 0;
}

}  // namespace

Status check_symbol(const Symbol& symbol, int64_t value, const std::string& where) {
  if (value < symbol.min || value > symbol.max) {
    const std::string least = std::to_string(symbol.min), most = std::to_string(symbol.max);
    const bool limited = symbol.max < std::numeric_limits<int32_t>::max();
    return invalid_input(where + " ('" + symbol.name + "') is " + std::to_string(value) +
                         ", expected " + least + " to " + most +
                         (limited ? ", the limits with which the model was compiled (--range " +
                                        symbol.name + "=" + least + ".." + most + ")"
                                  : std::string()));
  }
  if (symbol.divisor > 1 && value % symbol.divisor != 0) {
    return invalid_input(where + " ('" + symbol.name + "') is " + std::to_string(value) +
                         ", expected a multiple of " + std::to_string(symbol.divisor));
  }
  return {};
}

Status bind_symbols(const Interface& io, std::span<const std::span<const int64_t>> input_dims,
                    std::span<const int64_t> lengths, std::vector<int64_t>& symbols) {
  for (size_t i = 0; i < io.inputs.size(); ++i) {
    const Slot& slot = io.inputs[i];
    if (input_dims[i].size() != slot.shape.size()) {
      return invalid_input(
          "input '" + slot.name + "': rank " + std::to_string(input_dims[i].size()) + " (" +
          describe(slot.dtype, input_dims[i]) + "), expected rank " +
          std::to_string(slot.shape.size()) + " " + shape_str(slot.shape, io.symbols));
    }
  }
  symbols.assign(io.symbols.size(), kUnbound);
  for (size_t s = 0; s < io.symbols.size(); ++s) {
    const SymbolSource& source = io.sources[s];
    const auto index = static_cast<size_t>(source.index), axis = static_cast<size_t>(source.axis);
    if (source.kind == SymbolSource::Kind::StateLength && index < lengths.size()) {
      symbols[s] = lengths[index];
      if (!may_be(io.symbols[s], symbols[s]))
        return check_symbol(io.symbols[s], symbols[s],
                            "state '" + io.states[index].name + "': its length");
    }
    if (source.kind != SymbolSource::Kind::InputDim) continue;
    symbols[s] = input_dims[index][axis];
    if (!may_be(io.symbols[s], symbols[s]))
      return check_symbol(
          io.symbols[s], symbols[s],
          "input '" + io.inputs[index].name + "': dimension " + std::to_string(axis));
  }
  derive_symbols(io, symbols);
  // Guards are checked before dims, because their errors name the node that needs the relation.
  RP_TRY(check_guards(io, symbols));
  for (size_t i = 0; i < io.inputs.size(); ++i)
    RP_TRY(check_dims(io, io.inputs[i], input_dims[i], symbols));
  return {};
}

bool is_bound(const Expr& e, std::span<const int64_t> symbols) {
  for (const Term& t : e.terms()) {
    for (const Atom& a : t.atoms()) {
      if (a.kind() == Atom::Kind::Overflow) continue;
      const bool bound = a.kind() == Atom::Kind::Symbol
                             ? static_cast<size_t>(a.symbol()) < symbols.size() &&
                                   symbols[static_cast<size_t>(a.symbol())] != kUnbound
                             : is_bound(a.lhs(), symbols) && is_bound(a.rhs(), symbols);
      if (!bound) return false;
    }
  }
  return true;
}

bool is_bound(const Shape& shape, std::span<const int64_t> symbols) {
  return std::ranges::all_of(shape, [&](const Expr& e) { return is_bound(e, symbols); });
}

Result<std::vector<int64_t>> eval_dims(const Interface& io, const Shape& shape,
                                       std::span<const int64_t> symbols,
                                       const std::string& tensor) {
  std::vector<int64_t> dims;
  RP_TRY(eval_dims(io, shape, symbols, tensor, dims));
  return dims;
}

Status eval_dims(const Interface& io, const Shape& shape, std::span<const int64_t> symbols,
                 const std::string& tensor, std::vector<int64_t>& dims) {
  dims.clear();
  dims.reserve(shape.size());
  for (const Expr& dim : shape) {
    auto v = dim.eval(symbols);
    const auto where = [&] {
      return "tensor '" + tensor + "': dimension " + std::to_string(dims.size());
    };
    if (!v.ok())
      return v.status().with_context(where() + " (" + describe_size(io, dim, symbols) + ")");
    if (*v < 0) {
      return invalid_input(where() + " would be " + std::to_string(*v) + " (" +
                           describe_size(io, dim, symbols) + ")");
    }
    dims.push_back(*v);
  }
  return {};
}

namespace {

/// The error for a dim of a host call's result that differs from what the plan expects. If a guard
/// constrains a data-dependent dim, the plan relies on it, so the data do not fit the model.
/// Otherwise it is a bug.
Status unexpected_dim(const Interface& io, const std::string& where, const Expr& dim, int64_t found,
                      int64_t expected, std::span<const int64_t> symbols) {
  std::string message = where + " is " + std::to_string(found);
  const std::string wanted = std::to_string(expected);
  for (const DimGuard& guard : io.guards) {
    if (guard.kind != DimGuard::Kind::Equal) continue;
    for (const auto& [a, b] : {std::pair(&guard.a, &guard.b), std::pair(&guard.b, &guard.a)}) {
      if (!a->as_symbol() || is_bound(*a, symbols) || !(*b == dim)) continue;
      std::string size = describe_size(io, dim, symbols);
      if (!size.empty()) size.insert(0, " (").append(")");
      message.append(", but node '").append(guard.node).append("' needs ").append(wanted);
      return invalid_input(message.append(size)).about(guard.node);
    }
  }
  return internal_error(message.append(", the plan expects ").append(wanted));
}

}  // namespace

Status bind_from_shape(const Interface& io, const std::string& tensor, const Shape& shape,
                       std::span<const int64_t> dims, std::vector<int64_t>& symbols) {
  if (shape.size() != dims.size()) {
    return internal_error("tensor '" + tensor + "': the host kernel returned rank " +
                          std::to_string(dims.size()) + ", the plan expects rank " +
                          std::to_string(shape.size()));
  }
  for (size_t a = 0; a < dims.size(); ++a) {
    const std::string where = "tensor '" + tensor + "': dimension " + std::to_string(a);
    auto id = shape[a].as_symbol();
    if (id && symbols[static_cast<size_t>(*id)] == kUnbound) {
      RP_TRY(check_symbol(io.symbols[static_cast<size_t>(*id)], dims[a], where));
      symbols[static_cast<size_t>(*id)] = dims[a];
      continue;
    }
    if (!is_bound(shape[a], symbols)) continue;
    RP_ASSIGN(int64_t expected, shape[a].eval(symbols));
    if (expected != dims[a]) return unexpected_dim(io, where, shape[a], dims[a], expected, symbols);
  }
  derive_symbols(io, symbols);
  return {};
}

namespace {

/// The number of elements if there is no doubt that kernels can index them, or else -1.
int64_t small_count(const Shape& shape, std::span<const int64_t> symbols) {
  int64_t n = 1;
  for (const Expr& dim : shape) {
    const Result<int64_t> v = dim.eval(symbols);
    if (!v.ok() || *v < 0 || *v > kMaxKernelElements) return -1;
    n *= *v;
    if (n > kMaxKernelElements) return -1;
  }
  return n;
}

}  // namespace

Result<uint64_t> eval_bytes(const Interface& io, const Buffer& buffer,
                            std::span<const int64_t> symbols, const Limits& limits) {
  const uint64_t element = std::max<size_t>(size_of(buffer.dtype), 1);
  if (const int64_t n = small_count(buffer.shape, symbols); n >= 0) {
    const uint64_t bytes = align_up(static_cast<uint64_t>(n) * element, 4);
    if (bytes <= limits.max_buffer_bytes) return bytes;
  }
  RP_ASSIGN(std::vector<int64_t> dims, eval_dims(io, buffer.shape, symbols, buffer.name));
  auto elements = checked_element_count(dims, buffer.dtype);
  const std::string what = "tensor '" + buffer.name + "' (" + describe(buffer.dtype, dims) + ")";
  if (!elements.ok() || *elements > kMaxKernelElements) {
    return unsupported(what + " has more elements than device kernels index (" +
                       std::to_string(kMaxKernelElements) +
                       "); use smaller inputs or the host device");
  }
  const uint64_t bytes = align_up(static_cast<uint64_t>(*elements) * element, 4);
  if (bytes > limits.max_buffer_bytes) {
    return unsupported(
        what + " needs " + std::to_string(bytes) + " bytes, the device allows buffers of " +
        std::to_string(limits.max_buffer_bytes) + "; use smaller inputs or another device");
  }
  return bytes;
}

std::string describe_launch(const Plan& plan, const Launch& launch) {
  std::string s = "kernel '" + plan.kernels[launch.kernel].name + "'";
  for (size_t i = 0; i < launch.nodes.size(); ++i)
    s += (i == 0 ? " (nodes '" : ", '") + launch.nodes[i] + "'";
  return launch.nodes.empty() ? s : s + ")";
}

BlockTable layout_blocks(const Plan& plan, uint64_t alignment) {
  BlockTable t;
  t.block.assign(plan.steps.size(), kNone);
  t.indirect.assign(plan.steps.size(), kNone);
  t.uses.resize(plan.buffers.size());
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const auto* launch = std::get_if<Launch>(&plan.steps[s].what);
    if (!launch) continue;
    t.block[s] = t.bytes;
    for (size_t b = 0; b < launch->buffers.size(); ++b) {
      t.uses[launch->buffers[b]].push_back(t.bytes + BlockLayout::buffer_offset(b));
    }
    t.bytes += align_up(BlockLayout::size(launch->buffers.size(), launch->scalars.size(),
                                          plan.kernels[launch->kernel].views.size()),
                        alignment);
  }
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const auto* launch = std::get_if<Launch>(&plan.steps[s].what);
    if (!launch || is_static({launch->grid.begin(), launch->grid.end()})) continue;
    t.indirect[s] = t.bytes;
    t.bytes += 16;
  }
  return t;
}

void write_headers(const Plan& plan, const BlockTable& table, uint64_t error_address,
                   std::span<std::byte> blocks) {
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (table.block[s] == kNone) continue;
    store_bytes(blocks.data() + table.block[s] + BlockLayout::kErrorAddress, error_address);
    store_bytes(blocks.data() + table.block[s] + BlockLayout::kLaunchId, static_cast<uint32_t>(s));
    store_bytes(blocks.data() + table.block[s] + BlockLayout::kWindow, uint32_t{0});
  }
}

Result<std::array<uint32_t, 3>> eval_grid(const Plan& plan, const Launch& launch,
                                          std::span<const int64_t> symbols, const Limits& limits) {
  std::array<uint32_t, 3> grid{};
  bool empty = false;
  for (size_t i = 0; i < 3; ++i) {
    auto v = launch.grid[i].eval(symbols);
    if (!v.ok()) return v.status().with_context(describe_launch(plan, launch)).about(launch.nodes);
    if (*v > limits.max_grid[i]) {
      return unsupported(describe_launch(plan, launch) + " needs " + std::to_string(*v) +
                         " workgroups in dimension " + std::to_string(i) + ", the device allows " +
                         std::to_string(limits.max_grid[i]) + "; use smaller inputs")
          .about(launch.nodes);
    }
    empty = empty || *v <= 0;
    grid[i] = static_cast<uint32_t>(std::max<int64_t>(*v, 0));
  }
  return empty ? std::array<uint32_t, 3>{} : grid;
}

namespace {

/// Whether every buffer that the launch writes is empty.
bool writes_nothing(const Plan& plan, const Launch& launch, std::span<const int64_t> symbols) {
  for (size_t i = 0; i < launch.buffers.size(); ++i) {
    if (!launch.writes[i]) continue;
    const Shape& shape = plan.buffers[launch.buffers[i]].shape;
    const bool empty = std::any_of(shape.begin(), shape.end(), [&](const Expr& e) {
      const auto v = e.eval(symbols);
      return v.ok() && *v == 0;
    });
    if (!empty) return false;
  }
  return true;
}

Status check_loops(const Plan& plan, const Launch& launch, std::span<const int64_t> symbols,
                   const Limits& limits) {
  if (limits.max_loop_iterations == 0) return {};
  const auto n = launch.iterations.eval(symbols);
  if (n.ok() && *n <= limits.max_loop_iterations) return {};
  const std::string shorter = launch.iterations.is_const()
                                  ? "compile the model with all variants (--targets vulkan)"
                                  : "compile the model for this size alone (--shape)";
  return unsupported(describe_launch(plan, launch) + ": this size needs longer loops (" +
                     (n.ok() ? std::to_string(*n) : n.status().message()) +
                     " iterations) than the driver executes (" +
                     std::to_string(limits.max_loop_iterations) + "); " + shorter +
                     ", or use smaller inputs or another device")
      .about(launch.nodes);
}

}  // namespace

Status write_sizes(const Plan& plan, uint32_t step, const BlockTable& table,
                   std::span<const int64_t> symbols, const Limits& limits,
                   std::span<std::byte> blocks) {
  const auto& launch = std::get<Launch>(plan.steps[step].what);
  auto sized = eval_grid(plan, launch, symbols, limits);
  // A size expression may divide by a dim that is 0. That is an error only if the launch writes
  // something.
  if (!sized.ok() && writes_nothing(plan, launch, symbols)) sized = std::array<uint32_t, 3>{};
  RP_ASSIGN(const auto grid, std::move(sized));
  if (table.indirect[step] != kNone) store_bytes(blocks.data() + table.indirect[step], grid);
  if (grid[0] == 0) return {};
  RP_TRY(check_loops(plan, launch, symbols, limits));
  for (size_t i = 0; i < launch.scalars.size(); ++i) {
    auto v = launch.scalars[i].eval(symbols);
    if (!v.ok() && writes_nothing(plan, launch, symbols)) v = 0;
    if (!v.ok()) return v.status().with_context(describe_launch(plan, launch)).about(launch.nodes);
    if (*v > std::numeric_limits<int32_t>::max() || *v < std::numeric_limits<int32_t>::min()) {
      return unsupported(describe_launch(plan, launch) + ": the size " + std::to_string(*v) +
                         " does not fit 32 bits; use smaller inputs")
          .about(launch.nodes);
    }
    const uint64_t at = table.block[step] + BlockLayout::scalar_offset(launch.buffers.size(), i);
    store_bytes(blocks.data() + at, static_cast<int32_t>(*v));
  }
  return {};
}

namespace {

struct Placer {
  const std::vector<ArenaItem>& items;
  const std::vector<BufferId>& buffers;  // of each item
  uint64_t limit;
  ArenaPlacement& out;

  // Places the items in one arena if that fits the limit; otherwise places each half separately.
  void place(size_t begin, size_t end) {
    const auto layout = layout_arena({items.begin() + static_cast<ptrdiff_t>(begin),
                                      items.begin() + static_cast<ptrdiff_t>(end)},
                                     kBufferAlignment);
    if (layout.bytes > limit && end - begin > 1) {
      const size_t middle = begin + (end - begin) / 2;
      place(begin, middle);
      place(middle, end);
      return;
    }
    for (size_t i = begin; i < end; ++i) {
      out.arena[buffers[i]] = static_cast<uint32_t>(out.bytes.size());
      out.offsets[buffers[i]] = layout.offsets[i - begin];
    }
    out.bytes.push_back(layout.bytes);
  }
};

template <typename F>
void for_each_buffer(const Step& step, F&& f) {
  if (const auto* launch = std::get_if<Launch>(&step.what)) {
    for (BufferId b : launch->buffers) f(b);
    return;
  }
  const auto& call = std::get<HostCall>(step.what);
  for (BufferId b : call.inputs)
    if (!b.is_none()) f(b);
  for (BufferId b : call.outputs)
    if (!b.is_none()) f(b);
}

}  // namespace

Lifetimes lifetimes(const Plan& plan) {
  Lifetimes t;
  t.first.assign(plan.buffers.size(), std::numeric_limits<uint32_t>::max());
  t.last.assign(plan.buffers.size(), 0);
  for (const Step& step : plan.steps) {
    for_each_buffer(step, [&](BufferId b) {
      t.first[b] = std::min(t.first[b], step.level);
      t.last[b] = std::max(t.last[b], step.level);
    });
  }
  for (const auto& alias : plan.aliases)  // they are copied after the last step
    t.last[alias.from] = std::numeric_limits<uint32_t>::max();
  return t;
}

ArenaPlacement place_arenas(const Plan& plan, const IdVector<BufferId, uint64_t>& bytes,
                            uint64_t max_buffer_bytes) {
  const size_t n = plan.buffers.size();
  const auto [first, last] = lifetimes(plan);
  std::vector<ArenaItem> items;
  std::vector<BufferId> buffers;
  for (const BufferId b : plan.buffers.ids()) {
    if (plan.buffers[b].kind != BufferKind::Arena || first[b] > last[b]) continue;
    items.push_back({readable_bytes(bytes[b]), first[b], last[b]});
    buffers.push_back(b);
  }
  ArenaPlacement out;
  out.arena.assign(n, 0);
  out.offsets.assign(n, kNone);
  if (!items.empty()) Placer{items, buffers, max_buffer_bytes, out}.place(0, items.size());
  return out;
}

std::vector<Segment> cut_segments(const Plan& plan) {
  std::vector<Segment> segments;
  Segment open;
  for (size_t s = 0; s < plan.steps.size();) {
    const uint32_t level = plan.steps[s].level;
    std::vector<uint32_t> launches;
    for (; s < plan.steps.size() && plan.steps[s].level == level; ++s) {
      const bool is_launch = std::holds_alternative<Launch>(plan.steps[s].what);
      (is_launch ? launches : open.host_calls).push_back(static_cast<uint32_t>(s));
    }
    if (!launches.empty()) open.levels.push_back(std::move(launches));
    if (!open.host_calls.empty()) segments.push_back(std::exchange(open, {}));
  }
  if (!open.levels.empty()) segments.push_back(std::move(open));
  return segments;
}

PlanCounts count(const Plan& plan) {
  PlanCounts c;
  for (const Segment& segment : cut_segments(plan)) {
    for (const uint32_t step : segment.host_calls)
      if (std::get<HostCall>(plan.steps[step].what).device_bodies.empty()) ++c.host_calls;
    if (segment.levels.empty()) continue;
    ++c.submits;
    c.barriers += segment.levels.size();  // those between levels, and the host barrier
    for (const auto& level : segment.levels) c.dispatches += level.size();
  }
  return c;
}

}  // namespace reprise::plan
