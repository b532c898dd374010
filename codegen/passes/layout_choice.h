// The choice of layouts as a pure function of prices.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace reprise::passes {

/// What reads the result of a conversion between layouts.
enum class Reader {
  Product,  // a convolution or MatMul, which computes it in its loads
  Kernel,   // any other kernel: the same, but it would else read memory in order
  Output,   // nobody: a kernel of its own writes it to memory
};

/// The price of a conversion, in bytes of memory traffic.
double conversion_price(double bytes, Reader reader);

/// What layout costs a depthwise convolution that writes so many bytes, each of `taps` products.
double depthwise_price(double bytes, double taps);

/// Values that have one layout together, and what each layout costs them.
struct LayoutRegion {
  double first = 0;  // channels first: [N, C, spatial...]
  double last = 0;   // channels last: [N, spatial..., C]
};
/// Two regions with a conversion between them where their layouts differ.
struct LayoutBorder {
  size_t a = 0, b = 0;
  double price = 0;
};

/// By region, whether channels are last: the cheapest choice, and of equal ones the one with the
/// fewest such regions.
std::vector<bool> choose_layouts(std::span<const LayoutRegion> regions,
                                 std::span<const LayoutBorder> borders);

}  // namespace reprise::passes
