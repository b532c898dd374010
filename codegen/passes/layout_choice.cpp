#include "codegen/passes/layout_choice.h"

#include <algorithm>
#include <limits>
#include <queue>

namespace reprise::passes {

namespace {

/// A minimum cut. Nodes on the side of the source have channels last.
class Cut {
 public:
  explicit Cut(size_t nodes) : edges_of_(nodes) {}

  void connect(size_t from, size_t to, double capacity, double back) {
    edges_of_[from].push_back(edges_.size());
    edges_.push_back({to, capacity});
    edges_of_[to].push_back(edges_.size());
    edges_.push_back({from, back});
  }

  /// The nodes on the side of the source in a minimum cut, which no more flow leaves.
  std::vector<bool> source_side(size_t source, size_t sink) {
    for (;;) {
      const std::vector<size_t> by = shortest_paths(source);
      if (by[sink] == kUnreached) {
        std::vector<bool> side;
        for (size_t i = 0; i < by.size(); ++i) side.push_back(i == source || by[i] != kUnreached);
        return side;
      }
      double flow = std::numeric_limits<double>::infinity();
      for (size_t at = sink; at != source; at = origin(by[at]))
        flow = std::min(flow, edges_[by[at]].capacity);
      for (size_t at = sink; at != source; at = origin(by[at])) {
        edges_[by[at]].capacity -= flow;
        edges_[by[at] ^ 1].capacity += flow;
      }
    }
  }

 private:
  struct Edge {
    size_t to;
    double capacity;
  };
  static constexpr size_t kUnreached = static_cast<size_t>(-1);

  size_t origin(size_t edge) const { return edges_[edge ^ 1].to; }

  /// For each node, the edge through which a shortest path reaches it.
  std::vector<size_t> shortest_paths(size_t source) const {
    std::vector<size_t> by(edges_of_.size(), kUnreached);
    std::queue<size_t> open;
    open.push(source);
    while (!open.empty()) {
      const size_t at = open.front();
      open.pop();
      for (size_t e : edges_of_[at]) {
        const size_t to = edges_[e].to;
        if (edges_[e].capacity <= 0 || to == source || by[to] != kUnreached) continue;
        by[to] = e;
        open.push(to);
      }
    }
    return by;
  }

  std::vector<Edge> edges_;  // each edge is followed by its reverse
  std::vector<std::vector<size_t>> edges_of_;
};

}  // namespace

double conversion_price(double bytes, Reader reader) {
  switch (reader) {
    case Reader::Contraction:
      // Measured: a difference of at most 5%. This price keeps conversions few and small.
      return bytes / 16;
    case Reader::Kernel:
      return bytes;
    case Reader::Output:
      return 2 * bytes;
  }
  return 0;
}

double depthwise_price(double bytes, double taps) {
  // Drivers with slow loads take twice as long: they need 2 ns for the 9 products of 4 bytes, in
  // which other drivers copy 4 bytes four times.
  return bytes * taps / 4;
}

std::vector<bool> choose_layouts(std::span<const LayoutRegion> regions,
                                 std::span<const LayoutBorder> borders) {
  const size_t source = regions.size();
  const size_t sink = source + 1;
  Cut cut(sink + 1);
  for (size_t i = 0; i < regions.size(); ++i) {
    const double common = std::min(regions[i].first, regions[i].last);
    cut.connect(source, i, regions[i].first - common, 0);
    cut.connect(i, sink, regions[i].last - common, 0);
  }
  for (const LayoutBorder& b : borders) cut.connect(b.a, b.b, b.price, b.price);
  std::vector<bool> last = cut.source_side(source, sink);
  last.resize(regions.size());
  return last;
}

}  // namespace reprise::passes
