// KernelOrder against a search through the whole graph, over random graphs and merges.
#include "codegen/lower/fuse/kernel_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace reprise::lower {
namespace {

using Edges = std::vector<std::vector<size_t>>;

Edges random_graph(std::mt19937& random, size_t nodes) {
  Edges after(nodes);
  for (size_t i = 0; i + 1 < nodes; ++i) {
    for (size_t n = random() % 3; n > 0; --n)
      after[i].push_back(i + 1 + random() % std::min<size_t>(nodes - i - 1, 12));
  }
  return after;
}

/// What KernelOrder answers, without an order. Paths lead through dissolved nodes.
class Plain {
 public:
  explicit Plain(Edges after)
      : after_(std::move(after)), vertex_(after_.size()), dissolved_(after_.size()) {
    for (size_t i = 0; i < vertex_.size(); ++i) vertex_[i] = i;
  }

  /// The nodes that were merged with this one, which are removed together.
  std::vector<size_t> merged_with(size_t node) const {
    std::vector<size_t> out;
    for (size_t n = 0; n < vertex_.size(); ++n)
      if (vertex_[n] == vertex_[node]) out.push_back(n);
    return out;
  }
  void dissolve(size_t node) { dissolved_[node] = true; }
  bool is_dissolved(size_t node) const { return dissolved_[node]; }

  bool creates_cycle(const std::vector<size_t>& nodes) const {
    std::vector<bool> inside(after_.size()), seen(after_.size());
    for (const size_t n : nodes) inside[vertex_[n]] = true;
    std::vector<size_t> stack;
    for (size_t n = 0; n < after_.size(); ++n) {
      if (!inside[vertex_[n]]) continue;
      for (const size_t next : users(n)) {
        if (!inside[vertex_[next]]) stack.push_back(vertex_[next]);
      }
    }
    while (!stack.empty()) {
      const size_t vertex = stack.back();
      stack.pop_back();
      if (inside[vertex]) return true;
      if (seen[vertex]) continue;
      seen[vertex] = true;
      for (size_t n = 0; n < after_.size(); ++n) {
        if (vertex_[n] != vertex) continue;
        for (const size_t next : users(n))
          if (vertex_[next] != vertex) stack.push_back(vertex_[next]);
      }
    }
    return false;
  }

  void merge(const std::vector<size_t>& nodes) {
    std::vector<bool> inside(after_.size());
    for (const size_t n : nodes) inside[vertex_[n]] = true;
    const size_t into = vertex_[nodes[0]];
    for (size_t& v : vertex_) {
      if (inside[v]) v = into;
    }
  }

 private:
  /// The nodes that wait for n; in place of dissolved ones, those that wait for these.
  std::vector<size_t> users(size_t n) const {
    std::vector<size_t> out;
    for (const size_t next : after_[n]) {
      const std::vector<size_t> beyond = dissolved_[next] ? users(next) : std::vector<size_t>{next};
      out.insert(out.end(), beyond.begin(), beyond.end());
    }
    return out;
  }

  Edges after_;
  std::vector<size_t> vertex_;
  std::vector<bool> dissolved_;
};

TEST(KernelOrder, AnswersAsASearchDoes) {
  size_t cycles = 0, merges = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const size_t size = 2 + random() % 60;
    const Edges after = random_graph(random, size);
    KernelOrder order(after);
    Plain plain(after);
    for (size_t step = 0; step < 60; ++step) {
      const size_t shared = random() % size;
      if (step % 6 == 0) {
        for (const size_t n : plain.merged_with(shared)) {
          order.dissolve(n);
          plain.dissolve(n);
        }
      }
      std::vector<size_t> nodes;
      const size_t first = random() % size;
      for (size_t n = 1 + random() % 3; n > 0; --n)
        nodes.push_back(std::min(first + random() % 8, size - 1));
      std::erase_if(nodes, [&](size_t n) { return plain.is_dissolved(n); });
      if (nodes.empty()) continue;
      const bool expected = plain.creates_cycle(nodes);
      ASSERT_EQ(order.creates_cycle(nodes), expected) << "seed " << seed << ", step " << step;
      ++(expected ? cycles : merges);
      if (expected) continue;
      order.merge(nodes);
      plain.merge(nodes);
    }
  }
  EXPECT_GT(cycles, 500U);
  EXPECT_GT(merges, 500U);
}

}  // namespace
}  // namespace reprise::lower
