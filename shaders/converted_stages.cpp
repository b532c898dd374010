#include "shaders/converted_stages.h"

#include <string>

namespace reprise::shaders {

using kernel::Swizzle;
using kernel::Ty;
using team_stages::kGroup;
using team_stages::kLine;
using team_stages::kStep;
using team_stages::kTeam;

namespace {

constexpr int kPart = 8;  // elements of 16 bytes

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

/// Finds the places of the invocation's parts in a stage. Neighbours in memory belong to
/// neighbouring invocations.
void ConvertedStages::locate_parts() {
  const Value local = local_index(b_) % kTeam;
  for (size_t n = 0; n < parts_.size(); ++n) {
    Part& p = parts_[n];
    const Value number = local + static_cast<int64_t>(n) * kTeam;
    if (source_.along_k()) {
      constexpr int kWidth = kStep / kPart;
      p.element = neighbours_along_k_ ? number / kWidth : number % elements_;
      p.k = (neighbours_along_k_ ? number % kWidth : number / elements_) * kPart;
      p.offset = p.element * kLine + p.k;
    } else {
      const int width = elements_ / kPart;
      p.element = number % width * kPart;
      p.k = number / width;
      p.offset = p.element / kLine * kGroup + p.k * kLine + p.element % kLine;
    }
  }
}

Status ConvertedStages::load(Value first, Value step) {
  source_.locate();
  locate_parts();
  if (w_.gemm.whole_k_blocks()) return load_parts(first, step, true);
  const Val is_whole = (step + 1) * kStep - 1 < w_.gemm.extent().k;
  return w_.gemm.branch(
      is_whole, [&] { return load_parts(first, step, true); },
      [&] { return load_parts(first, step, false); });
}

Status ConvertedStages::load_parts(Value first, Value step, bool whole) {
  const bool along_k = source_.along_k();
  const int unit = along_k ? 4 : 1;  // values of k of a vector
  for (const Part& p : parts_) {
    for (int half = 0; half < 2; ++half) {
      const Value element = first + p.element;
      const Value number = along_k ? element : element / 4 + half;
      const Value k = step * (kStep / unit) + p.k / unit + (along_k ? half : 0);
      RP_ASSIGN(const Values four, source_.load(source_.line(number), k, whole, type_));
      b_.local_store(p.loaded[static_cast<size_t>(half)], b_.compose(four));
    }
  }
  return {};
}

void ConvertedStages::store(Value stage) {
  for (const Part& p : parts_) {
    const auto& [first, second] = p.loaded;
    const Value to = stage * (elements_ * kStep) + p.offset;
    b_.shared_store(shared_, to, b_.compose({b_.local_load(first), b_.local_load(second)}));
  }
}

}  // namespace reprise::shaders
