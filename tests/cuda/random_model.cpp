#include "random_model.h"

#include <map>
#include <random>

namespace reprise::test {

RandomModel::RandomModel(uint64_t seed, const RandomKernels& kernels, size_t least, bool dynamic) {
  PlanWriter w;
  const uint32_t plus = w.kernel(kernels.plus), sum = w.kernel(kernels.sum);
  const Expr n = dynamic ? w.symbol("n", 0, 0) : Expr(40);
  std::mt19937_64 rng(seed);
  const auto pick = [&](uint64_t of) { return static_cast<size_t>(rng() % of); };
  const auto launch = [&](plan::BufferId a, plan::BufferId b, plan::BufferId to) {
    if (a == b) {
      w.launch(plus, {a, to}, {n});
    } else {
      w.launch(sum, {a, b, to}, {n});
    }
    steps_.push_back({a, b, to});
  };
  for (size_t i = 0; i < 1 + pick(2); ++i)
    inputs_.push_back(w.input("x" + std::to_string(i), DType::F32, {n}));
  std::vector<plan::BufferId> readable = inputs_, overwritable;
  const size_t launches = least + pick(9);
  for (size_t l = 0; l < launches; ++l) {
    const auto a = readable[pick(readable.size())], b = readable[pick(readable.size())];
    plan::BufferId to;
    if (!overwritable.empty() && pick(4) == 0) to = overwritable[pick(overwritable.size())];
    if (to.is_none() || to == a || to == b) {
      to = w.arena("t" + std::to_string(l), DType::F32, {n});
      overwritable.push_back(to);
      readable.push_back(to);
    }
    launch(a, b, to);
  }
  for (size_t o = 0; o < 1 + pick(2); ++o) {
    outputs_.push_back(w.output("y" + std::to_string(o), DType::F32, {n}));
    const auto from = readable[readable.size() - 1 - o % readable.size()];
    launch(from, from, outputs_.back());
  }
  package_ = w.package();
}

std::vector<std::vector<float>> RandomModel::expected(
    const std::vector<std::vector<float>>& x) const {
  std::map<plan::BufferId, std::vector<float>> values;
  for (size_t i = 0; i < inputs_.size(); ++i) values[inputs_[i]] = x[i];
  for (const Step& s : steps_) {
    std::vector<float> result = values[s.a];
    for (size_t i = 0; i < result.size(); ++i) result[i] += s.a == s.b ? 1.0F : values[s.b][i];
    values[s.to] = std::move(result);
  }
  std::vector<std::vector<float>> results;
  for (const plan::BufferId y : outputs_) results.push_back(values[y]);
  return results;
}

}  // namespace reprise::test
