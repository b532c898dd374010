// Weights that one kernel packs and another one reads as they are, such as an embedding that is
// also the weight of the last layer. They are on a device once, in the packed form: the other
// kernel finds its elements there.
#pragma once

#include <map>
#include <optional>

#include "codegen/lower/launch/lowered.h"

namespace reprise::lower {

class PackedWeights {
 public:
  explicit PackedWeights(const graph::Graph& g) : g_(g) {}
  /// Notes the forms in which the kernels of a group read weights. Call this for all groups first.
  void add(const Lowered& lowered);
  /// The group that reads packed forms instead of the weights which its kernels read as they are.
  /// Nothing if there are no such weights. Those of which kernels read an element many times stay.
  std::optional<Group> reader(const Group& group, const Lowered& lowered) const;

 private:
  std::optional<plan::Packing> form_of(graph::ValueId v) const;

  const graph::Graph& g_;
  std::map<graph::ValueId, plan::Packing> forms_;  // the first of each weight
};

}  // namespace reprise::lower
