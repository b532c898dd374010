// What lowering may rely on: the device facts that a variant's predicate guarantees, and choices
// derived from them. Every schedule decision is a pure function of the group and the target.
#pragma once

#include <string>

#include "codegen/target/target_facts.h"
#include "runtime/facts/device_facts.h"

namespace reprise::lower {

using shaders::TargetFacts;

struct Target {
  std::string name;  // variant name: "vulkan-cpu-sg8"
  Predicate predicate;
  bool loads_64_bits = false;  // see emit::SpirvOptions, and kernel::LegalizeFor::word_loads
  bool on_request = false;     // compiled only if a user names it

  bool cpu_type() const { return predicate.cpu_type; }
  operator TargetFacts() const { return predicate; }  // NOLINT(google-explicit-constructor)
};

}  // namespace reprise::lower
