#include "codegen/lower/group/fusion_decision.h"

namespace reprise::lower {

std::string FusionDecision::str() const {
  switch (kind) {
    case Kind::Attention:
      return "attention: one kernel computes " + value + " and its softmax";
    case Kind::Region:
      return "region: " + value + " joins " + kernel;
    case Kind::Inline:
      return "inline: " + value + " is computed where " + kernel + " reads it";
    case Kind::Output:
      return "output: the kernel of " + kernel + " also stores " + value;
    case Kind::Merge:
      return "merge: the kernel of " + kernel + " also computes " + value;
  }
  return {};
}

}  // namespace reprise::lower
