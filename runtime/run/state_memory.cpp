#include "runtime/run/state_memory.h"

#include <algorithm>

#include "runtime/base/align.h"
#include "runtime/plan/bind.h"

namespace reprise {

namespace {

constexpr uint64_t kPoolBytes = uint64_t{256} << 20;

uint64_t bytes_of(const plan::StateSlot& slot) {
  const uint64_t elements = static_cast<uint64_t>(element_count(slot.shape).value());
  return align_up(plan::readable_bytes(align_up(elements * size_of(slot.dtype), 4)),
                  plan::kBufferAlignment);
}

}  // namespace

Status damaged_states(const std::string& name) {
  return {Code::Usage, "an earlier run failed while it updated the state '" + name +
                           "', which therefore has no defined value; load or reset the states, or "
                           "write this one"};
}

Status does_not_grow(const std::string& name) {
  return {Code::Usage, "the state '" + name + "' has a fixed shape, and does not grow"};
}

Status check_fork(const plan::Interface& io, int64_t length, int64_t of) {
  if (length < -1) return {Code::Usage, "a fork cannot have " + std::to_string(length) + " rows"};
  for (const plan::StateSlot& slot : io.states)
    if (length >= 0 && length < of && !slot.grows())
      return {Code::Usage,
              "the state '" + slot.name +
                  "' has a fixed shape and no value for an earlier length; fork at the "
                  "whole length, which is " +
                  std::to_string(of)};
  return {};
}

Status check_same_states(const plan::Interface& states, const plan::Interface& session) {
  const auto& a = states.states;
  const auto& b = session.states;
  if (b.empty()) return {Code::Usage, "the model has no states, so that none can be bound"};
  const auto same = [](const Expr& x, const Expr& y) {
    return (!x.is_const() && !y.is_const()) || x == y;
  };
  for (size_t s = 0; s < std::max(a.size(), b.size()); ++s) {
    if (s < std::min(a.size(), b.size()) && a[s].name == b[s].name && a[s].dtype == b[s].dtype &&
        a[s].axis == b[s].axis && std::ranges::equal(a[s].shape, b[s].shape, same))
      continue;
    return {Code::Usage, "these states are of another model: the first that differs is '" +
                             (s < b.size() ? b[s] : a[s]).name + "'; make them with this session"};
  }
  return {};
}

Result<HostTensor> initial_state(const package::Package& package, const plan::StateSlot& slot) {
  std::vector<int64_t> dims;
  for (const Expr& e : slot.shape) dims.push_back(e.is_const() ? e.value() : 0);
  RP_TRY(checked_element_count(dims, slot.dtype).status());
  if (slot.initial == plan::StateSlot::kZeros) return HostTensor(slot.dtype, std::move(dims));
  auto value = package::load_weight(package, slot.initial);
  if (!value.ok())
    return value.status().with_context("state '" + slot.name + "': its initial value");
  return value;
}

Status StateMemory::allocate(const plan::Interface& io, bool isolate) {
  const uint64_t limit = isolate ? 0 : std::min(kPoolBytes, device_->info().facts.max_buffer_bytes);
  struct Want {
    Place* place;
    size_t pool;
  };
  std::vector<Want> wanted;
  std::vector<uint64_t> pools;
  for (size_t s = 0; s < states_.size(); ++s) {
    if (states_[s].rows) continue;
    const uint64_t bytes = bytes_of(io.states[s]);
    const size_t places = states_[s].has_next ? 2 : 1;
    for (size_t p = 0; p < places; ++p) {
      if (pools.empty() || pools.back() + bytes > limit) pools.push_back(0);
      states_[s].places[p].offset = pools.back();
      pools.back() += bytes;
      wanted.push_back({&states_[s].places[p], pools.size() - 1});
    }
  }
  for (const uint64_t bytes : pools) {
    auto pool = device_->allocate_or_free_idle(bytes, MemoryUse::Device);
    if (!pool.ok()) return pool.status().with_context("memory for the states");
    bytes_ += (*pool)->size();
    pools_.push_back(std::move(*pool));
  }
  for (const Want& w : wanted) w.place->buffer = pools_[w.pool].get();
  return {};
}

void StateMemory::add_uses(const plan::Plan& plan) {
  for (const plan::Buffer& b : plan.buffers) {
    if (b.kind == plan::BufferKind::NextState)
      states_[static_cast<size_t>(b.index)].has_next = true;
  }
  for (const plan::Step& step : plan.steps) {
    const auto* launch = std::get_if<plan::Launch>(&step.what);
    for (size_t i = 0; launch && i < launch->buffers.size(); ++i) {
      const plan::Buffer& b = plan.buffers[launch->buffers[i]];
      if (launch->writes[i] && b.kind == plan::BufferKind::State)
        states_[static_cast<size_t>(b.index)].in_place = true;
    }
  }
}

Result<StateMemory> StateMemory::create(const package::Package& package,
                                        const package::Variant& variant, Device& device,
                                        bool isolate) {
  StateMemory out;
  const std::vector<plan::StateSlot>& slots = package.io.states;
  out.io_ = &package.io;
  out.device_ = &device;
  out.states_.resize(slots.size());
  out.add_uses(variant.plan);
  for (const package::SizedPlan& plan : variant.plans) out.add_uses(plan.plan);
  for (size_t s = 0; s < slots.size(); ++s) {
    if (!slots[s].grows()) continue;
    if (out.states_[s].has_next || out.states_[s].in_place)
      return invalid_model("the state '" + slots[s].name + "' grows, but launches replace it");
    out.states_[s].rows = std::make_unique<RowMemory>(device, slots[s]);
    out.lengths_.resize(slots.size());
  }
  RP_TRY(out.allocate(package.io, isolate));
  for (size_t s = 0; s < slots.size(); ++s) {
    if (slots[s].grows()) continue;
    RP_ASSIGN(const HostTensor value, initial_state(package, slots[s]));
    RP_TRY(out.write(std::span(&s, 1), std::span(&value, 1)));
  }
  return out;
}

Result<StateMemory> StateMemory::fork(int64_t length) const {
  RP_TRY(check());
  RP_TRY(check_fork(*io_, length, this->length()));
  StateMemory out;
  out.io_ = io_;
  out.device_ = device_;
  out.states_.resize(states_.size());
  out.lengths_.resize(lengths_.size());
  std::vector<size_t> fixed;
  for (size_t s = 0; s < states_.size(); ++s) {
    const State& from = states_[s];
    State& to = out.states_[s];
    to.has_next = from.has_next;
    to.in_place = from.in_place;
    if (!from.rows) {
      fixed.push_back(s);
      continue;
    }
    const StateRows& rows = from.rows->rows();
    if (length >= 0) RP_TRY(check_change(io_->states[s].name, rows, RowChange::Truncate, length));
    to.rows = from.rows->fork(length < 0 ? rows.length : length);
  }
  RP_TRY(out.allocate(*io_, false));
  RP_ASSIGN(const std::vector<HostTensor> values, read(fixed));
  RP_TRY(out.write(fixed, values));
  return out;
}

Status StateMemory::accept_uses_of(const StateMemory& own) {
  for (size_t s = 0; s < states_.size(); ++s) {
    if (own.states_[s].has_next && !states_[s].has_next)
      return {Code::Usage, "the session needs two places for the state '" + io_->states[s].name +
                               "', and these states have one; make them with this session"};
    states_[s].in_place = states_[s].in_place || own.states_[s].in_place;
  }
  return {};
}

uint64_t StateMemory::shared_bytes() const {
  uint64_t bytes = 0;
  for (const State& s : states_)
    if (s.rows && s.rows->is_shared()) bytes += s.rows->bytes();
  return bytes;
}

int64_t StateMemory::length() const {
  int64_t length = 0;
  for (const State& s : states_)
    if (s.rows) length = std::max(length, s.rows->rows().length);
  return length;
}

uint64_t StateMemory::bytes() const {
  uint64_t bytes = bytes_;
  for (const State& s : states_)
    if (s.rows) bytes += s.rows->bytes();
  return bytes;
}

std::span<const int64_t> StateMemory::lengths() {
  for (size_t s = 0; s < lengths_.size(); ++s)
    if (states_[s].rows) lengths_[s] = states_[s].rows->rows().length;
  return lengths_;
}

Result<std::vector<StateRows>> StateMemory::change(std::span<const size_t> which, RowChange change,
                                                   int64_t rows) {
  for (const size_t s : which) {
    const std::string& name = io_->states[s].name;
    if (!states_[s].rows) return does_not_grow(name);
    RP_TRY(check_change(name, states_[s].rows->rows(), change, rows));
  }
  std::vector<StateRows> out;
  out.reserve(which.size());
  for (const size_t s : which) {
    RP_TRY(states_[s].rows->change(change, rows));
    out.push_back(states_[s].rows->rows());
  }
  return out;
}

Status StateMemory::begin(const plan::Interface& io, std::span<const int64_t> symbols) {
  for (size_t s = 0; s < lengths_.size(); ++s) {
    if (!states_[s].rows) continue;
    const plan::StateSlot& slot = io.states[s];
    RP_TRY(plan::eval_dims(io, slot.shape, symbols, slot.name, dims_));
    RP_TRY(checked_element_count(dims_, slot.dtype).status());
    RP_ASSIGN(const int64_t length, slot.length_after.eval(symbols));
    RP_TRY(states_[s].rows->begin(dims_, length));
  }
  place_rows();
  return {};
}

void StateMemory::place_rows() {
  for (size_t s = 0; s < lengths_.size(); ++s) {
    State& state = states_[s];
    if (!state.rows) continue;
    state.places[0] = {state.rows->buffer(), 0};
    state.places[1] = {state.rows->buffer(), state.rows->end()};
  }
}

Result<std::vector<HostTensor>> StateMemory::read(std::span<const size_t> which) const {
  std::vector<HostTensor> out;
  for (const size_t s : which) {
    const plan::StateSlot& slot = io_->states[s];
    if (states_[s].rows) {
      RP_ASSIGN(HostTensor rows, states_[s].rows->read());
      out.push_back(std::move(rows));
      continue;
    }
    if (states_[s].damaged) return damaged_states(slot.name);
    HostTensor value(slot.dtype, static_dims(slot.shape));
    const Place& from = current(s);
    if (!value.bytes().empty())
      RP_TRY(device_->download(*from.buffer, from.offset, value.mutable_bytes()));
    out.push_back(std::move(value));
  }
  return out;
}

Status StateMemory::write(std::span<const size_t> which, std::span<const HostTensor> values) {
  std::vector<RowMemory::Rewrite> rewrites(which.size());
  for (size_t i = 0; i < which.size(); ++i) {
    if (!states_[which[i]].rows) continue;
    RP_ASSIGN(rewrites[i], states_[which[i]].rows->prepare(values[i]));
  }
  for (size_t i = 0; i < which.size(); ++i) {
    State& s = states_[which[i]];
    if (s.rows) {
      RP_TRY(s.rows->write(std::move(rewrites[i])));
      continue;
    }
    const Place& to = s.places[s.at];
    s.damaged = true;
    if (!values[i].bytes().empty())
      RP_TRY(device_->upload(*to.buffer, to.offset, values[i].bytes()));
    s.damaged = false;
  }
  return {};
}

Status StateMemory::check() const {
  for (size_t s = 0; s < states_.size(); ++s)
    if (states_[s].damaged) return damaged_states(io_->states[s].name);
  return {};
}

void StateMemory::advance(size_t s) {
  State& state = states_[s];
  if (state.rows) return state.rows->advance();
  state.at = static_cast<uint8_t>(1 - state.at);
}

void StateMemory::fail() {
  for (State& s : states_) s.damaged = s.damaged || s.in_place;
}

}  // namespace reprise
