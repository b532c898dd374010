#include "codegen/passes/autocast.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

#include "codegen/ops/row/core_nodes.h"
#include "codegen/ops/row/op.h"
#include "codegen/passes/pass.h"

namespace reprise::passes {

namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::Value;
using graph::ValueId;

/// Why an element is fp32 in memory.
struct Reason {
  std::string text;
  bool propagates = false;  // also holds for values that are computed from such values alone
  bool elements = true;     // concerns the elements, and holds when they are moved
};

enum class Keeps : uint8_t { Operands, Divisor, Result, Both };

/// Which tensors of a sensitive operator are kept in fp32.
struct Rule {
  kernel::Sensitivity sensitivity;
  Keeps keeps;
  bool propagates;
  std::string_view reason;
};

constexpr std::string_view kExponential =
    "exponentials overflow and amplify the error of a large operand";
constexpr std::string_view kLogarithm = "rounding makes logarithms near 1 inaccurate";
constexpr std::string_view kQuotient = "division by a small number overflows";
constexpr std::string_view kSteep =
    "the function is steep near 1, where rounding removes most digits";
constexpr std::string_view kAngle = "rounding removes the fraction of a large angle";
constexpr std::string_view kSum =
    "sums and statistics exceed the range, and their tensors are small";
constexpr std::string_view kWhole = "a small error becomes an error of 1";
constexpr std::string_view kDecision = "a small error changes a decision";
constexpr std::string_view kPosition = "computed from integers, as positions and masks are";
constexpr std::string_view kSquare = "squares exceed the range";
constexpr std::string_view kResidual = "rounding errors of the layers would add up";
constexpr std::string_view kScale = "scale of quantised numbers";

constexpr auto kRules = std::to_array<Rule>({
    {kernel::Sensitivity::Exponential, Keeps::Both, false, kExponential},
    {kernel::Sensitivity::Logarithm, Keeps::Both, false, kLogarithm},
    {kernel::Sensitivity::Quotient, Keeps::Both, false, kQuotient},
    {kernel::Sensitivity::Steep, Keeps::Operands, false, kSteep},
    {kernel::Sensitivity::Angle, Keeps::Operands, false, kAngle},
    {kernel::Sensitivity::Sum, Keeps::Result, true, kSum},
    {kernel::Sensitivity::RunningSum, Keeps::Both, true, kSum},
    {kernel::Sensitivity::Step, Keeps::Both, false, kWhole},
    {kernel::Sensitivity::Decision, Keeps::Operands, false, kDecision},
    {kernel::Sensitivity::Divisor, Keeps::Divisor, false, kQuotient},
    {kernel::Sensitivity::Square, Keeps::Result, false, kSquare},
    {kernel::Sensitivity::Residual, Keeps::Result, false, kResidual},
});

const Rule* rule_of(const Node& n) {
  const kernel::Sensitivity s = ops::sensitivity_of(n);
  const auto it =
      std::find_if(kRules.begin(), kRules.end(), [&](const Rule& r) { return r.sensitivity == s; });
  return it == kRules.end() ? nullptr : &*it;
}

bool keeps_operand(const Rule& rule, size_t input) {
  switch (rule.keeps) {
    case Keeps::Operands:
    case Keeps::Both:
      return true;
    case Keeps::Divisor:
      return input == 1;
    case Keeps::Result:
      return false;
  }
  return false;
}

bool runs_on_host(const Graph& g, const Node& n) {
  if (!n.subgraphs.empty() || !ops::is_core(n)) return true;
  const auto foreign = [&](ValueId v) {
    if (v == kNone) return false;
    const DType t = g.value(v).dtype;
    return t == DType::F64 || t == DType::U64 || is_host_only(t) || t == DType::Invalid;
  };
  return std::any_of(n.inputs.begin(), n.inputs.end(), foreign) ||
         std::any_of(n.outputs.begin(), n.outputs.end(), foreign);
}

std::string name_in_text(DType t) {
  return t == DType::F16 ? "fp16" : "bf16";
}

float rounded(float x, DType t) {
  return t == DType::F16 ? f16_to_float(float_to_f16(x)) : bf16_to_float(float_to_bf16(x));
}

float largest_finite(const HostTensor& t) {
  float largest = 0;
  const float* data = t.data<float>();
  for (int64_t i = 0; i < t.count(); ++i) {
    const float a = std::fabs(data[i]);
    if (std::isfinite(a)) largest = std::max(largest, a);
  }
  return largest;
}

bool too_large(float largest, DType t) {
  return std::isinf(rounded(largest, t));
}

/// Whether all elements would be subnormal, so that rounding would remove most of their digits.
bool too_small(float largest, DType t) {
  return t == DType::F16 && largest > 0 && largest < 0x1p-14F;
}

bool fits(float largest, DType t) {
  return !too_large(largest, t) && !too_small(largest, t);
}

HostTensor narrowed(const HostTensor& t, DType to) {
  HostTensor out(to, t.dims());
  const float* from = t.data<float>();
  auto* data = out.mutable_data<uint16_t>();
  for (int64_t i = 0; i < t.count(); ++i)
    data[i] = to == DType::F16 ? float_to_f16(from[i]) : float_to_bf16(from[i]);
  return out;
}

class Autocast {
 public:
  Autocast(Graph& g, DType precision, int64_t min_elements)
      : g_(g),
        precision_(precision),
        min_elements_(min_elements),
        results_(g.values().size()),
        operands_(g.values().size()) {}

  AutocastReport run() {
    for (const auto& n : g_.nodes()) visit_results(*n);
    for (auto it = g_.nodes().rbegin(); it != g_.nodes().rend(); ++it) visit_operands(**it);
    narrow();
    return report();
  }

 private:
  using Reasons = IdVector<ValueId, std::optional<Reason>>;  // by value; none: `precision` suffices
  static const std::optional<Reason>& at(const Reasons& r, ValueId v) { return r[v]; }
  bool is_fp32(ValueId v) const { return v != kNone && g_.value(v).dtype == DType::F32; }
  bool varies(ValueId v) const { return is_fp32(v) && !g_.value(v).constant; }

  void visit_results(const Node& n) {
    for (ValueId v : n.outputs) {
      if (is_fp32(v)) results_[v] = why_result(n, v);
    }
  }

  std::optional<Reason> why_result(const Node& n, ValueId v) {
    if (runs_on_host(g_, n)) return Reason{"runs on the host", false, false};
    if (g_.is_output(v)) return Reason{"is an output of the model", false, false};
    if (ops::is_memory(n)) return Reason{"is a state", false, false};
    const Rule* rule = rule_of(n);
    if (rule != nullptr && keeps_result(*rule, n))
      return Reason{std::string(rule->reason), rule->propagates};
    if (const std::string text = constant_out_of_range(n); !text.empty()) return Reason{text};
    return ops::moves_elements(n) ? why_moved(n) : why_derived(n);
  }

  bool keeps_result(const Rule& rule, const Node& n) const {
    if (rule.keeps != Keeps::Result && rule.keeps != Keeps::Both) return false;
    if (rule.sensitivity == kernel::Sensitivity::Square) return n.inputs[0] == n.inputs[1];
    if (rule.sensitivity == kernel::Sensitivity::Residual)
      return precision_ == DType::BF16 && adds_tensors(n);
    return true;
  }

  /// Whether the node, a sum, may be a residual connection, to which each layer adds.
  bool adds_tensors(const Node& n) const {
    return varies(n.inputs[0]) && varies(n.inputs[1]) &&
           g_.value(n.inputs[0]).shape == g_.value(n.inputs[1]).shape;
  }

  std::optional<Reason> why_moved(const Node& n) const {
    for (ValueId v : n.inputs) {
      if (varies(v) && at(results_, v) && at(results_, v)->elements) return at(results_, v);
    }
    return std::nullopt;
  }

  /// The reason for a value that is computed only from positions or statistics.
  std::optional<Reason> why_derived(const Node& n) const {
    if (ops::dequantizes(n)) return std::nullopt;
    std::optional<Reason> why = Reason{std::string(kPosition), true};
    for (ValueId v : n.inputs) {
      if (!varies(v)) continue;
      if (!at(results_, v) || !at(results_, v)->propagates) return std::nullopt;
      why = at(results_, v);
    }
    return why;
  }

  std::string constant_out_of_range(const Node& n) {
    for (ValueId v : n.inputs) {
      if (!is_fp32(v) || !g_.value(v).constant || is_unreachable_bound(n, v)) continue;
      const float largest = largest_in(v);
      const bool small = too_small(largest, precision_) && is_large_constant(v);
      if (!small && !too_large(largest, precision_)) continue;
      char text[64];
      std::snprintf(text, sizeof text, small ? "has magnitudes up to %g" : "contains %g",
                    static_cast<double>(largest));
      return "'" + g_.value(v).name + "' " + text + ", outside the range of " +
             name_in_text(precision_);
    }
    return {};
  }

  /// Whether no value that fits `precision` reaches the bound of a Min or Max. Such a bound has no
  /// effect, so it does not matter that it does not fit.
  bool is_unreachable_bound(const Node& n, ValueId v) const {
    const kernel::Sensitivity s = ops::sensitivity_of(n);
    const bool lower = s == kernel::Sensitivity::LowerBound;
    if (!lower && s != kernel::Sensitivity::UpperBound) return false;
    const auto unreachable = [&](float x) {
      return !too_large(std::fabs(x), precision_) || std::signbit(x) == lower;
    };
    return std::ranges::all_of(g_.value(v).parts(), [&](const HostTensor& t) {
      const std::span<const float> bounds(t.data<float>(), static_cast<size_t>(t.count()));
      return std::ranges::all_of(bounds, unreachable);
    });
  }

  float largest_in(ValueId v) {
    const auto [it, fresh] = largest_.try_emplace(v, 0.0F);
    if (!fresh) return it->second;
    for (const HostTensor& t : g_.value(v).parts())
      it->second = std::max(it->second, largest_finite(t));
    return it->second;
  }

  /// The host plan has the parts of a merged weight one by one.
  bool is_large_constant(ValueId v) const {
    return std::ranges::all_of(g_.value(v).parts(),
                               [&](const HostTensor& t) { return t.count() >= min_elements_; });
  }

  void visit_operands(const Node& n) {
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const ValueId v = n.inputs[i];
      if (!is_fp32(v) || at(operands_, v)) continue;
      operands_[v] = why_operand(n, i);
    }
  }

  std::optional<Reason> why_operand(const Node& n, size_t input) const {
    if (runs_on_host(g_, n)) return Reason{"is read on the host"};
    if (ops::dequantizes(n) && input > 0) return Reason{std::string(kScale)};
    if (ops::converts(n) && !is_float(g_.value(n.outputs[0]).dtype))
      return Reason{std::string(kWhole)};
    if (const Rule* rule = rule_of(n); rule != nullptr && keeps_operand(*rule, input))
      return Reason{std::string(rule->reason)};
    if (n.outputs[0] == kNone) return std::nullopt;
    if (ops::moves_elements(n)) return at(operands_, n.outputs[0]);
    // Constants that are used to compute positions.
    const std::optional<Reason>& result = at(results_, n.outputs[0]);
    const bool position = result && result->text == kPosition;
    return position && g_.value(n.inputs[input]).constant ? result : std::nullopt;
  }

  void narrow() {
    for (const ValueId v : results_.ids()) {
      Value& value = g_.value(v);
      if (value.dtype != DType::F32 || operands_[v]) continue;
      if (value.producer != nullptr && !results_[v]) value.storage = precision_;
      if (!value.constant || !is_large_constant(v) || g_.is_output(v)) continue;
      if (!fits(largest_in(v), precision_)) continue;
      narrow_constant(value);
      value.storage = precision_;
    }
  }

  void narrow_constant(Value& value) const {
    if (!value.joined) {
      value.constant = narrowed(*value.constant, precision_);
      return;
    }
    value.constant = HostTensor::borrow(precision_, value.constant->dims(), {}, nullptr);
    for (HostTensor& part : value.joined->parts) part = narrowed(part, precision_);
  }

  AutocastReport report() const {
    AutocastReport out;
    for (const auto& n : g_.nodes()) {
      for (ValueId v : n->outputs) {
        if (!is_fp32(v)) continue;
        const std::optional<Reason>& why = at(results_, v) ? at(results_, v) : at(operands_, v);
        if (why) {
          out.kept.push_back({n->name, n->op, why->text});
        } else {
          ++out.narrowed;
        }
        break;
      }
    }
    return out;
  }

  Graph& g_;
  const DType precision_;
  const int64_t min_elements_;
  Reasons results_, operands_;        // from the producer, and from the readers
  std::map<ValueId, float> largest_;  // of constants
};

}  // namespace

namespace {

/// Finds the constants of an imported graph that the device is sure to have in 16 bits.
class HostConstants {
 public:
  explicit HostConstants(const Graph& g) : g_(g) {}

  bool may_be_narrow(ValueId v, int depth = 0) const {
    constexpr int kDeep = 16;
    if (depth > kDeep || g_.is_output(v)) return false;
    const std::vector<Node*>& users = g_.users(v);
    return std::all_of(users.begin(), users.end(),
                       [&](const Node* u) { return rounds_in(*u, v, depth); });
  }

 private:
  bool rounds_in(const Node& n, ValueId v, int depth) const {
    const ops::OpDef* def = ops::find(n);
    if (def == nullptr || def->host_rounding == ops::HostRounding::Never) return false;
    if (def->host_rounding == ops::HostRounding::Moves)
      return may_be_narrow(n.outputs[0], depth + 1);
    const bool known = def->host_rounding == ops::HostRounding::Layer || depth > 0;
    return known && std::none_of(n.inputs.begin(), n.inputs.end(), [&](ValueId other) {
             return other != v && other != kNone && is_position(other);
           });
  }

  /// Whether the value is computed from integers.
  bool is_position(ValueId v) const {
    const Node* p = g_.value(v).producer;
    for (int i = 0; p != nullptr && i < 4; ++i) {
      if (p->inputs.empty() || p->inputs[0] == kNone) return true;
      if (!is_float(g_.value(p->inputs[0]).dtype)) return true;
      p = g_.value(p->inputs[0]).producer;
    }
    return false;
  }

  const Graph& g_;
};

}  // namespace

AutocastReport autocast(Graph& g, DType precision, int64_t min_elements) {
  return Autocast(g, precision, min_elements).run();
}

Status autocast(PassContext& context) {
  context.report().autocast =
      autocast(context.graph(), context.precision(), context.option("min-elements"));
  return {};
}

void narrow_host_constants(Graph& g, DType precision) {
  Node* first = g.nodes().empty() ? nullptr : g.nodes().front().get();
  const HostConstants host(g);
  std::vector<ValueId> chosen;
  for (const ValueId v : g.values().ids()) {
    const auto& constant = g.value(v).constant;
    const bool large =
        constant && constant->dtype() == DType::F32 && constant->count() >= kMinNarrowed;
    if (large && host.may_be_narrow(v) && fits(largest_finite(*constant), precision))
      chosen.push_back(v);
  }
  for (const ValueId v : chosen) {
    const std::string name = g.value(v).name;
    const Shape shape = g.value(v).shape;
    const ValueId narrow = g.add_constant(name, narrowed(*g.value(v).constant, precision));
    const ValueId again = g.add_value(name, DType::F32, shape);
    g.replace_uses(v, again);
    graph::NodeSpec cast = ops::cast_node(DType::F32);
    cast.opset = 13;
    cast.name = "Cast(" + name + ")";
    cast.inputs = {narrow};
    cast.outputs = {again};
    g.add_node(std::move(cast), first);
  }
}

}  // namespace reprise::passes
