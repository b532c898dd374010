// Keeps integer weights of 8 bits and fewer in bytes; kernels dequantise what they load. Exporters
// write a weight as DequantizeLinear, or as Cast, Sub (of a zero point) and Mul. Both become
// DequantizeLinear in core form, which constant folding does not evaluate.
#include <algorithm>

#include "codegen/ops/math/dequantized.h"
#include "codegen/ops/math/quantize.h"
#include "codegen/ops/row/support.h"
#include "codegen/passes/pass.h"
#include "runtime/base/low_bit.h"

namespace reprise::passes {

namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::Value;
using graph::ValueId;

// The size of smaller weights matters little.
constexpr int64_t kMinElements = int64_t{1} << 12;

bool is_quantized_weight(const Value& v) {
  const bool small = v.dtype == DType::I8 || v.dtype == DType::U8 || is_low_bit_int(v.dtype);
  return small && v.constant && v.constant->count() >= kMinElements;
}

class QuantizedWeights {
 public:
  explicit QuantizedWeights(Graph& g) : g_(g) {}

  void run() {
    for (const auto& n : g_.nodes()) {
      if (n->outputs.size() != 1 || n->outputs[0] == kNone) continue;
      const ops::OpDef* def = ops::find(*n);
      if (def != nullptr && def->dequantizes) {
        keep(*n);
      } else {
        join(*n);
      }
    }
  }

 private:
  /// Whether all readers of v, directly or through transposes, use it as a weight. What other
  /// operators compute from it is better computed once.
  bool is_only_weight(ValueId v, int depth = 0) const {
    constexpr int kDeep = 8;
    if (g_.is_output(v) || depth > kDeep) return false;
    const std::vector<Node*>& users = g_.users(v);
    return !users.empty() && std::all_of(users.begin(), users.end(), [&](const Node* u) {
      const ops::OpDef* def = ops::find(*u);
      if (def == nullptr) return false;
      if (def->layout == ops::LayoutRole::Permutation && u->outputs.size() == 1)
        return is_only_weight(u->outputs[0], depth + 1);
      if (def->quantized_input < 0) return false;
      const auto place = static_cast<size_t>(def->quantized_input);
      return u->inputs.size() > place && u->inputs[place] == v &&
             std::count(u->inputs.begin(), u->inputs.end(), v) == 1;
    });
  }

  bool is_zero(ValueId v) const {
    const auto numbers = ops::constant_numbers(g_.value(v));
    return numbers &&
           std::all_of(numbers->begin(), numbers->end(), [](double x) { return x == 0; });
  }

  void keep(Node& n) {
    if (!is_quantized_weight(g_.value(n.inputs[0])) || !is_only_weight(n.outputs[0])) return;
    const auto& scale = g_.value(n.inputs[1]).constant;
    if (!scale || !is_float(scale->dtype())) return;
    for (const size_t i : {ops::kZeroPoint, ops::kMinimum}) {
      if (!ops::has_input(n, i)) continue;
      const auto& other = g_.value(n.inputs[i]).constant;
      if (!other || other->count() != scale->count()) return;
    }
    const auto rank = static_cast<int64_t>(g_.value(n.inputs[0]).shape.size());
    int64_t axis = ops::Attributes(n).get_int("axis");
    if (axis < 0) axis += rank;
    // An axis that has no effect may be out of range.
    n.attrs.set("axis", std::clamp<int64_t>(axis, 0, rank - 1));
    if (ops::Attributes(n).get_int("block_size") == 0) n.attrs.erase("block_size");
    if (!ops::has_input(n, ops::kMinimum) && n.inputs.size() > 2 &&
        (n.inputs[2] == kNone || is_zero(n.inputs[2])))
      g_.set_inputs(n, {n.inputs[0], n.inputs[1]});
    n.opset = 0;
  }

  void join(Node& n) {
    std::optional<ops::Dequantized> c = ops::match_dequantized(g_, n);
    if (!c || !is_quantized_weight(g_.value(c->weight)) || !is_only_weight(n.outputs[0])) return;
    const std::string name = g_.value(c->weight).name;
    const size_t count = std::max(c->scale.numbers.size(), c->zero.numbers.size());
    const std::vector<int64_t> dims =
        count == 1 ? std::vector<int64_t>{} : std::vector<int64_t>{static_cast<int64_t>(count)};
    c->scale.numbers.resize(count, c->scale.numbers[0]);
    c->zero.numbers.resize(count, c->zero.numbers[0]);
    std::vector<ValueId> inputs{c->weight};
    inputs.push_back(
        g_.add_constant(name + "_scale", ops::float_tensor(DType::F32, dims, c->scale.numbers)));
    const auto zero = [](double z) { return z == 0; };
    if (!std::all_of(c->zero.numbers.begin(), c->zero.numbers.end(), zero)) {
      HostTensor t(g_.value(c->weight).dtype, dims);
      for (size_t i = 0; i < count; ++i)
        t.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(static_cast<int>(c->zero.numbers[i]));
      inputs.push_back(g_.add_constant(name + "_zero", std::move(t)));
    }
    ops::become_dequantize(g_, n, std::move(inputs),
                           std::max<int64_t>({c->scale.axis, c->zero.axis, 0}));
    n.origins.insert(n.origins.begin(), c->origins.begin(), c->origins.end());
  }

  Graph& g_;
};

}  // namespace

Status quantized_weights(Graph& g) {
  QuantizedWeights(g).run();
  return dce(g);
}

}  // namespace reprise::passes
