#include "shaders/converted_stages.h"

#include <string>

namespace reprise::shaders {

using kernel::Swizzle;
using kernel::Ty;

namespace {

constexpr int kLine = 64;  // elements of a line of 128 bytes
constexpr int kStep = kLine;
constexpr int kPart = 8;  // elements of 16 bytes
constexpr int kGroup = kLine * kStep;

}  // namespace

ConvertedStages::ConvertedStages(const TileWork& work, const std::string& name,
                                 OperandVectors::Side side, Ty type, int elements)
    : w_(work),
      b_(work.gemm.builder()),
      source_(work.gemm, side, side == OperandVectors::Side::A || work.tile.converted.b_along_k),
      type_(type),
      elements_(elements),
      shared_(b_.shared(name + "_stages", type,
                        static_cast<uint32_t>(elements * kStep * work.tile.stages), Swizzle::B128)),
      neighbours_along_k_(side == OperandVectors::Side::A ? work.gemm.a_along_k()
                                                          : work.gemm.b_along_k()) {
  const kernel::Type four = {kernel::compute_type(type), 4};
  for (int n = 0; n < elements * kStep / kPart / kTeam; ++n) {
    Part p;
    for (int& local : p.loaded)
      local =
          b_.local(name + std::to_string(2 * n + static_cast<int>(&local - p.loaded.data())), four);
    parts_.push_back(p);
  }
}

/// The part with this number in a stage. Neighbours in memory have neighbouring numbers.
ConvertedStages::Part ConvertedStages::part(Value number) const {
  Part p;
  if (!source_.along_k()) {
    const int width = elements_ / kPart;
    p.element = number % width * kPart;
    p.k = number / width;
    p.offset = p.element / kLine * kGroup + p.k * kLine + p.element % kLine;
    return p;
  }
  constexpr int kWidth = kStep / kPart;
  p.element = neighbours_along_k_ ? number / kWidth : number % elements_;
  p.k = (neighbours_along_k_ ? number % kWidth : number / elements_) * kPart;
  p.offset = p.element * kLine + p.k;
  return p;
}

Status ConvertedStages::load(Value first, Value step) {
  source_.locate();
  if (w_.gemm.whole_k_blocks()) return load_parts(first, step, true);
  const Val is_whole = (step + 1) * kStep - 1 < w_.gemm.extent().k;
  return w_.gemm.branch(
      is_whole, [&] { return load_parts(first, step, true); },
      [&] { return load_parts(first, step, false); });
}

Status ConvertedStages::load_parts(Value first, Value step, bool whole) {
  const Value local = local_index(b_) % kTeam;
  const bool along_k = source_.along_k();
  const int unit = along_k ? 4 : 1;  // values of k of a vector
  for (size_t n = 0; n < parts_.size(); ++n) {
    const Part p = part(local + static_cast<int64_t>(n) * kTeam);
    for (int half = 0; half < 2; ++half) {
      const Value element = first + p.element;
      const Value number = along_k ? element : element / 4 + half;
      const Value k = step * (kStep / unit) + p.k / unit + (along_k ? half : 0);
      RP_ASSIGN(const Values four, source_.load(source_.line(number), k, whole, type_));
      b_.local_store(parts_[n].loaded[static_cast<size_t>(half)], b_.compose(four));
    }
  }
  return {};
}

void ConvertedStages::store(Value stage) {
  const Value local = local_index(b_) % kTeam;
  for (size_t n = 0; n < parts_.size(); ++n) {
    const auto& [first, second] = parts_[n].loaded;
    const Value to =
        stage * (elements_ * kStep) + part(local + static_cast<int64_t>(n) * kTeam).offset;
    b_.shared_store(shared_, to, b_.compose({b_.local_load(first), b_.local_load(second)}));
  }
}

kernel::TeamOperand ConvertedStages::form() const {
  constexpr int kGroupUnits = 2 * kGroup / 1024;
  return {static_cast<uint16_t>(shared_), source_.along_k(), kGroupUnits};
}

Value ConvertedStages::at(Value stage, Value element, int k) const {
  return stage * (elements_ * kStep) + element * kStep + (source_.along_k() ? k : k * kLine);
}

}  // namespace reprise::shaders
