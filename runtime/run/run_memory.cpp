#include "runtime/run/run_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/align.h"
#include "runtime/plan/bind.h"

namespace reprise {
namespace {

constexpr uint64_t kErrorWordBytes = 16;

}  // namespace

Status RunMemory::create() {
  const plan::Plan& plan = *shared_.plan;
  SessionResources& session = shared_.session;
  RP_ASSIGN(blocks_, CountedBuffer::allocate(session, std::max<uint64_t>(shared_.table.bytes, 16),
                                             MemoryUse::Upload));
  // In each run, either the host reads it once, or all subgroups of the kernels that ask do.
  const MemoryUse error_use = shared_.asks_for_errors ? MemoryUse::Upload : MemoryUse::Readback;
  RP_ASSIGN(error_, CountedBuffer::allocate(session, kErrorWordBytes, error_use));
  std::memset(blocks_->mapped(), 0, blocks_->size());
  clear_error_word();
  plan::write_headers(plan, shared_.table, error_->address(), blocks());
  tensors_.resize(plan.buffers.size());
  bytes_.assign(plan.buffers.size(), 0);
  output_dims_.resize(shared_.io().outputs.size());
  for (const plan::BufferId b : plan.buffers.ids()) {
    const plan::Buffer& buffer = plan.buffers[b];
    if (buffer.kind != plan::BufferKind::Weight || !shared_.uses[b].on_device) continue;
    const auto& place = shared_.weights.places[static_cast<size_t>(buffer.index)];
    set_location(b, {place.buffer, place.offset});
  }
  return {};
}

std::span<std::byte> RunMemory::blocks() const {
  return {static_cast<std::byte*>(blocks_->mapped()), blocks_->size()};
}

uint32_t RunMemory::take_error_word() {
  uint32_t word = 0;
  std::memcpy(&word, error_->mapped(), sizeof(word));
  if (word != 0) std::memset(error_->mapped(), 0, sizeof(word));
  return word;
}

void RunMemory::clear_error_word() {
  std::memset(error_->mapped(), 0, error_->size());
}

void RunMemory::set_location(plan::BufferId id, Location where) {
  tensors_[id].location = where;
  const uint64_t address = where.buffer->address() + where.offset;
  if (address == tensors_[id].address) return;
  tensors_[id].address = address;
  ++bindings_version_;
  for (const uint64_t use : shared_.table.uses[id])
    std::memcpy(blocks().data() + use, &address, sizeof(address));
}

// Buffers never shrink, because sizes that vary usually grow again.
Status RunMemory::grow(CountedBuffer& buffer, uint64_t bytes, MemoryUse use) {
  if (buffer && buffer->size() >= bytes) return {};
  buffer = {};
  starved_ = true;
  RP_ASSIGN(buffer, CountedBuffer::allocate(shared_.session, plan::readable_bytes(bytes), use));
  starved_ = false;
  return {};
}

Status RunMemory::place_own(plan::BufferId id) {
  CountedBuffer& own = tensors_[id].own;
  if (shared_.session.options.isolate_tensors && own &&
      own->size() != plan::readable_bytes(bytes_[id]))
    own = {};
  const Status grown = grow(own, bytes_[id], MemoryUse::Device);
  if (!grown.ok())
    return grown.with_context("memory for tensor '" + shared_.plan->buffers[id].name + "'");
  set_location(id, {own.get(), 0});
  return {};
}

/// Gets the buffers that placement_ needs.
Status RunMemory::get_shared_arenas() {
  SharedArena& arena = *shared_arena_;
  starved_ = true;
  shared_arenas_.resize(placement_.bytes.size());
  for (size_t a = 0; a < placement_.bytes.size(); ++a) {
    auto got = arena.get(a, plan::readable_bytes(placement_.bytes[a]));
    if (!got.ok()) return got.status().with_context("memory for intermediate tensors");
    shared_arenas_[a] = *std::move(got);
  }
  starved_ = false;
  arena_generation_ = arena.generation();
  return {};
}

/// Whether the shared arena, if there is one, has the buffers of the last run. Holds them then.
bool RunMemory::holds_arena() {
  return !shared_arena_ ||
         (shared_arena_->generation() == arena_generation_ && get_shared_arenas().ok());
}

/// Whether all tensors have room where they are. Where caches grow, each step has other sizes, and
/// nothing is placed again until one has outgrown its place; then it gets a quarter more.
bool RunMemory::keeps_places() {
  if (!shared_.session.own_states.grows()) {
    placed_ = bytes_;
    return false;
  }
  const uint64_t most = shared_.session.limits.max_buffer_bytes;
  const bool first = placed_.empty();
  if (first) placed_ = bytes_;
  bool keeps = !first && !shared_.session.options.isolate_tensors;
  for (const plan::BufferId b : bytes_.ids()) {
    if (bytes_[b] <= placed_[b]) continue;
    placed_[b] = std::min(align_up(bytes_[b] + bytes_[b] / 4, 4), std::max(most, bytes_[b]));
    keeps = keeps && shared_.plan->buffers[b].kind != plan::BufferKind::Arena;
  }
  return keeps;
}

Status RunMemory::place_arena() {
  if (keeps_places()) return place_tensors();
  const auto place = [&] {
    placement_ =
        plan::place_arenas(*shared_.plan, placed_, shared_.session.limits.max_buffer_bytes);
    return place_tensors();
  };
  Status placed = place();
  if (placed.code() != Code::OutOfMemory || placed_ == bytes_) return placed;
  placed_ = bytes_;  // without room to grow
  return place();
}

/// Makes the memory that the placement needs, and gives each tensor its location.
Status RunMemory::place_tensors() {
  const plan::Plan& plan = *shared_.plan;
  const bool isolate = shared_.session.options.isolate_tensors, shared = shared_arena_ != nullptr;
  if (shared) RP_TRY(get_shared_arenas());
  const size_t own = isolate || shared ? 0 : placement_.bytes.size();
  arenas_.resize(isolate ? 0 : std::max(arenas_.size(), own));
  for (size_t a = 0; a < own; ++a) {
    const Status grown = grow(arenas_[a], placement_.bytes[a], MemoryUse::Device);
    if (!grown.ok()) return grown.with_context("memory for intermediate tensors");
  }
  const auto arena = [&](size_t a) { return shared ? shared_arenas_[a].get() : arenas_[a].get(); };
  for (const plan::BufferId b : plan.buffers.ids()) {
    const bool placed = shared_.uses[b].on_device && !shared_.uses[b].late;
    const bool shares = placed && !isolate && plan.buffers[b].kind == plan::BufferKind::Arena;
    if (shares) {
      set_location(b, {arena(placement_.arena[b]), placement_.offsets[b]});
      continue;
    }
    placement_.offsets[b] = plan::kNone;
    if (placed && (plan.buffers[b].kind == plan::BufferKind::Arena ||
                   plan.buffers[b].kind == plan::BufferKind::Growable))
      RP_TRY(place_own(b));
  }
  return {};
}

Status RunMemory::resize(const std::vector<int64_t>& symbols) {
  if (sized_ && symbols == sized_for_ && holds_arena()) return {};
  sized_ = false;
  const plan::Plan& plan = *shared_.plan;
  const plan::Interface& io = shared_.io();
  for (const plan::BufferId b : plan.buffers.ids()) {
    if (!shared_.uses[b].on_device || shared_.uses[b].late) continue;
    RP_ASSIGN(bytes_[b], plan::eval_bytes(io, plan.buffers[b], symbols, shared_.session.limits));
  }
  RP_TRY(place_arena());
  for (size_t o = 0; o < output_dims_.size(); ++o) {
    const plan::Slot& slot = io.outputs[o];
    std::optional<std::vector<int64_t>>& dims = output_dims_[o];
    if (!plan::is_bound(slot.shape, symbols)) {
      dims.reset();
      continue;
    }
    if (!dims) dims.emplace();
    RP_TRY(plan::eval_dims(io, slot.shape, symbols, slot.name, *dims));
  }
  sized_for_ = symbols;
  sized_ = true;
  return {};
}

Status RunMemory::size_late(plan::BufferId id, const std::vector<int64_t>& symbols) {
  RP_ASSIGN(bytes_[id], plan::eval_bytes(shared_.io(), shared_.plan->buffers[id], symbols,
                                         shared_.session.limits));
  return {};
}

void RunMemory::bind_states() {
  const StateMemory& states = *shared_.session.states;
  for (size_t s = 0; s < shared_.of_state.size(); ++s) {
    const auto& [current, next, all] = shared_.of_state[s];
    set_location(current, {states.current(s).buffer, states.current(s).offset});
    if (!all.is_none()) set_location(all, {states.current(s).buffer, states.current(s).offset});
    if (!next.is_none()) set_location(next, {states.next(s).buffer, states.next(s).offset});
  }
}

uint64_t RunMemory::held_bytes() const {
  uint64_t bytes = 0;
  for (const CountedBuffer& arena : arenas_) bytes += arena.bytes();
  for (const Tensor& tensor : tensors_) bytes += tensor.own.bytes();
  return bytes;
}

}  // namespace reprise
