#include "codegen/plan/batch_launches.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "codegen/kernel/build/batch.h"
#include "runtime/plan/block_layout.h"

namespace reprise {

namespace {

using plan::Launch;

constexpr int64_t kMostWorkgroups = 65'535;  // in x, on every device
constexpr uint32_t kMostBytes = 4096;        // of a parameter block: CUDA's limit for arguments
constexpr uint32_t kNoLevel = ~uint32_t{0};

/// The scalars of an item: those of its launch, and its first workgroup.
size_t scalars_of_item(const Launch& launch) {
  return launch.scalars.size() + 1;
}

class Batcher {
 public:
  Batcher(plan::Plan& p, std::vector<kernel::Kernel>& kernels,
          std::span<const SymbolSource> sources, size_t fewest)
      : p_(p), kernels_(kernels), sources_(sources), fewest_(std::max<size_t>(fewest, 2)) {
    for (const kernel::Kernel& k : kernels) accepted_.push_back(kernel::can_batch(k));
  }

  Result<std::vector<uint32_t>> run() {
    std::vector<uint32_t> position(p_.steps.size());
    std::iota(position.begin(), position.end(), 0U);
    if (!are_there_candidates()) return position;
    position = plan::compute_hazards(p_, sources_);
    becomes_.resize(p_.steps.size());
    std::iota(becomes_.begin(), becomes_.end(), 0U);
    for (const std::vector<uint32_t>& set : sets()) RP_TRY(merge(set));
    const std::vector<uint32_t> moved = remove_merged();
    for (uint32_t& at : position) at = moved[becomes_[at]];
    return position;
  }

 private:
  const Launch* candidate(const plan::Step& step) const {
    const auto* launch = std::get_if<Launch>(&step.what);
    if (launch == nullptr || !accepted_[launch->kernel]) return nullptr;
    const auto& [x, y, z] = launch->grid;
    const bool fixed = x.is_const() && x.value() > 0;
    return fixed && y.is_const(1) && z.is_const(1) ? launch : nullptr;
  }

  /// Whether the launch may run later than it could without keeping memory for longer.
  bool may_wait(const Launch& launch) const {
    return std::ranges::none_of(launch.buffers, [this](plan::BufferId b) {
      const plan::BufferKind kind = p_.buffers[b].kind;
      return kind == plan::BufferKind::Arena || kind == plan::BufferKind::Growable;
    });
  }

  bool are_there_candidates() const {
    std::vector<size_t> count(kernels_.size(), 0);
    for (const plan::Step& step : p_.steps)
      if (const Launch* launch = candidate(step)) ++count[launch->kernel];
    return std::ranges::any_of(count, [this](size_t n) { return n >= fewest_; });
  }

  /// Launches of one kernel, none of which waits for another of its set. After all sets are merged,
  /// the order of the merged steps is still acyclic: those of a level are between the other levels,
  /// and nothing waits for those that run last.
  std::vector<std::vector<uint32_t>> sets() const {
    std::vector<bool> awaited(p_.steps.size(), false);
    for (const plan::Step& step : p_.steps)
      for (const uint32_t s : step.after) awaited[s] = true;
    std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> found;
    for (uint32_t s = 0; s < p_.steps.size(); ++s) {
      const Launch* launch = candidate(p_.steps[s]);
      if (launch == nullptr) continue;
      const bool last = !awaited[s] && may_wait(*launch);
      found[{launch->kernel, last ? kNoLevel : p_.steps[s].level}].push_back(s);
    }
    std::vector<std::vector<uint32_t>> out;
    for (const auto& [key, steps] : found) cut(steps, out);
    return out;
  }

  /// Appends those parts of the set that a launch can have.
  void cut(const std::vector<uint32_t>& steps, std::vector<std::vector<uint32_t>>& out) const {
    const auto& first = std::get<Launch>(p_.steps[steps[0]].what);
    const auto bytes = [&](size_t items) {
      return plan::BlockLayout::size(first.buffers.size() * items, scalars_of_item(first) * items);
    };
    std::vector<uint32_t> part;
    int64_t workgroups = 0;
    const auto end_part = [&] {
      if (part.size() >= fewest_) out.push_back(part);
      part.clear();
      workgroups = 0;
    };
    for (const uint32_t s : steps) {
      const int64_t more = std::get<Launch>(p_.steps[s].what).grid[0].value();
      if (bytes(part.size() + 1) > kMostBytes || workgroups + more > kMostWorkgroups) end_part();
      part.push_back(s);
      workgroups += more;
    }
    end_part();
  }

  /// Makes the last step of the set launch all of them.
  Status merge(const std::vector<uint32_t>& set) {
    Launch all;
    all.grid = {Expr(0), Expr(1), Expr(1)};
    for (const uint32_t s : set) {
      const auto& one = std::get<Launch>(p_.steps[s].what);
      all.buffers.insert(all.buffers.end(), one.buffers.begin(), one.buffers.end());
      all.writes.insert(all.writes.end(), one.writes.begin(), one.writes.end());
      all.scalars.insert(all.scalars.end(), one.scalars.begin(), one.scalars.end());
      all.scalars.push_back(all.grid[0]);
      all.grid[0] += one.grid[0];
      all.iterations = Expr::max(all.iterations, one.iterations);
      all.nodes.insert(all.nodes.end(), one.nodes.begin(), one.nodes.end());
      becomes_[s] = set.back();
    }
    auto& last = std::get<Launch>(p_.steps[set.back()].what);
    all.commits = last.commits;
    all.group = last.group;
    all.schedule = last.schedule + " of " + std::to_string(set.size()) + " items";
    RP_ASSIGN(all.kernel, kernel_of(last.kernel, static_cast<uint32_t>(set.size())));
    last = std::move(all);
    return {};
  }

  Result<uint32_t> kernel_of(uint32_t kernel, uint32_t items) {
    const auto [known, added] =
        batched_.try_emplace({kernel, items}, static_cast<uint32_t>(kernels_.size()));
    if (added) {
      RP_ASSIGN(kernel::Kernel k, kernel::batch(kernels_[kernel], items));
      kernels_.push_back(std::move(k));
    }
    return known->second;
  }

  /// Returns the new index of each step that remains.
  std::vector<uint32_t> remove_merged() {
    std::vector<uint32_t> position(p_.steps.size());
    std::vector<plan::Step> kept;
    for (uint32_t s = 0; s < p_.steps.size(); ++s) {
      if (becomes_[s] != s) continue;
      position[s] = static_cast<uint32_t>(kept.size());
      kept.push_back(std::move(p_.steps[s]));
    }
    p_.steps = std::move(kept);
    return position;
  }

  plan::Plan& p_;
  std::vector<kernel::Kernel>& kernels_;
  std::span<const SymbolSource> sources_;
  size_t fewest_;
  std::vector<bool> accepted_;                                 // by kernel: kernel::can_batch()
  std::vector<uint32_t> becomes_;                              // by step: the step that launches it
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> batched_;  // by kernel and number of items
};

}  // namespace

Result<std::vector<uint32_t>> batch_launches(plan::Plan& p, std::vector<kernel::Kernel>& kernels,
                                             std::span<const SymbolSource> sources, size_t fewest) {
  return Batcher(p, kernels, sources, fewest).run();
}

}  // namespace reprise
