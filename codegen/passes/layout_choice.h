// Chooses layouts from prices, independently of the graph.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace reprise::passes {

/// The kind of kernel that reads the result of a conversion between layouts.
enum class Reader {
  Contraction,  // a convolution or MatMul, whose loads apply it
  Kernel,       // any other kernel, whose loads apply it but are then out of order
  Output,       // none: a separate kernel writes the result to memory
};

/// The price of a conversion, in bytes of memory traffic.
double conversion_price(double bytes, Reader reader);

/// The extra cost of channels last for a depthwise convolution with `bytes` of output, each the sum
/// of `taps` products.
double depthwise_price(double bytes, double taps);

/// Values that share one layout, and their cost for each layout.
struct LayoutRegion {
  double first = 0;  // channels first: [N, C, spatial...]
  double last = 0;   // channels last: [N, spatial..., C]
};
/// Two regions that need a conversion between them if their layouts differ.
struct LayoutBorder {
  size_t a = 0, b = 0;
  double price = 0;
};

/// For each region, whether its channels are last, in the cheapest choice. Among equal choices,
/// this is the one with the fewest regions with channels last.
std::vector<bool> choose_layouts(std::span<const LayoutRegion> regions,
                                 std::span<const LayoutBorder> borders);

}  // namespace reprise::passes
