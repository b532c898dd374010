// Input values of tests that are graphs in text. The first line of such a text gives the sizes of
// symbols, the seed of the values, and what the values of an input are like:
//
//   // batch=3,1 seed=17 index=0..4 x=special
//
// A symbol may have several sizes: one for each run of the graph, in order. `devices=full` says
// that the graph runs on devices in the full tier alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/tensor.h"

namespace reprise::test {

/// What the values of one tensor are like.
struct Values {
  enum class Kind : uint8_t {
    Tame,     // small numbers
    Special,  // some of them NaN, infinities, zeros of both signs, limits of the dtype
    Wide,     // of all magnitudes; integers of all bits
    Between,  // from `low` to `high`, both included
  } kind = Kind::Tame;
  double low = 0, high = 0;

  static Values between(double low, double high) { return {Kind::Between, low, high}; }
  /// "tame", "special", "wide", "-3..4".
  std::string str() const;
};

struct Heading {
  std::map<std::string, std::vector<int64_t>> sizes;  // of symbols
  std::map<std::string, Values> values;               // of inputs; tame where there is none
  std::optional<uint64_t> seed;
  bool full_on_devices = false;

  static Heading parse(const std::string& text);
  std::string str() const;
  Values values_of(const std::string& input) const;
};

/// Values follow from dtype, dims, kind, seed and name alone.
HostTensor random_values(DType dtype, const std::vector<int64_t>& dims, const Values& values,
                         uint64_t seed, const std::string& name);

}  // namespace reprise::test
