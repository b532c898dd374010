#include "runtime/plan/plan.h"

namespace reprise::plan {
namespace {

std::string_view kind_name(BufferKind kind) {
  switch (kind) {
    case BufferKind::Input:
      return "input";
    case BufferKind::Output:
      return "output";
    case BufferKind::Weight:
      return "weight";
    case BufferKind::Arena:
      return "arena";
    case BufferKind::Growable:
      return "growable";
    case BufferKind::State:
      return "state";
    case BufferKind::NewRows:
      return "new-rows";
    case BufferKind::AllRows:
      return "all-rows";
    case BufferKind::NextState:
      return "next-state";
  }
  return "?";
}

std::string_view source_name(SymbolSource::Kind kind) {
  switch (kind) {
    case SymbolSource::Kind::InputDim:
      return "input";
    case SymbolSource::Kind::HostOutput:
      return "host output";
    case SymbolSource::Kind::Derived:
      return "derived";
    case SymbolSource::Kind::Caller:
      return "caller";
    case SymbolSource::Kind::StateLength:
      return "length of state";
  }
  return "?";
}

template <typename T, typename F>
std::string join(const T& items, F&& f) {
  std::string s;
  for (const auto& item : items) {
    if (!s.empty()) s += ", ";
    s += f(item);
  }
  return s;
}

std::string quote(const std::string& s) {
  return "\"" + s + "\"";
}

class Printer {
 public:
  explicit Printer(const Interface& io) : io_(io) {}

  std::string print(const Plan& p) {
    for (size_t i = 0; i < io_.symbols.size(); ++i) symbol(i);
    for (size_t i = 0; i < p.weights.size(); ++i) weight(i, p.weights[i]);
    for (const BufferId b : p.buffers.ids()) buffer(b, p.buffers[b]);
    for (size_t i = 0; i < p.kernels.size(); ++i) kernel(i, p.kernels[i]);
    for (size_t i = 0; i < p.steps.size(); ++i) {
      text_ += "step " + std::to_string(i) + " level " + std::to_string(p.steps[i].level) +
               " after [" + numbers(p.steps[i].after) + "] ";
      std::visit([&](const auto& what) { step(p, what); }, p.steps[i].what);
    }
    for (const auto& a : p.aliases) text_ += "copy " + id(a.from) + " -> " + id(a.output) + "\n";
    return std::move(text_);
  }

 private:
  std::string expr(const Expr& e) const { return e.str(io_.symbols); }
  static std::string id(BufferId b) { return b.is_none() ? "-" : "%" + std::to_string(b.number()); }
  template <typename T>
  static std::string numbers(const T& v) {
    return join(v, [](auto n) { return std::to_string(n); });
  }

  void symbol(size_t i) {
    const Symbol& s = io_.symbols[i];
    text_ += "symbol " + quote(s.name) + " in [" + std::to_string(s.min) + ", " +
             std::to_string(s.max) + "]";
    if (s.divisor != 1) text_ += " multiple of " + std::to_string(s.divisor);
    if (i < io_.sources.size()) {
      const SymbolSource& source = io_.sources[i];
      const bool derived = source.kind == SymbolSource::Kind::Derived;
      text_ += " from " + std::string(source_name(source.kind)) + " ";
      text_ += derived ? expr(source.value)
                       : std::to_string(source.index) + " axis " + std::to_string(source.axis);
    }
    text_ += "\n";
  }

  void weight(size_t i, const Weight& w) {
    text_ += "weight " + std::to_string(i) + " " + quote(w.name) + " segment " +
             std::to_string(w.segment);
    if (!w.packing.is_raw()) text_ += " packed " + w.packing.str();
    text_ += "\n";
  }

  void buffer(BufferId number, const Buffer& b) {
    text_ += id(number) + " " + std::string(kind_name(b.kind));
    if (b.index >= 0) text_ += " " + std::to_string(b.index);
    text_ += " " + quote(b.name) + " " + std::string(name_of(b.dtype)) +
             shape_str(b.shape, io_.symbols) + "\n";
  }

  void kernel(size_t i, const KernelCode& k) {
    text_ += "kernel " + std::to_string(i) + " " + k.name + " workgroup [" + numbers(k.workgroup) +
             "] buffers " + std::to_string(k.n_buffers) + " scalars " + std::to_string(k.n_scalars);
    if (!k.views.empty()) text_ += " views " + std::to_string(k.views.size());
    if (k.shared_bytes) text_ += " shared " + std::to_string(k.shared_bytes);
    if (k.subgroup_size) text_ += " subgroup " + std::to_string(k.subgroup_size);
    if (k.early) text_ += " early";
    if (!k.spirv.empty()) text_ += " spirv " + std::to_string(k.spirv.size()) + " words";
    if (!k.cuda.empty()) text_ += " cuda " + std::to_string(k.cuda.size()) + " bytes";
    text_ += "\n";
  }

  void step(const Plan& p, const Launch& l) {
    const std::string name = l.kernel < p.kernels.size() ? p.kernels[l.kernel].name : "?";
    text_ += "launch " + name + "(";
    for (size_t i = 0; i < l.buffers.size(); ++i) {
      if (i) text_ += ", ";
      const bool writes = i < l.writes.size() && l.writes[i];
      const bool state =
          p.buffers.has(l.buffers[i]) && p.buffers[l.buffers[i]].kind == BufferKind::State;
      text_ += (writes ? state ? "inout " : "out " : "") + id(l.buffers[i]);
    }
    for (size_t i = 0; i < l.scalars.size(); ++i) {
      text_ += (i || !l.buffers.empty() ? ", " : "") + expr(l.scalars[i]);
    }
    text_ += ") grid [" + join(l.grid, [this](const Expr& e) { return expr(e); }) + "]";
    if (!l.iterations.is_const()) text_ += " iterations " + expr(l.iterations);
    if (l.checks) text_ += " checks";
    if (l.commits) text_ += " commits";
    if (!l.schedule.empty()) text_ += " schedule " + quote(l.schedule);
    text_ += " nodes [" + join(l.nodes, quote) + "]\n";
  }

  void step(const Plan&, const HostCall& c) {
    text_ += "host " + c.op + "(" + join(c.inputs, id) + ") -> (" + join(c.outputs, id) + ")";
    if (!c.node.empty()) text_ += " node " + quote(c.node);
    if (!c.reason.empty()) text_ += " because " + quote(c.reason);
    if (!c.device_bodies.empty()) text_ += " bodies [" + numbers(c.device_bodies) + "]";
    text_ += "\n";
  }

  const Interface& io_;
  std::string text_;
};

}  // namespace

std::string print(const Plan& p, const Interface& io) {
  return Printer(io).print(p);
}

}  // namespace reprise::plan
