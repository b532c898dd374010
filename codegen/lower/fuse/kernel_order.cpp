#include "codegen/lower/fuse/kernel_order.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace reprise::lower {

KernelOrder::KernelOrder(std::vector<std::vector<size_t>> after)
    : after_(std::move(after)), before_(after_.size()), nodes_(after_.size()) {
  for (size_t i = 0; i < after_.size(); ++i) {
    nodes_[i] = {i};
    for (const size_t user : after_[i]) before_[user].push_back(i);
  }
  vertex_.resize(after_.size());
  std::iota(vertex_.begin(), vertex_.end(), size_t{0});
  place_ = vertex_;
  is_dissolved_.resize(after_.size());
  is_inside_.resize(after_.size());
  seen_.resize(after_.size());
}

KernelOrder::Window KernelOrder::mark_inside(const std::vector<size_t>& nodes) {
  inside_.clear();
  is_inside_.clear();
  Window window{~size_t{0}, 0};
  for (const size_t n : nodes) {
    const size_t v = vertex_[n];
    if (is_dissolved_[n] || !is_inside_.insert(v)) continue;
    inside_.push_back(v);
    window.first = std::min(window.first, place_[v]);
    window.last = std::max(window.last, place_[v]);
  }
  return window;
}

bool KernelOrder::collect(const std::vector<std::vector<size_t>>& edges, const Window& window,
                          std::vector<size_t>& found) {
  seen_.clear();
  bool returns = false;
  const auto follow = [&](size_t vertex, bool from_inside) {
    for (const size_t n : nodes_[vertex]) {
      for (const size_t next : edges[n]) {
        if (is_dissolved_[next]) continue;
        const size_t v = vertex_[next];
        if (is_inside_.has(v)) {
          returns |= !from_inside;
        } else if (place_[v] >= window.first && place_[v] <= window.last && seen_.insert(v)) {
          found.push_back(v);
        }
      }
    }
  };
  for (const size_t v : inside_) follow(v, true);
  for (size_t i = 0; i < found.size() && !returns; ++i) follow(found[i], false);
  return !returns;
}

bool KernelOrder::creates_cycle(const std::vector<size_t>& nodes) {
  const Window window = mark_inside(nodes);
  std::vector<size_t> reached;
  return !collect(after_, window, reached);
}

void KernelOrder::merge(const std::vector<size_t>& nodes) {
  const Window window = mark_inside(nodes);
  if (inside_.size() < 2) return;
  // Vertices that the merged one waits for move before it, and those that wait for it move behind
  // it. They share the places that all of them had, so the others keep theirs.
  std::vector<size_t> later, earlier;
  const bool is_acyclic = collect(after_, window, later) && collect(before_, window, earlier);
  assert(is_acyclic);
  (void)is_acyclic;
  std::vector<size_t> places;
  for (const auto* list : {&earlier, &inside_, &later})
    for (const size_t v : *list) places.push_back(place_[v]);
  std::sort(places.begin(), places.end());
  const auto sooner = [&](size_t a, size_t b) { return place_[a] < place_[b]; };
  std::sort(earlier.begin(), earlier.end(), sooner);
  std::sort(later.begin(), later.end(), sooner);

  const size_t kept = *std::max_element(inside_.begin(), inside_.end(), [&](size_t a, size_t b) {
    return nodes_[a].size() < nodes_[b].size();
  });
  for (const size_t v : inside_) {
    if (v == kept) continue;
    for (const size_t n : nodes_[v]) vertex_[n] = kept;
    nodes_[kept].insert(nodes_[kept].end(), nodes_[v].begin(), nodes_[v].end());
    nodes_[v].clear();
  }
  for (size_t i = 0; i < earlier.size(); ++i) place_[earlier[i]] = places[i];
  place_[kept] = places[earlier.size()];
  for (size_t i = 0; i < later.size(); ++i)
    place_[later[i]] = places[places.size() - later.size() + i];
}

void KernelOrder::dissolve(size_t node) {
  if (is_dissolved_[node]) return;
  is_dissolved_[node] = true;
  for (const size_t from : before_[node]) {
    if (is_dissolved_[from]) continue;
    for (const size_t to : after_[node]) {
      if (is_dissolved_[to]) continue;
      after_[from].push_back(to);
      before_[to].push_back(from);
    }
  }
}

}  // namespace reprise::lower
