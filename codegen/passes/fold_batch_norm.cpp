#include <cmath>
#include <vector>

#include "codegen/ops/row/op.h"
#include "codegen/passes/pass.h"

namespace reprise::passes {

namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::ValueId;

// BatchNormalization is decomposed into Mul and Add with constants
// (codegen/ops/math/normalization.cpp). For constants b and s that vary along the channel axis
// only, this pass rewrites
//   Mul(Add(y, b), s) -> Add(Mul(y, s), b * s)     and     Mul(Conv(x, W), s) -> Conv(x, W * s)
// if nothing else reads the intermediate values.

constexpr size_t kMaxChannels = size_t{1} << 20;

bool is_f32(const Graph& g, ValueId v) {
  return g.value(v).dtype == DType::F32;
}

/// The values along `axis` of a tensor of `shape`, if `c` is an fp32 constant that broadcasts along
/// all other axes. A single value applies to the whole axis.
std::optional<std::vector<double>> channel_constant(const Graph& g, ValueId c, const Shape& shape,
                                                    size_t axis) {
  const graph::Value& v = g.value(c);
  if (!v.constant || v.dtype != DType::F32) return std::nullopt;
  const auto& dims = v.constant->dims();
  if (dims.size() > shape.size()) return std::nullopt;
  for (size_t i = 0; i < dims.size(); ++i) {
    const size_t at = shape.size() - dims.size() + i;
    if (dims[i] != 1 && at != axis) return std::nullopt;
  }
  const auto n = static_cast<size_t>(v.constant->count());
  if (n == 0 || n > kMaxChannels) return std::nullopt;
  const float* p = v.constant->data<float>();
  return std::vector<double>(p, p + n);
}

struct Operands {
  ValueId variable = kNone, constant = kNone;
};

std::optional<Operands> constant_operand(const Graph& g, const Node& n) {
  if (n.inputs.size() != 2) return std::nullopt;
  const bool c0 = g.value(n.inputs[0]).constant.has_value();
  const bool c1 = g.value(n.inputs[1]).constant.has_value();
  if (c0 == c1) return std::nullopt;
  return c0 ? Operands{n.inputs[1], n.inputs[0]} : Operands{n.inputs[0], n.inputs[1]};
}

/// The row of a node that is linear in a weight with the channels of the result. Null for others.
const ops::OpDef* weighted(const Node* n) {
  const ops::OpDef* def = n == nullptr ? nullptr : ops::core_def(*n);
  return def != nullptr && def->channels != nullptr ? def : nullptr;
}

/// Whether scaling makes a weight infinite, or so small that devices flush it to 0. Then products
/// with infinities or large numbers would change.
bool leaves_range(float weight, double scale, float scaled) {
  if (!std::isfinite(scaled)) return std::isfinite(weight);
  return std::isnormal(weight) && scale != 0 && !std::isnormal(scaled);
}

class Folder {
 public:
  explicit Folder(Graph& g) : g_(g) {}

  /// Moves the scale of `mul` as far as possible towards a weight. True if a node was removed.
  bool fold(Node* mul) {
    const auto operands = constant_operand(g_, *mul);
    if (!operands || !single_use(operands->variable) || !is_f32(g_, operands->variable))
      return false;
    const Shape& shape = g_.value(mul->outputs[0]).shape;
    Node* p = g_.value(operands->variable).producer;
    if (p == nullptr || g_.value(operands->variable).shape != shape) return false;
    if (weighted(p) != nullptr) return fold_into(mul, p, *operands);
    if (ops::is_core(*p, kernel::ScalarOp::Add)) return swap_add(mul, p, *operands);
    return false;
  }

 private:
  bool single_use(ValueId v) const { return g_.use_count(v) == 1; }

  /// The weight of a Conv or MatMul multiplied by `scale`. Nothing if that would change results.
  std::optional<HostTensor> scaled_weight(const Node& p, ValueId scale_value) const {
    const Shape& shape = g_.value(p.outputs[0]).shape;
    const ops::ChannelAxes axes = weighted(&p)->channels(g_, p);
    const graph::Value& wv = g_.value(p.inputs[1]);
    const auto scale = channel_constant(g_, scale_value, shape, axes.result);
    if (!scale || !wv.constant || wv.dtype != DType::F32 || wv.constant->rank() == 0)
      return std::nullopt;
    const HostTensor& w = *wv.constant;
    const auto channels = static_cast<size_t>(w.dims()[axes.weight]);
    if (scale->size() != 1 && scale->size() != channels) return std::nullopt;
    int64_t inner = 1;
    for (size_t i = axes.weight + 1; i < w.dims().size(); ++i) inner *= w.dims()[i];
    HostTensor scaled(DType::F32, w.dims());
    for (int64_t i = 0; i < w.count(); ++i) {
      const size_t c = static_cast<size_t>(i / inner) % channels;
      const double s = (*scale)[scale->size() == 1 ? 0 : c];
      const float weight = w.data<float>()[i];
      scaled.mutable_data<float>()[i] = static_cast<float>(static_cast<double>(weight) * s);
      if (leaves_range(weight, s, scaled.data<float>()[i])) return std::nullopt;
    }
    return scaled;
  }

  bool fold_into(Node* mul, Node* p, const Operands& operands) {
    if (g_.is_output(mul->outputs[0])) return false;
    std::optional<HostTensor> scaled = scaled_weight(*p, operands.constant);
    if (!scaled) return false;
    replace_weight(mul, p, *std::move(scaled));
    return true;
  }

  /// Gives node p the scaled weight and lets it replace `mul`.
  void replace_weight(Node* mul, Node* p, HostTensor scaled) {
    const std::string name = g_.value(p->inputs[1]).name + "_scaled";
    g_.set_input(*p, 1, g_.add_constant(name, std::move(scaled)));
    for (const std::string& o : mul->origins) p->origins.push_back(o);
    g_.replace_uses(mul->outputs[0], p->outputs[0]);
    g_.erase_node(mul);
  }

  bool swap_add(Node* mul, Node* add, const Operands& operands) {
    const auto inner = constant_operand(g_, *add);
    if (!inner || g_.value(inner->variable).shape != g_.value(add->outputs[0]).shape) return false;
    Node* p = g_.value(inner->variable).producer;
    // Swapping the two nodes alone saves nothing and might overflow where the model does not.
    if (weighted(p) == nullptr || !single_use(inner->variable)) return false;
    std::optional<HostTensor> weight = scaled_weight(*p, operands.constant);
    if (!weight) return false;
    const Shape& shape = g_.value(mul->outputs[0]).shape;
    const size_t axis = weighted(p)->channels(g_, *p).result;
    const auto s = channel_constant(g_, operands.constant, shape, axis);
    const auto b = channel_constant(g_, inner->constant, shape, axis);
    if (!s || !b) return false;
    const size_t n = std::max(s->size(), b->size());
    std::vector<int64_t> dims(shape.size() - axis, 1);
    dims[0] = static_cast<int64_t>(n);
    HostTensor scaled(DType::F32, dims);
    for (size_t i = 0; i < n; ++i) {
      const double v = (*s)[s->size() == 1 ? 0 : i] * (*b)[b->size() == 1 ? 0 : i];
      scaled.mutable_data<float>()[i] = static_cast<float>(v);
      if (!std::isfinite(scaled.data<float>()[i])) return false;
    }
    // Swap the two nodes: the Add becomes the Mul and the Mul the Add.
    std::swap(add->op, mul->op);
    g_.set_inputs(*add, {inner->variable, operands.constant});
    const std::string bias = g_.value(inner->constant).name + "_scaled";
    g_.set_inputs(*mul, {add->outputs[0], g_.add_constant(bias, std::move(scaled))});
    std::swap(add->name, mul->name);
    std::swap(add->origins, mul->origins);
    std::swap(add->origin_op, mul->origin_op);
    replace_weight(add, p, *std::move(weight));
    return false;
  }

  Graph& g_;
};

}  // namespace

Status fold_batch_norm(Graph& g) {
  Folder folder(g);
  auto& nodes = g.nodes();
  for (auto it = nodes.begin(); it != nodes.end();) {
    Node* n = it->get();
    ++it;
    if (ops::is_core(*n, kernel::ScalarOp::Mul)) folder.fold(n);
  }
  return {};
}

}  // namespace reprise::passes
