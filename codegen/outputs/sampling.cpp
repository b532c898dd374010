#include <algorithm>

#include "codegen/ops/nn/token_sampling.h"
#include "codegen/ops/row/core_nodes.h"
#include "codegen/ops/row/op.h"
#include "codegen/ops/row/support.h"
#include "codegen/outputs/output_slices.h"
#include "codegen/outputs/outputs.h"

namespace reprise {

using graph::Graph;
using graph::kNone;
using graph::ValueId;

namespace {

constexpr const char* kIds = "sampled_ids";
constexpr const char* kStep = "sampling.step";
constexpr const char* kRecent = "sampling.recent";

HostTensor filled(DType t, std::vector<int64_t> dims, double value) {
  size_t count = 1;
  for (const int64_t d : dims) count *= static_cast<size_t>(d);
  if (t == DType::F32)
    return HostTensor::from(t, std::move(dims), std::vector(count, static_cast<float>(value)));
  return HostTensor::from(t, std::move(dims), std::vector(count, static_cast<int32_t>(value)));
}

class Sampling {
 public:
  Sampling(Graph& g, CompileOptions& options)
      : g_(g), options_(options), o_(*options.sample), inputs_(ops::kSampleInputs, kNone) {}

  Status add();

 private:
  Status refuse(const std::string& why) const {
    return {Code::Usage, "--sample " + o_.output + ": " + why};
  }
  /// Code::Usage if the model has an input or output of that name.
  Status check_free(const std::string& name) const;
  Result<ValueId> add_node(graph::NodeSpec n, const std::string& result);
  Result<ValueId> logits(size_t output);
  /// An input of the package. With a fixed shape, runs may leave it out.
  Result<ValueId> input(const std::string& name, DType t, const Shape& shape, double fallback);
  Status add_numbers();
  Status add_vectors();
  Result<ValueId> state(const std::string& name, std::vector<int64_t> dims, double first);
  Status add_next_step();
  Status add_next_recent(ValueId ids);
  Status add_output(ValueId v, const std::string& name) {
    RP_TRY(check_free(name));
    g_.add_output(v);
    g_.output_names.push_back(name);
    return {};
  }

  Graph& g_;
  CompileOptions& options_;
  const SampleOption o_;
  std::vector<ValueId> inputs_;  // of SampleTokens
  Expr rows_, tokens_;
};

Status Sampling::check_free(const std::string& name) const {
  if (std::ranges::any_of(g_.inputs, [&](ValueId v) { return g_.value(v).name == name; }))
    return refuse("the model has an input '" + name + "'");
  if (std::ranges::find(g_.output_names, name) != g_.output_names.end())
    return refuse("the model has an output '" + name + "'");
  return {};
}

Result<ValueId> Sampling::add_node(graph::NodeSpec n, const std::string& result) {
  const ValueId v = g_.add_unknown(result);
  if (n.name.empty()) n.name = result;
  n.outputs = {v};
  RP_TRY(ops::infer(g_, *g_.add_node(std::move(n))));
  return v;
}

/// [rows, tokens]
Result<ValueId> Sampling::logits(size_t output) {
  ValueId v = g_.outputs[output];
  const graph::Value& value = g_.value(v);
  const Shape s = value.shape;
  if ((s.size() != 2 && s.size() != 3) || s.back().is_const(0))
    return refuse("it must be [rows, tokens] or [rows, positions, tokens], not " +
                  shape_str(s, g_.symbols));
  if (value.dtype != DType::F32 && value.dtype != DType::F16 && value.dtype != DType::BF16)
    return refuse("it must be float32, float16 or bfloat16, not " +
                  std::string(name_of(value.dtype)));
  rows_ = s.front();
  tokens_ = s.back();
  if (s.size() == 2) return v;
  RP_ASSIGN(v, last_position(g_, v, 1, o_.output));
  graph::NodeSpec row = ops::reshape_node({rows_, tokens_});
  row.inputs = {v};
  return add_node(std::move(row), o_.output + ".rows");
}

Result<ValueId> Sampling::input(const std::string& name, DType t, const Shape& shape,
                                double fallback) {
  RP_TRY(check_free(name));
  const ValueId v = g_.add_value(name, t, shape);
  g_.inputs.push_back(v);
  if (is_static(shape))
    options_.optional_inputs.push_back({name, filled(t, static_dims(shape), fallback)});
  return v;
}

Status Sampling::add_numbers() {
  const Shape each{o_.per_row ? rows_ : Expr(1)};
  const auto number = [&](size_t i, const char* name, DType t, double fallback) -> Status {
    RP_ASSIGN(inputs_[i], input(std::string("sampling.") + name, t, each, fallback));
    return {};
  };
  RP_TRY(number(ops::kTemperature, "temperature", DType::F32, 0));
  RP_TRY(number(ops::kTopK, "top_k", DType::I32, 0));
  RP_TRY(number(ops::kTopP, "top_p", DType::F32, 1));
  RP_TRY(number(ops::kMinP, "min_p", DType::F32, 0));
  RP_TRY(number(ops::kSeed, "seed", DType::I32, 0));
  if (o_.window == 0) return {};
  RP_TRY(number(ops::kRepetition, "repetition_penalty", DType::F32, 1));
  RP_TRY(number(ops::kPresence, "presence_penalty", DType::F32, 0));
  return number(ops::kFrequency, "frequency_penalty", DType::F32, 0);
}

Status Sampling::add_vectors() {
  constexpr int64_t kWordBits = 32;
  const Expr lines = o_.per_row ? rows_ : Expr(1);
  if (o_.has_bias) {
    RP_ASSIGN(inputs_[ops::kBias], input("sampling.bias", DType::F32, {lines, tokens_}, 0));
  }
  if (o_.has_mask) {
    const Shape words{lines, Expr::ceildiv(tokens_, kWordBits)};
    RP_ASSIGN(inputs_[ops::kAllowed], input("sampling.allowed", DType::I32, words, -1));
  }
  return {};
}

Result<ValueId> Sampling::state(const std::string& name, std::vector<int64_t> dims, double first) {
  RP_TRY(check_free(name));
  const ValueId v = g_.add_value(name, DType::I32, ops::shape_of(dims));
  g_.inputs.push_back(v);
  options_.states.push_back({name, name + ".next", filled(DType::I32, std::move(dims), first)});
  return v;
}

Status Sampling::add_next_step() {
  graph::NodeSpec next = ops::sum_node();
  next.inputs = {inputs_[ops::kStep], g_.add_constant("sampling.one", filled(DType::I32, {1}, 1))};
  RP_ASSIGN(const ValueId v, add_node(std::move(next), std::string(kStep) + ".next"));
  return add_output(v, std::string(kStep) + ".next");
}

/// Without the oldest ids, and with the new ones.
Status Sampling::add_next_recent(ValueId ids) {
  graph::NodeSpec kept = ops::slice_node({0, 1});
  kept.inputs = {inputs_[ops::kRecent]};
  kept.outputs = {g_.add_value("sampling.kept", DType::I32, {rows_, o_.window - 1})};
  graph::NodeSpec next = ops::concat_node(1);
  next.inputs = {kept.outputs[0], ids};
  kept.name = "sampling.kept";
  g_.add_node(std::move(kept));
  RP_ASSIGN(const ValueId v, add_node(std::move(next), std::string(kRecent) + ".next"));
  return add_output(v, std::string(kRecent) + ".next");
}

Status Sampling::add() {
  name_outputs(g_);
  RP_ASSIGN(const size_t output, find_output(g_, o_.output, "--sample"));
  RP_ASSIGN(inputs_[ops::kLogits], logits(output));
  if (o_.window > 0 && !rows_.is_const())
    return refuse("penalties keep ids of a fixed number of rows, but there are " +
                  rows_.str(g_.symbols) + "; fix it with --shape");
  RP_TRY(add_numbers());
  RP_TRY(add_vectors());
  RP_ASSIGN(inputs_[ops::kStep], state(kStep, {1}, 0));
  if (o_.window > 0) {
    RP_ASSIGN(inputs_[ops::kRecent], state(kRecent, {rows_.value(), o_.window}, -1));
  }
  graph::NodeSpec sample = ops::sampling_node(DType::I32);
  sample.name = "sampling";
  sample.inputs = inputs_;
  while (sample.inputs.back() == kNone) sample.inputs.pop_back();
  RP_ASSIGN(const ValueId tokens, add_node(std::move(sample), "sampling.tokens"));
  graph::NodeSpec column = ops::reshape_node({rows_, Expr(1)});
  column.inputs = {tokens};
  RP_ASSIGN(const ValueId ids, add_node(std::move(column), "sampling.column"));
  ValueId result = ids;
  if (!o_.short_ids) {
    graph::NodeSpec wide = ops::cast_node(DType::I64);
    wide.inputs = {ids};
    RP_ASSIGN(result, add_node(std::move(wide), kIds));
  }
  if (o_.keeps_logits) {
    RP_TRY(add_output(result, kIds));
  } else {
    if (o_.output != kIds) RP_TRY(check_free(kIds));
    std::vector<ValueId> outputs = g_.outputs.list();
    outputs[output] = result;
    g_.set_outputs(std::move(outputs));
    g_.output_names[output] = kIds;
  }
  RP_TRY(add_next_step());
  return o_.window > 0 ? add_next_recent(ids) : Status();
}

}  // namespace

Status add_sampling(Graph& g, CompileOptions& options) {
  return options.sample ? Sampling(g, options).add() : Status();
}

}  // namespace reprise
