// The memory of a run: sizes, places and addresses. run_execute.cpp executes the run.
#include "runtime/run/run_context.h"

#include <algorithm>
#include <cstring>

#include "runtime/run/run_state.h"
#include "runtime/run/shared_arena.h"

namespace reprise {
namespace {

constexpr uint64_t kErrorWordBytes = 16;

}  // namespace

Result<CountedBuffer> CountedBuffer::allocate(SessionBase& session, uint64_t bytes, MemoryUse use) {
  CountedBuffer b;
  RP_ASSIGN(b.buffer_, session.device->allocate_or_free_idle(bytes, use));
  b.totals_ = &session.totals;
  session.totals.device_bytes += b.buffer_->size();
  return b;
}

CountedBuffer::~CountedBuffer() {
  if (buffer_) totals_->device_bytes -= buffer_->size();
}

RunContext::RunContext(SessionShared& shared) : s_(shared), ongoing_(std::make_unique<Ongoing>()) {}

RunContext::~RunContext() = default;

Result<std::unique_ptr<RunContext>> RunContext::create(SessionShared& shared) {
  std::unique_ptr<RunContext> c(new RunContext(shared));
  const size_t buffers = shared.plan->buffers.size(), segments = shared.segments.size();
  RP_ASSIGN(c->blocks_,
            CountedBuffer::allocate(shared.base, std::max<uint64_t>(shared.table.bytes, 16),
                                    MemoryUse::Upload));
  // In each run, either the host reads it once, or all subgroups of the kernels that ask do.
  const MemoryUse error_use = shared.asks_for_errors ? MemoryUse::Upload : MemoryUse::Readback;
  RP_ASSIGN(c->error_, CountedBuffer::allocate(shared.base, kErrorWordBytes, error_use));
  std::memset(c->blocks_->mapped(), 0, c->blocks_->size());
  std::memset(c->error_->mapped(), 0, c->error_->size());
  plan::write_headers(*shared.plan, shared.table, c->error_->address(), c->blocks());
  c->buffers_.resize(buffers);
  c->bytes_.assign(buffers, 0);
  c->inputs_.resize(shared.io().inputs.size());
  c->outputs_.resize(shared.io().outputs.size());
  c->segments_.resize(segments);
  c->bodies_.resize(shared.base.bodies.size());
  for (const plan::BufferId b : shared.plan->buffers.ids()) {
    const plan::Buffer& buffer = shared.plan->buffers[b];
    if (buffer.kind != plan::BufferKind::Weight || !shared.uses[b].on_device) continue;
    const auto& place = shared.weights.places[static_cast<size_t>(buffer.index)];
    c->set_location(b, {place.buffer, place.offset});
  }
  return c;
}

std::span<std::byte> RunContext::blocks() const {
  return {static_cast<std::byte*>(blocks_->mapped()), blocks_->size()};
}

void RunContext::set_location(plan::BufferId id, Location where) {
  buffers_[id].location = where;
  const uint64_t address = where.buffer->address() + where.offset;
  if (address == buffers_[id].address) return;
  buffers_[id].address = address;
  ++bindings_version_;
  for (const uint64_t use : s_.table.uses[id])
    std::memcpy(blocks().data() + use, &address, sizeof(address));
}

// Buffers never shrink, because sizes that vary usually grow again.
Status RunContext::grow(CountedBuffer& buffer, uint64_t bytes, MemoryUse use) {
  if (buffer && buffer->size() >= bytes) return {};
  buffer = {};
  starved_ = true;
  RP_ASSIGN(buffer, CountedBuffer::allocate(s_.base, plan::readable_bytes(bytes), use));
  starved_ = false;
  return {};
}

Status RunContext::place_own(plan::BufferId id) {
  CountedBuffer& own = buffers_[id].own;
  if (s_.base.options.isolate_tensors && own && own->size() != plan::readable_bytes(bytes_[id]))
    own = {};
  RP_TRY(grow(own, bytes_[id], MemoryUse::Device)
             .with_context("memory for tensor '" + s_.plan->buffers[id].name + "'"));
  set_location(id, {own.get(), 0});
  return {};
}

SharedArena* RunContext::shared_arena() const {
  return s_.body || s_.base.options.isolate_tensors ? nullptr : s_.base.options.arena.get();
}

/// Gets the buffers that placement_ needs.
Status RunContext::get_shared_arenas() {
  SharedArena& arena = *shared_arena();
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
bool RunContext::holds_arena() {
  const SharedArena* const arena = shared_arena();
  return !arena || (arena->generation() == arena_generation_ && get_shared_arenas().ok());
}

Status RunContext::place_arena() {
  const plan::Plan& plan = *s_.plan;
  placement_ = plan::place_arenas(plan, bytes_, s_.base.limits.max_buffer_bytes);
  const bool isolate = s_.base.options.isolate_tensors, shared = shared_arena() != nullptr;
  if (shared) RP_TRY(get_shared_arenas());
  const size_t own = isolate || shared ? 0 : placement_.bytes.size();
  arenas_.resize(isolate ? 0 : std::max(arenas_.size(), own));
  for (size_t a = 0; a < own; ++a) {
    RP_TRY(grow(arenas_[a], placement_.bytes[a], MemoryUse::Device)
               .with_context("memory for intermediate tensors"));
  }
  const auto arena = [&](size_t a) { return shared ? shared_arenas_[a].get() : arenas_[a].get(); };
  for (const plan::BufferId b : plan.buffers.ids()) {
    const bool placed = s_.uses[b].on_device && !s_.uses[b].late;
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

Status RunContext::resize(const std::vector<int64_t>& symbols) {
  if (sized_ && symbols == sized_for_ && holds_arena()) return {};
  sized_ = false;
  const plan::Plan& plan = *s_.plan;
  for (const plan::BufferId b : plan.buffers.ids()) {
    if (!s_.uses[b].on_device || s_.uses[b].late) continue;
    RP_ASSIGN(bytes_[b], plan::eval_bytes(s_.io(), plan.buffers[b], symbols, s_.base.limits));
  }
  RP_TRY(place_arena());
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const plan::Slot& slot = s_.io().outputs[o];
    outputs_[o].dims.reset();
    if (!plan::is_bound(slot.shape, symbols)) continue;
    RP_ASSIGN(outputs_[o].dims, plan::eval_dims(s_.io(), slot.shape, symbols, slot.name));
  }
  sized_for_ = symbols;
  sized_ = true;
  return {};
}

// Places the buffers whose sizes the last host calls determined.
Status RunContext::place_late(Run& run) {
  for (const plan::BufferId b : s_.plan->buffers.ids()) {
    const plan::Buffer& buffer = s_.plan->buffers[b];
    if (!s_.uses[b].late || !s_.uses[b].on_device || run.buffers[b].placed) continue;
    if (!plan::is_bound(buffer.shape, run.symbols)) continue;
    RP_ASSIGN(bytes_[b], plan::eval_bytes(s_.io(), buffer, run.symbols, s_.base.limits));
    if (buffer.kind == plan::BufferKind::Output) {
      RP_TRY(bind_output(static_cast<size_t>(buffer.index), run));
    } else {
      RP_TRY(place_own(b));
    }
    run.buffers[b].placed = true;
  }
  return {};
}

Status RunContext::ensure_device_memory(HostBound& tensor, uint64_t bytes) {
  if (tensor.device && tensor.device->size() < bytes) {  // recorded copies refer to the old buffers
    for (SegmentState& s : segments_)
      if (!s.recorded.staged.copies.empty()) s.recorded.recording.reset();
  }
  return grow(tensor.device, bytes, MemoryUse::Device);
}

Status RunContext::ensure_memory(HostBound& tensor, uint64_t bytes, MemoryUse staging) {
  RP_TRY(ensure_device_memory(tensor, bytes));
  tensor.staged = tensor.device->mapped() == nullptr;
  if (!tensor.staged) return {};
  return grow(tensor.staging, tensor.device->size(), staging);
}

Status RunContext::bind_input(size_t i, Run& run) {
  const Binding& b = *run.io.inputs[i];
  HostBound& input = inputs_[i];
  input.staged = false;
  Rows rows;  // dense; bodies have no others
  if (b.image || b.row_pitch != 0)
    rows = rows_of(run.io.dims(i), s_.io().inputs[i].dtype, b.row_pitch);
  if (b.image || (b.device && !rows.dense())) return bind_pixels_in(i, b, rows);
  for (const plan::BufferId id : s_.of_input[i]) {
    if (!s_.use(id).on_device) continue;
    if (b.device) {
      RP_TRY(check_room(b, bytes_[id], "input"));
      set_location(id, {b.device, b.device_offset});
      continue;
    }
    const Status made = ensure_memory(input, bytes_[id], MemoryUse::Upload);
    if (!made.ok()) return made.with_context("input '" + b.name + "'");
    set_location(id, {input.device.get(), 0});
  }
  if (b.device || !input.device || s_.of_input[i].empty()) return {};
  const auto bytes = b.host->bytes();
  if (bytes.empty()) return {};
  const CopyTimer timer(run);
  void* to = input.staged ? input.staging->mapped() : input.device->mapped();
  if (rows.dense()) {
    std::memcpy(to, bytes.data(), bytes.size());
  } else {
    pack_rows(rows, bytes.data(), static_cast<std::byte*>(to));
  }
  run.stats.bytes_copied += rows.dense() ? bytes.size() : rows.count * rows.bytes;
  return {};
}

Status RunContext::bind_output(size_t i, Run& run) {
  const plan::BufferId id = s_.of_output[i].buffer;
  const Binding* b = run.io.outputs[i];
  HostBound& output = outputs_[i];
  output.staged = false;
  if (b && (b->image || (b->device && b->row_pitch != 0))) return bind_pixels_out(i, *b);
  if (id.is_none() || !s_.use(id).on_device) return {};
  if (b && b->device) {
    RP_TRY(check_room(*b, bytes_[id], "output"));
    set_location(id, {b->device, b->device_offset});
    return {};
  }
  const Status made = ensure_memory(output, bytes_[id], MemoryUse::Readback);
  if (!made.ok()) return made.with_context("output '" + s_.io().outputs[i].name + "'");
  set_location(id, {output.device.get(), 0});
  return {};
}

}  // namespace reprise
