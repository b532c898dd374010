#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "codegen/ops/index/boxes.h"
#include "codegen/ops/row/families.h"

namespace reprise::ops {

namespace {

Status infer_row(InferContext& ctx);

/// Rows for the scalar operations that are not ONNX operators. Decompositions and passes use them
/// as core operators.
std::vector<OpDef> remaining_rows(const std::unordered_map<std::string_view, const OpDef*>& known) {
  std::vector<OpDef> out;
  for (int i = 0; i < kernel::scalar_op_count(); ++i) {
    const kernel::ScalarRow& r = kernel::row(static_cast<kernel::ScalarOp>(i));
    if (known.count(r.name) != 0) continue;
    OpDef def;
    def.name = r.name;
    def.infer = infer_row;
    def.lowering = Lowering::Scalar;
    def.row = r.op;
    def.layout = LayoutRole::Elementwise;
    def.min_inputs = def.max_inputs = r.arity;
    out.push_back(def);
  }
  return out;
}

/// Operators of the standard, and our own.
std::vector<std::span<const OpDef>> standard_families() {
  return {unary_ops(),
          activation_ops(),
          binary_ops(),
          logic_ops(),
          cast_ops(),
          shape_ops(),
          reshape_ops(),
          view_ops(),
          state_ops(),
          generator_ops(),
          slice_ops(),
          gather_ops(),
          scatter_ops(),
          select_ops(),
          pad_tile_ops(),
          reduce_ops(),
          scan_ops(),
          sort_ops(),
          box_ops(),
          normalization_ops(),
          softmax_ops(),
          matmul_ops(),
          einsum_ops(),
          conv_ops(),
          pool_ops(),
          col2im_ops(),
          signal_ops(),
          resize_ops(),
          quantize_ops(),
          attention_ops(),
          attention_grad_ops(),
          recurrent_ops(),
          loss_ops(),
          sampling_ops(),
          token_sampling_ops(),
          grid_sample_ops(),
          roi_align_ops(),
          training_ops(),
          linear_attention_ops(),
          ml_ops(),
          ml_map_ops(),
          string_ops(),
          sequence_ops(),
          random_ops()};
}

/// Operators of other domains, and forms that the standard has given up.
std::vector<std::span<const OpDef>> other_families() {
  return {microsoft_ops(),
          microsoft_quantized_ops(),
          microsoft_attention_ops(),
          microsoft_heads_ops(),
          microsoft_grouped_query_ops(),
          microsoft_sparse_ops(),
          microsoft_layers_ops(),
          microsoft_linear_ops(),
          microsoft_experts_ops(),
          microsoft_tensors_ops(),
          microsoft_sequences_ops(),
          roi_pool_ops(),
          old_arithmetic_ops(),
          old_shape_ops(),
          old_layer_ops(),
          host_only_ops()};
}

std::vector<std::span<const OpDef>> families() {
  std::vector<std::span<const OpDef>> all = standard_families();
  const std::vector<std::span<const OpDef>> others = other_families();
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

/// The operators that add_operators() added before the registry was built.
struct Additions {
  std::mutex mutex;
  bool closed = false;
  std::vector<std::span<const OpDef>> families;
};

Additions& additions() {
  static Additions a;
  return a;
}

struct Registry {
  std::unordered_map<std::string_view, const OpDef*> by_name;
  std::vector<const OpDef*> by_number;  // by OpName::number()
  std::vector<OpDef> rows;
  std::vector<const OpDef*> all;
  std::vector<const OpDef*> renamed;  // those with OpDef::in_models

  Registry() {
    for (std::span<const OpDef> family : families()) add(family);
    const std::lock_guard lock(additions().mutex);
    additions().closed = true;
    for (std::span<const OpDef> family : additions().families) add(family);
    rows = remaining_rows(by_name);
    add(rows);
  }

  const OpDef*& row(graph::OpName name) {
    if (name.number() >= by_number.size()) by_number.resize(name.number() + 1);
    return by_number[name.number()];
  }

  void add(std::span<const OpDef> family) {
    for (const OpDef& def : family) {
      if (by_name.emplace(def.name, &def).second) row(def.name) = &def;
      all.push_back(&def);
      if (!def.in_models.empty()) renamed.push_back(&def);
    }
  }
};

const Registry& registry() {
  static const Registry r;
  return r;
}

Status infer_row(InferContext& ctx) {
  const kernel::ScalarRow& r = kernel::row(*find(ctx.node())->row);
  std::vector<Shape> shapes;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    shapes.push_back(ctx.shape(i));
    if (ctx.dtype(i) != ctx.dtype(0)) {
      return ctx.invalid("inputs differ in dtype: " + std::string(name_of(ctx.dtype(0))) + " and " +
                         std::string(name_of(ctx.dtype(i))));
    }
  }
  RP_ASSIGN(Shape out, ctx.broadcast(shapes));
  ctx.set_output(0, r.result == kernel::ResultKind::Boolean ? DType::Bool : ctx.dtype(0),
                 std::move(out));
  return {};
}

/// Names are unique over all domains.
bool is_in(const OpDef& def, std::string_view domain) {
  return def.domain == (domain == "ai.onnx" ? std::string_view() : domain);
}

}  // namespace

const OpDef* find(std::string_view domain, std::string_view op, int64_t opset) {
  for (const OpDef* def : registry().renamed)
    if (def->in_models == op && def->max_opset >= opset && is_in(*def, domain)) return def;
  return find(domain, op);
}

const OpDef* find(std::string_view domain, std::string_view op) {
  for (const OpDef* def : registry().renamed)
    if (def->in_models == op && def->max_opset == 0 && is_in(*def, domain)) return def;
  const auto it = registry().by_name.find(op);
  if (it == registry().by_name.end() || !is_in(*it->second, domain)) return nullptr;
  return it->second->in_models.empty() ? it->second : nullptr;  // else models do not know the name
}

const OpDef* find(const graph::NodeInfo& n) {
  const std::vector<const OpDef*>& rows = registry().by_number;
  const OpDef* def = n.op.number() < rows.size() ? rows[n.op.number()] : nullptr;
  return def != nullptr && is_in(*def, n.domain) ? def : nullptr;
}

std::vector<const OpDef*> all() {
  return registry().all;
}

Status add_operators(std::span<const OpDef> rows) {
  std::vector<std::span<const OpDef>> known = families();
  Additions& a = additions();
  const std::lock_guard lock(a.mutex);
  if (a.closed) return {Code::Usage, "operators must be added before the first one is looked up"};
  known.insert(known.end(), a.families.begin(), a.families.end());
  for (const OpDef& def : rows) {
    const auto same_name = [&](const OpDef& other) { return other.name == def.name; };
    if (std::ranges::any_of(known, [&](auto f) { return std::ranges::any_of(f, same_name); }))
      return {Code::Usage, "the operator " + std::string(def.name) + " already exists"};
  }
  a.families.push_back(rows);
  return {};
}

const OpDef* core_def(const graph::Node& n) {
  const OpDef* def = n.opset == 0 ? find(n) : nullptr;
  return def != nullptr && def->lowering != Lowering::None ? def : nullptr;
}

bool is_memory(const graph::Node& n) {
  const OpDef* def = core_def(n);
  return def != nullptr && def->is_memory;
}

std::optional<kernel::ScalarOp> scalar_op(const graph::Node& n) {
  const OpDef* def = find(n);
  return def == nullptr ? std::nullopt : def->row;
}

bool is_core(const graph::Node& n, kernel::ScalarOp op) {
  return is_core(n) && scalar_op(n) == op;
}

kernel::Sensitivity sensitivity_of(const graph::Node& n) {
  const OpDef* def = find(n);
  if (def == nullptr) return kernel::Sensitivity::None;
  if (def->row) return kernel::row(*def->row).sensitivity;
  return def->sensitivity.value_or(kernel::Sensitivity::None);
}

bool moves_elements(const graph::Node& n) {
  const OpDef* def = find(n);
  return def != nullptr && (def->moves || def->lowering == Lowering::View);
}

bool is_random(const graph::Node& n) {
  const OpDef* def = find(n);
  return def != nullptr && def->random;
}

bool is_reshape(const graph::Graph& g, const graph::Node& n) {
  const OpDef* def = core_def(n);
  return def != nullptr && def->is_reshape != nullptr && def->is_reshape(g, n);
}

bool is_identity(const graph::Node& n) {
  const OpDef* def = find(n);
  if (def == nullptr || def->is_identity == nullptr) return false;
  return (n.opset == 0 || def->lowering == Lowering::None) && def->is_identity(n);
}

bool converts(const graph::Node& n) {
  const OpDef* def = core_def(n);
  return def != nullptr && def->converts;
}

bool dequantizes(const graph::Node& n) {
  const OpDef* def = core_def(n);
  return def != nullptr && def->dequantizes;
}

std::optional<std::vector<int64_t>> permutation_of(const graph::Node& n) {
  if (layout_of(n) != LayoutRole::Permutation) return std::nullopt;
  return Attributes(n).get_ints("perm");
}

LayoutRole layout_of(const graph::Node& n) {
  const OpDef* def = core_def(n);
  return def == nullptr ? LayoutRole::Fixed : def->layout;
}

}  // namespace reprise::ops
