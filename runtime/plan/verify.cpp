#include <algorithm>
#include <limits>
#include <set>

#include "runtime/base/align.h"
#include "runtime/plan/accesses.h"

namespace reprise::plan {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 40;

Status malformed(const std::string& where, const std::string& what) {
  return invalid_model(where + ": " + what);
}

std::string number(int64_t v) {
  return std::to_string(v);
}

bool in_range(int64_t index, size_t size) {
  return index >= 0 && index < static_cast<int64_t>(size);
}

Status check_expr(const Expr& e, const Interface& io, const std::string& where) {
  if (e.is_overflow()) return malformed(where, "a size overflows 64 bits");
  const std::vector<SymbolId> ids = e.symbols();
  for (const SymbolId id : ids) {
    if (!in_range(id, io.symbols.size())) {
      return malformed(where, "symbol " + number(id) + " does not exist");
    }
  }
  return {};
}

Status check_type(DType dtype, const Shape& shape, const Interface& io, const std::string& where) {
  if (!is_dtype(static_cast<uint8_t>(dtype))) {
    return malformed(where,
                     "element type " + number(static_cast<int64_t>(dtype)) + " does not exist");
  }
  if (is_container(dtype) && !shape.empty())
    return malformed(where, std::string(name_of(dtype)) + " has no dims");
  for (const Expr& dim : shape) {
    RP_TRY(check_expr(dim, io, where));
    if (dim.is_const() && dim.value() < 0) {
      return malformed(where, "dimension " + number(dim.value()) + " is negative");
    }
  }
  return {};
}

/// A session copies the pixels of images to tensors of these shapes.
Status check_image(const Slot& slot, const std::string& where) {
  if (slot.image == ImageFormat::None) return {};
  if (slot.image > kLastImageFormat)
    return malformed(
        where, "image format " + number(static_cast<int64_t>(slot.image)) + " does not exist");
  const bool half = slot.image == ImageFormat::Rgba16F, planes = slot.image == ImageFormat::Nv12;
  const int64_t channels = slot.image == ImageFormat::R8 ? 1 : 4;
  const bool fits =
      planes ? slot.shape.size() == 2 : slot.shape.size() == 3 && slot.shape[2].is_const(channels);
  if (fits && slot.dtype == (half ? DType::F16 : DType::U8)) return {};
  return malformed(where,
                   "its type is not that of an image in " + std::string(name_of(slot.image)));
}

template <typename S>
Status check_slots(const std::vector<S>& slots, const Interface& io, const std::string& kind) {
  std::set<std::string_view> names;
  for (const Slot& slot : slots) {
    const std::string where = kind + " '" + slot.name + "'";
    if (!names.insert(slot.name).second) return malformed(where, "the name is used twice");
    RP_TRY(check_type(slot.dtype, slot.shape, io, where));
    RP_TRY(check_image(slot, where));
  }
  return {};
}

Status check_symbol(SymbolId id, const Interface& io) {
  const Symbol& symbol = io.symbols[static_cast<size_t>(id)];
  const SymbolSource& source = io.sources[static_cast<size_t>(id)];
  const std::string where = "symbol '" + symbol.name + "'";
  if (symbol.divisor < 1)
    return malformed(where, "divisor " + number(symbol.divisor) + " is below 1");
  if (symbol.min > symbol.max) return malformed(where, "its range is empty");
  if (source.kind > SymbolSource::Kind::StateLength) {
    return malformed(
        where, "source kind " + number(static_cast<int64_t>(source.kind)) + " does not exist");
  }
  if (source.kind == SymbolSource::Kind::Derived) {
    RP_TRY(check_expr(source.value, io, where));
    const std::vector<SymbolId> from = source.value.symbols();
    const bool earlier = std::all_of(from.begin(), from.end(), [id](SymbolId s) { return s < id; });
    return earlier ? Status() : malformed(where, "is derived from a symbol after it");
  }
  if (source.kind == SymbolSource::Kind::StateLength) {
    const bool grows = in_range(source.index, io.states.size()) &&
                       io.states[static_cast<size_t>(source.index)].grows();
    return grows ? Status() : malformed(where, "its source is no state that grows");
  }
  if (source.kind != SymbolSource::Kind::InputDim) return {};
  if (!in_range(source.index, io.inputs.size()) ||
      !in_range(source.axis, io.inputs[static_cast<size_t>(source.index)].shape.size())) {
    return malformed(where, "its source, dimension " + number(source.axis) + " of input " +
                                number(source.index) + ", does not exist");
  }
  return {};
}

/// Every size of a state that grows is known before the run.
Status check_rows(const StateSlot& s, const Interface& io, const std::string& where) {
  if (s.axis >= static_cast<int32_t>(s.shape.size()))
    return malformed(where, "has no axis " + number(s.axis));
  const auto length = s.shape[static_cast<size_t>(s.axis)].as_symbol();
  if (!length || io.sources[static_cast<size_t>(*length)].kind != SymbolSource::Kind::StateLength)
    return malformed(where, "its length is not that of a state");
  RP_TRY(check_expr(s.length_after, io, where));
  Shape sizes = s.shape;
  sizes.push_back(s.length_after);
  const std::vector<bool> known = known_from_inputs(io.sources);
  for (const Expr& e : sizes)
    for (const SymbolId id : e.symbols())
      if (!known[static_cast<size_t>(id)])
        return malformed(where, "grows by a size that is not known before a run");
  return {};
}

Status check_states(const Interface& io) {
  RP_TRY(check_slots(io.states, io, "state"));
  for (const StateSlot& s : io.states) {
    const std::string where = "state '" + s.name + "'";
    if (is_host_only(s.dtype) || is_container(s.dtype))
      return malformed(where, "cannot be of type " + std::string(name_of(s.dtype)));
    if (s.grows()) RP_TRY(check_rows(s, io, where));
    if (!s.grows() && !is_static(s.shape)) return malformed(where, "its shape is not fixed");
  }
  return {};
}

Status check_interface(const Interface& io) {
  if (io.symbols.size() != io.sources.size()) {
    return malformed("interface", number(static_cast<int64_t>(io.symbols.size())) +
                                      " symbols have " +
                                      number(static_cast<int64_t>(io.sources.size())) + " sources");
  }
  RP_TRY(check_slots(io.inputs, io, "input"));
  RP_TRY(check_slots(io.outputs, io, "output"));
  RP_TRY(check_states(io));
  for (size_t i = 0; i < io.symbols.size(); ++i) {
    RP_TRY(check_symbol(static_cast<SymbolId>(i), io));
  }
  for (const DimGuard& guard : io.guards) {
    if (guard.kind > DimGuard::Kind::AtLeast) {
      return malformed(
          "node '" + guard.node + "'",
          "guard kind " + number(static_cast<int64_t>(guard.kind)) + " does not exist");
    }
    RP_TRY(check_expr(guard.a, io, "node '" + guard.node + "'"));
    RP_TRY(check_expr(guard.b, io, "node '" + guard.node + "'"));
  }
  return {};
}

class Verifier {
 public:
  Verifier(const Plan& p, const Interface& io) : p_(p), io_(io) {}

  Status run() {
    for (const BufferId b : p_.buffers.ids()) RP_TRY(buffer(p_.buffers[b], b));
    RP_TRY(slots(inputs_, io_.inputs, "input"));
    RP_TRY(slots(outputs_, io_.outputs, "output"));
    RP_TRY(slots(states_, io_.states, "state"));
    next_states_.resize(io_.states.size());
    for (const Weight& w : p_.weights) RP_TRY(weight(w));
    std::set<std::string_view> names;
    for (const KernelCode& k : p_.kernels) {
      RP_TRY(kernel(k));
      if (!names.insert(k.name).second) {
        return malformed("kernel '" + k.name + "'", "the name is used twice");
      }
    }
    for (uint32_t s = 0; s < p_.steps.size(); ++s) {
      const std::string where = describe(s);
      RP_TRY(order(s, where));
      RP_TRY(std::visit([&](const auto& what) { return step(what, where); }, p_.steps[s].what));
    }
    RP_TRY(hazards());
    RP_TRY(commits());
    return initialised();
  }

 private:
  std::string describe(uint32_t s) const {
    const std::string where = "step " + std::to_string(s) + " (";
    if (const auto* call = std::get_if<HostCall>(&p_.steps[s].what)) {
      return where + call->op + " node '" + call->node + "')";
    }
    return where + "launch '" + std::get<Launch>(p_.steps[s].what).group + "')";
  }

  Status buffer(const Buffer& b, BufferId id) {
    const std::string where = "buffer '" + b.name + "'";
    RP_TRY(check_type(b.dtype, b.shape, io_, where));
    switch (b.kind) {
      case BufferKind::Input:
        return slot(b, id, io_.inputs, inputs_, where);
      case BufferKind::Output:
        return slot(b, id, io_.outputs, outputs_, where);
      case BufferKind::State:
        return slot(b, id, io_.states, states_, where);
      case BufferKind::NextState:
        return slot(b, id, io_.states, next_states_, where);
      case BufferKind::NewRows:
        return slot(b, id, io_.states, new_rows_, where);
      case BufferKind::AllRows:
        return slot(b, id, io_.states, all_rows_, where);
      case BufferKind::Weight:
        if (!in_range(b.index, p_.weights.size())) {
          return malformed(where, "weight " + number(b.index) + " does not exist");
        }
        return is_static(b.shape) ? Status() : malformed(where, "a weight has a dynamic shape");
      case BufferKind::Arena:
      case BufferKind::Growable:
        return {};
    }
    return malformed(where,
                     "buffer kind " + number(static_cast<int64_t>(b.kind)) + " does not exist");
  }

  static bool fits(const Slot& s, const Buffer& b) { return s.shape == b.shape; }
  /// The rows of a state that grows are first in plans for devices, but not in the host plan.
  static bool fits(const StateSlot& s, const Buffer& b) {
    const bool rows = b.kind == BufferKind::NewRows || b.kind == BufferKind::AllRows;
    if (!s.grows()) return !rows && s.shape == b.shape;
    const Expr& length = s.shape[static_cast<size_t>(s.axis)];
    if (rows)
      return b.shape ==
             s.rows_first(b.kind == BufferKind::AllRows ? s.length_after : s.length_after - length);
    if (b.kind == BufferKind::State) return b.shape == s.shape || b.shape == s.rows_first(length);
    Shape next = s.shape;
    next[static_cast<size_t>(s.axis)] = s.length_after;
    return b.shape == next;
  }

  /// The caller's tensors are copied into these buffers, so the sizes must agree.
  template <typename S>
  Status slot(const Buffer& b, BufferId id, const std::vector<S>& slots,
              std::vector<BufferId>& seen, const std::string& where) const {
    if (!in_range(b.index, slots.size())) {
      return malformed(where, "input or output " + number(b.index) + " does not exist");
    }
    seen.resize(slots.size());
    if (!seen[static_cast<size_t>(b.index)].is_none()) {
      return malformed(where, "input or output " + number(b.index) + " has two buffers");
    }
    seen[static_cast<size_t>(b.index)] = id;
    const Slot& s = slots[static_cast<size_t>(b.index)];
    if (s.dtype == b.dtype && fits(slots[static_cast<size_t>(b.index)], b)) return {};
    return malformed(where, "is " + std::string(name_of(b.dtype)) +
                                shape_str(b.shape, io_.symbols) + ", the model's tensor '" +
                                s.name + "' is " + std::string(name_of(s.dtype)) +
                                shape_str(s.shape, io_.symbols));
  }

  template <typename S>
  static Status slots(std::vector<BufferId>& seen, const std::vector<S>& slots,
                      const std::string& kind) {
    seen.resize(slots.size());
    for (size_t i = 0; i < slots.size(); ++i) {
      if (seen[i].is_none()) return malformed(kind + " '" + slots[i].name + "'", "has no buffer");
    }
    return {};
  }

  static Status weight(const Weight& w) {
    const std::string where = "weight '" + w.name + "'";
    return w.packing.check().with_context(where);
  }

  static Status kernel(const KernelCode& k) {
    const std::string where = "kernel '" + k.name + "'";
    uint64_t invocations = 1;
    for (const uint32_t n : k.workgroup) {
      if (n < 1 || n > 1024)
        return malformed(where, "workgroup size " + number(n) + " is impossible");
      invocations *= n;
    }
    if (invocations > 1024) {
      return malformed(where, "a workgroup of " + std::to_string(invocations) + " is impossible");
    }
    for (const TensorView& v : k.views)
      RP_TRY(verify_view(v, k.n_buffers, k.n_scalars).with_context(where));
    return verify_spirv(k.spirv).with_context(where);
  }

  Status order(uint32_t s, const std::string& where) const {
    const Step& step = p_.steps[s];
    if (s > 0 && step.level < p_.steps[s - 1].level) {
      return malformed(where, "steps are not sorted by level");
    }
    uint32_t level = 0;
    for (const uint32_t a : step.after) {
      if (a >= s)
        return malformed(where, "waits for step " + number(a) + ", which is not before it");
      level = std::max(level, p_.steps[a].level + 1);
    }
    if (level != step.level) {
      return malformed(where, "is on level " + number(step.level) +
                                  ", its dependencies put it on " + number(level));
    }
    return {};
  }

  Status buffer_id(BufferId b, bool writes, const std::string& where) const {
    if (!p_.buffers.has(b)) {
      return malformed(where, "buffer " + number(b.number()) + " does not exist");
    }
    const Buffer& buffer = p_.buffers[b];
    if (writes && (buffer.kind == BufferKind::Input || buffer.kind == BufferKind::Weight ||
                   buffer.kind == BufferKind::AllRows)) {
      return malformed(where, "writes the read-only buffer '" + buffer.name + "'");
    }
    return {};
  }

  Status step(const Launch& l, const std::string& where) const {
    if (!in_range(l.kernel, p_.kernels.size())) {
      return malformed(where, "kernel " + number(l.kernel) + " does not exist");
    }
    const KernelCode& k = p_.kernels[l.kernel];
    if (l.buffers.size() != k.n_buffers || l.writes.size() != k.n_buffers ||
        l.scalars.size() != k.n_scalars) {
      return malformed(where, "kernel '" + k.name + "' takes another number of buffers or scalars");
    }
    for (size_t i = 0; i < l.buffers.size(); ++i) {
      RP_TRY(buffer_id(l.buffers[i], l.writes[i], where));
      const Buffer& b = p_.buffers[l.buffers[i]];
      // The session would not know which of two next values is meant.
      if (l.writes[i] && b.kind == BufferKind::State &&
          !next_states_[static_cast<size_t>(b.index)].is_none())
        return malformed(where, "updates the state '" + b.name + "', which has a next value");
      if (l.writes[i] && b.kind == BufferKind::State &&
          io_.states[static_cast<size_t>(b.index)].grows())
        return malformed(where, "replaces rows of the state '" + b.name + "', which grows");
      if (is_host_only(b.dtype)) {
        return malformed(
            where, "'" + b.name + "', of type " + std::string(name_of(b.dtype)) + ", on a device");
      }
    }
    for (const Expr& e : l.scalars) RP_TRY(check_expr(e, io_, where));
    RP_TRY(check_expr(l.iterations, io_, where));
    for (const Expr& e : l.grid) {
      RP_TRY(check_expr(e, io_, where));
      if (e.is_const() && (e.value() < 0 || e.value() > std::numeric_limits<uint32_t>::max())) {
        return malformed(where, "a grid of " + number(e.value()) + " workgroups is impossible");
      }
    }
    return {};
  }

  Status step(const HostCall& c, const std::string& where) const {
    for (const BufferId b : c.inputs) {
      if (b != BufferId()) RP_TRY(buffer_id(b, false, where));
    }
    for (const BufferId b : c.outputs) {
      if (b == BufferId()) continue;
      RP_TRY(buffer_id(b, true, where));
      if (p_.buffers[b].kind == BufferKind::State || p_.buffers[b].kind == BufferKind::NewRows)
        return malformed(where, "updates the state '" + p_.buffers[b].name + "' on the host");
    }
    for (const auto& [name, value] : c.attrs) {
      const auto* exprs = std::get_if<Shape>(&value);
      if (!exprs) continue;
      std::string attribute = where;
      attribute.append(" attribute '").append(name).append("'");
      for (const Expr& e : *exprs) RP_TRY(check_expr(e, io_, attribute));
    }
    return {};
  }

  /// A recording orders steps only by levels, so conflicting steps must not share a level.
  Status hazards() const {
    const AccessTable table(p_, io_.sources);
    std::vector<Accesses> accesses;
    accesses.reserve(p_.steps.size());
    for (const Step& s : p_.steps) accesses.push_back(table.of(s));
    uint32_t clash = std::numeric_limits<uint32_t>::max();
    uint32_t with = 0;
    for_each_hazard(accesses, table.resource_count(), [&](uint32_t earlier, uint32_t later) {
      if (p_.steps[earlier].level < p_.steps[later].level) return;
      clash = later;
      with = earlier;
    });
    if (clash == std::numeric_limits<uint32_t>::max()) return {};
    return malformed(describe(clash), "shares memory and its level with " + describe(with));
  }

  /// What commits must not run before a step that may still fail.
  Status commits() const {
    uint32_t first = std::numeric_limits<uint32_t>::max();
    for (const Step& s : p_.steps) {
      const auto* launch = std::get_if<Launch>(&s.what);
      if (launch && launch->commits) first = std::min(first, s.level);
    }
    for (uint32_t s = 0; s < p_.steps.size(); ++s)
      if (may_fail(p_.steps[s]) && p_.steps[s].level >= first)
        return malformed(describe(s), "may fail after states were updated");
    return {};
  }

  /// No step needs to write a buffer without elements.
  bool is_empty(BufferId b) const {
    const Shape& shape = p_.buffers[b].shape;
    return std::any_of(shape.begin(), shape.end(), [](const Expr& e) { return e.is_const(0); });
  }

  /// Checks that every buffer is written before it is read or returned.
  Status initialised() const {
    IdVector<BufferId, bool> written(p_.buffers.size(), false);
    for (const BufferId b : p_.buffers.ids()) {
      const BufferKind kind = p_.buffers[b].kind;
      written[b] = kind == BufferKind::Input || kind == BufferKind::Weight ||
                   kind == BufferKind::State || kind == BufferKind::AllRows;
    }
    const auto need = [&](BufferId b, const std::string& where) {
      if (written[b] || is_empty(b)) return Status();
      return malformed(where, "reads buffer '" + p_.buffers[b].name + "' before anything wrote it");
    };
    for (uint32_t s = 0; s < p_.steps.size(); ++s) {
      if (const auto* l = std::get_if<Launch>(&p_.steps[s].what)) {
        for (size_t i = 0; i < l->buffers.size(); ++i) {
          if (!l->writes[i]) RP_TRY(need(l->buffers[i], describe(s)));
        }
        for (size_t i = 0; i < l->buffers.size(); ++i) {
          if (l->writes[i]) written[l->buffers[i]] = true;
        }
        continue;
      }
      const auto& call = std::get<HostCall>(p_.steps[s].what);
      for (const BufferId b : call.inputs) {
        if (!b.is_none()) RP_TRY(need(b, describe(s)));
      }
      for (const BufferId b : call.outputs) {
        if (!b.is_none()) written[b] = true;
      }
    }
    return aliases(written);
  }

  Status aliases(IdVector<BufferId, bool>& written) const {
    for (const auto& [from, output] : p_.aliases) {
      const std::string where = "copy into output";
      RP_TRY(buffer_id(from, false, where));
      RP_TRY(buffer_id(output, true, where));
      const Buffer& a = p_.buffers[from];
      const Buffer& b = p_.buffers[output];
      const bool result = b.kind == BufferKind::Output || b.kind == BufferKind::NextState;
      if (!result || written[output]) {
        return malformed(where, "'" + b.name + "' is not an output that needs a copy");
      }
      if (a.dtype != b.dtype || !(a.shape == b.shape)) {
        return malformed(where, "'" + b.name + "' differs in type or shape from '" + a.name + "'");
      }
      if (!written[from] && !is_empty(from)) {
        return malformed(where, "'" + b.name + "' copies '" + a.name + "', which nothing wrote");
      }
    }
    for (const auto& alias : p_.aliases) written[alias.output] = true;
    for (const BufferId b : outputs_) {
      if (!written[b] && !is_empty(b)) {
        return malformed("output '" + p_.buffers[b].name + "'", "nothing writes it");
      }
    }
    for (const BufferId b : next_states_) {
      if (!b.is_none() && !written[b] && !is_empty(b))
        return malformed("next state '" + p_.buffers[b].name + "'", "nothing writes it");
    }
    for (const BufferId b : new_rows_) {
      if (!b.is_none() && !written[b] && !is_empty(b))
        return malformed("state '" + p_.buffers[b].name + "'", "nothing writes its new rows");
    }
    return {};
  }

  const Plan& p_;
  const Interface& io_;
  std::vector<BufferId> inputs_, outputs_, states_, next_states_;  // buffer of each slot
  std::vector<BufferId> new_rows_, all_rows_;                      // of each state; may be empty
};

}  // namespace

Status verify_spirv(std::span<const uint32_t> words) {
  constexpr uint32_t kSpirvMagic = 0x07230203;
  constexpr size_t kHeaderWords = 5;
  const bool sound = words.size() >= kHeaderWords && words[0] == kSpirvMagic;
  return words.empty() || sound ? Status() : invalid_model("its code is not SPIR-V");
}

Status verify(const Plan& p, const Interface& io) {
  RP_TRY(check_interface(io));
  return Verifier(p, io).run();
}

}  // namespace reprise::plan
